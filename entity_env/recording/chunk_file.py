"""The file of a recording: a header with the spaces, then independent chunks.

All numbers are little-endian::

    header  magic (8 bytes), version, length of the spaces, crc32 (uint32 each), the spaces as JSON
    chunk   magic (4 bytes), flags, steps, rows (uint32), bytes in the file, bytes unpacked, bytes
            of all arrays, chunks before it (uint64), crc32 of the chunk or header before it, crc32
            (uint32) of the numbers so far and of what follows; then as many bytes, compressed with
            zlib

A chunk is written with one call and reaches the disk before the next one is written. If a program
is killed, only its last chunk may be cut off. The checksum of the preceding chunk shows if chunks
were moved. After a damaged chunk, reading continues with the next complete one.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from entity_env.errors import EntityEnvError, RecordingError
from entity_env.recording.arrays import MOST_INDEX, check_index
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.storage.bounded_json import count_values, parse_json
from entity_env.storage.space_json import spaces_from_json, spaces_to_json

__all__ = [
    "AFTER_RESET",
    "CONTINUES",
    "HAS_LOGITS",
    "HAS_LOG_PROBS",
    "MOST_BYTES",
    "Chunk",
    "Header",
    "Place",
    "is_cut",
    "next_place",
    "read_chunks",
    "read_header",
    "read_payload",
    "write_chunk",
    "write_header",
]

HAS_LOG_PROBS, HAS_LOGITS = 1, 2
CONTINUES = 4
"""Flag of a chunk that continues the one before it."""
AFTER_RESET = 8
"""Flag of a chunk whose first observation is the first of an episode in all rows."""
MOST_BYTES = 1 << 30
"""The largest memory of a chunk, which limits the memory that a malicious file can request."""

_MAGIC = b"\x89EPS\r\n\x1a\n"
_VERSION = 2
_HEADER = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_CHUNK_MAGIC = b"CHNK"
_CHUNK = struct.Struct("<4sIIIQQQQI")
_HEAD = _CHUNK.size + _CRC.size
_LENGTH = struct.Struct("<I")  # at the beginning of arrays
_MOST_SPACES, _MOST_PARTS = 1 << 22, 100_000  # bytes and values of the JSON
_BLOCK = 1 << 20
_SEARCHED = 8
"""The largest multiple of the file's size that a search for chunks reads, as a malicious file may
contain many beginnings of chunks."""
_LEVEL = 1
"""The level of zlib; higher levels take several times as long, and save a few percent."""


@dataclass(frozen=True)
class Place:
    """The place of a chunk: the number of chunks before it, and the last one's checksum."""

    number: int
    crc: int


@dataclass(frozen=True)
class Header:
    """The beginning of a file; the chunks start at byte ``end``, the first one at ``first``."""

    obs_space: ObsSpace
    action_space: dict[ActionName, ActionSpace]
    first: Place
    end: int


@dataclass(frozen=True)
class Chunk:
    """The description of one chunk in a file.

    Args:
        flags: ``HAS_LOG_PROBS``, ``HAS_LOGITS``, ``CONTINUES``, ``AFTER_RESET``, added up.
        steps: T.
        rows: R.
        stored: The number of compressed bytes.
        unpacked: The number of bytes that they become.
        arrays: The number of bytes of the arrays in these.
        place: The place for which it was written.
        crc: Its checksum.
        start: The byte of the file at which the compressed bytes start.
        after_gap: True if the chunk before it is lost.
    """

    flags: int
    steps: int
    rows: int
    stored: int
    unpacked: int
    arrays: int
    place: Place
    crc: int
    start: int
    after_gap: bool = field(default=False, compare=False)

    @property
    def begin(self) -> int:
        """The start of the chunk, its numbers included."""
        return self.start - _HEAD

    @property
    def continues(self) -> bool:
        """True if it continues the chunk before it in the list."""
        return bool(self.flags & CONTINUES) and not self.after_gap

    @property
    def end(self) -> int:
        """The start of the next chunk."""
        return self.start + self.stored

    @property
    def next_place(self) -> Place:
        """The place of the next chunk."""
        return Place(self.place.number + 1, self.crc)

    @property
    def frames(self) -> int:
        """T * R."""
        return self.steps * self.rows

    @property
    def noted(self) -> tuple[bool, bool]:
        """True if it has log-probabilities, and logits."""
        return bool(self.flags & HAS_LOG_PROBS), bool(self.flags & HAS_LOGITS)


