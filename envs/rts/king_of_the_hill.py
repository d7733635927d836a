"""King of the hill: a game of the engine in one file, as ``README.md`` explains it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from entity_env.spaces import Discrete, Entity, ObsSpace

from .rules import ATTACK, MOVE, Rules, UnitKind
from .strategic import StrategicDuel, StrategicEnv, StrategicGame
from .world import Command, Unit, World, squared

__all__ = ["KING_OF_THE_HILL", "KingOfTheHill", "KingOfTheHillDuel", "KingOfTheHillEnv", "climb"]

KING_OF_THE_HILL = Rules(
    kinds=(
        UnitKind(
            "Guard",
            hp=60,
            speed=0.1,
            attack=10,
            range=1,
            vision=6,
            attack_ticks=15,
            commands=(MOVE, ATTACK),
        ),
    ),
    max_tick=3000,
    most_units=8,
)
NOTHING, CLIMB, FIGHT = range(3)
HILL, NEAR, TO_WIN = 9.5, 4.0, 400
"""Its middle, how far from it the hill reaches, squared, and for how many ticks it is held."""


class KingOfTheHill(StrategicGame):
    """Whoever has been alone on the hill for 400 ticks wins; who loses all guards has lost."""

    rules = KING_OF_THE_HILL
    orders = ("Nothing", "Climb", "Fight")
    shows = ObsSpace(
        global_features=["own ticks", "enemy ticks", "tick"],
        entities={
            "Own": Entity(["x", "y", "hp", Discrete("command", 3)]),
            "Enemy": Entity(["x", "y", "hp"]),
        },
    )

    def setup(self, world: World) -> None:
        """Four guards on each side, in rows drawn by chance."""
        for player in range(2):
            for i in range(4):
                world.create(player, "Guard", 18 * player + i % 2, 4 * i + world.draw(0, 3))

    def each_tick(self, world: World) -> None:
        """Give a point to a player who is alone on the hill."""
        on_it = {
            unit.player
            for unit in world.units.values()
            if squared(unit.x - HILL, unit.y - HILL) < NEAR
        }
        if len(on_it) == 1:
            world.score[on_it.pop()] += 1

    def winner(self, world: World) -> int | None:
        """Return the player who has held the hill, or has guards alone."""
        left = [bool(world.of(player)) for player in range(2)]
        if not all(left):
            return left.index(True) if any(left) else -1
        return next((player for player in range(2) if world.score[player] >= TO_WIN), None)

    def assign(self, world: World, player: int, actions: Collection[int]) -> dict[int, Command]:
        """Go to the hill, or attack the nearest enemy in sight."""
        told: dict[int, Command] = {}
        seen = [unit for unit in world.of(1 - player) if world.sees(player, unit.x, unit.y)]
        for unit in world.of(player):
            if CLIMB in actions and squared(unit.x - HILL, unit.y - HILL) >= NEAR:
                told[unit.uid] = Command(MOVE, HILL, HILL)
            if FIGHT in actions and seen:
                target = min(seen, key=lambda other: _apart(unit, other))
                told[unit.uid] = Command(ATTACK, target=target.uid)
        return told

    def show(
        self, world: World, player: int, fog: bool
    ) -> tuple[dict[str, list[list[float]]], list[float]]:
        """Own guards and enemies in sight."""
        own = [
            [u.x, u.y, u.hp / 60, 0 if u.command is None else u.command.kind]
            for u in world.of(player)
        ]
        others = [
            [u.x, u.y, u.hp / 60]
            for u in world.of(1 - player)
            if not fog or world.sees(player, u.x, u.y)
        ]
        ticks = [float(world.score[player]), float(world.score[1 - player]), float(world.tick)]
        return {"Own": own, "Enemy": others}, ticks

    def marks(self, world: World, player: int) -> tuple[float, ...]:
        """Return the time for which each player has held the hill."""
        return world.score[player], world.score[1 - player]

    def reward(self, before: tuple[float, ...], after: tuple[float, ...]) -> float:
        """Return a part of a win for each tick on the hill."""
        return ((after[0] - before[0]) - (after[1] - before[1])) / TO_WIN


def climb(world: World, player: int) -> set[int]:
    """Return a built-in player: climb, and fight whoever is in sight."""
    return {CLIMB, FIGHT}


def _apart(one: Unit, other: Unit) -> float:
    return squared(one.x - other.x, one.y - other.y)


KingOfTheHill.scripts = {"climb": climb}


class KingOfTheHillEnv(StrategicEnv):
    """King of the hill against ``climb`` or ``random``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(KingOfTheHill(), **settings)


class KingOfTheHillDuel(StrategicDuel):
    """King of the hill for two players."""

    def __init__(self, frame_skip: int = 50, max_tick: int = 3000, fog: bool = True) -> None:
        super().__init__(KingOfTheHill(), frame_skip, max_tick, fog)
