"""Vehicle routing: several vehicles, each of which selects its next stop when it is free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_flag, check_number, check_span, check_whole
from entity_env.errors import SettingError, StateError
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
from entity_env.rows.single_game import CompiledEnvironment
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Entity,
    ObsSpace,
    Position,
    SelectEntityActionSpace,
)

from ..given_files import is_kept, keep_files
from .routing_drawing import draw_routes
from .routing_instances import CUT, FAR, MOST_CUSTOMERS, MOST_VEHICLES, find_instance, lateness

__all__ = ["CUSTOMER", "VehicleRouting", "VehicleRoutingRows", "usual_capacity"]

CUSTOMER = (
    "x", "y", "demand", "opens", "closes", "depot distance", "distance", "dx", "dy", "fits", "turn",
)  # fmt: skip
"""The features of a customer, in their order; see ``VehicleRouting``."""
OBS_SPACE = ObsSpace(
    entities={
        "Vehicle": Entity([Position("x", "y"), "load", "busy", "parked", "asked"]),
        "Depot": Entity([Position("x", "y"), "distance", "dx", "dy", "turn"]),
        "Customer": Entity([Position("x", "y"), *CUSTOMER[2:]]),
        "Day": Entity(["customers", "tours", "time", "to come"]),
    }
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {"Go": SelectEntityActionSpace()}

_MISSED_COST = 2.0
"""The cost of a customer who is not served within the window."""
_OPEN, _SERVED, _MISSED = 0, 1, 2
_NEVER = 1e30
_LATE = 1e12
"""The latest time, and the longest way, of saved states."""

_KOOL = {10: 20, 20: 30, 50: 40, 100: 50}
"""Kool, van Hoof and Welling, "Attention, learn to solve routing problems!", 2019."""


def usual_capacity(customers: int) -> int:
    """Return the capacity of Kool et al. for so many customers, interpolated."""
    return round(float(np.interp(customers, list(_KOOL), list(_KOOL.values()))))


_CAPACITIES = np.array([usual_capacity(n) for n in range(MOST_CUSTOMERS + 1)])


class VehicleRoutingRows(CompiledRows):
    """R rows of vehicle routing, compiled; ``VehicleRouting`` describes the game.

    Args:
        num_envs: The number of rows R; None: 1.
        seed: Seed of all rows.
        copies: Number of consecutive rows with the same instances.
        threads: Number of threads that share the rows.
        customers, vehicles, capacity, windows, requests, day, instance, distances, starts: See
            ``VehicleRouting``.

    Raises:
        SettingError: A setting is not valid.
    """

    consent_settings: ClassVar = {"instance": is_kept}
    """Other instances are files."""

    def __init__(
        self,
        num_envs: int | None,
        seed: int = 0,
        *,
        customers: int | tuple[int, int] | list[int] = 20,
        vehicles: int | tuple[int, int] | list[int] | None = None,
        capacity: int | None = None,
        windows: bool = False,
        requests: float = 0.0,
        day: float = 6.0,
        instance: Path | Any = None,
        distances: str = "usual",
        starts: bool = False,
        copies: int = 1,
        threads: int = 1,
    ) -> None:
        one = None if instance is None else find_instance(instance, capacity, distances)
        self.instance = one
        if one is not None:
            if requests:
                raise SettingError(
                    "requests do not go with an instance, whose customers are all known",
                    expected="requests=0",
                    received=requests,
                    about="requests instance",
                )
            customers, capacity, windows = len(one.demand), one.capacity, one.has_windows
            vehicles, day = one.vehicles if vehicles is None else vehicles, one.day
        least, most = check_span("customers", customers, 1, MOST_CUSTOMERS)
        fleet = check_span("vehicles", 1 if vehicles is None else vehicles, 1, MOST_VEHICLES)
        room = 0 if capacity is None else check_whole("capacity", capacity, 1, 1_000_000)
        if 0 < room < 9 and one is None:
            raise SettingError(
                "a vehicle is too small for a customer",
                expected="capacity >= 9, the largest demand",
                received=capacity,
                about="capacity",
            )
        nodes = 0 if one is None or one.ways is None else len(one.ways)
        x, y = (0.0, 0.0) if one is None else one.origin
        settings = {
            "least_customers": least,
            "most_customers": most,
            "least_vehicles": fleet[0],
            "most_vehicles": fleet[1],
            "room": room,
            "windows": check_flag("windows", windows),
            "requests": check_number("requests", requests, 0.0, 1.0),
            "day": check_number("day", day, 1e-3, 1e9),
            "unit": 1.0 if one is None else one.unit,
            "x0": x,
            "y0": y,
            "explicit": nodes > 0,
            "parts": 0.0 if one is None else one.parts,
            "half": 0.0 if one is None else one.half,
        }
        settings["late"] = lateness(float(settings["unit"]), float(settings["day"]))
        game = _game(most, *fleet, nodes, settings)
        super().__init__(game, num_envs, seed, threads=threads, copies=copies)
        if check_flag("starts", starts):
            self._fields["start"][:] = np.arange(len(self)) % copies
        if one is not None:
            places, demand, service = one.places[None], one.demand[None], one.service[None]
            self.put_instances(places, demand, one.depot, windows=one.windows, service=service)
            if one.ways is not None:
                self._fields["ways"][:] = one.ways

    @staticmethod
    def kept_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings that hold the text of the file that they name, for a run folder."""
        if settings.get("instance") is None:
            return dict(settings)
        return {**settings, "instance": keep_files("instance", settings["instance"])}

    def put_instances(
        self,
        places: npt.NDArray[np.float64],
        demands: npt.NDArray[np.int64],
        depots: npt.NDArray[np.float64],
        *,
        known: npt.NDArray[np.float64] | float = 0.0,
        windows: npt.NDArray[np.float64] | tuple[float, float] = (0.0, math.inf),
        service: npt.NDArray[np.float64] | float = 0.0,
    ) -> None:
        """Let row i play instance i from the next ``reset`` on, again and again.

        Of a single instance, R = 1 below, all rows play it.

        Args:
            places: Of customers. Shape: (R, customers, 2).
            demands: Shape: (R, customers).
            depots: Shape: (R, 2).
            known: Time at which customers become known. Shape: (R, customers), or a number for all.
            windows: Earliest and latest beginning of service. Shape: (R, customers,
                2), or a pair for all.
            service: Duration of service. Shape: (R, customers), or a number for all.
        """
        count = places.shape[1]
        times = np.minimum(np.broadcast_to(windows, places.shape), _NEVER)
        given = {
            "x": places[..., 0], "y": places[..., 1], "demand": demands, "known": known,
            "opens": times[..., 0], "closes": times[..., 1], "service": service,
        }  # fmt: skip
        for name, values in given.items():
            self._fields[name][:, :count] = values
        self._fields["depot"][:] = depots
        self._fields["customers"][:] = count
        self._fields["given"][:] = 1

    def load_game(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields, or StateError, also for another instance than the given one."""
        fields = super().load_game(saved)
        names = ("given", "customers", "depot", "x", "y", "demand", "opens", "closes", "service")
        if self.instance is not None and not all(
            np.array_equal(fields[name], self._fields[name][0]) for name in names
        ):
            raise StateError(
                "the saved state is that of another instance",
                expected="the one that the settings name",
                hint="begin another run",
            )
        return fields

    def tours(self, row: int) -> list[list[list[str]]]:
        """Return the customers of each tour of each vehicle so far, by name.

        Customers of a file are called as there, all others by their numbers from 1.

        Args:
            row: The number of the row.
        """
        own = self.save_game(row)
        names = self.instance.names if self.instance else ()
        tours: list[list[list[str]]] = [[[]] for _ in range(own["vehicles"])]
        for vehicle, node in own["route"][: own["stops"]]:
            if node:
                tours[vehicle][-1].append(names[node] if names else str(node))
            else:
                tours[vehicle].append([])
        return [[tour for tour in each if tour] for each in tours]

    def draw_row(self, row: int, size: int = 480, **_: Any) -> npt.NDArray[np.uint8]:
        """Return a picture of the routes of a row so far. Shape: (H, W, 3), uint8.

        Args:
            row: The number of the row.
            size: The width of the map in pixels.
        """
        self._check_begun()
        return draw_routes(self.save_game(row), self.instance, size)


def _game(
    customers: int, fewest: int, vehicles: int, nodes: int, settings: dict[str, float]
) -> CompiledGame:
    return CompiledGame(
        obs_space=OBS_SPACE,
        action_space=ACTION_SPACE,
        state={
            "customers": Field(least=1, most=customers),
            "vehicles": Field(least=fewest, most=vehicles),
            "given": Field(least=0, most=1),
            "start": Field(least=0, fixed=True),
            "turn": Field((customers + 1,), np.int8, least=0, most=1),
            **{name: Field((customers + 1,), fixed=True) for name in ("tour", "ends", "mate")},
            "filled": Field((customers + 1,), np.int64, fixed=True),
            **{name: Field((customers + 1,), np.float64, fixed=True) for name in ("gain", "home")},
            "depot": Field((2,), np.float64, least=-FAR, most=FAR),
            "x": Field((customers,), np.float64, least=-FAR, most=FAR),
            "y": Field((customers,), np.float64, least=-FAR, most=FAR),
            "known": Field((customers,), np.float64, least=0, most=_LATE),
            "opens": Field((customers,), np.float64, least=0, most=_LATE),
            "closes": Field((customers,), np.float64, least=0, most=_NEVER),
            "service": Field((customers,), np.float64, least=0, most=_LATE),
            "ways": Field((nodes, nodes), np.float64, fixed=True),
            "demand": Field((customers,), least=0, most=1_000_000),
            "served": Field((customers,), least=_OPEN, most=_MISSED),
            "here": Field((customers,), least=0, most=customers - 1),
            "num_here": Field(least=0, most=customers),
            "capacity": Field(least=1, most=1_000_000),
            "at": Field((vehicles,), least=0, most=customers),
            "free": Field((vehicles,), np.float64, least=0, most=_LATE),
            "load": Field((vehicles,), least=0, most=1_000_000),
            "parked": Field((vehicles,), least=0, most=1),
            "waits": Field((vehicles,), least=0, most=1),
            "asked": Field((vehicles,), least=0, most=1),
            "over": Field(least=0, most=1),
            "route": Field((2 * customers, 2), least=0, most=(vehicles - 1, customers)),
            "stops": Field(least=0, most=2 * customers),
            "now": Field(dtype=np.float64, least=0, most=_LATE),
            "driven": Field(dtype=np.float64, least=0, most=_LATE),
            "scale": Field(dtype=np.float64, least=1e-6, most=_LATE),
            "last": Field(dtype=np.float64, least=0, most=_LATE),
            "cost": Field(dtype=np.float64, least=0, most=_LATE),
            "missed": Field(dtype=np.float64, least=0, most=customers),
        },
        settings=settings,
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
    scale = 0.7 * math.sqrt(count) * g.unit
    for i in range(count):
        g.served[game, i] = _OPEN
        scale += 2 * _way(g, game, 0, i + 1) * g.demand[game, i] / g.capacity[game]
    for vehicle in range(fleet):
        g.at[game, vehicle] = 0
        g.load[game, vehicle] = g.capacity[game]
        g.free[game, vehicle] = 0.0
        g.parked[game, vehicle], g.waits[game, vehicle] = 1, 0
    g.scale[game] = scale
    g.now[game] = g.driven[game] = 0.0
    g.stops[game] = 0
    _move_on(g, game)
    g.last[game] = _cost(g, game)
    if g.start[game] > 0 and not g.windows and g.num_here[game] > 1:
        _begin_at(g, game, (g.start[game] - 1) % g.num_here[game])
        _move_on(g, game)


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
    """Return True if a vehicle has a choice now."""
    return bool(g.asked[game, vehicle])


def options_of(g: Any, game: int, vehicle: int, allowed: npt.NDArray[np.bool_]) -> None:
    """Write the places where a vehicle may go: the depot, then customers."""
    allowed[0] = not g.parked[game, vehicle] or _others_go(g, game, vehicle)
    for i in range(g.num_here[game]):
        allowed[1 + i] = _can_serve(g, game, vehicle, g.here[game, i])


def problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved state."""
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
        "more stops than customers served": g.stops[game] > 2 * (g.served[game] == _SERVED).sum(),
        "a vehicle where nobody is": g.at[game, :fleet].max() > count,
    }


