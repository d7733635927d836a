"""The trainings of a search, without output on the screen, and their scores."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from ppo_trainer.config import TrainConfig, with_changes
from ppo_trainer.errors import ConfigError, NonFiniteError
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.train import train
from ppo_trainer.training.session import Session
from ragged_net import RaggedNetError

__all__ = ["FAILURES", "MOST_EPISODES", "StoppedEarly", "measure", "score", "train_quietly"]

FAILURES = (ConfigError, NonFiniteError, RaggedNetError, torch.OutOfMemoryError)
"""Errors of a training that other settings may avoid."""


class StoppedEarly(Exception):  # not an error
    """Raised to end a training whose evaluation is not needed."""


_FEWEST_EPISODES, MOST_EPISODES = 50, 200
"""Numbers of episodes of an evaluation, unless ``eval.episodes`` is given."""
_EVALUATION = 1 / 3
"""Greatest fraction of a trial's time for its evaluation."""
_SECONDS_TO_MEASURE = 10.0


def train_quietly(
    config: TrainConfig,
    name: str,
    watches: Callable[[Session], Any] | None = None,
    stop: Callable[[int], bool] | None = None,
) -> list[Evaluation]:
    """Train with the output in ``log.txt``, and return the evaluations of the agent.

    Args:
        config: Settings of the training.
        name: Name of its run.
        watches: Callback of the training.
        stop: See ``train``; it raises ``StoppedEarly`` to end the training without an evaluation.

    Raises:
        KeyboardInterrupt: The training was interrupted.
    """
    config = with_changes(config, {"run_name": name})
    log = Path(config.run_dir).parent / "log.txt"
    with log.open("a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        result = train(config, callbacks=watches, stop=stop)
    if result.interrupted:
        raise KeyboardInterrupt
    return [own for own in result.evaluations if own.player.startswith("agent")]


def score(agents: Sequence[Evaluation], metric: str) -> float:
    """Return the mean of greedy or of sampled play, whichever is better.

    Users may choose between the two, as the end of a run and ``evaluate`` compare them.

    Raises:
        ConfigError: No episode has the metric.
    """
    plain = metric.removeprefix("eval/")
    means = [own.mean(plain) for own in agents if own.count(plain)]
    if not means:
        names = {name for own in agents for name in own.metrics}
        raise ConfigError(f"no episode has the metric {metric!r}", options=sorted(names))
    return max(means)


def measure(base: TrainConfig, folder: Path, metric: str, seconds: float) -> dict[str, int]:
    """Return the steps and episodes of a trial, measured by a short training.

    Args:
        base: Settings of the first trial; the results are at most its numbers.
        folder: Folder of the search.
        metric: Metric that the evaluation must have.
        seconds: Duration of a trial.
    """
    seen: list[tuple[float, int]] = []

    def watches(session: Session) -> bool:
        seen.append((time.monotonic(), session.steps))
        return seen[-1][0] - seen[0][0] < min(_SECONDS_TO_MEASURE, seconds / 2)

    changes = {"run_dir": str(folder / "runs"), "eval.seconds": max(1.0, seconds / 2)}
    agents = train_quietly(with_changes(base, changes), "measure", watches)
    score(agents, metric)
    if len(seen) < 2:
        return {"total_timesteps": base.total_timesteps}
    (first, begin), (last, steps) = seen[0], seen[-1]
    played = fmean(own.episodes - own.cut_off for own in agents)
    episode = (time.monotonic() - last) / max(1.0, played)
    episodes = max(_FEWEST_EPISODES, int(_EVALUATION * seconds / episode))
    episodes = min(base.eval.episodes, episodes)
    fitting = int((seconds - episodes * episode) * (steps - begin) / (last - first))
    return {
        "total_timesteps": min(base.total_timesteps, max(base.frames_per_update, fitting)),
        "eval.episodes": episodes,
    }
