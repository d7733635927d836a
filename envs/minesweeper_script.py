"""A scripted MineSweeper player: the baseline that a trained network is measured against."""

from __future__ import annotations

import numpy as np

from entity_env.actions import Action, CategoricalAction, SelectEntityAction
from entity_env.observation import EntityID, Observation, SelectEntityActionMask

from .minesweeper import DEFUSE, MOVES, STEPS
from .minesweeper_drawing import Tile

__all__ = ["walk_and_defuse"]


def walk_and_defuse(observation: Observation) -> dict[str, Action]:
    """Send each robot to its nearest mine; shoot the first mines of the list.

    A robot with a mine at most one tile away defuses, so a robot that walks has none beside it and
    never steps on one. Of the steps that bring its nearest mine nearer it takes the one that leaves
    all mines nearer in total. Of several ready cannons each selects another mine, as long as there
    are enough.
    """
    mines, robots = _tiles(observation, "Mine"), _tiles(observation, "Robot")
    cannons = _ready_cannons(observation) if mines else []
    return {
        "Move": CategoricalAction(
            actors=_ids(observation, "Robot"),
            indices=np.array([_move(robot, mines) for robot in robots], np.int64),
            index_to_label=MOVES,
        ),
        "Fire Orbital Cannon": SelectEntityAction(
            actors=cannons,
            actees=[_ids(observation, "Mine")[i % len(mines)] for i in range(len(cannons))],
        ),
    }


def _move(robot: Tile, mines: list[Tile]) -> int:
    """Return the index of a robot's choice."""
    if not mines:
        return DEFUSE
    x, y = robot
    distances = [abs(mine[0] - x) + abs(mine[1] - y) for mine in mines]
    if min(distances) <= 1:
        return DEFUSE
    to_x, to_y = mines[distances.index(min(distances))]
    nearer = [i for i, (dx, dy) in enumerate(STEPS) if dx * (to_x - x) > 0 or dy * (to_y - y) > 0]
    return min(nearer, key=lambda i: _total_way((x + STEPS[i][0], y + STEPS[i][1]), mines))


def _total_way(tile: Tile, mines: list[Tile]) -> int:
    """Return the Manhattan distances to all mines together."""
    return sum(abs(x - tile[0]) + abs(y - tile[1]) for x, y in mines)


def _tiles(observation: Observation, kind: str) -> list[Tile]:
    rows = (observation.features or {}).get(kind)
    return [] if rows is None else [(int(x), int(y)) for x, y in rows]


def _ids(observation: Observation, kind: str) -> list[EntityID]:
    return list((observation.ids or {}).get(kind, ()))


def _ready_cannons(observation: Observation) -> list[EntityID]:
    mask = (observation.actions or {}).get("Fire Orbital Cannon")  # not of every board
    if isinstance(mask, SelectEntityActionMask) and mask.actor_ids is not None:
        return list(mask.actor_ids)
    is_ready = isinstance(mask, SelectEntityActionMask) and bool(mask.actor_types)
    return _ids(observation, "Orbital Cannon") if is_ready else []
