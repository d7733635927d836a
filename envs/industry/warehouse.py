"""A warehouse, in which robots fetch the items of orders; the agent selects tasks, not ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_span, check_whole
from entity_env.errors import SettingError
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    compiled,
    random_int,
)
from entity_env.rows.single_game import CompiledEnvironment

from .warehouse_drawing import draw_warehouse
from .warehouse_rules import (
    ACTION_SPACE,
    CARRIED,
    CLAIMED,
    FAR,
    OBS_SPACE,
    WAITING,
    FloorPlan,
    make_floor_plan,
)

__all__ = ["Warehouse", "WarehouseRows"]


class WarehouseRows(CompiledRows):
    """R rows of warehouses, compiled; ``Warehouse`` describes the game.

    Args:
        num_envs: The number of rows R; None: 1.
        seed: Seed of all rows.
        copies: Number of consecutive rows with the same orders, as long as they take the same
            decisions.
        threads: Number of threads that share the rows.
        robots, aisles, shelves, stations, chargers, room, waiting, lines, battery, charge, ticks:
            See ``Warehouse``.

    Raises:
        SettingError: A setting is not valid.
    """

    def __init__(
        self,
        num_envs: int | None,
        seed: int = 0,
        *,
        robots: int | tuple[int, int] | list[int] = (4, 8),
        aisles: int = 4,
        shelves: int = 8,
        stations: int = 2,
        chargers: int = 2,
        room: int = 2,
        waiting: int = 6,
        lines: int | tuple[int, int] | list[int] = (1, 4),
        battery: int = 400,
        charge: int = 40,
        ticks: int = 1000,
        copies: int = 1,
        threads: int = 1,
    ) -> None:
        self.plan = plan = make_floor_plan(aisles, shelves, stations, chargers)
        fewest, most = check_span("robots", robots, 1, 200)
        least_lines, most_lines = check_span("lines", lines, 1, 20)
        settings = {
            "least_robots": fewest,
            "most_robots": most,
            "least_lines": least_lines,
            "most_lines": most_lines,
            "room": check_whole("room", room, 1, 20),
            "full": check_whole("battery", battery, 1, 1_000_000),
            "charge": check_whole("charge", charge, 1, 1_000_000),
            "ticks": check_whole("ticks", ticks, 1, 10_000_000),
            "longest": int(plan.ways.max()),
        }
        if battery < (least := (room + 2) * settings["longest"]):
            raise SettingError(
                "a battery does not last for a full load and the way to a charger",
                expected=f"battery >= {least}, the longest way for each item and two more",
                received=battery,
                about="battery room",
            )
        game = _game(plan, check_whole("waiting", waiting, 1, 500), settings)
        super().__init__(game, num_envs, seed, threads=threads, copies=copies)
        for name in ("ways", "next", "shelves", "stations", "chargers"):
            self._fields[name][:] = getattr(plan, name)
        self._fields["places"][:] = plan.cells
        self._fields["shared"][:, np.concatenate([plan.stations, plan.chargers])] = 1

    def draw_row(self, row: int, cell: int = 28, **_: Any) -> npt.NDArray[np.uint8]:
        """Return a picture of the warehouse of a row. Shape: (H, W, 3), uint8.

        Args:
            row: The number of the row.
            cell: The size of a cell in pixels.
        """
        self._check_begun()
        return draw_warehouse({**self._game.settings, **self.save_game(row)}, self.plan, cell)


def _game(plan: FloorPlan, waiting: int, settings: dict[str, int]) -> CompiledGame:
    robots, room, ticks = settings["most_robots"], settings["room"], settings["ticks"]
    lines = settings["most_lines"]
    items, cells, stations = waiting * lines, len(plan.cells), len(plan.stations)
    return CompiledGame(
        obs_space=OBS_SPACE,
        action_space=ACTION_SPACE,
        state={
            # The layout, the same in all games.
            "ways": Field((cells, cells), fixed=True),
            "next": Field((cells, 4), fixed=True),
            "places": Field((cells, 2), fixed=True),
            "shelves": Field(plan.shelves.shape, fixed=True),
            "stations": Field(plan.stations.shape, fixed=True),
            "chargers": Field(plan.chargers.shape, fixed=True),
            "shared": Field((cells,), fixed=True),
            "robots": Field(least=settings["least_robots"], most=robots),
            "cell": Field((robots,), least=0, most=cells - 1),
            "goal": Field((robots,), least=-1, most=cells - 1),
            "task": Field((robots,), least=-1, most=items - 1),
            "loaded": Field((robots,), least=0, most=room),
            "battery": Field((robots,), least=0, most=settings["full"]),
            "charged": Field((robots,), least=-1, most=ticks + settings["charge"]),
            "load": Field((robots, room), least=0, most=items - 1),
            "want": Field((robots,), least=-1, most=cells - 1),
            "since": Field((robots,), least=0, most=ticks),
            "tried": Field((robots,), least=0, most=31),
            "chain": Field((robots,), least=0, most=robots - 1),
            "item": Field((items, 3), least=0, most=(cells - 1, waiting - 1, CARRIED)),
            "shown": Field((items,), least=0, most=items - 1),
            "num_shown": Field(least=0, most=items),
            "order": Field((waiting, 3), least=0, most=(stations - 1, lines, ticks)),
            "asked": Field(least=0, most=robots - 1),
            "tick": Field(least=0, most=ticks - 1),
            "handed": Field(least=0, most=2**30),
            "orders": Field(dtype=np.float64, least=0, most=2**30),
            "throughput": Field(dtype=np.float64),
        },
        settings=settings,
        reset=reset,
        step=step,
        entities={
            "Robot": Entities(robot_features, count="robots", most=robots),
            "Item": Entities(item_features, count="num_shown", most=items),
            "Station": Entities(station_features, count=stations, most=stations),
            "Charger": Entities(
                charger_features, count=len(plan.chargers), most=len(plan.chargers)
            ),
            "Clock": Entities(clock_features, count=1, most=1),
        },
        actions={
            "Task": Actors(
                "Robot", targets=("Item", "Station", "Charger"), when=is_asked, mask=tasks_of
            )
        },
        metrics={"throughput": "throughput", "orders": "orders"},
        problems=problems,
    )


def reset(g: Any, game: int) -> None:
    """Empty robots at stations and chargers, and new orders."""
    count = random_int(g.random, game, g.least_robots, g.most_robots)
    g.robots[game] = count
    stations, chargers = g.stations.shape[1], g.chargers.shape[1]
    for robot in range(count):
        home = robot % (stations + chargers)
        g.cell[game, robot] = (
            g.stations[game, home] if home < stations else g.chargers[game, home - stations]
        )
        g.goal[game, robot] = g.task[game, robot] = g.charged[game, robot] = -1
        g.loaded[game, robot] = g.since[game, robot] = 0
        g.battery[game, robot] = g.full
    for i in range(g.item.shape[1]):
        g.item[game, i, 2] = 0
    g.tick[game] = g.handed[game] = 0
    g.orders[game] = 0.0
    for order in range(g.order.shape[1]):
        _new_order(g, game, order)
    g.asked[game] = _who_is_asked(g, game)
    _move_on(g, game)


def step(g: Any, game: int, chosen: npt.NDArray[np.int64]) -> tuple[float, bool]:
    """Give the robot its task, and continue until another robot must choose."""
    robot, before = g.asked[game], g.handed[game]
    target = chosen[0] - g.robots[game]
    if target < g.num_shown[game]:
        item = g.shown[game, target]
        g.item[game, item, 2] = CLAIMED
        g.task[game, robot], g.goal[game, robot] = item, g.item[game, item, 0]
    elif target < g.num_shown[game] + g.stations.shape[1]:
        g.goal[game, robot] = g.stations[game, target - g.num_shown[game]]
    else:
        g.goal[game, robot] = g.chargers[game, target - g.num_shown[game] - g.stations.shape[1]]
    _arrive(g, game, robot)
    g.asked[game] = _who_is_asked(g, game)
    _move_on(g, game)
    return 0.1 * (g.handed[game] - before), g.tick[game] >= g.ticks


def is_asked(g: Any, game: int, robot: int) -> bool:
    """Return True if it is this one."""
    return bool(robot == g.asked[game])


def tasks_of(g: Any, game: int, robot: int, allowed: npt.NDArray[np.bool_]) -> None:
    """Write the tasks that the robot may take."""
    shown, stations = g.num_shown[game], g.stations.shape[1]
    some = False
    for k in range(shown):
        allowed[k] = _can_fetch(g, game, robot, g.shown[game, k])
        some |= allowed[k]
    for i in range(stations):
        allowed[shown + i] = _carried_for(g, game, robot, i) > 0
        some |= allowed[shown + i]
    for i in range(g.chargers.shape[1]):
        allowed[shown + stations + i] = _may_charge(g, game, robot, some)


def problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved state."""
    robots = range(g.robots[game])
    item, order, task = g.item[game], g.order[game], g.task[game, : len(robots)]
    goal, cell = g.goal[game, : len(robots)], g.cell[game, : len(robots)]
    claimed = task[task >= 0]
    carried = [i for k in robots for i in g.load[game, k, : g.loaded[game, k]]]
    left = np.bincount(item[item[:, 2] > 0, 1], minlength=len(order))
    inside = cell[g.shared[game, cell] == 0]
    shown, asked = g.shown[game, : g.num_shown[game]].tolist(), g.asked[game]
    first = _who_is_asked(g, game)
    return {
        "items claimed that no robot fetches": not _is_list(claimed, item[:, 2] == CLAIMED),
        "items carried that no robot has": not _is_list(carried, item[:, 2] == CARRIED),
        "an order of another number of items": not np.array_equal(left, order[:, 1]),
        "a robot that fetches from the wrong cell": (goal[task >= 0] != item[claimed, 0]).any(),
        "a robot on its way to no station or charger": (
            g.shared[game, goal[(task < 0) & (goal >= 0)]] == 0
        ).any(),
        "a robot that fetches more than it can carry": (
            g.loaded[game, : len(robots)][task >= 0] >= g.room
        ).any(),
        "two robots in one cell": len(np.unique(inside)) < len(inside),
        "a robot asked that is not the first": first != asked,
        "a wrong list of items": shown != g.shown[game, : g.num_shown[game]].tolist(),
    }


