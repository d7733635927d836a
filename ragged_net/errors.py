"""One exception class for each kind of mistake, and the format of their messages."""

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
    """Base class of all errors of this package about a mistake of the user.

    Args:
        what: Place and kind of the mistake, with the names of the entity type, feature or action.
        expected: Valid values.
        received: Value that was given.
        options: Valid names, if they are a closed list.
        hint: Remedy.
        where: Place of the mistake; callers may set it.
        about: Names of the arguments that are wrong, separated by spaces.
    """

    def __init__(
        self,
        what: str,
        *,
        expected: object = None,
        received: object = None,
        options: Iterable[str] | None = None,
        hint: str | None = None,
        where: str = "",
        about: str = "",
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
        self.where, self.about = where, about

    def __str__(self) -> str:
        return f"{self.where}: {self.args[0]}" if self.where else str(self.args[0])


class ShapeError(RaggedNetError):
    """A tensor of the wrong shape, or parts of a batch that disagree on a length."""


class WrongTypeError(RaggedNetError, TypeError):
    """An argument of the wrong class, such as a list instead of a tensor."""


class DtypeError(WrongTypeError):
    """A tensor of the wrong dtype, or an argument that is not a tensor."""


class DeviceError(RaggedNetError):
    """Tensors, weights or a generator on different devices."""


class UnknownNameError(RaggedNetError):
    """An entity type, action or attention backend that does not exist or is missing."""


class NetConfigError(RaggedNetError):
    """A setting outside its range, or settings that contradict each other."""


class MemoryStateError(RaggedNetError):
    """A memory state that is missing or does not fit, or sequences that do not fit the batch."""


class EmptyBatchError(RaggedNetError):
    """A concatenation of nothing."""


class RowIndexError(RaggedNetError, IndexError):
    """An actor or actee that is outside of its frame, or a frame that does not exist."""


class MaskError(RaggedNetError):
    """A mask that leaves an actor without a choice."""


class VisibilityError(RaggedNetError):
    """A hidden entity that acts or can be selected, which would reveal it to the policy."""


class FeatureValueError(RaggedNetError):
    """A feature that is NaN, infinite, or outside the range of a discrete feature."""


class SecondDerivativeError(RaggedNetError):
    """A second derivative of an operation that has only first ones."""


class BatchedGradientError(RaggedNetError):
    """Several gradients at once, of an operation that computes one at a time."""


class ReferenceEntityError(RaggedNetError):
    """A frame with several reference entities of a translation."""


class AdoptionError(RaggedNetError):
    """Networks that differ in more than their spaces, so that weights cannot be copied."""


class ExportError(RaggedNetError):
    """A network, or a batch, that export does not support."""


class RunReaderError(RaggedNetError):
    """No package is installed that reads run folders."""


class ActionChoiceError(RaggedNetError, IndexError):
    """A given choice that does not exist or that the mask forbids."""


def nearest(name: object, valid: Iterable[str]) -> str | None:
    """Return a hint with the valid name nearest to ``name``, or None if there is none."""
    close = get_close_matches(str(name), [str(one) for one in valid], n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else None


def check_names(kind: str, where: str, received: Iterable[str], valid: Iterable[str]) -> None:
    """Raise UnknownNameError unless ``received`` contains exactly the ``valid`` names.

    Args:
        kind: Kind of the names, such as ``entity type``.
        where: Object with the names, such as ``the batch``.
        received: Names that it has.
        valid: Names that it must have.
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
    """Return ``repr(value)``, cut to 80 characters, without raising an error."""
    try:
        return repr(value)[:80]
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def check_tensor(where: str, value: object, *, nested: bool = False) -> None:
    """Raise DtypeError unless ``value`` is a dense tensor, or with ``nested`` a nested one."""
    if not isinstance(value, Tensor):
        raise DtypeError(
            f"{where}: not a tensor",
            expected="a torch.Tensor",
            received=type(value).__name__,
            hint=_TENSORS_FROM.get(type(value).__name__),
        )
    if nested and value.is_nested:
        return
    if value.layout != torch.strided or value.is_nested or value.is_quantized:
        kind = "nested" if value.is_nested else f"{value.layout}, {value.dtype}"
        raise DtypeError(
            f"{where}: not a dense tensor",
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
        where: Name of the tensor in an error.
        tensor: Value to check.
        dtype: Expected dtype.
        ndim: Expected number of dimensions; None allows any.
        expected: Expected shape in an error, such as ``(N, F)``.
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
    """Raise DeviceError unless a tensor is on the device of ``other``, which is called ``name``."""
    if tensor.device != other.device:
        raise DeviceError(
            f"{where}: on another device than {name}", expected=other.device, received=tensor.device
        )


_TENSORS_FROM = {
    "list": "torch.tensor(...) makes one of a list",
    "ndarray": "torch.from_numpy(...) makes one of an array",
    "RaggedTensor": "pass its .values if frames are not needed",
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
    """Return ``value``, also of NumPy or torch, as a whole number that is at least ``least``.

    Raises:
        NetConfigError: It is not such a number.
    """
    number = value
    try:
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            number = value.item()
        if isinstance(number, int) and not isinstance(number, bool) and number >= least:
            return number
    except Exception:  # a tensor on the device meta, or any object
        number = value
    raise NetConfigError(
        f"{where} is out of range", expected=f"a whole number >= {least}", received=shown(number)
    )
