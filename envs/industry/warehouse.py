"""A warehouse: robots fetch the items of orders; which task next is asked, the way is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.observation import EntityID, Observation, SelectEntityActionMask
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from ..checks import check_running, check_started, read_selection, reading_state
from ..errors import check_whole
from .warehouse_drawing import DrawnRobot, draw_warehouse
from .warehouse_rules import ACTION_SPACE, OBS_SPACE, WarehouseSettings

__all__ = ["Warehouse"]

WAITING, CLAIMED, CARRIED = 1, 2, 3


class Warehouse(Environment):
    """Robots drive one cell in a tick, along one-way aisles; whoever has nothing to do is asked.

    Robots are asked one after the other, also within a tick. Two cannot be in one cell, but at
    stations and chargers; who would drive into another one waits, and rings of robots move on
    together. When an order is complete, another one comes.

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
        robots: How many; or the least and the most, from which each episode draws.
        aisles: Between shelves, one way up and down by turns.
        shelves: The length of an aisle.
        stations: Where items are handed over, below.
        chargers: Above.
        room: Items that a robot carries.
        waiting: Orders that wait at any time.
        lines: Items of an order; or the least and the most.
        battery: Steps with a full battery.
        charge: Ticks that charging takes.
        ticks: The length of an episode.
        copies: Of many rows, so many neighbours get the same orders; alone it changes nothing.

    Raises:
        EnvConfigError: A number out of range, no room, a battery that does not last.
    """

    y_axis = "up"

    def __init__(
        self,
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
    ) -> None:
        check_whole("copies", copies, 1)
        self.settings = WarehouseSettings.check(
            robots=robots, aisles=aisles, shelves=shelves, stations=stations, chargers=chargers,
            room=room, waiting=waiting, lines=lines, battery=battery, charge=charge, ticks=ticks,
        )  # fmt: skip
        self.layout = self.settings.layout
        self.ways: list[list[int]] = self.layout.ways.tolist()
        self.onward: list[list[int]] = self.layout.next.tolist()
        self.cells: list[list[int]] = self.layout.cells.tolist()
        self.stations: list[int] = self.layout.stations.tolist()
        self.chargers: list[int] = self.layout.chargers.tolist()
        self.shared = {*self.stations, *self.chargers}
        self.steps, self.over = -1, False

    def obs_space(self) -> ObsSpace:
        """Robots, items, stations, chargers, and the clock."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Task."""
        return ACTION_SPACE

    def draw(self, least: int, most: int) -> int:
        """Return a whole number from ``least`` to ``most``; all randomness comes from here."""
        return least if least >= most else int(self.rng.integers(least, most, endpoint=True))

    def reset(self) -> Observation:
        """Empty robots at stations and chargers, and new orders."""
        own = self.settings
        count = self.draw(*own.robots)
        homes = [*self.stations, *self.chargers]
        self.cell = [homes[i % len(homes)] for i in range(count)]
        self.goal, self.task = [-1] * count, [-1] * count
        self.load: list[list[int]] = [[] for _ in range(count)]
        self.battery, self.charged = [own.battery] * count, [-1] * count
        self.item = [[0, 0, 0] for _ in range(own.shelf_room)]  # cell, order, state
        self.order = [[0, 0, 0] for _ in range(own.waiting)]  # station, items left, tick
        self.tick, self.handed, self.complete = 0, 0, 0
        for order in range(own.waiting):
            self._new_order(order)
        self.steps, self.over = 0, False
        self.asked = self._who_is_asked()
        self._move_on()
        return self._shown(0.0)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Give the robot its task, and go on until another one is asked."""
        check_running(self.steps, self.over)
        robot = self.asked
        target: Any = read_selection(actions, "Task", ("Robot", robot), self._options(robot))
        self.steps += 1
        before = self.handed
        kind, number = target
        if kind == "Item":
            self.item[number][2] = CLAIMED
            self.task[robot], self.goal[robot] = number, self.item[number][0]
        else:
            self.goal[robot] = (self.stations if kind == "Station" else self.chargers)[number]
        self._arrive(robot)
        self.asked = self._who_is_asked()
        self._move_on()
        return self._shown(0.1 * (self.handed - before))

    def get_state(self) -> dict[str, Any]:
        """Everything."""
        check_started(self.steps)
        return {name: _copied(getattr(self, name)) for name in _STATE}

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go on with it."""
        with reading_state("a warehouse", state):
            for name in _STATE:
                setattr(self, name, _copied(state[name]))
            self.over = False
            return self._shown(0.0)

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return a picture of the warehouse; ``cell`` is the size of a cell. Shape: (H, W, 3)."""
        check_started(self.steps)
        robots = [
            DrawnRobot(cell, len(load), battery / self.settings.battery)
            for cell, load, battery in zip(self.cell, self.load, self.battery, strict=True)
        ]
        items = [(cell, state == CLAIMED) for cell, _, state in self.item if 0 < state < CARRIED]
        title = f"tick {self.tick} of {self.settings.ticks}: {self.handed} items handed over"
        return draw_warehouse(self.layout, robots, self.asked, items, title, **kwargs)

    def _new_order(self, order: int) -> None:
        """Another one in its place."""
        own, layout = self.settings, self.layout
        lines = self.draw(*own.lines)
        station = self.draw(0, len(self.stations) - 1)
        self.order[order] = [station, lines, self.tick]
        left = lines
        for item in self.item:
            if left and item[2] == 0:
                shelf = int(layout.shelves[self.draw(0, len(layout.shelves) - 1)])
                item[:] = [shelf, order, WAITING]
                left -= 1

    def _options(self, robot: int) -> list[EntityID]:
        """Return the tasks of a robot without a task."""
        own, here, battery = self.settings, self.cell[robot], self.battery[robot]
        carried = {self.order[self.item[i][1]][0] for i in self.load[robot]}
        options: list[EntityID] = []
        if len(self.load[robot]) < own.room:
            for i, (cell, order, state) in enumerate(self.item):
                stops = len(carried | {self.order[order][0]})
                enough = battery >= self.ways[here][cell] + (stops + 1) * own.longest
                if state == WAITING and enough:
                    options.append(("Item", i))
        options += [("Station", i) for i in range(len(self.stations)) if i in carried]
        if not carried and (2 * battery < own.battery or (not options and battery < own.battery)):
            options += [("Charger", i) for i in range(len(self.chargers))]
        return options

    def _who_is_asked(self) -> int:
        """Return the first robot that has nothing to do, and can do something; -1 if none."""
        for robot, goal in enumerate(self.goal):
            if goal < 0 and self._options(robot):
                return robot
        return -1

    def _move_on(self) -> None:
        """Let time go on until a robot is asked, or the end."""
        while self.asked < 0 and self.tick < self.settings.ticks:
            self.tick += 1
            self._drive()
            for robot in range(len(self.cell)):
                self._arrive(robot)
            self.asked = self._who_is_asked()
        self.over = self.tick >= self.settings.ticks

    def _drive(self) -> None:
        """One step of each robot that can."""
        count = len(self.cell)
        want, moved = [-1] * count, [False] * count
        for robot, goal in enumerate(self.goal):
            if goal >= 0 and goal != self.cell[robot]:
                there = [cell for cell in self.onward[self.cell[robot]] if cell >= 0]
                want[robot] = min(there, key=lambda cell: self.ways[cell][goal])
        again = True
        while again:
            again = False
            for robot in range(count):
                if want[robot] >= 0 and not moved[robot] and self._is_free(want[robot]):
                    self._step(robot, want[robot])
                    moved[robot] = again = True
        for robot in range(count):
            ring = self._ring(robot, want, moved)
            targets = [want[one] for one in ring]
            for one, cell in zip(ring, targets, strict=True):
                self._step(one, cell)
                moved[one] = True

    def _is_free(self, cell: int) -> bool:
        return cell in self.shared or cell not in self.cell

    def _ring(self, robot: int, want: list[int], moved: list[bool]) -> list[int]:
        """Return the robots that wait for each other in a ring with this one, or none."""
        ring, one = [], robot
        while want[one] >= 0 and not moved[one] and one not in ring:
            ring.append(one)
            # Whoever waits waits for a cell of one robot: it is no shared one.
            one = self.cell.index(want[one])
        return ring if ring and one == robot else []

    def _step(self, robot: int, cell: int) -> None:
        self.cell[robot] = cell
        self.battery[robot] -= 1

    def _arrive(self, robot: int) -> None:
        """Take or hand over items, or charge, at the goal."""
        here = self.cell[robot]
        if self.goal[robot] != here:
            return
        task = self.task[robot]
        if task >= 0:
            self.load[robot].append(task)
            self.item[task][2] = CARRIED
        elif here in self.chargers:
            if self.charged[robot] < 0:
                self.charged[robot] = self.tick + self.settings.charge
            if self.tick < self.charged[robot]:
                return
            self.battery[robot], self.charged[robot] = self.settings.battery, -1
        else:
            self._hand_over(robot, self.stations.index(here))
        self.task[robot] = self.goal[robot] = -1

    def _hand_over(self, robot: int, station: int) -> None:
        kept = []
        for i in self.load[robot]:
            order = self.item[i][1]
            if self.order[order][0] != station:
                kept.append(i)
                continue
            self.item[i][2] = 0
            self.handed += 1
            self.order[order][1] -= 1
            if self.order[order][1] == 0:
                self.complete += 1
                self._new_order(order)
        self.load[robot] = kept

    def _shown(self, reward: float) -> Observation:
        own, asked = self.settings, self.asked
        here = self.cell[asked] if asked >= 0 else -1
        waiting = [i for i, item in enumerate(self.item) if item[2] == WAITING]
        carried = [self.order[self.item[i][1]][0] for i in self.load[asked]] if asked >= 0 else []
        features = {
            "Robot": [self._robot(i, asked) for i in range(len(self.cell))],
            "Item": [self._item(i, here, carried) for i in waiting],
            "Station": [
                [*self._place(cell), self._way(here, cell), float(carried.count(i))]
                for i, cell in enumerate(self.stations)
            ],
            "Charger": [
                [*self._place(cell), self._way(here, cell), float(self.goal.count(cell))]
                for cell in self.chargers
            ],
            "Clock": [
                [
                    1 - self.tick / own.ticks,
                    len(waiting) / 10,
                    len(self.cell) / 10,
                    len(self.cells) / 100,
                ]
            ],
        }
        actions = {}
        if not self.over:
            actions["Task"] = SelectEntityActionMask(
                actor_ids=[("Robot", asked)], actee_ids=self._options(asked)
            )
        return Observation(
            features=features,
            ids={
                "Robot": [("Robot", i) for i in range(len(self.cell))],
                "Item": [("Item", i) for i in waiting],
                "Station": [("Station", i) for i in range(len(self.stations))],
                "Charger": [("Charger", i) for i in range(len(self.chargers))],
                "Clock": ["clock"],
            },
            actions=actions,
            reward=reward,
            done=self.over,
            metrics={
                "throughput": self.handed * 3600 / own.ticks,
                "orders": float(self.complete),
            }
            if self.over
            else {},
        )

    def _place(self, cell: int) -> list[float]:
        x, y = self.cells[cell]
        return [x / 10, y / 10]

    def _way(self, start: int, end: int) -> float:
        """In twenties of steps; 0 where nobody is asked, or there is no goal."""
        return self.ways[start][end] / 20 if start >= 0 and end >= 0 else 0.0

    def _robot(self, i: int, asked: int) -> list[float]:
        own, load = self.settings, len(self.load[i])
        return [
            *self._place(self.cell[i]),
            float(i == asked),
            float(load),
            float(own.room - load),
            self.battery[i] / own.battery,
            self._way(self.cell[i], self.goal[i]),
        ]

    def _item(self, i: int, here: int, carried: list[int]) -> list[float]:
        cell, order, _ = self.item[i]
        station, left, since = self.order[order]
        own = self.ways[here][cell] if here >= 0 else 0
        nearer = sum(self.ways[other][cell] < own for other in self.cell)
        return [
            *self._place(cell),
            own / 20,
            self.ways[cell][self.stations[station]] / 20,
            nearer / 10,
            left / 5,
            (self.tick - since) / 200,
            float(station in carried),
        ]


_STATE = (
    "cell", "goal", "task", "load", "battery", "charged", "item", "order", "tick", "handed",
    "complete", "steps", "asked",
)  # fmt: skip


def _copied(value: Any) -> Any:
    return [_copied(own) for own in value] if isinstance(value, list) else value
