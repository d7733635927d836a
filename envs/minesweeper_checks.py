"""What MineSweeper reads from outside, actions and saved states, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index as whole
from typing import Any, TypeAlias

import numpy as np

from entity_env.actions import Action, CategoricalAction, SelectEntityAction
from entity_env.errors import (
    ActionIndexError,
    ActionMaskError,
    ActorError,
    MaskedActionError,
    StateError,
    shorten,
)
from entity_env.observation import EntityID
from entity_env.spaces import ActionName

__all__ = ["DEFUSE", "MOVES", "STEPS", "Tile", "check_state", "read_moves", "read_shots"]

Tile: TypeAlias = tuple[int, int]

MOVES = ("Right", "Left", "Up", "Down", "Defuse Mines")
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""What the first four choices of ``Move`` add to x and y."""
DEFUSE = 4
"""The index of ``Defuse Mines``."""


def read_moves(
    action: Action | None, robots: Sequence[Tile], width: int, height: int
) -> list[int | None]:
    """The choice of each robot, None for a robot that has none."""
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
    """What each cannon that fires selected."""
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


def check_state(
    state: Mapping[str, Any], width: int, height: int, limits: tuple[int, int, int], period: int
) -> tuple[list[Tile], list[Tile], list[int], int]:
    """Mines, robots, cooldowns and step of a saved state.

    Args:
        state: What ``MineSweeper.get_state`` returned.
        width: Tiles from left to right.
        height: Tiles from bottom to top.
        limits: The most mines, the most robots, and the number of cannons.
        period: The longest cooldown.

    Raises:
        StateError: A state of another kind or size of game, or of none that can come up.
    """
    try:
        mines = [(whole(x), whole(y)) for x, y in state["mines"]]
        robots = [(whole(x), whole(y)) for x, y in state["robots"]]
        cooldowns = [whole(cooldown) for cooldown in state["cooldowns"]]
        steps = whole(state["steps"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            "this is not a state of MineSweeper",
            expected="mines and robots as lists of [x, y], cooldowns as a list, steps",
            received=shorten(state),
        ) from error
    for what, problem in (
        ("more mines than the game starts with", len(mines) > limits[0]),
        ("more robots than the game starts with", len(robots) > limits[1]),
        ("another number of cannons", len(cooldowns) != limits[2]),
        ("two mines on one tile", len(set(mines)) < len(mines)),
        ("a robot on a mine", not set(mines).isdisjoint(robots)),
        ("a cooldown out of range", any(not 0 <= c <= period for c in cooldowns)),
        ("a negative step", steps < 0),
        (
            "an entity off the board",
            any(not (0 <= x < width and 0 <= y < height) for x, y in mines + robots),
        ),
    ):
        if problem:
            raise StateError(
                f"a state with {what}",
                expected=f"a {width} x {height} game with at most {limits[0]} mines and "
                f"{limits[1]} robots, and {limits[2]} cannons of cooldown 0 to {period}",
                received=shorten(state),
            )
    return mines, robots, cooldowns, steps


def _place(action: ActionName, entity: Any, kind: str, count: int) -> int:
    """The place of an entity in the list of its type."""
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
