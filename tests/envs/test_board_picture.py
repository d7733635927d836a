"""Boards of tiles are drawn whole, with each piece where it lies."""

from __future__ import annotations

import pytest
from ragged_envs.board_picture import EMPTY, INK, PLAYERS
from ragged_envs.count import Count
from ragged_envs.fill_order import FillOrder
from ragged_envs.multi_snake import MultiSnake
from ragged_envs.pursuit import Pursuit

from entity_env.errors import SettingError

pytest.importorskip("PIL")


def near(picture, column, row, cell):
    # Beside the middle, where there may be writing.
    return tuple(picture[int((row + 0.5) * cell), int((column + 0.3) * cell)].tolist())


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
    row = game.render(cell=40)[24:]
    assert [near(row, i, 0, 40) != EMPTY for i in range(9)] == [True, True, *[False] * 7]

    order = FillOrder(items=3)
    order.reset()
    order.orders, order.colors = [2], [0, 1, 2]
    picture = order.render(cell=40)[24:]
    assert near(picture, 0, 0, 40) == PLAYERS[2]
    assert [near(picture, i, 2, 40) for i in range(3)] == list(PLAYERS[:3])
