from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_envs.minesweeper import DEFUSE, MOVES, MineSweeper
from ragged_envs.minesweeper_script import walk_and_defuse

from entity_env.actions import CategoricalAction, SelectEntityAction
from entity_env.errors import ActionError, MaskError, ResetNeededError, SettingError, StateError
from entity_env.observation import Observation

RIGHT, LEFT, UP, DOWN = range(4)


def play(env, moves=(), shots=()):
    """One step: a move for each robot (None: no order), and pairs (cannon, target)."""
    ordered = [(("Robot", i), move) for i, move in enumerate(moves) if move is not None]
    return env.act(
        {
            "Move": CategoricalAction(
                [actor for actor, _ in ordered],
                np.array([move for _, move in ordered], np.int64),
                MOVES,
            ),
            "Fire Orbital Cannon": SelectEntityAction(
                [("Orbital Cannon", cannon) for cannon, _ in shots], [to for _, to in shots]
            ),
        }
    )


def plain(observation):
    """Everything in an observation, as values that compare."""
    masks = {}
    for name, mask in observation.actions.items():
        masks[name] = {
            key: None if value is None else np.asarray(value).tolist() if key == "mask" else value
            for key, value in asdict(mask).items()
        }
    return {
        "features": {k: np.asarray(v).tolist() for k, v in observation.features.items()},
        "ids": {k: list(v) for k, v in observation.ids.items()},
        "actions": masks,
        "reward": observation.reward,
        "done": observation.done,
        "truncated": observation.truncated,
        "metrics": dict(observation.metrics),
    }


def mask_of(observation):
    """Return the mask of each robot. Shape: (robots, 5)."""
    return np.array(observation.actions["Move"].mask, np.bool_).reshape(-1, 5)


def random_actions(observation, rng):
    """A choice that the masks allow for every actor."""
    mask = mask_of(observation)
    select = observation.actions["Fire Orbital Cannon"]
    cannons = select.actor_ids
    if cannons is None:
        cannons = observation.ids["Orbital Cannon"] if select.actor_types else []
    targets = observation.ids["Mine"] + observation.ids["Robot"]
    return {
        "Move": CategoricalAction(
            observation.ids["Robot"], (rng.random(mask.shape) * mask).argmax(1), MOVES
        ),
        "Fire Orbital Cannon": SelectEntityAction(
            cannons, [targets[rng.integers(len(targets))] for _ in cannons]
        ),
    }


# ---- observations -------------------------------------------------------------------------------


def test_one_robot_without_cannon():
    env = MineSweeper.from_state(
        [(0, 2), (0, 1), (2, 2), (0, 0), (1, 0)], [(1, 1)], width=3, height=3
    )
    assert plain(env.observe()) == {
        "features": {"Mine": [[0, 2], [0, 1], [2, 2], [0, 0], [1, 0]], "Robot": [[1, 1]]},
        "ids": {"Mine": [("Mine", i) for i in range(5)], "Robot": [("Robot", 0)]},
        "actions": {
            "Move": {"actor_ids": None, "actor_types": ["Robot"], "mask": [[True] * 5]},
            "Fire Orbital Cannon": {
                "actor_ids": None,
                "actor_types": (),
                "actee_types": ("Mine", "Robot"),
                "actee_ids": None,
                "mask": None,
            },
        },
        "reward": 0.0,
        "done": False,
        "truncated": False,
        "metrics": {},
    }


def test_a_ready_cannon():
    env = MineSweeper.from_state([(2, 1)], [(2, 0)], [0], width=3, height=3)
    observed = plain(env.observe())
    assert observed["features"] == {"Mine": [[2, 1]], "Robot": [[2, 0]], "Orbital Cannon": [[0]]}
    assert observed["ids"] == {
        "Mine": [("Mine", 0)],
        "Robot": [("Robot", 0)],
        "Orbital Cannon": [("Orbital Cannon", 0)],
    }
    assert observed["actions"]["Move"]["mask"] == [[False, True, True, False, True]]
    assert observed["actions"]["Fire Orbital Cannon"] == {
        "actor_ids": None,
        "actor_types": ("Orbital Cannon",),
        "actee_types": ("Mine", "Robot"),
        "actee_ids": None,
        "mask": None,
    }


