"""Buses on a ring stop where people wait; a bus that is late gets later, unless others hold."""

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


class Buses(Environment):
    """-0.01 for each step of a person at a stop, half of it in a bus; boarding takes time.

    Args:
        buses: Number of buses.
        stops: Number of stops.
        gap: Distance of two stops.
        steps: Length of an episode.
        hold: Number of steps for which a bus that holds stays at its stop.
    """

    def __init__(
        self, buses: int = 6, stops: int = 12, gap: int = 4, steps: int = 180, hold: int = 3
    ) -> None:
        self.num_buses, self.num_stops, self.gap, self.limit = buses, stops, gap, steps
        self.hold = hold
        self.length = stops * gap

    def obs_space(self) -> ObsSpace:
        """Return buses and stops."""
        return ObsSpace(
            entities={
                "Bus": Entity(
                    ["km", "passengers", "headway ahead", "headway behind", "stands for"]
                ),
                "Stop": Entity(["km", "people", "popularity"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of a bus whose passengers have boarded."""
        return {"Drive": CategoricalActionSpace(["hold", "go"])}

    def reset(self) -> Observation:
        """Put the buses on the ring, more or less at equal distances."""
        self.steps = 0
        starts = [k * self.num_stops // self.num_buses for k in range(self.num_buses)]
        shifts = self.rng.integers(0, 6, self.num_buses).tolist()
        self.km = [
            (self.gap * start + shift) % self.length
            for start, shift in zip(starts, shifts, strict=True)
        ]
        self.waiting = [0] * self.num_buses
        self.loads = [[0] * self.num_stops for _ in range(self.num_buses)]  # by where they get off
        self.people = [int(count) for count in self.rng.integers(0, 4, self.num_stops)]
        self.popularity = self.rng.uniform(0.05, 0.35, self.num_stops)
        return self.observe(0.0)

    def act(self, actions: Any) -> Observation:
        """Let people come, drive, and let people off and on."""
        self.steps += 1
        for k, count in enumerate(self.rng.poisson(self.popularity).tolist()):
            self.people[k] += count
        drive = actions.get("Drive")
        if drive is not None:
            for (_, k), index in zip(drive.actors, drive.indices, strict=True):
                self.waiting[k] = self.hold * (index == 0)
        for k in range(self.num_buses):
            if self.waiting[k]:
                self.waiting[k] -= 1
            elif self.rng.random() < 0.9:  # traffic
                self.km[k] = (self.km[k] + 1) % self.length
                if self.km[k] % self.gap == 0:
                    self.open_doors(k, self.km[k] // self.gap)
        inside = sum(map(sum, self.loads))
        return self.observe(-0.01 * (sum(self.people) + 0.5 * inside))

    def open_doors(self, bus: int, stop: int) -> None:
        """Let people off and on, as many as fit, two in a step."""
        off, self.loads[bus][stop] = self.loads[bus][stop], 0
        on = min(self.people[stop], 30 - sum(self.loads[bus]))
        self.people[stop] -= on
        for ride in self.rng.integers(1, self.num_stops // 2 + 1, on).tolist():
            self.loads[bus][(stop + ride) % self.num_stops] += 1
        self.waiting[bus] = (on + off + 1) // 2

    def headway(self, bus: int, other: int) -> int:
        """Return the kilometres from a bus ahead to another one."""
        return (self.km[other] - self.km[bus]) % self.length

    def observe(self, reward: float) -> Observation:
        """Return the line."""
        over = self.steps == self.limit
        count = self.num_buses
        order = sorted(range(count), key=lambda k: self.km[k])
        buses = []
        for k in range(count):
            place = order.index(k)
            ahead = self.headway(k, order[(place + 1) % count])
            behind = self.headway(order[place - 1], k)
            buses.append([self.km[k], sum(self.loads[k]), ahead, behind, self.waiting[k]])
        ready = [
            ("bus", k) for k in range(count) if not self.waiting[k] and self.km[k] % self.gap == 0
        ]
        return Observation(
            features={
                "Bus": buses,
                "Stop": [
                    [k * self.gap, self.people[k], float(self.popularity[k])]
                    for k in range(self.num_stops)
                ],
            },
            ids={"Bus": [("bus", k) for k in range(count)]},
            actions={"Drive": CategoricalActionMask(actor_ids=ready)} if ready else {},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Hold a bus that is nearer to the one ahead than to the one behind."""
    if "Drive" not in observation.actions:
        return {}
    ready = list(observation.actions["Drive"].actor_ids)
    buses = observation.features["Bus"]
    holds = [buses[k][2] < buses[k][3] - 2 for _, k in ready]
    return {"Drive": CategoricalAction(ready, [0 if hold else 1 for hold in holds], ["hold", "go"])}
