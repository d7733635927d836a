"""Messages about environments that do not return.

Rows report their running calls (``VecEnv._running``). A thread checks them from time to time, so
that steps are not slower.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator

from entity_env.rows.vec_env import LIVE, VecEnv

__all__ = ["SLOW_CALL", "SlowCalls", "naming_slow_calls"]

SLOW_CALL = 60.0
"""Seconds after which trainings and evaluations report a call that has not returned."""

_OFTEN = 0.25
"""Part of the allowed time of a call between two checks, which is 5 seconds at most."""


class SlowCalls:
    """The running calls and their first checks.

    Args:
        seconds: Allowed time of a call; a message follows after this time, twice this time, etc.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: dict[
            Hashable, tuple[float, float]
        ] = {}  # the first check, and the time of the next message

    def look(self, now: float) -> list[str]:
        """Return a message for each call that has taken too long.

        Args:
            now: The time in seconds.
        """
        known: dict[Hashable, tuple[float, float]] = {}
        slow = []
        for rows in _live():
            for key, where in _running(rows):
                since, due = self._known.get((id(rows), key), (now, now + self._seconds))
                if now >= due:
                    begun = time.strftime("%H:%M:%S", time.localtime(time.time() - (now - since)))
                    slow.append(f"{where} has not returned for {now - since:.0f} s, since {begun}")
                    due = now + 2 * (now - since)
                known[id(rows), key] = since, due
        self._known = known
        return slow


@contextlib.contextmanager
def naming_slow_calls(seconds: float, say: Callable[[str], None]) -> Iterator[None]:
    """Report slow calls of environments within the block; nested blocks have no effect.

    Args:
        seconds: Allowed time of a step, a reset or a constructor; 0 for no limit.
        say: Function that is called, in another thread, with a message that names the environment,
            its worker and the time.
    """
    if not seconds or not _WATCHING.acquire(blocking=False):
        yield
        return
    ended, calls = threading.Event(), SlowCalls(seconds)

    def watch() -> None:
        while not ended.wait(min(seconds * _OFTEN, 5.0)):
            for sentence in calls.look(time.monotonic()):
                say(sentence)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _WATCHING.release()


_WATCHING = threading.Lock()


def _live() -> list[VecEnv]:
    while True:
        with contextlib.suppress(RuntimeError):  # rows were added meanwhile
            return list(LIVE)


def _running(rows: VecEnv) -> list[tuple[Hashable, str]]:
    try:
        return rows._running()
    except (AttributeError, OSError, ValueError):  # the rows are not complete yet, or closed
        return []
