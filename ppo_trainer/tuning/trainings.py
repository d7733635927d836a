"""The trainings of a search, without output on the screen, and their scores."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from entity_env.errors import EntityEnvError, SettingError
from ppo_trainer.config import TrainConfig, with_changes
from ppo_trainer.evaluation.comparison import RANDOM
from ppo_trainer.loop import TrainResult, train
from ppo_trainer.training.session import Session

__all__ = ["FAILURES", "score", "steps_of_trials", "train_quietly"]

FAILURES = (EntityEnvError, torch.OutOfMemoryError)
"""Errors of a training that other settings may avoid."""


def train_quietly(
    config: TrainConfig,
    name: str,
    watches: Callable[[Session], Any] | None = None,
    stop: Callable[[int], bool] | None = None,
) -> TrainResult:
    """Train with the output in ``log.txt``, in a run with a given name; see ``train``."""
    config = with_changes(config, {"run_name": name})
    log = Path(config.run_dir).parent / "log.txt"
    with log.open("a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        return train(config, callbacks=watches, stop=stop)


def score(result: TrainResult, metric: str) -> float:
    """Return the mean of greedy or of sampled play, whichever is better.

    Users may choose between the two, as the end of a run and ``evaluate`` compare them.

    Raises:
        KeyboardInterrupt: The training was interrupted, so that there is no score.
        SettingError: No episode has the metric.
    """
    if result.interrupted:
        raise KeyboardInterrupt
    plain = metric.removeprefix("eval/")
    agents = [own for own in result.evaluations if own.player.startswith("agent")]
    means = [own.mean(plain) for own in agents if own.count(plain)]
    if not means:
        names = {name for own in agents for name in own.metrics}
        raise SettingError(f"no episode has the metric {metric!r}", options=sorted(names))
    return max(means)


def steps_of_trials(config: TrainConfig, metric: str, seconds: float) -> tuple[int, bool]:
    """Return the steps of a trial, and True if half of them suffice to beat random play.

    Half of a trial is trained in half of its time, or in all of it if that is no better than random
    play: shorter trials would differ by luck only.

    Args:
        config: Settings of the first trial.
        metric: Metric that is maximised.
        seconds: Duration of the training of a trial.
    """
    steps, is_better = 0, False
    for limit in (seconds / 2, seconds):
        result = _train_for(config, limit)
        steps, is_better = result.steps, score(result, metric) > _random_play(result, metric)
        if is_better or steps >= config.total_timesteps:
            break
    return min(config.total_timesteps, 2 * steps), is_better


def _train_for(config: TrainConfig, seconds: float) -> TrainResult:
    """Train until some time has passed since the first update, which may compile."""
    updated: list[float] = []

    def watches(_: Session) -> bool:
        updated.append(time.monotonic())
        return updated[-1] - updated[0] < seconds

    return train_quietly(config, "measure", watches)


def _random_play(result: TrainResult, metric: str) -> float:
    """Return the upper end of the confidence interval of random play."""
    plain = metric.removeprefix("eval/")
    players = [own for own in result.evaluations if own.player == RANDOM and own.count(plain)]
    return max((own.interval(plain)[1] for own in players), default=-math.inf)
