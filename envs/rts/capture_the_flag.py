"""Capture the Flag: athletes carry a flag to their own base; five actions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from entity_env.spaces import Discrete, Entity, ObsSpace

from .rules import ATTACK, COMMANDS, MOVE, Rules, UnitKind
from .strategic import StrategicDuel, StrategicEnv, StrategicGame
from .world import Command, Unit, World, squared

__all__ = [
    "ACTIONS",
    "CAPTURE_THE_FLAG",
    "OBS_SPACE",
    "CaptureTheFlag",
    "CaptureTheFlagDuel",
    "CaptureTheFlagEnv",
    "built_in",
    "order",
    "progress",
]

GET_FLAG, ESCORT = len(COMMANDS), len(COMMANDS) + 1

CAPTURE_THE_FLAG = Rules(
    kinds=(
        UnitKind("FlagBase", vision=5, build_ticks=1, is_building=True),
        UnitKind(
            "Athlete",
            hp=100,
            speed=0.1,
            attack=10,
            range=1,
            vision=3,
            attack_ticks=15,
            commands=(MOVE, ATTACK, GET_FLAG, ESCORT),
        ),
        UnitKind("Flag", is_building=True),
    ),
    most_units=16,
    extra_commands=("get flag", "escort"),
)

ACTIONS = ("Nothing", "GetFlag", "AttackCarrier", "Escort", "Protect")
NOTHING, GET, ATTACK_CARRIER, ESCORT_FLAG, PROTECT = range(5)

LYING, OURS, THEIRS, COMING = range(4)
OBS_SPACE = ObsSpace(
    global_features=["own score", "enemy score", "tick"],
    entities={
        "Own": Entity(["x", "y", "hp", Discrete("carries", 2), Discrete("command", 7)]),
        "Enemy": Entity(["x", "y", "hp", Discrete("carries", 2)]),
        "Base": Entity(["x", "y", Discrete("own", 2)]),
        "Flag": Entity(["x", "y", Discrete("held", 4, names=("lies", "ours", "theirs", "comes"))]),
    },
)
"""``held`` of the flag: it lies on the ground, an own athlete or an enemy's has it, or it comes."""

TO_WIN = 5
BACK_AFTER = 100
"""Ticks until an athlete who died is back."""
FOR_A_POINT, FOR_A_CELL = 0.2, 0.01
"""The reward of a point, and of the flag being a cell nearer to the own base."""
NOT_DRAWN = -1


