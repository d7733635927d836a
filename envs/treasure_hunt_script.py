"""Scripted TreasureHunt players: the baselines that a trained network is measured against."""

from __future__ import annotations

from typing import Any, TypeAlias

from entity_env.actions import Action, GlobalCategoricalAction
from entity_env.observation import Observation

from .grid import MOVES, STEPS, Tile

__all__ = ["go_straight", "go_to_nearest"]

Tiles: TypeAlias = list[Tile]


def go_to_nearest(observation: Observation) -> dict[str, Action]:
    """Go the shortest way to the nearest treasure, and around traps; for ``relative=True``.

    Of the allowed steps that meet no trap it takes the one that leaves the nearest treasure
    nearest, of equal ones the one that leaves all treasures nearer in total.
    """
    treasures, traps, allowed = _read(observation)
    safe = [move for move in allowed if STEPS[move] not in traps]

    def ways(move: int) -> tuple[int, int]:
        lengths = [_way(STEPS[move], treasure, traps) for treasure in treasures]
        return min(lengths), sum(lengths)

    return _move(min(safe or allowed, key=ways))


def go_straight(observation: Observation) -> dict[str, Action]:
    """Go straight to the nearest treasure, also through traps; for ``relative=True``."""
    treasures, _, allowed = _read(observation)
    nearest = min(treasures, key=lambda treasure: _way((0, 0), treasure, []))
    return _move(min(allowed, key=lambda move: _way(STEPS[move], nearest, [])))


def _read(observation: Observation) -> tuple[Tiles, Tiles, list[int]]:
    """Return treasures, traps, and the moves that are allowed."""
    features: Any = observation.features
    treasures, traps = ([(int(x), int(y)) for x, y in features[n]] for n in ("Treasure", "Trap"))
    mask: Any = (observation.actions or {})["Move"]
    return treasures, traps, [move for move in range(len(MOVES)) if mask.mask[move]]


def _move(index: int) -> dict[str, Action]:
    return {"Move": GlobalCategoricalAction(index, MOVES[index])}


def _way(start: Tile, to: Tile, traps: list[Tile]) -> int:
    """Return the steps from tile to tile; two more if a trap blocks the only straight way."""
    (x, y), (to_x, to_y) = start, to
    length = abs(to_x - x) + abs(to_y - y)
    is_straight = x == to_x or y == to_y
    blocked = is_straight and any(
        abs(trap_x - x) + abs(trap_y - y) + abs(to_x - trap_x) + abs(to_y - trap_y) == length
        for trap_x, trap_y in traps
    )
    return length + 2 if blocked else length
