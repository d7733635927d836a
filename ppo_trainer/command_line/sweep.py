"""The table that compares the runs of a sweep (``-m seed=1,2,3``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entity_env.errors import counted, shorten
from ppo_trainer.loop import TrainResult
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.text_table import aligned

__all__ = ["SweptRun", "sweep_table"]

_COLUMNS = (("win", "win", 3), ("episodic_reward", "reward", 3), ("episodic_length", "length", 2))
_LONGEST = 30
"""Maximum number of characters that the table shows of a setting's value."""


@dataclass(frozen=True)
class SweptRun:
    """One run of a sweep.

    Args:
        settings: Settings of its command line, by name.
        result: Result of the training; None if it failed.
        failure: Name of the error that ended it.
    """

    settings: Mapping[str, str]
    result: TrainResult | None = None
    failure: str | None = None


def sweep_table(runs: Sequence[SweptRun]) -> str:
    """Return a line for each run: the settings that differ, its results, and its folder.

    The results are those of the greedy agent in the evaluation at the end or, without an
    evaluation, means over the last episodes of the training.
    """
    names = [name for name in _names(runs) if len({run.settings.get(name) for run in runs}) > 1]
    evaluated = any(run.result is not None and run.result.evaluations for run in runs)
    means = [_means(run, evaluated) for run in runs]
    columns = [column for column in _COLUMNS if any(column[0] in mean for mean in means)]
    rows = [[*names, *(label for _, label, _ in columns), "steps", "run"]]
    for run, mean in zip(runs, means, strict=True):
        settings = [_short(run.settings.get(name, "-")) for name in names]
        numbers = [f"{mean[n]:.{digits}f}" if n in mean else "-" for n, _, digits in columns]
        rows.append([*settings, *numbers, *_end(run)])
    whose = (
        "agent, greedy, in fresh episodes" if evaluated else "over the last episodes of training"
    )
    title = f"The {counted(len(runs), 'run')} of this sweep ({whose}):"
    return f"{title}\n{aligned(rows, right=range(len(names), len(rows[0]) - 1))}"


def _names(runs: Sequence[SweptRun]) -> list[str]:
    """Return the names of all settings, in the order in which they were given."""
    return list(dict.fromkeys(name for run in runs for name in run.settings))


def _means(run: SweptRun, evaluated: bool) -> Mapping[str, float]:
    if run.result is None:
        return {}
    if not evaluated:
        return run.result.means
    agent = next((e for e in run.result.evaluations if e.player == "agent, greedy"), None)
    return {} if agent is None else _known(agent)


def _known(evaluation: Evaluation) -> dict[str, float]:
    return {n: evaluation.mean(n) for n in evaluation.metrics if evaluation.count(n)}


def _end(run: SweptRun) -> list[str]:
    """Return the steps and the folder of a run, or the error that ended it."""
    if run.result is None:
        return ["-", f"failed: {run.failure}"]
    stopped = " (stopped)" if run.result.interrupted else ""
    return [f"{run.result.steps:,}", f"{run.result.run}{stopped}"]


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else shorten(value, _LONGEST)
