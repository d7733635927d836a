"""Conversion between Gymnasium action spaces and global actions.

=================  ================================================================================
``Discrete``       one action; its labels are the values passed to the environment
``MultiDiscrete``  an action for each number: ``action[0]``, ``action[0,1]``
``MultiBinary``    the same, with the labels 0 and 1
``Box``            one continuous action for all its numbers
``Dict``           its parts, named after their keys: ``move``, ``arm/grip[0]``
``Tuple``          its parts, named after their places: ``action/0``
=================  ================================================================================

A mask has a number for each choice of all actions, in their order: in one array, as in
``sb3_contrib``, or in a tuple with an array for each action, as in ``sample`` of ``MultiDiscrete``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.actions import Action
from entity_env.batching.kinds.table import kind_of
from entity_env.errors import MaskError, SpaceError, counted, shorten
from entity_env.interop.observation_reader import SpacePart, counts_of, names_of, parts_of
from entity_env.observation import (
    ActionMask,
    GlobalCategoricalActionMask,
    GlobalContinuousActionMask,
)
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    GlobalCategoricalActionSpace,
    GlobalContinuousActionSpace,
)

__all__ = ["ActionWriter"]

Array: TypeAlias = npt.NDArray[Any]
_ENDLESS = 1e30


class ActionWriter:
    """Conversion of choices and numbers to actions of a Gymnasium space, and back.

    Args:
        space: The space.

    Raises:
        SpaceError: A part of the space is neither a list of choices nor numbers.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._space = space
        self._parts = [_action_part(part) for part in parts_of(space, "action")]
        self.action_space: dict[ActionName, ActionSpace] = {}
        self._counts: dict[ActionName, int] = {}  # of choices; 0 for continuous actions
        for part in self._parts:
            if twice := self.action_space.keys() & part.actions.keys():
                raise SpaceError(f"the action space has two parts with the name {min(twice)!r}")
            self.action_space |= part.actions
            self._counts |= part.counts
        if not self.action_space:
            raise SpaceError("the action space has no choices", received=shorten(space))
        self._without_choice: set[ActionName] = set()

    def write(self, actions: Mapping[ActionName, Action]) -> Any:
        """Return the action of the space, with the first value where the last mask allowed none.

        Raises:
            ActionError: An action is missing, or of another class.
        """
        chosen: dict[ActionName, Any] = dict.fromkeys(self._without_choice, 0)
        for name, space in self.action_space.items():
            if name in self._without_choice and name not in actions:
                continue
            kind = kind_of(space)
            kind.check_class(name, actions.get(name))
            chosen[name] = kind.given(actions[name])[0]
        return _nested(self._space, iter([part.write(chosen) for part in self._parts]))

    def read(self, value: Any) -> dict[ActionName, Any]:
        """Return the index or the numbers of each action for an action of the space."""
        chosen: dict[ActionName, Any] = {}
        for part in self._parts:
            chosen |= part.read(part.part.value_in(value))
        return chosen

    def masks(self, mask: Any) -> dict[ActionName, ActionMask]:
        """Return the mask of each action; None allows everything.

        If all choices of an action are forbidden, but not those of another one, the action is left
        out, and it gets its first value, as in Gymnasium's ``sample``.

        Raises:
            MaskError: The mask does not fit the space.
        """
        counts = list(self._counts.values())
        arrays: list[Array | None] = [None] * len(counts) if mask is None else _arrays(mask)
        if len(arrays) == 1 and arrays[0] is not None and len(arrays[0]) == sum(counts):
            arrays = list(np.split(arrays[0], np.cumsum(counts)[:-1]))
        if len(arrays) != len(counts) or not all(map(_fits, arrays, counts)):
            raise MaskError(
                "the action mask does not fit the action space",
                expected=f"({sum(counts)},): a number for each choice of "
                f"{', '.join(map(repr, self._counts))}; or a tuple with an array for each action",
                received=shorten(mask),
            )
        parts = dict(zip(self._counts, arrays, strict=True))
        empty = {name for name, part in parts.items() if part is not None and _forbids_all(part)}
        self._without_choice = empty if len(empty) < len(parts) else set()
        return {
            name: GlobalCategoricalActionMask(part)
            if self._counts[name]
            else GlobalContinuousActionMask()
            for name, part in parts.items()
            if name not in self._without_choice
        }


