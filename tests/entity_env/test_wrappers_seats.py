"""Wrappers and games of several players: each works, or says what to use instead."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ragged_envs.tic_tac_toe import TicTacToe
from support.mines import NEEDS_NUMBA
from support.seat_games import Played, Secrets, asked, told
from support.tricky_games import Tricky

from entity_env import (
    AsyncEnv,
    CategoricalAction,
    Entity,
    ListEnv,
    ObsSpace,
    ParallelEnv,
    SeatRows,
    check_env,
    errors,
)
from entity_env.play import random_policy
from entity_env.wrappers import (
    FeatureFilter,
    FrameSkip,
    RewardScale,
    SeatRewardScale,
    SeatTimeLimit,
    SeatWrapper,
    TimeLimit,
    VecFeatureFilter,
    VecValidate,
)

GO = {"Go": CategoricalAction(["card"], np.array([0]), ["left", "right"])}


@pytest.mark.parametrize(
    ("wrapper", "arguments"),
    [
        (TimeLimit, [3]),
        (RewardScale, [2.0]),
        (FrameSkip, [2]),
        (FeatureFilter, [TicTacToe().obs_space()]),
    ],
)
def test_wrappers_of_one_player_name_those_of_several(wrapper, arguments):
    with pytest.raises(errors.SettingError, match=r"(?s)needs an environment.*SeatTimeLimit"):
        wrapper(TicTacToe(), *arguments)


def test_a_frame_skip_for_rows_is_refused_and_changes_nothing():
    with SeatRows(TicTacToe, 4) as rows:
        with pytest.raises(errors.SettingError, match="FrameSkip needs an environment"):
            rows.wrap_each(lambda game: FrameSkip(game, 2))
        assert rows.reset().rows.tolist() == [0, 2]


def test_rows_that_must_act_together_refuse_turns():
    pytest.importorskip("gymnasium")
    pytest.importorskip("stable_baselines3")
    from entity_env.interop import EntityVectorEnv, StableBaselinesVecEnv

    with pytest.raises(errors.SettingError, match="act together"):
        EntityVectorEnv(SeatRows(TicTacToe, 4), {"Player": 1, "Cell": 9}, 1).reset()
    with pytest.raises(errors.SettingError, match="act together"):
        StableBaselinesVecEnv(SeatRows(TicTacToe, 4), {"Player": 1, "Cell": 9}, 1).reset()


def test_rewards_of_all_seats_are_scaled():
    rows = VecValidate(SeatRows(lambda: Tricky("teams"), 3))
    rows.wrap_each(lambda game: SeatRewardScale(game, 10.0, low=-5.0))
    obs = rows.reset()
    obs = rows.act(random_policy(0)(obs))
    assert obs.reward.tolist() == [-5.0, -5.0, 10.0]


def test_seats_see_less_through_a_filter():
    cell = TicTacToe().obs_space().entities["Cell"]
    mark = cell.features[cell.names.index("mark")]
    space = ObsSpace(entities={"Player": Entity([]), "Cell": Entity([mark])})
    games = SeatRows(lambda: SeatTimeLimit(TicTacToe(), 3), 4)
    rows = VecValidate(VecFeatureFilter(games, space))
    obs, policy = rows.reset(), random_policy(0)
    for _ in range(30):
        obs = rows.act(policy(obs))
        assert obs.features["Cell"].as_array().shape[1] == 1
        if obs.final is not None:
            assert obs.final.features["Cell"].as_array().shape[1] == 1


def test_a_limited_game_is_sound_and_goes_on_from_its_state():
    assert check_env(lambda: SeatTimeLimit(TicTacToe(), 4)).notes == ()
    rows = SeatRows(lambda: SeatTimeLimit(TicTacToe(), 4), 4, 1)
    obs, policy = rows.reset(), random_policy(0)
    for _ in range(6):
        obs = rows.act(policy(obs))
    state = json.loads(json.dumps(rows.get_state()))
    other = SeatRows(lambda: SeatTimeLimit(TicTacToe(), 4), 4, 2)
    there = other.set_state(state)
    ours, theirs = random_policy(1), random_policy(1)
    finals = 0
    for _ in range(12):
        obs, there = rows.act(ours(obs)), other.act(theirs(there))
        assert obs.rows.tolist() == there.rows.tolist()
        assert obs.truncated.tolist() == there.truncated.tolist()
        if obs.final is not None:
            finals += 1
            ends = [own.final.features["Cell"].as_array().tolist() for own in (obs, there)]
            assert ends[0] == ends[1]
    assert finals
    state[0]["game"]["env"]["SeatTimeLimit"] = {"steps": "many"}
    with pytest.raises(errors.StateError, match="SeatTimeLimit is damaged"):
        other.set_state(state)


def test_a_wrapper_of_games_goes_around_each_of_them():
    class Marked(SeatWrapper):
        def reset(self):
            return {seat: asked(7.0) for seat in super().reset()}

    with SeatRows(lambda: Secrets(2), 4) as rows:
        rows.wrap_each(Marked)
        assert rows.reset().features["Card"].as_array().ravel().tolist() == [7.0] * 4
        with pytest.raises(errors.ObservationError, match="game of several players"):
            rows.wrap_each(lambda game: 3)
        with pytest.raises(errors.SeatError, match="differ in their seats"):
            rows.wrap_each(lambda game: Secrets(3))
        assert rows.reset().num_frames == 4


def test_a_wrapper_goes_around_a_game():
    for wrapper in (SeatWrapper, lambda game: SeatTimeLimit(game, 3)):
        with pytest.raises(errors.SettingError, match="needs a game of several players"):
            wrapper(3)
    with pytest.raises(errors.SettingError, match="max_steps of SeatTimeLimit"):
        SeatTimeLimit(TicTacToe(), 0)
    inside = TicTacToe()
    assert SeatTimeLimit(SeatWrapper(inside), 3).unwrapped is inside


# ------------------------------------------------------------------------------- games in workers


class Crashes(Played):
    def act(self, actions):
        raise RuntimeError("lost")


def test_errors_in_workers_name_the_game():
    with ParallelEnv(lambda: Crashes({"a": asked()}), 6, 2) as rows:
        obs = rows.reset()
        with pytest.raises(errors.EnvironmentFailedError, match=r"game 0, step 1.*RuntimeError"):
            rows.act(random_policy(0)(obs))
    with pytest.raises(errors.SettingError, match="7 rows cannot be shared by games of 3 seats"):
        ParallelEnv(lambda: Played({"a": asked()}), 7, 1)
    with pytest.raises(errors.SettingError, match=r"(?s)processes.*<= 1, the number of games"):
        AsyncEnv(lambda: Played({"a": asked()}), 3, 2, 1)


def test_a_saved_state_crosses_between_processes():
    """Saved in workers, continued in this process, and the other way round."""
    with ParallelEnv(TicTacToe, 6, 2, seed=3) as there:
        here, policy = SeatRows(TicTacToe, 6, 3), random_policy(0)
        obs = there.reset()
        for _ in range(7):
            obs = there.act(policy(obs))
        assert there.has_state()
        state = there.get_state()
        both = [here.set_state(state), there.set_state(here.get_state())]
        policies = [random_policy(1), random_policy(1)]
        for _ in range(25):
            both = [
                rows.act(own(obs))
                for rows, own, obs in zip((here, there), policies, both, strict=True)
            ]
            for part in ("rows", "reward", "done"):
                assert getattr(both[0], part).tolist() == getattr(both[1], part).tolist()


def test_games_in_which_nobody_must_act_continue():
    with AsyncEnv(lambda: Tricky("nobody is asked"), 3, 1, 1) as rows:
        policy = random_policy(0)
        obs = rows.act(policy(rows.reset()))
        paid = obs.reward.copy()
        while not len(obs.rows):  # three steps ask nobody
            obs = rows.act(policy(obs))
            paid += obs.reward
        assert paid.tolist() == [1.75, 2.0, 0.0]
        assert obs.rows.tolist() == [0, 1]
        obs = rows.act(policy(obs))
        assert (obs.reward.tolist(), obs.done.tolist()) == (
            [-1.0, 4.0, 0.0], [True, True, False],
        )  # fmt: skip


def test_a_reset_within_a_game_begins_the_episodes_of_all_seats():
    rows, policy = SeatRows(lambda: Tricky("dies and comes back"), 3), random_policy(0)
    obs = rows.reset()
    for _ in range(2):
        obs = rows.act(policy(obs))  # b has decided, and is paid 0.5 before
    obs = rows.reset()
    for _ in range(6):
        obs = rows.act(policy(obs))
        if obs.done[1]:
            assert obs.metrics["episodic_length"][1] == 2
            assert obs.metrics["episodic_reward"][1] == 3.5


@NEEDS_NUMBA
def test_rows_of_single_environments_have_one_seat():
    from ragged_envs.minesweeper import MineSweeper

    assert ListEnv(MineSweeper, 2).num_seats == 1
    assert told().done is False
