"""Gymnasium action spaces as actions of the player as a whole, and back.

=================  ================================================================================
``Discrete``       one action; its labels are the values that the environment gets
``MultiDiscrete``  an action for each number: ``action[0]``, ``action[0,1]``
``MultiBinary``    the same, with the labels 0 and 1
``Box``            one continuous action for all its numbers; see ``boxes.py``
``Dict``           its parts, named after their keys: ``move``, ``arm/grip[0]``
``Tuple``          its parts, named after their places: ``action/0``
=================  ================================================================================

Masks are read as the ``sample`` of these spaces reads them, or with all choices one after the
other, as ``sb3_contrib`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.actions import Action, GlobalCategoricalAction, GlobalContinuousAction
from entity_env.errors import (
    MaskShapeError,
    MaskTypeError,
    SpaceError,
    UnknownActionError,
    nearest,
    shorten,
)
from entity_env.interop.boxes import Numbers
from entity_env.interop.names import named_parts, names_of
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

__all__ = ["ChoiceWriter"]

Array: TypeAlias = npt.NDArray[Any]
Masks: TypeAlias = dict[ActionName, Union[Array, None]]
"""The mask of each action; None allows everything."""


class ChoiceWriter:
    """Choices and numbers as actions of a Gymnasium space.

    Args:
        space: The space.

    Raises:
        SpaceError: A part of the space that is neither a list of choices nor numbers, with its
            name.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._root = _part(space, "", "action")
        self.action_space: dict[ActionName, ActionSpace] = {}
        for leaf in self._root.leaves():
            for name, own in leaf.actions():
                if name in self.action_space:
                    raise SpaceError(f"the action space has two parts that are called {name!r}")
                self.action_space[name] = own
        if not self.action_space:
            raise SpaceError("the action space holds nothing to choose", received=shorten(space))
        self._everything: dict[ActionName, ActionMask] = {
            name: self._mask(name, None) for name in self.action_space
        }
        self._unasked: set[ActionName] = set()

    def write(self, actions: Mapping[ActionName, Action]) -> Any:
        """Return the action of the space; where the last mask left nothing, the first value."""
        return self._root.write({name: self._answer(name, actions) for name in self.action_space})

    def masks(self, mask: Any) -> dict[ActionName, ActionMask]:
        """Return the mask of each action; None allows everything.

        A part whose choices are all forbidden, while another one has some, has nothing to decide:
        its action is left out, and its value is the first, as in Gymnasium's ``sample``.

        Raises:
            MaskShapeError: A mask that does not fit the space.
            MaskTypeError: A mask of a ``MultiBinary`` space that is neither 0, 1 nor 2.
        """
        if mask is None:
            self._unasked = set()
            return dict(self._everything)
        parts = self._root.split(mask)
        choices = (n for n, own in self.action_space.items() if n in parts and not _sets(own))
        empty = {name for name in choices if _is_empty(parts[name])}
        self._unasked = empty if len(empty) < len(parts) else set()
        return {
            name: self._mask(name, part)
            for name, part in parts.items()
            if name not in self._unasked
        }

    def _mask(self, name: ActionName, part: Array | None) -> ActionMask:
        if _sets(self.action_space[name]):
            return GlobalContinuousActionMask()
        return GlobalCategoricalActionMask(part)

    def _answer(self, name: ActionName, actions: Mapping[ActionName, Action]) -> Any:
        action = actions.get(name)
        is_continuous = _sets(self.action_space[name])
        if isinstance(action, GlobalContinuousAction) and is_continuous:
            return action.values
        if isinstance(action, GlobalCategoricalAction) and not is_continuous:
            return action.index
        if action is None and name in self._unasked:
            return 0
        raise UnknownActionError(
            f"action {name!r} is missing",
            expected=f"a Global{'Continuous' if is_continuous else 'Categorical'}Action",
            received=shorten(action),
        )


