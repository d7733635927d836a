"""Checks of tensors that users pass: class, dtype, shape and device."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from entity_env.errors import BatchError, DeviceError, DtypeError, nearest

__all__ = ["check_device", "check_kind", "check_names", "check_rows", "check_tensor"]


def check_names(kind: str, where: str, received: Iterable[str], valid: Iterable[str]) -> None:
    """Raise BatchError unless ``received`` contains exactly the ``valid`` names.

    Args:
        kind: Kind of the names, such as ``entity type``.
        where: Object with the names, such as ``the batch``.
        received: Names that it has.
        valid: Names that it must have.
    """
    received, valid = list(received), list(valid)
    for name in received:
        if name not in valid:
            raise BatchError(
                f"{where} has an unknown {kind} {name!r}", options=valid, hint=nearest(name, valid)
            )
    for name in valid:
        if name not in received:
            raise BatchError(
                f"{where} lacks the {kind} {name!r}",
                expected=", ".join(map(repr, valid)),
                received=", ".join(map(repr, received)) or "(none)",
            )


def check_tensor(
    where: str,
    value: object,
    dtype: torch.dtype | None = None,
    ndim: int | None = None,
    expected: str = "",
    *,
    nested: bool = False,
) -> None:
    """Raise DtypeError or BatchError unless ``value`` is a dense tensor of some kind.

    Args:
        where: Name of the tensor in an error.
        value: Value to check.
        dtype: Expected dtype; None allows any.
        ndim: Expected number of dimensions; None allows any.
        expected: Expected shape in an error, such as ``(N, F)``.
        nested: True if it may be a nested tensor.
    """
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
    if dtype is not None and value.dtype != dtype:
        raise DtypeError(f"{where}: wrong dtype", expected=dtype, received=value.dtype)
    if ndim is not None and value.ndim != ndim:
        raise BatchError(
            f"{where}: wrong number of dimensions", expected=expected, received=tuple(value.shape)
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
    """Raise DtypeError or BatchError unless ``rows`` are a floating tensor (N, ``width``)."""
    check_tensor(where, rows)
    assert isinstance(rows, Tensor)  # for the type checker
    if not rows.is_floating_point():
        raise DtypeError(f"{where}: wrong dtype", expected="floating", received=rows.dtype)
    if rows.ndim != 2 or width not in (None, rows.shape[1]):
        raise BatchError(
            f"{where} have the wrong shape",
            expected=f"(N, {'D' if width is None else width})",
            received=tuple(rows.shape),
        )


def check_kind(where: str, value: object, *kinds: type, hint: str | None = None) -> None:
    """Raise DtypeError unless ``value`` is an instance of one of the classes ``kinds``."""
    if not isinstance(value, kinds):
        raise DtypeError(
            f"{where} is of the wrong class",
            expected=" or ".join(kind.__name__ for kind in kinds),
            received=type(value).__name__,
            hint=hint,
        )