def _is_list(numbers: Any, chosen: npt.NDArray[np.bool_]) -> bool:
    """Return True if the numbers are those that are chosen, each once, in any order."""
    return bool(sorted(numbers) == np.flatnonzero(chosen).tolist())


def robot_features(g: Any, game: int, i: int, out: npt.NDArray[np.float32]) -> None:
    """Write the features of a robot."""
    _place(g, game, g.cell[game, i], out)
    out[2] = i == g.asked[game]
    out[3], out[4] = g.loaded[game, i], g.room - g.loaded[game, i]
    out[5] = g.battery[game, i] / g.full
    goal = g.goal[game, i]
    out[6] = g.ways[game, g.cell[game, i], goal] / 20 if goal >= 0 else 0.0


def item_features(g: Any, game: int, k: int, out: npt.NDArray[np.float32]) -> None:
    """Write the features of the k-th item that waits."""
    i = g.shown[game, k]
    cell, order = g.item[game, i, 0], g.item[game, i, 1]
    station = g.order[game, order, 0]
    asked = g.asked[game]
    own = g.ways[game, g.cell[game, asked], cell] if asked >= 0 else 0
    nearer = 0
    for robot in range(g.robots[game]):
        nearer += g.ways[game, g.cell[game, robot], cell] < own
    _place(g, game, cell, out)
    out[2] = own / 20
    out[3] = g.ways[game, cell, g.stations[game, station]] / 20
    out[4], out[5] = nearer / 10, g.order[game, order, 1] / 5
    out[6] = (g.tick[game] - g.order[game, order, 2]) / 200
    out[7] = asked >= 0 and _carried_for(g, game, asked, station) > 0


