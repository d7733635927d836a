"""``VecObs``, a batch of many frames in ragged buffers without padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.arguments import unknown_argument
from entity_env.batching.features import is_listed
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.categorical import VecCategoricalActionMask
from entity_env.batching.kinds.continuous import VecContinuousActionMask
from entity_env.batching.kinds.select_entity import VecSelectEntityActionMask
from entity_env.batching.kinds.table import kind_of
from entity_env.batching.ragged import (
    ActionBuffer,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
)
from entity_env.errors import (
    ActionError,
    ObservationError,
    SettingError,
    counted,
    shorten,
    unknown_name,
)
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, EntityName, ObsSpace

__all__ = [
    "VecActionMask",
    "VecCategoricalActionMask",
    "VecContinuousActionMask",
    "VecObs",
    "VecSelectEntityActionMask",
    "all_rows",
    "batch_frames",
    "batch_obs",
    "check_all_asked",
    "check_final",
]


_NOTHING: Mapping[str, Any] = MappingProxyType({})
"""A placeholder for a new empty dict."""


VecActionMask: TypeAlias = Union[
    VecCategoricalActionMask, VecSelectEntityActionMask, VecContinuousActionMask
]


@dataclass(frozen=True)
class VecObs:
    """The observations of the rows that must act, and the rewards and ends of all rows.

    There are B frames, one for each row that must act: usually all R rows, but in an ``AsyncEnv``
    the rows that are ready, and in a game with turns the seats whose turn it is. ``reward``,
    ``done`` and ``truncated`` are those of all R rows since the last ``VecObs``.

    Rows reset themselves: if ``done`` is set, the reward belongs to the episode that is over, and a
    frame of that row is the first observation of its next episode. Later steps do not change a
    ``VecObs`` that was returned.

    Args:
        features: For each entity type of the space. Shape: (B, N, F).
        action_masks: For each action of the action space.
        reward: Shape: (R,), float32.
        done: Shape: (R,), bool.
        truncated: True if a limit ended the episode, not the game. Shape: (R,), bool.
        global_features: Shape: (B, G), float32.
        visible: Visibility masks of types with hidden entities. Shape: (B, N, 1).
        metrics: Metrics of the episodes that have ended, NaN in rows without one. Shape: (R,),
            float64. Empty if no episode ended.
        final: The last observations of the truncated rows, in row order, or None.
        rows: The row of each frame, ascending; left out, all rows. Shape: (B,), int64.
        over: The row's game has ended. Left out, that is when all seats which have acted are done,
            as in games whose seats end together. Shape: (R,), bool.
    """

    features: Mapping[EntityName, RaggedBufferF32]
    action_masks: Mapping[ActionName, VecActionMask]
    reward: npt.NDArray[np.float32]
    done: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    global_features: npt.NDArray[np.float32]
    visible: Mapping[EntityName, RaggedBufferBool] = field(default_factory=dict)
    metrics: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    final: VecObs | None = None
    rows: npt.NDArray[np.int64] = None  # type: ignore[assignment]  # filled in
    over: npt.NDArray[np.bool_] | None = None

    def __init__(
        self,
        features: Mapping[EntityName, RaggedBufferF32],
        action_masks: Mapping[ActionName, VecActionMask],
        reward: npt.NDArray[np.float32],
        done: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
        global_features: npt.NDArray[np.float32],
        visible: Mapping[EntityName, RaggedBufferBool] = _NOTHING,
        metrics: Mapping[str, npt.NDArray[np.float64]] = _NOTHING,
        final: VecObs | None = None,
        rows: npt.NDArray[np.int64] | None = None,
        over: npt.NDArray[np.bool_] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            names = [part.name for part in fields(VecObs)]
            raise unknown_argument(ObservationError, "VecObs", unknown, names)
        given = {
            "features": features,
            "action_masks": action_masks,
            "reward": reward,
            "done": done,
            "truncated": truncated,
            "global_features": global_features,
            "visible": {} if visible is _NOTHING else visible,
            "metrics": {} if metrics is _NOTHING else metrics,
            "final": final,
            "rows": all_rows(len(reward)) if rows is None else rows,
            "over": over,
        }
        self.__dict__.update(given)

    def __len__(self) -> int:
        """Return the number of rows R."""
        return len(self.reward)

    @property
    def num_frames(self) -> int:
        """The number of frames B, one for each row that must act."""
        return len(self.rows)

    def ragged_actions(
        self, choices: Mapping[ActionName, npt.NDArray[Any]]
    ) -> dict[ActionName, ActionBuffer]:
        """Return choices as ``VecEnv.act`` takes them, one frame after the other.

        Args:
            choices: For each action, the choice of each of its A actors: (A,) int64; numbers (A, K)
                float32 of a continuous action; sets (A, at_most) int64.

        Raises:
            ActionError: There is no action of that name, or it has another number of actors.
        """
        buffers = dict[ActionName, ActionBuffer]()
        for name, values in choices.items():
            if name not in self.action_masks:
                what = f"the observation has no action {name!r}"
                raise unknown_name(ActionError, what, name, self.action_masks)
            lengths = self.action_masks[name].actors.size1()
            if len(values) != lengths.sum():
                raise ActionError(
                    f"action {name!r} has choices of other actors than those of the observation",
                    expected=f"{counted(int(lengths.sum()), 'choice')}, one for each actor",
                    received=len(values),
                )
            kind = RaggedBufferI64 if values.dtype == np.int64 else RaggedBufferF32
            flat = values if values.ndim == 2 else values[:, None]
            buffers[name] = kind.from_flattened(flat, lengths)
        return buffers


@lru_cache(maxsize=64)
def all_rows(count: int) -> npt.NDArray[np.int64]:
    """Return the numbers 0 to ``count`` - 1, always the same read-only array."""
    rows = np.arange(count)
    rows.flags.writeable = False
    return rows


def check_all_asked(owner: str, obs: VecObs) -> None:
    """Raise SettingError unless all rows must act, which ``owner`` requires."""
    if obs.num_frames != len(obs):
        raise SettingError(
            f"{owner} needs rows that act together",
            expected=f"an observation of all {counted(len(obs), 'row')} at each step",
            received=f"an observation of {obs.num_frames} of them (VecObs.rows)",
        )


def check_final(obs: VecObs) -> None:
    """Raise ObservationError unless each truncated row has its final observation."""
    final = 0 if obs.final is None else obs.final.num_frames
    if final != obs.truncated.sum():
        raise ObservationError(
            "the final observations are not those of the truncated rows",
            expected=f"{counted(obs.truncated.sum(), 'frame')} in VecObs.final",
            received=final,
        )


def batch_obs(
    observations: Sequence[Observation],
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
) -> VecObs:
    """Check observations and pack them; errors name the position of the observation."""
    reader = FrameReader(obs_space, action_space)
    if not is_listed(observations):
        raise ObservationError(
            "the observations are not a list",
            expected="a list of observations",
            received=shorten(observations),
        )
    frames = [reader.read(own, f"observation {row}") for row, own in enumerate(observations)]
    return batch_frames(frames, obs_space, reader.action_space)


def batch_frames(
    frames: Sequence[Frame], obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]
) -> VecObs:
    """Pack checked frames."""
    return VecObs(
        features={
            name: _ragged(
                RaggedBufferF32,
                [f.features[name] for f in frames],
                np.float32,
                len(entity.features),
            )
            for name, entity in obs_space.entities.items()
        },
        action_masks={
            name: kind_of(space).pack([frame.actions.get(name) for frame in frames], space)
            for name, space in action_space.items()
        },
        reward=np.array([f.reward for f in frames], dtype=np.float32),
        done=np.array([f.done for f in frames], dtype=np.bool_),
        truncated=np.array([f.truncated for f in frames], dtype=np.bool_),
        global_features=np.array([f.global_features for f in frames], np.float32).reshape(
            len(frames), len(obs_space.global_features)
        ),
        visible=_visible(frames, obs_space),
        metrics={},
    )


def _ragged(
    kind: Callable[..., Any], parts: list[npt.NDArray[Any]], dtype: type, width: int
) -> Any:
    """Return a buffer with a frame for each part of shape (N, width), or (N,) for width 1."""
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    shaped = [part.reshape(len(part), width) for part in parts] or [_no_rows(width)]
    flat = shaped[0] if len(shaped) == 1 else np.concatenate(shaped)
    return kind.from_flattened(flat.astype(dtype, copy=False), lengths)  # type: ignore[attr-defined]


def _no_rows(width: int) -> npt.NDArray[np.float32]:
    return np.zeros((0, width), dtype=np.float32)


def _visible(frames: Sequence[Frame], obs_space: ObsSpace) -> dict[EntityName, RaggedBufferBool]:
    hiding = [frame for frame in frames if frame.visible]
    if not hiding:
        return {}
    return {
        name: _ragged(
            RaggedBufferBool,
            [f.visible.get(name, np.ones(len(f.features[name]), np.bool_)) for f in frames],
            np.bool_,
            1,
        )
        for name in obs_space.entities
        if any(name in f.visible and not f.visible[name].all() for f in hiding)
    }
