"""Messages between two processes, over a pair of connected sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import weakref
from collections import deque

from entity_env.errors import ClosedError

__all__ = ["Channel"]

_HEAD = struct.Struct("c7xq")  # kind and size; 16 bytes, so that numbers after it are aligned
_CHUNK = 1 << 16


class Channel:
    """One end of a connection for messages of a kind (one byte) and any number of bytes.

    Everything that has arrived is read at once, so that many short messages cost one system call.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unread = b""
        self._messages: deque[tuple[bytes, bytes]] = deque()
        _OPEN.add(self)

    def fileno(self) -> int:
        """Return the descriptor to wait for, after ``take`` has returned all messages."""
        return self._socket.fileno()

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a message; wait if the other side has not read earlier messages."""
        self._check_own()
        self._socket.sendall(_HEAD.pack(kind, len(content)) + content)

    def receive(self) -> tuple[bytes, bytes]:
        """Wait for the next message, and return it.

        Raises:
            EOFError: The other side has closed its end, possibly within a message.
        """
        while not self._messages:
            self._fill()
        return self._messages.popleft()

    def take(self) -> list[tuple[bytes, bytes]]:
        """Wait for at least one message, and return all that have arrived."""
        taken = [self.receive()]
        taken += self._messages
        self._messages.clear()
        return taken

    def close(self) -> None:
        """Close this end; the other side notices at once, even if copies of it exist."""
        with contextlib.suppress(OSError):  # one of the ends is closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _fill(self) -> None:
        """Read once, or until a message whose beginning has been read is complete."""
        data = self._unread + self._read(_CHUNK)
        start = 0
        while len(data) - start >= _HEAD.size:
            kind, size = _HEAD.unpack_from(data, start)
            first = start + _HEAD.size
            if first + size > len(data):
                if self._messages:
                    break
                data += self._exactly(first + size - len(data))
            start = first + size
            self._messages.append((kind, data[first:start]))
        self._unread = data[start:]

    def _exactly(self, size: int) -> bytes:
        """Return the rest of a long message."""
        parts = []
        while size > 0:
            parts.append(self._read(min(size, 16 * _CHUNK)))
            size -= len(parts[-1])
        return b"".join(parts)

    def _check_own(self) -> None:
        if self._socket.fileno() < 0:
            raise ClosedError(
                "the workers of an environment can only be used by the process that made them",
                hint="this process was forked from it; make the environment in this process",
            )

    def _read(self, most: int) -> bytes:
        self._check_own()
        data = self._socket.recv(most)
        if not data:
            raise EOFError("the other side has closed its end")
        return data


def _close_copies() -> None:
    """Close the copies in a forked process, so that the other side notices the original's end."""
    for channel in list(_OPEN):
        channel._socket.close()


_OPEN: weakref.WeakSet[Channel] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):  # absent on systems without fork
    os.register_at_fork(after_in_child=_close_copies)