@dataclass(frozen=True)
class _Numbers:
    """A part of ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``: one number or an array.

    Args:
        where: For messages: the part.
        names: The action of each number.
        counts: How many values each of them has.
        first: The first value of each.
        shape: Of the part.
        dtype: Of the part.
        binary: Whether it is ``MultiBinary``.
    """

    where: str
    names: list[ActionName]
    counts: list[int]
    first: list[int]
    shape: tuple[int, ...]
    dtype: Any
    binary: bool

    def leaves(self) -> Iterator[_Numbers | Numbers]:
        yield self

    def actions(self) -> Iterator[tuple[ActionName, ActionSpace]]:
        for name, count, start in zip(self.names, self.counts, self.first, strict=True):
            labels = [str(start + i) for i in range(count)]
            yield name, GlobalCategoricalActionSpace(labels)

    def write(self, chosen: Mapping[ActionName, int]) -> Any:
        """Return the value: of a ``Discrete`` part a number, as its samples are."""
        if not self.shape:
            return self.dtype.type(self.first[0] + chosen[self.names[0]])
        values = [start + chosen[name] for name, start in zip(self.names, self.first, strict=True)]
        return np.array(values, self.dtype).reshape(self.shape)

    def split(self, mask: Any) -> Masks:
        if mask is None:
            return dict.fromkeys(self.names)
        if self.binary and _shape(mask) == self.shape:
            parts = _of_buttons(self.where, np.asarray(mask).ravel())
        else:
            parts = _nested(mask, self.shape)
            if [len(part) for part in parts] != self.counts:
                parts = _one_after_the_other(mask, self.counts)
        if [len(part) for part in parts] != self.counts:
            raise self._misshapen(mask)
        return dict(zip(self.names, parts, strict=True))

    def _misshapen(self, mask: Any) -> MaskShapeError:
        single = not self.shape
        return MaskShapeError(
            f"the action mask {_of(self.where)}has the wrong shape",
            expected=f"({sum(self.counts)},)"
            + ("" if single else f", or parts of {shorten(self.counts)} choices")
            + (f", or {self.shape} of 0, 1 and 2 for any" if self.binary else ""),
            received=shorten(mask),
        )


@dataclass(frozen=True)
class _Group:
    """A ``Dict`` or ``Tuple``: ``parts`` by key or place."""

    where: str
    parts: dict[Any, _Numbers | Numbers | _Group]
    keyed: bool

    def leaves(self) -> Iterator[_Numbers | Numbers]:
        for part in self.parts.values():
            yield from part.leaves()

    def write(self, chosen: Mapping[ActionName, Any]) -> Any:
        written = {key: part.write(chosen) for key, part in self.parts.items()}
        return written if self.keyed else tuple(written.values())

    def split(self, mask: Any) -> Masks:
        if mask is None:
            own: Sequence[Any] = [None] * len(self.parts)
        elif isinstance(mask, Mapping) and self.keyed:
            own = [mask[key] for key in self._same_keys(mask)]
        elif _is_list(mask) and not self.keyed and len(mask) == len(self.parts):
            own = list(mask)
        else:
            return self._flat(mask)
        split: Masks = {}
        for part, part_mask in zip(self.parts.values(), own, strict=True):
            split |= part.split(part_mask)
        return split

    def _same_keys(self, mask: Mapping[Any, Any]) -> list[Any]:
        for key in self.parts:
            if key not in mask:
                raise MaskShapeError(
                    f"the action mask {_of(self.where)}has no part {key!r}",
                    expected="a mask for each part, or None where everything is allowed",
                    received=shorten(list(mask)),
                )
        for key in mask:
            if key not in self.parts:
                raise MaskShapeError(
                    f"the action mask {_of(self.where)}has a part {shorten(key)} that is no action",
                    options=self.parts,
                    hint=nearest(key, self.parts),
                )
        return list(self.parts)

    def _flat(self, mask: Any) -> Masks:
        leaves = list(self.leaves())
        counts = [count for leaf in leaves for count in leaf.counts]
        parts = [] if isinstance(mask, Mapping) else _one_after_the_other(mask, counts)
        if [len(part) for part in parts] != counts:
            raise MaskShapeError(
                f"the action mask {_of(self.where)}has the wrong shape",
                expected=(
                    f"a dict with the keys {', '.join(map(repr, self.parts))}"
                    if self.keyed
                    else f"a tuple of {len(self.parts)} masks"
                )
                + f", or ({sum(counts)},)",
                received=shorten(mask),
            )
        return dict(zip((name for leaf in leaves for name in leaf.names), parts, strict=True))


