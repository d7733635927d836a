"""Checks of games of several players and of their seats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from entity_env.batching.step_results import is_over
from entity_env.batching.vec_obs import VecObs
from entity_env.checking.check_tools import BetweenCalls
from entity_env.errors import SeatError, shorten
from entity_env.observation import Observation
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    Seat,
    SeatActions,
    SeatObservations,
)
from entity_env.wrappers.wrapper import SeatWrapper

__all__ = ["BetweenSeats", "OutOfTurn", "notes_of_seats"]


class BetweenSeats(BetweenCalls, SeatWrapper):
    """Passes everything on to a game, and looks at what the seats were told.

    Args:
        game: The game.
        is_damaging: As of ``BetweenCalls``.
        look: As of ``BetweenCalls``.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        is_damaging: bool,
        look: Callable[[Observation], None] | None = None,
    ) -> None:
        super().__init__(game, is_damaging, look)
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
                hint="who is out of the game stays in its team",
            )
        owner: dict[int, Seat] = {}
        for seat, observation in told.items():
            other = owner.setdefault(id(observation), seat)
            if other != seat:
                raise SeatError(
                    f"seats {other!r} and {seat!r} are given the same observation",
                    expected="an object of its own for each seat: what one sees, and is paid, "
                    "is not another's",
                )
        return [own for own in told.values() if isinstance(own, Observation)]


class OutOfTurn(SeatWrapper):
    """Repeats the last actions of all seats whenever they are not asked."""

    def __init__(self, game: MultiPlayerEnvironment) -> None:
        super().__init__(game)
        self._taken: dict[Seat, Any] = {}

    def reset(self) -> SeatObservations:
        """Reset the game."""
        self._taken.clear()
        return self.game.reset()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play a step with what others did before."""
        both = {**self._taken, **actions}
        self._taken.update(actions)
        told = self.game.act(both)
        if isinstance(told, Mapping):
            for seat, own in told.items():
                if isinstance(own, Observation) and is_over(own):
                    self._taken.pop(seat, None)
        return told


def notes_of_seats(game: list[VecObs], seats: Sequence[Seat]) -> list[str]:
    """Return the notes on the asked seats in one game of random play."""
    asked = np.zeros(len(seats), np.int64)
    for obs in game:
        asked[obs.rows] += 1
    never = [seat for seat, count in zip(seats, asked, strict=True) if not count]
    if not never or len(never) == len(seats):
        return []
    return [f"in {len(game):,} observations seats {shorten(never)} were never asked anything"]


def _listed(teams: Any) -> Any:
    return {team: list(members) for team, members in teams.items()}
