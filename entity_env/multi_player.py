"""Base class of games for several players."""

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
"""The name of a player in a game, such as a string or a number."""
SeatObservations: TypeAlias = Mapping[Seat, Observation]
SeatActions: TypeAlias = Mapping[Seat, Mapping[ActionName, Action]]


class MultiPlayerEnvironment(Playable):
    """A game for several players, whose observations are lists of entities.

    Subclasses define ``obs_space``, ``action_space``, ``seats``, ``reset`` and ``act``. All seats
    have the same spaces; use entity types and features for different roles. A seat sees its own
    observations only.

    ``reset`` and ``act`` return a dict with observations of some seats:

    - A seat must act if its observation has actors. Several such seats act in the same step. If
      there is none, ``act`` is called without actions.
    - An observation without actors tells a waiting seat its reward or its end.
    - A seat without an observation continues to wait.
    - ``done`` removes the seat from the game, with its last reward. If the seat gets an observation
      later, it joins the game again, in a new episode of the seat.

    The game is over when all seats that have taken part are out.
    """

    @abstractmethod
    def seats(self) -> Sequence[Seat]:
        """Return all seats that may ever take part, in order; the same at every call."""

    @abstractmethod
    def reset(self) -> SeatObservations:
        """Start a game, and return the observations of the seats that take part from its start."""

    @abstractmethod
    def act(self, actions: SeatActions) -> SeatObservations:
        """Play one step.

        Args:
            actions: The actions of each seat that must act, in the format of ``Environment.act``.
        """

    def teams(self) -> Mapping[str, Collection[Seat]]:
        """Return the seats of each team by its name; an empty dict without teams."""
        return {}

    def is_over(self) -> bool | None:
        """Return True if the game is over; None means that it ends when all seats are out.

        Override this in a game whose seats may all be out for a while and come back. When the game
        is over, all seats must be out.
        """
        return None
