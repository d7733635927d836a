"""Progress of runs and evaluations: a bar in a terminal, plain lines elsewhere.

The progress of a run goes to stdout; that of an evaluation to stderr, because stdout gets results.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Self, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ppo_trainer.machine.screen import Screen, log, warn
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.reporting.shown_metrics import own_metrics, shown_metrics

__all__ = ["EvaluationProgress", "RunProgress"]

_SHOWN = (
    ("reward", "episodic_reward"),
    ("win", "win"),
    ("explained var", "value/explained_variance"),
    ("entropy", "policy/entropy"),
    ("held-out loss", "loss/held_out"),
    ("accuracy", "policy/accuracy"),
)
_MOST_OWN = 5
"""Number of own metrics that are shown by default."""
_LINES = 20
_RECENT = 100
"""Number of updates from which the speed is computed."""
_FIRST_LINE, _NEXT_LINE = 10.0, 30.0
"""Seconds until the first line of an evaluation outside of a terminal; most end before."""


class _Bar:
    """A bar with a text, shown in a terminal while the block runs.

    Args:
        stream: Stream to write to.
        total: Length of the bar.
        done: Part of it that is done.
        text: Text beside the bar.
        transient: True to remove the bar at the end, False to leave its last state.
    """

    def __init__(
        self, stream: Any, total: float, done: int = 0, text: str = "", *, transient: bool
    ) -> None:
        self._bar: Progress | None = None
        screen = Screen(stream)
        if screen.isatty():
            self._bar = Progress(
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f}%  {task.fields[text]}"),
                console=Console(file=cast(IO[str], screen), highlight=False),
                transient=transient,
            )
            self._task = self._bar.add_task("", total=total, completed=done, text=text)

    def __enter__(self) -> Self:
        """Start the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the bar."""
        if self._bar is not None:
            self._bar.stop()


class RunProgress(_Bar):
    """The progress of a run: steps, speed, time left, and means that show if it learns.

    Args:
        done: Steps done before, in a resumed run.
        total: Steps at the end.
        recent: Means over the last episodes.
        shown: The environment's own metrics to show; None for all except those with a suffix such
            as ``.max``.
    """

    def __init__(
        self, done: int, total: int, recent: RecentEpisodes, shown: Sequence[str] | None = None
    ) -> None:
        self._recent, self._shown = recent, shown
        self._first = self._next_line = done
        self._total = total
        # The first update also compiles, so that the speed is measured after it.
        self._updates: deque[tuple[float, int]] = deque(maxlen=_RECENT)
        self._last: dict[str, float] = {}
        text = f"{self._steps(done)}  first update"
        super().__init__(sys.stdout, total, done, text, transient=False)

    def show(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Show the state after an update."""
        self._updates.append((time.perf_counter(), steps))
        self._last.update({name: v for name, v in metrics.items() if math.isfinite(v)})
        self._last.update(self._recent.add(metrics))
        if self._bar is not None:
            # One line would not fit into a terminal of 80 columns.
            text = "\n".join([self._text(), *self._own()])
            self._bar.update(self._task, completed=steps, text=text)
        elif steps >= self._next_line or steps >= self._total:
            self._next_line = steps + max(1, (self._total - self._first) // _LINES)
            log("  ".join([self._text(), *self._own()]), is_read=True)

    def _text(self) -> str:
        (before, first), (now, done) = self._updates[0], self._updates[-1]
        parts = [self._steps(done)]
        if done > first:
            speed = (done - first) / max(now - before, 1e-9)
            left = max(self._total - done, 0) / speed
            parts += [f"{speed:,.0f} steps/s", f"{_clock(left)} left"]
        parts += [f"{label} {self._last[n]:.3f}" for label, n in _SHOWN if n in self._last]
        return "  ".join(parts)

    def _own(self) -> list[str]:
        """Return the environment's own metrics as one part of the text, if there are any."""
        names = shown_metrics(own_metrics(self._recent.means), self._shown)
        most = _MOST_OWN if self._shown is None else len(names)
        parts = [f"{name} {self._recent.means[name]:.4g}" for name in names[:most]]
        if len(names) > most:
            parts.append(f"... {len(names) - most} more")
        return ["  ".join(parts)] if parts else []

    def _steps(self, done: int) -> str:
        return f"{done:>9,} / {self._total:,} steps"


class EvaluationProgress(_Bar):
    """The progress of an evaluation: the player, the number of episodes, and the time left.

    Args:
        players: Names of all players, in the order in which they play.
        episodes: Number of episodes of each player.
        seconds: Time limit for all of them together; 0 for no limit.
        now: Clock, in seconds.
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
        super().__init__(sys.stderr, 1.0, transient=True)

    def heard(self, player: str) -> Callable[[int], None]:
        """Return a function that ``PlayBudget`` calls with the number of episodes."""
        before = self._players.index(player)

        def hear(played: int) -> None:
            done = (before + played / self._episodes) / len(self._players)
            if self._bar is not None:
                self._bar.update(self._task, completed=done, text=self._text(player, played, done))
            elif self._now() >= self._next_line:
                self._next_line = self._now() + _NEXT_LINE
                warn(self._text(player, played, done))

        return hear

    def _text(self, player: str, played: int, done: float) -> str:
        spent = self._now() - self._start
        # Assumes equal times of players; nothing is known before the first episode ends.
        guesses = [spent * (1 - done) / done] if done else []
        if self._seconds:
            guesses.append(max(self._seconds - spent, 0.0))
        left = f"  {_clock(min(guesses))} left" if guesses else ""
        return f"{player}  {played:,} / {self._episodes:,} episodes{left}"


def _clock(seconds: float) -> str:
    """Return seconds as text: minutes and seconds, and hours if there are any."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