def _sets(space: ActionSpace) -> bool:
    """Return True if numbers are set, which have no mask."""
    return isinstance(space, GlobalContinuousActionSpace)


def _part(space: spaces.Space[Any], name: str, root: str) -> _Numbers | Numbers | _Group:
    """Return a space as what is chosen in it. ``root`` stands for the name of what has none."""
    where = name or root
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = {
            key: _part(inner, part, root) for key, inner, part in named_parts(space, name, root)
        }
        return _Group(name, parts, isinstance(space, spaces.Dict))
    if isinstance(space, spaces.Box):
        return Numbers.of(space, where)
    if isinstance(space, spaces.Discrete):
        counts, starts = np.asarray(space.n), np.asarray(space.start)
    elif isinstance(space, spaces.MultiDiscrete):
        counts, starts = space.nvec, space.start
    elif isinstance(space, spaces.MultiBinary):
        counts, starts = np.full(space.shape, 2), np.zeros(space.shape, np.int64)
    else:
        raise SpaceError(
            f"the action space {_of(name)}is a {type(space).__name__}",
            expected="Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them",
            received=shorten(space),
            hint="put a wrapper around the environment that offers a list of choices",
        )
    binary = isinstance(space, spaces.MultiBinary)
    names, sizes = names_of(where, counts.shape), counts.ravel().tolist()
    return _Numbers(name, names, sizes, starts.ravel().tolist(), counts.shape, space.dtype, binary)


def _nested(mask: Any, shape: tuple[int, ...]) -> list[Array]:
    """Return the masks in lists of lists as deep as ``shape``; none where it is something else."""
    if not shape:
        part = _array(mask)
        return [] if part.ndim != 1 else [part]
    if (
        not (_is_list(mask) or (isinstance(mask, np.ndarray) and mask.ndim))
        or len(mask) != shape[0]
    ):
        return []
    return [part for inner in mask for part in _nested(inner, shape[1:])]


def _one_after_the_other(mask: Any, counts: list[int]) -> list[Array]:
    """Return the masks in one array; none where it has another size."""
    whole = _array(mask).ravel()
    return np.split(whole, np.cumsum(counts)[:-1]) if len(whole) == sum(counts) else []


def _of_buttons(where: str, fixed: Array) -> list[Array]:
    """Return the masks of numbers that must be 0, must be 1, or may be both, which is 2."""
    if fixed.dtype.kind not in "iu" or ((fixed < 0) | (fixed > 2)).any():
        raise MaskTypeError(
            f"the action mask {_of(where)}is none of a MultiBinary space",
            expected="for each button the whole number 0 or 1 that it has to be, or 2 for any",
            received=shorten(fixed),
        )
    return list(np.stack([fixed != 1, fixed != 0], axis=1))


def _is_empty(part: Array | None) -> bool:
    return part is not None and part.dtype.kind in "biuf" and not part.any()


def _is_list(mask: Any) -> bool:
    """Return True if this is a list of masks, and not a mask."""
    return isinstance(mask, tuple | list) and not all(np.isscalar(part) for part in mask)


def _shape(mask: Any) -> tuple[int, ...] | None:
    return _array(mask).shape if isinstance(mask, np.ndarray | list | tuple) else None


def _array(mask: Any) -> Array:
    """Return a copy as an array; without any number where it is none."""
    try:
        return np.array(mask)
    except ValueError:  # rows of different lengths
        return np.zeros(0)


def _of(name: str) -> str:
    return f"of {name!r} " if name else ""
