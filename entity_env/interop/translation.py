"""One player of a Gymnasium-like environment: spaces, observations, masks and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.actions import Action, GlobalCategoricalAction
from entity_env.errors import (
    MaskShapeError,
    ObservationError,
    SpaceError,
    UnknownActionError,
    shorten,
)
from entity_env.interop.space_reader import ObservationReader, names_of
from entity_env.observation import GlobalCategoricalActionMask, Observation
from entity_env.spaces import ActionName, GlobalCategoricalActionSpace

__all__ = ["Translation", "split_mask"]

MASK = "action_mask"


class Translation:
    """Speaks for one player whose spaces are Gymnasium's.

    Args:
        observation_space: Its observations. A ``Dict`` with the key ``action_mask`` gives the mask
            beside the observation, as PettingZoo's games do.
        action_space: Its actions.
    """

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
    ) -> None:
        self._actions = _ChoiceWriter(action_space)
        plain = _without_mask(observation_space)
        self._holds_mask = plain is not observation_space
        self._reader = ObservationReader(plain)
        self.obs_space = self._reader.obs_space
        self.action_space = self._actions.action_space

    def observe(
        self,
        observation: Any,
        info: Mapping[str, Any],
        reward: float = 0.0,
        terminated: bool = False,
        truncated: bool = False,
    ) -> Observation:
        """The observation with its masks, which come beside it or in ``info["action_mask"]``."""
        if type(info) is not dict and not isinstance(info, Mapping):
            raise ObservationError("info is not a dict", received=shorten(info))
        mask = info.get(MASK)
        if self._holds_mask:
            observation, mask = split_mask(observation, info)
        global_features, features = self._reader.read(observation)
        done = bool(terminated) or bool(truncated)
        return Observation(
            features=features,
            global_features=global_features,
            actions={} if done else self._actions.masks(mask),
            reward=reward,
            done=done,
            truncated=done and not terminated,
        )

    def act(self, actions: Mapping[ActionName, Action]) -> Any:
        """The action as the environment wants it."""
        return self._actions.write(actions)


def split_mask(observation: Any, info: Mapping[str, Any]) -> tuple[Any, Any]:
    """An observation without its action mask, and the mask, or None where there is none."""
    if not isinstance(observation, Mapping) or MASK not in observation:
        return observation, info.get(MASK)
    rest = {key: value for key, value in observation.items() if key != MASK}
    return (rest["observation"] if list(rest) == ["observation"] else rest), observation[MASK]


def _without_mask(space: spaces.Space[Any]) -> spaces.Space[Any]:
    if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
        return space
    rest = {key: inner for key, inner in space.spaces.items() if key != MASK}
    return rest["observation"] if list(rest) == ["observation"] else spaces.Dict(rest)


class _ChoiceWriter:
    """Choices as actions of a ``Discrete``, ``MultiDiscrete`` or ``MultiBinary`` space."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        if isinstance(space, spaces.Discrete):
            counts, starts = np.asarray(space.n), np.asarray(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            counts, starts = space.nvec, space.start
        elif isinstance(space, spaces.MultiBinary):
            counts, starts = np.full(space.shape, 2), np.zeros(space.shape, np.int64)
        else:
            raise SpaceError(
                f"the action space is a {type(space).__name__}",
                expected="Discrete, MultiDiscrete or MultiBinary",
                received=shorten(space),
                hint="put a wrapper around the environment that offers a list of choices",
            )
        self.starts = starts
        self.dtype: Any = space.dtype
        self.counts: list[int] = counts.ravel().tolist()
        names = names_of("action", counts.shape)
        each = zip(names, self.counts, starts.ravel().tolist(), strict=True)
        self.action_space = {
            name: GlobalCategoricalActionSpace([str(start + i) for i in range(count)])
            for name, count, start in each
        }
        self._everything = dict.fromkeys(names, GlobalCategoricalActionMask())

    def write(self, actions: Mapping[ActionName, Action]) -> Any:
        """The action of the space: of a ``Discrete`` one a number, as its samples are."""
        if not self.starts.shape:
            return self.dtype.type(self.starts + _index("action", actions))
        chosen = [_index(name, actions) for name in self.action_space]
        return (np.reshape(chosen, self.starts.shape) + self.starts).astype(self.dtype)

    def masks(self, mask: Any) -> dict[ActionName, GlobalCategoricalActionMask]:
        """The mask of each action; None allows everything."""
        if mask is None:
            return dict(self._everything)
        parts = self._split(mask)
        return {
            name: GlobalCategoricalActionMask(part)
            for name, part in zip(self.action_space, parts, strict=True)
        }

    def _split(self, mask: Any) -> Sequence[npt.NDArray[Any]]:
        """The part of each action: ``mask`` has one after the other, or is a list of them."""
        single = not self.starts.shape
        try:
            if not single and isinstance(mask, tuple | list) and all(np.ndim(m) for m in mask):
                parts = [np.array(part).ravel() for part in mask]
            else:
                parts = np.split(np.array(mask).ravel(), np.cumsum(self.counts)[:-1])
        except ValueError:  # rows of different lengths
            parts = []
        if [len(part) for part in parts] != self.counts:
            raise MaskShapeError(
                "the action mask has the wrong shape",
                expected=f"({sum(self.counts)},)"
                + ("" if single else f", or parts of {self.counts} choices"),
                received=shorten(mask),
            )
        return parts


def _index(name: ActionName, actions: Mapping[ActionName, Action]) -> int:
    action = actions.get(name)
    if not isinstance(action, GlobalCategoricalAction):
        raise UnknownActionError(
            f"action {name!r} is missing",
            expected="a GlobalCategoricalAction",
            received=shorten(action),
        )
    return action.index