def vehicle_features(g: Any, game: int, vehicle: int, out: npt.NDArray[np.float32]) -> None:
    """Write those of a vehicle."""
    out[0], out[1] = _place(g, game, g.at[game, vehicle])
    out[2] = g.load[game, vehicle] / g.capacity[game]
    out[3] = max(0.0, g.free[game, vehicle] - g.now[game]) / g.unit
    out[4], out[5] = g.parked[game, vehicle], g.asked[game, vehicle]


def depot_features(g: Any, game: int, _: int, out: npt.NDArray[np.float32]) -> None:
    """Write the place of the depot, and its offset from the nearest vehicle that must choose."""
    out[0], out[1] = _place(g, game, 0)
    _nearest(g, game, 0, out, 2)
    out[5] = g.turn[game, 0]


def customer_features(g: Any, game: int, i: int, out: npt.NDArray[np.float32]) -> None:
    """Write those of the i-th customer that is here."""
    own, now = g.here[game, i], g.now[game]
    out[0], out[1] = _place(g, game, own + 1)
    out[2] = g.demand[game, own] / g.capacity[game]
    out[3] = max(0.0, g.opens[game, own] - now) / g.unit if g.windows else 0.0
    out[4] = (g.closes[game, own] - now) / g.unit if g.windows else 0.0
    out[5] = _way(g, game, own + 1, 0) / g.unit
    vehicle = _nearest(g, game, own + 1, out, 6)
    out[9] = vehicle >= 0 and g.demand[game, own] <= g.load[game, vehicle]
    out[10] = g.turn[game, i + 1]


