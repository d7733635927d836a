"""The values that trials try, their trainings, and the comparison of their scores."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, QuotedString, RangeSweep
from hydra.errors import HydraException

from entity_env.errors import EntityEnvError, SettingError, counted, shorten
from ppo_trainer.config import TrainConfig, with_changes
from ppo_trainer.loop import TrainResult, train
from ppo_trainer.reporting.evaluation import RANDOM
from ppo_trainer.training.session import Session

if TYPE_CHECKING:
    import optuna

__all__ = [
    "FAILURES",
    "Choices",
    "Difference",
    "Interval",
    "Space",
    "difference",
    "nearest_value",
    "score",
    "spaces_of",
    "steps_of_trials",
    "suggest",
    "train_quietly",
]

_WIDE = 100.0
"""Ratio of the ends of an interval from which on it is searched on a logarithmic scale."""

Choices: TypeAlias = Sequence[int | float | str | bool]


@dataclass(frozen=True)
class Interval:
    """All numbers from ``low`` to ``high``, or some of them.

    Args:
        low: Least number.
        high: Greatest number.
        step: Distance between two numbers, or None for all real numbers.
        is_whole: True for whole numbers.
        log: True for a logarithmic scale.
    """

    low: float
    high: float
    step: float | None = None
    is_whole: bool = False
    log: bool = False


Space: TypeAlias = Choices | Interval


def spaces_of(settings: Iterable[str]) -> tuple[list[str], dict[str, Space]]:
    """Return the settings with one value, and the values of the others by name.

    ``interval(a,b)`` has all real numbers, on a logarithmic scale if b is 100 times a or more, or
    within ``tag(log,...)``; ``range(a,b,step)`` the numbers below b; ``choice(a,b)`` or ``a,b``
    these.

    Args:
        settings: Settings as on the command line.

    Raises:
        SettingError: An interval is empty.
    """
    single, spaces, parser = [], dict[str, Space](), OverridesParser.create()
    for setting in settings:
        try:
            override = parser.parse_override(setting.lstrip("+"))
        except HydraException:
            single.append(setting)  # left to the reader of settings, which reports the mistake
            continue
        if override.is_sweep_override():
            spaces[override.key_or_group] = _space(setting, override.value())
        else:
            single.append(setting)
    return single, spaces


def nearest_value(space: Space, value: Any) -> Any:
    """Return the value of a space that is nearest to ``value``, or else its first one."""
    if not isinstance(space, Interval):
        return value if value in space else space[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return space.low
    inside = min(max(value, space.low), space.high)
    if space.step is not None:
        inside = space.low + round((inside - space.low) / space.step) * space.step
    return int(inside) if space.is_whole else inside


def suggest(trial: optuna.Trial, name: str, space: Space) -> Any:
    """Return the value of a setting that Optuna selects for a trial."""
    if not isinstance(space, Interval):
        return trial.suggest_categorical(name, space)
    if space.is_whole:
        return trial.suggest_int(name, int(space.low), int(space.high), step=int(space.step or 1))
    return trial.suggest_float(name, space.low, space.high, log=space.log, step=space.step)


def _space(setting: str, value: Any) -> Space:
    if isinstance(value, ChoiceSweep):
        named: list[Any] = list(value.list)
        return [choice.text if isinstance(choice, QuotedString) else choice for choice in named]
    if isinstance(value, RangeSweep):
        low, stop, step = (_number(number) for number in (value.start, value.stop, value.step))
        count = math.ceil((stop - low) / step) if step else 0
        is_whole = all(isinstance(number, int) for number in (low, stop, step))
        interval = Interval(low, low + (count - 1) * step, step, is_whole)
    elif isinstance(value, IntervalSweep):
        low, high = float(_number(value.start)), float(_number(value.end))
        wide = low > 0 and high >= _WIDE * low and "linear" not in value.tags
        interval = Interval(low, high, log=wide or "log" in value.tags)
    else:
        raise SettingError(f"{shorten(setting)} does not name values to search")
    if not interval.low < interval.high or (interval.log and interval.low <= 0):
        raise SettingError(
            f"{shorten(setting)} is an empty interval",
            expected="a smaller and a larger number, both above 0 for a logarithmic scale",
        )
    return interval


def _number(value: int | float | None) -> int | float:
    return 0 if value is None else value  # Hydra's grammar requires all of them


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
    agents = [player for player in result.evaluations if player.player.startswith("agent")]
    means = [player.mean(plain) for player in agents if player.count(plain)]
    if not means:
        names = {name for player in agents for name in player.metrics}
        raise SettingError(f"no episode has the metric {metric!r}", options=sorted(names))
    return max(means)


def steps_of_trials(config: TrainConfig, metric: str, seconds: float) -> tuple[int, bool]:
    """Return the steps of a trial, and True if they suffice to beat random play.

    Half of a trial is trained in half of its time, or in all of it if that is no better than random
    play: shorter trials would differ by luck only. If that does not suffice either, a trial has the
    steps of twice its time.

    Args:
        config: Settings of the first trial.
        metric: Metric that is maximised.
        seconds: Duration of the training of a trial.
    """
    steps, is_better = 0, False
    for limit in (seconds / 2, seconds, 2 * seconds):
        result = _train_for(config, limit)
        steps, is_better = result.steps, score(result, metric) > _random_play(result, metric)
        if is_better or steps >= config.total_timesteps:
            break
    whole = steps if limit > seconds else 2 * steps
    return min(config.total_timesteps, whole), is_better


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
    players = [
        player for player in result.evaluations if player.player == RANDOM and player.count(plain)
    ]
    return max((player.interval(plain)[1] for player in players), default=-math.inf)


@dataclass(frozen=True)
class Difference:
    """The mean difference between the scores of two trials with the same seeds.

    Args:
        mean: Mean difference; 0 without a common seed, minus infinity if a training failed.
        error: Standard error of the mean; infinite if fewer than two differences are known.
        seeds: Number of common seeds.
    """

    mean: float
    error: float
    seeds: int

    @property
    def is_better(self) -> bool:
        """True if the mean difference is positive and exceeds its standard error."""
        return self.mean > self.error

    def __str__(self) -> str:
        """Return the mean, its standard error and the number of seeds as text."""
        return f"{self.mean:+.3g} +- {self.error:.2g} ({counted(self.seeds, 'seed')})"


def difference(scores: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the mean difference ``scores - others`` over the seeds that both have.

    Args:
        scores: Scores, in the order of the seeds.
        others: Scores of the other trial, likewise.
    """
    differences = [one - other for one, other in zip(scores, others, strict=False)]
    if not all(map(math.isfinite, differences)):
        return Difference(-math.inf, math.inf, len(differences))
    error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.inf
    return Difference(fmean(differences or [0.0]), error, len(differences))
