"""The map of a running game in characters, for the terminal."""

from __future__ import annotations

import numpy as np

from ..rules import COMMANDS
from .map_view import MapView, ShownUnit

__all__ = ["write_map"]


def write_map(view: MapView, player: int, fog: bool) -> str:
    """Return the map of a player as text.

    Own units are capital letters, the enemy's small ones, bases ``H`` and ``h``, a resource is
    ``$``, a wall ``#``, ground in sight ``.``; what is not seen is blank. Below, each own unit with
    its hit points and what it does.

    Args:
        view: The game.
        player: The player who looks.
        fog: True if the player sees only what is in its units' sight.
    """
    visible = view.visible(player if fog else None)
    rows = np.where(view.walls, "#", np.where(visible, ".", " ")).tolist()
    for unit in sorted(view.units.values(), key=lambda own: own.kind.is_building):
        row, column = unit.cell
        if unit.player == player or visible[row, column] or unit.is_known:
            rows[row][column] = _letter(unit, player)
    border = "+" + "-" * (2 * view.rules.size + 1) + "+"
    lines = [border, *(f"| {' '.join(row)} |" for row in rows), border]
    lines.append(f"tick {view.tick}, money {view.money[player]}")
    for unit in view.of(player):
        place = f"({unit.x:4.1f}, {unit.y:4.1f})"
        lines.append(f"  {unit.kind.name:9} {place}  {unit.hp:4} hp  {_does(view, unit)}")
    return "\n".join(lines)


def _letter(unit: ShownUnit, player: int) -> str:
    if unit.kind.is_resource:
        return "$"
    letter = "H" if unit.kind.name.endswith("Base") else unit.kind.name[0]
    return letter.upper() if unit.player == player else letter.lower()


def _does(view: MapView, unit: ShownUnit) -> str:
    """Return the command of a unit as text."""
    if not unit.command:
        return "idle"
    name = (*COMMANDS, *view.rules.extra_commands)[unit.command]
    if unit.target >= 0:
        return f"{name} {view.units[unit.target].kind.name}"
    return name if unit.builds is None else f"{name} {unit.builds.name}"