def day_features(g: Any, game: int, _: int, out: npt.NDArray[np.float32]) -> None:
    """Write the work that is left, and the time."""
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
        g.known[game, i] = g.opens[game, i] = g.service[game, i] = 0.0
        g.closes[game, i] = _NEVER
        if random_float(g.random, game) < g.requests:
            g.known[game, i] = 0.5 * g.day * random_float(g.random, game)
        if g.windows:
            known = g.known[game, i]
            start = known + (0.6 * g.day - known) * random_float(g.random, game)
            g.opens[game, i] = start
            g.closes[game, i] = start + g.day * (0.1 + 0.3 * random_float(g.random, game))


@compiled
def _begin_at(g: Any, game: int, rank: int) -> None:
    """Send the first vehicle to a customer by its rank in distance from the depot, from 0."""
    for i in range(g.num_here[game]):
        nearer, way = 0, _way(g, game, 0, g.here[game, i] + 1)
        for j in range(g.num_here[game]):
            other = _way(g, game, 0, g.here[game, j] + 1)
            nearer += other < way or (other == way and j < i)
        if nearer == rank:
            _serve(g, game, 0, g.here[game, i])
            return


@compiled
def _place(g: Any, game: int, node: int) -> tuple[float, float]:
    """Return where the depot, node 0, or customer ``node`` - 1 is, in the unit square."""
    if node == 0:
        return (g.depot[game, 0] - g.x0) / g.unit, (g.depot[game, 1] - g.y0) / g.unit
    return (g.x[game, node - 1] - g.x0) / g.unit, (g.y[game, node - 1] - g.y0) / g.unit


