import functools

import pytest
from game_support import assert_bad_states_are_refused, choose, plain
from ragged_envs.multi_snake import MOVES, MultiSnake, crawl_to_food

from entity_env import Discrete
from entity_env.errors import ActionError, SettingError
from entity_env.play import play_scripted

RIGHT, LEFT, UP, DOWN = range(4)


def go(*moves):
    return choose("Move", [("SnakeHead", i) for i in range(len(moves))], moves, MOVES)


def game(snakes, food, steps=0, **settings):
    env = MultiSnake(num_snakes=len(snakes), **settings)
    env.seed(1)
    state = {"snakes": snakes, "food": food, "crashed": False, "steps": steps}
    return env, env.set_state(state)


LONG = [(4, 4), (3, 4), (3, 5), (4, 5), (5, 5)]
"""A snake with its head at (4, 4); its neck is to the left, and its body above."""


def test_what_two_snakes_show():
    snakes = [[(2, 3), (2, 2), (1, 2)], [(7, 7)]]
    _, observation = game(snakes, [(0, 9), (5, 5)], relative=False)
    assert plain(observation) == {
        "features": {
            "SnakeHead": [[2, 3, 0], [7, 7, 1]],
            "SnakeBody": [[2, 2, 0], [1, 2, 0]],
            "Food": [[0, 9, 0], [5, 5, 1]],
        },
        "global_features": [],
        # The neck of snake 0 is below its head; the head of snake 1 has none.
        "masks": {"Move": [[True, True, True, False], [True, True, True, True]]},
        "reward": 0.0,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    assert observation.ids == {"SnakeHead": [("SnakeHead", 0), ("SnakeHead", 1)]}
    entities = MultiSnake(num_snakes=3, relative=False).obs_space().entities
    assert all(entity.features[2] == Discrete("snake", 3) for entity in entities.values())


def test_each_head_sees_everything_from_where_it_is():
    _, observation = game([[(2, 3), (2, 2), (1, 2)], [(7, 7), (7, 8)]], [(0, 9), (5, 5)])
    # [x, y, viewer, own]: from (2, 3) first, then from (7, 7).
    assert plain(observation)["features"] == {
        "SnakeHead": [[2, 3, 0], [7, 7, 1]],
        "SnakeBody": [
            [0, -1, 0, 1],
            [-1, -1, 0, 1],
            [5, 5, 0, 0],
            [-5, -5, 1, 0],
            [-6, -5, 1, 0],
            [0, 1, 1, 1],
        ],
        "Food": [[-2, 6, 0, 1], [3, 2, 0, 0], [-7, 2, 1, 0], [-2, -2, 1, 1]],
        "OtherHead": [[5, 4, 0], [-5, -4, 1]],
    }


@pytest.mark.parametrize(
    ("neck", "forbidden"), [((6, 5), RIGHT), ((4, 5), LEFT), ((5, 6), UP), ((5, 4), DOWN)]
)
def test_the_way_into_the_neck_is_masked(neck, forbidden):
    env, observation = game([[(5, 5), neck]], [(0, 0)])
    assert observation.actions["Move"].mask == [tuple(move != forbidden for move in range(4))]
    with pytest.raises(ActionError, match=MOVES[forbidden]):
        env.act(go(forbidden))


def test_the_tail_follows():
    env, _ = game([LONG], [(0, 0)])
    env.act(go(DOWN))
    assert env.snakes == [[(4, 3), (4, 4), (3, 4), (3, 5), (4, 5)]]
    assert env.food == [(0, 0)]


def test_food_makes_a_snake_grow():
    env, _ = game([LONG], [(5, 4)])
    observation = env.act(go(RIGHT))
    assert env.snakes == [[(5, 4), *LONG]]
    assert observation.reward == pytest.approx(0.1)
    assert not observation.done
    (food,) = env.food
    assert food not in env.snakes[0]
    assert 0 <= min(food) <= max(food) < 10


@pytest.mark.parametrize(("snakes", "pay"), [(1, 0.1), (2, 0.05), (4, 0.025)])
def test_a_growth_pays_its_share(snakes, pay):
    heads = [[(0, 2 * i)] for i in range(snakes)]
    food = [(1, 0), *[(9, 2 * i) for i in range(1, snakes)]]
    env, _ = game(heads, food)
    assert env.act(go(*[RIGHT] * snakes)).reward == pytest.approx(pay)
    assert env.food[1:] == food[1:]


def assert_crash(observation, reward=0.0):
    assert (observation.done, observation.truncated) == (True, False)
    assert observation.reward == pytest.approx(reward)
    assert observation.metrics == {"win": 0.0}


@pytest.mark.parametrize(
    ("head", "move"), [((9, 4), RIGHT), ((0, 4), LEFT), ((4, 9), UP), ((4, 0), DOWN)]
)
def test_a_wall_ends_the_game(head, move):
    env, _ = game([[head]], [(5, 5)])
    assert_crash(env.act(go(move)))


def test_the_own_body_ends_the_game():
    env, _ = game([LONG], [(0, 0)])
    assert_crash(env.act(go(UP)))  # (4, 5), from which nothing has moved away


def test_the_tile_that_the_tail_leaves_is_free():
    env, _ = game([[(4, 4), (3, 4), (3, 5), (4, 5)]], [(0, 0)])
    assert not env.act(go(UP)).done
    assert env.snakes == [[(4, 5), (4, 4), (3, 4), (3, 5)]]


def test_the_body_of_another_snake_ends_the_game():
    env, _ = game([[(4, 3)], [(5, 5), (5, 4), (4, 4), (3, 4)]], [(0, 0), (9, 9)])
    # Snake 1 moves on: its tail leaves (3, 4), but (4, 4) stays taken.
    assert_crash(env.act(go(UP, UP)))


def test_the_tile_that_another_tail_leaves_is_free():
    env, _ = game([[(4, 3)], [(5, 5), (5, 4), (4, 4)]], [(0, 0), (9, 9)])
    assert not env.act(go(UP, UP)).done


def test_but_not_if_that_snake_grows():
    env, _ = game([[(4, 3)], [(5, 5), (5, 4), (4, 4)]], [(0, 0), (5, 6)])
    assert_crash(env.act(go(UP, UP)), reward=0.05)


def test_two_heads_on_one_tile_end_the_game():
    env, _ = game([[(3, 3)], [(5, 3)]], [(0, 0), (9, 9)])
    assert_crash(env.act(go(RIGHT, LEFT)))


def test_heads_of_snakes_of_one_tile_pass_each_other():
    env, _ = game([[(3, 3)], [(4, 3)]], [(0, 0), (9, 9)])
    assert not env.act(go(RIGHT, LEFT)).done
    assert env.snakes == [[(4, 3)], [(3, 3)]]


def test_food_of_another_colour_ends_the_game():
    env, _ = game([[(3, 3)], [(7, 7)]], [(0, 0), (4, 3)])
    assert_crash(env.act(go(RIGHT, UP)))
    env, _ = game([[(3, 3)], [(7, 7)]], [(8, 7), (0, 0)])
    assert_crash(env.act(go(RIGHT, RIGHT)))


def straight(row, length):
    """A snake along a row with its head at the right end."""
    return [(length - 1 - i, row) for i in range(length)]


def test_full_length_wins():
    env, _ = game([straight(5, 4)], [(4, 5)], max_length=5)
    observation = env.act(go(RIGHT))
    assert (observation.done, observation.truncated) == (True, False)
    assert observation.reward == pytest.approx(0.25)
    assert observation.metrics == {"win": 1.0}
    assert env.food == [None]


def test_all_snakes_must_be_full_grown():
    env, _ = game([straight(5, 3), straight(2, 1)], [(3, 5), (5, 2)], max_length=4)
    observation = env.act(go(RIGHT, RIGHT))
    assert not observation.done
    # A full-grown snake has no food, and moves on without growing. The other's is 4 to the right.
    assert observation.features["Food"] == [(2, -3, 0, 0), (4, 0, 1, 1)]
    env.act(go(RIGHT, RIGHT))
    assert len(env.snakes[0]) == 4


def test_a_crash_in_the_step_of_the_last_growth_is_no_win():
    env, _ = game(
        [straight(5, 4), [(9, 9), (8, 9), (7, 9), (6, 9), (5, 9)]], [(4, 5), None], max_length=5
    )
    assert_crash(env.act(go(RIGHT, RIGHT)), reward=0.125)


def test_the_limit_truncates():
    env, _ = game([[(3, 3)]], [(9, 9)], steps=178)
    assert not env.act(go(RIGHT)).done
    last = env.act(go(RIGHT))
    assert (last.done, last.truncated, last.metrics) == (True, True, {"win": 0.0})
    env, _ = game([[(9, 3)]], [(9, 9)], steps=179)
    assert_crash(env.act(go(RIGHT)))


def test_new_food_is_not_on_the_food_of_another_snake():
    seen = set()
    for seed in range(150):
        env, _ = game([[(0, 0)], [(3, 3)]], [(1, 0), (3, 0)], board_size=4, max_length=3)
        env.seed(seed)
        env.act(go(RIGHT, DOWN))
        seen.add(env.food[0])
    # 16 tiles but two of snake 0, one of snake 1, and its food. Missing one of 12 in 150 draws has
    # a chance of 12 * (11/12)**150 = 3e-5.
    taken = {(0, 0), (1, 0), (3, 2), (3, 0)}
    assert seen == {(x, y) for x in range(4) for y in range(4)} - taken


def test_the_scripted_player_grows():
    one = functools.partial(MultiSnake, num_snakes=1)
    assert play_scripted(one, crawl_to_food, 5, seed=1)["episodic_reward"].mean() > 0.9
    assert play_scripted(MultiSnake, crawl_to_food, 5, seed=1)["episodic_reward"].mean() > 0.6


def test_the_scripted_player_takes_an_allowed_move_where_none_is_good():
    # In the corner, between the wall, its neck and its body.
    corner = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2)]
    _, observation = game([corner], [(9, 9)])
    (move,) = crawl_to_food(observation)["Move"].indices
    assert observation.actions["Move"].mask[0][move]


