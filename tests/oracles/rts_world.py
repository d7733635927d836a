"""An independent form of the engine of strategy games, one object for each unit, to compare with.

It knows no game: nobody wins, and what only a game has is not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from envs.rts.rules import (
    ATTACK,
    BUILD,
    BULLET_REACH,
    BULLET_SPEED,
    CROWD_MOVES,
    CROWD_TICKS,
    GATHER,
    HARVEST,
    MOST_BULLETS,
    MOVE,
    RADIUS,
    Rules,
    UnitKind,
)

from .rts_planner import Planner

__all__ = ["Command", "World"]

SPOTS = (
    *((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)),
    *((-2, 0), (2, 0), (0, -2), (0, 2)),
)
"""Places for something new around a point (x, y), in the order in which they are tried."""

GOING, WORKING, RETURNING = range(3)
"""Phases of a command to gather or build."""
NOWHERE = -1.0


@dataclass
class Command:
    """A command of a unit that lasts some time.

    Args:
        kind: ``MOVE``, ``ATTACK``, ``GATHER``, ``BUILD``, or one of the game's own.
        x: Where to; below 0: nowhere, which lets a building choose the place of what it builds.
        y: Where to.
        target: The number of the unit that is attacked or gathered from.
        base: The number of the unit that the load is brought to.
        builds: The kind that is built.
        phase: How far it has come.
        start: The tick in which it was sent.
    """

    kind: int
    x: float = NOWHERE
    y: float = NOWHERE
    target: int = -1
    base: int = -1
    builds: int = -1
    phase: int = GOING
    start: int = 0


@dataclass
class Unit:
    """A unit or a building.

    Args:
        uid: Its number: how many were created before it in this game.
        player: Whose it is.
        kind: The number of its kind.
        x: Centre, in cells; cell (0, 0) reaches from -0.5 to 0.5.
        y: Centre, downwards.
        hp: Hit points left.
        attacked: The tick of its last shot, 0 at first.
        gathered: The tick in which it began to gather.
        built: The tick in which it began to build.
        damaged_by: The unit that last damaged it, or -1.
        carries: Whether it carries something that makes it slow.
        seen: Of a building, whether the enemy has ever seen it.
        command: What it does, or None: it is idle.
    """

    uid: int
    player: int
    kind: int
    x: float
    y: float
    hp: int
    attacked: int = 0
    gathered: int = 0
    built: int = 0
    damaged_by: int = -1
    carries: bool = False
    seen: bool = False
    command: Command | None = None


@dataclass
class Bullet:
    """A bullet on its way to a unit."""

    x: float
    y: float
    attack: int
    shooter: int
    target: int


class World:
    """One game of two players on an empty map."""

    def __init__(self, rules: Rules) -> None:
        self.rules, size = rules, rules.size
        self.max_tick = rules.max_tick
        self.tick, self.winner, self.is_over = 1, -1, False
        self.resource = [rules.resource] * 2
        self.walls = [[False] * size for _ in range(size)]  # rows from top to bottom
        self.units: dict[int, Unit] = {}
        self.created = 0
        self.bullets: list[Bullet] = []
        self.sent: list[tuple[int, Command]] = []
        self.order: list[int] = []
        self.queue: list[tuple[Any, ...]] = []
        self.failed = [0] * CROWD_TICKS
        self.planners = [Planner(), Planner()]

    # Who is there.

    def kind(self, unit: Unit) -> UnitKind:
        """Return the numbers of a unit's kind."""
        return self.rules.kinds[unit.kind]

    def of(self, player: int, *names: str) -> list[Unit]:
        """Return a player's units in order of creation, of these kinds if any are named."""
        kinds = {self.rules.number[name] for name in names}
        return [
            unit
            for unit in self.units.values()
            if unit.player == player and (not kinds or unit.kind in kinds)
        ]

    def allows(self, unit: Unit, command: int) -> bool:
        """Return True if a unit of this kind may be told this."""
        return command in self.kind(unit).commands

    # Where things are.

    def cell(self, x: float, y: float) -> int:
        """Return the number of the cell of a point: y * size + x."""
        return int(y + 0.5) * self.rules.size + int(x + 0.5)

    def is_ground(self, x: float, y: float) -> bool:
        """Return True if a point is on the map, where units can go."""
        size, column, row = self.rules.size, int(x + 0.5), int(y + 0.5)
        inside = 0 <= column < size and 0 <= row < size and x > -0.5 and y > -0.5
        return inside and not self.walls[row][column]

    def can_pass(self, x: float, y: float, unit: Unit | None = None) -> bool:
        """Return True if a unit, or a new one, can be at a point."""
        return self.is_ground(x, y) and not any(
            squared(other.x - x, other.y - y) < (2 * RADIUS) ** 2
            for other in self.units.values()
            if other is not unit
        )

    def sees(self, player: int, x: float, y: float) -> bool:
        """Return True if the cell of a point is visible to a player."""
        column, row = int(x + 0.5), int(y + 0.5)
        return any(
            abs(int(unit.x + 0.5) - column) + abs(int(unit.y + 0.5) - row) <= self.kind(unit).vision
            for unit in self.of(player)
        )

    def free_spots(self, x: float, y: float) -> Iterator[tuple[float, float]]:
        """Return the points around another one where something new could stand now."""
        for dx, dy in SPOTS:
            if self.can_pass(single(x + dx), single(y + dy)):
                yield single(x + dx), single(y + dy)

    # Commands.

    def send(self, player: int, uid: int, command: Command) -> bool:
        """Tell a unit what to do from this tick on; False: it is not told.

        It is not told by strangers, nor what its kind does not do, nor to go to where the map is
        not, nor to do something to a unit that there is not; and a building that does something is
        told nothing. Of several commands for a unit in one tick the last one counts.
        """
        unit = self.units.get(uid)
        if unit is None or unit.player != player or not self.allows(unit, command.kind):
            return False
        if self.kind(unit).is_building and unit.command is not None:
            return False
        if not self._makes_sense(unit, command):
            return False
        self.sent.append((uid, replace(command, start=self.tick, phase=GOING)))
        return True

    def _makes_sense(self, unit: Unit, command: Command) -> bool:
        size, target = self.rules.size, self.units.get(command.target)
        has_place = 0 <= command.x <= size - 1 and 0 <= command.y <= size - 1
        if command.kind == MOVE:
            return has_place
        if command.kind == ATTACK:
            return target is not None and target.player != unit.player
        if command.kind == GATHER:
            base = self.units.get(command.base)
            fits = target is not None and self.kind(target).is_resource
            return fits and base is not None and self._stores(base, unit.player)
        if command.kind == BUILD:
            known = 0 <= command.builds < len(self.rules.kinds)
            mine = known and self.rules.kinds[command.builds].name in self.kind(unit).builds
            # What stands still cannot go anywhere to build there.
            return mine and (has_place if self.kind(unit).speed else command.x < 0)
        return True

    def _stores(self, base: Unit, player: int) -> bool:
        return base.player == player and self.kind(base).is_store

    def play_tick(self) -> None:
        """Let a tick pass, after players have sent what they want."""
        self._move_bullets()
        self._run_commands()
        self._execute_queue()
        self._see()
        self._finish_tick()

    def _move_bullets(self) -> None:
        flying = []
        for bullet in self.bullets:
            target = self.units.get(bullet.target)
            if target is None:
                continue
            dx, dy = target.x - bullet.x, target.y - bullet.y
            distance = math.sqrt(squared(dx, dy))
            if distance < BULLET_REACH:
                self.queue.append(("hit", bullet.shooter, bullet.target, bullet.attack))
                continue
            bullet.x = single(bullet.x + dx * (BULLET_SPEED / distance))
            bullet.y = single(bullet.y + dy * (BULLET_SPEED / distance))
            flying.append(bullet)
        self.bullets = flying

    def _run_commands(self) -> None:
        """Run each command once: new ones in the order of sending, then others, newest first."""
        last = {uid: i for i, (uid, _) in enumerate(self.sent)}
        told = [own for i, own in enumerate(self.sent) if last[own[0]] == i]
        self.sent = []
        told = [(uid, command) for uid, command in told if uid in self.units]
        for uid, command in told:
            self.units[uid].command = command
        fresh = {uid for uid, _ in told}
        old = [uid for uid in self.order if uid not in fresh]
        going = []
        for uid in [*(uid for uid, _ in told), *old]:
            unit = self.units.get(uid)
            if unit is None or unit.command is None:
                continue
            if self._run(unit, unit.command):
                unit.command = None
            else:
                going.append(uid)
        now = [uid for uid in going if uid in fresh and self._start(uid) == self.tick]
        before = [uid for uid in going if uid in fresh and self._start(uid) < self.tick]
        self.order = [*now, *before, *(uid for uid in going if uid not in fresh)]

    def _start(self, uid: int) -> int:
        command = self.units[uid].command
        return -1 if command is None else command.start

    def _run(self, unit: Unit, command: Command) -> bool:
        """Run a command once; whether it is finished."""
        if command.kind == MOVE:
            if squared(command.x - unit.x, command.y - unit.y) < 0.001:
                return True
            self.step_to(unit, command.x, command.y)
            return False
        if command.kind == ATTACK:
            return self._attack(unit, command)
        if command.kind == GATHER:
            return self._gather(unit, command)
        return self._build(unit, command)

    def _attack(self, unit: Unit, command: Command) -> bool:
        target, kind = self.units.get(command.target), self.kind(unit)
        if target is None:
            return True
        if int(squared(target.x - unit.x, target.y - unit.y)) > kind.range**2:
            if not kind.speed:
                return True
            self.step_to(unit, target.x, target.y)
        elif self.tick - unit.attacked >= kind.attack_ticks:
            what = "strike" if kind.range <= 1 else "shoot"
            self.queue.append((what, unit.uid, target.uid, kind.attack))
        return False

    def _gather(self, unit: Unit, command: Command) -> bool:
        resource, base = self.units.get(command.target), self.units.get(command.base)
        if resource is None or base is None:
            return True
        if command.phase == WORKING:
            if self.tick - unit.gathered >= self.kind(unit).gather_ticks:
                self.queue.append(("harvest", resource.uid))
                command.phase = RETURNING
            return False
        to = resource if command.phase == GOING else base
        if squared(to.x - unit.x, to.y - unit.y) >= 1.0:
            self.step_to(unit, to.x, to.y)
        elif command.phase == GOING:
            self.queue.append(("gathering", unit.uid))
            command.phase = WORKING
        else:
            self.queue.append(("deliver", unit.player))
            command.phase = GOING
        return False

    def _build(self, unit: Unit, command: Command) -> bool:
        has_place = command.x >= 0
        if command.phase == GOING:
            if has_place and squared(command.x - unit.x, command.y - unit.y) >= 1.0:
                if any(True for _ in self.free_spots(command.x, command.y)):
                    self.step_to(unit, command.x, command.y)
                return False
            self.queue.append(("pay", unit.uid, command.builds))
            command.phase = WORKING
            return False
        if self.tick - unit.built < self.kind(unit).build_ticks:
            return False
        if has_place:
            spot: tuple[float, float] | None = (command.x, command.y)
        else:
            spot = next(self.free_spots(unit.x, unit.y), None)
        if spot is None:
            return False
        self.queue.append(("create", unit.player, command.builds, *spot))
        return True

    def speed(self, unit: Unit) -> float:
        """Cells per tick; a third for who carries something."""
        speed = self.kind(unit).speed
        return speed / 3.0 if unit.carries else speed

    def step_to(self, unit: Unit, x: float, y: float) -> None:
        """Queue a step on the way to a point, or note that there is none."""
        to_x, to_y = x, y
        if squared(x - unit.x, y - unit.y) > 1.0:
            cell = self.planners[unit.player].waypoint(self, unit, (x, y))
            if cell >= 0:
                to_x, to_y = float(cell % self.rules.size), float(cell // self.rules.size)
        dx, dy = to_x - unit.x, to_y - unit.y
        distance, speed = math.sqrt(squared(dx, dy)), self.speed(unit)
        if distance > speed:
            dx, dy = dx * (speed / distance), dy * (speed / distance)
        for step_x, step_y in ((dx, dy), (-dy, dx), (dy, -dx)):
            new_x, new_y = single(unit.x + step_x), single(unit.y + step_y)
            if self.can_pass(new_x, new_y, unit):
                self.queue.append(("move", unit.uid, new_x, new_y))
                return
        self.failed[self.tick % CROWD_TICKS] += 1

    # What happens.

    def _execute_queue(self) -> None:
        """Execute immediate commands, in their order; those that come up meanwhile as well."""
        i = 0
        while i < len(self.queue):
            what, *arguments = self.queue[i]
            i += 1
            getattr(self, f"_do_{what}")(*arguments)
        self.queue = []

    def _do_move(self, uid: int, x: float, y: float) -> None:
        unit = self.units.get(uid)
        if unit is not None and self.can_pass(x, y, unit):
            unit.x, unit.y = x, y

    def _do_strike(self, uid: int, target: int, attack: int) -> None:
        """Strike a target, also by a unit that died in this tick."""
        if uid in self.units:
            self.units[uid].attacked = self.tick
        self._do_hit(uid, target, attack)

    def _do_shoot(self, uid: int, target: int, attack: int) -> None:
        unit = self.units.get(uid)
        if unit is not None:
            unit.attacked = self.tick
        if unit is not None and len(self.bullets) < MOST_BULLETS:
            self.bullets.append(Bullet(unit.x, unit.y, attack, uid, target))

    def _do_hit(self, uid: int, target: int, attack: int) -> None:
        hurt = self.units.get(target)
        if hurt is None:
            return
        damage = max(0, attack - self.kind(hurt).defence)
        if damage:
            self.damage(hurt, damage, uid)

    def damage(self, hurt: Unit, damage: int, by: int) -> None:
        """Take hit points; who survives, may attack and has nothing to do attacks back."""
        hurt.hp -= damage
        if hurt.hp <= 0:
            self.remove(hurt)
            return
        if by < 0:
            return
        hurt.damaged_by = by
        if hurt.command is None and by in self.units and self.allows(hurt, ATTACK):
            self.sent.append((hurt.uid, Command(ATTACK, target=by, start=self.tick)))

    def _do_gathering(self, uid: int) -> None:
        if uid in self.units:
            self.units[uid].gathered = self.tick

    def _do_harvest(self, resource: int) -> None:
        if resource in self.units:
            self.damage(self.units[resource], HARVEST, -1)

    def _do_deliver(self, player: int) -> None:
        self.resource[player] += HARVEST

    def _do_pay(self, uid: int, builds: int) -> None:
        unit = self.units.get(uid)
        if unit is None:
            return
        cost = self.rules.kinds[builds].cost
        if self.resource[unit.player] < cost:
            unit.command = None
            return
        self.resource[unit.player] -= cost
        unit.built = self.tick

    def _do_create(self, player: int, builds: int, x: float, y: float) -> None:
        if self.create(player, builds, x, y) is None:
            self.resource[player] += self.rules.kinds[builds].cost

    def create(self, player: int, kind: int | str, x: float, y: float) -> Unit | None:
        """Create a unit; None where it cannot stand, or its player has as many as there can be."""
        number = self.rules.number[kind] if isinstance(kind, str) else kind
        x, y = single(x), single(y)
        if not self.can_pass(x, y) or len(self.of(player)) >= self.rules.most_units:
            return None
        return self.put(player, number, x, y)

    def put(self, player: int, kind: int, x: float, y: float) -> Unit:
        """Create a unit wherever that may be: for what stands on walls."""
        unit = Unit(self.created, player, kind, single(x), single(y), self.rules.kinds[kind].hp)
        self.units[unit.uid] = unit
        self.created += 1
        return unit

    def remove(self, unit: Unit) -> None:
        """Let a unit die."""
        del self.units[unit.uid]

    def _see(self) -> None:
        for unit in self.units.values():
            if self.kind(unit).is_building and not unit.seen:
                unit.seen = self.sees(1 - unit.player, unit.x, unit.y)

    def _finish_tick(self) -> None:
        crowded = self.failed[self.tick % CROWD_TICKS] >= 1 and sum(self.failed) >= CROWD_MOVES
        self.tick += 1
        self.failed[self.tick % CROWD_TICKS] = 0
        self.is_over = self.tick >= self.max_tick or crowded


def squared(dx: float, dy: float) -> float:
    """Return the squared length of a vector."""
    return dx * dx + dy * dy


def single(number: float) -> float:
    """Return a number as single precision keeps it."""
    return float(np.float32(number))