class CaptureTheFlag(StrategicGame):
    """Whoever brings the flag home five times first wins.

    Differs from the original engine: athletes who die in one tick all come back, and a flag whose
    place is taken waits until it is free.
    """

    rules = CAPTURE_THE_FLAG
    shows, orders = OBS_SPACE, ACTIONS

    def setup(self, world: World) -> None:
        """Place a base and five athletes each, and the flag in the middle."""
        for player in range(2):
            world.create(player, "FlagBase", 18.0 if player else 1.0, 9.5)
        # Who comes back when, where the flag waits, and the row where it comes after a point.
        world.notes = {"back": [], "flags": [], "row": NOT_DRAWN}
        for player in range(2):
            for i in range(5):
                y = 11 * world.draw(0, 1) + world.draw(0, 8)
                world.create(player, "Athlete", 15 * player + i, y)
        self._place_flag(world, 9.5, 9.5)

    def winner(self, world: World) -> int | None:
        """Return the player with five points, or None."""
        return next((player for player in range(2) if world.score[player] >= TO_WIN), None)

    def each_tick(self, world: World) -> None:
        """Bring back the fallen and a dropped flag."""
        notes = world.notes
        if notes["row"] == NOT_DRAWN:
            notes["row"] = world.draw(5, 14)
        for due in [due for due in notes["back"] if due[0] <= world.tick]:
            base = world.first(due[1], "FlagBase")
            assert base is not None  # nothing attacks it: athletes do not see it as a target
            spot = next(world.free_spots(base.x, base.y), None)
            if spot is not None:
                world.create(due[1], "Athlete", *spot)
                notes["back"].remove(due)
        for place in list(notes["flags"]):
            if world.can_pass(*place):
                notes["flags"].remove(place)
                self._place_flag(world, *place)

    def run(self, world: World, unit: Unit, command: Command) -> bool:
        """Get the flag, or bring it home."""
        if command.kind == GET_FLAG:
            flag = _flag(world)
            if flag is None:
                return True
            if squared(flag.x - unit.x, flag.y - unit.y) < 0.5:
                world.queue.append(("take", unit.uid))
                return True
            world.step_to(unit, flag.x, flag.y)
            return False
        base = world.first(unit.player, "FlagBase")
        if base is None or not unit.carries:
            return True
        if squared(base.x - unit.x, base.y - unit.y) < 0.5:
            world.queue.append(("score", unit.uid))
            return True
        world.step_to(unit, base.x, base.y)
        return False

    def execute(self, world: World, what: str, arguments: tuple[int, ...]) -> None:
        """Take the flag, or score with it."""
        unit, flag = world.units.get(arguments[0]), _flag(world)
        if unit is None:
            return
        if what == "take" and flag is not None:
            world.remove(flag)
            unit.carries = True
        elif what == "score" and unit.carries:
            unit.carries = False
            world.score[unit.player] += 1
            world.notes["flags"].append((9.0, float(world.notes["row"])))
            world.notes["row"] = NOT_DRAWN

    def removed(self, world: World, unit: Unit) -> None:
        """Note the athlete's return, and the flag that it carried."""
        if world.kind(unit).name != "Athlete":
            return
        world.notes["back"].append((world.tick + BACK_AFTER, unit.player))
        if unit.carries:
            world.notes["flags"].append((unit.x, unit.y))

    def assign(self, world: World, player: int, actions: Collection[int]) -> dict[int, Command]:
        """Return the command of each athlete."""
        return _assign(world, player, actions)

    def show(
        self, world: World, player: int, fog: bool
    ) -> tuple[dict[str, list[list[float]]], list[float]]:
        """Own athletes, enemies in sight, both bases and, as everybody knows, the flag's place."""
        shown: dict[str, list[list[float]]] = {"Own": [], "Enemy": [], "Base": []}
        for unit in world.of(player, "Athlete"):
            does = 0 if unit.command is None else unit.command.kind
            shown["Own"].append([unit.x, unit.y, unit.hp / 100, unit.carries, does])
        for unit in world.of(1 - player, "Athlete"):
            if not fog or world.sees(player, unit.x, unit.y):
                shown["Enemy"].append([unit.x, unit.y, unit.hp / 100, unit.carries])
        for side in (player, 1 - player):
            base = world.first(side, "FlagBase")
            if base is not None:
                shown["Base"].append([base.x, base.y, side == player])
        shown["Flag"] = [list(_where_the_flag_is(world, player))]
        return shown, [world.score[player], world.score[1 - player], world.tick]

    def marks(self, world: World, player: int) -> tuple[float, ...]:
        """Both scores, and how near the flag is."""
        return world.score[player], world.score[1 - player], progress(world, player)

    def reward(self, before: tuple[float, ...], after: tuple[float, ...]) -> float:
        """Return the worth of points, or of the flag's progress."""
        own, theirs = after[0] - before[0], after[1] - before[1]
        if own or theirs:
            return FOR_A_POINT * (own - theirs)
        return FOR_A_CELL * (after[2] - before[2])

    def _place_flag(self, world: World, x: float, y: float) -> None:
        """Place the flag, which player 0 keeps and nothing attacks."""
        if world.create(0, "Flag", x, y) is None:
            world.notes["flags"].append((x, y))


def order(world: World, player: int, actions: Collection[int]) -> None:
    """Let a player act by one of the five actions, or by several."""
    for uid, command in _assign(world, player, actions).items():
        world.send(player, uid, command)


