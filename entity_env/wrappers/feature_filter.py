"""Filters that keep a part of the entity types and features.

All rows are filtered at once. One environment is a batch of one frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.answers import answers_of_frames
from entity_env.batching.kinds.kind import rows_of
from entity_env.batching.kinds.table import answer_forms, typed_actions
from entity_env.batching.ragged import ActionBuffer, RaggedBufferF32, RaggedBufferI64
from entity_env.batching.unbatch import answers_in_frame, observations_of
from entity_env.batching.vec_obs import VecActionMask, VecObs, batch_frames
from entity_env.environment import Environment
from entity_env.errors import SettingError
from entity_env.observation import EntityID, Observation
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.wrappers.selection import Selection
from entity_env.wrappers.vec_wrapper import VecWrapper
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["FeatureFilter", "VecFeatureFilter", "filtered_frame"]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


@named_arguments(SettingError)
class VecFeatureFilter(VecWrapper):
    """A wrapper of rows that keeps the entity types and features of a smaller space, in its order.

    Entities of a type that is left out cannot be selected, and their choices are made here: such an
    actor, or one that can select such entities only, takes the first choice that its mask allows,
    or in a continuous action the allowed numbers closest to 0. The action space does not change.

    Args:
        env: The rows.
        obs_space: The smaller space.

    Raises:
        SpaceError: The rows lack a type or a feature of ``obs_space``, or have it of another kind,
            such as ``Discrete("terrain", 4)`` instead of ``Discrete("terrain", 5)``.
    """

    def __init__(self, env: VecEnv, obs_space: ObsSpace) -> None:
        super().__init__(env)
        self._selection = Selection.of(self.env.obs_space(), obs_space)
        self._answers: dict[ActionName, _Answer] = {}

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._selection.part

    def _checked_actions(
        self, actions: Mapping[ActionName, ActionBuffer], obs: VecObs
    ) -> Mapping[ActionName, ActionBuffer]:
        return VecEnv._checked_actions(self, actions, obs)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        return super()._act(_complete(chosen, self._answers))

    def observation(self, obs: VecObs) -> VecObs:
        """Return the part of ``obs`` that is kept."""
        shown, self._answers = _filtered(obs, self._selection)
        if obs.final is not None:
            shown = replace(shown, final=_filtered(obs.final, self._selection)[0])
        return shown


@named_arguments(SettingError)
class FeatureFilter(Wrapper):
    """``VecFeatureFilter`` for one environment.

    Ids do not change. Entities without ids are named by their type and their place among those of
    their type, such as ``("Mine", 0)``.

    Args:
        env: The environment.
        obs_space: The smaller space.

    Raises:
        SpaceError: See ``VecFeatureFilter``.
    """

    def __init__(self, env: Environment, obs_space: ObsSpace) -> None:
        super().__init__(env)
        self._reader = FrameReader(env.obs_space(), env.action_space())
        self._selection = Selection.of(self._reader.obs_space, obs_space)
        self._shown_reader = FrameReader(obs_space, self._reader.action_space)

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._selection.part

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        space = self._reader.action_space
        forms, own = answer_forms(space), answers_in_frame(actions, self._seen, space)
        chosen = {
            name: form.buffer(own[name], np.array([len(own[name])])) for name, form in forms.items()
        }
        (whole,) = answers_of_frames(_complete(chosen, self._answers), self._masks, forms)
        return super().act(typed_actions(self._frame, whole, space))

    def observation(self, observation: Observation) -> Observation:
        """Return the part of ``observation`` that is kept."""
        self._frame = frame = self._reader.read(observation)
        space = self._reader.action_space
        whole = batch_frames([frame], self._reader.obs_space, space)
        self._masks = whole.action_masks
        part, self._answers = _filtered(whole, self._selection)
        given = {
            name: ids
            for name, ids in (observation.ids or {}).items()
            if ids is not None and all(one is not None for one in ids)
        }
        (shown,) = observations_of(part, self._selection.part, space, [given])
        self._seen = self._shown_reader.read(shown)
        return replace(
            shown,
            reward=observation.reward,
            done=frame.done,
            truncated=frame.truncated,
            metrics=frame.metrics,
        )


def filtered_frame(
    frame: Frame, selection: Selection, action_space: Mapping[ActionName, ActionSpace]
) -> Frame:
    """Return the part of one frame that a selection keeps."""
    if selection.is_whole:
        return frame
    whole = batch_frames([frame], selection.whole, action_space)
    shown, _ = _filtered(whole, selection)
    ids: dict[str, Sequence[EntityID]] = {}
    first = 0
    for name, rows in frame.features.items():
        ids[name], first = frame.ids[first : first + len(rows)], first + len(rows)
    actors = {name: mask.of_frame() for name, mask in shown.action_masks.items()}
    return replace(
        frame,
        features={name: own.as_array() for name, own in shown.features.items()},
        global_features=shown.global_features[0],
        visible={name: own.as_array()[:, 0] for name, own in shown.visible.items()},
        ids=[one for name in selection.columns for one in ids[name]],
        actions={name: who for name, who in actors.items() if who is not None},
    )


def _filtered(obs: VecObs, kept: Selection) -> tuple[VecObs, dict[ActionName, _Answer]]:
    """Return the kept part, and for each action its answer if the entities are numbered anew."""
    answers: dict[ActionName, _Answer] = {}
    if not kept.keeps_types:
        order = _EntityOrder.of(obs, kept)
        for name, mask in obs.action_masks.items():
            part, acts, default = mask.part(order)
            renumbers = order if hasattr(mask, "actees") else None
            answers[name] = _Answer(part, acts, default, mask.actors.size1(), renumbers)
    shown = replace(
        obs,
        features={
            name: RaggedBufferF32.from_flattened(
                obs.features[name].as_array().take(columns, axis=1), obs.features[name].size1()
            )
            for name, columns in kept.columns.items()
        },
        action_masks={name: answer.mask for name, answer in answers.items()} or obs.action_masks,
        global_features=obs.global_features.take(kept.global_columns, axis=1),
        visible={name: obs.visible[name] for name in kept.columns if name in obs.visible},
    )
    return shown, answers


def _complete(
    chosen: Mapping[ActionName, ActionBuffer], answers: Mapping[ActionName, _Answer]
) -> Mapping[ActionName, ActionBuffer]:
    """Return the choices of all actors, in the numbers of the complete observation."""
    return {name: answer.of(chosen[name]) for name, answer in answers.items()} or chosen


@dataclass(frozen=True)
class _Answer:
    """The filtered mask of one action, and data to convert choices for the complete mask.

    Args:
        mask: The filtered mask.
        acts: True for actors that are kept. Shape: (A,).
        default: The choices of actors that are left out. Shape: (A, 1), or (A, K) for a continuous
            action.
        lengths: The number of actors of each row in the complete mask. Shape: (R,).
        order: Indices of selected entities; None for other actions.
    """

    mask: VecActionMask
    acts: Bools
    default: npt.NDArray[Any]
    lengths: Ints
    order: _EntityOrder | None

    def of(self, chosen: ActionBuffer) -> ActionBuffer:
        """Return the choices of all actors, given those of the actors that are kept."""
        values: npt.NDArray[Any] = chosen.as_array()
        if self.order is not None:
            selected = values.ravel()
            rows = rows_of(chosen).repeat(values.shape[1])
            old = self.order.original(selected.clip(0), rows)
            values = np.where(selected < 0, selected, old).reshape(values.shape)
        choices = self.default.copy()
        choices[self.acts] = values
        buffer: Any = RaggedBufferF32 if choices.dtype == np.float32 else RaggedBufferI64
        return buffer.from_flattened(choices, self.lengths)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _EntityOrder:
    """The indices of each row's entities in a space and in a part of it.

    In both, the player has the index after the last entity.

    Args:
        ends: The index after the last entity of each type. Shape: (R, types).
        shift: Numbers to add to an index to get the new index. Shape: (R, types + 1).
        stays: True for the types in the part, and for the player. Shape: (types + 1,).
        new_ends: ``ends`` of the part. Shape: (R, types of the part).
        back: Numbers to add to a new index to get the old one. Shape: (R, types of the part).
    """

    ends: Ints
    shift: Ints
    stays: Bools
    new_ends: Ints
    back: Ints

    @classmethod
    def of(cls, obs: VecObs, selection: Selection) -> _EntityOrder:
        """Return the indices in ``obs``, which has the space ``selection.whole``."""
        names = list(selection.whole.entities)
        lengths = np.zeros((obs.num_frames, len(names)), np.int64)
        for place, name in enumerate(names):
            lengths[:, place] = obs.features[name].size1()
        places = [names.index(name) for name in selection.part.entities]
        ends, new_ends = np.cumsum(lengths, axis=1), np.cumsum(lengths[:, places], axis=1)
        back = (ends[:, places] - new_ends).astype(np.int64, copy=False)
        shift = np.zeros((obs.num_frames, len(names) + 1), np.int64)
        shift[:, places] = -back
        shift[:, -1] = lengths[:, places].sum(axis=1) - lengths.sum(axis=1)
        stays = np.isin(np.arange(len(names) + 1), [*places, len(names)])
        return cls(ends, shift, stays, new_ends, back)

    def renumbered(self, entities: Ints, rows: Ints) -> tuple[Bools, Ints]:
        """Return a mask of the entities that stay, and their new indices."""
        types = (entities[:, None] >= self.ends[rows]).sum(axis=1)
        return self.stays[types], entities + self.shift[rows, types]

    def original(self, entities: Ints, rows: Ints) -> Ints:
        """Return the old indices of entities that have new ones."""
        types = (entities[:, None] >= self.new_ends[rows]).sum(axis=1)
        old: Ints = entities + self.back[rows, types]
        return old
