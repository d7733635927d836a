"""The base of everything that stands between a game of several players and whoever plays it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.environment import YAxis, check_seed
from entity_env.errors import DAMAGES, SettingError, StateError, shorten
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    Seat,
    SeatActions,
    SeatObservations,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["SeatWrapper"]


class SeatWrapper(MultiPlayerEnvironment):
    """Passes everything on to another game; a subclass changes what it wants to.

    One that has a state of its own writes ``_own_state`` and ``_set_own_state``, too.

    Args:
        game: The game inside.

    Raises:
        SettingError: ``game`` is not a game of several players.
    """

    def __init__(self, game: MultiPlayerEnvironment) -> None:
        if not isinstance(game, MultiPlayerEnvironment):
            raise SettingError(
                f"{type(self).__name__} goes around a game of several players",
                expected="an instance of a subclass of entity_env.MultiPlayerEnvironment",
                received=shorten(game),
            )
        self.game = game
        self._closed = False

    @property
    def unwrapped(self) -> MultiPlayerEnvironment:
        """The game inside all wrappers."""
        game = self.game
        return game.unwrapped if isinstance(game, SeatWrapper) else game

    def obs_space(self) -> ObsSpace:
        """What observations may contain."""
        return self.game.obs_space()

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """The actions by name."""
        return self.game.action_space()

    def seats(self) -> Sequence[Seat]:
        """Those of the game inside."""
        return self.game.seats()

    def teams(self) -> Mapping[str, Collection[Seat]]:
        """Those of the game inside."""
        return self.game.teams()

    def is_over(self) -> bool | None:
        """What the game inside says."""
        return self.game.is_over()

    def reset(self) -> SeatObservations:
        """Start a game."""
        return self.game.reset()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Go on with the game."""
        return self.game.act(actions)

    @property
    def y_axis(self) -> YAxis:  # type: ignore[override]
        """Where the game inside has greater values of y."""
        return self.game.y_axis

    @property
    def rng(self) -> np.random.Generator:
        """The random numbers of the game inside."""
        return self.game.rng

    @rng.setter
    def rng(self, rng: Any) -> None:
        """Give the game inside other random numbers."""
        self.game.rng = rng

    def seed(self, seed: int) -> None:
        """Seed the game inside."""
        self.game.seed(check_seed(seed))

    def get_state(self) -> dict[str, Any]:
        """The state of the game inside and, where there is one, that of the wrapper."""
        inner, own = self.game.get_state(), self._own_state()
        return inner if own is None else {"game": inner, type(self).__name__: own}

    def set_state(self, state: Mapping[str, Any]) -> SeatObservations:
        """Go back to what ``get_state`` returned."""
        if self._own_state() is None:
            told: SeatObservations = self.game.set_state(state)
            return told
        name = type(self).__name__
        if not isinstance(state, Mapping) or set(state) != {"game", name}:
            raise StateError(
                f"the saved state is not one of {name}",
                expected=f"a dict with the keys game and {name}",
                received=shorten(state),
            )
        told = self.game.set_state(state["game"])
        try:
            self._set_own_state(state[name])
        except DAMAGES as error:
            raise StateError(
                f"the saved state of {name} is damaged: {type(error).__name__}: {error}",
                received=shorten(state[name]),
            ) from error
        return told

    def has_state(self) -> bool:
        """Whether the game inside saves and restores its state."""
        return self.game.has_state()

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """The picture of the game inside. Shape: (H, W, 3), uint8."""
        return self.game.render(**kwargs)

    def render_text(self) -> str:
        """The text of the game inside."""
        return self.game.render_text()

    def close(self) -> None:
        """Close the game inside, once."""
        if not self._closed:
            self._closed = True
            self.game.close()

    def _own_state(self) -> dict[str, Any] | None:
        """What this wrapper itself has to save, as JSON values of its own; None for nothing."""
        return None

    def _set_own_state(self, own: Mapping[str, Any]) -> None:
        """Go back to what ``_own_state`` returned; whatever is wrong with it may raise."""
