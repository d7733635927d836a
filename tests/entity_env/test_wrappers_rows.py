"""Wrappers around rows, and rows of several kinds as one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.rows import rows_of
from support.tiny_envs import Chain, Compiled, Failing, Farm, assert_same_obs

from entity_env import ListEnv, ObsSpace, RaggedBufferI64
from entity_env.errors import (
    ClosedError,
    EntityEnvError,
    EnvironmentFailedError,
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
    VecFeatureFilter,
    VecValidate,
    VecWrapper,
    Wrapper,
)

WHOLE = Farm().obs_space()
SOME = ObsSpace(
    WHOLE.global_features,
    {name: entity for name, entity in WHOLE.entities.items() if name != "Rock"},
)
WRAPPERS = {
    "VecWrapper": VecWrapper,
    "VecFeatureFilter": lambda env: VecFeatureFilter(env, SOME),
    "VecValidate": VecValidate,
    "both": lambda env: VecValidate(VecWrapper(env)),
}
over_all = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)


def play(env, steps, seed=0, start=None):
    """The observations of a game."""
    policy, game = random_policy(seed), [env.reset(start)]
    for _ in range(steps):
        game.append(env.act(policy(game[-1])))
    return game


def go(*choices):
    """One choice for each row of a ``Chain``."""
    return {"Go": RaggedBufferI64.from_array(np.array(choices)[:, None, None])}


# -------------------------------------------------------------------------------- VecWrapper


@pytest.mark.parametrize("name", [n for n in WRAPPERS if n not in ("VecFeatureFilter",)])
def test_a_wrapper_that_changes_nothing_shows_the_same_game(name):
    with ListEnv(Farm, 3, seed=4) as plain, WRAPPERS[name](ListEnv(Farm, 3, seed=4)) as env:
        assert (len(env), env.has_state()) == (3, True)
        assert env.obs_space() == plain.obs_space()
        assert env.action_space() == plain.action_space()
        for a, b in zip(play(plain, 20), play(env, 20), strict=True):
            assert_same_obs(a, b)
        assert_same_obs(plain.reset(9), env.reset(9))
        assert [p.tolist() for p in plain.render(size=3)] == [
            p.tolist() for p in env.render(size=3)
        ]


@over_all
def test_a_saved_game_goes_on_as_it_would_have(wrap):
    env, again = wrap(ListEnv(Farm, 4, seed=4)), wrap(ListEnv(Farm, 4, seed=8))
    obs = play(env, 9)[-1]
    state = json.loads(json.dumps(env.get_state()))
    assert len(state) == 4
    other = again.set_state(state)
    assert other.reward.tolist() == [0] * 4
    policy, the_same = random_policy(3), random_policy(3)
    for _ in range(15):
        obs, other = env.act(policy(obs)), again.act(the_same(other))
        assert rows_of(obs) == rows_of(other)


@over_all
def test_closing_closes_the_rows_inside_once(wrap):
    closed = []

    class Counting(Farm):
        def close(self):
            closed.append(1)

    inner = ListEnv(Counting, 2)
    env = wrap(inner)
    with env:
        env.reset()
    env.close()
    assert closed == [1, 1]
    for call in (env.reset, env.get_state, env.render, inner.reset, lambda: env.set_state([])):
        with pytest.raises(ClosedError):
            call()


@over_all
def test_wrong_actions_change_nothing(wrap):
    env = wrap(ListEnv(lambda: Farm(), 2, seed=1))
    plain = wrap(ListEnv(lambda: Farm(), 2, seed=1))
    with pytest.raises(ResetNeededError):
        env.act({})
    obs, expected = env.reset(), plain.reset()
    with pytest.raises(EntityEnvError):
        env.act({"Walk": RaggedBufferI64(1)})
    with pytest.raises(EntityEnvError):
        env.act({"Wlak": RaggedBufferI64(1)})
    assert_same_obs(env.act(random_policy(0)(obs)), plain.act(random_policy(0)(expected)))


@over_all
def test_rows_that_somebody_plays_without_their_wrapper_need_a_reset(wrap):
    inner = ListEnv(Farm, 2, seed=1)
    env = wrap(inner)
    obs = env.reset()
    inner.reset()
    with pytest.raises(ResetNeededError, match="without it"):
        env.act(random_policy(0)(obs))
    env.act(random_policy(0)(env.reset()))
    inner.close()
    with pytest.raises(ClosedError):
        env.act(random_policy(0)(env._last))


@over_all
def test_a_step_that_fails_needs_a_reset(wrap):
    if wrap is WRAPPERS["VecFeatureFilter"]:

        def wrap(env):
            return VecFeatureFilter(env, env.obs_space())

    inner = ListEnv(lambda: Failing("raise", row=1, at=2), 2)
    env = wrap(inner)
    env.reset()
    env.act(go(0, 1))
    with pytest.raises(EnvironmentFailedError, match="environment 1, step 2"):
        env.act(go(0, 1))
    for rows in (env, inner):
        with pytest.raises(ResetNeededError):
            rows.act(go(0, 1))
    env.reset()
    env.act(go(1, 1))


def test_the_quick_check_of_the_rows_inside_is_used_and_no_other():
    class Quick(ListEnv):
        checks = 0

        def _checked_actions(self, actions, obs):
            Quick.checks += 1
            return super()._checked_actions(actions, obs)

    env = VecWrapper(VecWrapper(Quick(lambda: Chain(9), 2)))
    env.reset()
    env.act(go(0, 1))
    assert Quick.checks == 1
    with pytest.raises(EntityEnvError):
        env.act(go(0, 2))


def test_unwrapped_rows():
    inner = ListEnv(Chain, 1)
    assert VecValidate(VecWrapper(inner)).unwrapped is inner


# ----------------------------------------------------------------------------------- bad uses


FARM = Farm().obs_space()
ROWS = ListEnv(Chain, 2)
COMPILED = Compiled(2)
BAD = [
    (lambda: Wrapper(Chain), SettingError, "Wrapper needs an environment"),
    (lambda: Wrapper(None), SettingError, "received: None"),
    (lambda: TimeLimit(Chain(), 0), SettingError, "max_steps of TimeLimit"),
    (lambda: TimeLimit(Chain(), -3), SettingError, "received: -3"),
    (lambda: TimeLimit(Chain(), 2.0), SettingError, "whole number"),
    (lambda: TimeLimit(Chain(), True), SettingError, "received: True"),
    (lambda: TimeLimit(Chain(), None), SettingError, "received: None"),
    (lambda: FrameSkip(Chain(), 0), SettingError, "skip of FrameSkip"),
    (lambda: FrameSkip(Chain(), "4"), SettingError, "received: '4'"),
    (lambda: FrameSkip("Chain", 4), SettingError, "received: 'Chain'"),
    (lambda: RewardScale(Chain(), "2"), SettingError, "scale of RewardScale"),
    (lambda: RewardScale(Chain(), np.nan), SettingError, "received: nan"),
    (lambda: RewardScale(Chain(), True), SettingError, "received: True"),
    (lambda: RewardScale(Chain(), 1, low=-np.inf), SettingError, "low of RewardScale"),
    (lambda: RewardScale(Chain(), 1, high=[1]), SettingError, "high of RewardScale"),
    (lambda: RewardScale(Chain(), 1, low=2, high=1), SettingError, "low=2, high=1"),
    (lambda: RewardScale(Chain(), 10**400), SettingError, "finite"),
    (lambda: COMPILED.wrap_each(Wrapper), SettingError, "Compiled is not made of single"),
    (lambda: VecWrapper(COMPILED).wrap_each(Wrapper), SettingError, "ListEnv(Chain, num_envs)"),
    (lambda: VecWrapper(Chain()), SettingError, "such as ListEnv"),
    (lambda: VecValidate(ListEnv), SettingError, "VecValidate needs rows"),
    (lambda: VecFeatureFilter(Chain(), FARM), SettingError, "needs rows"),
    (lambda: VecFeatureFilter(ROWS, FARM), SpaceError, "no entity type 'Animal'"),
    (lambda: FeatureFilter(ROWS, FARM), SettingError, "needs an environment"),
    (lambda: FeatureFilter(Chain(), None), SpaceError, "received: None"),
]


@pytest.mark.parametrize(("use", "error", "words"), BAD)
def test_wrong_uses_are_named(use, error, words):
    with pytest.raises(error) as caught:
        use()
    assert words in " ".join(str(caught.value).split())
