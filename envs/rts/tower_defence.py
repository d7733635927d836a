"""Tower Defence: towers on walls stop attackers on their way through a maze."""

from __future__ import annotations

from .rules import ATTACK, Rules, UnitKind
from .world import Command, Game, Unit, World, squared

__all__ = ["BASE_HP", "TOWER_DEFENCE", "TowerDefence", "aim", "build_tower", "possible"]

BASE_HP = 100

TOWER_DEFENCE = Rules(
    kinds=(
        UnitKind(
            "TowerBase",
            hp=BASE_HP,
            attack=9999,
            range=1,
            vision=9999,
            commands=(ATTACK,),
            is_building=True,
        ),
        UnitKind(
            "Attacker",
            hp=50,
            speed=0.1,
            attack=10,
            range=1,
            vision=5,
            attack_ticks=100,
            commands=(ATTACK,),
        ),
        UnitKind(
            "Tower",
            cost=50,
            hp=100,
            attack=50,
            range=3,
            vision=5,
            attack_ticks=15,
            commands=(ATTACK,),
            is_building=True,
        ),
    ),
    resource=100,
    max_tick=1200,
    most_units=48,
    has_walls=True,
)

WAVE_TICKS = 200
FOR_A_KILL = 10
AIM = 3.0
"""Towers aim at what is within this squared distance, less than they reach."""
OPEN = 14
"""The block of cells from here on, where attackers appear, has no walls."""


class TowerDefence(Game):
    """The defender, player 0, wins if the base stands when time is up.

    An attacker who reaches the base hits it once, and dies of it.
    """

    rules = TOWER_DEFENCE

    def setup(self, world: World) -> None:
        """Set up a maze of corridors with a base at each end."""
        size = self.rules.size
        world.walls = [[not (x >= OPEN and y >= OPEN) for x in range(size)] for y in range(size)]
        self._carve(world)
        world.notes["covers"] = _covers(world)
        world.put(0, self.rules.number["TowerBase"], 0, 0)
        world.put(1, self.rules.number["TowerBase"], size - 1, size - 1)

    def _carve(self, world: World) -> None:
        """Prim's algorithm with random edges over the cells of even coordinates."""
        half = self.rules.size // 2
        inside = {(x, y) for x in range(OPEN // 2, half) for y in range(OPEN // 2, half)}
        edges = [(cell, near) for cell in sorted(inside) for near in _near(cell, half)]
        while edges:
            cell, near = edges.pop(world.draw(0, len(edges) - 1))
            if near in inside:
                continue
            inside.add(near)
            (x, y), (to_x, to_y) = cell, near
            world.walls[y + to_y][x + to_x] = False  # the cell between both
            world.walls[2 * to_y][2 * to_x] = False
            edges += [(near, other) for other in _near(near, half)]

    def winner(self, world: World) -> int | None:
        """Return the attacker when the base is gone, the defender at the end of time."""
        if world.first(0, "TowerBase") is None:
            return 1
        return 0 if world.tick + 1 >= world.max_tick else None

    def each_tick(self, world: World) -> None:
        """Waves come."""
        base = world.first(0, "TowerBase")
        if base is None:
            return
        if world.tick % WAVE_TICKS == 0:
            for i in range(world.tick // WAVE_TICKS):
                world.create(1, "Attacker", 15 + i % 5, 15 + i // 5)
        for unit in world.of(1, "Attacker"):
            if unit.command is None:
                world.send(1, unit.uid, Command(ATTACK, target=base.uid))

    def hits(self, world: World, by: Unit | None, hurt: Unit) -> None:
        """Pay for a kill of a tower; remove the unit that hits the base."""
        if by is None:
            return
        if hurt.hp <= 0 and world.kind(by).name == "Tower":
            world.resource[0] += FOR_A_KILL
        elif hurt.player == 0 and by.player == 1:
            world.remove(by)


def possible(world: World) -> list[bool]:
    """On which cells, row by row, a tower could be built now."""
    size, rules = world.rules.size, world.rules
    affordable = world.resource[0] >= rules.kinds[rules.number["Tower"]].cost
    has_room = len(world.of(0)) < rules.most_units
    taken = {world.cell(unit.x, unit.y) for unit in world.units.values()}
    return [
        affordable and has_room and world.walls[y][x] and y * size + x not in taken
        for y in range(size)
        for x in range(size)
    ]


def aim(world: World) -> None:
    """Let each tower attack the nearest attacker within ``AIM``; call it when the defender acts.

    A tower with nobody that near keeps its target until that is out of reach.
    """
    for tower in world.of(0, "Tower"):
        near = [unit for unit in world.of(1, "Attacker") if _apart(tower, unit) <= AIM]
        if near:
            target = min(near, key=lambda unit: _apart(tower, unit))
            tower.command = None  # a building that does something takes no command
            world.send(0, tower.uid, Command(ATTACK, target=target.uid))


def build_tower(world: World, cell: int) -> bool:
    """Build a tower on a wall at once; False: nothing is built there."""
    if not (0 <= cell < world.rules.size**2 and possible(world)[cell]):
        return False
    number, size = world.rules.number["Tower"], world.rules.size
    world.resource[0] -= world.rules.kinds[number].cost
    world.put(0, number, cell % size, cell // size)
    return True


def _covers(world: World) -> list[int]:
    """Return how many cells of the attackers' way a tower on each cell reaches."""
    size, reach = world.rules.size, world.rules.kinds[world.rules.number["Tower"]].range
    came, border = {(0, 0): (0, 0)}, [(0, 0)]
    for x, y in border:  # it grows meanwhile: a search in breadth
        for near in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            if near not in came and world.is_ground(*near):
                came[near] = (x, y)
                border.append(near)
    way, cell = [], next(c for c in border if c[0] >= OPEN and c[1] >= OPEN)
    while cell != (0, 0):
        way.append(cell)
        cell = came[cell]
    return [
        sum(int(squared(x - column, y - row)) <= reach**2 for x, y in way)
        for row in range(size)
        for column in range(size)
    ]


def _near(cell: tuple[int, int], half: int) -> list[tuple[int, int]]:
    x, y = cell
    around = ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1))
    return [(a, b) for a, b in around if 0 <= a < half and 0 <= b < half]


def _apart(one: Unit, other: Unit) -> float:
    return squared(one.x - other.x, one.y - other.y)
