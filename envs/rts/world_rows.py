"""Rows of strategy games, and single games: pictures, and maps in characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.vec_obs import VecObs
from entity_env.errors import ResetNeededError
from entity_env.hints import EntityHints, ViewerHints
from entity_env.rows.compiled import CompiledRows
from entity_env.rows.single_game import CompiledEnvironment, CompiledPlayers

from .arrays import World
from .rules import Rules
from .view import MapView, draw_map, write_map

__all__ = ["StrategyEnvironment", "StrategyPlayers", "WorldRows"]

_BLUE, _RED, _GOLD = "#2158be", "#c82d28", "#e0b228"
_LOOKS = {
    "Own": EntityHints(colors=(_BLUE,)),
    "Enemy": EntityHints(colors=(_RED,)),
    "Remembered": EntityHints(colors=("#e3a09d",), shape="square"),
    "Resource": EntityHints(colors=(_GOLD,), shape="diamond"),
    "Base": EntityHints(colors=("#9aa7bd",), shape="square"),
    "Flag": EntityHints(colors=(_GOLD,), shape="diamond"),
    "Cell": EntityHints(tile="square", ground="is", grounds=("#f0ede2", "#a9a294", "#a9a294")),
    "Attacker": EntityHints(colors=(_RED,)),
    "Tower": EntityHints(colors=(_BLUE,), shape="square", range=3.0),
}
"""Hints on the entity types that the games have: the learner is blue, the enemy red."""


class WorldRows(CompiledRows):
    """Rows of games whose state is a ``World``; a subclass sets ``rules``."""

    rules: Rules
    """The rules of the games."""

    def viewer_hints(self) -> ViewerHints:
        """Return the colours of the players, and the whole map."""
        entities = {name: _LOOKS[name] for name in self.obs_space().entities if name in _LOOKS}
        last = self.rules.size - 1
        return ViewerHints(entities, bounds=(0, last, 0, last), owners=(_RED, _BLUE), y_axis="down")

    def world_arrays(self) -> World:
        """Return the arrays of all G games, which a search copies. Shape of each: (G, ...)."""
        return World(*(self._fields[name] for name in World._fields))

    def draw_row(self, row: int, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return a picture of a row's game, where its player sees nothing in grey.

        Args:
            row: The number of the row.
            kwargs: ``cell``, the pixels of a cell.

        Returns:
            The picture. Shape: (H, W, 3).

        Raises:
            ResetNeededError: No episode has been started.
        """
        view, player = self._view(row)
        picture = draw_map(view, player if self._game.settings.get("fog") else None, **kwargs)
        return np.asarray(picture)

    def write_row(self, row: int) -> str:
        """Return the map of a row's game in characters, as its player sees it."""
        return write_map(*self._view(row), bool(self._game.settings.get("fog")))

    def _view(self, row: int) -> tuple[MapView, int]:
        if self._last is None:
            raise ResetNeededError("no episode has been started", hint="call reset() first")
        game, player = divmod(row, self.num_seats)
        arrays = World(*(own[game] for own in self.world_arrays()))
        return MapView.of_world(self.rules, arrays), player


class _MapMixin:
    """Mixin of single games: the map as the first player that must act sees it."""

    _rows: WorldRows
    _begun: Callable[[], VecObs]

    def viewer_hints(self) -> ViewerHints:
        """Return the colours of the players, and the whole map."""
        return self._rows.viewer_hints()

    def render_text(self) -> str:
        """Return the map in characters."""
        return self._rows.write_row(int(self._begun().rows[0]))


class StrategyEnvironment(_MapMixin, CompiledEnvironment):
    """One strategy game for one player."""

    _rows: WorldRows


class StrategyPlayers(_MapMixin, CompiledPlayers):
    """One strategy game for two players, 0 and 1."""

    _rows: WorldRows
