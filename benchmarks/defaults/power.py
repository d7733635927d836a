"""Six generators follow the demand of a town; what is missing costs thousands."""

from __future__ import annotations

import math
from typing import Any

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
)

LABELS = ["Down", "Hold", "Up"]
UNITS = ((40, 10, 5), (40, 12, 5), (30, 20, 10), (30, 25, 10), (20, 50, 20), (20, 60, 20))
"""Capacity, cost of a unit of energy, and how fast it changes."""


class Power(Environment):
    """Rewards are minus the cost of an hour, some -1,000 to -10,000."""

    def __init__(self, hours: int = 96) -> None:
        self.hours = hours

    def obs_space(self) -> ObsSpace:
        """Return the demand and the generators."""
        return ObsSpace(
            global_features=["hour", "demand", "demand in an hour", "output"],
            entities={"Generator": Entity(["capacity", "cost", "ramp", "level"])},
        )

    def action_space(self) -> dict[str, Any]:
        """Return how a generator's level changes."""
        return {"Level": CategoricalActionSpace(LABELS)}

    def wanted(self, hour: int) -> float:
        """Return the demand of an hour."""
        wave = math.sin((hour + self.start) * math.pi / 12)
        return 85 + 45 * wave + self.noise[hour]

    def reset(self) -> Observation:
        """Begin at any hour of a day."""
        self.hour = 0
        self.start = int(self.rng.integers(24))
        self.noise = self.rng.normal(0, 4, self.hours + 2)
        self.levels = [0.5 * capacity for capacity, _, _ in UNITS]
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Change the levels, then meet the demand of the next hour."""
        self.hour += 1
        for k, index in zip(actions["Level"].actors, actions["Level"].indices, strict=True):
            capacity, _, ramp = UNITS[k]
            self.levels[k] = min(max(self.levels[k] + (index - 1) * ramp, 0.0), float(capacity))
        cost = sum(level * unit[1] for level, unit in zip(self.levels, UNITS, strict=True))
        missing = self.wanted(self.hour) - sum(self.levels)
        return self.observe(-cost - 200 * max(missing, 0.0))

    def observe(self, reward: float) -> Observation:
        """Return demand and generators."""
        over = self.hour == self.hours
        now = [self.wanted(self.hour), self.wanted(self.hour + 1), sum(self.levels)]
        return Observation(
            global_features=[(self.hour + self.start) % 24, *now],
            features={
                "Generator": [
                    [*unit, level] for unit, level in zip(UNITS, self.levels, strict=True)
                ]
            },
            ids={"Generator": list(range(len(UNITS)))},
            actions={"Level": CategoricalActionMask(actor_types=["Generator"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Use the cheapest generators for the demand in an hour and a reserve."""
    need = observation.global_features[2] + 6
    indices = []
    for capacity, _, ramp, level in observation.features["Generator"]:
        goal = min(max(need, 0.0), capacity)
        index = 2 if goal > level + 0.01 else 0 if goal < level - ramp + 0.01 else 1
        need -= min(max(level + (index - 1) * ramp, 0.0), capacity)
        indices.append(index)
    return {"Level": CategoricalAction(list(observation.ids["Generator"]), indices, LABELS)}
