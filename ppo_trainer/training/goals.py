"""Goals for means over the last episodes, which end a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from entity_env.errors import nearest
from ppo_trainer.config import TrainConfig
from ppo_trainer.errors import ConfigError

__all__ = ["check_metrics", "goals_reached"]


def goals_reached(config: TrainConfig, means: Mapping[str, float], is_full: bool) -> str | None:
    """Return a text on the goals that have ended the training.

    Args:
        config: Says what the goals are.
        means: The means over the last episodes, by metric.
        is_full: True if enough episodes have ended for a mean.

    Returns:
        None while there are goals that are not reached.
    """
    at_least, at_most = config.stop_at or {}, config.stop_below or {}
    if not (at_least or at_most):
        return None
    reached = [name in means and means[name] >= goal for name, goal in at_least.items()]
    reached += [name in means and means[name] <= goal for name, goal in at_most.items()]
    # Evaluations have all of their episodes.
    played = [name for name in (*at_least, *at_most) if not name.startswith("eval/")]
    if not all(reached) or (played and not is_full):
        return None
    return ", ".join(f"{name} {means[name]:.3f}" for name in (*at_least, *at_most))


def check_metrics(config: TrainConfig, means: Mapping[str, float]) -> None:
    """Check the names of metrics, once enough episodes have ended to know all.

    Args:
        config: Names metrics.
        means: The means over the last episodes, of all metrics.

    Raises:
        ConfigError: A metric of ``stop_at``, ``stop_below`` or ``checkpoint.best`` that there is
            not.
    """
    for setting, names in _wanted(config).items():
        for name in names:
            evaluated = not name.startswith("eval/") or any(
                known.startswith("eval/") for known in means
            )
            if name not in means and evaluated:
                raise ConfigError(
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
