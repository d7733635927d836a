"""Wrappers around a single environment."""

from __future__ import annotations

import copy
import json
import random
from functools import partial

import numpy as np
import pytest
from support.mines import NEEDS_NUMBA, minesweeper
from support.tiny_envs import Chain, Farm, Replay

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    check_env,
)
from entity_env.errors import ObservationError, SettingError, StateError
from entity_env.play import random_policy
from entity_env.wrappers import FeatureFilter, FrameSkip, RewardScale, TimeLimit, Wrapper

GO = {"Go": CategoricalAction(["w"], np.array([0]), ["left", "right"])}


def keep_one(env):
    """A filter that leaves one entity type and one of its features."""
    space = env.obs_space()
    name = next(iter(space.entities))
    return FeatureFilter(env, ObsSpace(entities={name: Entity(space.entities[name].features[:1])}))


WRAPPERS = {
    "Wrapper": Wrapper,
    "TimeLimit": lambda env: TimeLimit(env, 3),
    "FeatureFilter": keep_one,
    "RewardScale": lambda env: RewardScale(env, 0.5, low=-1),
    "FrameSkip": lambda env: FrameSkip(env, 3),
    "all": lambda env: TimeLimit(RewardScale(FrameSkip(keep_one(env), 2), 2.0), 4),
}
over_all = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)


@over_all
@pytest.mark.parametrize(
    "env",
    [Farm, pytest.param(partial(minesweeper, orbital_cannon=True, max_steps=7), marks=NEEDS_NUMBA)],
)
def test_a_wrapped_environment_is_as_sound_as_it_was(wrap, env, monkeypatch):
    monkeypatch.setattr("entity_env.check._LEAST_STEPS", 12)  # most of its time
    check_env(lambda: wrap(env()), episodes=1)


# ------------------------------------------------------------------------------- passing on


