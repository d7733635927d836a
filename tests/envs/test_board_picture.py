"""Boards are drawn whole, with each piece where it lies."""

from __future__ import annotations

import numpy as np
import pytest
from ragged_envs.board_picture import EMPTY, PLAYERS, Space, draw_spaces, player_signs
from ragged_envs.connect_four import ConnectFour
from ragged_envs.errors import EnvConfigError
from ragged_envs.photosynthesis import Photosynthesis
from ragged_envs.photosynthesis_script import grow_greedily
from ragged_envs.tic_tac_toe import TicTacToe

from entity_env import SelectEntityAction

pytest.importorskip("PIL")


def select(name, entity):
    return {name: SelectEntityAction(["me"], [entity])}


def near(picture, column, row, cell):
    # Beside the middle, where there may be writing.
    return tuple(picture[int((row + 0.5) * cell), int((column + 0.3) * cell)].tolist())


def test_connect_four():
    game = ConnectFour()
    game.reset()
    game.act({"first": select("Drop", ("Column", 3))})
    game.act({"second": select("Drop", ("Column", 3))})
    picture = game.render(cell=40)
    assert picture.shape[1:] == (7 * 40, 3)
    assert all((picture[6 * 40 :] == color).all(-1).any() for color in PLAYERS[:2])  # the legend
    assert picture.dtype == np.uint8
    assert near(picture, 3, 5, 40) == PLAYERS[0]
    assert near(picture, 3, 4, 40) == PLAYERS[1]
    assert near(picture, 3, 3, 40) == near(picture, 0, 5, 40) == EMPTY


def test_tic_tac_toe():
    game = TicTacToe()
    game.reset()
    game.act({"X": select("Mark", ("Cell", 2))})
    picture = game.render(cell=40)
    assert picture.shape[1:] == (120, 3)
    assert all((picture[120:] == color).all(-1).any() for color in PLAYERS[:2])
    assert near(picture, 2, 0, 40) == PLAYERS[0]
    assert near(picture, 0, 2, 40) == EMPTY


def test_photosynthesis_shows_more_as_trees_grow():
    game = Photosynthesis()
    game.seed(1)
    seats = game.reset()
    before = game.render()
    for _ in range(60):
        seats = game.act({s: grow_greedily(o) for s, o in seats.items() if o.actions})
    after = game.render()
    assert before.shape == after.shape
    colored = [(picture == PLAYERS[0]).all(-1).sum() for picture in (before, after)]
    assert colored[1] > colored[0]


def test_sizes():
    small, large = (
        (draw_spaces([Space(0, 0, 1, size)], cell=100) == PLAYERS[1]).all(-1).sum()
        for size in (0.5, 1.0)
    )
    # Circles of half the radius and the whole: a quarter of the area.
    assert small / large == pytest.approx(0.25, abs=0.02)
    assert draw_spaces([Space(0, 0), Space(2.5, 1)], "title", 20).shape == (60, 70, 3)
    signed = draw_spaces([Space(0, 0)], cell=40, signs=player_signs(["one", "two"]))
    assert all((signed[40:] == color).all(-1).any() for color in PLAYERS[:2])
    with pytest.raises(EnvConfigError, match="cell"):
        draw_spaces([Space(0, 0)], cell=1)
