"""Signals that ask a run to end; the run saves its state first, within seconds."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

from ppo_trainer.machine.commands import INTERRUPTED

__all__ = ["SECONDS_TO_FINISH", "Interrupt", "Interrupted"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

SECONDS_TO_FINISH = 5.0
"""The time left to an update in hand, in seconds: schedulers kill after 10 or 30."""

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALS: list[int] = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
_NUDGE: int | None = getattr(signal, "SIGURG", None)
"""A signal without effect where no handler listens to it."""
_ONE_CAUSE = 0.15
"""Seconds in which signals count as one: a closed terminal, or a program around ours, sends two."""
_PATIENCE = 10.0
"""Seconds that a second signal leaves the main thread to end by itself."""
_OFTEN = 0.25
"""Seconds between two looks at the clock while an update in hand is waited for."""
_AGAIN = 6.0
"""Seconds for what is broken off to close its environments; only then it is broken off again."""


class Interrupted(KeyboardInterrupt):
    """Raised by a signal where nothing is lost by stopping at once."""


class Interrupt:
    """A context in which SIGINT, SIGTERM or SIGHUP sets ``requested``, and a second one raises.

    What ``attempt`` calls is broken off, and so is, by the exception ``Interrupted``, everything
    before the first call of it. SIGHUP stays ignored where it is (``nohup``).

    Python hears of signals between two of its own steps, and one kernel over large frames can take
    minutes. A thread therefore listens as well: it says at once that the first one was heard, and
    where the second one cannot be raised it ends the process, which loses nothing that was saved.

    Signals belong to the main thread; in any other this does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._since = self._again = 0.0
        self._patience: float | None = 0.0  # None: nothing is to be broken off
        self._before: dict[int, object] = {}
        self._ended = threading.Event()

    def __enter__(self) -> Interrupt:
        """Take over the signals."""
        if threading.current_thread() is threading.main_thread():
            self._ours, self._theirs = socket.socketpair()
            self._theirs.setblocking(False)  # as set_wakeup_fd wants it
            self._wakeup = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, daemon=True).start()
            for number in filter(_is_ours_to_take, _SIGNALS):
                self._before[number] = signal.signal(number, self._handle)
            self._unraisable, sys.unraisablehook = sys.unraisablehook, self._tell_unraisable
            if _NUDGE is not None and signal.getsignal(_NUDGE) is not None:
                self._before[_NUDGE] = signal.signal(_NUDGE, lambda *_: self._break_off())
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        self._patience = None
        self._ended.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._before:
            sys.unraisablehook = self._unraisable
            signal.set_wakeup_fd(self._wakeup)
            self._theirs.close()  # which ends the thread

    def attempt(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        """Return the result of ``function``, or None if a signal broke it off."""
        return self._attempt(0.0, lambda: function(*args, **kwargs))

    def finish(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        """Run ``function`` like ``attempt``, but let a signal wait ``SECONDS_TO_FINISH``."""
        return self._attempt(SECONDS_TO_FINISH, lambda: function(*args, **kwargs))

    def _attempt(self, patience: float, call: Callable[[], _R]) -> _R | None:
        try:
            self._patience = patience
            self._break_off()
            result = call()
            self._patience = None
        except Interrupted:
            return None
        except Exception:  # a C library may swallow Interrupted, and miss what it should have given
            if self._again:
                return None
            raise
        finally:
            self._patience = None
        return result

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested, self._since = True, self._since or time.monotonic()
        elif self._waited() > _ONE_CAUSE:
            raise KeyboardInterrupt
        self._break_off()

    def _break_off(self) -> None:
        patience = self._patience
        if not self.requested or patience is None or self._waited() < patience:
            return
        if time.monotonic() >= self._again:  # else what it breaks off is being cleared away
            self._again = time.monotonic() + _AGAIN
            raise Interrupted

    def _tell_unraisable(self, what: sys.UnraisableHookArgs) -> None:
        """Hide an ``Interrupted`` that a C library has swallowed, because it is raised again."""
        if not isinstance(what.exc_value, Interrupted):
            self._unraisable(what)

    def _waited(self) -> float:
        """Return the seconds since the first signal."""
        return time.monotonic() - self._since

    def _listen(self) -> None:
        first: float | None = None
        with self._ours:
            while True:
                self._ours.settimeout(None if first is None else _OFTEN)
                try:
                    received = self._ours.recv(1)
                except TimeoutError:
                    self._nudge()
                    continue
                if not received:
                    return
                if received[0] not in _SIGNALS:  # a nudge, or somebody else's
                    continue
                if first is None:
                    first = self._since = self._since or time.monotonic()
                    self._say_what_follows()
                elif time.monotonic() - first > _ONE_CAUSE:
                    break
        if not self._ended.wait(_PATIENCE):
            _say("stopped in the middle of an update; the last checkpoint is whole")
            os._exit(INTERRUPTED)

    def _nudge(self) -> None:
        """Wake up the main thread, so that it sees that its time is over."""
        patience, main = self._patience, threading.main_thread().ident
        if patience is not None and self._waited() > patience and _NUDGE and main is not None:
            signal.pthread_kill(main, _NUDGE)

    def _say_what_follows(self) -> None:
        what = "stopping" if self._patience == 0.0 else "finishing this update, then saving"
        _say(f"\n{what}; once more to stop at once")


def _is_ours_to_take(number: int) -> bool:
    """Return False for a signal that ``nohup`` ignores or that is handled outside of Python."""
    handler = signal.getsignal(number)
    is_ignored = handler is signal.SIG_IGN and number == getattr(signal, "SIGHUP", None)
    return handler is not None and not is_ignored


def _say(text: str) -> None:
    """Write to stderr without ``print``, in the middle of which the signal may have come."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it
        os.write(sys.__stderr__.fileno(), f"{text}\n".encode())  # type: ignore[union-attr]
