"""Find out whether a function makes environments or games of several players, by a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entity_env.errors import FAILURES
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.seats.table import seats_of

__all__ = ["Peeked"]


class Peeked:
    """A wrapper of ``create_env`` that makes the first environment early, to inspect it.

    Errors while the first one is made are raised when it is requested.

    Args:
        create_env: Function that makes one environment, or one game of several players.

    Attributes:
        is_game: True if the function makes games of several players.
        seats: Number of seats of a game; 1 for environments.
    """

    def __init__(self, create_env: Callable[[], Any]) -> None:
        self._create_env = create_env
        self._first: list[Callable[[], Any]] = []
        self.is_game, self.seats = False, 1
        if not callable(create_env):
            return
        try:
            made = create_env()
        except FAILURES as error:
            self._first.append(_raising(error))
            return
        self._first.append(lambda: made)
        self.is_game = isinstance(made, MultiPlayerEnvironment)
        if self.is_game:
            self.seats = len(seats_of(made))

    def __call__(self) -> Any:
        """Return the next environment or game."""
        if not callable(self._create_env):  # ``ListEnv`` raises the error
            return self._create_env
        return self._first.pop()() if self._first else self._create_env()


def _raising(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again
