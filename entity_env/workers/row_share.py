"""The rows of a worker, which are whole games."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from entity_env.errors import SettingError, counted
from entity_env.rows.list_env import ListEnv
from entity_env.seats.peeked import Peeked
from entity_env.seats.seat_rows import SeatRows

__all__ = ["RowShare", "cut_rows", "share_of"]


class RowShare:
    """The consecutive rows of one worker.

    Args:
        create_env: Function that makes one environment, or one game of several players.
        seats: Number of rows of a game; 1 for environments.
        is_game: True for games of several players, which may have a single seat.
        start: Settings from the parent: ``num_envs``, ``num_processes``, ``index``, ``seed``.
    """

    def __init__(
        self, create_env: Callable[[], Any], seats: int, is_game: bool, start: Mapping[str, Any]
    ) -> None:
        self._create_env, self._is_game, self._seed = create_env, is_game, start["seed"]
        self.seats = seats
        shares = cut_rows(start["num_envs"], start["num_processes"], seats)
        self.first_row, self.num_rows = shares[start["index"]]

    def rows(
        self, first_row: int, num_rows: int, on_row: Callable[[int, int], None]
    ) -> ListEnv | SeatRows:
        """Return some of the rows."""
        kind: Any = SeatRows if self._is_game else ListEnv
        rows: ListEnv | SeatRows = kind(
            self._create_env, num_rows, self._seed, first_row=first_row, on_row=on_row
        )
        return rows

    def place(self, row: int) -> str:
        """Return the name of a row in errors."""
        return f"game {row // self.seats}" if self._is_game else f"environment {row}"


def share_of(create_env: Callable[[], Any], start: Mapping[str, Any]) -> RowShare:
    """Return the rows of the worker with the settings ``start``.

    A first call of ``create_env`` shows whether it makes games, and their number of seats.
    """
    peeked = Peeked(create_env)
    # ``ListEnv`` raises an error for objects that cannot be called.
    create: Callable[[], Any] = peeked if callable(create_env) else create_env
    return RowShare(create, peeked.seats, peeked.is_game, start)


def cut_rows(num_envs: int, num_processes: int, seats: int) -> list[tuple[int, int]]:
    """Return the first row of each worker and its number of rows, which are whole games.

    Raises:
        SettingError: The rows are not whole games, or there are more workers than games.
    """
    if num_envs % seats:
        raise SettingError(
            f"{counted(num_envs, 'row')} cannot be shared by games of {seats} seats",
            expected=f"a multiple of {seats}, such as {num_envs + seats - num_envs % seats}",
            received=num_envs,
        )
    games = num_envs // seats
    if num_processes > games:
        raise SettingError(
            "invalid number of processes",
            expected=f"a whole number >= 1 and <= {games}, the number of games of {seats} seats",
            received=num_processes,
        )
    parts = np.array_split(np.arange(games), num_processes)
    return [(int(part[0]) * seats, len(part) * seats) for part in parts]
