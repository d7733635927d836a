"""Thirty boats follow schools of fish, for one common reward; all places are coordinates."""

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

MOVES = {"Wait": (0, 0), "North": (0, 1), "South": (0, -1), "East": (1, 0), "West": (-1, 0)}


class Boats(Environment):
    """1 for each fish; a boat at most one square away from a school catches one in each step.

    Args:
        scale: Length of a square in observations.
    """

    def __init__(
        self,
        boats: int = 30,
        size: int = 20,
        schools: int = 6,
        steps: int = 100,
        scale: float = 1.0,
    ) -> None:
        self.num_boats, self.size, self.num_schools = boats, size, schools
        self.limit, self.scale = steps, scale

    def obs_space(self) -> ObsSpace:
        """Return boats and schools."""
        return ObsSpace(entities={"Boat": Entity(["x", "y"]), "School": Entity(["x", "y", "fish"])})

    def action_space(self) -> dict[str, Any]:
        """Return the directions."""
        return {"Sail": CategoricalActionSpace(list(MOVES))}

    def reset(self) -> Observation:
        """Put boats and schools anywhere."""
        self.steps = 0
        self.boats = [self.place() for _ in range(self.num_boats)]
        self.schools = [[*self.place(), 20] for _ in range(self.num_schools)]
        return self.observe(0.0)

    def place(self) -> list[int]:
        """Return a random square."""
        return [int(x) for x in self.rng.integers(0, self.size, 2)]

    def move(self, own: list[int], index: int) -> None:
        """Move a boat or a school by one square, within the map."""
        for axis, step in enumerate(list(MOVES.values())[index]):
            own[axis] = min(max(own[axis] + step, 0), self.size - 1)

    def act(self, actions: Any) -> Observation:
        """Sail, fish, then let the schools swim; another school comes for one without fish."""
        self.steps += 1
        reward = 0.0
        for k, index in zip(actions["Sail"].actors, actions["Sail"].indices, strict=True):
            self.move(self.boats[k], index)
        for school in self.schools:
            near = sum(abs(x - school[0]) + abs(y - school[1]) <= 1 for x, y in self.boats)
            caught = min(near, school[2])
            school[2] -= caught
            reward += caught
            if not school[2]:
                school[:] = [*self.place(), 20]
            elif self.rng.random() < 0.3:
                self.move(school, self.rng.integers(len(MOVES)))
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return boats and schools."""
        over, scale = self.steps == self.limit, self.scale
        return Observation(
            features={
                "Boat": [[x * scale, y * scale] for x, y in self.boats],
                "School": [[x * scale, y * scale, fish] for x, y, fish in self.schools],
            },
            ids={"Boat": list(range(self.num_boats))},
            actions={"Sail": CategoricalActionMask(actor_types=["Boat"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Sail to the nearest school."""
    indices = []
    for x, y in observation.features["Boat"]:
        to_x, to_y, _ = min(
            observation.features["School"], key=lambda own: abs(own[0] - x) + abs(own[1] - y)
        )
        if to_x != x:
            indices.append(3 if to_x > x else 4)
        else:
            indices.append(1 if to_y > y else 2 if to_y < y else 0)
    return {"Sail": CategoricalAction(list(observation.ids["Boat"]), indices, list(MOVES))}
