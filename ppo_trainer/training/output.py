"""The output after each update: log, screen, evaluations, and the best network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from ppo_trainer.machine.interrupt import Interrupt
from ppo_trainer.machine.screen import warn
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.reporting.progress import RunProgress
from ppo_trainer.reporting.shown_metrics import own_metrics, unknown_metrics
from ppo_trainer.runs.logger import RunLogger
from ppo_trainer.training.background import open_background
from ppo_trainer.training.callbacks import Callbacks
from ppo_trainer.training.report import evaluate_now
from ppo_trainer.training.session import Session

__all__ = ["WriteOutput", "open_output"]

WriteOutput: TypeAlias = Callable[[dict[str, float]], None]
"""A function of the numbers of an update."""


@contextmanager
def open_output(
    session: Session,
    hooks: Callbacks,
    interrupt: Interrupt,
    clock: Stopwatch,
    *,
    plays: bool = True,
) -> Iterator[WriteOutput]:
    """Open the log and the screen, and give the function to call after each update.

    Of several processes of one training only the first writes and prints.

    Args:
        session: The run.
        hooks: Callbacks, called after an update.
        interrupt: Signals, which interrupt evaluations.
        clock: Stopwatch of the update.
        plays: True if the run trains on its own games.
    """
    config, state = session.config, session.state
    if not session.ranks.is_first:
        yield lambda metrics: clock.take().clear()
        return
    with (
        RunLogger(session.run, config, session.state.update, session.recent) as log,
        open_background(session),
        RunProgress(
            session.state.steps,
            session.final_steps() if plays else config.total_timesteps,
            log.recent,
            config.shown_metrics,
        ) as progress,
    ):
        was_full = session.recent.is_full

        def write(metrics: dict[str, float]) -> None:
            nonlocal was_full
            evaluates = config.eval.every and state.update % config.eval.every == 0
            if evaluates:
                metrics |= interrupt.attempt(evaluate_now, session) or {}
            metrics |= clock.take()
            log.write(state.update, state.steps, metrics)
            session.end_update()  # only now, so that a resume writes the numbers of all updates
            progress.show(state.steps, metrics)
            session.note(metrics)
            if session.recent.is_full and not was_full:
                was_full = True
                known = own_metrics(session.recent.means)
                if missing := unknown_metrics(known, config.shown_metrics):
                    warn(f"shown_metrics: {missing}")
            if evaluates:
                hooks.call("on_evaluation", session)
            hooks.call("on_update", session)

        yield write
