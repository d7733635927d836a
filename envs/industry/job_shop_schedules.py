"""Whole schedules of given instances: the best of several tries, half of them backwards.

    agent = load_agent("runs/shop", greedy=True)
    print(best_schedule(agent, "orders.csv"))

The jobs of an instance, each from its last operation to its first, are another instance, whose
schedules turned around are those of the first. A dispatcher finds another one there.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs

from .job_shop import JobShopRows, bars_of, named_bars, names_of
from .job_shop_chart import Bar, draw_chart
from .job_shop_instances import Instance, find_instance

__all__ = ["Dispatcher", "Schedule", "best_schedule"]


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


def best_schedule(
    agent: Dispatcher,
    instance: Any,
    tries: int = 2,
    begin: Mapping[str, Any] | None = None,
    **rules: bool,
) -> Schedule:
    """Return the best schedule that an agent finds.

    Half of the tries are backwards, where jobs have neither due dates nor release times, and
    nothing has been started. An agent that is greedy finds one schedule in each direction; one that
    draws finds more.

    Args:
        agent: Agent that decides.
        instance: ``ta01`` to ``ta80``, a file, or an ``Instance``.
        tries: Number of schedules to compare.
        begin: The moment from which on operations are scheduled: the arguments of
            ``JobShopRows.begin_at``.
        rules: ``waiting`` and ``labels``, where the agent was trained with others than usual.
    """
    one = find_instance(instance)
    both = tries > 1 and begin is None and not one.due and not any(one.release)
    ways = [one, one.backwards()] if both else [one]
    rows = JobShopRows(tries, instance=ways, copies=-(-tries // len(ways)), **rules)
    obs = rows.reset() if begin is None else rows.begin_at(**begin)
    costs, lengths = np.full(tries, np.nan), np.zeros(tries, np.int64)
    chosen: list[npt.NDArray[np.int64]] = []
    while np.isnan(costs).any():
        actions = agent.act_rows(obs)
        chosen.append(np.ravel(actions["Dispatch"].as_array()))
        obs = rows.act(actions)
        if obs.done.any():
            ended = obs.done & np.isnan(costs)
            costs[ended] = obs.metrics["tardiness" if one.due else "makespan"][ended]
            lengths[ended] = len(chosen)
    best = int(costs.argmin())
    is_backwards = both and best >= -(-tries // 2)
    # Rows begin anew where a game ends, so that the best one is played once more.
    again = JobShopRows(None, instance=ways[is_backwards], **rules)
    if begin is None:
        again.reset()
    else:
        again.begin_at(**begin)
    own = again.played([int(choices[best]) for choices in chosen[: lengths[best]]])
    bars = bars_of(own, [0] * len(one.durations) if begin is None else begin["op"])
    return Schedule(one, _turned(bars) if is_backwards else bars, is_backwards)


def _turned(bars: Sequence[Bar]) -> list[Bar]:
    """Return the bars of a schedule of the instance backwards as those of one of the instance.

    Each then starts as early as the order of its job and its machine allows.
    """
    free: dict[tuple[str, int], int] = defaultdict(int)
    turned = []
    # Of equals those that take no time are last backwards, and so first here.
    for bar in sorted(bars, key=lambda bar: (bar.end, bar.start))[::-1]:
        start = max(free["job", bar.job], free["machine", bar.machine])
        end = start + bar.end - bar.start
        free["job", bar.job] = free["machine", bar.machine] = end
        turned.append(bar._replace(start=start, end=end))
    return sorted(turned, key=lambda bar: (bar.start, bar.machine))
