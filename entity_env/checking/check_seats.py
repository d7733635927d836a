"""Checks of games of several players and of their seats."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from entity_env.batching.step_results import is_over
from entity_env.batching.vec_obs import VecObs, batch_obs
from entity_env.checking.check_tools import COPIES, check_spaces, damage, difference, pack_obs
from entity_env.errors import ObservationError, SeatError, shorten
from entity_env.observation import Observation
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    Seat,
    SeatActions,
    SeatObservations,
)
from entity_env.wrappers.wrapper import SeatWrapper

__all__ = ["BetweenSeats", "OutOfTurn", "notes_of_seats"]


class BetweenSeats(SeatWrapper):
    """Passes everything on, and looks at what the seats were told around each call.

    Args:
        game: The game.
        is_damaging: Whether to damage what was told before the next call: then a game that goes on
            with what it has returned plays another one. Without it, a game that changes what it has
            returned is refused.
        look: Called with each observation, which is valid.
    """

    def __init__(
        self,
        game: MultiPlayerEnvironment,
        is_damaging: bool,
        look: Callable[[Observation], None] | None = None,
    ) -> None:
        super().__init__(game)
        self._is_damaging, self._look = is_damaging, look
        self._last: list[Observation] = []
        self._repairs: list[Callable[[], None]] = []
        self._spaces = game.obs_space(), game.action_space()
        self._seats, self._teams = list(game.seats()), _listed(game.teams())

    def reset(self) -> SeatObservations:
        """Reset the game."""
        return self._around(self.game.reset)

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play a step of the game."""
        return self._around(self.game.act, actions)

    def close(self) -> None:
        """Repair what was damaged, which may be shared with the whole program, and close."""
        while self._repairs:
            self._repairs.pop()()
        super().close()

    def _around(self, call: Callable[..., SeatObservations], *args: Any) -> SeatObservations:
        if self._is_damaging:
            for last in self._last:
                self._repairs += damage(last)
            before = []
        else:
            before = [self._packed(last) for last in self._last]
        told = call(*args)
        for packed, last in zip(before, self._last, strict=False):
            part = difference("", packed, self._packed(last))
            if part is not None:
                raise ObservationError(
                    f"the game changes {part} of an observation that it has returned", hint=COPIES
                )
        self._check(told)
        # Copies: the framework itself may write into what it was given.
        self._last = [own for own in told.values() if isinstance(own, Observation)]
        for own in self._last:
            if self._look is not None:
                self._look(own)
        return told

    def _packed(self, observation: Observation) -> dict[str, Any]:
        return copy.deepcopy(pack_obs(batch_obs([observation], *self._spaces)))

    def _check(self, told: SeatObservations) -> None:
        check_spaces(self._spaces, self.game)
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


class OutOfTurn(SeatWrapper):
    """Lets all who have acted in a game do the same again whenever they are not asked."""

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
    """Return the notes on who was asked in one game of random play."""
    asked = np.zeros(len(seats), np.int64)
    for obs in game:
        asked[obs.rows] += 1
    never = [seat for seat, count in zip(seats, asked, strict=True) if not count]
    if not never or len(never) == len(seats):
        return []
    return [f"in {len(game):,} observations seats {shorten(never)} were never asked anything"]


def _listed(teams: Any) -> Any:
    return {team: list(members) for team, members in teams.items()}
