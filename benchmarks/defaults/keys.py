"""One thief fetches a key, then opens a chest: a single reward at the end of a long way."""

from __future__ import annotations

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

MOVES = {"North": (0, 1), "South": (0, -1), "East": (1, 0), "West": (-1, 0)}


class Keys(Environment):
    """1 at the chest with the key in hand; 0 if that takes more than 100 steps."""

    def __init__(self, size: int = 7, steps: int = 100) -> None:
        self.size, self.limit = size, steps

    def obs_space(self) -> ObsSpace:
        """Return the thief, what he looks for, and furniture."""
        return ObsSpace(
            entities={
                "Thief": Entity(["x", "y", "has the key"]),
                "Key": Entity(["x", "y"]),
                "Chest": Entity(["x", "y"]),
                "Chair": Entity(["x", "y", "colour", "price"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the four directions."""
        return {"Walk": CategoricalActionSpace(list(MOVES))}

    def reset(self) -> Observation:
        """Put everything on different squares."""
        self.steps = 0
        places = self.rng.choice(self.size**2, 9, replace=False)
        where = [[int(p) // self.size, int(p) % self.size] for p in places]
        self.thief, self.key, self.chest, *chairs = where
        self.has_key = False
        self.chairs = [[*chair, *map(float, self.rng.uniform(0, 100, 2))] for chair in chairs]
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Walk one step."""
        self.steps += 1
        dx, dy = list(MOVES.values())[actions["Walk"].indices[0]]
        self.thief = [
            min(max(self.thief[0] + dx, 0), self.size - 1),
            min(max(self.thief[1] + dy, 0), self.size - 1),
        ]
        self.has_key = self.has_key or self.thief == self.key
        return self.observe(float(self.has_key and self.thief == self.chest))

    def observe(self, reward: float) -> Observation:
        """Return the room."""
        late = self.steps == self.limit
        return Observation(
            features={
                "Thief": [[*self.thief, self.has_key]],
                "Key": [] if self.has_key else [list(self.key)],
                "Chest": [list(self.chest)],
                "Chair": [list(chair) for chair in self.chairs],
            },
            ids={"Thief": ["thief"]},
            actions={"Walk": CategoricalActionMask(actor_types=["Thief"])},
            reward=reward,
            done=late or reward > 0,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Walk to the key, then to the chest."""
    x, y, _ = observation.features["Thief"][0]
    keys = observation.features["Key"]
    goal = keys[0] if len(keys) else observation.features["Chest"][0]
    index = (2 if goal[0] > x else 3) if goal[0] != x else 0 if goal[1] > y else 1
    return {"Walk": CategoricalAction(["thief"], [index], list(MOVES))}
