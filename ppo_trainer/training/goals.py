"""Goals for means over the last episodes, which end a training when they are reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from entity_env.errors import SettingError, nearest
from ppo_trainer.config import TrainConfig
from ppo_trainer.reporting.recent_episodes import PER_EPISODE, is_per_episode

__all__ = ["check_metric_names", "check_metrics", "goals_reached"]


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
