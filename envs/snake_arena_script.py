"""A scripted player of SnakeArena: the baseline that a trained network is measured against."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .multi_snake import MOVES, STEPS
from .multi_snake_views import Tile

__all__ = ["crawl_safely"]


def crawl_safely(observation: Observation, board_size: int = 8) -> dict[str, Action]:
    """Take a shortest way to the nearest food, if there is room for the snake behind the step.

    Tiles beside the head of a snake that is not shorter are avoided where there is another way.
    Without a way to food, or where no step to it leaves room, the head goes where it can reach the
    most tiles. The script does not foresee how bodies move.

    Args:
        observation: What the seat sees.
        board_size: That of the game: it is not to be seen.
    """
    features: Any = observation.features
    masks: Any = observation.actions
    (head,) = features["Head"]
    x, y, length = int(head[0]), int(head[1]), int(head[2])

    def place(row: Any) -> Tile:
        return x + int(row[0]), y + int(row[1])

    others = [(place(row), row[2] >= 0) for row in features["OtherHead"]]
    walls = {place(row) for row in features["Body"] if row[3] > 0} | {tile for tile, _ in others}
    food = [place(row) for row in features["Food"]]
    risky = {_next(tile, move) for tile, is_strong in others if is_strong for move in range(4)}
    allowed = [move for move in range(4) if np.asarray(masks["Move"].mask)[0][move]]

    def worth(move: int) -> tuple[bool, bool, bool, int]:
        tile = _next((x, y), move)
        if not _is_free(tile, walls, board_size):
            return False, False, False, 0
        reached = _distances(tile, walls, board_size)
        near = min((reached[one] for one in food if one in reached), default=None)
        has_room = len(reached) >= length
        if near is None or not has_room:
            return True, tile not in risky, has_room, len(reached) - board_size**2
        return True, tile not in risky, has_room, board_size**2 - near

    best = max(allowed, key=worth)
    return {"Move": CategoricalAction(list(masks["Move"].actor_ids), np.array([best]), MOVES)}


def _distances(start: Tile, walls: set[Tile], size: int) -> dict[Tile, int]:
    """Return the number of steps from ``start`` to each tile that can be reached."""
    reached = {start: 0}
    waiting = deque([start])
    while waiting:
        tile = waiting.popleft()
        for move in range(len(MOVES)):
            near = _next(tile, move)
            if near not in reached and _is_free(near, walls, size):
                reached[near] = reached[tile] + 1
                waiting.append(near)
    return reached


def _is_free(tile: Tile, walls: set[Tile], size: int) -> bool:
    return 0 <= tile[0] < size and 0 <= tile[1] < size and tile not in walls


def _next(tile: Tile, move: int) -> Tile:
    return tile[0] + STEPS[move][0], tile[1] + STEPS[move][1]
