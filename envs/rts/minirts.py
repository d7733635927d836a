"""Mini-RTS: gather, build an army, and destroy the enemy's base; nine strategic actions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .rules import ATTACK, BUILD, GATHER, MOVE, Rules, UnitKind
from .world import Command, Game, Unit, World, squared

__all__ = [
    "ACTIONS",
    "MINI_RTS",
    "MiniRts",
    "advantage",
    "hit_n_run",
    "order",
    "possible",
    "simple",
]

MINI_RTS = Rules(
    kinds=(
        UnitKind("Resource", hp=1000, defence=1000, is_building=True, is_resource=True),
        UnitKind(
            "Worker",
            cost=50,
            hp=50,
            speed=0.1,
            attack=2,
            range=1,
            vision=3,
            attack_ticks=10,
            gather_ticks=40,
            build_ticks=40,
            commands=(MOVE, ATTACK, GATHER, BUILD),
            builds=("Barracks",),
        ),
        UnitKind(
            "Melee",
            cost=100,
            hp=100,
            defence=1,
            speed=0.1,
            attack=15,
            range=1,
            vision=3,
            attack_ticks=15,
            commands=(MOVE, ATTACK),
        ),
        UnitKind(
            "Range",
            cost=100,
            hp=50,
            speed=0.2,
            attack=10,
            range=5,
            vision=5,
            attack_ticks=10,
            commands=(MOVE, ATTACK),
        ),
        UnitKind(
            "Barracks",
            cost=200,
            hp=200,
            defence=1,
            vision=5,
            build_ticks=50,
            commands=(BUILD,),
            builds=("Melee", "Range"),
            is_building=True,
        ),
        UnitKind(
            "Base",
            cost=500,
            hp=500,
            defence=2,
            vision=5,
            build_ticks=50,
            commands=(BUILD,),
            builds=("Worker",),
            is_building=True,
            is_store=True,
        ),
    ),
    resource=200,
)

ACTIONS = (
    *("Idle", "BuildWorker", "BuildBarracks", "BuildMelee", "BuildRange"),
    *("Attack", "AttackInRange", "HitAndRun", "Defend"),
)
IDLE, BUILD_WORKER, BUILD_BARRACKS, BUILD_MELEE, BUILD_RANGE = range(5)
ATTACK_BASE, ATTACK_IN_RANGE, HIT_AND_RUN, DEFEND = range(5, 9)

FLEE = 10
"""The distance from all enemies to which a unit flees, in cells."""


class MiniRts(Game):
    """Each player has a base, a resource and perhaps some units; who alone has a base wins.

    Where both lose their bases in one tick, nobody wins.
    """

    rules = MINI_RTS

    def setup(self, world: World) -> None:
        """Two bases in opposite corners, their resources, and a few units by chance."""
        size, planned = self.rules.size, list[tuple[int, str, int, int]]()
        for player in range(2):
            base_x, base_y = ((world.draw(0, 19) + 40 * player) // 3 for _ in range(2))
            planned.append((player, "Base", base_x, base_y))
            while True:
                x, y = base_x + world.draw(-4, 4), base_y + world.draw(-4, 4)
                if 0 <= x < size and 0 <= y < size and (x, y) != (base_x, base_y):
                    break
            planned.append((player, "Resource", x, y))
            chances = [("Worker", 0.5)] * 3 + [("Barracks", 0.2), ("Melee", 0.5), ("Range", 0.5)]
            for name, chance in chances:
                if world.chance(chance):
                    x, y = (world.draw(0, 5) + 2 + 10 * player for _ in range(2))
                    planned.append((player, name, x, y))
        flip_x, flip_y = (world.chance(0.5) for _ in range(2))
        for player, name, x, y in planned:
            x, y = size - 1 - x if flip_x else x, size - 1 - y if flip_y else y
            world.create(player, name, x, y)

    def winner(self, world: World) -> int | None:
        """Return the only player with a base."""
        first, second = world.first(0, "Base"), world.first(1, "Base")
        if first is not None and second is not None:
            return None
        return 0 if first is not None else 1 if second is not None else -1


def possible(world: World, player: int) -> list[bool]:
    """Return a mask of the strategic actions that would order a unit now, or idle.

    Whoever has units that could hunt may send them, for whether there is anybody to be hunted is
    what fog hides.
    """
    can = [True] + [bool(_assign(world, player, {action})) for action in range(1, len(ACTIONS))]
    can[HIT_AND_RUN] |= bool(world.of(player, "Range") or _army(world, player))
    return can


def order(world: World, player: int, actions: Collection[int]) -> None:
    """Let a player act: by one strategic action, or by several at once.

    Who is told to hit and run finds the enemy's units in the fog, too; whom to defend against and
    what is in range is a matter of sight.

    Differs from the original engine: buildings are never told to attack, so that whoever defends
    goes on building.
    """
    base, resource = world.first(player, "Base"), world.first(player, "Resource")
    if base is None or world.first(1 - player, "Base") is None:
        return
    assigned = _assign(world, player, actions)
    if resource is not None:
        for worker in world.of(player, "Worker"):
            if worker.command is None and worker.uid not in assigned:
                gather = Command(GATHER, target=resource.uid, base=base.uid)
                assigned[worker.uid] = gather
    for uid, command in assigned.items():
        world.send(player, uid, command)


def _assign(world: World, player: int, actions: Collection[int]) -> dict[int, Command]:
    """Return the command of each unit by number, without the rule for idle workers."""
    base, enemy_base = world.first(player, "Base"), world.first(1 - player, "Base")
    resource = world.first(player, "Resource")
    told: dict[int, Command] = {}
    if base is None or enemy_base is None:
        return told
    if resource is None:
        for unit in world.of(player):
            if not _attacks(unit):
                _attack(world, told, unit, enemy_base)
        return told
    seen, army = _seen(world, player), _army(world, player)
    money = world.resource[player]
    number, kinds = world.rules.number, world.rules.kinds
    if BUILD_WORKER in actions and base.command is None and money >= kinds[number["Worker"]].cost:
        money -= kinds[number["Worker"]].cost
        told[base.uid] = Command(BUILD, builds=number["Worker"])
    if BUILD_BARRACKS in actions and money >= kinds[number["Barracks"]].cost:
        gathering = [
            u for u in world.of(player, "Worker") if u.command and u.command.kind == GATHER
        ]
        place = _place_near(world, base)
        if gathering and place is not None:
            money -= kinds[number["Barracks"]].cost
            told[gathering[0].uid] = Command(BUILD, *place, builds=number["Barracks"])
    for action, name in ((BUILD_MELEE, "Melee"), (BUILD_RANGE, "Range")):
        free = [
            unit
            for unit in world.of(player, "Barracks")
            if unit.command is None and unit.uid not in told
        ]
        if action in actions and free and money >= kinds[number[name]].cost:
            money -= kinds[number[name]].cost
            told[free[0].uid] = Command(BUILD, builds=number[name])
    if ATTACK_BASE in actions:
        for unit in army:
            _attack(world, told, unit, enemy_base)
    if HIT_AND_RUN in actions:
        _hit_and_run(world, player, told, army)
    if ATTACK_IN_RANGE in actions and seen:
        for unit in army:
            _attack(world, told, unit, seen[0])
    if DEFEND in actions:
        target = _intruder(world, player, base, resource, seen)
        if target is not None:
            for unit in world.of(player):
                if not _attacks(unit):
                    _attack(world, told, unit, target)
    return told


def _seen(world: World, player: int) -> list[Unit]:
    """Return the enemies in a player's sight, without resources."""
    return [
        unit
        for unit in world.of(1 - player)
        if not world.kind(unit).is_resource and world.sees(player, unit.x, unit.y)
    ]


