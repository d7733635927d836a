"""Free taxis choose the passenger that they fetch; fares grow with the distance."""

from __future__ import annotations

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


def distance(a: Any, b: Any) -> float:
    """Return the blocks between two places."""
    return float(abs(a[0] - b[0]) + abs(a[1] - b[1]))


class Taxis(Environment):
    """A fare pays 4 and 2 for each block; passengers leave after 12 steps."""

    def __init__(self, taxis: int = 5, size: int = 10, steps: int = 120) -> None:
        self.num_taxis, self.size, self.limit = taxis, size, steps

    def obs_space(self) -> ObsSpace:
        """Return taxis and passengers."""
        return ObsSpace(
            entities={
                "Taxi": Entity(["x", "y", "is free", "busy for"]),
                "Passenger": Entity(["x", "y", "to x", "to y", "waited"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of a passenger."""
        return {"Fetch": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Put the taxis anywhere."""
        self.steps = self.serial = 0
        self.taxis = [[*self.place(), 0, 0.0] for _ in range(self.num_taxis)]
        self.passengers: dict[int, list[float]] = {}
        for _ in range(3):
            self.arrive()
        return self.observe(0.0)

    def place(self) -> list[float]:
        """Return a random corner."""
        return [float(x) for x in self.rng.integers(0, self.size, 2)]

    def arrive(self) -> None:
        """Let a passenger call."""
        self.serial += 1
        self.passengers[self.serial] = [*self.place(), *self.place(), 0.0]

    def act(self, actions: Any) -> Observation:
        """Fetch, drive, and lose those who have waited too long."""
        self.steps += 1
        reward = 0.0
        fetch = actions.get("Fetch")
        if fetch is not None:
            for (_, taxi), passenger in zip(fetch.actors, fetch.actees, strict=True):
                if passenger in self.passengers:
                    start = self.passengers.pop(passenger)
                    trip = distance(start[:2], start[2:4])
                    busy = distance(self.taxis[taxi][:2], start) + trip + 1
                    self.taxis[taxi] = [start[2], start[3], int(busy), 4 + 2 * trip]
        for taxi in self.taxis:
            if taxi[2]:
                taxi[2] -= 1
                if not taxi[2]:
                    reward += taxi[3]
        for name, passenger in list(self.passengers.items()):
            passenger[4] += 1
            if passenger[4] > 12:
                del self.passengers[name]
        if self.rng.random() < 0.5:
            self.arrive()
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return the town."""
        over = self.steps == self.limit
        free = [("taxi", k) for k, taxi in enumerate(self.taxis) if not taxi[2]]
        return Observation(
            features={
                "Taxi": [[taxi[0], taxi[1], not taxi[2], taxi[2]] for taxi in self.taxis],
                "Passenger": [list(passenger) for passenger in self.passengers.values()],
            },
            ids={
                "Taxi": [("taxi", k) for k in range(self.num_taxis)],
                "Passenger": list(self.passengers),
            },
            actions={"Fetch": SelectEntityActionMask(actor_ids=free, actee_types=["Passenger"])}
            if free and self.passengers
            else {},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Match each free taxi with the passenger who pays most for the time."""
    if "Fetch" not in observation.actions:
        return {}
    passengers = dict(
        zip(observation.ids["Passenger"], observation.features["Passenger"], strict=True)
    )
    taxis = observation.features["Taxi"]
    free = list(observation.actions["Fetch"].actor_ids)
    chosen: dict[Any, Any] = {}

    def rate(taxi: Any, name: Any) -> float:
        start = passengers[name]
        trip = distance(start[:2], start[2:4])
        return (4 + 2 * trip) / (distance(taxis[taxi[1]][:2], start) + trip + 1)

    left = set(passengers)
    for taxi, name in sorted(
        ((taxi, name) for taxi in free for name in passengers), key=lambda pair: -rate(*pair)
    ):
        if taxi not in chosen and name in left:
            chosen[taxi] = name
            left.discard(name)
    names = [chosen.get(taxi, next(iter(passengers))) for taxi in free]
    return {"Fetch": SelectEntityAction(free, names)}
