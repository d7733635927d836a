import math

import pytest
from game_support import assert_bad_states_are_refused, choose, plain
from ragged_envs.minefield import MOVES, Minefield, drive_around

from entity_env import Discrete, Position
from entity_env.errors import SettingError
from entity_env.play import play_scripted

LEFT, MOVE, RIGHT = range(3)


def drive(index):
    return choose("Drive", ["Vehicle"], [index], MOVES)


def game(vehicle=(100.0, 100.0), direction=0, target=(0.0, 0.0), mines=(), steps=0, **settings):
    env = Minefield(**settings)
    state = {"vehicle": vehicle, "direction": direction, "target": target, "mines": mines}
    return env, env.set_state({**state, "steps": steps})


def test_the_observation_holds_all_positions():
    _, observation = game((10.0, 20.0), 3, (40.0, 10.0), [(10.0, 50.0), (0.0, 0.0)])
    assert plain(observation) == {
        "features": {"Vehicle": [[10, 20, 3]], "Target": [[40, 10]], "Mine": [[10, 50], [0, 0]]},
        "global_features": [],
        "masks": {"Drive": None},
        "reward": 0.0,
        "done": False,
        "truncated": False,
        "metrics": {},
    }
    assert observation.ids == {"Vehicle": ("Vehicle",)}
    entities = Minefield().obs_space().entities
    assert all(entity.position == Position("x", "y") for entity in entities.values())
    assert entities["Vehicle"].features[2] == Discrete("direction", 16)


@pytest.mark.parametrize(
    ("direction", "step"),
    [
        (0, (3.0, 0.0)),
        (4, (0.0, 3.0)),
        (8, (-3.0, 0.0)),
        (12, (0.0, -3.0)),
        (2, (4.5**0.5, 4.5**0.5)),  # 45 degrees: 2 * 4.5 = 3 * 3
        (1, (3 * math.cos(math.pi / 8), 3 * math.sin(math.pi / 8))),
    ],
)
def test_a_move_goes_3_ahead(direction, step):
    env, _ = game((50.0, 60.0), direction)
    env.act(drive(MOVE))
    assert env.vehicle == pytest.approx((50.0 + step[0], 60.0 + step[1]))
    assert env.direction == direction


@pytest.mark.parametrize(("turn", "directions"), [(LEFT, [15, 0, 1]), (RIGHT, [13, 12, 11])])
def test_a_turn_changes_the_direction_only(turn, directions):
    env, _ = game((50.0, 60.0), 14)
    assert [(env.act(drive(turn)), env.direction)[1] for _ in range(3)] == directions
    assert env.vehicle == (50.0, 60.0)


def test_at_most_5_from_the_target_wins():
    env, _ = game((0.0, 0.0), 0, (8.0, 0.0))  # one move, to (3, 0), is exactly 5 away
    observation = env.act(drive(MOVE))
    assert (observation.reward, observation.done, observation.truncated) == (1.0, True, False)
    assert observation.metrics == {"win": 1.0}
    env, _ = game((0.0, 0.0), 0, (8.01, 0.0))
    observation = env.act(drive(MOVE))
    assert (observation.reward, observation.done, observation.metrics) == (0.0, False, {})


def test_at_most_5_from_a_mine_loses():
    env, _ = game((0.0, 0.0), 4, (90.0, 0.0), [(50.0, 50.0), (4.0, 6.0)])
    # from (0, 3) the second mine is 4 to the right and 3 up, 5 away
    observation = env.act(drive(MOVE))
    assert (observation.reward, observation.done, observation.truncated) == (0.0, True, False)
    assert observation.metrics == {"win": 0.0}
    env, _ = game((0.0, 0.0), 4, (90.0, 0.0), [(4.01, 6.0)])
    assert not env.act(drive(MOVE)).done


def test_a_mine_at_the_target_comes_first():
    env, _ = game((0.0, 0.0), 0, (8.0, 0.0), [(6.0, 4.0)])  # both 5 from (3, 0)
    observation = env.act(drive(MOVE))
    assert (observation.reward, observation.done) == (0.0, True)


def test_the_limit_truncates():
    env, _ = game(steps=198)
    assert not env.act(drive(LEFT)).done
    last = env.act(drive(LEFT))
    assert (last.done, last.truncated, last.reward, last.metrics) == (True, True, 0.0, {"win": 0.0})
    env, _ = game((0.0, 0.0), 0, (8.0, 0.0), steps=199)
    last = env.act(drive(MOVE))
    assert (last.done, last.truncated, last.reward) == (True, False, 1.0)


def test_a_start_keeps_its_distances():
    env = Minefield(mines=(0, 10))
    env.seed(1)
    counts, directions, distances = set(), set(), []
    for _ in range(300):
        features = env.reset().features
        ((x, y, direction),), (target,) = features["Vehicle"], features["Target"]
        distances.append(math.dist((x, y), target))
        for mine in features["Mine"]:
            assert math.dist((x, y), mine) > 15.0
            assert math.dist(target, mine) > 15.0
        places = [(x, y), target, *features["Mine"]]
        assert all(0.0 <= value <= 200.0 for place in places for value in place)
        counts.add(len(features["Mine"]))
        directions.add(direction)
    assert 10.0 <= min(distances) < 15.0
    assert 100.0 < max(distances) <= 150.0
    assert counts == set(range(11))
    assert directions == set(range(16))


def test_the_scripted_player_hardly_loses():
    assert play_scripted(Minefield, drive_around, 30, seed=1)["win"].mean() > 0.9


# From the left to the right, upwards, or aslant: 100 * cos(45 degrees) = 70.7.
@pytest.mark.parametrize(
    ("direction", "target", "mine"),
    [
        (0, (110.0, 10.0), (60.0, 10.0)),
        (4, (10.0, 110.0), (10.0, 60.0)),
        (2, (80.7, 80.7), (45.35, 45.35)),
    ],
)
def test_the_scripted_player_drives_around_a_mine(direction, target, mine):
    env, observation = game((10.0, 10.0), direction, target, [mine])
    while not observation.done:
        observation = env.act(drive_around(observation))
    assert observation.reward == 1.0


def test_the_text_shows_the_field():
    env, _ = game((1.0, 1.0), 4, (199.0, 199.0), [(15.0, 1.0)], steps=2)
    lines = env.render_text().splitlines()
    assert lines[0] == "step 2 of 200, vehicle at (1.0, 1.0), 90 degrees"
    assert lines[1] == "." * 19 + "T"
    assert lines[-1] == "Vo" + "." * 18
    assert len(lines) == 41
    game((-50.0, 300.0))[0].render_text()


@pytest.mark.parametrize(
    "settings", [{"mines": -1}, {"mines": 101}, {"mines": (5, 4)}, {"mines": 2.0}, {"max_steps": 0}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        Minefield(**settings)


def test_bad_states_are_refused():
    env, _ = game(mines=[(30.0, 30.0)])
    assert_bad_states_are_refused(
        env,
        [
            ({"vehicle": [1.0]}, "not a state"),
            ({"target": [math.nan, 1.0]}, "not a state"),
            ({"mines": [[1.0, None]]}, "not a state"),
            ({"direction": 1.5}, "not a state"),
            ({"direction": 16}, "direction"),
            ({"direction": -1}, "direction"),
            ({"mines": [[30.0, 30.0]] * 11}, "number of mines"),
            ({"steps": -1}, "negative step"),
        ],
    )
