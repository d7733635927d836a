"""The files of one checkpoint, with digests that show whether they are unchanged.

``state.json`` contains the size and the SHA-256 digest of every other file, and in its first line
the digest of the lines after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from entity_env.command_line import version_text
from entity_env.errors import CheckpointError, StateError, shorten
from entity_env.storage.bounded_json import count_values, parse_json
from entity_env.storage.files import open_file, read_file, sync_folder, write_file
from ppo_trainer.runs.tensor_file import TensorForm, load_tensors, read_forms, save_tensors

__all__ = ["STATE", "SavedFiles", "write_checkpoint"]

STATE = "state.json"
_MOST_STATE = 1 << 28  # bytes
_MOST_VALUES = 4_000_000
_FIRST_LINE = re.compile(rb'\{"sha256": "([0-9a-f]{64})",')
_BLOCK = 1 << 20
_FORMAT = 3
"""Number of the format, which changes whenever files of another version cannot be read."""

ReadT = TypeVar("ReadT")


def write_checkpoint(
    folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]
) -> None:
    """Write the files of a checkpoint into an empty folder, and sync them to the disk.

    Args:
        folder: Folder to write to.
        tensors: Tensors of each file, by the name of the file.
        facts: Content of ``state.json``.

    Raises:
        StateError: The facts are not JSON values, or are too large.
        OSError: A file cannot be written.
    """
    files = {}
    for name, own in tensors.items():
        data = save_tensors(own)
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        write_file(folder / name, data)
    made_by = {"format": _FORMAT, "version": version_text().partition(",")[0]}
    rest = _json({**made_by, "files": files, **facts})[1:]
    if len(rest) > _MOST_STATE or count_values(rest) > _MOST_VALUES:
        raise StateError(
            "the state that the environments' get_state returns is too large for a checkpoint",
            expected=f"at most {_MOST_STATE:,} bytes and {_MOST_VALUES:,} values in all rows",
            received=f"{len(rest):,} bytes and up to {count_values(rest):,} values",
        )
    first = f'{{"sha256": "{hashlib.sha256(rest).hexdigest()}",\n'
    write_file(folder / STATE, first.encode() + rest)
    sync_folder(folder)


@dataclass(frozen=True)
class SavedFiles:
    """A checkpoint whose ``state.json`` has been read.

    Args:
        folder: The checkpoint.
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
        return _checked(folder / STATE, lambda: cls(folder, *_read_state(folder / STATE)))

    def has(self, name: str) -> bool:
        """Return True if the checkpoint has a file with this name."""
        return name in self.digests

    def check(self) -> None:
        """Raise CheckpointError unless every file is unchanged."""
        for name in self.digests:
            _checked(self.folder / name, partial(self._check, name))

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
            size = os.fstat(file.fileno()).st_size
            self._check_size(name, size)
            return read_forms(file, size)

    def _tensors(self, name: str) -> dict[str, Tensor]:
        self._forms(name)
        size = os.stat(self.folder / name).st_size
        data = read_file(self.folder / name, size)
        self._check_size(name, len(data))
        self._check_digest(name, hashlib.sha256(data).hexdigest())
        tensors = load_tensors(data)
        for key, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError(f"{key!r} has numbers that are not finite")
        return tensors

    def _check(self, name: str) -> None:
        digest = hashlib.sha256()
        with open_file(self.folder / name) as file:
            self._check_size(name, os.fstat(file.fileno()).st_size)
            while block := file.read(_BLOCK):
                digest.update(block)
        self._check_digest(name, digest.hexdigest())

    def _check_size(self, name: str, size: int) -> None:
        if name not in self.digests:
            raise ValueError("it was not saved with this checkpoint")
        if size != self.digests[name][0]:
            raise ValueError(f"it has {size:,} bytes instead of {self.digests[name][0]:,}")

    def _check_digest(self, name: str, digest: str) -> None:
        if digest != self.digests[name][1]:
            raise ValueError("it has changed since it was saved: its digest differs")


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
    return facts, {name: (int(own["bytes"]), str(own["sha256"])) for name, own in files.items()}


def _checked(path: Path, read: Callable[[], ReadT]) -> ReadT:
    """Return the result of ``read``; its errors name the file ``path``."""
    try:
        return read()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def _json(facts: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(facts).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(
            f"the state that the environment's get_state returns cannot be saved as JSON: {error}",
            expected="dicts with strings as keys, lists, strings, numbers, booleans and None",
            hint="use array.tolist() to turn a NumPy array into a list",
        ) from error
