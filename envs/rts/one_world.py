"""The common part of environments of one ``World``: seeds, games, pictures."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from entity_env.errors import ResetNeededError

from .view.map_text import write_world
from .view.picture import draw_world
from .world import Game, World

__all__ = ["OneWorld"]

AnyGame = TypeVar("AnyGame", bound=Game)


class OneWorld(Generic[AnyGame]):
    """Comes before ``Environment`` or ``MultiPlayerEnvironment`` among the bases of a class.

    Attributes:
        game: What is played.
        world: Its state; None before the first game.
        has_fog: Whether players see only what their units see.
    """

    y_axis: Literal["up", "down"] = "down"
    game: AnyGame
    world: World | None = None
    has_fog = False

    def seed(self, seed: int) -> None:
        """Seed the game's own stream as well."""
        super().seed(seed)  # type: ignore[misc]
        self.world = None

    def begun(self, max_tick: int) -> World:
        """Return a fresh game, that ends at ``max_tick`` at the latest."""
        if self.world is None:
            rng: np.random.Generator = self.rng  # type: ignore[attr-defined]
            self.world = World(self.game, int(rng.integers(2**32)), begun=False)
        self.world.begin(max_tick)
        return self.world

    def running(self) -> World:
        """Return the running game, else ResetNeededError."""
        if self.world is None or self.world.is_over:
            raise ResetNeededError("no game is running", hint="call reset() first")
        return self.world

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the whole map, what player 0 does not see darkened; shape (H, W, 3)."""
        return np.asarray(draw_world(self.world, 0 if self.has_fog else None, **kwargs))

    def render_text(self) -> str:
        """Return the map in characters, as player 0 sees it."""
        return write_world(self.world, 0, self.has_fog)
