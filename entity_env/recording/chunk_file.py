"""The file of a recording: a header with the spaces, then chunks, each of which stands for itself.

All numbers are little-endian::

    header  magic (8 bytes), version, length of the spaces, crc32 (uint32 each), the spaces as JSON
    chunk   magic (4 bytes), flags, steps, rows (uint32), bytes in the file, bytes unpacked, bytes
            of all arrays (uint64), crc32 (uint32) of the numbers before it and of what follows;
            then as many bytes, compressed with zlib

A chunk is written with one call and reaches the disk before the next one is begun. What a killed
program leaves is a file whose last chunk is cut.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from entity_env.errors import EntityEnvError, RecordingError
from entity_env.space_json import spaces_from_json, spaces_to_json
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = [
    "AFTER_RESET",
    "CONTINUES",
    "HAS_LOGITS",
    "HAS_LOG_PROBS",
    "MOST_BYTES",
    "Chunk",
    "Header",
    "find_chunk",
    "read_chunks",
    "read_header",
    "read_payload",
    "write_chunk",
    "write_header",
]

HAS_LOG_PROBS, HAS_LOGITS = 1, 2
CONTINUES = 4
"""Flag of a chunk that goes on where the one before it stopped."""
AFTER_RESET = 8
"""Flag of a chunk whose first observation is the first of an episode in all rows."""
MOST_BYTES = 1 << 30
"""What a chunk may need in memory: no file makes its reader allocate much more."""

_MAGIC = b"\x89EPS\r\n\x1a\n"
_VERSION = 1
_HEADER = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_CHUNK_MAGIC = b"CHNK"
_CHUNK = struct.Struct("<4sIIIQQQ")
_BLOCK = 1 << 20
_LEVEL = 1
"""Of zlib: higher ones take several times as long, for a few percent."""


@dataclass(frozen=True)
class Header:
    """What a file begins with; the chunks start at byte ``end``."""

    obs_space: ObsSpace
    action_space: dict[ActionName, ActionSpace]
    end: int


@dataclass(frozen=True)
class Chunk:
    """What a file says about one of its chunks.

    Args:
        flags: ``HAS_LOG_PROBS``, ``HAS_LOGITS``, ``CONTINUES``, ``AFTER_RESET``, added up.
        steps: T.
        rows: R.
        stored: The number of compressed bytes.
        unpacked: The number of bytes that they become.
        arrays: The number of bytes of the arrays in these.
        start: Where the compressed bytes start in the file.
    """

    flags: int
    steps: int
    rows: int
    stored: int
    unpacked: int
    arrays: int
    start: int

    @property
    def end(self) -> int:
        """Where the next chunk starts."""
        return self.start + self.stored

    @property
    def frames(self) -> int:
        """T * R."""
        return self.steps * self.rows

    @property
    def noted(self) -> tuple[bool, bool]:
        """Whether it has log-probabilities, and logits."""
        return bool(self.flags & HAS_LOG_PROBS), bool(self.flags & HAS_LOGITS)


def write_header(obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> bytes:
    """The bytes that a recording in these spaces begins with."""
    text = json.dumps(spaces_to_json(obs_space, action_space)).encode()
    head = _HEADER.pack(_MAGIC, _VERSION, len(text))
    return head + _CRC.pack(zlib.crc32(text, zlib.crc32(head))) + text


def read_header(file: BinaryIO, path: Path) -> Header:
    """The header of a file that has just been opened.

    Raises:
        RecordingError: It is empty, no recording, of a newer version, or damaged.
    """
    head = file.read(_HEADER.size + _CRC.size)
    if not head:
        raise RecordingError(f"{path} is empty", expected="a recording")
    if head[: len(_MAGIC)] != _MAGIC[: len(head)]:
        raise RecordingError(f"{path} is not a recording", hint="RecordEpisodes writes them")
    if len(head) < _HEADER.size + _CRC.size:
        raise RecordingError(f"{path} is cut off in its header", hint=_NOTHING_LOST)
    _, version, length = _HEADER.unpack_from(head)
    if version > _VERSION:
        raise RecordingError(
            f"{path} was written by a newer version of this library",
            expected=f"format {_VERSION}",
            received=f"format {version}",
        )
    rest = os.fstat(file.fileno()).st_size - len(head)
    text = file.read(min(length, rest))
    if len(text) < length:
        raise RecordingError(f"{path} is cut off in its header", hint=_NOTHING_LOST)
    if (
        zlib.crc32(text, zlib.crc32(head[: _HEADER.size]))
        != _CRC.unpack_from(head, _HEADER.size)[0]
    ):
        raise RecordingError(f"the header of {path} is damaged")
    try:
        spaces = spaces_from_json(json.loads(text))
    except (EntityEnvError, ValueError, RecursionError) as error:
        raise RecordingError(f"the spaces in {path} are damaged: {error}") from error
    return Header(*spaces, end=len(head) + length)


def write_chunk(payload: bytes, array_bytes: int, flags: int, steps: int, rows: int) -> bytes:
    """A whole chunk, ready to be appended; ``Chunk`` says what the arguments are."""
    body = zlib.compress(payload, _LEVEL)
    head = _CHUNK.pack(_CHUNK_MAGIC, flags, steps, rows, len(body), len(payload), array_bytes)
    return b"".join([head, _CRC.pack(zlib.crc32(body, zlib.crc32(head))), body])


def read_chunks(file: BinaryIO, start: int) -> list[Chunk]:
    """The complete chunks from byte ``start`` on, up to the first that is damaged or cut."""
    chunks: list[Chunk] = []
    size = os.fstat(file.fileno()).st_size
    while (chunk := _read_chunk(file, start, size)) is not None:
        chunks.append(chunk)
        start = chunk.end
    return chunks


def find_chunk(file: BinaryIO, start: int) -> bool:
    """Whether there is a complete chunk anywhere after byte ``start``."""
    size = os.fstat(file.fileno()).st_size
    if start >= size:
        return False
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        while (start := memory.find(_CHUNK_MAGIC, start)) >= 0:
            if _read_chunk(file, start, size) is not None:
                return True
            start += 1
    return False


def read_payload(file: BinaryIO, chunk: Chunk) -> bytes:
    """The bytes of a chunk, unpacked.

    Raises:
        ValueError: They are not what the chunk's header says.
    """
    if _read_chunk(file, chunk.start - _CHUNK.size - _CRC.size, chunk.end) != chunk:
        raise ValueError("the file has changed since it was opened")
    file.seek(chunk.start)
    unpacker = zlib.decompressobj()
    try:
        # One byte more than there should be, as 0 means without a limit.
        payload = unpacker.decompress(file.read(chunk.stored), chunk.unpacked + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(payload) != chunk.unpacked or not unpacker.eof:
        raise ValueError(f"{chunk.unpacked} bytes expected, at least {len(payload)} received")
    return payload


def _read_chunk(file: BinaryIO, start: int, size: int) -> Chunk | None:
    """The chunk that starts at ``start``, if it is complete in a file of ``size`` bytes."""
    file.seek(start)
    head = file.read(_CHUNK.size + _CRC.size)
    if len(head) < _CHUNK.size + _CRC.size:
        return None
    magic, flags, steps, rows, stored, unpacked, arrays = _CHUNK.unpack_from(head)
    left = stored
    if (
        magic != _CHUNK_MAGIC
        or start + len(head) + stored > size
        or max(unpacked, arrays) > MOST_BYTES
        or not steps
    ):
        return None
    crc = zlib.crc32(head[: _CHUNK.size])
    while left and (block := file.read(min(left, _BLOCK))):
        crc = zlib.crc32(block, crc)
        left -= len(block)
    if left or crc != _CRC.unpack_from(head, _CHUNK.size)[0]:
        return None
    return Chunk(flags, steps, rows, stored, unpacked, arrays, start + len(head))


_NOTHING_LOST = "no step was recorded in it: record again with overwrite=True, or append=True"
