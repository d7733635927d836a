"""Shared memory in which one process writes messages that another one reads."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import tempfile

__all__ = ["SharedBlock"]

_NOTE = struct.Struct("qq")
_PAGE = mmap.PAGESIZE


class SharedBlock:
    """A block of shared memory: an unnamed file that both processes map.

    It grows, and is removed when both processes have ended. Its first bytes store the running row,
    which can be read even if the writer was killed. After them, each message has a place, which is
    identified by a key and reused as long as the message fits.

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
        """Store that ``row`` is about to run its ``step``; for the writer."""
        _NOTE.pack_into(self._map, 0, row, step)

    def noted(self) -> tuple[int, int]:
        """Return the row and step that were stored last, or (0, 0); for the reader."""
        row, step = _NOTE.unpack_from(self._map, 0)
        return row, step

    def write(self, key: int, message: bytes) -> tuple[int, int]:
        """Write a message at the place of ``key``; return its first byte and its size."""
        size = len(message)
        start, room = self._places.get(key, (0, 0))
        if size > room:
            # At least doubled, so that places left behind need less memory than those in use.
            start, room = self._end, -(-max(size, 2 * room) // 64) * 64
            self._end = start + room
            self._places[key] = start, room
            if self._end > len(self._map):
                pages = -(-max(self._end, 2 * len(self._map)) // _PAGE)
                os.ftruncate(self._descriptor, pages * _PAGE)
                self._remap()
        self._map[start : start + size] = message
        return start, size

    def read(self, place: tuple[int, int]) -> tuple[mmap.mmap, int]:
        """Return the memory of a message, and the number of its first byte in it.

        The message is valid until the writer writes again with the same key.
        """
        start, size = place
        if start + size > len(self._map):
            self._remap()
        return self._map, start

    def close(self) -> None:
        """Release the memory and the file."""
        # Arrays in it, for instance in a traceback, keep it alive.
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._descriptor)

    def _remap(self) -> None:
        # The old map stays until its last reader is gone.
        self._map = mmap.mmap(self._descriptor, 0)
