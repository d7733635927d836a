"""All output to the screen; a screen that fails does not stop the training.

Its disk may be full, its terminal closed, its encoding may lack a character, or it may not exist.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

__all__ = ["Screen", "deliver", "log", "warn"]


class Screen:
    """A text stream that writes to another one until that one fails.

    Args:
        stream: Stream that print would write to, such as ``sys.stdout``. It may be None, closed,
            fail, or have no method except ``write``.
        is_read: True if a reader that has ended, such as ``head``, is an error.

    Raises:
        BrokenPipeError: The reader has ended and ``is_read`` is True. Nothing else is raised.
    """

    def __init__(self, stream: Any, *, is_read: bool = False) -> None:
        self._stream = stream
        self._is_read = is_read

    @property
    def encoding(self) -> str:
        """The encoding of the stream, or ASCII if it has none."""
        return getattr(self._stream, "encoding", None) or "ascii"

    def isatty(self) -> bool:
        """Return True if it is a terminal."""
        with contextlib.suppress(Exception):
            return bool(self._stream.isatty())
        return False

    def write(self, text: str) -> int:
        """Write text, escape characters that the encoding lacks; return 0 if it was lost."""
        try:
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                self._stream.write(text.encode("ascii", "backslashreplace").decode())
        except BrokenPipeError:
            if self._is_read:
                raise
            return 0
        except Exception:
            return 0
        return len(text)

    def flush(self) -> bool:
        """Flush the stream, and return False if something was lost."""
        try:
            if hasattr(self._stream, "flush"):
                self._stream.flush()
        except BrokenPipeError:
            if self._is_read:
                raise
            return False
        except Exception:
            return False
        return True


def log(text: str = "", *, is_read: bool = False) -> None:
    """Print a line and flush.

    Raises:
        BrokenPipeError: The reader has ended and ``is_read`` is True.
    """
    _print(Screen(sys.stdout, is_read=is_read), text)


def deliver(text: str) -> None:
    """Print the results of a command; if that fails, print them on stderr and exit.

    Raises:
        BrokenPipeError: The reader of the output has ended.
        SystemExit: The results went to stderr instead.
    """
    if not _print(Screen(sys.stdout, is_read=True), text):
        warn(text)
        sys.exit(1)


def warn(text: str) -> None:
    """Print a line on stderr and flush."""
    _print(Screen(sys.stderr), text)


def _print(screen: Screen, text: str) -> bool:
    """Print a line, and return True if all of it was written."""
    return screen.write(f"{text}\n") > 0 and screen.flush()
