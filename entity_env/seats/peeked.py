"""Find out if a function makes environments or games of several players, by making one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entity_env.errors import FAILURES
from entity_env.seats.multi_player import MultiPlayerEnvironment
from entity_env.seats.table import seats_of

__all__ = ["Peeked"]


class Peeked:
    """Makes what ``create_env`` makes; the first one has been made and looked at already.

    What goes wrong with the first one is raised when it is asked for, as if nobody had looked.

    Args:
        create_env: Makes one environment, or one game of several players.

    Attributes:
        is_game: Whether it makes games of several players.
        seats: How many seats these have; 1 for environments.
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
        """Return the next one."""
        if not callable(self._create_env):  # ``ListEnv`` raises the error
            return self._create_env
        return self._first.pop()() if self._first else self._create_env()


def _raising(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again
