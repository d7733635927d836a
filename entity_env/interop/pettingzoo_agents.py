"""The PettingZoo interface of a game, common to its two ways of playing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pettingzoo import ParallelEnv

from entity_env.interop.padded_seats import PaddedSeats
from entity_env.interop.padded_spaces import Room, check_render_mode
from entity_env.seats.multi_player import MultiPlayerEnvironment

__all__ = ["PaddedObs", "SeatAgents"]

PaddedObs = dict[str, npt.NDArray[Any]]


class SeatAgents:
    """The agents of a game, their spaces, and its pictures.

    Args:
        game: The game.
        max_entities: The most entities of each type, or one number for all types.
        max_actors: The most actors of each action, or one number for all; None: all entities.
        strict: Whether a choice that the mask forbids is an error; else the next one is taken.
        render_mode: ``rgb_array`` makes ``render`` return the game's pictures.

    Raises:
        SettingError: Bad sizes; no game of several players.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        max_entities: Room,
        max_actors: Room | None = None,
        *,
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        self._seats = PaddedSeats(game, max_entities, max_actors, strict=strict)
        self.game = game
        self.render_mode = check_render_mode(render_mode)
        self.metadata = {
            "name": f"{type(game).__name__.lower()}_v0",
            "render_modes": ["rgb_array"],
            "is_parallelizable": isinstance(self, ParallelEnv),
        }
        self.agents: list[str] = []
        self._closed = False

    @property
    def possible_agents(self) -> list[str]:
        """All seats, and the further lives that any of them has had so far."""
        return list(self._seats.born)

    def observation_space(self, agent: str) -> Any:
        """Return the same for all agents; an object of its own for each."""
        return self._seats.space(agent, 0)

    def action_space(self, agent: str) -> Any:
        """Return the action space."""
        return self._seats.space(agent, 1)

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return the game's picture, with the render mode ``rgb_array``."""
        return self.game.render() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the game; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.game.close()
