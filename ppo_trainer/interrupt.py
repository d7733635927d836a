"""Ctrl-C that finishes the update in hand first."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from types import FrameType

from ppo_trainer.cli import INTERRUPTED

__all__ = ["Interrupt"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 10.0
"""Seconds that a second signal leaves the main thread to end by itself."""


class Interrupt:
    """While it is active, the first SIGINT or SIGTERM sets ``requested``; a second one raises.

    Python hears of signals between two of its own steps, and one kernel over large frames can take
    minutes. A thread therefore listens as well: it says at once that the first one was heard, and
    where the second one cannot be raised it ends the process, which loses nothing that was saved.

    Signals belong to the main thread; in any other this does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, object] = {}
        self._ended = threading.Event()

    def __enter__(self) -> Interrupt:
        """Take over the signals."""
        if threading.current_thread() is threading.main_thread():
            self._ours, self._theirs = socket.socketpair()
            self._theirs.setblocking(False)  # as set_wakeup_fd wants it
            self._wakeup = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, daemon=True).start()
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back."""
        self._ended.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
            self._theirs.close()  # which ends the thread

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def _listen(self) -> None:
        heard = 0
        with self._ours:
            while heard < 2:
                received = self._ours.recv(1)
                if not received:
                    return
                if received[0] not in _SIGNALS:  # somebody else's
                    continue
                heard += 1
                if heard == 1:
                    _say("\nfinishing this update, then saving; once more to stop at once")
        if not self._ended.wait(_PATIENCE):
            _say("stopped in the middle of an update; the last checkpoint is whole")
            os._exit(INTERRUPTED)


def _say(text: str) -> None:
    """Not ``print``: the signal may have come in the middle of one."""
    with contextlib.suppress(OSError):  # nobody reads it
        os.write(2, f"{text}\n".encode())
