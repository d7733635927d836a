"""Metrics that settings name: goals that end a training, and the best network of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from torch import Tensor

from entity_env.errors import CheckpointError, SettingError, nearest
from ppo_trainer.config import CheckpointConfig, TrainConfig
from ppo_trainer.reporting.recent_episodes import PER_EPISODE, is_per_episode
from ppo_trainer.runs.checkpoint import TrainState, save_network
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.saved_files import SavedFiles

__all__ = [
    "Best",
    "BestNetwork",
    "check_metric_names",
    "check_metrics",
    "goals_reached",
    "read_best",
]


def goals_reached(config: TrainConfig, means: Mapping[str, float], is_full: bool) -> str | None:
    """Return a text on the goals that end the training, or None if one is not reached.

    Args:
        config: Settings with the goals.
        means: Means over the last episodes, by metric.
        is_full: True if enough episodes have ended for means.

    Returns:
        The text, or None.
    """
    at_least, at_most = config.stop_at or {}, config.stop_below or {}
    if not (at_least or at_most):
        return None
    reached = [name in means and means[name] >= goal for name, goal in at_least.items()]
    reached += [name in means and means[name] <= goal for name, goal in at_most.items()]
    # Evaluations always have enough episodes.
    played = [name for name in (*at_least, *at_most) if not name.startswith("eval/")]
    if not all(reached) or (played and not is_full):
        return None
    return ", ".join(f"{name} {means[name]:.3f}" for name in (*at_least, *at_most))


def check_metric_names(config: TrainConfig) -> None:
    """Check before a training that no setting names a number of updates as a metric of episodes.

    Raises:
        SettingError: A name such as ``loss/value`` or ``steps``, of which there is no mean.
    """
    for setting, names in _wanted(config).items():
        for name in names:
            if not (name.startswith("eval/") or is_per_episode(name)):
                raise SettingError(
                    f"{setting}: {name!r} is a number of updates, not of episodes",
                    expected="a metric of episodes, such as win, reward, length, eval/win, or one "
                    "of the environment",
                )


def check_metrics(config: TrainConfig, means: Mapping[str, float], is_full: bool) -> None:
    """Check that the metrics in settings exist, as soon as it can be known.

    Those of evaluations are known after the first evaluation, others and ``eval/win`` after enough
    episodes, because some environments report a win only when they are won.

    Args:
        config: Settings that name metrics.
        means: Means over the last episodes, of all metrics, and those of the last evaluation.
        is_full: True if enough episodes have ended for means.

    Raises:
        SettingError: ``stop_at``, ``stop_below`` or ``checkpoint.best`` names an unknown metric.
    """
    evaluated = any(known.startswith("eval/") for known in means)
    for setting, names in _wanted(config).items():
        for name in names:
            played = name.removeprefix("eval/")
            is_evaluated = played != name
            known = evaluated if is_evaluated else is_full
            if is_evaluated and (played in means or played in PER_EPISODE):
                known = evaluated and is_full
            if name not in means and known:
                raise SettingError(
                    f"{setting}: no episode has a metric {name!r}",
                    options=sorted(means),
                    hint=nearest(name, means),
                )


def _wanted(config: TrainConfig) -> dict[str, Iterable[str]]:
    best = config.checkpoint.best
    return {
        "stop_at": config.stop_at or (),
        "stop_below": config.stop_below or (),
        "checkpoint.best": () if best is None else (best,),
    }


@dataclass(frozen=True)
class Best:
    """The evaluation that made a network the best.

    Args:
        metric: Metric that ``checkpoint.best`` names.
        mode: ``max`` or ``min``.
        value: Mean of the metric over the last episodes.
        update: Number of updates done by then.
        steps: Number of frames trained on by then.
        is_sure: True if enough episodes had ended for a mean.
    """

    metric: str
    mode: str
    value: float
    update: int
    steps: int
    is_sure: bool


class BestNetwork:
    """The best network so far, which is written together with the next checkpoint.

    A run that is killed and resumed therefore has the best network of its checkpoint's time.

    Args:
        run: Run that is resumed, whose best network may stay the best.
        config: Settings with the metric and its mode.
    """

    def __init__(self, run: RunFolder, config: CheckpointConfig) -> None:
        self._metric, self._mode = config.best, config.best_mode
        before = read_best(run)
        same = before is not None and (before.metric, before.mode) == (
            config.best,
            config.best_mode,
        )
        self._best = before if same else None
        self._unwritten: dict[str, Tensor] | None = None

    def compare(self, state: TrainState, means: Mapping[str, float], sure: bool) -> None:
        """Keep the network if its mean is better than all before.

        Args:
            state: Network, and the numbers of its last update.
            means: Means over the last episodes, by metric.
            sure: True if enough episodes have ended for a mean.
        """
        metric = self._metric
        if metric is None or metric not in means:
            return
        measured = any(name.startswith("eval/") for name in state.metrics)
        if metric.startswith("eval/"):
            if not measured:
                return  # not evaluated since then
            sure = True  # an evaluation always has enough episodes
        value = means[metric]
        if self._best is not None and self._best.is_sure:
            worse = value <= self._best.value if self._mode == "max" else value >= self._best.value
            if worse or not sure:
                return
        steps, update = state.steps, state.update
        self._best = Best(metric, self._mode, value, update, steps, sure)
        self._unwritten = {name: t.detach().clone() for name, t in state.net.state_dict().items()}

    def write(self, run: RunFolder) -> None:
        """Write the best network, unless it has been written already."""
        if self._unwritten is not None and self._best is not None:
            save_network(run.best, self._unwritten, asdict(self._best))
            self._unwritten = None


def read_best(run: RunFolder) -> Best | None:
    """Return the metric, value and update of a run's best network, or None if it has none.

    Raises:
        CheckpointError: The file is damaged.
    """
    if not os.path.lexists(run.best):
        return None
    try:
        return Best(**SavedFiles.open(run.best).facts)
    except TypeError as error:
        raise CheckpointError(
            f"{run.best} is damaged: {error}",
            hint="move the folder away; the run then keeps a new best network",
        ) from error
