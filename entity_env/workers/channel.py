"""Messages between two processes, over one end of a pair of connected sockets."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import weakref
from collections import deque

from entity_env.errors import ClosedError

__all__ = ["Channel"]

_HEAD = struct.Struct("c7xq")  # kind and size; 16 bytes, so that numbers behind it stay aligned
_CHUNK = 1 << 16


class Channel:
    """Sends and receives messages: a kind (one byte) and any number of bytes.

    Reads whatever has arrived at once, so that many short messages cost one system call.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unread = b""
        self._messages: deque[tuple[bytes, bytes]] = deque()
        _OPEN.add(self)

    def fileno(self) -> int:
        """Return the descriptor, to wait for; only right while ``take`` has nothing left."""
        return self._socket.fileno()

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a message; waits while the other side is too far behind."""
        self._check_own()
        self._socket.sendall(_HEAD.pack(kind, len(content)) + content)

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next message; waits for it.

        Raises:
            EOFError: The other side has closed its end, perhaps in the middle of a message.
        """
        while not self._messages:
            self._fill()
        return self._messages.popleft()

    def take(self) -> list[tuple[bytes, bytes]]:
        """Return all messages that have arrived, and wait for at least one."""
        taken = [self.receive()]
        taken += self._messages
        self._messages.clear()
        return taken

    def close(self) -> None:
        """Close this end; the other side notices at once, even if copies of it exist."""
        with contextlib.suppress(OSError):  # it is closed, or the other side was quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _fill(self) -> None:
        """Read once, or until the message whose beginning lies there is complete."""
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
                "this environment's workers belong to the process that made them",
                hint="this one was forked from it; make the environment where it is used",
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
if hasattr(os, "register_at_fork"):  # else nothing forks
    os.register_at_fork(after_in_child=_close_copies)
