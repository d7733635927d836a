"""Time limits and frame skips for rows, and whatever else goes around each environment."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.tiny_envs import Chain, Compiled, Failing, Farm, assert_same_obs

from entity_env import ListEnv, ObsSpace, ParallelEnv, RaggedBufferI64
from entity_env.errors import (
    ClosedError,
    EnvironmentFailedError,
    ObservationError,
    ResetNeededError,
    SettingError,
    SpaceError,
)
from entity_env.play import random_policy
from entity_env.wrappers import (
    FeatureFilter,
    FrameSkip,
    RewardScale,
    TimeLimit,
    VecWrapper,
    Wrapper,
)

ROWS = {
    "ListEnv": lambda: ListEnv(Farm, 5, seed=4),
    "ParallelEnv": lambda: ParallelEnv(Farm, 5, 2, seed=4),
    "VecWrapper": lambda: VecWrapper(VecWrapper(ListEnv(Farm, 5, seed=4))),
}


def assert_same_game(a, b, steps=30):
    policy, the_same = random_policy(2), random_policy(2)
    one, other = a.reset(), b.reset()
    assert_same_obs(one, other)
    for _ in range(steps):
        one, other = a.act(policy(one)), b.act(the_same(other))
        assert_same_obs(one, other)


def go(rows):
    return {"Go": RaggedBufferI64.from_array(np.zeros((rows, 1, 1), np.int64))}


@pytest.mark.parametrize("make", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize(
    ("wrappers", "around_one"),
    [
        ([partial(TimeLimit, max_steps=3)], lambda: TimeLimit(Farm(), 3)),
        ([partial(FrameSkip, skip=3)], lambda: FrameSkip(Farm(), 3)),
        (
            [partial(FrameSkip, skip=2), partial(TimeLimit, max_steps=2)],
            lambda: TimeLimit(FrameSkip(Farm(), 2), 2),
        ),
        (
            [partial(TimeLimit, max_steps=3), partial(FrameSkip, skip=2)],
            lambda: FrameSkip(TimeLimit(Farm(), 3), 2),
        ),
    ],
    ids=["limit", "skip", "limit around skip", "skip around limit"],
)
def test_around_rows_is_the_same_as_around_each_environment(make, wrappers, around_one):
    with make() as env, ListEnv(around_one, 5, seed=4) as expected:
        for wrapper in wrappers:
            env.wrap_each(wrapper)
        assert_same_game(env, expected)
        state = env.get_state()
        assert_same_obs(env.set_state(state), expected.set_state(state))


def test_rows_are_cut_off_with_what_they_showed_last_and_their_length():
    lengths = iter([2, 9, 9])
    env = ListEnv(lambda: Chain(next(lengths)), 3)
    env.wrap_each(partial(TimeLimit, max_steps=3))
    env.reset()
    ends = []
    for _ in range(6):
        obs = env.act(go(3))
        ends.append((obs.done.tolist(), obs.truncated.tolist()))
        if obs.truncated.any():
            assert obs.final.features["Walker"].as_array().tolist() == [[3.0], [3.0]]
            assert obs.metrics["episodic_length"][1:].tolist() == [3.0, 3.0]
            assert obs.metrics["episodic_reward"][1:].tolist() == [1.0 + 2.0 + 3.0] * 2
    nobody, all_rows = [False] * 3, [True] * 3
    first, others = [True, False, False], [False, True, True]
    assert ends == [
        (nobody, nobody),
        (first, nobody),
        (others, others),
        (first, nobody),
        (nobody, nobody),
        (all_rows, others),
    ]


def test_frame_skip_adds_up_each_rows_own_steps():
    env = ListEnv(lambda: FrameSkip(Chain(5), skip=3), 2)
    env.reset()
    assert env.act(go(2)).reward.tolist() == [1.0 + 2.0 + 3.0] * 2
    last = env.act(go(2))
    assert last.reward.tolist() == [4.0 + 5.0] * 2
    assert last.done.tolist() == [True, True]
    assert last.metrics["episodic_length"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("make", ROWS.values(), ids=ROWS)
def test_any_wrapper_that_keeps_the_spaces_goes_around_each(make):
    twice = 2  # of this test alone: a worker gets it with the function
    with make() as env, ListEnv(lambda: RewardScale(Farm(), twice), 5, seed=4) as expected:
        env.wrap_each(lambda inner: RewardScale(inner, twice))
        assert_same_game(env, expected)


@pytest.mark.parametrize("make", ROWS.values(), ids=ROWS)
def test_rows_need_a_reset_after_it(make):
    with make() as env:
        obs = env.reset()
        env.wrap_each(partial(TimeLimit, max_steps=2))
        with pytest.raises(ResetNeededError):
            env.act(random_policy(0)(obs))
        env.reset()


class Forgetful(Wrapper):
    """Saves nothing."""

    def has_state(self):
        return False


@pytest.mark.parametrize("make", ROWS.values(), ids=ROWS)
def test_rows_forget_how_to_save_with_their_environments(make):
    with make() as env:
        assert env.has_state()
        env.wrap_each(Forgetful)
        assert not env.has_state()


FEWER = ObsSpace(Farm().obs_space().global_features)
ONE = Farm()
BROKEN = [
    (partial(FeatureFilter, obs_space=FEWER), SpaceError, "environment 0, step 0, wrapper"),
    (lambda _: None, ObservationError, "step 0: wrapper did not make an environment"),
    (7, ObservationError, "received: 7"),
    (lambda _: ONE, ObservationError, "environment 1, step 0: wrapper made environment 0"),
    (lambda _: 1 / 0, EnvironmentFailedError, "ZeroDivisionError in wrapper"),
    (
        partial(TimeLimit, max_steps=0),
        SettingError,
        "environment 0, step 0, wrapper: invalid max_steps",
    ),
]


@pytest.mark.parametrize(("wrapper", "error", "words"), BROKEN)
def test_a_wrapper_that_does_not_fit_leaves_the_rows_as_they_were(wrapper, error, words):
    with ListEnv(Farm, 5, seed=4) as env, ListEnv(Farm, 5, seed=4) as expected:
        with pytest.raises(error) as caught:
            env.wrap_each(wrapper)
        assert words in " ".join(str(caught.value).split())
        assert_same_game(env, expected)


@pytest.mark.parametrize(("wrapper", "error", "words"), BROKEN)
def test_a_wrapper_that_does_not_fit_is_the_same_error_from_a_worker(wrapper, error, words):
    with ParallelEnv(Farm, 5, 2, seed=4) as env, pytest.raises(error) as caught:
        env.wrap_each(wrapper)
    assert words in " ".join(str(caught.value).split())


def test_a_wrapper_that_no_worker_can_get_is_named_and_changes_nothing():
    lock = threading.Lock()
    with ParallelEnv(Farm, 2, 2, seed=4) as env, ListEnv(Farm, 2, seed=4) as expected:
        with pytest.raises(EnvironmentFailedError, match="the wrapper cannot be sent"):
            env.wrap_each(lambda inner: (lock, inner)[1])
        assert_same_game(env, expected)


class Sticky(Wrapper):
    """Draws numbers of its own, and shows the last one as the reward."""

    def seed(self, seed):
        super().seed(seed)
        self.own = np.random.default_rng(seed + 1)

    def observation(self, observation):
        return replace(observation, reward=float(self.own.random()))


@pytest.mark.parametrize("make", ROWS.values(), ids=ROWS)
def test_what_a_wrapper_draws_itself_is_seeded_like_the_environment(make):
    with make() as env, ListEnv(lambda: Sticky(Farm()), 5, seed=4) as expected:
        env.wrap_each(Sticky)
        assert_same_game(env, expected)


def test_rows_that_play_on_are_seeded_as_they_were_last():
    with ListEnv(Farm, 2, seed=4) as env, ListEnv(lambda: Sticky(Farm()), 2, seed=9) as expected:
        env.reset(9)
        env.wrap_each(Sticky)
        assert_same_game(env, expected)


def test_closed_rows_say_so():
    env = ListEnv(Farm, 1)
    env.close()
    with pytest.raises(ClosedError):
        env.wrap_each(Wrapper)


def test_compiled_rows_say_so():
    with pytest.raises(SettingError, match="Compiled is not made of single"):
        Compiled(1).wrap_each(partial(TimeLimit, max_steps=1))


def test_rewards_of_skipped_frames_are_clipped_after_they_are_added_up():
    env = ListEnv(lambda: RewardScale(FrameSkip(Chain(5), 3), low=-1, high=2), 1)
    env.reset()
    assert env.act(go(1)).reward.tolist() == [2.0]


def test_what_fails_inside_a_wrapper_still_names_its_row():
    env = ListEnv(lambda: Failing("raise", row=1, at=2), 2)
    env.wrap_each(partial(TimeLimit, max_steps=50))
    env.reset()
    env.act(go(2))
    with pytest.raises(EnvironmentFailedError, match="environment 1, step 2"):
        env.act(go(2))
