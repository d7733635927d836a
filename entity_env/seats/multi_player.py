"""The class that people subclass for several players: one game, and a seat for each of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeAlias

from entity_env.actions import Action
from entity_env.environment import Playable
from entity_env.observation import Observation
from entity_env.spaces import ActionName

__all__ = ["MultiPlayerEnvironment", "Seat", "SeatActions", "SeatObservations"]

Seat: TypeAlias = Hashable
"""The name of a player in a game: a string, a number."""
SeatObservations: TypeAlias = Mapping[Seat, Observation]
SeatActions: TypeAlias = Mapping[Seat, Mapping[ActionName, Action]]


class MultiPlayerEnvironment(Playable):
    """One game for several players, each of whom sees and plays through lists of entities.

    A subclass writes ``obs_space``, ``action_space``, ``seats``, ``reset`` and ``act``. All seats
    have the same spaces; roles are entity types and features. A seat sees nothing but its own
    observations.

    ``reset`` and ``act`` return an observation for each seat that something has happened to:

    - One with an actor in some action asks the seat, which acts next. Where several are asked they
      act at once; where one is, they take turns; where nobody is, the game goes on by itself.
    - One without actors tells the seat its reward, or its end, while it waits.
    - A seat without an observation waits as it did.
    - ``done`` takes the seat out of the game, with its last reward. An observation that a seat gets
      when it is out takes it into the game again, as a new episode of that seat.

    The game is over when everybody who has taken part is out.
    """

    @abstractmethod
    def seats(self) -> Sequence[Seat]:
        """Return all seats that may ever take part, in order; the same at every call."""

    @abstractmethod
    def reset(self) -> SeatObservations:
        """Start a game, and return the observations of the seats that take part from its start."""

    @abstractmethod
    def act(self, actions: SeatActions) -> SeatObservations:
        """Go on with the game.

        Args:
            actions: For each seat that was asked what it does, as ``Environment.act`` takes it.
        """

    def teams(self) -> Mapping[str, Collection[Seat]]:
        """Return the seats of each team by its name; without teams nothing."""
        return {}

    def is_over(self) -> bool | None:
        """Return True if the game is over; None: when everybody who has taken part is out.

        A game in which all may be out for a while, and come back, says so here. Once it is over
        nobody may be in it.
        """
        return None