class _Choices:
    """A part that is ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``: a number or an array."""

    def __init__(self, part: SpacePart, counts: Array, first: Array) -> None:
        self.part, self._shape, self._first = part, counts.shape, first.ravel().tolist()
        self._dtype = np.dtype(part.space.dtype)
        self.counts = dict(
            zip(names_of(part.name, counts.shape), counts.ravel().tolist(), strict=True)
        )
        self.actions: dict[ActionName, ActionSpace] = {
            name: GlobalCategoricalActionSpace([str(start + i) for i in range(count)])
            for (name, count), start in zip(self.counts.items(), self._first, strict=True)
        }

    def write(self, chosen: Mapping[ActionName, Any]) -> Any:
        pairs = zip(self.actions, self._first, strict=True)
        values = [first + chosen[name] for name, first in pairs]
        if not self._shape:  # a number, as the samples of ``Discrete`` are
            return self._dtype.type(values[0])
        return np.array(values, self._dtype).reshape(self._shape)

    def read(self, value: Any) -> dict[ActionName, Any]:
        indices = np.ravel(value).astype(np.int64) - self._first
        return dict(zip(self.actions, indices.tolist(), strict=True))


class _Numbers:
    """A ``Box``: one continuous action of the player as a whole.

    A number without a bound on a side, or with one beyond 1e30, is not limited there, and a warning
    says so: an agent samples it around 0, or around a point 1 inside its only bound, with a
    standard deviation that is learned, starting at 0.5. ``TransformAction`` of Gymnasium can add
    bounds; ``RescaleAction`` cannot. Numbers of boxes of integers are rounded.
    """

    def __init__(self, part: SpacePart, space: spaces.Box) -> None:
        self.part, self._space, self.counts = part, space, {part.name: 0}
        low, high = (bounds.ravel().astype(np.float64) for bounds in (space.low, space.high))
        self._low = np.where(low < -_ENDLESS, -np.inf, low)
        self._high = np.where(high > _ENDLESS, np.inf, high)
        try:
            numbers = GlobalContinuousActionSpace(self._low.tolist(), self._high.tolist())
        except SpaceError as error:
            raise error.located(f"the action space of {part.name!r}") from error.__cause__
        self.actions: dict[ActionName, ActionSpace] = {part.name: numbers}
        endless = int((~np.isfinite(self._low) | ~np.isfinite(self._high)).sum())
        if endless:
            warnings.warn(
                f"action {part.name!r}: {endless} of {counted(len(low), 'number')} have no bound "
                "on a side. They are sampled around 0, or 1 inside their only bound, with a "
                "learned standard deviation that starts at 0.5, and are not clipped on that side. "
                "gymnasium.wrappers.TransformAction can add bounds.",
                stacklevel=2,
            )

    def write(self, chosen: Mapping[ActionName, Any]) -> Any:
        dtype = np.dtype(self._space.dtype)
        values = np.asarray(chosen[self.part.name], np.float64).reshape(self._space.shape)
        values = np.rint(values) if dtype.kind in "iub" else values
        return np.clip(values, self._space.low, self._space.high).astype(dtype)

    def read(self, value: Any) -> dict[ActionName, Any]:
        numbers = np.asarray(value, np.float64).reshape(self._low.shape)
        return {self.part.name: np.clip(numbers, self._low, self._high)}


def _action_part(part: SpacePart) -> _Choices | _Numbers:
    if isinstance(part.space, spaces.Box):
        return _Numbers(part, part.space)
    counts = counts_of(part.space)
    if counts is None:
        raise SpaceError(
            f"the action space of {part.name!r} is a {type(part.space).__name__}",
            expected="Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them",
            received=shorten(part.space),
            hint="a gymnasium.ActionWrapper with one of these spaces can translate its actions: "
            "see docs/wrap.md",
        )
    return _Choices(part, *counts)


def _nested(space: spaces.Space[Any], values: Iterator[Any]) -> Any:
    """Return the values of the parts in the structure of ``Dict``s and ``Tuple``s."""
    if isinstance(space, spaces.Dict):
        return {key: _nested(inner, values) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nested(inner, values) for inner in space.spaces)
    return next(values)


def _arrays(mask: Any) -> list[Array | None]:
    """Return the arrays of nested tuples or lists, or the single array; None allows everything."""
    if mask is None:
        return [None]
    nested = isinstance(mask, tuple | list)
    if nested and any(part is None or isinstance(part, tuple | list | np.ndarray) for part in mask):
        return [array for part in mask for array in _arrays(part)]
    array = np.array(mask)
    return [array.ravel() if array.dtype.kind in "biuf" else np.zeros(0)]


def _fits(array: Array | None, count: int) -> bool:
    return array is None or len(array) == count


def _forbids_all(array: Array) -> bool:
    return len(array) > 0 and not array.any()
