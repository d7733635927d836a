"""Boards are drawn whole, with each piece where it lies."""

from __future__ import annotations

import numpy as np
import pytest
from ragged_envs.board_picture import EMPTY, INK, PLAYERS, Space, draw_spaces, player_signs
from ragged_envs.connect_four import ConnectFour
from ragged_envs.count import Count
from ragged_envs.fill_order import FillOrder
from ragged_envs.multi_snake import MultiSnake
from ragged_envs.photosynthesis import Photosynthesis
from ragged_envs.photosynthesis_script import grow_greedily
from ragged_envs.pursuit import Pursuit
from ragged_envs.tic_tac_toe import TicTacToe

from entity_env import SelectEntityAction
from entity_env.errors import SettingError

pytest.importorskip("PIL")


def select(name, entity):
    return {name: SelectEntityAction(["me"], [entity])}


def near(picture, column, row, cell):
    # Beside the middle, where there may be writing.
    return tuple(picture[int((row + 0.5) * cell), int((column + 0.3) * cell)].tolist())


def test_connect_four():
    game = ConnectFour()
    game.reset()
    drop = {"Drop": SelectEntityAction([("Player", 0)], [("Column", 3)])}
    game.act({"first": drop})
    game.act({"second": drop})
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
    with pytest.raises(SettingError, match="cell"):
        draw_spaces([Space(0, 0)], cell=1)


def test_tiles_have_y_up_and_the_legend_below_them():
    game = Pursuit(hunters=1, runners=1, board_size=4, walls=1)
    game.seed(0)
    game.reset()
    game.walls, game.places = {(0, 0)}, [(3, 0), (1, 3)]
    picture = game.render(cell=80)  # below a line of 24 pixels
    assert picture.shape[1] == 4 * 80
    board = picture[24 : 24 + 4 * 80]
    assert near(board, 0, 3, 80) == INK
    assert near(board, 3, 3, 80) == PLAYERS[1]
    assert near(board, 1, 0, 80) == PLAYERS[0]
    assert near(board, 2, 2, 80) == EMPTY
    assert all((picture[24 + 4 * 80 :] == color).all(-1).any() for color in (INK, *PLAYERS[:2]))


def test_tiles_are_as_large_as_the_board_is_small():
    for size, width in ((4, 4 * 72), (8, 8 * 36), (20, 20 * 20)):  # 288 / size, at least 20
        game = MultiSnake(num_snakes=1, board_size=size, max_length=2)
        game.reset()
        assert game.render().shape[1] == width
    with pytest.raises(SettingError, match="cell"):
        game.render(cell=2)


def test_beans_and_items():
    game = Count()
    game.reset()
    game.beans, game.answer = 2, 7
    row = game.render(cell=40)[40:]  # below the title
    assert [near(row, i, 0, 40) != EMPTY for i in range(9)] == [True, True, *[False] * 7]

    order = FillOrder(items=3)
    order.reset()
    order.orders, order.colors = [2], [0, 1, 2]
    picture = order.render(cell=40)[40:]
    assert near(picture, 0, 0, 40) == PLAYERS[2]
    assert [near(picture[60:], i, 0, 40) for i in range(3)] == list(PLAYERS[:3])
