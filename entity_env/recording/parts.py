"""The folder of a recording, with files of Parquet that are complete in themselves.

The name of a part, such as ``part-000003-5f3a9c01.parquet``, holds its number and the CRC-32 of its
bytes, which begins with the number. Damage anywhere in the file is therefore noticed, and so is a
part that was renamed, or is missing before another one. A part is written under another name,
reaches the disk, and is then renamed: a program that is killed leaves whole parts.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.errors import RecordingError, counted, shorten
from entity_env.recording.parquet import (
    MOST_BYTES,
    OUTCOMES,
    TableFormat,
    import_arrow,
    open_parquet,
    read_outcomes,
    table_size,
)
from entity_env.recording.records import Ints, Outcomes
from entity_env.storage.files import (
    is_leftover,
    lock,
    read_file,
    remove,
    remove_leftovers,
    write_file,
)

__all__ = [
    "DamageWarning",
    "PartWriter",
    "Parts",
    "RecordedPart",
    "check_same_spaces",
    "find_parts",
    "is_recording",
    "path_of",
]

_NAME = re.compile(r"part-(\d{6,9})-([0-9a-f]{8})\.parquet")
_MOST_FILE = 1 << 28
_MOST_EPISODES = 1 << 40


class DamageWarning(UserWarning):
    """A warning that a part of a recording is damaged, and only the rest is read."""


@dataclass(frozen=True)
class RecordedPart:
    """A file of a recording that can be read.

    Args:
        path: Path of the file.
        number: The number of parts before it.
        crc: The CRC-32 of its bytes.
        form: The format of its table.
        episodes: The numbers of its episodes, ascending. Shape: (E,), int64.
        rows: The row that played each. Shape: (E,), int64.
        lengths: The number of decisions of each in this part. Shape: (E,), int64.
        rewards: The sum of their rewards. Shape: (E,), float64.
        size: The largest number of bytes of its table in memory.
        after_gap: True if the part before it is damaged or missing.
    """

    path: Path
    number: int
    crc: int
    form: TableFormat
    episodes: Ints
    rows: Ints
    lengths: Ints
    rewards: npt.NDArray[np.float64]
    size: int
    after_gap: bool

    @property
    def frames(self) -> int:
        """The number of decisions."""
        return int(self.lengths.sum())

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """Return the table, or some of its columns.

        Raises:
            RecordingError: The file has changed since it was found, or cannot be read.
        """
        with self._explained():
            data = read_file(self.path, _MOST_FILE)
            if zlib.crc32(data, self.number) != self.crc:
                raise ValueError("it has changed since it was opened")
            return open_parquet(data)[0].read(columns)

    def outcomes(self) -> Outcomes:
        """Return the outcomes of the frames, which are read without the frames."""
        with self._explained():
            return read_outcomes(self.read(OUTCOMES))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Convert errors of a file, which may contain anything, to errors of this package."""
        try:
            yield
        except RecordingError:
            raise
        except Exception as error:
            raise RecordingError(f"{self.path} cannot be read: {error}") from error


