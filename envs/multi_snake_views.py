"""Views of MultiSnake: the board, or the board as each snake's head sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from entity_env.spaces import Continuous, Discrete, Entity, Feature

from .grid import Tile

__all__ = ["WAY", "Rows", "show_board", "show_views", "snake_entities"]

Rows: TypeAlias = dict[str, list[tuple[int, ...]]]
"""The features of each entity type, a tuple for each entity."""
# Next to a head a tile more or less is everything, and on the other side of the board nothing.
WAY: list[Feature] = [Continuous("x", mean=0.0, std=2.0), Continuous("y", mean=0.0, std=2.0)]
"""The features of a way (x, y), scaled for those who stand next to its end."""


def snake_entities(num_snakes: int, relative: bool) -> dict[str, Entity]:
    """Return the entity types of ``show_views``, or else those of ``show_board``."""
    tile = Entity(["x", "y", Discrete("snake", num_snakes)])
    if not relative:
        return {"SnakeHead": tile, "SnakeBody": tile, "Food": tile}
    seen = [*WAY, Discrete("viewer", num_snakes)]
    thing = Entity([*seen, Discrete("own", 2, names=("no", "yes"))])
    return {"SnakeHead": tile, "SnakeBody": thing, "Food": thing, "OtherHead": Entity(seen)}


def show_board(snakes: Sequence[Sequence[Tile]], food: Sequence[Tile | None]) -> Rows:
    """Return all entities once, with their tiles."""
    numbered = list(enumerate(snakes))
    return {
        "SnakeHead": [(*snake[0], i) for i, snake in numbered],
        "SnakeBody": [(*tile, i) for i, snake in numbered for tile in snake[1:]],
        "Food": [(*tile, i) for i, tile in enumerate(food) if tile is not None],
    }


def show_views(snakes: Sequence[Sequence[Tile]], food: Sequence[Tile | None]) -> Rows:
    """Return the heads where they are, and all else once for each of them, as the way to it."""
    board = show_board(snakes, food)
    heads = board["SnakeHead"]
    shown: Rows = {"SnakeHead": heads, "SnakeBody": [], "Food": [], "OtherHead": []}
    for from_x, from_y, viewer in heads:
        for name in ("SnakeBody", "Food"):
            shown[name] += [
                (x - from_x, y - from_y, viewer, int(i == viewer)) for x, y, i in board[name]
            ]
        shown["OtherHead"] += [(x - from_x, y - from_y, viewer) for x, y, i in heads if i != viewer]
    return shown