def station_features(g: Any, game: int, i: int, out: npt.NDArray[np.float32]) -> None:
    """Write the features of a station."""
    cell, asked = g.stations[game, i], g.asked[game]
    _place(g, game, cell, out)
    out[2] = g.ways[game, g.cell[game, asked], cell] / 20 if asked >= 0 else 0.0
    out[3] = _carried_for(g, game, asked, i) if asked >= 0 else 0


def charger_features(g: Any, game: int, i: int, out: npt.NDArray[np.float32]) -> None:
    """Write the features of a charger."""
    cell, asked = g.chargers[game, i], g.asked[game]
    _place(g, game, cell, out)
    out[2] = g.ways[game, g.cell[game, asked], cell] / 20 if asked >= 0 else 0.0
    taken = 0
    for robot in range(g.robots[game]):
        taken += g.goal[game, robot] == cell
    out[3] = taken


def clock_features(g: Any, game: int, _: int, out: npt.NDArray[np.float32]) -> None:
    """Write the time, and the work that is left."""
    out[0] = 1 - g.tick[game] / g.ticks
    out[1], out[2] = g.num_shown[game] / 10, g.robots[game] / 10
    out[3] = g.places.shape[1] / 100


@compiled
def _place(g: Any, game: int, cell: int, out: npt.NDArray[np.float32]) -> None:
    out[0], out[1] = g.places[game, cell, 0] / 10, g.places[game, cell, 1] / 10


