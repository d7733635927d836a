"""The trials of a search: their differences, tables, and the importance of settings."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from entity_env.errors import counted
from entity_env.storage.files import write_file

if TYPE_CHECKING:
    import optuna

__all__ = ["Difference", "difference", "importances", "trials_table", "write_trials"]

_LEAST = 4
"""Minimum number of trials for an estimate of importance."""


@dataclass(frozen=True)
class Difference:
    """The mean difference between the scores of two trials over the seeds of both.

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


def difference(scores: Mapping[int, float], others: Mapping[int, float]) -> Difference:
    """Return the mean difference ``scores - others`` over their common seeds.

    Args:
        scores: Scores by seed.
        others: Scores of the other trial by seed.
    """
    own = [scores[seed] - others[seed] for seed in scores.keys() & others.keys()]
    if not all(map(math.isfinite, own)):
        return Difference(-math.inf, math.inf, len(own))
    error = stdev(own) / math.sqrt(len(own)) if len(own) > 1 else math.inf
    return Difference(fmean(own or [0.0]), error, len(own))


def trials_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text as lines with columns of equal width."""
    every = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in every)


def write_trials(study: optuna.Study, folder: Path, metric: str) -> None:
    """Write ``trials.csv``, and ``importance.png`` and ``parallel.png`` if there are enough trials.

    Trials that failed, which were refused or interrupted, are left out.

    Args:
        study: The search.
        folder: Folder to write to.
        metric: Name of the value of a trial.
    """
    table = io.StringIO()
    trials = [own for own in study.get_trials(deepcopy=False) if own.state.name != "FAIL"]
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["trial", "state", metric, *names])
    for trial in trials:
        value = "" if trial.value is None else trial.value
        own = [trial.params.get(name, "") for name in names]
        writer.writerow([trial.number, trial.state.name.lower(), value, *own])
    write_file(folder / "trials.csv", table.getvalue().encode())
    known = [trial for trial in trials if _last(trial) is not None]
    if len(known) < _LEAST or not names:
        return
    _write(folder / "importance.png", _draw_importance, importances(study), metric)
    params = {name: [trial.params.get(name) for trial in known] for name in names}
    values = np.array([_last(trial) for trial in known])
    _write(folder / "parallel.png", _draw_parallel, params, values, metric)


def importances(study: optuna.Study) -> dict[str, float]:
    """Return the importance of each setting for being among the better trials, 0 to 1.

    Trials that were stopped early count with the last value that they reported.

    Source:
        Watanabe et al. 2023, "PED-ANOVA", arXiv:2304.10255, as in Optuna.
    """
    import optuna

    trials = [trial for trial in study.get_trials(deepcopy=False) if _last(trial) is not None]
    every = optuna.create_study(direction="maximize")
    for trial in trials:
        every.add_trial(
            optuna.trial.create_trial(
                params=trial.params, distributions=trial.distributions, value=_last(trial)
            )
        )
    if len({_last(trial) for trial in trials}) < 2:
        return {name: 0.0 for trial in trials for name in trial.params}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return dict(optuna.importance.get_param_importances(every, evaluator=evaluator))


def _last(trial: optuna.trial.FrozenTrial) -> float | None:
    """Return the value of a trial, or the last one that a stopped trial reported."""
    reported = trial.intermediate_values
    value = trial.value if trial.value is not None else None
    if value is None and reported:
        value = reported[max(reported)]
    return value if value is not None and math.isfinite(value) else None


def _write(path: Path, draw: Any, *content: Any) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure, picture = Figure(layout="constrained", dpi=110), io.BytesIO()
    FigureCanvasAgg(figure)
    draw(figure, *content)
    figure.savefig(picture, format="png")
    write_file(path, picture.getvalue())


def _draw_importance(figure: Any, found: Mapping[str, float], metric: str) -> None:
    figure.set_size_inches(6.0, 1.2 + 0.35 * len(found))
    axes = figure.add_subplot()
    names = sorted(found, key=lambda name: found[name])
    axes.barh(names, [found[name] for name in names], color="#1f5fa8")
    axes.set_xlabel(f"importance for {metric}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _draw_parallel(
    figure: Any, params: Mapping[str, Sequence[Any]], values: npt.NDArray[np.float64], metric: str
) -> None:
    """Draw a line for each trial through its values of all settings, darker for better trials."""
    figure.set_size_inches(1.8 * (len(params) + 1) + 1.0, 4.0)
    axes = figure.add_subplot()
    columns = [_column(own) for own in params.values()] + [_column(values.tolist())]
    heights = np.array([places for places, _ in columns])  # (settings + 1, trials)
    rank = np.argsort(np.argsort(values)) / max(len(values) - 1, 1)
    for trial in np.argsort(values):
        shade = 0.85 - 0.85 * rank[trial]
        color = (shade * 0.9, shade * 0.95, 0.45 + 0.5 * shade)
        axes.plot(heights[:, trial], color=color, linewidth=0.8 + rank[trial])
    for place, (_, labels) in enumerate(columns):
        axes.axvline(place, color="#888888", linewidth=0.8)
        for height, text in labels:
            axes.annotate(
                text,
                (place, height),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=7,
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
            )
    axes.set_xticks(range(len(columns)), [*params, metric], fontsize=8, rotation=20)
    axes.set_yticks([])
    axes.set_frame_on(False)


def _column(values: Sequence[Any]) -> tuple[npt.NDArray[np.float64], list[tuple[float, str]]]:
    """Return the heights, 0 to 1, of the values of one setting, and labels with their heights."""
    real = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    distinct = list(dict.fromkeys(values))
    if real and len(distinct) > 6:
        numbers = np.array(values, np.float64)
        low, high = numbers.min(), numbers.max()
        if low > 0 and high > 50 * low:
            numbers, low, high = np.log(numbers), math.log(low), math.log(high)
            ends = [(0.0, f"{math.exp(low):.3g}"), (1.0, f"{math.exp(high):.3g}")]
        else:
            ends = [(0.0, f"{low:.4g}"), (1.0, f"{high:.4g}")]
        return (numbers - low) / ((high - low) or 1.0), ends
    order = sorted(distinct) if real else sorted(distinct, key=str)
    places = {value: own / max(len(order) - 1, 1) for own, value in enumerate(order)}
    labels = [(place, f"{value:.4g}" if real else str(value)) for value, place in places.items()]
    return np.array([places[value] for value in values]), labels