@compiled
def _way(g: Any, game: int, start: int, end: int) -> float:
    """Return the distance between two nodes, in the measure of the instance."""
    if g.explicit:
        listed: float = g.ways[game, start, end]
        return listed
    x, y = g.depot[game, 0], g.depot[game, 1]
    if start > 0:
        x, y = g.x[game, start - 1], g.y[game, start - 1]
    if end > 0:
        x, y = x - g.x[game, end - 1], y - g.y[game, end - 1]
    else:
        x, y = x - g.depot[game, 0], y - g.depot[game, 1]
    way = math.hypot(x, y)
    return math.floor(way * g.parts + g.half + CUT) / g.parts if g.parts > 0 else way


@compiled
def _can_serve(g: Any, game: int, vehicle: int, customer: int) -> bool:
    if g.demand[game, customer] > g.load[game, vehicle]:
        return False
    if not g.windows:
        return True
    arrives = g.now[game] + _way(g, game, g.at[game, vehicle], customer + 1)
    can: bool = arrives <= g.closes[game, customer] + g.late
    return can


@compiled
def _others_go(g: Any, game: int, vehicle: int) -> bool:
    """Return True if another vehicle drives, or if an earlier one must choose, too."""
    for other in range(g.vehicles[game]):
        drives = other != vehicle and g.free[game, other] > g.now[game]
        if drives or (other < vehicle and g.asked[game, other]):
            return True
    return False


