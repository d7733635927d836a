"""One exception class per kind of mistake, and the one format that their messages share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import torch
from torch import Tensor

__all__ = [
    "ActionChoiceError",
    "AdoptionError",
    "BatchedGradientError",
    "DeviceError",
    "DtypeError",
    "EmptyBatchError",
    "ExportError",
    "FeatureValueError",
    "MaskError",
    "MemoryStateError",
    "NetConfigError",
    "RaggedNetError",
    "ReferenceEntityError",
    "RowIndexError",
    "RunReaderError",
    "SecondDerivativeError",
    "ShapeError",
    "UnknownNameError",
    "VisibilityError",
    "WrongTypeError",
    "check_array",
    "check_device",
    "check_kind",
    "check_names",
    "check_rows",
    "check_tensor",
    "nearest",
]


class RaggedNetError(ValueError):
    """Base of every error that this package raises for something a user can get wrong.

    Args:
        what: Where and what is wrong, with the names of the entity type, feature or action.
        expected: What would have been valid.
        received: What came instead.
        options: The valid names, where there is a closed list of them.
        hint: What to do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        expected: object = None,
        received: object = None,
        options: Iterable[str] | None = None,
        hint: str | None = None,
    ) -> None:
        valid = None if options is None else ", ".join(map(repr, options)) or "(none)"
        lines = [what]
        for label, text in (
            ("expected", expected),
            ("received", received),
            ("valid", valid),
            ("hint", hint),
        ):
            if text is not None:
                lines.append(f"  {label + ':':<10}{text}")
        super().__init__("\n".join(lines))


class ShapeError(RaggedNetError):
    """A tensor of the wrong shape, or parts of a batch that disagree on a length."""


class WrongTypeError(RaggedNetError, TypeError):
    """An argument of another class than it must be, such as a list instead of a tensor."""


class DtypeError(WrongTypeError):
    """A tensor of the wrong dtype, or something in its place that is no tensor."""


class DeviceError(RaggedNetError):
    """Tensors, weights or a generator on different devices."""


class UnknownNameError(RaggedNetError):
    """An entity type, action or attention backend that does not exist, or one that is missing."""


class NetConfigError(RaggedNetError):
    """A setting outside its range, or settings that contradict each other."""


class MemoryStateError(RaggedNetError):
    """A state that a network's memory cannot go on from, or none; sequences of another batch."""


class EmptyBatchError(RaggedNetError):
    """Nothing to concatenate."""


class RowIndexError(RaggedNetError, IndexError):
    """An actor or actee that points outside of its frame, or a frame that does not exist."""


class MaskError(RaggedNetError):
    """A mask that leaves an actor without any choice."""


class VisibilityError(RaggedNetError):
    """A hidden entity that acts or can be selected: the policy would see it."""


class FeatureValueError(RaggedNetError):
    """A feature that is NaN, infinite, or outside the range of a discrete feature."""


class SecondDerivativeError(RaggedNetError):
    """The derivative of a gradient that is computed outside autograd."""


class BatchedGradientError(RaggedNetError):
    """Several gradients at once, from operations that compute one at a time."""


class ReferenceEntityError(RaggedNetError):
    """A frame with several entities that positions could be relative to."""


class AdoptionError(RaggedNetError):
    """Networks that differ in more than their spaces, so that one cannot take over the other."""


class ExportError(RaggedNetError):
    """A network, or a batch, that an exported graph cannot stand for."""


class RunReaderError(RaggedNetError):
    """No package is installed that reads run folders."""


class ActionChoiceError(RaggedNetError, IndexError):
    """A given action that does not exist or that the mask forbids."""


