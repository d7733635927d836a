"""Safetensors files, whose headers are checked before anything is loaded."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from entity_env.storage.bounded_json import parse_json

__all__ = ["TensorForm", "load_tensors", "read_forms", "save_tensors"]

_LENGTH = struct.Struct("<Q")
_MOST_HEADER = 1 << 22
_MOST_VALUES = 400_000
_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


@dataclass(frozen=True)
class TensorForm:
    """The dtype and shape of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> TensorForm:
        """Return the form of a tensor."""
        return TensorForm(tensor.dtype, tuple(tensor.shape))

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {self.shape}"


def save_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the bytes of a file with copies of these tensors."""
    return safetensors.torch.save({n: t.detach().cpu().contiguous() for n, t in tensors.items()})


def read_forms(file: BinaryIO, size: int) -> dict[str, TensorForm]:
    """Return the forms of the tensors in a file, from its header alone.

    Args:
        file: File, at its beginning.
        size: Size of the file, in bytes.

    Raises:
        ValueError: The header is damaged, or the file is longer or shorter than its tensors.
    """
    start = file.read(_LENGTH.size)
    length = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else 0
    if not 2 <= length <= min(size, _MOST_HEADER):
        raise ValueError("it has no safetensors header")
    header = parse_json(file.read(length), _MOST_VALUES)
    if not isinstance(header, dict):
        raise ValueError("its header names no tensors")
    header.pop("__metadata__", None)
    try:
        forms = {name: _form(name, entry) for name, entry in header.items()}
    except (KeyError, TypeError) as error:
        raise ValueError(f"its header is damaged: {error}") from error
    total = sum(form.size * form.dtype.itemsize for form in forms.values())
    if _LENGTH.size + length + total != size:
        raise ValueError(
            f"its tensors need {_LENGTH.size + length + total:,} bytes, and it has {size:,}"
        )
    return forms


def load_tensors(data: bytes) -> dict[str, Tensor]:
    """Return the tensors of a file.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(str(error)) from error


def _form(name: str, entry: Any) -> TensorForm:
    dtype, shape = _DTYPES[entry["dtype"]], entry["shape"]
    if not all(type(length) is int and 0 <= length < 1 << 48 for length in shape):
        raise ValueError(f"its tensor {name!r} has an impossible shape")
    return TensorForm(dtype, tuple(shape))