@dataclass(frozen=True)
class Parts:
    """The parts of a recording.

    Args:
        path: Path of the folder.
        parts: The parts that can be read, in their order.
        total: The number of all parts.
        problems: The reasons why parts cannot be read.
    """

    path: Path
    parts: list[RecordedPart]
    total: int
    problems: list[str]

    @property
    def lost_parts(self) -> int:
        """The number of parts that are damaged or missing."""
        return self.total - len(self.parts)

    def __str__(self) -> str:
        listed = "; ".join(self.problems[:5]) + "; ..." * (len(self.problems) > 5)
        frames = sum(part.frames for part in self.parts)
        return (
            f"{self.path} is damaged: {self.lost_parts:,} of {counted(self.total, 'part')} cannot "
            f"be read; {counted(frames, 'frame')} can be read ({listed})"
        )


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Return True if the path is a folder with parts of a recording."""
    try:
        return any(map(_NAME.fullmatch, os.listdir(path)))
    except OSError:
        return False


def find_parts(path: Path) -> Parts:
    """Return the parts in a folder, after reading each once.

    Raises:
        RecordingError: The folder does not exist, has no parts, or has those of several recordings.
    """
    names = _names(path)
    parts: list[RecordedPart] = []
    problems: list[str] = []
    firsts = set[int]()
    expected = 0
    for number, name in names.items():
        if number > expected:
            problems.append(f"{counted(number - expected, 'part')} missing before {name}")
        after_gap = number > 0 and (not parts or parts[-1].number != number - 1)
        try:
            part, first_crc = _open(path / name, number, after_gap)
        except (OSError, ValueError) as error:
            problems.append(f"{name}: {error}")
        else:
            parts.append(part)
            firsts.add(first_crc)
        expected = number + 1
    if len(firsts) > 1:
        raise RecordingError(
            f"{path} has parts of {counted(len(firsts), 'recording')}",
            hint="remove the parts of other recordings",
        )
    if len({id(part.form) for part in parts}) > 1:
        raise RecordingError(
            f"the parts of {path} have different spaces, or only some have log_probs or logits"
        )
    return Parts(path, parts, expected, problems)


def _names(path: Path) -> dict[int, str]:
    """Return the names of the parts in a folder by their numbers, ascending."""
    try:
        found = sorted(filter(_NAME.fullmatch, os.listdir(path)))
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="a recording is a folder" if isinstance(error, NotADirectoryError) else None,
        ) from error
    names: dict[int, str] = {}
    for name in found:
        number = int(name.split("-")[1])
        if number in names:
            raise RecordingError(
                f"{path} has two parts of the number {number}", received=[names[number], name]
            )
        names[number] = name
    if not names:
        raise RecordingError(
            f"{path} has no part of a recording",
            expected="files such as part-000000-5f3a9c01.parquet",
            hint="a recorder writes its first part after some seconds",
        )
    return dict(sorted(names.items()))


def _open(path: Path, number: int, after_gap: bool) -> tuple[RecordedPart, int]:
    """Return a part, and the CRC-32 of the first part of its recording.

    Raises:
        OSError, ValueError: The file is damaged, or has another name than it was written with.
    """
    data = read_file(path, _MOST_FILE)
    crc = zlib.crc32(data, number)
    if _name(number, crc) != path.name:
        raise ValueError("damaged, cut off or renamed" if data else "empty")
    file, form, first_crc = open_parquet(data)
    outcomes = read_outcomes(file.read(OUTCOMES[:-1]))  # without the metrics
    if not ((outcomes.episode >= 0) & (outcomes.episode < _MOST_EPISODES)).all():
        raise ValueError("it has an impossible episode")
    episodes, first, place = np.unique(outcomes.episode, return_index=True, return_inverse=True)
    part = RecordedPart(
        path=path,
        number=number,
        crc=crc,
        form=form,
        episodes=episodes,
        rows=outcomes.row[first],
        lengths=np.bincount(place, outcomes.is_decision, len(episodes)).astype(np.int64),
        rewards=np.bincount(place, outcomes.reward, len(episodes)).astype(np.float64),
        size=table_size(file),
        after_gap=after_gap,
    )
    return part, first_crc if number else crc


def _name(number: int, crc: int) -> str:
    return f"part-{number:06d}-{crc:08x}.parquet"


class PartWriter:
    """A writer of the parts of a recording into a folder.

    Args:
        path: Path of the folder.
        overwrite: True to replace an existing recording.

    Raises:
        RecordingError: The path exists, without ``overwrite``; it is not a recording; another
            recorder writes it; or it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self.path = path_of(path)
        self._number = self._first_crc = 0
        try:
            self._make_folder(exists=overwrite)
            self._folder = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        try:
            self._begin()
        except BaseException:
            os.close(self._folder)
            raise

    @property
    def is_empty(self) -> bool:
        """True if the folder has no parts."""
        return self._number == 0

    def write(self, tables: Sequence[Any], form: TableFormat) -> None:
        """Write tables of a format as the next part, and wait until it is on the disk.

        Raises:
            RecordingError: The part cannot be written, and the folder is as it was before.
        """
        size = sum(table.nbytes for table in tables)
        data = b""
        if size <= MOST_BYTES:
            data = form.parquet(import_arrow().concat_tables(tables), self._first_crc)
        if size > MOST_BYTES or len(data) > _MOST_FILE:
            raise RecordingError(
                "a step is too large to be recorded",
                expected=f"at most {MOST_BYTES:,} bytes in all rows together",
                received=f"{size:,} bytes",
            )
        try:
            crc = zlib.crc32(data, self._number)
            write_file(self.path / _name(self._number, crc), data)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._first_crc, self._number = self._first_crc or crc, self._number + 1

    def close(self) -> None:
        """Allow other recorders to continue."""
        os.close(self._folder)

    def _make_folder(self, *, exists: bool) -> None:
        """Make the folder, or check that it is one of a recording."""
        try:
            self.path.mkdir()
        except FileExistsError:
            if not exists:
                raise RecordingError(
                    f"{self.path} exists",
                    hint="overwrite=True (--overwrite in the terminal) replaces it; several "
                    "recordings can be read together",
                ) from None
        if self.path.is_symlink():
            raise RecordingError(f"{self.path} is a link; links are not written to")
        others = [name for name in os.listdir(self.path) if not _NAME.fullmatch(name)]
        others = [name for name in others if not is_leftover(name)]
        if others:
            raise RecordingError(
                f"{self.path} is not a recording", received=f"a folder with {shorten(others[0])}"
            )

    def _begin(self) -> None:
        """Remove the parts of an earlier recording."""
        try:
            lock(self._folder)
        except BlockingIOError:
            raise RecordingError(
                f"{self.path} is being written by another recorder",
                hint="close that one first, or write to another folder",
            ) from None
        remove_leftovers(self.path)
        for name in filter(_NAME.fullmatch, os.listdir(self.path)):
            remove(self.path / name)


def path_of(path: str | os.PathLike[str]) -> Path:
    """Return a path, or raise RecordingError for other objects."""
    try:
        return Path(path)
    except TypeError as error:
        raise RecordingError("the path is not one", received=shorten(path)) from error


def check_same_spaces(what: str, expected: Mapping[str, Any], received: Mapping[str, Any]) -> None:
    """Raise RecordingError unless two values of ``spaces_to_json`` are equal."""
    for part in expected:
        if expected[part] != received[part]:
            raise RecordingError(
                f"{what}: the {part} differ",
                expected=shorten(expected[part], 400),
                received=shorten(received[part], 400),
            )


def _unwritable(path: Path, error: OSError) -> RecordingError:
    return RecordingError(f"{path} cannot be written: {error.strerror or error}")
