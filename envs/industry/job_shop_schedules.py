"""Whole schedules of given instances: the best of several tries, half of them backwards.

    agent = load_agent("runs/shop", greedy=True)
    print(best_schedule(agent, "orders.csv"))

The jobs of an instance, each from its last operation to its first, are another instance, whose
schedules turned around are those of the first. A dispatcher finds another one there.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.rows.vec_env import VecEnv

from .job_shop import JobShopRows
from .job_shop_chart import Bar, bars_of, draw_chart, named_bars, names_of, turned
from .job_shop_instances import Instance, find_instance, find_instances

__all__ = ["Dispatcher", "Schedule", "Try", "best_schedule", "best_tries"]


class Dispatcher(Protocol):
    """A player of all rows of an environment, such as an agent of ``load_agent``."""

    def act_rows(self, obs: VecObs) -> Mapping[Any, ActionBuffer]:
        """Return the actions of all rows."""


@dataclass(frozen=True)
class Schedule:
    """A whole schedule of an instance.

    Args:
        instance: The instance.
        bars: Its operations, in the order of time.
        is_backwards: True if it was found backwards.
    """

    instance: Instance
    bars: list[Bar]
    is_backwards: bool

    @property
    def makespan(self) -> int:
        """The end of the last operation."""
        return max((bar.end for bar in self.bars), default=0)

    @property
    def tardiness(self) -> float:
        """The weighted mean of what jobs are late by; 0 without due dates."""
        ends = {bar.job: bar.end for bar in self.bars}
        dates = zip(self.instance.due, self.instance.weight, strict=True)
        late = [w * max(ends.get(job, 0) - due, 0) for job, (due, w) in enumerate(dates)]
        return sum(late) / max(sum(self.instance.weight), 1)

    @property
    def operations(self) -> list[dict[str, Any]]:
        """The job, machine, start and end of each operation, by their names."""
        return named_bars(self.bars, *names_of(self.instance))

    def write_csv(self, path: str | Path) -> None:
        """Write the operations as a table with the columns job, machine, start, end."""
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, ["job", "machine", "start", "end"])
            table.writeheader()
            table.writerows(self.operations)

    def chart(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return a Gantt chart; ``kwargs`` are those of ``draw_chart``. Shape: (H, W, 3)."""
        names, due = names_of(self.instance), self.instance.due
        return draw_chart(self.bars, *names, self.makespan, due, **kwargs)


@dataclass(frozen=True)
class Try:
    """The best of several tries to schedule an instance.

    Args:
        cost: Its makespan; with due dates its weighted tardiness.
        is_backwards: True if the jobs were scheduled backwards.
        choices: The place of the job of each decision.
    """

    cost: float
    is_backwards: bool
    choices: list[int]


def best_schedule(
    agent: Dispatcher,
    instance: Any,
    tries: int = 2,
    begin: Mapping[str, Any] | None = None,
    **rules: Any,
) -> Schedule:
    """Return the best schedule that an agent finds, as ``best_tries`` does.

    An agent that is greedy finds one schedule in each direction; one that draws finds more.

    Args:
        agent: Agent that decides.
        instance: ``ta01`` to ``ta80``, a file, or an ``Instance``.
        tries: Number of schedules to compare.
        begin: The moment from which on operations are scheduled: the arguments of
            ``JobShopRows.begin_at``.
        rules: ``waiting`` and ``labels``, where the agent was trained with others than usual.
    """
    one: Any = find_instance(instance)
    (best,) = best_tries(agent, [one], tries, begin, **rules)
    # Rows begin anew where a game ends, so that the best one is played once more.
    again = JobShopRows(None, instance=one, backwards=best.is_backwards, **rules)
    if begin is None:
        again.reset()
    else:
        again.begin_at(**begin)
    bars = bars_of(again.played(best.choices), begin["op"] if begin else ())
    return Schedule(one, turned(bars) if best.is_backwards else bars, best.is_backwards)


def best_tries(
    agent: Dispatcher,
    instances: Any,
    tries: int = 2,
    begin: Mapping[str, Any] | None = None,
    seen: Callable[[JobShopRows], VecEnv] | None = None,
    **rules: Any,
) -> list[Try]:
    """Return the best of several tries of each instance.

    Half of the tries are backwards, where jobs have neither due dates nor release times, and
    nothing has been started.

    Args:
        agent: Agent that decides.
        instances: One or several, as ``find_instances`` takes them.
        tries: Number of schedules of each instance.
        begin: See ``best_schedule``.
        seen: Makes of the rows those that the agent sees; not with ``begin``.
        rules: See ``best_schedule``.
    """
    ones = find_instances(instances)
    both = np.array([begin is None and not one.is_dated for one in ones])[:, np.newaxis]
    is_backwards = both & (np.arange(tries) >= -(-tries // 2))  # (instances, tries)
    number = np.arange(len(ones))[:, np.newaxis]
    played = np.where(is_backwards, len(ones) - 1 + np.cumsum(both)[:, np.newaxis], number)
    ways = [*ones, *(one.backwards() for one, own in zip(ones, both, strict=True) if own)]
    rows = JobShopRows(played.size, instance=ways, **rules)
    for row, way in enumerate(played.flat):
        rows.put_instance(row, way)
    game = seen(rows) if seen else rows
    obs = game.reset() if begin is None else rows.begin_at(**begin)
    costs, lengths = np.full(played.size, np.nan), np.zeros(played.size, np.int64)
    chosen: list[npt.NDArray[np.int64]] = []
    while np.isnan(costs).any():
        actions = agent.act_rows(obs)
        chosen.append(np.ravel(actions["Dispatch"].as_array()))
        obs = game.act(actions)
        if obs.done.any():
            ended = obs.done & np.isnan(costs)
            costs[ended] = obs.metrics["tardiness" if ones[0].due else "makespan"][ended]
            lengths[ended] = len(chosen)
    best = costs.reshape(played.shape).argmin(1) + tries * number[:, 0]
    return [
        Try(
            float(costs[row]),
            bool(is_backwards.flat[row]),
            [int(choices[row]) for choices in chosen[: lengths[row]]],
        )
        for row in best
    ]
