"""A scripted MultiSnake player: the baseline that a trained network is measured against."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .grid import MOVES, Tile, distances, is_on, next_tile

__all__ = ["crawl_to_food"]


def crawl_to_food(observation: Observation, board_size: int = 10) -> dict[str, Action]:
    """Send each head a shortest way to its food around all bodies, heads and other food.

    Heads decide one after the other, so that no two go to one tile. Without a way to its food a
    head goes to the free tile from which it can reach the most others. It knows the size of the
    board and does not look further ahead, so it can trap itself. For ``relative=True``.
    """
    features: Any = observation.features
    ids: Any = observation.ids
    mask: Any = (observation.actions or {})["Move"]
    heads = [(int(x), int(y)) for x, y, _ in features["SnakeHead"]]
    taken = {_tile(row, heads) for row in features["SnakeBody"]} | set(heads)
    food = {int(row[2]): _tile(row, heads) for row in features["Food"] if row[3]}
    moves = []
    for i, head in enumerate(heads):
        walls = taken | {tile for snake, tile in food.items() if snake != i}
        allowed = [move for move in range(len(MOVES)) if mask.mask[i][move]]
        move = _best_move(head, food.get(i), allowed, walls, board_size)
        moves.append(move)
        taken.add(next_tile(head, move))
    return {"Move": CategoricalAction(ids["SnakeHead"], np.array(moves), MOVES)}


def _best_move(
    head: Tile, goal: Tile | None, allowed: list[int], walls: set[Tile], size: int
) -> int:
    """Return the move with the shortest way to the goal, or else with the most room."""

    def is_free(tile: Tile) -> bool:
        return is_on(tile, size) and tile not in walls

    tiles = {move: next_tile(head, move) for move in allowed}
    found = {move: distances(tile, is_free) for move, tile in tiles.items() if is_free(tile)}
    if not found:
        return allowed[0]
    ways = {} if goal is None else {m: reach[goal] for m, reach in found.items() if goal in reach}
    if ways:
        return min(ways, key=lambda move: ways[move])
    return max(found, key=lambda move: len(found[move]))


def _tile(row: Any, heads: list[Tile]) -> Tile:
    """Return the tile of a body or food from its offset to a snake's head."""
    x, y = heads[int(row[2])]
    return x + int(row[0]), y + int(row[1])
