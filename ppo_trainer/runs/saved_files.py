"""Folders of tensors: safetensors files, and ``state.json`` with everything else.

``state.json`` contains the size and the SHA-256 digest of every other file, and in its first line
the digest of the lines after it. Headers are checked before anything is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from entity_env.command_line import version_text
from entity_env.errors import CheckpointError, StateError, shorten
from entity_env.storage.bounded_json import count_values, parse_json
from entity_env.storage.files import (
    fresh_name,
    open_file,
    read_file,
    remove,
    sync_folder,
    write_file,
)

__all__ = ["SavedFiles", "TensorForm", "write_files"]

_STATE = "state.json"
_MOST_STATE = 1 << 28  # bytes
_MOST_VALUES = 4_000_000
_MOST_HEADER = 1 << 22  # bytes of the names and shapes in a file of tensors
_FIRST_LINE = re.compile(rb'\{"sha256": "([0-9a-f]{64})",')
_FORMAT = 4
"""Number of the format, which changes whenever files of another version cannot be read."""

ReadT = TypeVar("ReadT")


@dataclass(frozen=True)
class TensorForm:
    """The dtype and shape of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> TensorForm:
        """Return the form of a tensor."""
        return TensorForm(tensor.dtype, tuple(tensor.shape))

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {self.shape}"


def write_files(
    folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]
) -> None:
    """Write a folder under another name, sync it to the disk, and rename it.

    Args:
        folder: The folder, which is replaced if it exists.
        tensors: Tensors of each file, by the name of the file.
        facts: Content of ``state.json``.

    Raises:
        StateError: The facts are not JSON values, or are too large.
        CheckpointError: The disk is full, or the folder is not writable.
    """
    with _replaced(folder) as temporary:
        digests = {}
        for name, named in tensors.items():
            copies = {key: tensor.detach().cpu().contiguous() for key, tensor in named.items()}
            data = safetensors.torch.save(copies)
            digests[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            write_file(temporary / name, data)
        write_file(temporary / _STATE, _state({"files": digests, **facts}))
        sync_folder(temporary)


@dataclass(frozen=True)
class SavedFiles:
    """A folder whose ``state.json`` has been read.

    Args:
        folder: The folder.
        facts: Content of ``state.json``, without digests.
        digests: Size and digest of each file.
    """

    folder: Path
    facts: Mapping[str, Any]
    digests: Mapping[str, tuple[int, str]]

    @classmethod
    def open(cls, folder: Path) -> SavedFiles:
        """Read ``state.json``.

        Raises:
            CheckpointError: The file is damaged, or cannot be read.
        """
        return _checked(folder / _STATE, lambda: cls(folder, *_read_state(folder / _STATE)))

    def has(self, name: str) -> bool:
        """Return True if there is a file with this name."""
        return name in self.digests

    def forms(self, name: str) -> dict[str, TensorForm]:
        """Return the names, dtypes and shapes in a file, without reading its numbers.

        Raises:
            CheckpointError: The file is damaged, or cannot be read.
        """
        return _checked(self.folder / name, lambda: self._forms(name))

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of a file; check its ``forms`` first.

        Raises:
            CheckpointError: The file has changed, is damaged, or cannot be read.
        """
        return _checked(self.folder / name, lambda: self._tensors(name))

    def _forms(self, name: str) -> dict[str, TensorForm]:
        with open_file(self.folder / name) as file:
            self._check_size(name, os.fstat(file.fileno()).st_size)
            if int.from_bytes(file.read(8), "little") > _MOST_HEADER:
                raise ValueError("its header is too large")
        with safe_open(self.folder / name, "pt") as tensors:  # maps the file, without reading it
            return {key: TensorForm.of(tensors.get_tensor(key)) for key in tensors.keys()}  # noqa: SIM118

    def _tensors(self, name: str) -> dict[str, Tensor]:
        data = read_file(self.folder / name, os.stat(self.folder / name).st_size)
        self._check_size(name, len(data))
        if hashlib.sha256(data).hexdigest() != self.digests[name][1]:
            raise ValueError("it has changed since it was saved: its digest differs")
        tensors = safetensors.torch.load(data)
        for key, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError(f"{key!r} has numbers that are not finite")
        return tensors

    def _check_size(self, name: str, size: int) -> None:
        if name not in self.digests:
            raise ValueError("it was not saved with this checkpoint")
        if size != self.digests[name][0]:
            raise ValueError(f"it has {size:,} bytes instead of {self.digests[name][0]:,}")


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """Give an empty folder that replaces ``folder`` at the end of the block."""
    temporary = fresh_name(folder)
    try:
        if folder.parent.is_symlink():
            raise OSError(f"{folder.parent} is a link: link the run's folder itself instead")
        # Never create the run folder: if it does not exist any more, its settings are lost, too.
        folder.parent.mkdir(exist_ok=True)
        temporary.mkdir()
        yield temporary
        remove(folder)
        temporary.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise CheckpointError(f"checkpoint {folder} cannot be written: {error}") from error
    finally:
        remove(temporary)  # free its space on a full disk


def _state(facts: Mapping[str, Any]) -> bytes:
    """Return the content of ``state.json``."""
    made_by = {"format": _FORMAT, "version": version_text().partition(",")[0]}
    try:
        rest = json.dumps({**made_by, **facts}).encode()[1:]
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(
            f"the state that the environment's get_state returns cannot be saved as JSON: {error}",
            expected="dicts with strings as keys, lists, strings, numbers, booleans and None",
            hint="use array.tolist() to turn a NumPy array into a list",
        ) from error
    if len(rest) > _MOST_STATE or count_values(rest) > _MOST_VALUES:
        raise StateError(
            "the state that the environments' get_state returns is too large for a checkpoint",
            expected=f"at most {_MOST_STATE:,} bytes and {_MOST_VALUES:,} values in all rows",
            received=f"{len(rest):,} bytes and up to {count_values(rest):,} values",
        )
    return f'{{"sha256": "{hashlib.sha256(rest).hexdigest()}",\n'.encode() + rest


def _read_state(path: Path) -> tuple[dict[str, Any], dict[str, tuple[int, str]]]:
    data = read_file(path, _MOST_STATE)
    first, _, rest = data.partition(b"\n")
    sealed = _FIRST_LINE.fullmatch(first)
    if sealed is not None and hashlib.sha256(rest).hexdigest().encode() != sealed[1]:
        raise ValueError("its digest differs")
    facts = parse_json(data, _MOST_VALUES)
    if not isinstance(facts, dict):
        raise ValueError("it does not contain a JSON object")
    if facts.get("format") != _FORMAT:
        version = facts.get("version")
        written = version if isinstance(version, str) else "another version of ragged-rl"
        raise CheckpointError(
            f"{path} was written by {shorten(written)}, which this one cannot read"
        )
    if sealed is None:
        raise ValueError("its digest is not in its first line")
    for name in ("sha256", "format", "version"):
        del facts[name]
    files = facts.pop("files")
    return facts, {
        name: (int(digest["bytes"]), str(digest["sha256"])) for name, digest in files.items()
    }


def _checked(path: Path, read: Callable[[], ReadT]) -> ReadT:
    """Return the result of ``read``; its errors name the file ``path``."""
    try:
        return read()
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except (
        ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RuntimeError,
        SafetensorError,
    ) as error:  # fmt: skip
        raise CheckpointError(f"{path} is damaged: {error}") from error