def test_two_robots():
    env = MineSweeper.from_state([(1, 0), (0, 1), (2, 2)], [(0, 0), (2, 0)], width=3, height=3)
    observed = plain(env.observe())
    assert "Orbital Cannon" not in observed["features"]
    assert "Orbital Cannon" not in observed["ids"]
    assert observed["actions"]["Move"]["mask"] == [
        [True, False, True, False, True],
        [False, True, True, False, True],
    ]


def test_the_mask_on_a_board_of_one_row():
    # 3 x 1: the left end has Right, the right end has Left, and nobody has Up or Down
    env = MineSweeper.from_state([(1, 0)], [(0, 0), (2, 0)], width=3, height=1)
    assert plain(env.observe())["actions"]["Move"]["mask"] == [
        [True, False, False, False, True],
        [False, True, False, False, True],
    ]


def test_only_the_ready_ones_of_several_cannons_fire():
    env = MineSweeper.from_state([(2, 1)], [(2, 0)], [0, 3, 0])
    mask = env.observe().actions["Fire Orbital Cannon"]
    assert mask.actor_types is None
    assert list(mask.actor_ids) == [("Orbital Cannon", 0), ("Orbital Cannon", 2)]
    env = MineSweeper.from_state([(2, 1)], [(2, 0)], [2, 3, 1])
    assert env.observe().actions["Fire Orbital Cannon"].actor_types == ()


def test_observations_stay_as_they_were_when_the_game_goes_on():
    env = MineSweeper.from_state([(1, 0), (5, 5)], [(0, 0), (5, 3)], [0])
    observation = env.observe()
    before = plain(observation)
    play(env, [DEFUSE, UP], [(0, ("Robot", 1))])
    play(env, [UP])
    env.reset()
    assert plain(observation) == before


def test_the_spaces_name_everything_that_is_observed():
    env = MineSweeper()
    assert list(env.obs_space().entities) == ["Mine", "Robot", "Orbital Cannon"]
    assert env.obs_space().entities["Mine"].names == ("x", "y")
    assert env.obs_space().entities["Orbital Cannon"].names == ("cooldown",)
    assert env.action_space()["Move"].index_to_label == (
        "Right",
        "Left",
        "Up",
        "Down",
        "Defuse Mines",
    )
    assert set(env.reset().actions) == set(env.action_space())


# ---- robots -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("move", "to"), [(RIGHT, (3, 2)), (LEFT, (1, 2)), (UP, (2, 3)), (DOWN, (2, 1))]
)
def test_a_move_goes_one_tile(move, to):
    env = MineSweeper.from_state([(5, 5)], [(2, 2)])
    observation = play(env, [move])
    assert env.robots == [to]
    assert (observation.reward, observation.done) == (0.0, False)


def test_defusing_reaches_the_own_and_the_four_neighbouring_tiles_only():
    near = [(2, 3), (1, 2), (3, 2), (2, 1)]
    far = [(1, 1), (3, 3), (2, 4), (0, 2)]  # Manhattan distance 2
    env = MineSweeper.from_state(near + far, [(2, 2)])
    observation = play(env, [DEFUSE])
    assert env.mines == far
    assert env.robots == [(2, 2)]
    assert observation.ids["Mine"] == [("Mine", i) for i in range(4)]


def test_a_robot_that_ends_on_a_mine_is_lost_and_the_mine_stays():
    env = MineSweeper.from_state([(3, 2)], [(2, 2), (0, 0)])
    observation = play(env, [RIGHT, UP])
    assert env.mines == [(3, 2)]
    assert env.robots == [(0, 1)]
    assert observation.ids["Robot"] == [("Robot", 0)]
    assert (observation.reward, observation.done) == (0.0, False)


def test_the_last_robot_on_a_mine_loses():
    env = MineSweeper.from_state([(3, 2)], [(2, 2)])
    observation = play(env, [RIGHT])
    assert (observation.reward, observation.done, observation.truncated) == (0.0, True, False)
    assert observation.metrics == {"win": 0.0}


def test_the_last_mine_wins():
    env = MineSweeper.from_state([(3, 2), (5, 5)], [(2, 2), (5, 4)])
    observation = play(env, [DEFUSE, None])
    assert (observation.reward, observation.done, observation.metrics) == (0.0, False, {})
    observation = play(env, [None, DEFUSE])
    assert (observation.reward, observation.done, observation.truncated) == (1.0, True, False)
    assert observation.metrics == {"win": 1.0}


