"""Pictures of strategy games, and their maps in characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.drawing.canvas import Canvas, Color, Shape
from entity_env.drawing.legend import Sign, add_legend

from .arrays import (
    ALIVE,
    BUILDS,
    BULLETS,
    CARRIES,
    COMMAND,
    HP,
    KIND,
    MONEY,
    OVER,
    QUEUE_ROOM,
    SCORE,
    SEEN,
    SLOTS,
    TAIL,
    TARGET,
    TICK,
    TO_X,
    TO_Y,
    WALLED,
    WALLS,
    WINNER,
    World,
    X,
    Y,
)
from .rules import ATTACK, BUILD, COMMANDS, GATHER, MOVE, Rules, UnitKind

__all__ = ["MapView", "ShownUnit", "draw_map", "write_map"]


@dataclass(frozen=True)
class ShownUnit:
    """A unit or a building.

    Args:
        player: The number of its player.
        kind: The numbers of its kind.
        x: Its centre, in cells; cell (0, 0) reaches from -0.5 to 0.5.
        y: Its centre, downwards.
        hp: The hit points that are left.
        carries: True if it carries something.
        is_known: True if the enemy has seen it, or knows the place from the beginning.
        command: Number of its command; 0 for none.
        target: The slot of the unit that the command concerns, or -1.
        builds: The kind that it builds, or None.
        to: Target of the command; (-1, -1) without one.
    """

    player: int
    kind: UnitKind
    x: float
    y: float
    hp: int
    carries: bool
    is_known: bool
    command: int
    target: int
    builds: UnitKind | None
    to: tuple[float, float]

    @property
    def cell(self) -> tuple[int, int]:
        """The row and the column of the cell that it stands in."""
        return int(self.y + 0.5), int(self.x + 0.5)


@dataclass(frozen=True)
class MapView:
    """All that a picture shows of a game.

    Args:
        rules: The rules of the game.
        tick: The number of the next tick.
        is_over: True if the game is over.
        winner: The player who has won, or -1.
        money: The money of each player.
        score: The points of each player.
        walls: The cells with a wall. Shape: (size, size), rows from top to bottom.
        units: The living units by slot, those of player 0 first.
        bullets: The places of bullets in the air.
    """

    rules: Rules
    tick: int
    is_over: bool
    winner: int
    money: tuple[int, int]
    score: tuple[int, int]
    walls: npt.NDArray[np.bool_]
    units: Mapping[int, ShownUnit]
    bullets: list[tuple[float, float]]

    @classmethod
    def of_world(cls, rules: Rules, w: World) -> MapView:
        """Read the arrays of one game."""
        n, size = w.numbers, rules.size
        walls = n[WALLS : WALLS + size * size].reshape(size, size) > 0
        slots = [
            i
            for player in range(2)
            for i in range(player * n[SLOTS], player * n[SLOTS] + n[TAIL + player])
        ]
        flying = w.flights[QUEUE_ROOM : QUEUE_ROOM + n[BULLETS]].tolist()
        return cls(
            rules=rules,
            tick=int(n[TICK]),
            is_over=bool(n[OVER]),
            winner=int(n[WINNER]),
            money=(int(n[MONEY]), int(n[MONEY + 1])),
            score=(int(n[SCORE]), int(n[SCORE + 1])),
            walls=walls & bool(n[WALLED]),
            units={i: _unit(rules, w, i) for i in slots if w.units[i, ALIVE]},
            bullets=[(x, y) for x, y in flying],
        )

    def of(self, player: int) -> list[ShownUnit]:
        """Return a player's units in order of creation."""
        return [unit for unit in self.units.values() if unit.player == player]

    def visible(self, player: int | None) -> npt.NDArray[np.bool_]:
        """Return the cells that a player sees; None sees all. Shape: (size, size)."""
        size = self.rules.size
        if player is None:
            return np.ones((size, size), np.bool_)
        rows, columns = np.indices((size, size))
        seen = np.zeros((size, size), np.bool_)
        for unit in self.of(player):
            row, column = unit.cell
            seen |= abs(rows - row) + abs(columns - column) <= unit.kind.vision
        return seen


