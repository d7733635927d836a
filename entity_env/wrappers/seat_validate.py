"""``SeatValidate``, which checks the observations and turns of games of several players."""

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
    """A wrapper that checks observations of seats, the seats in the game, and their turns.

    ``SeatRows`` checks these anyway; use this wrapper in your own loop over a game.

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
            EntityEnvError: An observation is not valid.
        """
        self._asked.clear()
        return self._checked("reset", self._table.reset)

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play one step.

        Raises:
            SeatError: A seat acts out of turn, or a seat that must act does not.
            ResetNeededError: The game is over.
            EntityEnvError: An observation is not valid.
        """
        if self._table.is_over:
            raise ResetNeededError("no game is running", hint="call reset() first")
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
        """Restore a saved game."""
        self._asked.clear()
        try:
            own, inside = state["game"], [int(seat) for seat in state["inside"]]
        except DAMAGES as error:
            raise damaged_state(state, error) from error
        return self._checked("set_state", self._table.set_state, own, inside)

    def get_state(self) -> dict[str, Any]:
        """Return the state of the game, and the seats in it."""
        return {"game": self.game.get_state(), "inside": sorted(self._table.inside)}
