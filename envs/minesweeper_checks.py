"""What MineSweeper reads from outside, actions and saved states, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index as whole
from typing import Any

import numpy as np

from entity_env.actions import Action, CategoricalAction, SelectEntityAction
from entity_env.errors import (
    DAMAGES,
    ActionIndexError,
    ActionMaskError,
    ActorError,
    MaskedActionError,
    StateError,
    shorten,
)
from entity_env.observation import EntityID
from entity_env.spaces import ActionName

from .minesweeper_rules import DEFUSE, MOVES, STEPS, MineSweeperSettings, Span, Tile

__all__ = ["Position", "check_state", "read_moves", "read_shots"]


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


@dataclass(frozen=True)
class Position:
    """A moment of a game.

    Args:
        size: Width and height.
        mines: Their tiles.
        robots: Their tiles.
        cooldowns: One for each cannon.
        steps: Steps taken.
    """

    size: tuple[int, int]
    mines: Sequence[Tile]
    robots: Sequence[Tile]
    cooldowns: Sequence[int]
    steps: int


def check_state(state: Mapping[str, Any], settings: MineSweeperSettings) -> Position:
    """A saved state as a position, or StateError where no such game can come to it.

    Args:
        state: What ``MineSweeper.get_state`` returned.
        settings: Those of the game.
    """
    try:
        size = state["size"] if settings.size_varies else (settings.width[0], settings.height[0])
        width, height = map(whole, size)
        mines = [(whole(x), whole(y)) for x, y in state["mines"]]
        robots = [(whole(x), whole(y)) for x, y in state["robots"]]
        cooldowns = [whole(cooldown) for cooldown in state["cooldowns"]]
        steps = whole(state["steps"])
    except DAMAGES as error:
        raise StateError(
            "this is not a state of MineSweeper",
            expected="mines and robots as lists of [x, y], cooldowns as a list, steps"
            + (", and size as [width, height]" if settings.size_varies else ""),
            received=shorten(state),
        ) from error
    most, period = (settings.nmines[1], settings.nrobots[1]), settings.cooldown_period
    for what, problem in (
        ("another size of board", not _within((width, height), settings)),
        ("more mines than the game starts with", len(mines) > most[0]),
        ("more robots than the game starts with", len(robots) > most[1]),
        ("another number of cannons", len(cooldowns) != settings.ncannons),
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
                expected=f"a {_span(settings.width)} x {_span(settings.height)} game with at most "
                f"{most[0]} mines and {most[1]} robots, and {settings.ncannons} cannons of "
                f"cooldown 0 to {period}",
                received=shorten(state),
            )
    return Position((width, height), mines, robots, cooldowns, steps)


def _within(size: tuple[int, int], settings: MineSweeperSettings) -> bool:
    spans = (settings.width, settings.height)
    return all(least <= n <= most for n, (least, most) in zip(size, spans, strict=True))


def _span(span: Span) -> str:
    return str(span[0]) if span[0] == span[1] else f"({span[0]} to {span[1]})"


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
