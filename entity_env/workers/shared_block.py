"""Memory that two processes see: one writes messages into it, the other reads them."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import tempfile

__all__ = ["SharedBlock"]

_NOTE = struct.Struct("qq")
_PLACE = struct.Struct("qq")
_PAGE = mmap.PAGESIZE


class SharedBlock:
    """An unnamed file that both processes map. It grows, and is gone when both have ended.

    Its first bytes say which row runs, so that this is still there when the writer has been
    killed. Behind them each message has a place of its own, known by a key, and the same place
    again as long as it fits there.

    Args:
        descriptor: The file; this object closes it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._map = mmap.mmap(descriptor, 0)
        self._places: dict[int, tuple[int, int]] = {}
        self._end = _NOTE.size

    @classmethod
    def create(cls) -> SharedBlock:
        """Return a new block of one page."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("entity_env")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, _PAGE)
        return cls(descriptor)

    def fileno(self) -> int:
        """Return the descriptor, for the process that inherits it."""
        return self._descriptor

    def note(self, row: int, step: int) -> None:
        """Note, as the writer, that ``row`` is about to run its ``step``."""
        _NOTE.pack_into(self._map, 0, row, step)

    def noted(self) -> tuple[int, int]:
        """Return, to the reader, the row and step noted last; (0, 0) before that."""
        row, step = _NOTE.unpack_from(self._map, 0)
        return row, step

    def write(self, key: int, message: bytes) -> bytes:
        """Put a message, as the writer, at the place of ``key``; return what ``read`` wants."""
        size = len(message)
        start, room = self._places.get(key, (0, 0))
        if size > room:
            # At least doubled: what outgrown places waste is never more than what is in use.
            start, room = self._end, -(-max(size, 2 * room) // 64) * 64
            self._end = start + room
            self._places[key] = start, room
            if self._end > len(self._map):
                pages = -(-max(self._end, 2 * len(self._map)) // _PAGE)
                os.ftruncate(self._descriptor, pages * _PAGE)
                self._remap()
        self._map[start : start + size] = message
        return _PLACE.pack(start, size)

    def read(self, place: bytes) -> tuple[mmap.mmap, int]:
        """Return, to the reader, the memory of a message and its first byte in it.

        It lasts until the writer writes again with the same key.
        """
        start, size = _PLACE.unpack(place)
        if start + size > len(self._map):
            self._remap()
        return self._map, start

    def close(self) -> None:
        """Let go of memory and file."""
        # Arrays that still point into it, such as in a traceback, keep it alive.
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._descriptor)

    def _remap(self) -> None:
        # The old map stays until its last reader is gone.
        self._map = mmap.mmap(self._descriptor, 0)
