"""Tic-tac-toe: positions by hand, and the perfect player."""

from __future__ import annotations

import pytest
from ragged_envs.tic_tac_toe import PerfectPlayer, TicTacToe, best_cells, value

from entity_env import MaskedEnvironment
from entity_env.errors import StateError
from entity_env.play import play_scripted


def test_a_perfect_player_knows_what_positions_are_worth():
    assert value((0,) * 9) == 0  # a draw
    # x x . / o o . / . . .: who moves completes the row, and nothing else wins against o's threat
    board = (1, 1, 0, 2, 2, 0, 0, 0, 0)
    assert value(board) == 1
    assert best_cells(board) == (2,)
    # o . . / . . . / . . .: of the replies to a corner only the centre draws
    assert best_cells((2, 0, 0, 0, 0, 0, 0, 0, 0)) == (4,)
    # two threats of the other at once are lost: o . o / . x . / o . x has rows 0 and column 0 open
    assert value((2, 0, 2, 0, 1, 0, 2, 0, 1)) == -1


@pytest.mark.parametrize("seat", ["X", "O"])
def test_a_perfect_player_never_loses_and_random_players_do(seat):
    def create():
        return MaskedEnvironment(TicTacToe, "random", shuffle_seats=False, seat=seat)

    wins = play_scripted(create, PerfectPlayer(), 150, 0)["win"]
    assert wins.min() >= 0.5
    assert wins.mean() > 0.85  # known: 99.5% of games are won as X, about 90% as O


@pytest.mark.parametrize("change", [{"turn": 1}, {"board": [0] * 8}, {"board": [3, *[0] * 8]}])
def test_states_that_do_not_fit_are_refused(change):
    game = TicTacToe()
    game.reset()
    with pytest.raises(StateError, match=r"a state with|not a state"):
        game.set_state({**game.get_state(), **change})