def _army(world: World, player: int) -> list[Unit]:
    """Return the units that fight and have nothing to do."""
    return [unit for unit in world.of(player, "Melee", "Range") if unit.command is None]


def _attacks(unit: Unit) -> bool:
    return unit.command is not None and unit.command.kind == ATTACK


def _attack(world: World, told: dict[int, Command], unit: Unit, target: Unit) -> None:
    """Attack, unless the unit cannot, or is at it."""
    same = unit.command is not None and _attacks(unit) and unit.command.target == target.uid
    if world.allows(unit, ATTACK) and not same:
        told[unit.uid] = Command(ATTACK, target=target.uid)


def _place_near(world: World, base: Unit) -> tuple[float, float] | None:
    """Return a place for a barracks, nearest to the middle of the map first."""
    size = world.rules.size
    x, y = int(base.x + 0.5), int(base.y + 0.5)
    way_x, way_y = (1 if c < size // 2 else -1 for c in (x, y))
    for dx in range(3, -4, -1):
        for dy in range(3, -4, -1):
            column, row = x + way_x * dx, y + way_y * dy
            inside = 2 <= column < size - 2 and 2 <= row < size - 2
            if inside and world.can_pass(column, row):
                return float(column), float(row)
    return None


def _hit_and_run(world: World, player: int, told: dict[int, Command], army: list[Unit]) -> None:
    workers, melee, shooters = (world.of(1 - player, name) for name in ("Worker", "Melee", "Range"))
    hunted = melee or ([] if shooters else workers)
    if hunted:
        for unit in world.of(player, "Range"):
            _kite(world, told, unit, hunted)
    if shooters:
        for unit in army:
            _attack(world, told, unit, shooters[0])


def _kite(world: World, told: dict[int, Command], unit: Unit, targets: list[Unit]) -> None:
    """Shoot from far away, and run from what is near."""
    target = _nearest(unit.x, unit.y, targets)
    distance = squared(target.x - unit.x, target.y - unit.y)
    if 4.0 <= distance <= 6.0:
        return
    refuge = _refuge(world, unit, targets) if distance < 4.0 else None
    if refuge is None:
        _attack(world, told, unit, target)
    else:
        told[unit.uid] = Command(MOVE, *refuge)


def _nearest(x: float, y: float, units: Iterable[Unit]) -> Unit:
    return min(units, key=lambda unit: squared(unit.x - x, unit.y - y))


def _refuge(world: World, unit: Unit, targets: list[Unit]) -> tuple[float, float] | None:
    """Return the nearest cell at ten steps from the targets, by breadth-first search."""
    size = world.rules.size
    reached = {world.cell(target.x, target.y) for target in targets}
    border = reached
    for _ in range(FLEE):
        near = set[int]()
        for cell in border:
            for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                x, y = cell % size + dx, cell // size + dy
                if world.can_pass(x, y, unit):
                    near.add(y * size + x)
        border = near - reached
        reached = reached | border
    if not border:
        return None
    cell = min(sorted(border), key=lambda c: squared(c % size - unit.x, c // size - unit.y))
    return float(cell % size), float(cell // size)


def _intruder(
    world: World, player: int, base: Unit, resource: Unit, enemies: list[Unit]
) -> Unit | None:
    """Whom to defend against: who has done damage, else who is near the base or the resource."""
    damaged = _attacker(world, player)
    if damaged is not None:
        return damaged
    for place, within in ((base, 4.0), (resource, 6.0)):
        near = [u for u in enemies if squared(u.x - place.x, u.y - place.y) < within]
        if near:
            return _nearest(place.x, place.y, near)
    return None


def _attacker(world: World, player: int) -> Unit | None:
    """Return the first living unit that last damaged any of a player's workers or bases."""
    for unit in world.of(player, "Worker", "Base"):
        if unit.damaged_by in world.units:
            return world.units[unit.damaged_by]
    return None


def advantage(world: World, player: int) -> float:
    """Return the advantage of a player over the other one, from -1 to 1.

    Units count what they cost, by their share of hit points; money is added; resources are not.
    """
    worth = [float(money) for money in world.resource]
    for unit in world.units.values():
        kind = world.kind(unit)
        if kind.name != "Resource":
            worth[unit.player] += kind.cost * unit.hp / kind.hp
    return (worth[player] - worth[1 - player]) / sum(worth)


def _builds(world: World, player: int, name: str) -> bool:
    number = world.rules.number[name]
    commands = [unit.command for unit in world.of(player)]
    return any(c is not None and c.kind == BUILD and c.builds == number for c in commands)


def _economy(world: World, player: int) -> set[int]:
    """Return the first actions of both built-in players: three workers, then a barracks."""
    workers, money = len(world.of(player, "Worker")), world.resource[player]
    if workers < 3 and money >= 50:
        return {BUILD_WORKER}
    has_barracks = world.first(player, "Barracks") is not None
    if (
        workers >= 3
        and not has_barracks
        and money >= 200
        and not _builds(world, player, "Barracks")
    ):
        return {BUILD_BARRACKS}
    return set()


def _is_disturbed(world: World, player: int) -> bool:
    """Return True if a player sees an enemy, or somebody has damaged a worker or the base."""
    return bool(_seen(world, player)) or _attacker(world, player) is not None


def simple(world: World, player: int) -> set[int]:
    """Play SIMPLE: five melee units, then an attack. It sees everything."""
    actions = _economy(world, player)
    if world.first(player, "Barracks") is not None and world.resource[player] >= 100:
        actions.add(BUILD_MELEE)
    if len(world.of(player, "Melee")) >= 5:
        actions.add(ATTACK_BASE)
    if _is_disturbed(world, player):
        actions |= {ATTACK_IN_RANGE, DEFEND}
    return actions


def hit_n_run(world: World, player: int) -> set[int]:
    """HIT_N_RUN: units that shoot and flee. It sees everything."""
    actions = _economy(world, player)
    if world.first(player, "Barracks") is not None and world.resource[player] >= 100:
        actions.add(BUILD_RANGE)
    if len(world.of(player, "Range")) >= 2:
        is_left = world.of(1 - player, "Worker", "Melee", "Range")
        actions.add(HIT_AND_RUN if is_left else ATTACK_BASE)
    if _is_disturbed(world, player):
        actions.add(DEFEND)
    return actions
