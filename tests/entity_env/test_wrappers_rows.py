"""Wrappers around rows, and rows of several kinds as one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.mines import minesweeper
from support.rows import rows_of
from support.tiny_envs import Chain, Compiled, Failing, Farm, assert_same_obs

from entity_env import ListEnv, ObsSpace, ParallelEnv, RaggedBufferI64
from entity_env.errors import (
    ActionError,
    ClosedError,
    EntityEnvError,
    EnvironmentFailedError,
    ResetNeededError,
    SettingError,
    SpaceError,
    StateError,
)
from entity_env.play import play_rows, random_policy
from entity_env.wrappers import (
    ConcatVecEnv,
    EpisodeStatistics,
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
    "ConcatVecEnv": lambda env: ConcatVecEnv([env]),
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
        if name != "ConcatVecEnv":  # where each part has a seed of its own
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


# --------------------------------------------------------------------------------- ConcatVecEnv


def parts():
    return [
        ListEnv(lambda: Farm(2), 2, seed=1),
        VecWrapper(ListEnv(lambda: Farm(5), 1, seed=2)),
        ListEnv(lambda: Farm(3), 3, seed=3),
    ]


def test_joined_rows_are_the_rows_of_the_parts():
    joined, alone = ConcatVecEnv(parts()), parts()
    assert len(joined) == 6
    obs, shown = joined.reset(), [part.reset() for part in alone]
    policy = random_policy(5)
    finals = mixed = 0
    for _ in range(40):
        assert rows_of(obs) == [row for part in shown for row in rows_of(part)]
        finals += obs.final is not None
        mixed += len({bool(part.metrics) for part in shown}) == 2
        assert all(column.shape == (6,) for column in obs.metrics.values())
        actions = policy(obs)
        obs = joined.act(actions)
        own = [
            {
                name: RaggedBufferI64.cat([buffer[row] for row in rows], 0)
                for name, buffer in actions.items()
            }
            for rows in ([0, 1], [2], [3, 4, 5])
        ]
        shown = [part.act(chosen) for part, chosen in zip(alone, own, strict=True)]
    assert min(finals, mixed) > 5
    assert_same_obs(VecValidate(joined).reset(3), joined.reset(3))


def test_a_seed_gives_each_part_its_own():
    joined, alone = ConcatVecEnv(parts()), parts()
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(9).spawn(3)]
    expected = [
        row for part, seed in zip(alone, seeds, strict=True) for row in rows_of(part.reset(seed))
    ]
    assert rows_of(joined.reset(9)) == expected
    for a, b in zip(play(joined, 5, start=9), play(ConcatVecEnv(parts()), 5, start=9), strict=True):
        assert_same_obs(a, b)
    twins = ConcatVecEnv([ListEnv(Farm, 2, seed=1), ListEnv(Farm, 2, seed=1)])
    rows = rows_of(twins.reset())
    assert rows[:2] == rows[2:]
    rows = rows_of(twins.reset(1))
    assert rows[:2] != rows[2:]
    with pytest.raises(SettingError):
        joined.reset(-1)


def test_compiled_rows_beside_rows_in_python_and_in_workers():
    settings = {"max_steps": 5, "orbital_cannon": True}
    rows = pytest.importorskip("ragged_envs.minesweeper")
    native = rows.MineSweeperRows(3, seed=1, **settings)
    plain = ListEnv(lambda: minesweeper(**settings), 2, seed=2)
    workers = ParallelEnv(lambda: minesweeper(**settings), 2, 2, seed=3)
    with VecValidate(ConcatVecEnv([native, plain, workers])) as env:
        game = play(env, 12)
        assert sum(int(obs.truncated.sum()) for obs in game) > 5
        state = env.get_state()
        assert len(state) == len(env) == 7
        again = env.set_state(state)
        assert rows_of(again)[0]["features"] == rows_of(game[-1])[0]["features"]


def test_joined_rows_are_drawn_and_saved_in_order():
    env = ConcatVecEnv(parts())
    env.reset()
    assert [picture.shape for picture in env.render(size=2)] == [(2, 2, 3)] * 6
    state = env.get_state()
    for wrong in (state[:-1], [*state, state[0]], None, {}):
        with pytest.raises(StateError, match="6 rows"):
            env.set_state(wrong)
    assert not ConcatVecEnv([ListEnv(Farm, 1), ListEnv(NoState, 1)]).has_state()


class NoState(Farm):
    def has_state(self):
        return False


def test_an_error_names_the_part():
    first = ListEnv(lambda: Chain(9), 3)
    env = ConcatVecEnv([first, ListEnv(lambda: Failing("raise", row=1, at=2), 2)])
    env.reset()
    env.act(go(0, 0, 0, 0, 0))
    with pytest.raises(EnvironmentFailedError) as caught:
        env.act(go(0, 0, 0, 0, 0))
    assert str(caught.value).startswith("part 1, environment 1, step 2")
    with pytest.raises(ResetNeededError):
        env.act(go(0, 0, 0, 0, 0))
    env.reset()


def test_actions_of_joined_rows_are_checked():
    env = ConcatVecEnv([ListEnv(OnlyRight, 1), ListEnv(OnlyRight, 2)])
    env.reset()
    with pytest.raises(ActionError, match="environment 1"):
        env.act(go(1, 0, 1))
    env.act(go(1, 1, 1))


class OnlyRight(Chain):
    def _observe(self):
        observation = super()._observe()
        mask = replace(observation.actions["Go"], mask=[[False, True]])
        return replace(observation, actions={"Go": mask})


def test_all_parts_are_closed_even_if_one_fails():
    closed = []

    class Closing(Chain):
        def __init__(self, name, fails=False):
            super().__init__()
            self.name, self.fails = name, fails

        def close(self):
            closed.append(self.name)
            if self.fails:
                raise RuntimeError("stuck")

    env = ConcatVecEnv([ListEnv(lambda n=n: Closing(n, n == 1), 1) for n in range(3)])
    with pytest.raises(EnvironmentFailedError, match="stuck"):
        env.close()
    assert closed == [0, 1, 2]
    env.close()


def test_joined_rows_can_be_evaluated():
    def make(num_envs, seed):
        lengths = iter([2, 3])
        return ConcatVecEnv([ListEnv(lambda n=n: Chain(n), 1, seed) for n in lengths])

    played = play_rows(make, random_policy(0), 6, seed=1, rows=2)
    assert sorted(played["episodic_length"].tolist()) == [2, 2, 2, 3, 3, 3]


# ----------------------------------------------------------------------------------- bad uses


FARM = Farm().obs_space()
ROWS = ListEnv(Chain, 2)
COMPILED = Compiled(2)
BAD = [
    (lambda: Wrapper(Chain), SettingError, "Wrapper needs an environment"),
    (lambda: Wrapper(None), SettingError, "received: None"),
    (lambda: EpisodeStatistics({}), SettingError, "received: {}"),
    (lambda: TimeLimit(Chain(), 0), SettingError, "max_steps of TimeLimit"),
    (lambda: TimeLimit(Chain(), -3), SettingError, "received: -3"),
    (lambda: TimeLimit(Chain(), 2.0), SettingError, "whole number"),
    (lambda: TimeLimit(Chain(), True), SettingError, "received: True"),
    (lambda: TimeLimit(Chain(), None), SettingError, "received: None"),
    (lambda: FrameSkip(Chain(), 0), SettingError, "skip of FrameSkip"),
    (lambda: FrameSkip(Chain(), "4"), SettingError, "received: '4'"),
    (lambda: FrameSkip("Chain", 4), SettingError, "received: 'Chain'"),
    (lambda: EpisodeStatistics(Chain(), 0), SettingError, "window of EpisodeStatistics"),
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
    (lambda: ConcatVecEnv([]), SettingError, "a list of VecEnvs"),
    (lambda: ConcatVecEnv(ROWS), SettingError, "a list of VecEnvs"),
    (lambda: ConcatVecEnv("ab"), SettingError, "a list of VecEnvs"),
    (lambda: ConcatVecEnv([ROWS, Chain()]), SettingError, "ConcatVecEnv needs rows"),
    (lambda: ConcatVecEnv([ROWS, ROWS]), SettingError, "the same rows twice"),
    (lambda: ConcatVecEnv([ROWS, ListEnv(Farm, 1)]), SpaceError, "part 1: the obs_space differs"),
]


@pytest.mark.parametrize(("use", "error", "words"), BAD)
def test_wrong_uses_are_named(use, error, words):
    with pytest.raises(error) as caught:
        use()
    assert words in " ".join(str(caught.value).split())
