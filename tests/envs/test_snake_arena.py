"""SnakeArena: each rule by hand, ranks and rewards, and a script that beats random play."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from game_support import choose, plain
from ragged_envs.multi_snake import MOVES
from ragged_envs.snake_arena import SnakeArena
from ragged_envs.snake_arena_script import crawl_safely

from entity_env import MaskedEnvironment, check_env, errors, make
from entity_env.errors import SettingError
from entity_env.player.episodes import play_scripted

RIGHT, LEFT, UP, DOWN = range(4)


def arena(*snakes, food=(), steps=0, **settings):
    game = SnakeArena(players=len(snakes), **settings)
    game.seed(1)
    state = {"snakes": list(snakes), "food": list(food), "steps": steps}
    return game, game.set_state(state)


def go(game, *moves):
    """Move the snakes that live, in the order of seats."""
    alive = [game.seats()[i] for i in game.alive]
    actions = {
        seat: choose("Move", ["head"], [move], MOVES)
        for seat, move in zip(alive, moves, strict=True)
    }
    return game.act(actions)


def rewards(told):
    return {seat: seen.reward for seat, seen in told.items() if seen.done}


def test_what_a_seat_sees():
    first, second = [(2, 2), (1, 2), (1, 3)], [(4, 5), (5, 5)]
    _, told = arena(first, second, food=[(2, 3), (7, 7)], steps=10)
    assert plain(told["snake 0"])["features"] == {
        # Of its neighbours (3, 2), (1, 2), (2, 3), (2, 1) only (1, 2) is taken: by the neck, which
        # is no tail.
        "Head": [[2, 2, 3, 140, 1, True, False, True, True]],
        "OtherHead": [[2, 3, -1]],
        # (1, 2) is free in two moves, when the tail (1, 3) has left with the next one.
        "Body": [[-1, 0, 1, 1], [-1, 1, 1, 0], [3, 3, 0, 0]],
        "Food": [[0, 1], [5, 5]],
    }
    # The neck of the second snake, (5, 5), is its tail, too: free, but the mask forbids it.
    assert plain(told["snake 1"])["features"]["Head"] == [[4, 5, 2, 140, 1, True, True, True, True]]
    assert told["snake 1"].actions["Move"].mask == [(False, True, True, True)]


def test_snakes_move_and_food_makes_them_grow():
    game, _ = arena([(2, 2), (1, 2)], [(5, 5), (6, 5)], food=[(3, 2), (0, 7)])
    told = go(game, RIGHT, UP)
    assert game.snakes == [[(3, 2), (2, 2), (1, 2)], [(5, 6), (5, 5)]]
    assert len(game.food) == 2
    assert (0, 7) in game.food
    assert (3, 2) not in game.food
    assert all(not seen.done for seen in told.values())


@pytest.mark.parametrize(
    ("first", "second", "moves", "dead"),
    [
        # off the board
        ([(0, 2), (0, 1)], [(5, 5), (6, 5)], (LEFT, UP), {0}),
        # into a body that stays
        ([(2, 2), (2, 1)], [(4, 3), (3, 3), (2, 3), (1, 3)], (UP, RIGHT), {0}),
        # where a tail has been
        ([(2, 2), (2, 1)], [(4, 3), (3, 3), (2, 3)], (UP, RIGHT), set()),
        # head on head: the shorter one dies, or both
        ([(2, 2), (1, 2)], [(4, 2), (5, 2), (6, 2)], (RIGHT, LEFT), {0}),
        ([(2, 2), (1, 2)], [(4, 2), (5, 2)], (RIGHT, LEFT), {0, 1}),
        # heads that change places run into each other's necks
        ([(2, 2), (1, 2)], [(3, 2), (4, 2)], (RIGHT, LEFT), {0, 1}),
    ],
)
def test_who_dies(first, second, moves, dead):
    game, _ = arena(first, second)
    told = go(game, *moves)
    if not dead:
        assert rewards(told) == {}
    elif len(dead) == 1:
        assert rewards(told) == {"snake 0": -1.0, "snake 1": 1.0}
        assert [seen.metrics["win"] for seen in told.values()] == [0.0, 1.0]
    else:
        assert rewards(told) == {"snake 0": 0.0, "snake 1": 0.0}
        assert [seen.metrics["win"] for seen in told.values()] == [0.5, 0.5]


def test_a_snake_that_grows_keeps_its_tail_for_others_to_bite():
    # The other follows the tail (2, 3), and the snake eats at (5, 3): the tail stays.
    game, _ = arena([(2, 2), (2, 1)], [(4, 3), (3, 3), (2, 3)], food=[(5, 3)])
    assert rewards(go(game, UP, RIGHT)) == {"snake 0": -1.0, "snake 1": 1.0}


def test_places_of_four():
    left, right = [(0, 0), (1, 0)], [(7, 7), (6, 7)]
    game, _ = arena(left, right, [(3, 3), (3, 4)], [(5, 1), (5, 2)])
    # Two die at once: places 0 and 1 of 0..3, mean 0.5: 2 * 0.5 / 3 - 1 = -2/3.
    told = go(game, LEFT, RIGHT, RIGHT, RIGHT)
    assert rewards(told) == pytest.approx({"snake 0": -2 / 3, "snake 1": -2 / 3})
    assert game.alive == [2, 3]
    assert told["snake 2"].features["Head"][0][4] == 1
    for _ in range(3):
        told = go(game, DOWN, UP)
        assert set(told) == {"snake 2", "snake 3"}
    told = go(game, DOWN, UP)  # from (4, 0) off the board: third of four, place 2: 1/3
    assert rewards(told) == pytest.approx({"snake 2": 1 / 3, "snake 3": 1.0})
    assert not game.alive
    with pytest.raises(errors.ResetNeededError):
        game.act({})


def test_at_the_end_of_time_the_longest_wins():
    game, _ = arena([(2, 2), (1, 2)], [(5, 5), (6, 5), (7, 5)], steps=149)
    assert rewards(go(game, UP, UP)) == {"snake 0": -1.0, "snake 1": 1.0}
    game, _ = arena([(2, 2), (1, 2)], [(5, 5), (6, 5)], steps=149)
    assert rewards(go(game, UP, UP)) == {"snake 0": 0.0, "snake 1": 0.0}


@pytest.mark.parametrize("players", [2, 3, 4])
def test_rewards_sum_to_zero_and_wins_to_one(players):
    game = SnakeArena(players)
    game.seed(3)
    rng = np.random.default_rng(0)
    for _ in range(30):
        told, total, wins, out = game.reset(), 0.0, 0.0, 0
        while game.alive:
            told = go(
                game,
                *(
                    rng.choice(np.flatnonzero(told[game.seats()[i]].actions["Move"].mask[0]))
                    for i in game.alive
                ),
            )
            for seen in told.values():
                if seen.done:
                    total, wins, out = total + seen.reward, wins + seen.metrics["win"], out + 1
        assert (total, wins, out) == (pytest.approx(0.0), pytest.approx(1.0), players)


def test_states_go_on_elsewhere_and_bad_ones_are_refused():
    game, _ = arena([(2, 2), (1, 2)], [(5, 5), (6, 5)], food=[(3, 7)])
    go(game, UP, UP)
    state = json.loads(json.dumps(game.get_state()))
    other = SnakeArena()
    other.set_state(state)
    assert other.render_text() == game.render_text()
    assert ". . . * . . . ." in game.render_text()
    for change, words in (
        ({"snakes": [[(0, 0), (1, 0)]]}, "another number of snakes"),
        ({"snakes": [[(0, 0)], []]}, "one tile"),
        ({"snakes": [[(0, 0), (2, 0)], []]}, "in pieces"),
        ({"snakes": [[(0, 0), (-1, 0)], []]}, "off the board"),
        ({"food": [(2, 3)]}, "two things"),
        ({"food": [(0, 0), (0, 1), (0, 2)]}, "too much food"),
        ({"steps": 151}, "a step"),
        ({"steps": None}, "not a state"),
    ):
        with pytest.raises(errors.StateError, match=words):
            other.set_state({**state, **change})
    with pytest.raises(errors.ResetNeededError):
        SnakeArena().get_state()


def test_bad_moves_and_settings():
    game, _ = arena([(2, 2), (1, 2)], [(5, 5), (6, 5)])
    with pytest.raises(errors.ActionError):
        go(game, LEFT, UP)
    with pytest.raises(errors.ActionError):
        game.act({"snake 0": choose("Move", ["head"], [UP], MOVES)})
    for bad in ({"players": 5}, {"board_size": 5}, {"max_steps": 0}):
        with pytest.raises(SettingError, match=next(iter(bad))):
            SnakeArena(**bad)


def test_the_script_beats_random_players():
    create = functools.partial(MaskedEnvironment, SnakeArena, players=3)
    assert play_scripted(create, crawl_safely, 40, 0)["win"].mean() > 0.9


@pytest.mark.parametrize("players", [2, 4])
def test_it_is_an_environment_like_any_other(players):
    assert check_env(lambda: SnakeArena(players)).notes == ()
    assert isinstance(make("snake_arena"), MaskedEnvironment)
