"""Spaces, moves and parameters of MineSweeper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from entity_env.arguments import check_span, check_whole
from entity_env.errors import SettingError, counted
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    CategoricalActionSpace,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

__all__ = [
    "ACTION_SPACE",
    "DEFUSE",
    "MOST_COOLDOWN",
    "MOST_ENTITIES",
    "MOST_STEPS",
    "MOST_TILES",
    "MOVES",
    "OBS_SPACE",
    "STEPS",
    "MineSweeperSettings",
    "Span",
    "Spanned",
    "Tile",
]

MOVES = ("Right", "Left", "Up", "Down", "Defuse Mines")
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""The changes of x and y by the first four choices of ``Move``."""
DEFUSE = 4
"""The index of ``Defuse Mines``."""

MOST_TILES = 1000
"""The widest and the highest board; each row draws from an array of all tiles."""
MOST_ENTITIES = 10_000
"""The most mines, robots and cannons; each row has room for them."""
MOST_STEPS = 1_000_000_000
"""The longest episode: steps are counted in 32 bits."""
MOST_COOLDOWN = 10_000_000
"""The longest cooldown: a feature, and float32 holds each number up to it."""

OBS_SPACE = ObsSpace(
    entities={
        "Mine": Entity(["x", "y"]),
        "Robot": Entity(["x", "y"]),
        "Orbital Cannon": Entity(["cooldown"]),
    }
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {
    "Move": CategoricalActionSpace(MOVES),
    "Fire Orbital Cannon": SelectEntityActionSpace(),
}

Tile: TypeAlias = tuple[int, int]
"""x and y."""

Span: TypeAlias = tuple[int, int]
"""The least and the most, both included."""
Spanned: TypeAlias = int | tuple[int, int] | list[int]
"""A number, or a pair (least, most) from which each episode draws its own."""


@dataclass(frozen=True)
class MineSweeperSettings:
    """The settings of ``MineSweeper`` and ``MineSweeperVec``; ``check`` makes them.

    Args:
        width: Tiles from left to right.
        height: Tiles from bottom to top.
        nmines: Mines at the start; a board that is too small for the most has at most as many as
            fit beside the robots.
        nrobots: Robots at the start.
        ncannons: Cannons.
        cooldown_period: Steps that a cannon waits after a shot, and at the start.
        max_steps: Steps until the episode is cut off.
    """

    width: Span
    height: Span
    nmines: Span
    nrobots: Span
    ncannons: int
    cooldown_period: int
    max_steps: int

    @property
    def size_varies(self) -> bool:
        """True if episodes differ in the size of the board."""
        return self.width[0] < self.width[1] or self.height[0] < self.height[1]

    @classmethod
    def check(
        cls,
        width: Any,
        height: Any,
        nmines: Any,
        nrobots: Any,
        orbital_cannon: Any,
        cooldown_period: Any,
        max_steps: Any,
    ) -> MineSweeperSettings:
        """Return the settings, or SettingError; the arguments are those of ``MineSweeper``."""
        if isinstance(orbital_cannon, bool | np.bool_):
            orbital_cannon = int(orbital_cannon)
        settings = cls(
            check_span("width", width, 1, MOST_TILES),
            check_span("height", height, 1, MOST_TILES),
            check_span("nmines", nmines, 1, MOST_ENTITIES),
            check_span("nrobots", nrobots, 1, MOST_ENTITIES),
            check_whole("orbital_cannon", orbital_cannon, 0, MOST_ENTITIES),
            check_whole("cooldown_period", cooldown_period, 0, MOST_COOLDOWN),
            check_whole("max_steps", max_steps, 1, MOST_STEPS),
        )
        # The mines are drawn last, from as many as the board then holds.
        tiles = settings.width[0] * settings.height[0]
        mines, robots = settings.nmines[0], settings.nrobots[1]
        if tiles < mines + robots:
            raise SettingError(
                f"a board of {settings.width[0]} x {settings.height[0]} tiles is too small for "
                f"{counted(mines, 'mine')} and {counted(robots, 'robot')}",
                expected=f"at least {counted(mines + robots, 'tile')}",
                received=counted(tiles, "tile"),
                about="width height nmines nrobots",
            )
        return settings
