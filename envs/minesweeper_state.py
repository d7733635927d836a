"""Saved states of MineSweeper, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index as whole
from typing import Any

from entity_env.errors import DAMAGES, StateError, shorten

from .minesweeper_rules import MineSweeperSettings, Span, Tile

__all__ = ["BoardState", "check_state"]


@dataclass(frozen=True)
class BoardState:
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


def check_state(state: Mapping[str, Any], settings: MineSweeperSettings) -> BoardState:
    """Return a saved state as a position, or StateError where no such game can come to it.

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
    return BoardState((width, height), mines, robots, cooldowns, steps)


def _within(size: tuple[int, int], settings: MineSweeperSettings) -> bool:
    spans = (settings.width, settings.height)
    return all(least <= n <= most for n, (least, most) in zip(size, spans, strict=True))


def _span(span: Span) -> str:
    return str(span[0]) if span[0] == span[1] else f"({span[0]} to {span[1]})"
