"""Checked choices of MineSweeper's robots and cannons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction, SelectEntityAction
from entity_env.errors import (
    ActionIndexError,
    ActionMaskError,
    ActorError,
    MaskedActionError,
    shorten,
)
from entity_env.observation import EntityID
from entity_env.spaces import ActionName

from .minesweeper_rules import DEFUSE, MOVES, STEPS, Tile

__all__ = ["read_moves", "read_shots"]


def read_moves(
    action: Action | None, robots: Sequence[Tile], width: int, height: int
) -> list[int | None]:
    """Return the choice of each robot, None for a robot that has none."""
    moves: list[int | None] = [None] * len(robots)
    if action is None:
        return moves
    if not isinstance(action, CategoricalAction):
        raise ActionMaskError(
            "action 'Move' is of the wrong kind",
            expected="CategoricalAction",
            received=shorten(action),
        )
    indices = np.asarray(action.indices).tolist()
    if len(action.actors) != len(indices):
        raise ActionIndexError(
            "action 'Move' does not give one choice for each actor",
            expected=f"{len(action.actors)} indices",
            received=shorten(indices),
        )
    for actor, index in zip(action.actors, indices, strict=True):
        robot = _place("Move", actor, "Robot", len(robots))
        if type(index) is not int or not 0 <= index < len(MOVES):
            raise ActionIndexError(
                f"robot {actor!r} chose a move that does not exist",
                expected=f"an index from 0 to {len(MOVES) - 1}",
                received=shorten(index),
            )
        if index != DEFUSE:
            x, y = robots[robot][0] + STEPS[index][0], robots[robot][1] + STEPS[index][1]
            if not (0 <= x < width and 0 <= y < height):
                raise MaskedActionError(
                    f"robot {actor!r} at {robots[robot]} would leave the board",
                    expected="a move that the mask allows",
                    received=f"{index} ({MOVES[index]})",
                )
        moves[robot] = index
    return moves


def read_shots(
    action: Action | None, cooldowns: Sequence[int], nmines: int, nrobots: int
) -> dict[int, EntityID]:
    """Return the target of each cannon that fires."""
    if action is None:
        return {}
    if not isinstance(action, SelectEntityAction):
        raise ActionMaskError(
            "action 'Fire Orbital Cannon' is of the wrong kind",
            expected="SelectEntityAction",
            received=shorten(action),
        )
    if len(action.actors) != len(action.actees):
        raise ActionIndexError(
            "action 'Fire Orbital Cannon' does not give one target for each actor",
            expected=f"{len(action.actors)} actees",
            received=shorten(action.actees),
        )
    shots: dict[int, EntityID] = {}
    for actor, actee in zip(action.actors, action.actees, strict=True):
        cannon = _place("Fire Orbital Cannon", actor, "Orbital Cannon", len(cooldowns))
        if cooldowns[cannon] > 0:
            raise MaskedActionError(
                f"cannon {actor!r} is not ready", received=f"cooldown {cooldowns[cannon]}"
            )
        kind = "Robot" if isinstance(actee, tuple) and actee[:1] == ("Robot",) else "Mine"
        _place("Fire Orbital Cannon", actee, kind, nrobots if kind == "Robot" else nmines)
        shots[cannon] = actee
    return shots


def _place(action: ActionName, entity: Any, kind: str, count: int) -> int:
    """Return the place of an entity in the list of its type."""
    if (
        isinstance(entity, tuple)
        and len(entity) == 2
        and entity[0] == kind
        and entity[1] in range(count)
    ):
        return int(entity[1])
    raise ActorError(
        f"action {action!r} names an entity that is not in the frame",
        expected=f"({kind!r}, 0) to ({kind!r}, {count - 1})"
        if count
        else f"no {kind}: none is left",
        received=shorten(entity),
    )
