"""Thirty drones carry parcels at the same time, for one common reward."""

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

MOVES = {"Hover": (0, 0), "North": (0, 1), "South": (0, -1), "East": (1, 0), "West": (-1, 0)}


class Drones(Environment):
    """1 for each parcel that arrives; every drone knows where its own one must go."""

    def __init__(self, drones: int = 30, size: int = 12, steps: int = 60) -> None:
        self.num_drones, self.size, self.limit = drones, size, steps

    def obs_space(self) -> ObsSpace:
        """Return the drones."""
        drone = ["x", "y", "to x", "to y", "serial number", "battery", "flights"]
        return ObsSpace(entities={"Drone": Entity(drone)})

    def action_space(self) -> dict[str, Any]:
        """Return the directions."""
        return {"Fly": CategoricalActionSpace(list(MOVES))}

    def reset(self) -> Observation:
        """Put the drones anywhere."""
        self.steps = 0
        self.drones = [
            [*self.place(), *self.place(), float(self.rng.integers(10**5)), 100.0, 0.0]
            for _ in range(self.num_drones)
        ]
        return self.observe(0.0)

    def place(self) -> list[float]:
        """Return a random square."""
        return [float(x) for x in self.rng.integers(0, self.size, 2)]

    def act(self, actions: Any) -> Observation:
        """Fly one step; who arrives gets another parcel."""
        self.steps += 1
        reward = 0.0
        for k, index in zip(actions["Fly"].actors, actions["Fly"].indices, strict=True):
            drone, (dx, dy) = self.drones[k], list(MOVES.values())[index]
            drone[0] = min(max(drone[0] + dx, 0), self.size - 1)
            drone[1] = min(max(drone[1] + dy, 0), self.size - 1)
            drone[5] -= 1
            if drone[:2] == drone[2:4]:
                reward += 1
                drone[2:4] = self.place()
                drone[6] += 1
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return all drones."""
        over = self.steps == self.limit
        return Observation(
            features={"Drone": [list(drone) for drone in self.drones]},
            ids={"Drone": list(range(self.num_drones))},
            actions={"Fly": CategoricalActionMask(actor_types=["Drone"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Fly straight to the goal."""
    indices = []
    for x, y, to_x, to_y, *_ in observation.features["Drone"]:
        if to_x != x:
            indices.append(3 if to_x > x else 4)
        else:
            indices.append(1 if to_y > y else 2 if to_y < y else 0)
    return {"Fly": CategoricalAction(list(observation.ids["Drone"]), indices, list(MOVES))}
