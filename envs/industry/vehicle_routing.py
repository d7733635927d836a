"""Vehicle routing: several vehicles, each of which selects its next stop when it is free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.environment import Environment
from entity_env.errors import ActorError, shorten
from entity_env.observation import EntityID, Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from ..checks import check_running, check_started, reading_state
from ..errors import check_whole
from .routing_rules import ACTION_SPACE, MISSED, OBS_SPACE, RoutingSettings, usual_capacity

__all__ = ["VehicleRouting"]

DEPOT: EntityID = "depot"


class VehicleRouting(Environment):
    """Vehicles serve customers in the unit square from one depot, and come back.

    Vehicles drive one unit of distance in one unit of time. Whoever is free is asked: where several
    are, they choose at once, and of those that choose the same customer the first goes, the others
    are asked again. A vehicle whose only way leads to the depot goes there by itself, and loads.

    Entities:
        Vehicle: position, ``load`` left in parts of its capacity, ``busy`` for so long, whether it
        is ``parked`` at the depot, and whether it is ``asked``. Depot: position, and ``distance``
        and offset from the nearest vehicle that is asked. Customer: each that is known and not
        served: position, ``demand`` in parts of the capacity, in how long the window ``opens`` and
        ``closes`` (0 without windows), ``depot distance``, ``distance`` and offset from the nearest
        vehicle that is asked, whether that one's load ``fits``. Day: ``customers`` here in tens,
        ``tours`` that their demand fills, ``time`` in parts of the day, customers ``to come`` in
        tens, where requests arrive.
    Actions:
        Go: a free vehicle selects a customer whose demand it has and whose window it reaches, or
        the depot. At the depot that means to wait, and is possible while another one drives.
    Reward:
        Minus the distance that is driven, and 2 for each customer that is missed, times 10 over an
        estimate of the cost of the instance.
    End:
        All are served or missed; then the vehicles drive home.
    Randomness:
        Places uniform, demands 1 to 9; windows of 0.1 to 0.4 of the day; times of requests.
    Metrics:
        cost: distance, and 2 for each missed; missed.
    Source:
        Kool, van Hoof and Welling, arXiv:1803.08475 (instances with one vehicle, no windows).

    Args:
        customers: How many; or the least and the most, from which each episode draws.
        vehicles: The same. A vehicle may drive any number of tours.
        capacity: Of a vehicle. None: 30, 40, 50 for 20, 50, 100 customers, and between.
        windows: Whether each customer must be served within a time window.
        requests: The share of the customers that become known during the day, from 0 to 1.
        day: The length of the day, for windows and requests, in units of distance.
        copies: Of many rows, so many neighbours get the same instance; alone it changes nothing.

    Raises:
        EnvConfigError: A number out of range, a vehicle too small for a customer.
    """

    y_axis = "up"

    def __init__(
        self,
        customers: int | tuple[int, int] | list[int] = 20,
        vehicles: int | tuple[int, int] | list[int] = 1,
        capacity: int | None = None,
        windows: bool = False,
        requests: float = 0.0,
        day: float = 6.0,
        copies: int = 1,
    ) -> None:
        check_whole("copies", copies, 1)
        self.settings = RoutingSettings.check(customers, vehicles, capacity, windows, requests, day)
        self.steps, self.over = -1, False

    def obs_space(self) -> ObsSpace:
        """Vehicles, the depot, customers, and the day."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Go."""
        return ACTION_SPACE

    def reset(self) -> Observation:
        """Draw customers."""
        own, draw = self.settings, self.rng
        count = int(draw.integers(*own.customers, endpoint=True))
        fleet = int(draw.integers(*own.vehicles, endpoint=True))
        self.depot = (float(draw.random()), float(draw.random()))
        self.places = [(float(x), float(y)) for x, y in draw.random((count, 2))]
        self.demand = [int(n) for n in draw.integers(1, 10, count)]
        self.known = [0.0] * count
        self.window = [(0.0, math.inf)] * count
        for i in range(count):
            if draw.random() < own.requests:
                self.known[i] = 0.5 * own.day * float(draw.random())
            if own.windows:
                start = self.known[i] + (0.6 * own.day - self.known[i]) * float(draw.random())
                self.window[i] = start, start + own.day * (0.1 + 0.3 * float(draw.random()))
        self.capacity = own.capacity or usual_capacity(count)
        self.at = [self.depot] * fleet
        self.load = [self.capacity] * fleet
        self.free = [0.0] * fleet
        self.parked, self.waits = [True] * fleet, [False] * fleet
        self.state = [0] * count  # 0 open, 1 served, 2 missed
        self.now, self.driven, self.stops = 0.0, 0.0, [[self.depot] for _ in range(fleet)]
        self.scale = self._estimate()
        self.steps, self.over = 0, False
        self._move_on()
        self.last = self._cost()
        return self._shown(0.0)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Send the vehicles off, and go on until one is free that has a choice."""
        check_running(self.steps, self.over)
        asked = self._asked()
        chosen = self._read(actions, asked)
        self.steps += 1
        for vehicle, target in zip(asked, chosen, strict=True):
            if target == DEPOT:
                self._home(vehicle)
            elif self.state[target[1]] == 0:
                self._serve(vehicle, target[1])
        self._move_on()
        before, self.last = self.last, self._cost()
        return self._shown((before - self.last) * 10 / self.scale)

    def get_state(self) -> dict[str, Any]:
        """Everything."""
        check_started(self.steps)
        return {name: _plain(getattr(self, name)) for name in _STATE}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go on with it."""
        with reading_state("vehicle routing", state):
            for name in _STATE:
                setattr(self, name, _plain(state[name]))
            self.depot = _place(self.depot)
            self.places = [_place(place) for place in self.places]
            self.at = [_place(place) for place in self.at]
            self.window = [(low, math.inf if high is None else high) for low, high in self.window]
            self.over = False
            return self._shown(0.0)

    def _read(self, actions: Mapping[ActionName, Action], asked: list[int]) -> list[Any]:
        action: Any = actions.get("Go")
        ids = [("Vehicle", vehicle) for vehicle in asked]
        if not isinstance(action, SelectEntityAction) or list(action.actors) != ids:
            raise ActorError(
                "action 'Go' is not taken by the vehicles that are asked",
                expected=shorten(ids),
                received=shorten(actions),
            )
        for vehicle, target in zip(asked, action.actees, strict=True):
            if target not in self._options(vehicle):
                raise ActorError(
                    f"vehicle {vehicle} cannot go there",
                    expected=f"one of {shorten(self._options(vehicle))}",
                    received=shorten(target),
                )
        return list(action.actees)

    def _open(self) -> list[int]:
        """The customers that are known and not served."""
        return [i for i, state in enumerate(self.state) if state == 0 and self.known[i] <= self.now]

    def _options(self, vehicle: int) -> list[Any]:
        """Where a free vehicle may go."""
        options: list[Any] = [
            ("Customer", i)
            for i in self._open()
            if self.demand[i] <= self.load[vehicle]
            and self.now + _distance(self.at[vehicle], self.places[i]) <= self.window[i][1]
        ]
        others = any(free > self.now for i, free in enumerate(self.free) if i != vehicle)
        if not self.parked[vehicle] or others:
            options.append(DEPOT)
        return options

    def _asked(self) -> list[int]:
        return [
            vehicle
            for vehicle, free in enumerate(self.free)
            if free <= self.now and not self.waits[vehicle] and self._has_choice(vehicle)
        ]

    def _has_choice(self, vehicle: int) -> bool:
        return any(option != DEPOT for option in self._options(vehicle))

    def _serve(self, vehicle: int, customer: int) -> None:
        way = _distance(self.at[vehicle], self.places[customer])
        self.driven += way
        self.free[vehicle] = max(self.now + way, self.window[customer][0])
        self.load[vehicle] -= self.demand[customer]
        self.at[vehicle], self.parked[vehicle] = self.places[customer], False
        self.state[customer] = 1
        self.stops[vehicle].append(self.places[customer])

    def _home(self, vehicle: int) -> None:
        if self.parked[vehicle]:
            self.waits[vehicle] = True
            return
        way = _distance(self.at[vehicle], self.depot)
        self.driven += way
        self.free[vehicle] = self.now + way
        self.load[vehicle], self.at[vehicle] = self.capacity, self.depot
        self.parked[vehicle] = True
        self.stops[vehicle].append(self.depot)

    def _move_on(self) -> None:
        """Go on to where a vehicle has a choice, or to the end."""
        while True:
            for i in range(len(self.state)):
                if self.state[i] == 0 and self.now > self.window[i][1]:
                    self.state[i] = 2
            for vehicle, free in enumerate(self.free):
                if free <= self.now and not self.parked[vehicle] and not self._has_choice(vehicle):
                    self._home(vehicle)
            if self._asked():
                return
            coming = [
                time
                for state, time in zip(self.state, self.known, strict=True)
                if state == 0 and time > self.now
            ]
            times = [free for free in self.free if free > self.now] + coming
            if not times:
                break
            self.now = min(times)
            self.waits = [False] * len(self.free)
        for i, state in enumerate(self.state):
            if state == 0:
                self.state[i] = 2
        self.over = True

    def _cost(self) -> float:
        return self.driven + MISSED * sum(state == 2 for state in self.state)

    def _estimate(self) -> float:
        """About what an instance costs: ways to the customers' area, and between them."""
        radial = sum(
            2 * _distance(self.depot, place) * demand / self.capacity
            for place, demand in zip(self.places, self.demand, strict=True)
        )
        return radial + 0.7 * math.sqrt(len(self.places))

    def _shown(self, reward: float) -> Observation:
        asked, known = ([], []) if self.over else (self._asked(), self._open())
        to_come = sum(time > self.now for time in self.known)
        features = {
            "Vehicle": [
                [
                    *self.at[i],
                    self.load[i] / self.capacity,
                    max(0.0, free - self.now),
                    float(self.parked[i]),
                    float(i in asked),
                ]
                for i, free in enumerate(self.free)
            ],
            "Depot": [[*self.depot, *self._offset(asked, self.depot)[:3]]],
            "Customer": [self._customer(i, asked) for i in known],
            "Day": [
                [
                    len(known) / 10,
                    sum(self.demand[i] for i in known) / self.capacity,
                    self.now / self.settings.day,
                    to_come / 10,
                ]
            ],
        }
        actees = [self._options(vehicle) for vehicle in asked]
        mask = {
            "Go": SelectEntityActionMask(
                actor_ids=[("Vehicle", vehicle) for vehicle in asked],
                actee_ids=[DEPOT, *(("Customer", i) for i in known)],
                mask=[
                    [option in own for option in [DEPOT, *(("Customer", i) for i in known)]]
                    for own in actees
                ],
            )
        }
        return Observation(
            features=features,
            ids={
                "Vehicle": [("Vehicle", i) for i in range(len(self.free))],
                "Depot": [DEPOT],
                "Customer": [("Customer", i) for i in known],
                "Day": ["day"],
            },
            actions={} if self.over else mask,
            reward=reward,
            done=self.over,
            metrics={
                "cost": self._cost(),
                "missed": float(sum(state == 2 for state in self.state)),
            }
            if self.over
            else {},
        )

    def _offset(
        self, asked: list[int], place: tuple[float, float]
    ) -> tuple[float, float, float, int]:
        """Distance and offset from the nearest vehicle that is asked, and which one it is."""
        best = (0.0, 0.0, 0.0, -1)
        for vehicle in asked:
            way = _distance(self.at[vehicle], place)
            if best[3] < 0 or way < best[0]:
                x, y = self.at[vehicle]
                best = way, place[0] - x, place[1] - y, vehicle
        return best

    def _customer(self, i: int, asked: list[int]) -> list[float]:
        place, (opens, closes) = self.places[i], self.window[i]
        way, dx, dy, vehicle = self._offset(asked, place)
        return [
            *place,
            self.demand[i] / self.capacity,
            max(0.0, opens - self.now) if self.settings.windows else 0.0,
            closes - self.now if self.settings.windows else 0.0,
            _distance(place, self.depot),
            way,
            dx,
            dy,
            float(vehicle >= 0 and self.demand[i] <= self.load[vehicle]),
        ]


_STATE = (
    "depot", "places", "demand", "known", "window", "capacity", "at", "load", "free", "parked",
    "waits", "state", "now", "driven", "stops", "scale", "steps", "last",
)  # fmt: skip


def _plain(value: Any) -> Any:
    """Values as JSON has them: infinity is None."""
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def _place(value: Any) -> tuple[float, float]:
    x, y = value
    return float(x), float(y)


def _distance(a: tuple[float, float], b: tuple[float, float]) -> float:
    return math.hypot(a[0] - b[0], a[1] - b[1])
