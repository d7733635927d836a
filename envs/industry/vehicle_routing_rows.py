"""Vehicle routing for all rows at once: the game of ``vehicle_routing.py``, compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.environment import Environment
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    compiled,
    random_float,
    random_int,
)

from .routing_rules import (
    ACTION_SPACE,
    MISSED,
    MOST_CUSTOMERS,
    OBS_SPACE,
    RoutingSettings,
    usual_capacity,
)
from .vehicle_routing import VehicleRouting

__all__ = ["VehicleRoutingRows"]

_OPEN, _SERVED, _MISSED = 0, 1, 2
_NEVER = 1e30
_FAR, _LATE = 1e6, 1e12
"""The greatest coordinates and times of saved states."""
_CAPACITIES = np.array([usual_capacity(n) for n in range(MOST_CUSTOMERS + 1)])


class VehicleRoutingRows(CompiledRows):
    """R rows of vehicle routing, compiled; ``VehicleRouting`` says what the game is.

    Args:
        num_envs: The number of rows R.
        seed: Seeds all rows.
        copies: So many rows, one after the other, get the same instances.
        threads: How many threads share the rows.
        settings: The arguments of ``VehicleRouting``.

    Raises:
        EnvConfigError: Settings that ``VehicleRouting`` refuses.
    """

    environment: ClassVar[type[Environment]] = VehicleRouting

    def __init__(
        self, num_envs: int, seed: int = 0, *, copies: int = 1, threads: int = 1, **settings: Any
    ) -> None:
        own = VehicleRouting(**settings).settings
        super().__init__(_game(own), num_envs, seed, threads=threads, copies=copies)

    def put_instances(
        self,
        places: npt.NDArray[np.float64],
        demands: npt.NDArray[np.int64],
        depots: npt.NDArray[np.float64],
    ) -> None:
        """Let row i play instance i from the next ``reset`` on, again and again.

        Args:
            places: Of customers. Shape: (R, customers, 2).
            demands: Shape: (R, customers).
            depots: Shape: (R, 2).
        """
        count = places.shape[1]
        self._fields["x"][:, :count], self._fields["y"][:, :count] = places[..., 0], places[..., 1]
        self._fields["demand"][:, :count] = demands
        self._fields["depot"][:] = depots
        self._fields["customers"][:] = count
        self._fields["given"][:] = 1

    def as_alone(self, row: int) -> dict[str, Any]:
        """The state of a row as ``VehicleRouting`` saves it."""
        own: Mapping[str, Any] = {name: field[row] for name, field in self._fields.items()}
        count, fleet = int(own["customers"]), int(own["vehicles"])

        def places(x: str, y: str, size: int) -> list[list[float]]:
            pairs: list[list[float]] = np.stack([own[x][:size], own[y][:size]], 1).tolist()
            return pairs

        closes = [None if time >= _NEVER else time for time in own["closes"][:count].tolist()]
        return {
            "depot": own["depot"].tolist(),
            "places": places("x", "y", count),
            "demand": own["demand"][:count].tolist(),
            "known": own["known"][:count].tolist(),
            "window": [
                list(pair) for pair in zip(own["opens"][:count].tolist(), closes, strict=True)
            ],
            "capacity": int(own["capacity"]),
            "at": places("at_x", "at_y", fleet),
            "load": own["load"][:fleet].tolist(),
            "free": own["free"][:fleet].tolist(),
            "parked": (own["parked"][:fleet] > 0).tolist(),
            "waits": (own["waits"][:fleet] > 0).tolist(),
            "state": own["served"][:count].tolist(),
            "now": float(own["now"]),
            "driven": float(own["driven"]),
            "stops": [[own["depot"].tolist()] for _ in range(fleet)],
            "scale": float(own["scale"]),
            "steps": int(own["steps"]),
            "last": float(own["last"]),
        }


def _game(settings: RoutingSettings) -> CompiledGame:
    customers, vehicles = settings.customers[1], settings.vehicles[1]
    return CompiledGame(
        obs_space=OBS_SPACE,
        action_space=ACTION_SPACE,
        state={
            "customers": Field(least=1, most=customers),
            "vehicles": Field(least=settings.vehicles[0], most=vehicles),
            "given": Field(least=0, most=1),
            "depot": Field((2,), np.float64, least=-_FAR, most=_FAR),
            "x": Field((customers,), np.float64, least=-_FAR, most=_FAR),
            "y": Field((customers,), np.float64, least=-_FAR, most=_FAR),
            "known": Field((customers,), np.float64, least=0, most=_LATE),
            "opens": Field((customers,), np.float64, least=0, most=_LATE),
            "closes": Field((customers,), np.float64, least=0, most=_NEVER),
            "demand": Field((customers,), least=0, most=1_000_000),
            "served": Field((customers,), least=_OPEN, most=_MISSED),
            "here": Field((customers,), least=0, most=customers - 1),
            "num_here": Field(least=0, most=customers),
            "capacity": Field(least=1, most=1_000_000),
            "at_x": Field((vehicles,), np.float64, least=-_FAR, most=_FAR),
            "at_y": Field((vehicles,), np.float64, least=-_FAR, most=_FAR),
            "free": Field((vehicles,), np.float64, least=0, most=_LATE),
            "load": Field((vehicles,), least=0, most=1_000_000),
            "parked": Field((vehicles,), least=0, most=1),
            "waits": Field((vehicles,), least=0, most=1),
            "asked": Field((vehicles,), least=0, most=1),
            "over": Field(least=0, most=1),
            "now": Field(dtype=np.float64, least=0, most=_LATE),
            "driven": Field(dtype=np.float64, least=0, most=_LATE),
            "scale": Field(dtype=np.float64, least=1e-6, most=_LATE),
            "last": Field(dtype=np.float64, least=0, most=_LATE),
            "cost": Field(dtype=np.float64, least=0, most=_LATE),
            "missed": Field(dtype=np.float64, least=0, most=customers),
        },
        settings={
            "least_customers": settings.customers[0],
            "most_customers": customers,
            "least_vehicles": settings.vehicles[0],
            "most_vehicles": vehicles,
            "room": settings.capacity,
            "windows": settings.windows,
            "requests": settings.requests,
            "day": settings.day,
        },
        reset=reset,
        step=step,
        entities={
            "Vehicle": Entities(vehicle_features, count="vehicles", most=vehicles),
            "Depot": Entities(depot_features, count=1, most=1),
            "Customer": Entities(customer_features, count="num_here", most=customers),
            "Day": Entities(day_features, count=1, most=1),
        },
        actions={
            "Go": Actors("Vehicle", targets=("Depot", "Customer"), when=is_asked, mask=options_of)
        },
        metrics={"cost": "cost", "missed": "missed"},
        problems=problems,
    )


def reset(g: Any, game: int) -> None:
    """Draw customers, unless they are given."""
    if not g.given[game]:
        _draw(g, game)
    count = g.customers[game]
    g.vehicles[game] = fleet = random_int(g.random, game, g.least_vehicles, g.most_vehicles)
    g.capacity[game] = g.room if g.room else _CAPACITIES[count]
    scale = 0.7 * math.sqrt(count)
    for i in range(count):
        g.served[game, i] = _OPEN
        if g.given[game]:
            g.known[game, i] = g.opens[game, i] = 0.0
            g.closes[game, i] = _NEVER
        way = math.hypot(g.x[game, i] - g.depot[game, 0], g.y[game, i] - g.depot[game, 1])
        scale += 2 * way * g.demand[game, i] / g.capacity[game]
    for vehicle in range(fleet):
        g.at_x[game, vehicle], g.at_y[game, vehicle] = g.depot[game, 0], g.depot[game, 1]
        g.load[game, vehicle] = g.capacity[game]
        g.free[game, vehicle] = 0.0
        g.parked[game, vehicle], g.waits[game, vehicle] = 1, 0
    g.scale[game] = scale
    g.now[game] = g.driven[game] = 0.0
    _move_on(g, game)
    g.last[game] = _cost(g, game)


def step(g: Any, game: int, chosen: npt.NDArray[np.int64]) -> tuple[float, bool]:
    """Send the vehicles off, and go on until one has a choice."""
    actor, fleet = 0, g.vehicles[game]
    for vehicle in range(fleet):
        if not g.asked[game, vehicle]:
            continue
        target = chosen[actor] - fleet  # 0 is the depot
        actor += 1
        if target == 0:
            _home(g, game, vehicle)
        elif g.served[game, g.here[game, target - 1]] == _OPEN:
            _serve(g, game, vehicle, g.here[game, target - 1])
    _move_on(g, game)
    before = g.last[game]
    g.last[game] = _cost(g, game)
    return (before - g.last[game]) * 10 / g.scale[game], g.over[game] > 0


def is_asked(g: Any, game: int, vehicle: int) -> bool:
    """Whether a vehicle has a choice now."""
    return bool(g.asked[game, vehicle])


def options_of(g: Any, game: int, vehicle: int, allowed: npt.NDArray[np.bool_]) -> None:
    """Where a vehicle may go: the depot, then customers."""
    allowed[0] = not g.parked[game, vehicle] or _others_drive(g, game, vehicle)
    for i in range(g.num_here[game]):
        allowed[1 + i] = _can_serve(g, game, vehicle, g.here[game, i])


def problems(g: Any, game: int) -> dict[str, bool]:
    """Return what a saved state must not have, and whether it has it."""
    count, fleet, here = g.customers[game], g.vehicles[game], g.here[game].copy()
    asked, before = g.asked[game, :fleet], g.num_here[game]
    _list_here(g, game)
    chosen = [
        g.free[game, k] <= g.now[game] and not g.waits[game, k] and _has_choice(g, game, k)
        for k in range(fleet)
    ]
    return {
        "more load than capacity": (g.load[game, :fleet] > g.capacity[game]).any(),
        "more demand than capacity": (g.demand[game, :count] > g.capacity[game]).any(),
        "a wrong list of customers": not np.array_equal(
            here[:before], g.here[game, : g.num_here[game]]
        ),
        "the wrong vehicles asked": asked.tolist() != chosen,
        "an end that is none": bool(g.over[game]) == any(chosen),
    }


def vehicle_features(g: Any, game: int, vehicle: int, out: npt.NDArray[np.float32]) -> None:
    """Those of a vehicle."""
    out[0], out[1] = g.at_x[game, vehicle], g.at_y[game, vehicle]
    out[2] = g.load[game, vehicle] / g.capacity[game]
    out[3] = max(0.0, g.free[game, vehicle] - g.now[game])
    out[4], out[5] = g.parked[game, vehicle], g.asked[game, vehicle]


def depot_features(g: Any, game: int, _: int, out: npt.NDArray[np.float32]) -> None:
    """Where it is, also from the nearest vehicle that is asked."""
    x, y = g.depot[game, 0], g.depot[game, 1]
    vehicle, way = _nearest(g, game, x, y)
    out[0], out[1], out[2] = x, y, way
    out[3] = x - g.at_x[game, vehicle] if vehicle >= 0 else 0.0
    out[4] = y - g.at_y[game, vehicle] if vehicle >= 0 else 0.0


def customer_features(g: Any, game: int, i: int, out: npt.NDArray[np.float32]) -> None:
    """Those of the i-th customer that is here."""
    own = g.here[game, i]
    x, y, now = g.x[game, own], g.y[game, own], g.now[game]
    vehicle, way = _nearest(g, game, x, y)
    out[0], out[1], out[2] = x, y, g.demand[game, own] / g.capacity[game]
    out[3] = max(0.0, g.opens[game, own] - now) if g.windows else 0.0
    out[4] = g.closes[game, own] - now if g.windows else 0.0
    out[5] = math.hypot(x - g.depot[game, 0], y - g.depot[game, 1])
    out[6] = way
    out[7] = x - g.at_x[game, vehicle] if vehicle >= 0 else 0.0
    out[8] = y - g.at_y[game, vehicle] if vehicle >= 0 else 0.0
    out[9] = vehicle >= 0 and g.demand[game, own] <= g.load[game, vehicle]


def day_features(g: Any, game: int, _: int, out: npt.NDArray[np.float32]) -> None:
    """How much is left, and how late it is."""
    demand, to_come = 0, 0
    for i in range(g.num_here[game]):
        demand += g.demand[game, g.here[game, i]]
    for i in range(g.customers[game]):
        to_come += g.known[game, i] > g.now[game]
    out[0], out[1] = g.num_here[game] / 10, demand / g.capacity[game]
    out[2], out[3] = g.now[game] / g.day, to_come / 10


@compiled
def _draw(g: Any, game: int) -> None:
    g.customers[game] = random_int(g.random, game, g.least_customers, g.most_customers)
    g.depot[game, 0] = random_float(g.random, game)
    g.depot[game, 1] = random_float(g.random, game)
    for i in range(g.customers[game]):
        g.x[game, i] = random_float(g.random, game)
        g.y[game, i] = random_float(g.random, game)
        g.demand[game, i] = random_int(g.random, game, 1, 9)
        g.known[game, i] = g.opens[game, i] = 0.0
        g.closes[game, i] = _NEVER
        if random_float(g.random, game) < g.requests:
            g.known[game, i] = 0.5 * g.day * random_float(g.random, game)
        if g.windows:
            known = g.known[game, i]
            start = known + (0.6 * g.day - known) * random_float(g.random, game)
            g.opens[game, i] = start
            g.closes[game, i] = start + g.day * (0.1 + 0.3 * random_float(g.random, game))


@compiled
def _can_serve(g: Any, game: int, vehicle: int, customer: int) -> bool:
    if g.demand[game, customer] > g.load[game, vehicle]:
        return False
    if not g.windows:
        return True
    way = math.hypot(
        g.x[game, customer] - g.at_x[game, vehicle], g.y[game, customer] - g.at_y[game, vehicle]
    )
    can: bool = g.now[game] + way <= g.closes[game, customer]
    return can


@compiled
def _others_drive(g: Any, game: int, vehicle: int) -> bool:
    for other in range(g.vehicles[game]):
        if other != vehicle and g.free[game, other] > g.now[game]:
            return True
    return False


@compiled
def _has_choice(g: Any, game: int, vehicle: int) -> bool:
    can = False
    for i in range(g.num_here[game]):
        can |= _can_serve(g, game, vehicle, g.here[game, i])
    return can


@compiled
def _nearest(g: Any, game: int, x: float, y: float) -> tuple[int, float]:
    """The nearest vehicle that is asked, and how far it is; -1 if none is."""
    best, least = -1, 0.0
    for vehicle in range(g.vehicles[game]):
        if g.asked[game, vehicle]:
            way = math.hypot(x - g.at_x[game, vehicle], y - g.at_y[game, vehicle])
            if best < 0 or way < least:
                best, least = vehicle, way
    return best, least


@compiled
def _serve(g: Any, game: int, vehicle: int, customer: int) -> None:
    x, y = g.x[game, customer], g.y[game, customer]
    way = math.hypot(x - g.at_x[game, vehicle], y - g.at_y[game, vehicle])
    g.driven[game] += way
    g.free[game, vehicle] = max(g.now[game] + way, g.opens[game, customer])
    g.load[game, vehicle] -= g.demand[game, customer]
    g.at_x[game, vehicle], g.at_y[game, vehicle] = x, y
    g.parked[game, vehicle] = 0
    g.served[game, customer] = _SERVED


@compiled
def _home(g: Any, game: int, vehicle: int) -> None:
    if g.parked[game, vehicle]:
        g.waits[game, vehicle] = 1
        return
    x, y = g.depot[game, 0], g.depot[game, 1]
    way = math.hypot(x - g.at_x[game, vehicle], y - g.at_y[game, vehicle])
    g.driven[game] += way
    g.free[game, vehicle] = g.now[game] + way
    g.load[game, vehicle] = g.capacity[game]
    g.at_x[game, vehicle], g.at_y[game, vehicle] = x, y
    g.parked[game, vehicle] = 1


@compiled
def _list_here(g: Any, game: int) -> None:
    """The customers that are known and open."""
    kept, now = 0, g.now[game]
    for i in range(g.customers[game]):
        if g.served[game, i] == _OPEN and g.closes[game, i] < now:
            g.served[game, i] = _MISSED
        if g.served[game, i] == _OPEN and g.known[game, i] <= now:
            g.here[game, kept] = i
            kept += 1
    g.num_here[game] = kept


@compiled
def _move_on(g: Any, game: int) -> None:
    """Go on to where a vehicle has a choice, or to the end."""
    g.over[game] = 0
    while True:
        _list_here(g, game)
        now, any_asked, earliest = g.now[game], False, _NEVER
        for vehicle in range(g.vehicles[game]):
            is_free = g.free[game, vehicle] <= now
            can = is_free and _has_choice(g, game, vehicle)
            if is_free and not can and not g.parked[game, vehicle]:
                _home(g, game, vehicle)
            g.asked[game, vehicle] = can and not g.waits[game, vehicle]
            any_asked |= g.asked[game, vehicle] > 0
            if now < g.free[game, vehicle] < earliest:
                earliest = g.free[game, vehicle]
        if any_asked:
            return
        for i in range(g.customers[game]):
            if g.served[game, i] == _OPEN and now < g.known[game, i] < earliest:
                earliest = g.known[game, i]
        if earliest >= _NEVER:
            break
        g.now[game] = earliest
        for vehicle in range(g.vehicles[game]):
            g.waits[game, vehicle] = 0
    for i in range(g.customers[game]):
        if g.served[game, i] == _OPEN:
            g.served[game, i] = _MISSED
    g.num_here[game], g.over[game] = 0, 1


@compiled
def _cost(g: Any, game: int) -> float:
    missed = 0
    for i in range(g.customers[game]):
        missed += g.served[game, i] == _MISSED
    g.missed[game] = missed
    g.cost[game] = g.driven[game] + MISSED * missed
    cost: float = g.cost[game]
    return cost