def test_the_text_shows_the_board():
    env, _ = game([[(0, 0), (0, 1)], [(2, 2)]], [(1, 0), (2, 0)], board_size=4, max_length=3)
    assert env.render_text().splitlines() == [
        "step 0 of 180, lengths 2, 1",
        ". . . .",
        ". . B .",
        "a . . .",
        "A 0 1 .",
    ]
    env.act(go(DOWN, UP))
    env.render_text()  # with a head off the board


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_snakes": 0}, "num_snakes"),
        ({"num_snakes": 11}, "num_snakes"),
        ({"num_snakes": 1.0}, "num_snakes"),
        ({"board_size": 0}, "board_size"),
        ({"max_length": 1}, "max_length"),
        ({"max_steps": 0}, "max_steps"),
        ({"relative": 0}, "relative"),
        ({"num_snakes": 1, "board_size": 3, "max_length": 9}, "too small"),
        ({"num_snakes": 10}, "too small"),
    ],
)
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        MultiSnake(**settings)


def test_actors_may_come_in_another_order():
    env, _ = game([[(3, 3)], [(6, 6)]], [(9, 9), (0, 0)])
    env.act(choose("Move", [("SnakeHead", 1), ("SnakeHead", 0)], [UP, LEFT], MOVES))
    assert env.snakes == [[(2, 3)], [(6, 7)]]


