"""The parts of a Gymnasium action space, with their actions and masks."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from entity_env.errors import (
    MaskShapeError,
    MaskTypeError,
    SpaceError,
    check_known,
    counted,
    shorten,
)
from entity_env.interop.translated.space_parts import counts_of, named_parts, names_of
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    GlobalCategoricalActionSpace,
    GlobalContinuousActionSpace,
)

__all__ = ["ActionPart", "Array", "part_of"]

Array: TypeAlias = npt.NDArray[Any]
Masks: TypeAlias = dict[ActionName, Union[Array, None]]
"""The mask of each action; None allows everything."""

_ENDLESS = 1e30


class ActionPart(ABC):
    """A part of an action space.

    Args:
        name: The part; "" for the whole of an action.
        counts: Number of choices of each of its actions, by name; 0 for continuous actions.
    """

    def __init__(self, name: str, counts: dict[ActionName, int]) -> None:
        self.counts = counts
        self._of = f"of {name!r} " if name else ""

    @abstractmethod
    def actions(self) -> Iterator[tuple[ActionName, ActionSpace]]:
        """Yield the name and the space of each action."""

    @abstractmethod
    def write(self, chosen: Mapping[ActionName, Any]) -> Any:
        """Return the value of the part for the index or the numbers chosen in each action."""

    @abstractmethod
    def read(self, value: Any) -> dict[ActionName, Any]:
        """Return the index or the numbers of each action for a value of the part."""

    def split(self, mask: Any) -> Masks:
        """Return the mask of each action.

        Args:
            mask: The mask in the format of ``sample`` of the part's space, or the masks of all
                choices one after the other; None allows everything.

        Raises:
            MaskShapeError: The mask does not fit the part.
            MaskTypeError: A number in the mask of a ``MultiBinary`` part is not 0, 1 or 2.
        """
        if mask is None:
            return dict.fromkeys(self.counts)
        split = self._structured(mask)
        if split is None:
            whole = _array(mask).ravel()
            if isinstance(mask, Mapping) or len(whole) != sum(self.counts.values()):
                raise MaskShapeError(
                    f"the action mask {self._of}has the wrong shape",
                    expected=self._expected(),
                    received=shorten(mask),
                )
            ends = np.cumsum(list(self.counts.values()))[:-1]
            split = dict(zip(self.counts, np.split(whole, ends), strict=True))
        return split

    @abstractmethod
    def _structured(self, mask: Any) -> Masks | None:
        """Return masks in the format of ``sample``, or None if they have another format."""

    def _expected(self) -> str:
        return f"({sum(self.counts.values())},)"


class _Choices(ActionPart):
    """A part that is ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``: a number or an array."""

    def __init__(self, space: spaces.Space[Any], name: str, where: str, counted: Any) -> None:
        counts, first = counted
        self._where, self._shape = where, counts.shape
        self._first, self._dtype = first.ravel().tolist(), np.dtype(space.dtype)
        self._is_binary = isinstance(space, spaces.MultiBinary)
        names = names_of(where, self._shape)
        super().__init__(name, dict(zip(names, counts.ravel().tolist(), strict=True)))

    def actions(self) -> Iterator[tuple[ActionName, ActionSpace]]:
        for (name, count), start in zip(self.counts.items(), self._first, strict=True):
            yield name, GlobalCategoricalActionSpace([str(start + i) for i in range(count)])

    def write(self, chosen: Mapping[ActionName, int]) -> Any:
        if not self._shape:  # a number, as the samples of ``Discrete`` are
            return self._dtype.type(self._first[0] + chosen[self._where])
        pairs = zip(self.counts, self._first, strict=True)
        values = [first + chosen[name] for name, first in pairs]
        return np.array(values, self._dtype).reshape(self._shape)

    def read(self, value: Any) -> dict[ActionName, int]:
        pairs = zip(np.ravel(value).tolist(), self._first, strict=True)
        return {
            name: int(own) - first for name, (own, first) in zip(self.counts, pairs, strict=True)
        }

    def _structured(self, mask: Any) -> Masks | None:
        if self._is_binary and _shape(mask) == self._shape:
            parts = self._buttons(np.asarray(mask).ravel())
        else:
            parts = _nested(mask, self._shape)
        fit = [len(part) for part in parts] == list(self.counts.values())
        return dict(zip(self.counts, parts, strict=True)) if fit else None

    def _buttons(self, fixed: Array) -> list[Array]:
        """Return the masks of buttons that must be 0, must be 1, or may be both (2)."""
        if fixed.dtype.kind not in "iu" or ((fixed < 0) | (fixed > 2)).any():
            raise MaskTypeError(
                f"the action mask {self._of}is not a mask of a MultiBinary space",
                expected="for each button its required value, 0 or 1, or 2 if both are allowed",
                received=shorten(fixed),
            )
        return list(np.stack([fixed != 1, fixed != 0], axis=1))

    def _expected(self) -> str:
        counts = shorten(list(self.counts.values()))
        return (
            super()._expected()
            + (f", or parts of {counts} choices" if self._shape else "")
            + (f", or {self._shape} of 0, 1 and 2 for any" if self._is_binary else "")
        )


class _Numbers(ActionPart):
    """A ``Box``: one continuous action of the player as a whole.

    A number without a bound on a side, or with one beyond 1e30, is not limited there, and a warning
    says so: an agent samples it around 0, or around a point 1 inside its only bound, with a
    standard deviation that is learned, starting at 0.5. ``TransformAction`` of Gymnasium can add
    bounds; ``RescaleAction`` cannot. A number with equal bounds is not part of the action. Numbers
    of boxes of integers are rounded.

    Raises:
        SpaceError: There is no number to set.
    """

    def __init__(self, space: spaces.Box, name: ActionName) -> None:
        super().__init__(name, {name: 0})
        self._name, self._space = name, space
        self._free = np.asarray(space.low < space.high)
        if not self._free.any():
            raise SpaceError(
                f"the action space of {name!r} is a Box with nothing to set",
                expected="low < high for at least one of its numbers",
                received=shorten(space),
            )
        low, high = self._bounds()
        endless = int((~np.isfinite(low) | ~np.isfinite(high)).sum())
        if endless:
            warnings.warn(
                f"action {name!r}: {endless} of {counted(len(low), 'number')} have no bound on a "
                "side. They "
                "are sampled around 0, or 1 inside their only bound, with a learned standard "
                "deviation that starts at 0.5, and are not clipped on that side. "
                "gymnasium.wrappers.TransformAction can add bounds.",
                stacklevel=2,
            )

    def actions(self) -> Iterator[tuple[ActionName, ActionSpace]]:
        low, high = self._bounds()
        yield self._name, GlobalContinuousActionSpace(low.tolist(), high.tolist())

    def write(self, chosen: Mapping[ActionName, Any]) -> Array:
        low, high, dtype = self._space.low, self._space.high, np.dtype(self._space.dtype)
        values = np.array(low, np.float64)
        values[self._free] = chosen[self._name]
        if dtype.kind in "iub":
            values = np.rint(values)
        return np.clip(values, low, high).astype(dtype)

    def read(self, value: Any) -> dict[ActionName, Array]:
        numbers = np.asarray(value, np.float64).reshape(self._space.shape)[self._free]
        return {self._name: np.clip(numbers, *self._bounds())}

    def _structured(self, mask: Any) -> None:
        return None  # numbers have no mask

    def _expected(self) -> str:
        return "None: numbers have no mask"

    def _bounds(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        low = self._space.low[self._free].astype(np.float64)
        high = self._space.high[self._free].astype(np.float64)
        return np.where(low < -_ENDLESS, -np.inf, low), np.where(high > _ENDLESS, np.inf, high)


class _Group(ActionPart):
    """A ``Dict`` or ``Tuple``: ``parts`` by key or place."""

    def __init__(self, name: str, parts: dict[Any, ActionPart], is_keyed: bool) -> None:
        super().__init__(name, {})
        self._parts, self._is_keyed = parts, is_keyed
        for part in parts.values():
            for action, count in part.counts.items():
                if action in self.counts:
                    raise SpaceError(f"the action space has two parts with the name {action!r}")
                self.counts[action] = count

    def actions(self) -> Iterator[tuple[ActionName, ActionSpace]]:
        for part in self._parts.values():
            yield from part.actions()

    def write(self, chosen: Mapping[ActionName, Any]) -> Any:
        written = {key: part.write(chosen) for key, part in self._parts.items()}
        return written if self._is_keyed else tuple(written.values())

    def read(self, value: Any) -> dict[ActionName, Any]:
        chosen: dict[ActionName, Any] = {}
        for key, part in self._parts.items():
            chosen |= part.read(value[key])
        return chosen

    def _structured(self, mask: Any) -> Masks | None:
        if self._is_keyed and isinstance(mask, Mapping):
            self._check_keys(mask)
            own = [mask[key] for key in self._parts]
        elif not self._is_keyed and _is_list(mask) and len(mask) == len(self._parts):
            own = list(mask)
        else:
            return None
        split: Masks = {}
        for part, part_mask in zip(self._parts.values(), own, strict=True):
            split |= part.split(part_mask)
        return split

    def _check_keys(self, mask: Mapping[Any, Any]) -> None:
        for key in self._parts:
            if key not in mask:
                raise MaskShapeError(
                    f"the action mask {self._of}has no part {key!r}",
                    expected="a mask for each part, or None if everything is allowed",
                    received=shorten(list(mask)),
                )
        check_known(
            MaskShapeError,
            f"the action mask {self._of}has a part {{}} that is not an action",
            mask,
            self._parts,
        )

    def _expected(self) -> str:
        keys = f"a dict with the keys {', '.join(map(repr, self._parts))}"
        own = keys if self._is_keyed else f"a tuple of {counted(len(self._parts), 'mask')}"
        return f"{own}, or {super()._expected()}"


def part_of(space: spaces.Space[Any], name: str, root: str) -> ActionPart:
    """Return the part for a space.

    Args:
        space: The space.
        name: Its name, or "" for the complete action.
        root: The name used for "" in the names of actions.

    Raises:
        SpaceError: A part is neither a list of choices nor numbers.
    """
    where = name or root
    if isinstance(space, spaces.Dict | spaces.Tuple):
        named = named_parts(space, name, root)
        parts = {key: part_of(inner, part, root) for key, inner, part in named}
        return _Group(name, parts, isinstance(space, spaces.Dict))
    if isinstance(space, spaces.Box):
        return _Numbers(space, where)
    counted = counts_of(space)
    if counted is None:
        own = f"of {name!r} " if name else ""
        raise SpaceError(
            f"the action space {own}is a {type(space).__name__}",
            expected="Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of them",
            received=shorten(space),
            hint="wrap the environment so that its actions are a list of choices",
        )
    return _Choices(space, name, where, counted)


def _nested(mask: Any, shape: tuple[int, ...]) -> list[Array]:
    """Return the masks in nested lists of this ``shape``, or no masks for another structure."""
    if not shape:
        part = _array(mask)
        return [] if part.ndim != 1 else [part]
    if (
        not (_is_list(mask) or (isinstance(mask, np.ndarray) and mask.ndim))
        or len(mask) != shape[0]
    ):
        return []
    return [part for inner in mask for part in _nested(inner, shape[1:])]


def _is_list(mask: Any) -> bool:
    """Return True for a list of masks, False for a mask."""
    return isinstance(mask, tuple | list) and not all(np.isscalar(part) for part in mask)


def _shape(mask: Any) -> tuple[int, ...] | None:
    return _array(mask).shape if isinstance(mask, np.ndarray | list | tuple) else None


def _array(mask: Any) -> Array:
    """Return a copy as an array, which is empty if ``mask`` cannot be converted."""
    try:
        return np.array(mask)
    except ValueError:  # rows of different lengths
        return np.zeros(0)