def write_header(obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> bytes:
    """Return the header of a new recording with these spaces.

    Raises:
        RecordingError: The spaces are too large.
    """
    text = json.dumps(spaces_to_json(obs_space, action_space)).encode()
    if len(text) > _MOST_SPACES or count_values(text) > _MOST_PARTS:
        raise RecordingError(
            "the spaces are too large to be recorded",
            expected=f"at most {_MOST_PARTS:,} features, entity types, actions and labels",
            received=f"up to {count_values(text):,}, {len(text):,} bytes",
        )
    head = _HEADER.pack(_MAGIC, _VERSION, len(text))
    return head + _CRC.pack(zlib.crc32(text, zlib.crc32(head))) + text


def read_header(file: BinaryIO, path: Path) -> Header:
    """Read the header of a file that has just been opened.

    Raises:
        RecordingError: The file is empty, not a recording, of a newer version, or damaged.
    """
    head = file.read(_HEADER.size + _CRC.size)
    if not head:
        raise RecordingError(f"{path} is empty", expected="a recording")
    if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
        raise RecordingError(f"{path} is not a recording", hint="RecordEpisodes writes them")
    if len(head) < _HEADER.size + _CRC.size:
        raise RecordingError(f"{path} is cut off in its header", hint=_NOTHING_LOST)
    _, version, length = _HEADER.unpack_from(head)
    if version != _VERSION:
        age = "a newer" if version > _VERSION else "an older"
        raise RecordingError(
            f"{path} was written by {age} version of this library",
            expected=f"format {_VERSION}",
            received=f"format {version}",
        )
    if length > _MOST_SPACES:
        raise RecordingError(f"the header of {path} is damaged")
    text = file.read(length)
    if len(text) < length:
        raise RecordingError(f"{path} is cut off in its header", hint=_NOTHING_LOST)
    crc = _CRC.unpack_from(head, _HEADER.size)[0]
    if zlib.crc32(text, zlib.crc32(head[: _HEADER.size])) != crc:
        raise RecordingError(f"the header of {path} is damaged")
    try:
        spaces = spaces_from_json(parse_json(text, _MOST_PARTS))
    except (EntityEnvError, ValueError, RecursionError) as error:
        raise RecordingError(f"the spaces in {path} are damaged: {error}") from error
    return Header(*spaces, Place(0, crc), end=len(head) + length)


def write_chunk(
    payload: bytes, array_bytes: int, flags: int, steps: int, rows: int, place: Place
) -> bytes:
    """Return the bytes of a chunk; see ``Chunk`` for the arguments."""
    body = zlib.compress(payload, _LEVEL)
    sizes = len(body), len(payload), array_bytes
    head = _CHUNK.pack(_CHUNK_MAGIC, flags, steps, rows, *sizes, place.number, place.crc)
    return b"".join([head, _CRC.pack(zlib.crc32(body, zlib.crc32(head))), body])


def next_place(place: Place, written: bytes) -> Place:
    """Return the place of the chunk after the chunk ``written``."""
    return Place(place.number + 1, _CRC.unpack_from(written, _CHUNK.size)[0])


def read_chunks(file: BinaryIO, header: Header, path: Path) -> list[Chunk]:
    """Return the complete chunks of a file, with a mark on those after a damaged one.

    Raises:
        RecordingError: A chunk was moved, or another recording follows.
    """
    chunks: list[Chunk] = []
    size, start, place = os.fstat(file.fileno()).st_size, header.end, header.first
    budget = _SEARCHED * size
    while True:
        chunk = _read_chunk(file, start, size)
        if chunk is None:
            file.seek(start)
            if file.read(len(_MAGIC)) == _MAGIC:
                raise RecordingError(
                    f"{path}: another recording begins at byte {start:,}",
                    expected="one recording in a file",
                    hint="use a file for each; append=True continues a recording",
                )
            chunk, budget = _search_chunk(file, start + 1, size, budget)
        if chunk is None:
            return chunks
        fits = chunk.place.number > place.number if chunk.after_gap else chunk.place == place
        if not fits:
            other = " of another recording" if chunk.place.number == place.number else ""
            raise RecordingError(
                f"{path}: the chunk at byte {chunk.begin:,} is not where it was written",
                expected=f"chunk {place.number} of this recording",
                received=f"chunk {chunk.place.number}{other}",
                hint="parts of recordings were swapped, repeated, removed or joined; "
                "append=True continues a recording",
            )
        chunks.append(chunk)
        start, place = chunk.end, chunk.next_place


def is_cut(file: BinaryIO, start: int) -> bool:
    """Return True if a chunk begins at byte ``start`` that was cut off when a program was killed.

    Other bytes are damaged.
    """
    file.seek(start)
    head = file.read(_HEAD)
    if head[: len(_CHUNK_MAGIC)] != _CHUNK_MAGIC[: len(head)]:
        return False
    if len(head) < _HEAD:
        return True
    stored = _CHUNK.unpack_from(head)[4]
    return bool(start + len(head) + stored > os.fstat(file.fileno()).st_size)


def _search_chunk(file: BinaryIO, start: int, size: int, budget: int) -> tuple[Chunk | None, int]:
    """Return the next complete chunk or None, and the rest of the budget of bytes to read."""
    if start >= size:
        return None, budget
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        while budget > 0 and (start := memory.find(_CHUNK_MAGIC, start)) >= 0:
            chunk = _read_chunk(file, start, size)
            budget -= file.tell() - start
            if chunk is not None:
                return replace(chunk, after_gap=True), budget
            start += 1
    return None, budget


def read_payload(file: BinaryIO, chunk: Chunk) -> bytes:
    """Return the unpacked bytes of a chunk.

    Raises:
        ValueError: The bytes do not match the chunk's header.
    """
    if _read_chunk(file, chunk.begin, chunk.end) != chunk:
        raise ValueError("the file has changed since it was opened")
    file.seek(chunk.start)
    unpacker = _Unpacker(file, chunk.stored)
    # Check the index before allocating memory for the rest.
    length = unpacker.take(_LENGTH.size)
    size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else 0
    if not 0 < size <= MOST_INDEX:
        raise ValueError("no index")
    index = unpacker.take(size)
    check_index(index, chunk.unpacked - _LENGTH.size - size, chunk.arrays)
    payload = b"".join([length, index, unpacker.take(chunk.unpacked - _LENGTH.size - size)])
    if len(payload) != chunk.unpacked or not unpacker.is_at_end():
        raise ValueError(f"{chunk.unpacked} bytes expected, at least {len(payload)} received")
    return payload


class _Unpacker:
    """A reader that unpacks only the requested number of bytes.

    Args:
        file: The file, at the first compressed byte.
        stored: The number of compressed bytes.
    """

    def __init__(self, file: BinaryIO, stored: int) -> None:
        self._file, self._left = file, stored
        self._unpacker, self._packed = zlib.decompressobj(), b""

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes, or fewer at the end of the data.

        Raises:
            ValueError: The bytes are damaged.
        """
        parts, missing = [], size
        while missing > 0 and not self._unpacker.eof:
            if not self._packed:
                self._packed = self._file.read(min(self._left, _BLOCK))
                self._left -= len(self._packed)
            is_last = not self._packed
            try:
                part = self._unpacker.decompress(self._packed, missing)
            except zlib.error as error:
                raise ValueError(str(error)) from error
            self._packed = self._unpacker.unconsumed_tail
            parts.append(part)
            missing -= len(part)
            if is_last and not part:
                break
        return b"".join(parts)

    def is_at_end(self) -> bool:
        """Return True if no bytes follow."""
        return not self.take(1) and self._unpacker.eof and not self._left


def _read_chunk(file: BinaryIO, start: int, size: int) -> Chunk | None:
    """Return the chunk that starts at ``start``, if it is complete in a file of ``size`` bytes."""
    file.seek(start)
    head = file.read(_HEAD)
    if len(head) < _HEAD:
        return None
    magic, flags, steps, rows, stored, unpacked, arrays, *place = _CHUNK.unpack_from(head)
    left = stored
    if (
        magic != _CHUNK_MAGIC
        or start + len(head) + stored > size
        or max(unpacked, arrays) > MOST_BYTES
        or not steps
    ):
        return None
    crc = zlib.crc32(head[: -_CRC.size])
    while left and (block := file.read(min(left, _BLOCK))):
        crc = zlib.crc32(block, crc)
        left -= len(block)
    if left or crc != _CRC.unpack(head[-_CRC.size :])[0]:
        return None
    return Chunk(flags, steps, rows, stored, unpacked, arrays, Place(*place), crc, start + _HEAD)


_NOTHING_LOST = "no step was recorded in it: record again with overwrite=True, or append=True"