def test_bad_states_are_refused():
    env, _ = game([straight(0, 3), [(7, 7)]], [(9, 9), (0, 9)], max_length=4)
    grown = [[3, 0], [2, 0], [1, 0], [0, 0]]
    assert_bad_states_are_refused(
        env,
        [
            ({"snakes": [[[0]]]}, "not a state"),
            ({"food": [[0.5, 1], None]}, "not a state"),
            ({"crashed": 1}, "crashed"),
            ({"snakes": [[[7, 7]]]}, "number of snakes"),
            ({"food": [[9, 9]]}, "number of snakes"),
            ({"snakes": [[], [[7, 7]]]}, "another length"),
            ({"snakes": [[*grown, [0, 1]], [[7, 7]]]}, "another length"),
            ({"snakes": [[[0, 0], [1, 1]], [[7, 7]]]}, "in pieces"),
            ({"food": [[9, 9], None]}, "food"),
            ({"snakes": [grown, [[7, 7]]]}, "food"),
            ({"food": [[9, 9], [9, 9]]}, "two things"),
            ({"food": [[7, 7], [0, 9]]}, "two things"),
            ({"food": [[10, 9], [0, 9]]}, "off the board"),
            ({"snakes": [[[0, -1]], [[7, 7]]]}, "off the board"),
            ({"steps": -1}, "negative step"),
        ],
    )
    ended = env.set_state({**env.get_state(), "crashed": True})
    assert (ended.done, ended.truncated) == (True, False)
