"""Writer that appends chunks to a file."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from entity_env.errors import RecordingError, shorten
from entity_env.recording.arrays import Array, pack_arrays
from entity_env.recording.chunk_file import (
    MOST_BYTES,
    Place,
    is_cut,
    next_place,
    read_chunks,
    read_header,
    write_chunk,
    write_header,
)
from entity_env.recording.recording import DamageWarning
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.storage.files import lock, open_to_append, write_file
from entity_env.storage.space_json import spaces_to_json

__all__ = ["ChunkWriter"]


class ChunkWriter:
    """A writer of chunks to a new file, or to a recording with the same spaces.

    Args:
        path: Path of the file.
        obs_space: The observation space.
        action_space: The action space.
        append: True to continue an existing file; an incomplete chunk at its end is removed.
        overwrite: True to replace an existing file.

    Raises:
        RecordingError: The file exists, without ``append`` or ``overwrite``; it has other spaces,
            or is damaged before its end; another recorder writes it; or it cannot be opened.
    """

    noted: tuple[bool, bool] | None = None
    """Two booleans, True if earlier chunks have log-probabilities, and logits; None without any."""
    _place: Place

    def __init__(
        self,
        path: str | os.PathLike[str],
        obs_space: ObsSpace,
        action_space: Mapping[ActionName, ActionSpace],
        *,
        append: bool = False,
        overwrite: bool = False,
    ) -> None:
        try:
            self.path = Path(path)
        except TypeError as error:
            raise RecordingError("the path is not one", received=shorten(path)) from error
        if append and overwrite:
            raise RecordingError("append=True and overwrite=True cannot be combined")
        try:
            if overwrite:
                write_file(self.path, write_header(obs_space, action_space))
            elif not append:
                self.path.touch(exist_ok=False)
            # Unbuffered, so that each chunk is written by one call.
            self._file = open_to_append(self.path)
        except FileExistsError as error:
            raise RecordingError(
                f"{self.path} exists",
                hint="append=True (--append in the terminal) continues it, "
                "overwrite=True replaces it",
            ) from error
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            self._begin(obs_space, action_space)
        except BaseException as error:
            self._file.close()
            if isinstance(error, OSError):
                raise _unwritable(self.path, error) from error
            raise

    def write(self, arrays: Sequence[Array], flags: int, steps: int, rows: int) -> None:
        """Append a chunk, and wait until it is on the disk.

        Args:
            arrays: The arrays of the chunk.
            flags: The flags of the chunk.
            steps: T.
            rows: R.

        Raises:
            RecordingError: The chunk cannot be written, and the file is as it was before.
        """
        payload = pack_arrays(arrays)
        size = sum(array.nbytes for array in arrays)
        if max(size, len(payload)) > MOST_BYTES:
            raise RecordingError(
                "a step is too large to be recorded",
                expected=f"at most {MOST_BYTES:,} bytes in all rows together",
                received=f"{size:,} bytes",
            )
        try:
            chunk = write_chunk(payload, size, flags, steps, rows, self._place)
            self._append(chunk)
            self._place = next_place(self._place, chunk)
        except BaseException as error:  # including Ctrl-C between two writes
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            if isinstance(error, OSError):
                raise _unwritable(self.path, error) from error
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        """Write the header, or go to the end of a recording with the same spaces."""
        try:
            lock(self._file.fileno())
        except BlockingIOError:
            raise RecordingError(
                f"{self.path} is being written by another recorder",
                hint="close that one first, or write another file",
            ) from None
        header = write_header(obs_space, action_space)
        self._end = 0
        self._file.seek(0)
        start = self._file.read(len(header))
        if len(start) < len(header) and header.startswith(start):
            # The file is new, or its program was killed before the first step.
            self._file.truncate(0)
            self._append(header)
        self._file.seek(0)
        known = read_header(self._file, self.path)
        theirs = spaces_to_json(known.obs_space, known.action_space)
        for kind, own in spaces_to_json(obs_space, action_space).items():
            if own != theirs[kind]:
                raise RecordingError(
                    f"{self.path} has other spaces: the {kind} differ",
                    expected=shorten(theirs[kind], 400),
                    received=shorten(own, 400),
                )
        chunks = read_chunks(self._file, known, self.path)
        self._place = chunks[-1].next_place if chunks else known.first
        self._end = known.end
        for chunk in chunks:
            if not chunk.after_gap:
                self._end = chunk.end
                continue
            raise RecordingError(
                f"{self.path} is damaged at byte {self._end:,}, and complete chunks follow",
                expected="damage at the end only, as after a program was killed",
                hint="record to another file, because appending would remove these chunks",
            )
        size = os.fstat(self._file.fileno()).st_size
        if self._end < size and not is_cut(self._file, self._end):
            warnings.warn(
                f"{self.path} is damaged: its bytes {self._end:,} to {size:,} are removed",
                DamageWarning,
                stacklevel=4,
            )
        self.noted = chunks[-1].noted if chunks else None
        self._file.truncate(self._end)

    def _append(self, data: bytes) -> None:
        self._file.seek(self._end)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file.fileno())
        self._end += len(data)


def _unwritable(path: Path, error: OSError) -> RecordingError:
    return RecordingError(f"{path} cannot be written: {error.strerror or error}")
