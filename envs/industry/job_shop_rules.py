"""Settings, spaces and features of job shops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from entity_env.errors import shorten
from entity_env.spaces import ActionName, ActionSpace, Entity, ObsSpace, SelectEntityActionSpace

from ..errors import EnvConfigError, check_flag, check_number, check_span, check_whole
from .job_shop_instances import MOST_JOBS, MOST_MACHINES, Instance, find_instances

__all__ = [
    "ACTION_SPACE",
    "BREAKDOWNS",
    "JOB",
    "LABELS",
    "SHORTEST_LONGEST",
    "WEIGHTS",
    "JobShopSettings",
    "obs_space_of",
]

JOB = (
    "work", "operations", "duration", "ready", "wait", "machine work", "flow", "machine wait",
    "next machine wait", "rank", "next duration", "next machine work", "rivals", "path", "slack",
    "weight", "age", "job work", "setup", "urgency", "turn",
)  # fmt: skip
"""The features of a job, in their order.

Times are in mean durations of an operation, ``work`` in parts of the first bound; see ``JobShop``.
"""
LABELS = ("machine", "next machine")
"""With ``labels`` these follow, and the number of a machine."""
_MACHINE = ("wait", "work", "queue", "path")


def obs_space_of(labels: bool) -> ObsSpace:
    """Return the observation space, with or without the numbers of machines."""
    return ObsSpace(
        entities={
            "Job": Entity([*JOB, *(LABELS if labels else ())]),
            "Machine": Entity([*_MACHINE, *(["number"] if labels else [])]),
            "Clock": Entity(["left", "jobs", "ready", "machines"]),
        }
    )


ACTION_SPACE: dict[ActionName, ActionSpace] = {"Dispatch": SelectEntityActionSpace()}

SHORTEST_LONGEST = (1, 99)
"""Durations are drawn from these, both included."""
BREAKDOWNS = 16
"""Of each machine so many are drawn; after the last one the first one follows again."""
WEIGHTS = ((1, 0.2), (2, 0.6), (4, 0.2))
"""Of jobs with due dates: each weight, and how likely it is."""


@dataclass(frozen=True)
class JobShopSettings:
    """The settings of ``JobShop`` and ``JobShopRows``; ``check`` makes them.

    Args:
        jobs: How many jobs, from and to.
        machines: How many machines, from and to.
        instances: Given ones, played in turn; empty: they are drawn.
        arrivals: Whether jobs arrive one after the other, with due dates and weights.
        load: How busy arriving jobs keep the machines, above 0.
        tightness: Due dates lie so many times a job's work after its arrival, from and to.
        breakdowns: The share of the time that a machine is down, if nothing wears it.
        repair: How long a repair takes on average, in mean durations of an operation.
        setups: How long a set-up takes on average, in mean durations; 0: there are none.
        families: Of jobs, between which machines are set up.
        flexible: So many neighbouring machines do the same.
        labels: Whether the numbers of machines are seen.
    """

    jobs: tuple[int, int]
    machines: tuple[int, int]
    instances: tuple[Instance, ...]
    arrivals: bool
    load: float
    tightness: tuple[float, float]
    breakdowns: float
    repair: float
    setups: float
    families: int
    flexible: int
    labels: bool

    @property
    def most_operations(self) -> int:
        """Of a job."""
        return max((own.most_operations for own in self.instances), default=self.machines[1])

    @property
    def delay(self) -> float:
        """The factor by which set-ups and breakdowns lengthen operations, about."""
        return (1 + self.setups * (1 - 1 / self.families)) / (1 - self.breakdowns)

    @property
    def dated(self) -> bool:
        """True if jobs have due dates, so that tardiness counts."""
        return self.arrivals or any(own.due for own in self.instances)

    @property
    def has_times(self) -> bool:
        """True if operations take different times on several machines."""
        return any(own.times is not None for own in self.instances)

    @classmethod
    def check(cls, jobs: Any, machines: Any, instance: Any, **given: Any) -> JobShopSettings:
        """Return the settings, or EnvConfigError; the arguments are those of ``JobShop``."""
        arrivals = check_flag("arrivals", given["arrivals"])
        instances = () if instance is None else tuple(find_instances(instance))
        if instances and arrivals:
            raise EnvConfigError(
                "instance and arrivals do not go together",
                expected="arrivals=False: a table says itself when jobs can start (release), and "
                "when they are due",
            )
        if len({bool(own.due) for own in instances}) > 1:
            raise EnvConfigError(
                "some instances have due dates, and others have none",
                expected="due dates in all of them, whose tardiness counts, or in none",
            )
        flexible = check_whole("flexible", given["flexible"], 1, MOST_MACHINES)
        if any(own.times is not None for own in instances):
            if flexible != 1:
                raise EnvConfigError(
                    "flexible does not go together with an instance whose operations have several "
                    "machines",
                    expected="flexible=1",
                    received=flexible,
                )
            flexible = MOST_MACHINES  # all that work can come to is one work centre
        sizes = [own.size for own in instances]
        if sizes:
            jobs = (min(n for n, _ in sizes), max(n for n, _ in sizes))
            machines = (min(m for _, m in sizes), max(m for _, m in sizes))
        return cls(
            jobs=check_span("jobs", jobs, 1, MOST_JOBS),
            machines=check_span("machines", machines, 1, MOST_MACHINES),
            instances=instances,
            arrivals=arrivals,
            load=check_number("load", given["load"], 1e-3, 1e4),
            tightness=_ascending("tightness", given["tightness"]),
            breakdowns=check_number("breakdowns", given["breakdowns"], 0.0, 0.9),
            repair=check_number("repair", given["repair"], 1e-3, 1e4),
            setups=check_number("setups", given["setups"], 0.0, 1000.0),
            families=check_whole("families", given["families"], 1, 1000) if given["setups"] else 1,
            flexible=flexible,
            labels=check_flag("labels", given["labels"]),
        )


def _ascending(name: str, value: Any) -> tuple[float, float]:
    pair = value if isinstance(value, list | tuple) else (value, value)
    numbers = [check_number(name, own, 1e-3, 1e4) for own in pair]
    if len(numbers) != 2 or numbers[0] > numbers[1]:
        raise EnvConfigError(
            f"invalid parameter {name}",
            expected="a number, or two, the smaller one first",
            received=shorten(value),
        )
    return numbers[0], numbers[1]
