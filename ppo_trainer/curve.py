"""The learning curves of a run as a picture."""

from __future__ import annotations

from pathlib import Path

from ppo_trainer.logger import read_metrics
from ppo_trainer.recent import PER_EPISODE, RecentEpisodes
from ppo_trainer.run_folder import RunFolder, writing

__all__ = ["draw_curve"]

_PANELS = (
    ("win", "win rate"),
    ("episodic_reward", "episodic reward"),
    ("episodic_length", "episode length (steps)"),
    ("value/explained_variance", "explained variance"),
    ("policy/entropy", "entropy (nats)"),
    ("policy/kl", "KL divergence (nats)"),
)


def draw_curve(run: RunFolder) -> Path | None:
    """Draw ``curve.png``; returns its path, or None where there is nothing to draw."""
    # It takes half a second to load, which --help and misspelt settings need not wait for.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    records, recent = read_metrics(run), RecentEpisodes(run.read_config().rollout.num_envs)
    means = [recent.add(record) for record in records]
    panels = [(name, label) for name, label in _PANELS if any(name in r for r in records)]
    if not panels:
        return None
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.2 * columns, 2.9 * rows), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    figure.suptitle(run.path.name, fontsize=11)
    for index, (name, label) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, index + 1)
        sources = means if name in PER_EPISODE else records
        points = [
            (record["steps"], source[name])
            for record, source in zip(records, sources, strict=True)
            if name in source
        ]
        axes.plot(
            *zip(*points, strict=True),
            linewidth=1.4,
            color="#1f5fa8",
            marker="." if len(points) < 3 else "",
        )
        axes.set_title(label, fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_formatter(lambda steps, _: _short(steps))
        if index // columns == rows - 1:
            axes.set_xlabel("steps", fontsize=9)
        if name == "win":
            axes.set_ylim(-0.03, 1.03)
    with writing(run.curve_file):
        figure.savefig(run.curve_file)
    return run.curve_file


def _short(steps: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(steps) >= limit:
            return f"{steps / limit:g}{unit}"
    return f"{steps:g}"
