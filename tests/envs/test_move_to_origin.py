import math

import pytest
from game_support import assert_bad_states_are_refused, choose
from ragged_envs.move_to_origin import THRUSTERS, MoveToOrigin, fly_and_brake

from entity_env.errors import SettingError
from entity_env.play import play_scripted

FULL, TENTH, OFF, TENTH_BACK, FULL_BACK = range(5)


def thrust(horizontal, vertical):
    actions = {}
    for (name, labels), setting in zip(THRUSTERS.items(), (horizontal, vertical), strict=True):
        actions |= choose(name, ["Spaceship"], [setting], labels)
    return actions


def ship(position, velocity=(0.0, 0.0), steps=0, **settings):
    env = MoveToOrigin(**settings)
    env.set_state({"position": position, "velocity": velocity, "steps": steps})
    return env


@pytest.mark.parametrize(
    ("setting", "acceleration"),
    [(FULL, 0.01), (TENTH, 0.001), (OFF, 0.0), (TENTH_BACK, -0.001), (FULL_BACK, -0.01)],
)
def test_each_setting_accelerates_its_own_axis(setting, acceleration):
    env = ship((0.0, 0.0))
    env.act(thrust(setting, OFF))
    assert env.velocity == (acceleration, 0.0)
    env = ship((0.0, 0.0))
    env.act(thrust(OFF, setting))
    assert env.velocity == (0.0, acceleration)


def test_the_velocity_accumulates_and_moves_the_ship():
    env = ship((-0.5, 0.25))
    env.act(thrust(FULL, FULL_BACK))
    env.act(thrust(FULL, TENTH))
    observation = env.act(thrust(OFF, OFF))
    # x: velocities 0.01, 0.02, 0.02 move by 0.05; y: -0.01, -0.009, -0.009 move by -0.028
    ((x, y, x_velocity, y_velocity),) = observation.features["Spaceship"]
    assert (x, y) == pytest.approx((-0.45, 0.222))
    assert (x_velocity, y_velocity) == pytest.approx((0.02, -0.009))


def test_the_reward_is_the_decrease_of_the_distance():
    env = ship((3.0, 4.0), (-0.3, -0.4))
    # from (3, 4), at distance 5, to (2.7, 3.6), at distance 4.5
    assert env.act(thrust(OFF, OFF)).reward == pytest.approx(0.5)
    env = ship((0.0, 0.0), (0.03, 0.04))
    assert env.act(thrust(OFF, OFF)).reward == pytest.approx(-0.05)


def test_the_return_is_one_minus_the_last_distance():
    env = MoveToOrigin(max_steps=7)
    env.seed(3)
    env.reset()
    rewards = [env.act(thrust(FULL, TENTH_BACK)).reward for _ in range(7)]
    assert sum(rewards) == pytest.approx(1.0 - math.hypot(*env.position))


def test_the_ship_starts_at_rest_on_the_unit_circle():
    env = MoveToOrigin()
    env.seed(1)
    quarters = set()
    for _ in range(50):
        observation = env.reset()
        x, y, *velocity = observation.features["Spaceship"][0]
        assert math.hypot(x, y) == pytest.approx(1.0)
        assert velocity == [0.0, 0.0]
        assert (observation.reward, observation.done) == (0.0, False)
        quarters.add((x > 0, y > 0))
    assert len(quarters) == 4


def test_only_the_limit_ends_a_flight():
    env = ship((0.0, 0.0), steps=30)
    first, last = env.act(thrust(OFF, OFF)), env.act(thrust(OFF, OFF))
    assert (first.done, first.truncated) == (False, False)
    assert (last.done, last.truncated) == (True, True)


def test_the_scripted_player_stays_at_the_origin():
    returns = play_scripted(MoveToOrigin, fly_and_brake, 100, seed=1)["episodic_reward"]
    assert returns.min() > 0.98


def test_the_text_says_where_the_ship_is():
    env = ship((0.6, -0.8), (0.0, 0.01), steps=4)
    assert env.render_text() == (
        "step 4 of 32: at (0.600, -0.800), velocity (0.000, 0.010), distance 1.000"
    )


@pytest.mark.parametrize("max_steps", [0, -1, 1.5, "many", True, None])
def test_bad_settings_are_refused(max_steps):
    with pytest.raises(SettingError, match="max_steps"):
        MoveToOrigin(max_steps=max_steps)


def test_bad_states_are_refused():
    assert_bad_states_are_refused(
        ship((1.0, 0.0)),
        [
            ({"position": [1.0]}, "not a state"),
            ({"position": [math.nan, 0.0]}, "not a state"),
            ({"velocity": [math.inf, 0.0]}, "not a state"),
            ({"velocity": ["fast", 0.0]}, "not a state"),
            ({"velocity": [True, 0.0]}, "not a state"),
            ({"steps": 1.5}, "not a state"),
            ({"steps": -1}, "negative step"),
        ],
    )