def test_a_robot_may_step_on_a_mine_that_another_one_defuses_in_the_same_step():
    for robots, moves in (([(2, 2), (4, 2)], [DEFUSE, LEFT]), ([(4, 2), (2, 2)], [LEFT, DEFUSE])):
        env = MineSweeper.from_state([(3, 2)], robots)
        observation = play(env, moves)
        assert sorted(env.robots) == [(2, 2), (3, 2)]
        assert observation.metrics == {"win": 1.0}


def test_robots_share_and_swap_tiles():
    env = MineSweeper.from_state([(5, 5)], [(0, 0), (2, 0), (1, 1)])
    play(env, [RIGHT, LEFT, DOWN])
    assert env.robots == [(1, 0), (1, 0), (1, 0)]
    env = MineSweeper.from_state([(5, 5)], [(0, 0), (1, 0)])
    play(env, [RIGHT, LEFT])
    assert env.robots == [(1, 0), (0, 0)]


def test_robots_that_share_a_tile_are_lost_together():
    env = MineSweeper.from_state([(1, 0)], [(0, 0), (2, 0), (4, 4)])
    play(env, [RIGHT, LEFT, UP])
    assert env.robots == [(4, 5)]


def test_a_robot_without_an_order_stays():
    env = MineSweeper.from_state([(1, 0)], [(0, 0)])
    env.act({})
    assert (env.mines, env.robots, env.steps) == ([(1, 0)], [(0, 0)], 1)


