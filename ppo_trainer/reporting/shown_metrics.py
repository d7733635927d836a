"""The environment's own metrics on the screen, in curves and in tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from entity_env.errors import nearest
from entity_env.metrics import is_derived
from ppo_trainer.reporting.recent_episodes import PER_EPISODE, is_per_episode

__all__ = ["own_metrics", "shown_metrics", "unknown_metrics", "with_screen_names"]


_ON_SCREEN = {"reward": "episodic_reward", "length": "episodic_length", "win rate": "win"}
"""Names on the screen of the metrics that every environment has."""


def with_screen_names(means: Mapping[str, float]) -> dict[str, float]:
    """Return the means with their names on the screen as additional names.

    An environment's own metric with such a name takes precedence.
    """
    named = {
        f"{group}{shown}": means[f"{group}{name}"]
        for shown, name in _ON_SCREEN.items()
        for group in ("", "eval/")
        if f"{group}{name}" in means
    }
    return {**named, **means}


def own_metrics(names: Iterable[str]) -> list[str]:
    """Return the environment's own metrics of a record, without ``win``."""
    return [name for name in names if is_per_episode(name) and name not in PER_EPISODE]


def shown_metrics(own: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """Return the ``wanted`` metrics in their order; None stands for all without a suffix.

    Args:
        own: The environment's own metrics.
        wanted: The setting ``shown_metrics``.
    """
    if wanted is None:
        every = (*own, *PER_EPISODE)
        return [name for name in own if not is_derived(name, every)]
    return [name for name in wanted if name in own]


def unknown_metrics(own: Sequence[str], wanted: Sequence[str] | None) -> str | None:
    """Return a line on ``wanted`` metrics that no episode had, or None."""
    missing = [name for name in wanted or () if name not in (*own, *PER_EPISODE)]
    if not missing:
        return None
    hints = [hint for hint in (nearest(name, own) for name in missing) if hint]
    known = ", ".join(own) or "none"
    return f"no episode had {', '.join(missing)}; its own metrics: {known}" + "".join(
        f"; {hint}" for hint in hints
    )
