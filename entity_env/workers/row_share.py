"""The shares of rows that processes play."""

from __future__ import annotations

import numpy as np

from entity_env.errors import SettingError, counted

__all__ = ["cut_rows"]


def cut_rows(num_envs: int, num_processes: int, seats: int) -> list[tuple[int, int]]:
    """Return the first row of each process and its number of rows, which are whole games.

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