@given(st.permutations(range(4)), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_order_of_robots_does_not_matter(order, seed):
    rng = np.random.default_rng(seed)
    tiles = [(int(t) % 4, int(t) // 4) for t in rng.permutation(16)[:8]]
    mines, robots = tiles[:4], tiles[4:]
    env = MineSweeper.from_state(mines, robots, width=4, height=4)
    mask = mask_of(env.observe())
    moves = (rng.random(mask.shape) * mask).argmax(1).tolist()
    other = MineSweeper.from_state(mines, [robots[i] for i in order], width=4, height=4)
    a, b = play(env, moves), play(other, [moves[i] for i in order])
    assert env.mines == other.mines
    assert sorted(env.robots) == sorted(other.robots)
    assert (a.reward, a.done) == (b.reward, b.done)


# ---- cannons ------------------------------------------------------------------------------------


def test_a_cannon_removes_a_mine_and_waits():
    env = MineSweeper.from_state([(5, 5), (0, 5)], [(0, 0)], [0], cooldown_period=2)
    play(env, [UP], [(0, ("Mine", 0))])
    assert (env.mines, env.robots, env.cooldowns) == ([(0, 5)], [(0, 1)], [2])
    play(env, [UP])
    assert env.cooldowns == [1]
    play(env, [DOWN])
    assert env.cooldowns == [0]
    observation = play(env, [DOWN], [(0, ("Mine", 0))])
    assert (observation.reward, observation.metrics) == (1.0, {"win": 1.0})


def test_a_cannon_starts_with_its_full_cooldown_and_fires_every_period_plus_1_steps():
    env = MineSweeper(nmines=20, orbital_cannon=True, cooldown_period=3, nrobots=1)
    observation = env.reset()
    assert env.cooldowns == [3]
    fired = []
    for step in range(1, 13):
        ready = observation.actions["Fire Orbital Cannon"].actor_types == ("Orbital Cannon",)
        assert ready == (env.cooldowns == [0])
        if ready:
            fired.append(step)
        observation = play(env, [None], [(0, ("Mine", 0))] if ready else [])
    assert fired == [4, 8, 12]


def test_a_ready_cannon_that_does_not_fire_stays_ready():
    env = MineSweeper.from_state([(5, 5)], [(0, 0)], [0])
    play(env, [UP])
    assert env.cooldowns == [0]


def test_a_period_of_0_fires_in_every_step():
    env = MineSweeper(nmines=4, nrobots=1, orbital_cannon=True, cooldown_period=0)
    observation = env.reset()
    for _ in range(4):
        assert not observation.done
        observation = play(env, [None], [(0, ("Mine", 0))])
    assert observation.metrics == {"win": 1.0}


def test_a_robot_that_is_shot_neither_moves_nor_defuses():
    env = MineSweeper.from_state([(1, 0)], [(0, 0), (4, 4)], [0])
    observation = play(env, [DEFUSE, UP], [(0, ("Robot", 0))])
    assert (env.mines, env.robots, observation.done) == ([(1, 0)], [(4, 5)], False)


def test_shooting_the_last_robot_loses_even_if_it_would_have_defused_the_last_mine():
    env = MineSweeper.from_state([(1, 0)], [(0, 0)], [0])
    observation = play(env, [DEFUSE], [(0, ("Robot", 0))])
    assert (observation.reward, observation.done, observation.metrics) == (0.0, True, {"win": 0.0})
    assert env.mines == [(1, 0)]


def test_a_robot_may_step_on_the_tile_of_a_mine_that_is_shot():
    env = MineSweeper.from_state([(1, 0), (5, 5)], [(0, 0)], [0])
    play(env, [RIGHT], [(0, ("Mine", 0))])
    assert (env.mines, env.robots) == ([(5, 5)], [(1, 0)])


def test_a_mine_that_is_shot_and_defused_is_gone_once():
    env = MineSweeper.from_state([(1, 0), (5, 5)], [(0, 0)], [0])
    play(env, [DEFUSE], [(0, ("Mine", 0))])
    assert (env.mines, env.cooldowns) == ([(5, 5)], [5])


def test_cannons_with_the_same_target_both_wait():
    env = MineSweeper.from_state([(1, 1), (5, 5)], [(0, 0)], [0, 0, 4], cooldown_period=6)
    play(env, [UP], [(0, ("Mine", 1)), (1, ("Mine", 1))])
    assert (env.mines, env.cooldowns) == ([(1, 1)], [6, 6, 3])


def test_cannons_aim_at_the_ids_that_all_saw():
    env = MineSweeper.from_state([(1, 1), (2, 2), (3, 3)], [(0, 0)], [0, 0])
    play(env, [UP], [(0, ("Mine", 0)), (1, ("Mine", 1))])
    assert env.mines == [(3, 3)]


def test_no_mines_and_no_robots_in_the_same_step_is_a_win():
    env = MineSweeper.from_state([(5, 5)], [(0, 0)], [0, 0])
    observation = play(env, [None], [(0, ("Mine", 0)), (1, ("Robot", 0))])
    assert (env.mines, env.robots) == ([], [])
    assert (observation.reward, observation.done, observation.metrics) == (1.0, True, {"win": 1.0})


def test_the_last_robot_may_be_lost_while_the_last_mine_is_shot():
    # Mine 0 is shot; the robot walks onto mine 1, which the second cannon shoots as well.
    env = MineSweeper.from_state([(5, 5), (1, 0)], [(0, 0)], [0, 0])
    observation = play(env, [RIGHT], [(0, ("Mine", 0)), (1, ("Mine", 1))])
    assert (env.robots, observation.metrics) == ([(1, 0)], {"win": 1.0})


# ---- the end ------------------------------------------------------------------------------------


def test_max_steps_truncates():
    env = MineSweeper.from_state([(5, 5)], [(0, 0)], max_steps=3)
    assert [play(env, [None]).done for _ in range(2)] == [False, False]
    last = play(env, [None])
    assert (last.done, last.truncated, last.reward, last.metrics) == (True, True, 0.0, {"win": 0.0})


@pytest.mark.parametrize(("move", "win"), [(DEFUSE, 1.0), (RIGHT, 0.0)])
def test_an_end_in_the_last_step_is_not_a_truncation(move, win):
    env = MineSweeper.from_state([(1, 0)], [(0, 0)], max_steps=1)
    last = play(env, [move])
    assert (last.done, last.truncated, last.metrics) == (True, False, {"win": win})


def test_acting_before_reset_or_after_the_end_is_refused():
    env = MineSweeper()
    for call in (lambda: env.act({}), env.observe, env.get_state):
        with pytest.raises(ResetNeededError, match=r"reset\(\)"):
            call()
    assert not env.done
    env = MineSweeper.from_state([(1, 0)], [(0, 0)])
    assert play(env, [DEFUSE]).done
    with pytest.raises(ResetNeededError, match="over"):
        play(env, [UP])
    assert not env.reset().done


# ---- actions that do not fit --------------------------------------------------------------------


def move_all(actors, indices):
    return {"Move": CategoricalAction(actors, np.array(indices), MOVES)}


def fire(cannon, targets):
    return {"Fire Orbital Cannon": SelectEntityAction([("Orbital Cannon", cannon)], targets)}


@pytest.mark.parametrize(
    ("actions", "error", "text"),
    [
        (move_all([("Robot", 0)], [LEFT]), ActionError, "not allowed"),
        (move_all([("Robot", 0)], [DOWN]), ActionError, "Down"),
        (move_all([("Robot", 0)], [5]), ActionError, "0 to 4"),
        (move_all([("Robot", 0)], [-1]), ActionError, "0 to 4"),
        (move_all([("Robot", 0)], [1.5]), ActionError, "0 to 4"),
        (move_all([("Robot", 0)], [0, 0]), ActionError, "expected: 1 number"),
        (move_all([("Robot", 1)], [0]), MaskError, "Robot"),
        (move_all([("Mine", 0)], [0]), MaskError, "Mine"),
        (move_all([None], [0]), MaskError, "None"),
        ({"Move": SelectEntityAction([], [])}, MaskError, "CategoricalAction"),
        (fire(1, [("Mine", 0)]), ActionError, "not ready"),
        (fire(2, [("Mine", 0)]), MaskError, "Cannon"),
        (fire(0, [("Mine", 1)]), MaskError, "Mine"),
        (fire(0, [("Robot", 1)]), MaskError, "Robot"),
        (fire(0, [("Orbital Cannon", 1)]), MaskError, "Cannon"),
        (fire(0, []), ActionError, "1 actee"),
        (
            {"Fire Orbital Cannon": CategoricalAction([], np.array([]), MOVES)},
            MaskError,
            "SelectEntityAction",
        ),
    ],
)
def test_actions_that_do_not_fit_are_refused_and_change_nothing(actions, error, text):
    env = MineSweeper.from_state([(3, 3)], [(0, 0)], [0, 2])
    before = env.get_state()
    with pytest.raises(error, match=text):
        env.act(actions)
    assert env.get_state() == before


# ---- parameters ---------------------------------------------------------------------------------


def test_the_smallest_boards_hold_everything():
    env = MineSweeper(width=7, height=1)
    for _ in range(20):
        env.reset()
        assert sorted(env.mines + env.robots) == [(x, 0) for x in range(7)]


@pytest.mark.parametrize(("given_", "count"), [(False, 0), (True, 1), (0, 0), (1, 1), (3, 3)])
def test_the_number_of_cannons(given_, count):
    env = MineSweeper(orbital_cannon=given_)
    observation = env.reset()
    assert len(observation.features.get("Orbital Cannon", ())) == count


# ---- randomness ---------------------------------------------------------------------------------


def test_nothing_else_that_is_random_plays_a_part():
    boards = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        env = MineSweeper()
        env.seed(3)
        boards.append(plain(env.reset()))
        states = np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
        env.reset()
        assert (np.random.get_state()[1].tolist(), random.getstate()) == states  # noqa: NPY002
    assert boards[0] == boards[1]


def test_every_tile_is_as_likely_for_mines_and_robots():
    # 3,000 games x 2 mines on 9 tiles: 667 expected on each, standard deviation < 24
    env = MineSweeper(width=3, height=3, nmines=2, nrobots=1)
    env.seed(0)
    mines, robots = np.zeros((3, 3)), np.zeros((3, 3))
    for _ in range(3000):
        env.reset()
        assert len(set(env.mines + env.robots)) == 3
        for tile in env.mines:
            mines[tile] += 1
        robots[env.robots[0]] += 1
    assert np.abs(mines - 6000 / 9).max() < 100
    assert np.abs(robots - 3000 / 9).max() < 85


# ---- saved states -------------------------------------------------------------------------------


def test_every_state_of_a_game_comes_back_with_its_observation():
    rng = np.random.default_rng(0)
    kinds = set()
    for seed in range(60):
        env = MineSweeper(width=4, height=4, orbital_cannon=True, cooldown_period=1, max_steps=6)
        env.seed(seed)
        observation = env.reset()
        while True:
            other = MineSweeper(width=4, height=4, orbital_cannon=1, cooldown_period=1, max_steps=6)
            assert plain(other.set_state(env.get_state())) == plain(observation)
            if observation.done:
                break
            observation = env.act(random_actions(observation, rng))
        kinds.add((observation.reward, observation.truncated))
    assert kinds == {(0.0, False), (1.0, False), (0.0, True)}  # lost, won and cut off all came up


def test_a_saved_state_does_not_change_with_the_game():
    env = MineSweeper.from_state([(1, 0), (5, 5)], [(0, 0)], [0])
    saved = env.get_state()
    play(env, [DEFUSE], [(0, ("Mine", 1))])
    assert saved == {"mines": [[1, 0], [5, 5]], "robots": [[0, 0]], "cooldowns": [0], "steps": 0}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mines": [[0, 0]] * 2}, "two mines on one tile"),
        ({"mines": [[0, 0], [1, 1], [2, 2]]}, "more mines"),
        ({"robots": [[1, 1], [3, 3]]}, "more robots"),
        ({"mines": [[4, 0]]}, "off the board"),
        ({"robots": [[0, -1]]}, "off the board"),
        ({"robots": [[0, 0]], "mines": [[0, 0]]}, "a robot on a mine"),
        ({"cooldowns": []}, "number of cannons"),
        ({"cooldowns": [6]}, "cooldown out of range"),
        ({"steps": -1}, "negative step"),
        ({"steps": None}, "not a state"),
        ({"mines": [1, 2]}, "not a state"),
        ({"mines": [[0.5, 1]]}, "not a state"),
    ],
)
def test_states_that_do_not_fit_are_refused_and_change_nothing(change, text):
    env = MineSweeper.from_state([(0, 0), (1, 1)], [(2, 2)], [1], width=4, height=4)
    before = env.get_state()
    with pytest.raises(StateError, match=text):
        env.set_state({**before, **change})
    assert env.get_state() == before
    del before["steps"]
    with pytest.raises(StateError, match="not a state"):
        env.set_state(before)


# ---- players ------------------------------------------------------------------------------------


def games(env, count, act):
    wins, lengths = 0.0, []
    for _ in range(count):
        observation = env.reset()
        while not observation.done:
            observation = env.act(act(observation))
        wins += observation.metrics["win"]
        lengths.append(env.steps)
    return wins / count, float(np.mean(lengths))


def test_the_script_wins_every_game_in_about_8_6_steps():
    env = MineSweeper()
    env.seed(0)
    won, length = games(env, 100, walk_and_defuse)
    assert won == 1.0
    assert 8.0 < length < 9.2


@pytest.mark.parametrize("cannons", [1, 3])
def test_the_script_wins_with_cannons_and_sooner(cannons):
    env = MineSweeper(orbital_cannon=cannons)
    env.seed(0)
    won, length = games(env, 60, walk_and_defuse)
    assert won == 1.0
    assert length < 8.0


def test_the_script_defuses_beside_a_mine_and_shoots_other_mines():
    env = MineSweeper.from_state([(1, 0), (5, 5)], [(0, 0), (5, 3)], [0, 1, 0, 0])
    actions = walk_and_defuse(env.observe())
    assert actions["Move"].labels == ["Defuse Mines", "Up"]
    assert actions["Fire Orbital Cannon"] == SelectEntityAction(
        [("Orbital Cannon", i) for i in (0, 2, 3)], [("Mine", 0), ("Mine", 1), ("Mine", 0)]
    )


def test_the_script_answers_frames_without_mines_or_robots():
    env = MineSweeper.from_state([(5, 5)], [(0, 0)], [0, 0])
    last = play(env, [None], [(0, ("Mine", 0)), (1, ("Robot", 0))])
    actions = walk_and_defuse(last)
    assert (list(actions["Move"].actors), actions["Move"].indices.tolist()) == ([], [])
    assert list(actions["Fire Orbital Cannon"].actors) == []
    frame = Observation(features={"Robot": [[0, 0]]}, ids={"Robot": ["a"]}, actions=last.actions)
    assert walk_and_defuse(frame)["Move"].labels == ["Defuse Mines"]


@st.composite
def games_to_play(draw):
    width, height = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    nmines = draw(st.integers(1, max(1, width * height - 1)))
    nrobots = draw(st.integers(1, max(1, width * height - nmines)))
    if width * height < nmines + nrobots:
        width += 1
    return MineSweeper(
        width,
        height,
        nmines,
        nrobots,
        orbital_cannon=draw(st.integers(0, 3)),
        cooldown_period=draw(st.integers(0, 3)),
        max_steps=draw(st.integers(1, 25)),
    )


@given(games_to_play(), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_random_play_breaks_no_rule(env, seed):
    env.seed(seed)
    rng = np.random.default_rng(seed)
    observation = env.reset()
    mines, robots = set(env.mines), len(env.robots)
    assert not observation.done
    for step in range(1, env.max_steps + 1):
        observation = env.act(random_actions(observation, rng))
        assert set(env.mines) <= mines
        assert len(env.mines) == len(set(env.mines))
        assert len(env.robots) <= robots
        assert not set(env.mines) & set(env.robots)
        mines, robots = set(env.mines), len(env.robots)
        for x, y in env.mines + env.robots:
            assert 0 <= x < env.width
            assert 0 <= y < env.height
        ids = [entity for group in observation.ids.values() for entity in group]
        assert len(ids) == len(set(ids)) == sum(map(len, observation.features.values()))
        assert all(0 <= cooldown <= env.cooldown_period for cooldown in env.cooldowns)
        assert observation.done == (not mines or not robots or step == env.max_steps)
        assert observation.reward == float(not mines)
        assert observation.truncated == (observation.done and bool(mines) and robots > 0)
        assert set(observation.metrics) == ({"win"} if observation.done else set())
        if observation.done:
            break
    assert observation.done


# ---- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [8, 24, 31])
def test_a_picture_has_one_square_for_each_tile_and_a_bar_for_cannons(tile):
    env = MineSweeper(width=5, height=3)
    env.reset()
    picture = env.render(tile=tile)
    assert picture.shape == (3 * tile, 5 * tile, 3)
    assert picture.dtype == np.uint8
    env = MineSweeper(width=5, height=3, orbital_cannon=4)
    env.reset()
    assert env.render(tile=tile).shape == (4 * tile, 5 * tile, 3)
    assert MineSweeper(width=1, height=3, nmines=1, nrobots=1).render().shape == (72, 24, 3)


def test_up_is_up_in_pictures():
    picture = MineSweeper.from_state([(0, 1)], [(2, 0)], width=3, height=2).render(tile=10)
    dark = picture.min(axis=2) < 80  # the mine's body; the board is lighter
    assert dark[:10, :10].any()  # y = 1 is the upper row
    assert not dark[10:, :20].any()


def test_robots_that_share_a_tile_are_all_drawn():
    one = MineSweeper.from_state([(0, 1)], [(0, 0)]).render()
    two = MineSweeper.from_state([(0, 1)], [(0, 0), (0, 0)]).render()
    assert (one != two).any()


def test_the_cannons_bar_shows_the_cooldown():
    bars = [
        MineSweeper.from_state([(0, 1)], [(0, 0)], [cooldown]).render()[:24]
        for cooldown in (0, 2, 5)
    ]
    assert all((a != b).any() for a, b in [bars[:2], bars[1:]])


def test_a_tile_too_small_to_draw_is_refused():
    env = MineSweeper()
    env.reset()
    with pytest.raises(SettingError, match="tile"):
        env.render(tile=3)
    with pytest.raises(TypeError, match="tyle"):
        env.render(tyle=30)


def test_text_shows_ids_and_coordinates():
    env = MineSweeper.from_state(
        [(0, 2), (2, 0)], [(1, 1), (1, 1)], [0, 3], width=3, height=3, max_steps=50, steps=4
    )
    assert env.render_text().splitlines() == [
        "step 4 of 50, 2 mines, 2 robots, cannon 0 ready, cannon 1 ready in 3",
        "2   M0    .    .",
        "1    . R0R1    .",
        "0    .    .   M1",
        "     0    1    2",
    ]


def test_text_before_the_first_reset():
    assert "step 0 of 100, 0 mines" in MineSweeper().render_text()
