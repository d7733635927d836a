"""A picture of a running game: the map, units with hit points and orders, bullets, fog, money."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.drawing.canvas import Canvas, Color, Shape
from entity_env.drawing.legend import Sign, add_legend
from entity_env.errors import ResetNeededError

from ..rules import ATTACK, BUILD, GATHER, MOVE, UnitKind
from ..world import Unit, World

__all__ = ["draw_world"]

PLAYERS: tuple[Color, Color] = ((33, 88, 190), (200, 45, 40))
SEEN, FOG, WALL, LINE = (247, 246, 240), (205, 207, 212), (90, 86, 80), (228, 226, 218)
TEXT, GAUGE, LOAD = (40, 40, 40), (60, 60, 60), (224, 178, 40)
RANGE: Color = (130, 150, 200)
ORDERS: dict[int, Color] = {
    MOVE: (120, 120, 120),
    ATTACK: (214, 90, 30),
    GATHER: (196, 160, 30),
    BUILD: (40, 140, 70),
}
OTHER_ORDER: Color = (130, 70, 160)
SHAPES: dict[str, tuple[Shape, float]] = {
    "Resource": ("diamond", 0.42),
    "Base": ("square", 0.55),
    "TowerBase": ("square", 0.55),
    "FlagBase": ("square", 0.55),
    "Flag": ("diamond", 0.42),
    "Barracks": ("square", 0.45),
    "Tower": ("square", 0.40),
    "Worker": ("circle", 0.24),
}
USUAL: tuple[Shape, float] = ("circle", 0.34)
LETTERS = {"Base": "H", "TowerBase": "H", "FlagBase": "H", "Resource": "$"}
"""Letters of kinds that are not the first ones of their names."""
ORDER_NAMES = {MOVE: "moves to", ATTACK: "attacks", GATHER: "gathers", BUILD: "builds"}


def draw_world(world: World | None, player: int | None = None, cell: int = 24, **_: Any) -> Any:
    """Draw a game.

    Args:
        world: The game.
        player: Whose fog is drawn: cells that this player does not see are grey, and enemies there
            hollow; None: there is no fog.
        cell: Pixels of a cell.

    Returns:
        The picture. Shape: (H, W, 3), uint8.

    Raises:
        ResetNeededError: No game is running.
    """
    if world is None:
        raise ResetNeededError("no game is running", hint="call reset() first")
    size, head = world.rules.size, 2 * cell
    canvas = Canvas(size * cell, size * cell + head)
    canvas.box(0, 0, size * cell, head, (255, 255, 255))
    visible = _visible(world, player)
    for row in range(size):
        for column in range(size):
            fill: Color = SEEN if visible[row, column] else FOG
            if world.walls[row][column]:
                fill = WALL
            left, top = column * cell, row * cell + head
            canvas.box(left, top, left + cell, top + cell, LINE)
            canvas.box(left, top, left + cell - 1, top + cell - 1, fill)
    places = {u: _pixel(unit.x, unit.y, cell, head) for u, unit in world.units.items()}
    for unit in world.units.values():
        _draw_order(canvas, world, unit, places, cell, head)
    for unit in world.units.values():
        is_hidden = unit.player != player and not visible[_cell_of(unit)]
        _draw_unit(canvas, world, unit, places[unit.uid], cell, is_hidden)
    for bullet in world.bullets:
        x, y = _pixel(bullet.x, bullet.y, cell, head)
        canvas.dot(x, y, 0.1 * cell, (20, 20, 20), "circle", edge=(20, 20, 20))
    for side in (0, 1):
        _draw_side(canvas, world, side, cell, size * cell)
    canvas.text(size * cell / 2, cell * 0.55, f"tick {world.tick}", cell * 0.55, TEXT, "mm")
    if world.is_over:
        won = "nobody wins" if world.winner < 0 else f"{('blue', 'red')[world.winner]} wins"
        color = TEXT if world.winner < 0 else PLAYERS[world.winner]
        canvas.text(size * cell / 2, cell * 1.4, won, cell * 0.6, color, "mm")
    return add_legend(canvas.picture(), _signs(world, player), 0.5 * cell)


def _signs(world: World, player: int | None) -> list[Sign]:
    """Return the legend of a game; all pictures of one game have the same."""
    rules, signs = world.rules, []
    for kind in rules.kinds:
        color = LOAD if kind.name == "Resource" else TEXT
        shape = SHAPES.get(kind.name, USUAL)[0]
        signs.append(Sign(kind.name, color, shape, LETTERS.get(kind.name, kind.name[0])))
    signs += [Sign(name, own) for name, own in zip(("blue", "red"), PLAYERS, strict=True)]
    can = {command for kind in rules.kinds for command in kind.commands}
    signs += [
        Sign(name, ORDERS[order], "arrow") for order, name in ORDER_NAMES.items() if order in can
    ]
    if rules.extra_commands:
        signs.append(Sign("another order", OTHER_ORDER, "arrow"))
    if "Flag" in rules.number:
        signs.append(Sign("carries the flag", LOAD, "diamond", edge=TEXT))
    if GATHER in can:
        signs.append(Sign("carries a load", LOAD, "diamond", edge=TEXT))
    if rules.has_walls:
        signs.append(Sign("wall", WALL, "box"))
    if any(_ring(kind) for kind in rules.kinds):
        signs.append(Sign("range of a tower", RANGE, "circle", hollow=True))
    if player is not None:
        signs += [Sign("fog", FOG, "box"), Sign("hidden by it", TEXT, hollow=True)]
    return signs


def _ring(kind: UnitKind) -> float:
    """Return the range of a kind that shoots without moving, in cells; else 0."""
    return float(kind.range) if kind.range > 1 and kind.speed == 0 else 0.0


def _visible(world: World, player: int | None) -> npt.NDArray[np.bool_]:
    """Return a mask of the cells that a player sees. Shape: (size, size)."""
    size = world.rules.size
    if player is None:
        return np.ones((size, size), np.bool_)
    rows, columns = np.indices((size, size))
    seen = np.zeros((size, size), np.bool_)
    for unit in world.of(player):
        row, column = _cell_of(unit)
        seen |= abs(rows - row) + abs(columns - column) <= world.kind(unit).vision
    return seen


def _cell_of(unit: Unit) -> tuple[int, int]:
    return int(unit.y + 0.5), int(unit.x + 0.5)


def _pixel(x: float, y: float, cell: int, head: int) -> tuple[float, float]:
    return (x + 0.5) * cell, (y + 0.5) * cell + head


def _draw_order(
    canvas: Canvas,
    world: World,
    unit: Unit,
    places: dict[int, tuple[float, float]],
    cell: int,
    head: int,
) -> None:
    """Draw an arrow to the target of a unit's command."""
    command = unit.command
    if command is None:
        return
    end = places.get(command.target)
    if end is None and command.x >= 0:
        end = _pixel(command.x, command.y, cell, head)
    start = places[unit.uid]
    if end is None or abs(complex(*end) - complex(*start)) < 0.5 * cell:
        return
    color = ORDERS.get(command.kind, OTHER_ORDER)
    canvas.arrow(complex(*start), complex(*end), 1.2, color, head=0.3 * cell)


