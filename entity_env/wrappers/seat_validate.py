"""Checks of the observations and turns of games of several players that are played by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from entity_env.arguments import named_arguments
from entity_env.batching.frame_reader import FrameReader
from entity_env.errors import DAMAGES, ResetNeededError, SettingError
from entity_env.rows.vec_env import damaged_state
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    Seat,
    SeatActions,
    SeatObservations,
)
from entity_env.seats.table import Table, check_turns
from entity_env.wrappers.wrapper import SeatWrapper

__all__ = ["SeatValidate"]


@named_arguments(SettingError)
class SeatValidate(SeatWrapper):
    """Checks each observation of each seat, the seats in the game, and their turns.

    ``SeatRows`` checks observations, too; this is for games that are played by hand.

    Args:
        game: The game.
    """

    def __init__(self, game: MultiPlayerEnvironment) -> None:
        super().__init__(game)
        self._table = Table(game)
        self._reader = FrameReader(game.obs_space(), game.action_space())
        self._asked: set[int] = set()

    def seats(self) -> Sequence[Seat]:
        """Return the seats of the game, checked."""
        return self._table.seats

    def reset(self) -> SeatObservations:
        """Start a game.

        Raises:
            EntityEnvError: What it shows cannot be so.
        """
        self._asked.clear()
        return self._checked("reset", self._table.reset)

    def act(self, actions: SeatActions) -> SeatObservations:
        """Go on with the game.

        Raises:
            SeatError: A seat acts that was not asked, or one that was asked does not.
            ResetNeededError: The game is over.
            EntityEnvError: What it shows cannot be so.
        """
        if self._table.is_over:
            raise ResetNeededError("there is no game to play", hint="call reset() first")
        seats = self._table.seats
        check_turns(seats, self._asked, actions)
        number = {seat: i for i, seat in enumerate(seats)}
        taken = {number[seat]: own for seat, own in actions.items()}
        self._asked.clear()
        return self._checked("act", self._table.act, taken)

    def _checked(
        self, what: str, function: Callable[..., Any], *arguments: Any
    ) -> SeatObservations:
        told: Mapping[int, Any] = function(*arguments)
        shown = {}
        for i, observation in told.items():
            seat = self._table.seats[i]
            frame = self._reader.read(observation, f"seat {seat!r}, {what}")
            self._asked.discard(i)
            if frame.asks:
                self._asked.add(i)
            shown[seat] = observation
        return shown

    def set_state(self, state: Mapping[str, Any]) -> SeatObservations:
        """Go back to a saved game."""
        self._asked.clear()
        try:
            own, inside = state["game"], [int(seat) for seat in state["inside"]]
        except DAMAGES as error:
            raise damaged_state(state, error) from error
        return self._checked("set_state", self._table.set_state, own, inside)

    def get_state(self) -> dict[str, Any]:
        """Return the state of the game, and the seats in it."""
        return {"game": self.game.get_state(), "inside": sorted(self._table.inside)}