def _assign(world: World, player: int, actions: Collection[int]) -> dict[int, Command]:
    """Return the command of each athlete."""
    mine = world.of(player, "Athlete")
    carrier = next((u for u in mine if u.carries), None)
    theirs = next((u for u in world.of(1 - player, "Athlete") if u.carries), None)
    told: dict[int, Command] = {}
    if GET in actions and _flag(world) is not None:
        told |= {u.uid: Command(GET_FLAG) for u in mine if not _does(u, GET_FLAG)}
    if ATTACK_CARRIER in actions and theirs is not None:
        for unit in mine:
            if not _does(unit, ATTACK, theirs.uid):
                told[unit.uid] = Command(ATTACK, target=theirs.uid)
    if ESCORT_FLAG in actions and carrier is not None and not _does(carrier, ESCORT):
        told[carrier.uid] = Command(ESCORT)
    if PROTECT in actions and carrier is not None and carrier.damaged_by in world.units:
        for unit in mine:
            if not unit.carries and not _does(unit, ATTACK, carrier.damaged_by):
                told[unit.uid] = Command(ATTACK, target=carrier.damaged_by)
    return told


def built_in(world: World, player: int) -> set[int]:
    """Return the built-in player: get the flag, bring it home, or stop who has it."""
    if _flag(world) is not None:
        return {GET}
    if any(unit.carries for unit in world.of(player, "Athlete")):
        return {ESCORT_FLAG, PROTECT}
    return {ATTACK_CARRIER}


def progress(world: World, player: int) -> float:
    """Return the progress of the flag towards a player's base, in cells."""
    base = world.first(player, "FlagBase")
    assert base is not None  # nothing damages it
    x, y, _ = _where_the_flag_is(world, player)
    return -float(squared(base.x - x, base.y - y) ** 0.5)


def _where_the_flag_is(world: World, player: int) -> tuple[float, float, int]:
    """Its place, and who has it."""
    flag = _flag(world)
    if flag is not None:
        return flag.x, flag.y, LYING
    carrier = next((unit for unit in world.units.values() if unit.carries), None)
    if carrier is not None:
        return carrier.x, carrier.y, OURS if carrier.player == player else THEIRS
    return (*world.notes["flags"][0], COMING)


def _flag(world: World) -> Unit | None:
    return world.first(0, "Flag")


def _does(unit: Unit, command: int, target: int = -1) -> bool:
    own = unit.command
    return own is not None and own.kind == command and (target < 0 or own.target == target)


CaptureTheFlag.scripts = {"built_in": built_in}


class CaptureTheFlagEnv(StrategicEnv):
    """Capture the Flag against the built-in player: bring the flag home five times.

    Entities:
        ``Own`` [x, y, hp, carries, command], ``Enemy`` [x, y, hp, carries] in sight, ``Base``
        [x, y, own], ``Flag`` [x, y, held]: everybody knows where it is. ``hp`` is a share. Global:
        both scores, and the tick.
    Actions:
        ``Order``: nothing; all get the flag; all attack the enemy's carrier; the own carrier goes
        home; the others attack who last damaged the own carrier.
    Reward:
        1 for a win, -1 for a defeat; 0.2 for a point, -0.2 for one of the enemy's; in between a
        hundredth for each cell that the flag comes nearer to the own base.
    End:
        Five points, ``max_tick``, or a crowd in which nobody can move.
    Randomness:
        Where athletes begin, and where the flag comes after a point.
    Source:
        Tian et al. 2017, "ELF: An Extensive, Lightweight and Flexible Research Platform for
        Real-time Strategy Games".

    Args:
        settings: Those of ``Settings``; opponents are ``built_in`` and ``random``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(CaptureTheFlag(), **settings)


class CaptureTheFlagDuel(StrategicDuel):
    """Capture the Flag for two players; see ``CaptureTheFlagEnv``.

    Args:
        settings: ``frame_skip``, ``max_tick`` and ``fog``, as of ``StrategicDuel``.
    """

    def __init__(self, frame_skip: int = 50, max_tick: int = 30_000, fog: bool = True) -> None:
        super().__init__(CaptureTheFlag(), frame_skip, max_tick, fog)
