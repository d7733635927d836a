"""A scripted player of SnakeArena: the baseline that a trained network is measured against."""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction
from entity_env.observation import Observation

from .grid import MOVES, Tile, distances, is_on, next_tile

__all__ = ["crawl_safely"]


def crawl_safely(observation: Observation, board_size: int = 8) -> dict[str, Action]:
    """Take a shortest way to the nearest food, if there is room for the snake behind the step.

    Tiles beside the head of a snake that is not shorter are avoided where there is another way.
    Without a way to food, or where no step to it leaves room, the head goes where it can reach the
    most tiles. The script does not foresee how bodies move.

    Args:
        observation: The observation of the seat.
        board_size: Size of the board, which is not in the observation.
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
    risky = {next_tile(tile, move) for tile, is_strong in others if is_strong for move in range(4)}
    allowed = [move for move in range(4) if np.asarray(masks["Move"].mask)[0][move]]

    def is_free(tile: Tile) -> bool:
        return is_on(tile, board_size) and tile not in walls

    def worth(move: int) -> tuple[bool, bool, bool, int]:
        tile = next_tile((x, y), move)
        if not is_free(tile):
            return False, False, False, 0
        reached = distances(tile, is_free)
        near = min((reached[one] for one in food if one in reached), default=None)
        has_room = len(reached) >= length
        if near is None or not has_room:
            return True, tile not in risky, has_room, len(reached) - board_size**2
        return True, tile not in risky, has_room, board_size**2 - near

    best = max(allowed, key=worth)
    return {"Move": CategoricalAction(list(masks["Move"].actor_ids), np.array([best]), MOVES)}
