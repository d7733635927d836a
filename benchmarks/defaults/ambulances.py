"""Emergency calls choose the ambulance that comes; who waits long may not survive."""

from __future__ import annotations

from math import cos, hypot, radians
from typing import Any

from entity_env import (
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

WEST, EAST, SOUTH, NORTH = 16.25, 16.50, 48.13, 48.28


def kilometres(a: Any, b: Any) -> float:
    """Return the distance of two places, each a longitude and a latitude in degrees."""
    return hypot(111.3 * cos(radians(48.2)) * (a[0] - b[0]), 111.3 * (a[1] - b[1]))


class Ambulances(Environment):
    """A patient who is reached pays by the chance to live, which falls by a step's wait."""

    def __init__(self, ambulances: int = 7, calls: float = 0.35, minutes: int = 150) -> None:
        self.num_ambulances, self.rate, self.limit = ambulances, calls, minutes

    def obs_space(self) -> ObsSpace:
        """Return ambulances and calls."""
        return ObsSpace(
            entities={
                "Ambulance": Entity(["lon", "lat", "busy for", "mileage"]),
                "Call": Entity(["lon", "lat", "severity", "waiting since"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of an ambulance."""
        return {"Request": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Put the ambulances anywhere in the city."""
        self.minute = self.serial = 0
        self.ambulances = [[*self.place(), 0.0, 0.0] for _ in range(self.num_ambulances)]
        self.calls: dict[str, list[float]] = {}
        self.ring()
        return self.observe(0.0)

    def place(self) -> list[float]:
        """Return a random place."""
        return [float(self.rng.uniform(WEST, EAST)), float(self.rng.uniform(SOUTH, NORTH))]

    def ring(self) -> None:
        """Let somebody call."""
        self.serial += 1
        severity = float(self.rng.choice([1, 2, 5], p=[0.5, 0.3, 0.2]))
        self.calls[f"call {self.serial}"] = [*self.place(), severity, 0.0]

    def act(self, actions: Any) -> Observation:
        """Send ambulances; if two calls want one, the more severe call gets it."""
        self.minute += 1
        reward = 0.0
        request = actions.get("Request")
        if request is not None:
            wanted = list(zip(request.actors, request.actees, strict=True))
            for name, (_, k) in sorted(wanted, key=lambda pair: -self.calls[pair[0]][2]):
                ambulance = self.ambulances[k]
                if not ambulance[2]:
                    *place, severity, waited = self.calls.pop(name)
                    way = kilometres(ambulance, place)
                    reward += severity * max(0.0, 1 - (waited + 2 * way) / 40)
                    hospital_time = 6 + int(self.rng.integers(0, 5))
                    self.ambulances[k] = [*place, int(2 * way) + hospital_time, ambulance[3] + way]
        for ambulance in self.ambulances:
            ambulance[2] = max(0.0, ambulance[2] - 1)
        for name, call in list(self.calls.items()):
            call[3] += 1
            if call[3] >= 40:
                del self.calls[name]
        if self.rng.random() < self.rate:
            self.ring()
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return the city."""
        over = self.minute == self.limit
        free = [("car", k) for k, car in enumerate(self.ambulances) if not car[2]]
        request = SelectEntityActionMask(actor_types=["Call"], actee_ids=free)
        return Observation(
            features={
                "Ambulance": [list(ambulance) for ambulance in self.ambulances],
                "Call": [list(call) for call in self.calls.values()],
            },
            ids={
                "Ambulance": [("car", k) for k in range(self.num_ambulances)],
                "Call": list(self.calls),
            },
            actions={"Request": request} if free and self.calls else {},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Send the nearest ambulance to each call, the most severe call first."""
    if "Request" not in observation.actions:
        return {}
    calls = dict(zip(observation.ids["Call"], observation.features["Call"], strict=True))
    cars = observation.features["Ambulance"]
    free = list(observation.actions["Request"].actee_ids)
    left = list(free)
    chosen: dict[Any, Any] = {}
    for name in sorted(calls, key=lambda name: -calls[name][2]):
        chosen[name] = min(left or free, key=lambda car: kilometres(cars[car[1]], calls[name]))
        if chosen[name] in left:
            left.remove(chosen[name])
    return {"Request": SelectEntityAction(list(calls), [chosen[name] for name in calls])}
