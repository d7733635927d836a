"""Repair crews walk through a hall to machines that break; old machines break more often."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
)

WAYS = {
    "wait": (0, 0),
    "next aisle": (1, 0),
    "last aisle": (-1, 0),
    "next bay": (0, 1),
    "last bay": (0, -1),
}


class Repairs(Environment):
    """The output of the machines that run, as a part of what all of them could produce."""

    def __init__(self, crews: int = 3, machines: int = 14, size: int = 9, steps: int = 150) -> None:
        self.num_crews, self.num_machines, self.size, self.limit = crews, machines, size, steps

    def obs_space(self) -> ObsSpace:
        """Return crews and machines."""
        machine = Entity(["aisle", "bay", "output", "wear", "is broken", "work left"])
        return ObsSpace(entities={"Crew": Entity(["aisle", "bay"]), "Machine": machine})

    def action_space(self) -> dict[str, Any]:
        """Return where to walk; a crew that waits at a broken machine repairs it."""
        return {"Walk": CategoricalActionSpace(list(WAYS))}

    def reset(self) -> Observation:
        """Put the machines into the hall; some are already broken."""
        self.steps = 0
        places = self.rng.choice(self.size**2, self.num_machines, replace=False)
        self.machines = np.column_stack([places // self.size, places % self.size])
        self.output = self.rng.integers(1, 5, self.num_machines).astype(float)
        self.wear = self.rng.uniform(0, 1, self.num_machines)
        self.work = np.where(self.rng.random(self.num_machines) < 0.3, 3.0, 0.0)
        self.crews = self.rng.integers(0, self.size, (self.num_crews, 2))
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Walk, repair, produce, and wear out."""
        self.steps += 1
        for (_, k), index in zip(actions["Walk"].actors, actions["Walk"].indices, strict=True):
            way = list(WAYS.values())[index]
            self.crews[k] = np.clip(self.crews[k] + way, 0, self.size - 1)
            here = (self.machines == self.crews[k]).all(1) & (self.work > 0)
            if index == 0 and here.any():
                self.work[here] -= 1
                self.wear[here & (self.work <= 0)] = 0.0
        runs = self.work <= 0
        reward = float(self.output[runs].sum() / self.output.sum())
        self.wear[runs] += 0.01
        breaks = runs & (self.rng.random(self.num_machines) < 0.01 + 0.03 * self.wear)
        self.work[breaks] = self.rng.integers(2, 6, self.num_machines)[breaks]
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return the hall."""
        over = self.steps == self.limit
        state = [self.machines, self.output, self.wear, self.work > 0, self.work]
        return Observation(
            features={"Crew": self.crews.copy(), "Machine": np.column_stack(state)},
            ids={"Crew": [("crew", k) for k in range(self.num_crews)]},
            actions={"Walk": CategoricalActionMask(actor_types=["Crew"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Walk to the broken machine that is near and important, each crew to another one."""
    broken = [row for row in np.array(observation.features["Machine"]) if row[4]]
    indices = []
    for crew in np.array(observation.features["Crew"]):
        if not broken:
            indices.append(0)
            continue
        costs = [abs(row[:2] - crew).sum() + row[5] - row[2] for row in broken]
        goal = broken.pop(int(np.argmin(costs)))
        aisles, bays = goal[:2] - crew
        if aisles:
            indices.append(1 if aisles > 0 else 2)
        else:
            indices.append(3 if bays > 0 else 4 if bays < 0 else 0)
    return {"Walk": CategoricalAction(observation.ids["Crew"], indices, list(WAYS))}