@compiled
def _new_order(g: Any, game: int, order: int) -> None:
    lines = random_int(g.random, game, g.least_lines, g.most_lines)
    g.order[game, order, 0] = random_int(g.random, game, 0, g.stations.shape[1] - 1)
    g.order[game, order, 1], g.order[game, order, 2] = lines, g.tick[game]
    for i in range(g.item.shape[1]):
        if lines and g.item[game, i, 2] == 0:
            shelf = random_int(g.random, game, 0, g.shelves.shape[1] - 1)
            g.item[game, i, 0] = g.shelves[game, shelf]
            g.item[game, i, 1], g.item[game, i, 2] = order, WAITING
            lines -= 1


@compiled
def _carried_for(g: Any, game: int, robot: int, station: int) -> int:
    """Return the number of items that a robot carries for a station."""
    carried = 0
    for k in range(g.loaded[game, robot]):
        order = g.item[game, g.load[game, robot, k], 1]
        carried += g.order[game, order, 0] == station
    return carried


@compiled
def _can_fetch(g: Any, game: int, robot: int, item: int) -> bool:
    if g.item[game, item, 2] != WAITING or g.loaded[game, robot] >= g.room:
        return False
    own = g.order[game, g.item[game, item, 1], 0]
    stops = 0
    for station in range(g.stations.shape[1]):
        stops += station == own or _carried_for(g, game, robot, station) > 0
    way = g.ways[game, g.cell[game, robot], g.item[game, item, 0]]
    can: bool = g.battery[game, robot] >= way + (stops + 1) * g.longest
    return can


@compiled
def _may_charge(g: Any, game: int, robot: int, has_other: bool) -> bool:
    battery = g.battery[game, robot]
    low = 2 * battery < g.full or (not has_other and battery < g.full)
    may: bool = g.loaded[game, robot] == 0 and low
    return may


@compiled
def _has_option(g: Any, game: int, robot: int) -> bool:
    if g.loaded[game, robot] > 0:
        return True
    for item in range(g.item.shape[1]):
        if _can_fetch(g, game, robot, item):
            return True
    may: bool = _may_charge(g, game, robot, False)
    return may


