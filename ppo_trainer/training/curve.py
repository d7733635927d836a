"""The learning curves of a run as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from entity_env.storage.files import write_file
from ppo_trainer.reporting.recent_episodes import RecentEpisodes, is_per_episode
from ppo_trainer.reporting.shown_metrics import own_metrics, shown_metrics
from ppo_trainer.runs.folder import RunFolder, writing
from ppo_trainer.runs.results import RatedPlayer, read_metrics, read_ratings

__all__ = ["CurvePanel", "boundaries", "draw_curve", "panels"]

_EPISODES = {
    "win": "win rate",
    "episodic_reward": "episodic reward",
    "episodic_length": "episode length (steps)",
}
_LEARNING = {
    "value/explained_variance": "explained variance",
    "policy/entropy": "entropy (nats)",
    "policy/kl": "KL divergence (nats)",
    "loss/clone_kl": "divergence from the clone (nats)",
    "loss/cloning": "negative log-likelihood of recorded choices (nats)",
    "loss/held_out": "the same in held-out episodes (nats)",
    "policy/accuracy": "accuracy in held-out episodes",
}
_MOST_OWN = 12
"""Number of panels of own metrics by default."""
_SAME = 1e-9
"""Relative difference up to which two numbers count as equal."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class CurvePanel:
    """The content of one panel.

    Args:
        name: Name of the metric.
        label: Text above the panel.
        points: Steps and values; empty if nothing was played, as in imitation.
        evaluated: Steps and values of evaluations during the training.
    """

    name: str
    label: str
    points: Points
    evaluated: Points = ()

    @property
    def is_constant(self) -> bool:
        """True if there are several values, all of them equal."""
        values = np.array([value for _, value in (*self.points, *self.evaluated)])
        return len(values) > 1 and bool(np.ptp(values) <= _SAME * np.abs(values).max())


def draw_curve(run: RunFolder) -> Path | None:
    """Draw ``curve.png``, and return its path, or None if there is nothing to draw.

    Metrics that never change have no panel; a line at the top lists them.
    """
    # Loaded here because it takes half a second, for which --help need not wait.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    config = run.read_config()
    records = read_metrics(run)
    known = panels(records, config.rollout.num_envs, config.shown_metrics)
    rated = read_ratings(run)
    if not known and not rated:
        return None
    shown = [panel for panel in known if not panel.is_constant]
    rest = [f"{p.label} {(p.points or p.evaluated)[0][1]:.4g}" for p in known if p.is_constant]
    count = len(shown) + bool(rated)
    columns = 2 if count == 4 else min(3, max(1, count))
    rows = -(-count // columns)
    figure = Figure(figsize=(4.2 * columns, 2.9 * rows + 0.7), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    note = f"\nalways the same: {', '.join(rest)}" if rest else ""
    figure.suptitle(run.path.name + note, fontsize=10, wrap=True)
    stages = boundaries(records)
    for index, panel in enumerate(shown):
        axes = figure.add_subplot(rows, columns, index + 1)
        _draw(axes, panel, index // columns == rows - 1)
        for steps in stages:
            axes.axvline(steps, linestyle="--", linewidth=0.8, color="#666666")
    if rated:
        _draw_ratings(figure.add_subplot(rows, columns, count), rated)
    picture = BytesIO()
    figure.savefig(picture, format="png")
    with writing(run.curve_file):
        write_file(run.curve_file, picture.getvalue())
    return run.curve_file


def panels(
    records: Sequence[Mapping[str, Any]], rows: int, wanted: Sequence[str] | None = None
) -> list[CurvePanel]:
    """Return a panel for each metric of the records, in order.

    Args:
        records: Records of a run, as ``read_metrics`` returns them.
        rows: Number of environments that play side by side.
        wanted: The setting ``shown_metrics``.
    """
    recent = RecentEpisodes(rows)
    means = [recent.add(record) for record in records]
    metrics = shown_metrics(own_metrics(sorted(recent.means)), wanted)
    metrics = metrics[: _MOST_OWN if wanted is None else None]
    labels = _EPISODES | {name: name for name in metrics} | _LEARNING
    every = []
    for name, label in labels.items():
        points = _points(records, means if is_per_episode(name) else records, name)
        evaluated = _points(records, records, f"eval/{name}")
        if points or evaluated:
            every.append(CurvePanel(name, label, points, evaluated))
    return every


def boundaries(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the steps at which a stage of self-play ended and the next one began."""
    stages = [(r["steps"], r["selfplay/stage"]) for r in records if "selfplay/stage" in r]
    return [steps for (_, before), (steps, after) in pairwise(stages) if after != before]


def _points(
    records: Sequence[Mapping[str, Any]], sources: Sequence[Mapping[str, Any]], name: str
) -> Points:
    return [
        (record["steps"], source[name])
        for record, source in zip(records, sources, strict=True)
        if name in source
    ]


def _draw(axes: Any, panel: CurvePanel, is_lowest: bool) -> None:
    mark = "." if len(panel.points) < 3 else ""
    if panel.points:
        axes.plot(*zip(*panel.points, strict=True), linewidth=1.4, color="#1f5fa8", marker=mark)
    if panel.evaluated:
        steps, values = zip(*panel.evaluated, strict=True)
        axes.plot(steps, values, "o", markersize=3.5, color="#d55e00")
    dots = " (dots: greedy evaluation)" if panel.evaluated else ""
    _frame(axes, panel.label + dots, is_lowest)
    if panel.name == "win":
        axes.set_ylim(-0.03, 1.03)


def _draw_ratings(axes: Any, rated: Sequence[RatedPlayer]) -> None:
    """Draw versions by their steps with intervals of 95%, and reference players as lines."""
    versions = sorted(
        (player.steps, player.rating, player.deviation)
        for player in rated
        if player.steps is not None
    )
    if versions:
        steps, ratings, deviations = zip(*versions, strict=True)
        bars = [1.96 * deviation for deviation in deviations]
        axes.errorbar(steps, ratings, yerr=bars, fmt="o-", markersize=3, capsize=2, color="#1f5fa8")
    for player in rated:
        if player.steps is None:
            axes.axhline(player.rating, linestyle=":", linewidth=1.0, color="#d55e00")
            axes.annotate(
                player.player,
                (1.0, player.rating),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                fontsize=8,
                color="#d55e00",
            )
    _frame(axes, "rating, 95%", is_lowest=True)


def _frame(axes: Any, title: str, is_lowest: bool) -> None:
    """Draw the title, the grid and the axes of a panel."""
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_formatter(lambda steps, _: _short(steps))
    if is_lowest:
        axes.set_xlabel("steps", fontsize=9)


def _short(steps: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= limit:
            return f"{steps / limit:g}{unit}"
    return f"{steps:g}"