@compiled
def _has_choice(g: Any, game: int, vehicle: int) -> bool:
    can = False
    for i in range(g.num_here[game]):
        can |= _can_serve(g, game, vehicle, g.here[game, i])
    return can


@compiled
def _nearest(g: Any, game: int, node: int, out: npt.NDArray[np.float32], at: int) -> int:
    """Return the nearest vehicle that must choose, or -1; write its distance and offset, else 0."""
    best, least = -1, 0.0
    for vehicle in range(g.vehicles[game]):
        if g.asked[game, vehicle]:
            way = _way(g, game, g.at[game, vehicle], node)
            if best < 0 or way < least:
                best, least = vehicle, way
    out[at] = least / g.unit
    out[at + 1] = out[at + 2] = 0.0
    if best >= 0:
        x, y = _place(g, game, node)
        from_x, from_y = _place(g, game, g.at[game, best])
        out[at + 1], out[at + 2] = x - from_x, y - from_y
    return best


@compiled
def _drive(g: Any, game: int, vehicle: int, node: int) -> float:
    """Send a vehicle to a node, and return when it arrives."""
    way = _way(g, game, g.at[game, vehicle], node)
    g.driven[game] += way
    g.at[game, vehicle] = node
    g.route[game, g.stops[game], 0], g.route[game, g.stops[game], 1] = vehicle, node
    g.stops[game] += 1
    arrives: float = g.now[game] + way
    return arrives


@compiled
def _serve(g: Any, game: int, vehicle: int, customer: int) -> None:
    arrives = _drive(g, game, vehicle, customer + 1)
    g.free[game, vehicle] = max(arrives, g.opens[game, customer]) + g.service[game, customer]
    g.load[game, vehicle] -= g.demand[game, customer]
    g.parked[game, vehicle] = 0
    g.served[game, customer] = _SERVED


@compiled
def _home(g: Any, game: int, vehicle: int) -> None:
    if g.parked[game, vehicle]:
        g.waits[game, vehicle] = 1
        return
    g.free[game, vehicle] = _drive(g, game, vehicle, 0)
    g.load[game, vehicle] = g.capacity[game]
    g.parked[game, vehicle] = 1