class Picture(Chain):
    """A chain that draws itself, has a state, and notes what is asked of it."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def seed(self, seed):
        self.calls.append(("seed", seed))
        super().seed(seed)

    def get_state(self):
        return {"time": self.time}

    def set_state(self, state):
        self.time = state["time"]
        return self._observe()

    def render(self, **kwargs):
        return np.full((1, 1, 3), kwargs.get("colour", 0), np.uint8)

    def render_text(self):
        return f"time {self.time}"

    def close(self):
        self.calls.append("close")


@over_all
def test_everything_else_reaches_the_environment_inside(wrap):
    inner = Picture()
    env = wrap(inner)
    assert env.unwrapped is inner
    env.seed(np.int64(7))
    assert inner.calls == [("seed", 7)]
    assert env.rng is inner.rng
    assert env.rng.random() == np.random.default_rng(7).random()
    inner.calls.clear()
    assert env.action_space() == inner.action_space()
    assert env.has_state()
    env.reset()
    assert env.render(colour=9)[0, 0, 0] == 9
    assert env.render_text() == "time 0"
    env.close()
    env.close()
    assert inner.calls == ["close"]


@over_all
def test_other_random_numbers_reach_the_environment_inside(wrap):
    inner = Chain()
    env = wrap(inner)
    env.rng = mine = random.Random(3)
    assert inner.rng is mine
    assert not env.has_state()
    env.seed(4)
    assert mine.random() == random.Random(4).random()


def test_what_the_environment_inside_cannot_do_the_wrapper_cannot_do():
    env = Wrapper(Chain())
    assert not env.has_state()
    with pytest.raises(NotImplementedError, match="Chain"):
        env.render()
    with pytest.raises(NotImplementedError, match="Chain"):
        env.render_text()
    with pytest.raises(StateError, match="Chain"):
        env.get_state()
    with pytest.raises(SettingError):
        env.seed(-1)


def test_an_environment_whose_seed_is_a_number_is_seeded_all_the_same():
    class Odd(Chain):
        seed = None

    env = TimeLimit(Wrapper(Odd()), 2)
    env.seed(5)
    assert env.rng.random() == np.random.default_rng(5).random()


@over_all
def test_a_wrapped_environment_plays_the_same_from_a_saved_state(wrap):
    def game(env, obs, steps, seed):
        policy, shown = random_policy(seed), [obs]
        for _ in range(steps):
            shown.append(env.act(policy(shown[-1])))
        return [(obs.reward.tolist(), obs.done.tolist(), repr(obs.features)) for obs in shown[1:]]

    for steps in (0, 1, 2, 3, 7):
        with ListEnv(lambda: wrap(Farm()), 2, seed=1) as a, ListEnv(lambda: wrap(Farm()), 2) as b:
            obs, policy = a.reset(), random_policy(2)
            for _ in range(steps):
                obs = a.act(policy(obs))
            state = json.loads(json.dumps(a.get_state()))
            assert game(b, b.set_state(state), 12, 3) == game(a, obs, 12, 3)


@pytest.mark.parametrize("wrap", [lambda env: TimeLimit(env, 3)])
@pytest.mark.parametrize(
    "damage",
    [
        lambda state, name: {"time": 1},
        lambda state, name: None,
        lambda state, name: state | {"more": 1},
        lambda state, name: state | {name: {}},
        lambda state, name: state | {name: None},
        lambda state, name: state | {name: dict.fromkeys(state[name], "x")},
    ],
)
def test_a_saved_state_that_is_none_is_refused(wrap, damage):
    env = wrap(Picture())
    env.reset()
    state = env.get_state()
    name = type(env).__name__
    with pytest.raises(StateError, match=name):
        env.set_state(damage(copy.deepcopy(state), name))
    env.set_state(state)


# --------------------------------------------------------------------------------- TimeLimit


@pytest.mark.parametrize(
    ("length", "limit", "ends"),
    # The chain's own end comes first, at once with the limit (then it is its own), or later.
    [(3, 5, (3, False)), (3, 3, (3, False)), (3, 2, (2, True)), (3, 1, (1, True))],
)
def test_a_time_limit_truncates(length, limit, ends):
    env = TimeLimit(Chain(length), limit)
    for _ in range(2):
        observation, steps = env.reset(), 0
        while not observation.done:
            observation, steps = env.act(GO), steps + 1
        assert (steps, observation.truncated) == ends
        assert observation.reward == float(steps)
        assert observation.metrics == {"twice": 2.0 * steps}


def test_a_time_limit_that_is_over_stays_over_until_the_reset():
    env = TimeLimit(Picture(), 2)
    env.reset()
    assert [env.act(GO).done for _ in range(2)] == [False, True]
    state = env.get_state()
    assert state == {"env": {"time": 2}, "TimeLimit": {"steps": 2}}
    again = TimeLimit(Picture(), 2)
    again.reset()
    observation = again.set_state(state)
    assert (observation.done, observation.truncated) == (True, True)
    assert not again.reset().done


# ------------------------------------------------------------------------------- RewardScale


@pytest.mark.parametrize(
    ("arguments", "rewards"),
    # Rewards inside are 1, 2, 3.
    [
        ({}, [1, 2, 3]),
        ({"scale": 0.5}, [0.5, 1.0, 1.5]),
        ({"scale": -2, "low": -5}, [-2, -4, -5]),
        ({"scale": 2, "low": 3, "high": 5}, [3, 4, 5]),  # clipped after it is scaled: 2, 4, 6
        ({"scale": 0}, [0, 0, 0]),
        ({"high": np.float32(2.5)}, [1, 2, 2.5]),
        ({"low": 2, "high": 2}, [2, 2, 2]),
    ],
)
def test_rewards_are_scaled_then_clipped(arguments, rewards):
    env = RewardScale(Chain(), **arguments)
    env.reset()
    shown = [env.act(GO) for _ in range(3)]
    assert [observation.reward for observation in shown] == rewards
    assert all(type(observation.reward) is float for observation in shown)
    assert [observation.done for observation in shown] == [False, False, True]
    assert shown[2].features == {"Walker": [[3]]}


def test_a_reward_that_is_none_is_an_error_before_it_is_scaled():
    env = RewardScale(Replay([Observation(reward="1")], ObsSpace(), {}), 2)
    with pytest.raises(ObservationError, match="'1'"):
        env.reset()


# --------------------------------------------------------------------------------- FrameSkip


class Asks(Environment):
    """Shows given action masks one after the other, and notes the actions that it receives.

    Step t has reward 10^t; its metrics are the number of the step, and what ``metrics`` has for it.
    """

    def __init__(self, masks, metrics=()):
        self.masks, self.metrics, self.time, self.received = masks, dict(metrics), 0, []

    def obs_space(self):
        return ObsSpace(entities={"Robot": Entity(["x"]), "Mine": Entity(["x"])})

    def action_space(self):
        return {
            "Move": CategoricalActionSpace(["a", "b"]),
            "Fire": SelectEntityActionSpace(),
            "Mode": GlobalCategoricalActionSpace(["calm", "bold"]),
        }

    def reset(self):
        self.time = 0
        return self._observe()

    def act(self, actions):
        self.received.append(actions)
        self.time += 1
        return self._observe()

    def _observe(self):
        return Observation(
            features={"Robot": [[1], [2]], "Mine": [[3], [4]]},
            ids={"Robot": ["r", "s"], "Mine": ["m", "n"]},
            actions=self.masks[self.time],
            reward=float(10**self.time) if self.time else 0.0,
            done=self.masks[self.time] is None,
            metrics={"time": self.time, **self.metrics.get(self.time, {})},
        )


def moves(*actors, mask=None):
    return {"Move": CategoricalActionMask(actor_ids=list(actors), mask=mask)}


def fires(actors, actees, mask=None):
    return {"Fire": SelectEntityActionMask(actor_ids=actors, actee_ids=actees, mask=mask)}


def mode(*mask):
    return {"Mode": GlobalCategoricalActionMask(list(mask))}


def taken(move=(), fire=(), calm=None):
    """Actions of (actor, choice) and (actor, selected)."""
    actions = {
        "Move": CategoricalAction([a for a, _ in move], np.array([i for _, i in move], int), "ab"),
        "Fire": SelectEntityAction([a for a, _ in fire], [e for _, e in fire]),
    }
    if calm is not None:
        actions["Mode"] = GlobalCategoricalAction(calm, ["calm", "bold"][calm])
    return actions


R_MOVES_B = taken(move=[("r", 1)])
BOTH_MOVE = taken(move=[("r", 0), ("s", 1)])
R_FIRES_N = taken(fire=[("r", "n")])
BOLD = taken(calm=1)


@pytest.mark.parametrize(
    ("actions", "first", "then", "steps"),
    [
        (R_MOVES_B, moves("r"), moves("r"), 4),
        (R_MOVES_B, moves("r"), moves("r", mask=[[0, 1]]), 4),
        (R_MOVES_B, moves("r"), moves("r", mask=[[1, 0]]), 1),
        (R_MOVES_B, moves("r"), moves("s"), 1),
        (R_MOVES_B, moves("r"), moves("r", "s"), 1),
        (R_MOVES_B, moves("r"), {}, 1),
        (R_MOVES_B, moves("r"), moves("r") | mode(1, 1), 1),
        (R_MOVES_B, moves("r"), moves("r") | fires(["s"], ["m"]), 1),
        (R_MOVES_B, moves("r"), moves("r") | fires(["s"], []), 4),  # nobody to be asked
        (R_MOVES_B, moves("r"), None, 1),
        (BOTH_MOVE, moves("r", "s"), moves("r", "s", mask=[[1, 0], [0, 1]]), 4),
        (BOTH_MOVE, moves("r", "s"), moves("r", "s", mask=[[1, 0], [1, 0]]), 1),
        (BOTH_MOVE, moves("r", "s"), moves("s", "r"), 1),
        (BOTH_MOVE, moves("r", "s"), moves("r"), 1),
        (R_FIRES_N, fires(["r"], ["m", "n"]), fires(["r"], ["n", "r"]), 4),
        (R_FIRES_N, fires(["r"], ["m", "n"]), fires(["r"], ["m"]), 1),
        (R_FIRES_N, fires(["r"], ["m", "n"]), fires(["r"], ["m", "n"], [[0, 1]]), 4),
        (R_FIRES_N, fires(["r"], ["m", "n"]), fires(["r"], ["n", "m"], [[0, 1]]), 1),
        (R_FIRES_N, fires(["r"], ["m", "n"]), fires(["s"], ["n"]), 1),
        (BOLD, mode(1, 1), mode(0, 1), 4),
        (BOLD, mode(1, 1), mode(1, 0), 1),
        (BOLD, mode(1, 1), {}, 1),
        (BOLD, mode(1, 1), moves("r"), 1),
        (taken(), {}, {}, 4),
        (taken(), {}, mode(1, 1), 1),
    ],
)
def test_actions_are_repeated_while_the_same_is_asked_and_allowed(actions, first, then, steps):
    inner = Asks([first, then, then, then, then])
    env = FrameSkip(inner, 4)
    env.reset()
    observation = env.act(actions)
    assert inner.received == [actions] * steps
    assert observation.reward == {1: 10.0, 4: 11110.0}[steps]  # 10 + 100 + 1000 + 10000
    assert observation.metrics == {"time": steps}


def test_frame_skip_stops_at_the_end_and_keeps_the_last_value_of_each_metric():
    inner = Asks([moves("r")] * 3 + [None], {1: {"early": 5}, 2: {"late": 6, "early": 7}, 3: {}})
    env = FrameSkip(inner, 9)
    env.reset()
    observation = env.act(R_MOVES_B)
    assert (observation.done, observation.reward) == (True, 1110.0)
    assert observation.metrics == {"time": 3, "early": 7, "late": 6}


def test_the_last_step_of_frame_skip_is_not_held_against_the_next_actions():
    inner = Asks([moves("r"), moves("r"), moves("s"), {}])
    env = FrameSkip(inner, 2)
    env.reset()
    observation = env.act(R_MOVES_B)
    assert (len(inner.received), observation.reward) == (2, 110.0)
    assert observation.actions == moves("s")


def test_entities_without_ids_are_the_same_while_they_are_as_many_but_cannot_be_selected_again():
    class Nameless(Asks):
        def _observe(self):
            observation = super()._observe()
            observation.ids = {}
            return observation

    by_type = {"Move": CategoricalActionMask(actor_types=["Robot"])}
    inner = Nameless([by_type] * 4)
    env = FrameSkip(inner, 3)
    env.reset()
    env.act(taken(move=[(None, 0), (None, 1)]))
    assert len(inner.received) == 3
    by_type = {"Fire": SelectEntityActionMask(actor_types=["Robot"], actee_types=["Mine"])}
    inner = Nameless([by_type] * 4)
    env = FrameSkip(inner, 3)
    env.reset()
    env.act(taken(fire=[(None, None), (None, None)]))
    assert len(inner.received) == 1


def test_frame_skip_of_one_changes_nothing():
    env = FrameSkip(Chain(), 1)
    env.reset()
    assert [env.act(GO).reward for _ in range(3)] == [1.0, 2.0, 3.0]


class MixedIds(Environment):
    """Numbers of NumPy and tuples are ids; ``==`` between the two is an array."""

    def __init__(self, selects):
        self.selects, self.time = selects, 0

    def obs_space(self):
        return ObsSpace(entities={"Agent": Entity(["x"]), "Cell": Entity(["x"])})

    def action_space(self):
        return {
            "Go": SelectEntityActionSpace() if self.selects else CategoricalActionSpace(["a", "b"])
        }

    def reset(self):
        self.time = 0
        return self._show()

    def act(self, actions):
        self.time += 1
        return self._show()

    def _show(self):
        types = ["Agent", "Cell"][:: 1 - 2 * (self.time % 2)]
        kind = SelectEntityActionMask if self.selects else CategoricalActionMask
        return Observation(
            features={"Agent": [[0.0]], "Cell": [[1.0], [2.0]]},
            ids={"Agent": np.arange(1), "Cell": [(0, 1), (1, 1)]},
            actions={"Go": kind(actor_types=types)},
        )


@pytest.mark.parametrize("selects", [False, True])
def test_ids_of_several_kinds_in_one_frame(selects):
    env, policy = ListEnv(lambda: FrameSkip(MixedIds(selects), 2), 2), random_policy(0)
    obs = env.reset()
    for _ in range(20):
        obs = env.act(policy(obs))
    assert SelectEntityAction([0], [np.int64(0)]) != SelectEntityAction([0], [(0, 1)])
    assert SelectEntityAction([np.int64(0)], [(0, 1)]) == SelectEntityAction([0], [(0, 1)])
