"""Names environments that do not return: a program that waits in silence looks like one that works.

Rows say what they run now (``VecEnv._running``), from what they note anyway. A thread looks at that
now and then, so that a step costs nothing more.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator

from entity_env.rows.vec_env import LIVE, VecEnv

__all__ = ["SlowCalls", "naming_slow_calls"]

_OFTEN = 0.25
"""A look comes after this part of the time that a call may take, and after 5 seconds at most."""


class SlowCalls:
    """Remembers since when each call runs, as far as it has been looked at.

    Args:
        seconds: So long a call may take; then it is named after twice the time, and so on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: dict[Hashable, tuple[float, float]] = {}  # since when, and when it is named

    def look(self, now: float) -> list[str]:
        """Return a sentence for each call that has taken too long.

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
    """Within, name environments whose step, reset or making takes longer; within another one, not.

    Args:
        seconds: How long they may take; 0: as long as they want.
        say: Called with a sentence that names the environment, its worker, and since when; in a
            thread of its own.
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
        with contextlib.suppress(RuntimeError):  # others have come meanwhile
            return list(LIVE)


def _running(rows: VecEnv) -> list[tuple[Hashable, str]]:
    try:
        return rows._running()
    except (AttributeError, OSError, ValueError):  # it is being made, or has been closed meanwhile
        return []
