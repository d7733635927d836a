"""The map of a running game in characters, for the terminal."""

from __future__ import annotations

from entity_env.errors import ResetNeededError

from ..rules import COMMANDS
from ..world import Unit, World

__all__ = ["write_world"]


def write_world(world: World | None, player: int, fog: bool) -> str:
    """Return the map of a player as text.

    Own units are capital letters, the enemy's small ones, bases ``H`` and ``h``, a resource is
    ``$``, a wall ``#``, ground in sight ``.``; what is not seen is blank. Below, each own unit with
    its hit points and what it does.

    Args:
        world: The game.
        player: Who looks.
        fog: Whether it sees only what is in its units' sight.

    Raises:
        ResetNeededError: No game is running.
    """
    if world is None:
        raise ResetNeededError("no game is running", hint="call reset() first")
    size = world.rules.size
    rows = [
        [_ground(world, player, fog, column, row) for column in range(size)] for row in range(size)
    ]
    for unit in sorted(world.units.values(), key=lambda own: world.kind(own).is_building):
        seen = unit.player == player or not fog or world.sees(player, unit.x, unit.y)
        if not (seen or unit.seen or world.kind(unit).name == "Base"):
            continue
        rows[int(unit.y + 0.5)][int(unit.x + 0.5)] = _letter(world, unit, player)
    border = "+" + "-" * (2 * size + 1) + "+"
    lines = [border, *(f"| {' '.join(row)} |" for row in rows), border]
    lines.append(f"tick {world.tick}, money {world.resource[player]}")
    for unit in world.of(player):
        kind = world.kind(unit)
        does = "idle" if unit.command is None else _does(world, unit)
        lines.append(f"  {kind.name:9} ({unit.x:4.1f}, {unit.y:4.1f})  {unit.hp:4} hp  {does}")
    return "\n".join(lines)


def _ground(world: World, player: int, fog: bool, column: int, row: int) -> str:
    if world.walls[row][column]:
        return "#"
    return "." if not fog or world.sees(player, column, row) else " "


def _letter(world: World, unit: Unit, player: int) -> str:
    name = world.kind(unit).name
    if name == "Resource":
        return "$"
    letter = "H" if name.endswith("Base") else name[0]
    return letter.upper() if unit.player == player else letter.lower()


def _does(world: World, unit: Unit) -> str:
    """Return the command of a unit as text."""
    command = unit.command
    assert command is not None
    names = (*COMMANDS, *world.rules.extra_commands)
    target = world.units.get(command.target)
    if target is not None:
        return f"{names[command.kind]} {world.kind(target).name}"
    if command.builds >= 0:
        return f"{names[command.kind]} {world.rules.kinds[command.builds].name}"
    return names[command.kind]
