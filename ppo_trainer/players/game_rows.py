"""The base class of wrappers that follow the games of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entity_env import VecEnv, VecObs
from entity_env.errors import DAMAGES, SeatError, SettingError, StateError, shorten
from entity_env.wrappers.vec_wrapper import VecWrapper
from ppo_trainer.players.game_tracker import GameTracker

__all__ = ["GameRows", "check_sides"]


class GameRows(VecWrapper):
    """Rows of games whose seats are consecutive rows, with additional state.

    The additional state is saved with the first row, under the name ``saved_as``.

    Args:
        env: Rows of games.
        sides: Seats of each side: a team, or a single seat.
    """

    saved_as: str

    def __init__(self, env: VecEnv, sides: Sequence[Sequence[int]]) -> None:
        super().__init__(env)
        seats = check_sides(sides)
        if len(env) % seats:
            raise SettingError(
                f"{len(env)} rows do not make whole games of {seats} seats",
                expected=f"a multiple of {seats}",
                received=len(env),
            )
        self._games = GameTracker(len(env), seats)

    def own_state(self) -> Any:
        """Return the additional state as JSON values."""
        raise NotImplementedError

    def around(self, state: Sequence[Any], own: Any) -> list[Any]:
        """Return the state of these rows, from that of the wrapped rows and their ``own``."""
        return [
            {"row": row, **({} if number else {self.saved_as: own})}
            for number, row in enumerate(state)
        ]

    def _set_own_state(self, state: Any) -> None:
        """Restore a state of ``own_state``; raise one of DAMAGES for anything else."""
        raise NotImplementedError

    def _get_state(self) -> list[Any]:
        own = self.own_state()
        return self.around(self.env.get_state(), own)

    def _set_state(self, state: list[Any]) -> VecObs:
        try:
            rows = [saved["row"] for saved in state]
            self._set_own_state(state[0][self.saved_as])
        except DAMAGES as error:
            raise StateError(
                f"the saved state of {self.saved_as} is damaged: {type(error).__name__}: {error}",
                received=shorten(state),
            ) from error
        return super()._set_state(rows)


def check_sides(sides: Sequence[Sequence[int]]) -> int:
    """Return the number of seats.

    Raises:
        SeatError: There are fewer than two sides, or a seat is in no side or in two.
    """
    every = sorted(seat for side in sides for seat in side)
    if len(sides) < 2 or not all(len(side) for side in sides):
        raise SeatError(
            "a game needs opponents",
            expected="two sides with at least one seat each",
            received=shorten([list(side) for side in sides]),
        )
    if every != list(range(len(every))):
        twice = sorted({seat for seat in every if every.count(seat) > 1})
        raise SeatError(
            f"seat {twice[0]} has two players" if twice else "a seat has no player",
            expected="each seat on one side",
            received=shorten([list(side) for side in sides]),
        )
    return len(every)
