"""Eight sweepers clean a square, onto which the wind brings dirt; all places are coordinates."""

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

MOVES = {"stay": (0, 0), "up": (0, 1), "down": (0, -1), "left": (-1, 0), "right": (1, 0)}


class Sweepers(Environment):
    """1 for each piece of dirt, less 0.02 for each move; a heap of dirt has 1 to 3 pieces."""

    def __init__(
        self, sweepers: int = 8, size: int = 12, heaps: int = 10, steps: int = 100
    ) -> None:
        self.num_sweepers, self.size, self.num_heaps, self.limit = sweepers, size, heaps, steps

    def obs_space(self) -> ObsSpace:
        """Return sweepers and dirt."""
        sweeper, dirt = ["pos_x", "pos_y", "battery"], ["pos_x", "pos_y", "amount"]
        return ObsSpace(entities={"Sweeper": Entity(sweeper), "Dirt": Entity(dirt)})

    def action_space(self) -> dict[str, Any]:
        """Return the directions."""
        return {"Move": CategoricalActionSpace(list(MOVES))}

    def reset(self) -> Observation:
        """Put sweepers and dirt anywhere."""
        self.steps = 0
        self.places = self.rng.integers(0, self.size, (self.num_sweepers, 2))
        self.batteries = np.full(self.num_sweepers, 100.0)
        self.heaps: dict[tuple[int, ...], int] = {}
        for _ in range(self.num_heaps):
            self.drop()
        return self.observe(0.0)

    def drop(self) -> None:
        """Let the wind bring a heap."""
        place = tuple(self.rng.integers(0, self.size, 2).tolist())
        self.heaps[place] = int(self.rng.integers(1, 4))

    def act(self, actions: Any) -> Observation:
        """Move and clean; new dirt replaces the old."""
        self.steps += 1
        reward = 0.0
        for k, index in zip(actions["Move"].actors, actions["Move"].indices, strict=True):
            self.batteries[k] -= 0.2 + 0.8 * (index > 0)
            move = list(MOVES.values())[index]
            self.places[k] = np.clip(self.places[k] + move, 0, self.size - 1)
            reward += self.heaps.pop(tuple(self.places[k].tolist()), 0) - 0.02 * (index > 0)
        while len(self.heaps) < self.num_heaps:
            self.drop()
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return sweepers and dirt."""
        over = self.steps == self.limit
        return Observation(
            features={
                "Sweeper": np.column_stack([self.places, self.batteries]),
                "Dirt": [[*place, amount] for place, amount in self.heaps.items()],
            },
            ids={"Sweeper": list(range(self.num_sweepers))},
            actions={"Move": CategoricalActionMask(actor_types=["Sweeper"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Walk to the nearest heap to which no other sweeper walks; large ones count as nearer."""
    dirt = np.array(observation.features["Dirt"], float)
    taken = np.zeros(len(dirt))
    indices = []
    for x, y, _ in np.array(observation.features["Sweeper"]):
        best = int((np.abs(dirt[:, :2] - [x, y]).sum(1) - 0.7 * dirt[:, 2] + 100 * taken).argmin())
        taken[best] = 1
        to_x, to_y = dirt[best, :2] - [x, y]
        if abs(to_x) >= abs(to_y):
            indices.append(4 if to_x > 0 else 3 if to_x < 0 else 0)
        else:
            indices.append(1 if to_y > 0 else 2)
    return {"Move": CategoricalAction(list(observation.ids["Sweeper"]), indices, list(MOVES))}
