"""Progress of an evaluation: a bar in a terminal, a line now and then elsewhere.

All of it goes to stderr: stdout is for results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ppo_trainer.machine.screen import Screen, complain
from ppo_trainer.reporting.progress import clock

__all__ = ["EvaluationProgress"]

_FIRST_LINE, _NEXT_LINE = 10.0, 30.0
"""Seconds until there is a line, where there is no terminal: most evaluations end before."""


class EvaluationProgress:
    """Shows who plays, how many episodes have been played, and the time left.

    Args:
        players: Everybody who will play, in this order.
        episodes: Of each.
        seconds: The time that all of them have together; 0 for no limit.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        players: Sequence[str],
        episodes: int,
        seconds: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._players, self._episodes, self._seconds = list(players), episodes, seconds
        self._now, self._start = now, now()
        self._next_line = self._start + _FIRST_LINE
        self._bar: Progress | None = None
        screen = Screen(sys.stderr)
        if screen.isatty():
            self._bar = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f}%  {task.fields[text]}"),
                console=Console(file=cast(IO[str], screen), highlight=False),
                transient=True,
            )
            self._task = self._bar.add_task("", total=1.0, text="")

    def __enter__(self) -> EvaluationProgress:
        """Start the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def heard(self, player: str) -> Callable[[int], None]:
        """Return a function that ``PlayBudget`` calls with the number of episodes."""
        before = self._players.index(player)

        def hear(played: int) -> None:
            done = (before + played / self._episodes) / len(self._players)
            if self._bar is not None:
                self._bar.update(self._task, completed=done, text=self._text(player, played, done))
            elif self._now() >= self._next_line:
                self._next_line = self._now() + _NEXT_LINE
                complain(self._text(player, played, done))

        return hear

    def _text(self, player: str, played: int, done: float) -> str:
        spent = self._now() - self._start
        # Players are taken to need equal times; nothing is known before the first episode ends.
        guesses = [spent * (1 - done) / done] if done else []
        if self._seconds:
            guesses.append(max(self._seconds - spent, 0.0))
        left = f"  {clock(min(guesses))} left" if guesses else ""
        return f"{player}  {played:,} / {self._episodes:,} episodes{left}"