@compiled
def _list_here(g: Any, game: int) -> None:
    """List the customers that are known and open."""
    kept, now = 0, g.now[game]
    for i in range(g.customers[game]):
        if g.served[game, i] == _OPEN and g.closes[game, i] + g.late < now:
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
        now, any_asked, is_home, earliest = g.now[game], False, False, _NEVER
        for vehicle in range(g.vehicles[game]):
            is_free = g.free[game, vehicle] <= now
            can = is_free and _has_choice(g, game, vehicle)
            if is_free and not can and not g.parked[game, vehicle]:
                _home(g, game, vehicle)
                is_home |= g.free[game, vehicle] <= now  # a way of 0
            g.asked[game, vehicle] = can and not g.waits[game, vehicle]
            any_asked |= g.asked[game, vehicle] > 0
            if now < g.free[game, vehicle] < earliest:
                earliest = g.free[game, vehicle]
        if any_asked:
            _plan(g, game)
            return
        if is_home:
            continue
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
def _plan(g: Any, game: int) -> None:
    """Set ``turn`` for the first vehicle that must choose, by the savings algorithm.

    Tours are joined at their ends, first those where this saves most. The stops that the vehicle
    has made are a tour with one open end; if it is at the depot, all ends of tours get ``turn``.

    Source: Clarke and Wright, Operations Research 12, 1964.
    """
    vehicle, last = 0, g.num_here[game]
    while not g.asked[game, vehicle]:
        vehicle += 1
    for i in range(last + 1):
        g.tour[game, i], g.ends[game, i], g.turn[game, i] = i, 2, 0
        if i < last:
            g.filled[game, i] = g.demand[game, g.here[game, i]]
        g.home[game, i] = _way(g, game, _node(g, game, vehicle, i), 0)
        g.gain[game, i] = 0.0
    g.filled[game, last] = g.capacity[game] - g.load[game, vehicle]
    g.ends[game, last] = 0 if g.parked[game, vehicle] else 1
    for i in range(last + 1):
        _seek(g, game, vehicle, i, i + 1)
    following = -1
    while True:
        best = 0
        for i in range(last + 1):
            if g.ends[game, i] and g.gain[game, i] > g.gain[game, best] * (g.ends[game, best] > 0):
                best = i
        if not g.ends[game, best] or g.gain[game, best] <= 0:
            break
        mate = g.mate[game, best]
        if not _joins(g, game, best, mate):  # any more; what is left to join saves less
            g.gain[game, best] = 0.0
            _seek(g, game, vehicle, best, 0)
            continue
        if best == last or mate == last:
            following = best + mate - last
            break  # nothing after it changes the vehicle's next stop
        g.ends[game, best] -= 1
        g.ends[game, mate] -= 1
        kept, gone = g.tour[game, best], g.tour[game, mate]
        g.filled[game, kept] += g.filled[game, gone]
        for i in range(last + 1):
            if g.tour[game, i] == gone:
                g.tour[game, i] = kept
    if g.parked[game, vehicle]:
        for i in range(last):
            g.turn[game, i + 1] = g.ends[game, i] > 0
    else:
        g.turn[game, following + 1] = 1  # the depot, where nobody follows


@compiled
def _joins(g: Any, game: int, i: int, j: int) -> bool:
    """Return True if two ends of tours can be joined: of customers here, or of the vehicle."""
    one, other = g.tour[game, i], g.tour[game, j]
    free = g.ends[game, i] > 0 and g.ends[game, j] > 0 and one != other
    fits: bool = free and g.filled[game, one] + g.filled[game, other] <= g.capacity[game]
    return fits


@compiled
def _node(g: Any, game: int, vehicle: int, i: int) -> int:
    """Return the node of the i-th customer here, or behind them that of the vehicle."""
    node: int = g.here[game, i] + 1 if i < g.num_here[game] else g.at[game, vehicle]
    return node


@compiled
def _seek(g: Any, game: int, vehicle: int, i: int, first: int) -> None:
    """Compare an end of a tour with all from ``first`` on; both of a pair note what saves most."""
    if not g.ends[game, i]:
        return
    node, home = _node(g, game, vehicle, i), g.home[game, i]
    for j in range(first, g.num_here[game] + 1):
        if _joins(g, game, i, j):
            other = _node(g, game, vehicle, j)
            saved = home + g.home[game, j] - _way(g, game, node, other)
            if saved > g.gain[game, i]:
                g.gain[game, i], g.mate[game, i] = saved, j
            if saved > g.gain[game, j]:
                g.gain[game, j], g.mate[game, j] = saved, i


