"""Checks of games of several players and of their seats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from entity_env.batching.vec_obs import VecObs
from entity_env.checking.check_tools import BetweenCalls
from entity_env.errors import SeatError, shorten
from entity_env.multi_player import MultiPlayerEnvironment, Seat, SeatActions, SeatObservations
from entity_env.observation import Observation
from entity_env.wrappers.wrapper import SeatWrapper

__all__ = ["BetweenSeats", "notes_of_seats"]


class BetweenSeats(BetweenCalls, SeatWrapper):
    """A wrapper of a game that checks the observations of its seats.

    Args:
        game: The game.
        is_damaging: See ``BetweenCalls``.
        look: See ``BetweenCalls``.
        shown: See ``BetweenCalls``.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        is_damaging: bool,
        look: Callable[[Observation], None] | None = None,
        shown: dict[int, list[Observation]] | None = None,
    ) -> None:
        super().__init__(game, is_damaging, look, shown)
        self._seats, self._teams = list(game.seats()), _listed(game.teams())

    def reset(self) -> SeatObservations:
        """Reset the game."""
        told: SeatObservations = self._around(self.game.reset)
        return told

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play a step of the game."""
        told: SeatObservations = self._around(self.game.act, actions)
        return told

    def _observations(self, told: SeatObservations) -> list[Observation]:
        if list(self.game.seats()) != self._seats:
            raise SeatError(
                "seats() is not the same at every call",
                expected=shorten(self._seats),
                received=shorten(list(self.game.seats())),
            )
        if _listed(self.game.teams()) != self._teams:
            raise SeatError(
                "teams() is not the same at every call",
                expected=shorten(self._teams),
                received=shorten(_listed(self.game.teams())),
                hint="a seat that is out of the game stays in its team",
            )
        owner: dict[int, Seat] = {}
        for seat, observation in told.items():
            other = owner.setdefault(id(observation), seat)
            if other != seat:
                raise SeatError(
                    f"seats {other!r} and {seat!r} are given the same Observation object",
                    expected="a separate object for each seat",
                )
        return [
            observation for observation in told.values() if isinstance(observation, Observation)
        ]


def notes_of_seats(game: list[VecObs], seats: Sequence[Seat]) -> list[str]:
    """Return a note on seats that never had to act in one game of random play."""
    asked = np.zeros(len(seats), np.int64)
    for obs in game:
        asked[obs.rows] += 1
    never = [seat for seat, count in zip(seats, asked, strict=True) if not count]
    if not never or len(never) == len(seats):
        return []
    return [f"in {len(game):,} observations seats {shorten(never)} never had to act"]


def _listed(teams: Any) -> Any:
    return {team: list(members) for team, members in teams.items()}
