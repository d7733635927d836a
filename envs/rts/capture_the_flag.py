"""Capture the Flag: athletes carry a flag to their own base; five actions."""

from __future__ import annotations

from .rules import ATTACK, COMMANDS, MOVE, Rules, UnitKind
from .world import Command, Game, Unit, World, squared

__all__ = ["ACTIONS", "CAPTURE_THE_FLAG", "CaptureTheFlag", "built_in", "order", "progress"]

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

TO_WIN = 5
BACK_AFTER = 100
"""Ticks until an athlete who died is back."""


class CaptureTheFlag(Game):
    """Whoever brings the flag home five times first wins.

    Differs from the original engine: athletes who die in one tick all come back, and a flag whose
    place is taken waits until it is free.
    """

    rules = CAPTURE_THE_FLAG

    def setup(self, world: World) -> None:
        """A base and five athletes each, and the flag in the middle."""
        for player in range(2):
            world.create(player, "FlagBase", 18.0 if player else 1.0, 9.5)
        world.notes = {"back": [], "flags": []}
        for player in range(2):
            for i in range(5):
                y = 11 * world.draw(0, 1) + world.draw(0, 8)
                world.create(player, "Athlete", 15 * player + i, y)
        self._place_flag(world, 9.5, 9.5)

    def winner(self, world: World) -> int | None:
        """Who has five points."""
        return next((player for player in range(2) if world.score[player] >= TO_WIN), None)

    def each_tick(self, world: World) -> None:
        """The fallen come back, and a dropped flag appears."""
        notes = world.notes
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
            world.notes["flags"].append((9.0, float(world.draw(5, 14))))

    def removed(self, world: World, unit: Unit) -> None:
        """An athlete comes back later; what it carried lies where it fell in the next tick."""
        if world.kind(unit).name != "Athlete":
            return
        world.notes["back"].append((world.tick + BACK_AFTER, unit.player))
        if unit.carries:
            world.notes["flags"].append((unit.x, unit.y))

    def _place_flag(self, world: World, x: float, y: float) -> None:
        """The flag belongs to nobody; player 0 keeps it, and nothing attacks it."""
        if world.create(0, "Flag", x, y) is None:
            world.notes["flags"].append((x, y))


def order(world: World, player: int, actions: set[int]) -> None:
    """Let a player act by one of the five actions, or by several."""
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
    for uid, command in told.items():
        world.send(player, uid, command)


def built_in(world: World, player: int) -> set[int]:
    """The built-in player: get the flag, bring it home, or stop who has it."""
    if _flag(world) is not None:
        return {GET}
    if any(unit.carries for unit in world.of(player, "Athlete")):
        return {ESCORT_FLAG, PROTECT}
    return {ATTACK_CARRIER}


def progress(world: World, player: int) -> float:
    """How near the flag is to a player's base: the more, the better, in cells."""
    base = world.first(player, "FlagBase")
    bearer = _flag(world) or next((unit for unit in world.units.values() if unit.carries), None)
    if base is None or bearer is None:
        return 0.0
    return -float(squared(base.x - bearer.x, base.y - bearer.y) ** 0.5)


def _flag(world: World) -> Unit | None:
    return world.first(0, "Flag")


def _does(unit: Unit, command: int, target: int = -1) -> bool:
    own = unit.command
    return own is not None and own.kind == command and (target < 0 or own.target == target)