@compiled
def _who_is_asked(g: Any, game: int) -> int:
    """Return the first robot that needs a task, or -1; list the items."""
    shown = 0
    for item in range(g.item.shape[1]):
        if g.item[game, item, 2] == WAITING:
            g.shown[game, shown] = item
            shown += 1
    g.num_shown[game] = shown
    for robot in range(g.robots[game]):
        if g.goal[game, robot] < 0 and _has_option(g, game, robot):
            return robot
    return -1


@compiled
def _move_on(g: Any, game: int) -> None:
    while g.asked[game] < 0 and g.tick[game] < g.ticks:
        g.tick[game] += 1
        _drive(g, game)
        for robot in range(g.robots[game]):
            _arrive(g, game, robot)
        g.asked[game] = _who_is_asked(g, game)
    g.throughput[game] = g.handed[game] * 3600 / g.ticks


@compiled
def _drive(g: Any, game: int) -> None:
    """One step of each robot that can: no two into one cell, and none through each other.

    Who has been on its way for longest decides first; who stands in its way makes room, and decides
    before all others (Okumura et al., "Priority inheritance with backtracking for iterative
    multi-agent path finding", Artificial Intelligence 310, 2022).
    """
    count = g.robots[game]
    for robot in range(count):
        goal = g.goal[game, robot]
        drives = goal >= 0 and goal != g.cell[game, robot]
        g.since[game, robot] = min(g.since[game, robot] + 1, g.ticks) if drives else 0
        g.want[game, robot] = -1
    while True:
        first, longest = -1, -1
        for robot in range(count):
            if g.want[game, robot] < 0 and g.since[game, robot] > longest:
                first, longest = robot, g.since[game, robot]
        if first < 0:
            break
        _decide(g, game, first)
    for robot in range(count):
        if g.want[game, robot] != g.cell[game, robot]:
            g.cell[game, robot] = g.want[game, robot]
            g.battery[game, robot] = max(g.battery[game, robot] - 1, 0)


@compiled
def _decide(g: Any, game: int, robot: int) -> None:
    """Write the next cells of a robot, and of those who must make room for it."""
    depth = 0
    g.chain[game, 0], g.tried[game, robot] = robot, 0
    while depth >= 0:
        one = g.chain[game, depth]
        g.want[game, one] = -1
        there = _next_try(g, game, one)
        if there < 0:  # it stays, and who wants its cell tries another one
            g.want[game, one] = g.cell[game, one]
            depth -= 1
            continue
        if not _is_free(g, game, one, there):
            continue
        g.want[game, one] = there
        other = _who_stands_in(g, game, one, there)
        if other < 0:
            break
        depth += 1
        g.chain[game, depth], g.tried[game, other] = other, 0


@compiled
def _next_try(g: Any, game: int, robot: int) -> int:
    """Return the nearest cell to the goal that has not been tried, of equals the first, or -1."""
    here, goal = g.cell[game, robot], g.goal[game, robot]
    best, least, chosen = -1, FAR + 1, -1
    for k in range(5):
        there = g.next[game, here, k] if k < 4 else here
        if there < 0 or g.tried[game, robot] & (1 << k):
            continue
        way = g.ways[game, there, goal] if goal >= 0 else there != here
        if way < least:
            best, least, chosen = there, way, k
    if best >= 0:
        g.tried[game, robot] |= 1 << chosen
    return best


@compiled
def _is_free(g: Any, game: int, robot: int, cell: int) -> bool:
    """Return True if no other robot goes to a cell, and none comes from it the other way."""
    here = g.cell[game, robot]
    for other in range(g.robots[game]):
        want = g.want[game, other]
        if other != robot and (
            (want == cell and not g.shared[game, cell])
            or (want == here and g.cell[game, other] == cell and cell != here)
        ):
            return False
    return True


@compiled
def _who_stands_in(g: Any, game: int, robot: int, cell: int) -> int:
    """Return the robot in a cell for one that has not decided yet, or -1."""
    if g.shared[game, cell]:
        return -1
    for other in range(g.robots[game]):
        if other != robot and g.cell[game, other] == cell and g.want[game, other] < 0:
            return other
    return -1


