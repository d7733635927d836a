"""Ctrl-C that finishes the update in hand first."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

__all__ = ["Interrupt"]


class Interrupt:
    """While it is active, the first SIGINT or SIGTERM sets ``requested``; a second one raises.

    Signals belong to the main thread; in any other it does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupt:
        """Take over the signals."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        # Not print: the signal may have come in the middle of one.
        os.write(2, b"\nfinishing this update, then saving; once more to stop at once\n")
