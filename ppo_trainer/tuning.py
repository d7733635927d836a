"""The values that trials try, their trainings, and the comparison of their scores."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, QuotedString
from hydra.errors import HydraException

from entity_env.errors import EntityEnvError, MissingPackageError, SettingError, counted, shorten
from ppo_trainer.config import TrainConfig, value_of, with_changes
from ppo_trainer.loop import TrainResult, train
from ppo_trainer.reporting.evaluation import RANDOM

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = [
    "FAILURES",
    "Difference",
    "check_searched",
    "choices",
    "difference",
    "score",
    "spaces_of",
    "steps_of_trials",
    "train_quietly",
]

FAILURES = (EntityEnvError, torch.OutOfMemoryError)
"""Errors of a training that other settings may avoid."""

_OF_TRIALS = ("seed", "total_timesteps", "eval.episodes", "run_dir", "run_name")
"""Settings that a search makes equal for all trials, or sets itself."""
_WIDE = 100.0
"""Ratio of the ends of an interval from which on it is searched on a logarithmic scale."""
_SHORTEST = 8192
"""Number of steps that the given settings have at first to leave random play."""


def spaces_of(settings: Iterable[str]) -> tuple[list[str], dict[str, BaseDistribution]]:
    """Return the settings with one value, and the values of the others by name, as of Optuna.

    ``interval(a,b)`` has all real numbers, on a logarithmic scale if b is 100 times a or more, or
    within ``tag(log,...)``; ``range(a,b,step)`` the numbers below b; ``choice(a,b)`` or ``a,b``
    these.

    Args:
        settings: Settings as on the command line.

    Raises:
        SettingError: A setting has no values that Optuna can select.
        MissingPackageError: Optuna is not installed.
    """
    if importlib.util.find_spec("optuna") is None:
        raise MissingPackageError(
            "searching for settings needs Optuna", hint='pip install "ragged-rl[tune]"'
        )
    single, spaces, parser = list[str](), dict[str, "BaseDistribution"](), OverridesParser.create()
    for setting in settings:
        try:
            override = parser.parse_override(setting.lstrip("+"))
        except HydraException:
            single.append(setting)  # left to the reader of settings, which reports the mistake
            continue
        if not override.is_sweep_override() or override.is_delete() or override.package:
            single.append(setting)
            continue
        try:
            spaces[override.key_or_group] = _space(override)
        except (HydraException, TypeError, ValueError) as error:
            raise SettingError(
                f"{shorten(setting)} has no values that can be tried",
                expected="numbers and words, as in 1,2 or choice(a,b) or range(1,9,2), or "
                "interval(a,b) with finite numbers a < b, above 0 on a logarithmic scale",
            ) from error
    return single, spaces


def check_searched(config: TrainConfig, names: Iterable[str]) -> None:
    """Raise SettingError for a name that is not that of a setting which trials may change."""
    for name in names:
        value = value_of(config, name)
        if is_dataclass(value) or isinstance(value, Mapping):
            raise SettingError(
                f"{name} is a group of settings", expected="the name of a setting, such as net.dim"
            )
        if name in _OF_TRIALS:
            raise SettingError(
                f"{name} cannot be searched, because trials must not differ in it",
                hint=f"give it one value: {name}=...",
            )


def choices(values: Iterable[Any]) -> BaseDistribution:
    """Return values of which Optuna selects one; those that are equal count once."""
    from optuna.distributions import CategoricalDistribution

    return CategoricalDistribution(list(dict.fromkeys(values)))


def _space(override: Override) -> BaseDistribution:
    """Return the values of a setting; raise an error if Optuna cannot select one."""
    from optuna.distributions import FloatDistribution

    value = override.value()
    if not isinstance(value, IntervalSweep):
        return choices(
            choice.text if isinstance(choice, QuotedString) else choice
            for choice in override.sweep_iterator()
        )
    low, high = float(value.start or 0), float(value.end or 0)
    if not -math.inf < low < high < math.inf:
        raise ValueError
    is_wide = low > 0 and high >= _WIDE * low and "linear" not in value.tags
    return FloatDistribution(low, high, log=is_wide or "log" in value.tags)


def train_quietly(config: TrainConfig, name: str) -> TrainResult:
    """Train with the output in ``log.txt``, in a run with a given name; see ``train``."""
    config = with_changes(config, {"run_name": name})
    log = Path(config.run_dir).parent / "log.txt"
    with log.open("a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        return train(config)


def score(result: TrainResult, metric: str) -> float:
    """Return the mean of greedy or of sampled play, whichever is better.

    Users may choose between the two, as the end of a run and ``evaluate`` compare them.

    Raises:
        KeyboardInterrupt: The training was interrupted, so that there is no score.
        SettingError: No episode has the metric.
    """
    if result.interrupted:
        raise KeyboardInterrupt
    agents = [player for player in result.evaluations if player.player.startswith("agent")]
    means = [player.mean(metric) for player in agents if player.count(metric)]
    if not means:
        names = {name for player in agents for name in player.metrics}
        raise SettingError(f"no episode has the metric {metric!r}", options=sorted(names))
    return max(means)


def steps_of_trials(config: TrainConfig, metric: str, seconds: float) -> tuple[int, bool]:
    """Return the steps of a trial, and True if half of them suffice to beat random play.

    The given settings train for twice as many steps in each attempt, until they beat random play:
    shorter trials would differ by luck only. Trials are longer if they fit into their time.

    Args:
        config: The given settings.
        metric: Metric that is maximised.
        seconds: Time for a trial. Attempts last four times as long, or a little more, together.
    """
    begun, steps, whole = time.monotonic(), _SHORTEST, config.total_timesteps
    while True:
        steps, start = min(steps, whole), time.monotonic()
        result = train_quietly(with_changes(config, {"total_timesteps": steps}), "measure")
        is_better = score(result, metric) > _random_play(result, metric)
        now = time.monotonic()
        if is_better or steps == whole or now - begun > 4 * seconds:
            break
        steps *= 2
    in_time = int(steps * seconds / max(now - start, 1e-9))
    return min(whole, max(2 * steps, in_time)), is_better


def _random_play(result: TrainResult, metric: str) -> float:
    """Return the upper end of the confidence interval of random play."""
    players = [each for each in result.evaluations if each.player == RANDOM and each.count(metric)]
    return max((player.interval(metric)[1] for player in players), default=-math.inf)


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