def _draw_unit(
    canvas: Canvas, world: World, unit: Unit, place: tuple[float, float], cell: int, hollow: bool
) -> None:
    """Draw the shape and first letter of a unit's kind, and its hit points."""
    kind, (x, y) = world.kind(unit), place
    shape, radius = SHAPES.get(kind.name, USUAL)
    color: Color = LOAD if kind.name == "Resource" else PLAYERS[unit.player]
    canvas.dot(x, y, radius * cell, color, shape, edge=PLAYERS[unit.player], hollow=hollow)
    letter: Color = color if hollow else (255, 255, 255)
    if _ring(kind):
        canvas.ring(x, y, _ring(kind) * cell, 1.0, RANGE)
    canvas.text(x, y, LETTERS.get(kind.name, kind.name[0]), radius * 1.25 * cell, letter, "mm")
    if unit.carries:
        canvas.dot(x + 0.3 * cell, y - 0.3 * cell, 0.2 * cell, LOAD, "diamond", edge=TEXT)
    share, half = unit.hp / kind.hp, 0.42 * cell
    top = y - (radius + 0.22) * cell
    canvas.box(x - half, top, x + half, top + 0.12 * cell, GAUGE)
    good: Color = (
        (60, 180, 75) if share > 0.5 else (240, 170, 30) if share > 0.25 else (220, 40, 40)
    )
    canvas.box(x - half, top, x - half + 2 * half * share, top + 0.12 * cell, good)


def _draw_side(canvas: Canvas, world: World, player: int, cell: int, width: int) -> None:
    """Money or points, and how many units there are of each kind."""
    counts = Counter(world.kind(unit).name for unit in world.of(player))
    counts.pop("Resource", None)
    has_costs = any(kind.cost for kind in world.rules.kinds)
    has = f"{world.resource[player]}" if has_costs else f"{world.score[player]} points"
    money = f"{('blue', 'red')[player]}: {has}"
    army = " ".join(f"{n} {name}" for name, n in counts.items())
    x, anchor = (4, "lm") if player == 0 else (width - 4, "rm")
    canvas.text(x, cell * 0.55, money, cell * 0.55, PLAYERS[player], anchor)
    canvas.text(x, cell * 1.4, army, cell * 0.42, PLAYERS[player], anchor)