def nearest(name: object, valid: Iterable[str]) -> str | None:
    """Return a hint at the valid name that ``name`` is a misspelling of, if it is one."""
    close = get_close_matches(str(name), [str(one) for one in valid], n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else None


def check_names(kind: str, where: str, received: Iterable[str], valid: Iterable[str]) -> None:
    """Raise UnknownNameError unless ``received`` holds exactly the ``valid`` names, in any order.

    Args:
        kind: What the names are, such as ``entity type``.
        where: What holds them, such as ``the batch``.
        received: The names that came.
        valid: The names that must all be there.
    """
    received, valid = list(received), list(valid)
    for name in received:
        if name not in valid:
            raise UnknownNameError(
                f"{where} has an unknown {kind} {name!r}", options=valid, hint=nearest(name, valid)
            )
    for name in valid:
        if name not in received:
            raise UnknownNameError(
                f"{where} lacks the {kind} {name!r}",
                expected=", ".join(map(repr, valid)),
                received=", ".join(map(repr, received)) or "(none)",
            )


def shown(value: object) -> str:
    """Return ``repr(value)``, cut to 80 characters; never raises."""
    try:
        return repr(value)[:80]
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def check_tensor(where: str, value: object, *, nested: bool = False) -> None:
    """Raise DtypeError unless ``value`` is a dense tensor, or a nested one where that is fine."""
    if not isinstance(value, Tensor):
        raise DtypeError(
            f"{where}: no tensor",
            expected="a torch.Tensor",
            received=type(value).__name__,
            hint=_TENSORS_FROM.get(type(value).__name__),
        )
    if nested and value.is_nested:
        return
    if value.layout != torch.strided or value.is_nested or value.is_quantized:
        kind = "nested" if value.is_nested else f"{value.layout}, {value.dtype}"
        raise DtypeError(
            f"{where}: no dense tensor",
            expected="a tensor of layout torch.strided",
            received=kind,
            hint="EntityBatch.from_nested takes nested tensors of rows"
            if value.is_nested
            else "tensor.to_dense(), or .dequantize()",
        )


def check_array(
    where: str, tensor: object, dtype: torch.dtype, ndim: int | None = None, expected: str = ""
) -> None:
    """Raise DtypeError or ShapeError unless ``tensor`` has a dtype and a number of dimensions.

    Args:
        where: The name of the tensor in an error.
        tensor: The value to check.
        dtype: Its dtype.
        ndim: The number of its dimensions; None allows any.
        expected: Its shape, such as ``(N, F)``, for an error.
    """
    check_tensor(where, tensor)
    assert isinstance(tensor, Tensor)  # for the type checker
    if tensor.dtype != dtype:
        raise DtypeError(f"{where}: wrong dtype", expected=dtype, received=tensor.dtype)
    if ndim is not None and tensor.ndim != ndim:
        raise ShapeError(
            f"{where}: wrong number of dimensions", expected=expected, received=tuple(tensor.shape)
        )


def check_device(where: str, tensor: Tensor, other: Tensor, name: str) -> None:
    """Raise DeviceError unless a tensor is on the device of the ``other``, called ``name``."""
    if tensor.device != other.device:
        raise DeviceError(
            f"{where}: on another device than {name}",
            expected=other.device,
            received=tensor.device,
        )


_TENSORS_FROM = {
    "list": "torch.tensor(...) makes one of a list",
    "ndarray": "torch.from_numpy(...) makes one of an array",
    "RaggedTensor": "without frames: its .values, perhaps",
}


def check_rows(where: str, rows: object, width: int | None = None) -> None:
    """Raise DtypeError or ShapeError unless ``rows`` are a floating tensor (N, ``width``)."""
    check_tensor(where, rows)
    assert isinstance(rows, Tensor)  # for the type checker
    if not rows.is_floating_point():
        raise DtypeError(f"{where}: wrong dtype", expected="floating", received=rows.dtype)
    if rows.ndim != 2 or width not in (None, rows.shape[1]):
        raise ShapeError(
            f"{where} have the wrong shape",
            expected=f"(N, {'D' if width is None else width})",
            received=tuple(rows.shape),
        )


def check_kind(where: str, value: object, *kinds: type, hint: str | None = None) -> None:
    """Raise WrongTypeError unless ``value`` is an instance of one of the classes ``kinds``."""
    if not isinstance(value, kinds):
        raise WrongTypeError(
            f"{where} is of the wrong class",
            expected=" or ".join(kind.__name__ for kind in kinds),
            received=type(value).__name__,
            hint=hint,
        )


def whole(where: str, value: object, least: int = 1) -> int:
    """Return ``value``, which may be of NumPy or torch, as a whole number of at least ``least``.

    Raises:
        NetConfigError: It is none.
    """
    number = value
    try:
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            number = value.item()
        if isinstance(number, int) and not isinstance(number, bool) and number >= least:
            return number
    except Exception:  # a tensor without numbers, or an odd object
        number = value
    raise NetConfigError(
        f"{where} is out of range", expected=f"a whole number >= {least}", received=shown(number)
    )
