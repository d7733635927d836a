"""Means over the last episodes that end a training (``stop_at``), or mark its best network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from entity_env.errors import nearest
from ppo_trainer.config import TrainConfig
from ppo_trainer.errors import ConfigError

if TYPE_CHECKING:
    from ppo_trainer.runs.session import Session

__all__ = ["check_metrics", "goals_reached"]


def goals_reached(session: Session) -> str | None:
    """Which means have ended the training, in words; None while there are goals not reached."""
    config, means = session.config, session.means
    at_least, at_most = config.stop_at or {}, config.stop_below or {}
    if not (at_least or at_most):
        return None
    reached = [name in means and means[name] >= goal for name, goal in at_least.items()]
    reached += [name in means and means[name] <= goal for name, goal in at_most.items()]
    if not (all(reached) and session.recent.is_full):
        return None
    return ", ".join(f"{name} {means[name]:.3f}" for name in (*at_least, *at_most))


def check_metrics(session: Session) -> None:
    """Once enough episodes have ended to know all metrics, refuse names that are none.

    Raises:
        ConfigError: A metric of ``stop_at``, ``stop_below`` or ``checkpoint.best`` that there is
            not; the run has been saved.
    """
    if not session.recent.is_full:
        return
    for setting, names in _wanted(session.config).items():
        for name in names:
            evaluated = not name.startswith("eval/") or any(
                known.startswith("eval/") for known in session.means
            )
            if name not in session.means and evaluated:
                session.save()
                raise ConfigError(
                    f"{setting}: no episode has a metric {name!r}",
                    options=sorted(session.means),
                    hint=nearest(name, session.means),
                )


def _wanted(config: TrainConfig) -> dict[str, Iterable[str]]:
    best = config.checkpoint.best
    return {
        "stop_at": config.stop_at or (),
        "stop_below": config.stop_below or (),
        "checkpoint.best": () if best is None else (best,),
    }
