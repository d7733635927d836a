"""Signals that end a run; the run saves its state first, within seconds."""

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
"""Seconds that an update in progress may take; schedulers kill a process after 10 or 30."""

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALS: list[int] = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
_NUDGE: int | None = getattr(signal, "SIGURG", None)
"""A signal without effect if it has no handler."""
_ONE_CAUSE = 0.15
"""Seconds in which signals count as one: closing a terminal, for example, sends two."""
_PATIENCE = 10.0
"""Seconds after a second signal in which the main thread may end by itself."""
_OFTEN = 0.25
"""Seconds between two checks of the time while an update in progress is waited for."""
_AGAIN = 6.0
"""Seconds that an interrupted call has to close its environments before it is interrupted again."""


class Interrupted(KeyboardInterrupt):
    """Raised by a signal if nothing is lost by stopping at once."""


class Interrupt:
    """A context in which SIGINT, SIGTERM or SIGHUP sets ``requested``, and a second one raises.

    The first signal interrupts calls of ``attempt``, and everything before the first of them, with
    the exception ``Interrupted``. SIGHUP stays ignored if it was ignored before (``nohup``).

    Python handles a signal between two of its own instructions, and one kernel over large frames
    can take minutes. A thread therefore listens as well: it prints at once that the first signal
    was received. If the second signal cannot be raised in the main thread, it ends the process,
    which loses nothing that was saved.

    The context has an effect in the main thread only, because only that handles signals.
    """

    def __init__(self) -> None:
        self.requested = False
        self._since = self._again = 0.0
        self._patience: float | None = 0.0  # None: nothing may be interrupted
        self._before: dict[int, object] = {}
        self._ended = threading.Event()

    def __enter__(self) -> Interrupt:
        """Install the signal handlers."""
        if threading.current_thread() is threading.main_thread():
            self._ours, self._theirs = socket.socketpair()
            self._theirs.setblocking(False)  # required by set_wakeup_fd
            self._wakeup = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, daemon=True).start()
            for number in filter(_is_ours_to_take, _SIGNALS):
                self._before[number] = signal.signal(number, self._handle)
            self._unraisable, sys.unraisablehook = sys.unraisablehook, self._tell_unraisable
            if _NUDGE is not None and signal.getsignal(_NUDGE) is not None:
                self._before[_NUDGE] = signal.signal(_NUDGE, lambda *_: self._break_off())
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the signal handlers from before."""
        self._patience = None
        self._ended.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if self._before:
            sys.unraisablehook = self._unraisable
            signal.set_wakeup_fd(self._wakeup)
            self._theirs.close()  # which ends the thread

    def attempt(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        """Return the result of ``function``, or None if a signal interrupted it."""
        return self._attempt(0.0, lambda: function(*args, **kwargs))

    def finish(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        """Run ``function`` like ``attempt``, but give it ``SECONDS_TO_FINISH`` after a signal."""
        return self._attempt(SECONDS_TO_FINISH, lambda: function(*args, **kwargs))

    def _attempt(self, patience: float, call: Callable[[], _R]) -> _R | None:
        try:
            self._patience = patience
            self._break_off()
            result = call()
            self._patience = None
        except Interrupted:
            return None
        except Exception:  # a C library may swallow Interrupted, and raise another error
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
        if time.monotonic() >= self._again:  # until then the interrupted call may clean up
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
                if received[0] not in _SIGNALS:  # the wake-up signal, or another one
                    continue
                if first is None:
                    if hasattr(signal, "alarm"):
                        signal.alarm(0)  # with which Ray would end this process after 3 seconds
                    first = self._since = self._since or time.monotonic()
                    self._say_what_follows()
                elif time.monotonic() - first > _ONE_CAUSE:
                    break
        if not self._ended.wait(_PATIENCE):
            _say("stopped in the middle of an update; the last checkpoint is complete")
            os._exit(INTERRUPTED)

    def _nudge(self) -> None:
        """Wake up the main thread, so that it checks if its time is over."""
        patience, main = self._patience, threading.main_thread().ident
        if patience is not None and self._waited() > patience and _NUDGE and main is not None:
            signal.pthread_kill(main, _NUDGE)

    def _say_what_follows(self) -> None:
        what = "stopping" if self._patience == 0.0 else "finishing this update, then saving"
        _say(f"\n{what}; press Ctrl-C again to stop at once")


def _is_ours_to_take(number: int) -> bool:
    """Return False for a signal that is ignored (``nohup``) or handled outside of Python."""
    handler = signal.getsignal(number)
    is_ignored = handler is signal.SIG_IGN and number == getattr(signal, "SIGHUP", None)
    return handler is not None and not is_ignored


def _say(text: str) -> None:
    """Write to stderr without ``print``, which the signal may have interrupted."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody reads it
        os.write(sys.__stderr__.fileno(), f"{text}\n".encode())  # type: ignore[union-attr]
