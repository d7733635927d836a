"""A scripted MultiSnake player: the baseline that a trained network is measured against."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .multi_snake import MOVES, STEPS
from .multi_snake_views import Tile

__all__ = ["crawl_to_food"]


def crawl_to_food(observation: Observation, board_size: int = 10) -> dict[str, Action]:
    """Each head takes a shortest way to its food around all bodies, heads and other food.

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
        taken.add(_next_tile(head, move))
    return {"Move": CategoricalAction(ids["SnakeHead"], np.array(moves), MOVES)}


def _best_move(
    head: Tile, goal: Tile | None, allowed: list[int], walls: set[Tile], size: int
) -> int:
    """Return the move with the shortest way to the goal, or else with the most room."""
    tiles = {move: _next_tile(head, move) for move in allowed}
    found = {
        move: _distances(tile, walls, size)
        for move, tile in tiles.items()
        if _is_free(tile, walls, size)
    }
    if not found:
        return allowed[0]
    ways = {} if goal is None else {m: reach[goal] for m, reach in found.items() if goal in reach}
    if ways:
        return min(ways, key=lambda move: ways[move])
    return max(found, key=lambda move: len(found[move]))


def _distances(start: Tile, walls: set[Tile], size: int) -> dict[Tile, int]:
    """Return the number of steps from ``start`` to each tile that can be reached."""
    reached = {start: 0}
    waiting = deque([start])
    while waiting:
        tile = waiting.popleft()
        for move in range(len(MOVES)):
            near = _next_tile(tile, move)
            if near not in reached and _is_free(near, walls, size):
                reached[near] = reached[tile] + 1
                waiting.append(near)
    return reached


def _tile(row: Any, heads: list[Tile]) -> Tile:
    """Return the tile of a body or food from its offset to a snake's head."""
    x, y = heads[int(row[2])]
    return x + int(row[0]), y + int(row[1])


def _is_free(tile: Tile, walls: set[Tile], size: int) -> bool:
    return 0 <= tile[0] < size and 0 <= tile[1] < size and tile not in walls


def _next_tile(tile: Tile, move: int) -> Tile:
    return tile[0] + STEPS[move][0], tile[1] + STEPS[move][1]