@compiled
def _arrive(g: Any, game: int, robot: int) -> None:
    """Take or hand over items, or charge, at the goal."""
    here, task = g.cell[game, robot], g.task[game, robot]
    if g.goal[game, robot] != here:
        return
    if task >= 0:
        g.load[game, robot, g.loaded[game, robot]] = task
        g.loaded[game, robot] += 1
        g.item[game, task, 2] = CARRIED
    else:
        station = -1
        for i in range(g.stations.shape[1]):
            if g.stations[game, i] == here:
                station = i
        if station < 0:
            if g.charged[game, robot] < 0:
                g.charged[game, robot] = g.tick[game] + g.charge
            if g.tick[game] < g.charged[game, robot]:
                return
            g.battery[game, robot], g.charged[game, robot] = g.full, -1
        else:
            _hand_over(g, game, robot, station)
    g.task[game, robot] = g.goal[game, robot] = -1


@compiled
def _hand_over(g: Any, game: int, robot: int, station: int) -> None:
    kept = 0
    for k in range(g.loaded[game, robot]):
        item = g.load[game, robot, k]
        order = g.item[game, item, 1]
        if g.order[game, order, 0] != station:
            g.load[game, robot, kept] = item
            kept += 1
            continue
        g.item[game, item, 2] = 0
        g.handed[game] += 1
        g.order[game, order, 1] -= 1
        if g.order[game, order, 1] == 0:
            g.orders[game] += 1
            _new_order(g, game, order)
    g.loaded[game, robot] = kept


class Warehouse(CompiledEnvironment):
    """Robots drive one cell in a tick, along one-way aisles; idle robots select tasks.

    Robots act one after the other, also within a tick. Two robots cannot be in one cell, except at
    stations and chargers, and cannot drive through each other; the robot that has been on its way
    for longest has the right of way, and others make room for it. When an order is complete,
    another one comes.

    Entities:
        Robot: position in tens of cells, whether it is the one that is ``asked``, items
        ``carried``, ``room`` for more, ``battery`` in parts, and for how many steps it is ``busy``,
        in twenties. Item: each that waits and nobody fetches: position, ``distance`` from the robot
        that is asked, ``onward`` to its station, robots that are ``nearer`` in tens, items
        ``order left`` in fives, ``age`` of the order in 200 ticks, whether the robot carries
        something for the same station (``own order``). Station, Charger: position and
        ``distance``; items ``carried here`` by the robot, robots by whom it is ``taken``. Clock:
        ``time`` left in parts, ``items`` that wait and ``robots`` in tens, ``size`` in hundreds of
        cells.
    Actions:
        Task: the robot selects an item to fetch, a station to hand over what it carries for it, or
        a charger. An item only if the battery lasts for the rest; a charger below half a battery,
        or where there is nothing else.
    Reward:
        0.1 for each item that is handed over.
    End:
        After ``ticks``.
    Randomness:
        The items, stations and shelves of orders.
    Metrics:
        throughput: items in an hour of 3,600 ticks; orders: complete ones.
    Source:
        Our own.

    Args:
        robots: Number of robots; or the smallest and largest number, of which each episode draws
            one.
        aisles: Number of aisles between shelves, alternately one-way up and down.
        shelves: The length of an aisle.
        stations: Number of stations below the shelves, for handing items over.
        chargers: Number of chargers above the shelves.
        room: Largest number of items that a robot carries.
        waiting: Number of orders that wait at any time.
        lines: Number of items of an order; or the smallest and largest number.
        battery: Steps with a full battery.
        charge: Ticks that charging takes.
        ticks: The length of an episode.
        copies: Number of consecutive rows with the same orders; no effect on a single game.
        threads: Number of threads that share the rows; no effect on a single game.

    Raises:
        SettingError: A number is out of range, there is no room, or a battery is too small.
    """

    rows = WarehouseRows


WarehouseRows.environment = Warehouse
