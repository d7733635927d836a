"""The sides of a game of several players: its teams, and each seat that is in none."""

from __future__ import annotations

from entity_env.seats.table import seats_of
from ppo_trainer.environments import Game

__all__ = ["sides_of"]


def sides_of(game: Game) -> list[list[int]]:
    """Return the seats of each side of a game: its teams, and each seat that is in none alone.

    Raises:
        ConfigError: It is a game for one player.
    """
    made = game.table()
    try:
        seats = seats_of(made)
        teams = [[seats.index(seat) for seat in members] for members in made.teams().values()]
    finally:
        made.close()
    teamed = {seat for team in teams for seat in team}
    alone = [[seat] for seat in range(len(seats)) if seat not in teamed]
    return sorted([sorted(team) for team in teams if team] + alone)