def _unit(rules: Rules, w: World, i: int) -> ShownUnit:
    own, place = w.units[i].tolist(), w.places[i].tolist()
    kind, target, builds = rules.kinds[own[KIND]], own[TARGET], own[BUILDS]
    does = own[COMMAND]
    return ShownUnit(
        player=int(i // w.numbers[SLOTS]),
        kind=kind,
        x=place[X],
        y=place[Y],
        hp=own[HP],
        carries=bool(own[CARRIES]),
        is_known=bool(own[SEEN]) or kind.is_known,
        command=does,
        target=target if does and target >= 0 and w.units[target, ALIVE] else -1,
        builds=rules.kinds[builds] if does and builds >= 0 else None,
        to=(place[TO_X], place[TO_Y]) if does else (-1.0, -1.0),
    )


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


PLAYERS: tuple[Color, Color] = ((33, 88, 190), (200, 45, 40))
LIT, FOG, WALL, LINE = (247, 246, 240), (205, 207, 212), (90, 86, 80), (228, 226, 218)
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


def draw_map(view: MapView, player: int | None = None, cell: int = 24, **_: Any) -> Any:
    """Draw a game.

    Args:
        view: The game.
        player: Player whose fog is drawn: cells that this player does not see are grey, and
            enemies there are hollow; None draws no fog.
        cell: Pixels of a cell.

    Returns:
        The picture. Shape: (H, W, 3), uint8.
    """
    size, head = view.rules.size, 2 * cell
    canvas = Canvas(size * cell, size * cell + head)
    canvas.box(0, 0, size * cell, head, (255, 255, 255))
    visible = view.visible(player)
    canvas.box(0, head, size * cell, size * cell + head, LINE)
    for row in range(size):
        for column in range(size):
            fill: Color = LIT if visible[row, column] else FOG
            if view.walls[row, column]:
                fill = WALL
            left, top = column * cell, row * cell + head
            canvas.box(left, top, left + cell - 1, top + cell - 1, fill)
    for unit in view.units.values():
        _draw_order(canvas, view, unit, cell, head)
    for unit in view.units.values():
        is_hidden = unit.player != player and not visible[unit.cell]
        _draw_unit(canvas, unit, _pixel(unit.x, unit.y, cell, head), cell, is_hidden)
    for place in view.bullets:
        x, y = _pixel(*place, cell, head)
        canvas.dot(x, y, 0.1 * cell, (20, 20, 20), "circle", edge=(20, 20, 20))
    for side in (0, 1):
        _draw_side(canvas, view, side, cell, size * cell)
    canvas.text(size * cell / 2, cell * 0.55, f"tick {view.tick}", cell * 0.55, TEXT, "mm")
    if view.is_over:
        won = "nobody wins" if view.winner < 0 else f"{('blue', 'red')[view.winner]} wins"
        color = TEXT if view.winner < 0 else PLAYERS[view.winner]
        canvas.text(size * cell / 2, cell * 1.4, won, cell * 0.6, color, "mm")
    return add_legend(canvas.picture(), _signs(view.rules, player), 0.5 * cell)


def _signs(rules: Rules, player: int | None) -> list[Sign]:
    """Return the legend of a game; all pictures of one game have the same."""
    signs = []
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


def _pixel(x: float, y: float, cell: int, head: int) -> tuple[float, float]:
    return (x + 0.5) * cell, (y + 0.5) * cell + head


def _draw_order(canvas: Canvas, view: MapView, unit: ShownUnit, cell: int, head: int) -> None:
    """Draw an arrow to the target of a unit's command."""
    target = view.units.get(unit.target)
    to = unit.to if target is None else (target.x, target.y)
    start, end = _pixel(unit.x, unit.y, cell, head), _pixel(*to, cell, head)
    if to[0] < 0 or abs(complex(*end) - complex(*start)) < 0.5 * cell:
        return
    color = ORDERS.get(unit.command, OTHER_ORDER)
    canvas.arrow(complex(*start), complex(*end), 1.2, color, head=0.3 * cell)


def _draw_unit(
    canvas: Canvas, unit: ShownUnit, place: tuple[float, float], cell: int, hollow: bool
) -> None:
    """Draw the shape and first letter of a unit's kind, and its hit points."""
    kind, (x, y) = unit.kind, place
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


def _draw_side(canvas: Canvas, view: MapView, player: int, cell: int, width: int) -> None:
    """Draw money or points, and the number of units of each kind."""
    counts = Counter(unit.kind.name for unit in view.of(player) if not unit.kind.is_resource)
    has_costs = any(kind.cost for kind in view.rules.kinds)
    has = f"{view.money[player]}" if has_costs else f"{view.score[player]} points"
    money = f"{('blue', 'red')[player]}: {has}"
    army = " ".join(f"{n} {name}" for name, n in counts.items())
    x, anchor = (4, "lm") if player == 0 else (width - 4, "rm")
    canvas.text(x, cell * 0.55, money, cell * 0.55, PLAYERS[player], anchor)
    canvas.text(x, cell * 1.4, army, cell * 0.42, PLAYERS[player], anchor)