@compiled
def _cost(g: Any, game: int) -> float:
    missed = 0
    for i in range(g.customers[game]):
        missed += g.served[game, i] == _MISSED
    g.missed[game] = missed
    g.cost[game] = g.driven[game] + _MISSED_COST * missed * g.unit
    cost: float = g.cost[game]
    return cost


class VehicleRouting(CompiledEnvironment):
    """Vehicles serve customers in the unit square from one depot, and come back.

    Vehicles drive one unit of distance in one unit of time. All free vehicles choose in the same
    step; if several choose the same customer, the first one goes, and the others choose again. A
    vehicle whose only choice is the depot goes there automatically, and loads.

    Entities:
        Vehicle: position, ``load`` left in parts of its capacity, ``busy`` for so long, whether it
        is ``parked`` at the depot, and whether it is ``asked``. Depot: position, and ``distance``
        and offset from the nearest vehicle that is asked. Customer: each that is known and not
        served: position, ``demand`` in parts of the capacity, in how long the window ``opens`` and
        ``closes`` (0 without windows), ``depot distance``, ``distance`` and offset from the nearest
        vehicle that is asked, whether that one's load ``fits``. Both: whether it is their ``turn``
        to be the next stop of the first vehicle that is asked, by the savings algorithm (Clarke and
        Wright 1964), without regard to windows. Day: ``customers`` here in tens,
        ``tours`` that their demand fills, ``time`` in parts of the day, customers ``to come`` in
        tens, where requests arrive.
    Actions:
        Go: a free vehicle selects a customer whose demand it has and whose window it reaches, or
        the depot. At the depot that means to wait, and is possible while another one drives, or
        for all but the first of those that are asked.
    Reward:
        Minus the distance that is driven, and 2 for each customer that is missed (of an instance,
        twice its extent), times 10 over an estimate of the cost of the instance.
    End:
        All are served or missed; then the vehicles drive home.
    Randomness:
        Places uniform, demands 1 to 9; windows of 0.1 to 0.4 of the day; times of requests.
    Metrics:
        cost: distance, and 2 for each missed; missed.
    Source:
        Kool, van Hoof and Welling, arXiv:1803.08475 (instances with one vehicle, no windows).

    Args:
        customers: Number of customers; or the smallest and largest number, of which each episode
            draws one.
        vehicles: The same. A vehicle may drive any number of tours. None: as many as the file of an
            instance says, else 1.
        capacity: Capacity of a vehicle. None: 30, 40, 50 for 20, 50, 100 customers, and between.
        windows: True if each customer must be served within a time window.
        requests: The share of the customers that become known during the day, from 0 to 1.
        day: The length of the day, for windows and requests, in units of distance.
        instance: A file with an instance, which every episode plays: ``.vrp`` of CVRPLIB, text as
            Solomon's, or a table (``.csv``), see ``routing_instances.py``. Its customers, windows
            and times of service replace the settings above; features are in parts of its extent,
            ``cost`` is in its own measure.
        distances: Of an instance: ``usual`` for its kind of file (whole numbers in the form of
            CVRPLIB, rounded down to tenths in Solomon's, exact in tables), ``rounded`` to whole
            numbers, or ``exact``.
        starts: True to fix the first stop of copy k to the k-th nearest customer to the depot; the
            copy before them chooses its first stop. Not with windows. The first reward includes
            this way.
        copies: Number of consecutive rows with the same instance; no effect on a single game.
        threads: Number of threads that share the rows; no effect on a single game.

    Raises:
        SettingError: A number is out of range, or a vehicle is too small for a customer.
    """

    rows = VehicleRoutingRows

    def tours(self) -> list[list[list[str]]]:
        """Return the customers of each tour of each vehicle so far, by name."""
        rows: Any = self._rows
        tours: list[list[list[str]]] = rows.tours(0)
        return tours


VehicleRoutingRows.environment = VehicleRouting
