"""RaggedTensor: frames of different lengths as flat values and offsets, without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env.errors import BatchError, DeviceError, DtypeError, shorten
from ragged_net import kernels
from ragged_net.devices import device_named, send
from ragged_net.tensor_checks import check_kind, check_tensor

__all__ = [
    "FrameNumbers",
    "RaggedTensor",
    "check_known",
    "check_memory",
    "offsets_of",
    "repeat_by_frame",
    "shifted_places",
    "whole_numbers",
]


def offsets_of(lengths: Tensor) -> Tensor:
    """Return the offsets (B + 1,) int64 of frames of ``lengths`` (B,)."""
    # Calls of NumPy take less time than those of torch.
    if lengths.device.type == "cpu" and not kernels.sizes_are_open():
        sums = np.zeros(lengths.shape[0] + 1, np.int64)
        _array(lengths).cumsum(out=sums[1:])
        return torch.from_numpy(sums)
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def _array(numbers: Tensor) -> npt.NDArray[np.int64]:
    """Return ``numbers`` (K,) int64 on the CPU as an array, also within ``torch.func``."""
    if kernels.in_torch_func():
        return np.array(numbers.tolist(), np.int64)
    return numbers.numpy()


def check_memory(where: str, tensor: Tensor) -> None:
    """Raise BatchError if ``tensor``, on the CPU, has numbers outside of its storage.

    If a storage has been made smaller, torch reads beyond its end.
    """
    start, size, held = tensor.storage_offset(), tensor.itemsize, tensor.untyped_storage().nbytes()
    if start * size + tensor.nbytes <= held or not tensor.numel():
        return  # the usual case, a contiguous tensor, needs no further check
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    needed = (start + 1 + sum((count - 1) * step for count, step in steps)) * size
    if needed > held:
        raise BatchError(
            f"{where}: its memory has been freed",
            expected=f"a storage of {needed} bytes",
            received=f"{held} bytes",
        )


def check_known(where: str, numbers: Tensor) -> None:
    """Raise DeviceError if ``numbers`` are on the device ``meta``, which stores none."""
    if numbers.device.type == "meta":
        raise DeviceError(
            f"{where}: the numbers are unknown", expected="the CPU, or a GPU", received="meta"
        )


def whole_numbers(where: str, numbers: object) -> Tensor:
    """Return numbers, in a list or a tensor, as int64; return a mask as it is.

    Raises:
        DtypeError: They are not whole numbers.
        DeviceError: They are on the device ``meta``.
    """
    expected = "a list of whole numbers, or a tensor (B,) int64"
    try:
        found = torch.as_tensor(numbers)
    except Exception as error:  # any error of the object
        raise DtypeError(
            f"{where} are not whole numbers", expected=expected, received=shorten(numbers)
        ) from error
    check_tensor(where, found)
    check_known(where, found)
    if found.dtype in (torch.int64, torch.bool):
        return found
    if found.numel() and found.dtype not in _WHOLE:
        raise DtypeError(f"{where} are not whole numbers", expected=expected, received=found.dtype)
    return found.to(torch.int64)


_WHOLE = {getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}


def shifted_places(shift: Tensor, lengths: Tensor, total: int) -> Tensor:
    """Return the places 0, 1, ..., N - 1, with those of each frame b shifted by ``shift[b]``.

    Args:
        shift: (B,) int64.
        lengths: (B,) int64.
        total: N, the sum of the lengths, so that the device is not waited for.
    """
    places = torch.arange(total, device=shift.device)
    return repeat_by_frame(shift, lengths, total) + places


def repeat_by_frame(numbers: Tensor, lengths: Tensor, total: int) -> Tensor:
    """Return for each of ``total`` rows the one of ``numbers`` (B,) that belongs to its frame."""
    if kernels.sizes_are_open():  # ONNX repeats nothing by a number for each frame
        places = torch.arange(total, device=lengths.device)
        frames = (places[:, None] >= lengths.cumsum(0)[None, :]).sum(1)
        return numbers.index_select(0, frames)
    # With output_size the CPU does not wait for the sum of the lengths.
    return numbers.repeat_interleave(lengths, output_size=total)


@dataclass(frozen=True, eq=False)
class FrameNumbers:
    """Frame numbers known on the CPU and on the device of the tensors.

    Args:
        host: The numbers on the CPU, from which sizes are computed. Shape: (K,), int64.
        there: The same numbers on the device of the tensors; on the CPU ``host`` itself.
    """

    host: Tensor
    there: Tensor

    @classmethod
    def of(cls, frames: Tensor | FrameNumbers, device: torch.device) -> FrameNumbers:
        """Return ``frames`` (K,) int64 or int32; numbers on a GPU are waited for.

        Raises:
            DtypeError, BatchError: The frames are not a list of whole numbers, but for example a
                mask.
        """
        if isinstance(frames, FrameNumbers):
            return frames
        check_tensor("the numbers of the frames to select", frames)
        if frames.dtype not in (torch.int64, torch.int32):
            raise DtypeError(
                "frames must be selected by their numbers",
                expected="int64 or int32; mask.nonzero().squeeze(1) turns a mask into numbers",
                received=frames.dtype,
            )
        if frames.ndim != 1:
            raise BatchError(
                "frames must be selected by a list", expected="(K,)", received=tuple(frames.shape)
            )
        check_known("the numbers of the frames to select", frames)
        frames = frames.to(torch.int64)
        return cls(host=frames.cpu(), there=send(frames, device))


@dataclass(frozen=True, eq=False)
class RaggedTensor:
    """B frames of any lengths, one after the other.

    Args:
        values: Rows of all frames, of any dtype. Shape: (N, ...).
        offsets: Frame b is ``values[offsets[b]:offsets[b + 1]]``. The offsets are copied. Shape:
            (B + 1,), int64.
        known_offsets: The same numbers on the CPU, if they are known; otherwise ``host_offsets``
            reads them from the device.

    Raises:
        BatchError: The offsets do not start at 0, decrease, or do not end at N. Numbers are
            checked on the CPU only, because the check would wait for other devices.
        DtypeError: The offsets are not int64.
        DeviceError: Values and offsets are on different devices.
    """

    values: Tensor
    offsets: Tensor
    known_offsets: Tensor | None = None

    def __post_init__(self) -> None:
        """Copy the offsets, and check that they belong to the values."""
        for name in ("offsets", "known_offsets"):
            offsets = getattr(self, name)
            if offsets is not None or name == "offsets":
                check_tensor(f"the {name} of a RaggedTensor", offsets)
                object.__setattr__(self, name, offsets.clone())
        self.check()

    def check(self, where: str = "a RaggedTensor") -> None:
        """Check that values and offsets fit together, which changes of them may have broken.

        Args:
            where: Name of the tensor in errors.

        Raises:
            BatchError, DtypeError, DeviceError: See the class.
        """
        check_tensor(f"the values of {where}", self.values)
        check_tensor(f"the offsets of {where}", self.offsets)
        if self.offsets.ndim != 1 or self.offsets.shape[0] < 1 or self.values.ndim < 1:
            raise BatchError(
                f"{where} has the wrong number of dimensions",
                expected="values (N, ...) and offsets (B + 1,)",
                received=f"{tuple(self.values.shape)} and {tuple(self.offsets.shape)}",
            )
        if self.offsets.dtype != torch.int64:
            raise DtypeError(
                f"the offsets of {where} have the wrong dtype",
                expected=torch.int64,
                received=self.offsets.dtype,
            )
        if self.values.device != self.offsets.device:
            raise DeviceError(
                f"{where} is on two devices",
                expected=f"offsets on {self.values.device}, the device of the values",
                received=self.offsets.device,
            )
        if self.offsets.device.type == "cpu":
            self._check_numbers(where, self.offsets)
        elif self.known_offsets is not None:
            known = self.known_offsets
            kind = known.device.type, known.dtype, known.shape
            if kind != ("cpu", torch.int64, self.offsets.shape):
                raise BatchError(
                    f"the known_offsets of {where} are not a copy of its offsets",
                    expected=f"{tuple(self.offsets.shape)} int64 on the CPU",
                    received=f"{tuple(known.shape)} {known.dtype} on {known.device}",
                )
            self._check_numbers(where, known)

    def _check_numbers(self, where: str, known: Tensor) -> None:
        # In NumPy, whose calls take less time than those of torch for small tensors.
        offsets, rows = _array(known), self.values.shape[0]
        first, last = int(offsets[0]), int(offsets[-1])
        if first != 0 or last != rows or bool((offsets[1:] < offsets[:-1]).any()):
            lengths = np.diff(offsets)[:20].tolist()
            raise BatchError(
                f"the offsets of {where} do not fit its values",
                expected=f"offsets that rise from 0 to {rows}, the number of values",
                received=f"offsets from {first} to {last}, lengths {lengths}",
            )

    @classmethod
    def from_lengths(cls, values: Tensor, lengths: Tensor | Sequence[int]) -> RaggedTensor:
        """Make frames from ``lengths`` (B,), whose sum is the number of ``values`` (N, ...)."""
        check_tensor("the values of a RaggedTensor", values)
        lengths = whole_numbers("the lengths of a RaggedTensor", lengths).to(torch.int64)
        if lengths.ndim != 1:
            raise BatchError(
                "the lengths of a RaggedTensor are not a list",
                expected="(B,)",
                received=tuple(lengths.shape),
            )
        offsets = offsets_of(lengths)
        known = offsets if offsets.device.type == "cpu" else None
        ragged = cls.unchecked(values, send(offsets, values.device), known)
        ragged.check()
        return ragged

    @classmethod
    def unchecked(
        cls, values: Tensor, offsets: Tensor, known_offsets: Tensor | None = None
    ) -> RaggedTensor:
        """Make frames without checks, from values and offsets that are known to fit.

        Each step makes many small ones, and a check takes as long as their computation. Functions
        that read them check them again, because the numbers of any tensor may have changed.
        """
        ragged = object.__new__(cls)
        object.__setattr__(ragged, "values", values)
        object.__setattr__(ragged, "offsets", offsets)
        object.__setattr__(ragged, "known_offsets", known_offsets)
        return ragged

    def with_values(self, values: Tensor) -> RaggedTensor:
        """Return frames of the same lengths with other ``values`` (N, ...)."""
        check_tensor("the values of a RaggedTensor", values)
        return RaggedTensor.unchecked(values, self.offsets, self.known_offsets)

    @property
    def host_offsets(self) -> Tensor:
        """The offsets (B + 1,) int64 on the CPU; unknown ones are read from the device once."""
        if self.offsets.device.type == "cpu":
            return self.offsets
        if self.known_offsets is None:
            object.__setattr__(self, "known_offsets", self.offsets.cpu())
        assert self.known_offsets is not None
        return self.known_offsets

    @property
    def lengths(self) -> Tensor:
        """The number of rows of each frame: (B,) int64."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def num_frames(self) -> int:
        """The number of frames B, including empty ones."""
        return self.offsets.numel() - 1

    @property
    def num_rows(self) -> int:
        """The number of rows N of all frames."""
        return self.values.shape[0]

    def frame_ids(self) -> Tensor:
        """Return the frame of each row: (N,) int64."""
        if self._in_kernels:
            try:
                ids = kernels.load("indices").frame_ids(self.offsets.numpy(), self.num_rows)
            except Exception:
                self.check()  # its errors describe changed offsets better
                raise
            return torch.from_numpy(ids)
        frames = torch.arange(self.num_frames, device=self.offsets.device)
        return repeat_by_frame(frames, self.lengths, self.num_rows)

    @property
    def _in_kernels(self) -> bool:
        return self.offsets.device.type == "cpu" and kernels.available()

    def select(self, frames: Tensor | FrameNumbers) -> RaggedTensor:
        """Return the given ``frames`` (K,) int64, in that order; a frame may occur more than once.

        Raises:
            BatchError: A frame does not exist.
            DtypeError, BatchError: See ``FrameNumbers``.
        """
        return self.select_with_rows(frames)[0]

    def select_with_rows(self, frames: Tensor | FrameNumbers) -> tuple[RaggedTensor, Tensor]:
        """Return the result of ``select``, and the rows (M,) int64 of the selected frames."""
        frames = FrameNumbers.of(frames, self.offsets.device)
        if self._in_kernels:
            wanted, gather = frames.host.contiguous().numpy(), kernels.load("indices").gather_rows
            try:
                found = gather(self.offsets.numpy(), self.num_rows, wanted)
            except Exception:
                self.check()  # its errors describe changed offsets better
                raise
            rows, offsets = map(torch.from_numpy, found)
            return RaggedTensor.unchecked(self.values.index_select(0, rows), offsets), rows
        host = self.host_offsets
        known = offsets_of((host[1:] - host[:-1]).index_select(0, frames.host))
        offsets, total = send(known, self.offsets.device), int(known[-1])
        shift = self.offsets[:-1].index_select(0, frames.there) - offsets[:-1]
        rows = shifted_places(shift, offsets.diff(), total)
        return RaggedTensor.unchecked(self.values.index_select(0, rows), offsets, known), rows

    @staticmethod
    def cat(parts: Sequence[RaggedTensor]) -> RaggedTensor:
        """Concatenate ``parts``; raise BatchError if there are none."""
        check_kind("the RaggedTensors to concatenate", parts, Sequence)
        for part in parts:
            check_kind("a part to concatenate", part, RaggedTensor)
        if not parts:
            raise BatchError("no RaggedTensor to concatenate", expected="at least one")
        devices = {part.values.device for part in parts}
        if len(devices) > 1:
            raise DeviceError(
                "RaggedTensors on different devices cannot be concatenated",
                received=sorted(map(str, devices)),
            )
        trailing = {tuple(part.values.shape[1:]) for part in parts}
        if len(trailing) > 1:
            raise BatchError(
                "RaggedTensors with rows of different shapes cannot be concatenated",
                received=sorted(trailing),
            )
        values = torch.cat([part.values for part in parts])
        known = torch.cat([part.host_offsets.diff() for part in parts])
        return RaggedTensor.from_lengths(values, known)

    def to(self, device: torch.device | str) -> RaggedTensor:
        """Return the same frames on ``device``."""
        device = device_named(device)
        known = self.offsets if self.offsets.device.type == "cpu" else self.known_offsets
        moved = RaggedTensor.unchecked(send(self.values, device), send(self.offsets, device), known)
        moved.check()
        return moved
