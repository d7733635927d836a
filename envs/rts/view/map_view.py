"""A strategy game at a moment, read from its arrays for pictures and maps in characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import (
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
from ..rules import Rules, UnitKind

__all__ = ["MapView", "ShownUnit"]


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
