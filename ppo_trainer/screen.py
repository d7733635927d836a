"""The one place that prints: a screen that fails never costs work.

Its disk may be full, its terminal closed, its encoding without the letter, or there is none at all.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

__all__ = ["Screen", "complain", "say"]


class Screen:
    """A text stream that writes to another one as long as that one takes it.

    Args:
        stream: What print would write to, such as ``sys.stdout``; None, closed, failing, or with
            nothing but a method ``write``.
        is_read: Whether a reader that has gone away, such as ``head``, is an error.

    Raises:
        BrokenPipeError: With ``is_read``, by ``write`` and ``flush``; nothing else is raised.
    """

    def __init__(self, stream: Any, *, is_read: bool = False) -> None:
        self._stream = stream
        self._forgiven = contextlib.suppress(Exception)
        self._is_read = is_read

    @property
    def encoding(self) -> str:
        """That of the stream; ASCII where it does not say."""
        return getattr(self._stream, "encoding", None) or "ascii"

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        with self._forgiven:
            return bool(self._stream.isatty())
        return False

    def write(self, text: str) -> int:
        """Write, with escapes for what the encoding has no letters for."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            with self._forgiven:
                self._stream.write(text.encode("ascii", "backslashreplace").decode())
        except BrokenPipeError:
            if self._is_read:
                raise
        except Exception:
            return 0
        return len(text)

    def flush(self) -> None:
        """Flush, where there is anything to."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            if self._is_read:
                raise
        except Exception:
            return


def say(text: str = "", *, is_read: bool = False) -> None:
    """Print a line, at once.

    Raises:
        BrokenPipeError: With ``is_read``, if nobody reads it any more.
    """
    _print(Screen(sys.stdout, is_read=is_read), text)


def complain(text: str) -> None:
    """``say`` on stderr."""
    _print(Screen(sys.stderr), text)


def _print(screen: Screen, text: str) -> None:
    screen.write(f"{text}\n")
    screen.flush()
