"""Rows as a vector environment of Stable-Baselines3: what it is told, and what trains there."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium")
sb3_contrib = pytest.importorskip("sb3_contrib")

from ragged_envs.minesweeper import MineSweeper, MineSweeperRows  # noqa: E402
from sb3_contrib.common.maskable.evaluation import evaluate_policy  # noqa: E402
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import VecCheckNan, VecMonitor, VecNormalize  # noqa: E402
from support.strict_envs import strict_rows  # noqa: E402
from support.tiny_envs import Chain  # noqa: E402

from entity_env import ListEnv  # noqa: E402
from entity_env.errors import (  # noqa: E402
    ActionError,
    CapacityError,
    ClosedError,
    MissingPackageError,
    ResetNeededError,
    SettingError,
)
from entity_env.interop import EntityVectorEnv, StableBaselinesVecEnv  # noqa: E402
from entity_env.registry import resolve  # noqa: E402

ROOM = {"Mine": 2, "Robot": 1, "Orbital Cannon": 0}, {"Move": 1, "Fire Orbital Cannon": 0}
BOARD = {"width": 3, "height": 3, "nmines": 2, "nrobots": 1, "max_steps": 6}


def compiled(rows=4, **settings):
    return StableBaselinesVecEnv(MineSweeperRows(rows, **BOARD), *ROOM, **settings)


def drawn(env, rng):
    """An allowed action for each row: here one number each."""
    masks = get_action_masks(env)
    return np.array([[rng.choice(np.flatnonzero(mask))] for mask in masks])


def played(env, steps, seed=3):
    """(observation, rewards, dones, infos) of random steps."""
    rng = np.random.default_rng(seed)
    return [env.step(drawn(env, rng)) for _ in range(steps)]


def test_rows_are_told_as_the_padded_rows_are():
    env, padded = compiled(), EntityVectorEnv(MineSweeperRows(4, **BOARD), *ROOM)
    env.seed(7)
    seen = env.reset()
    expected, _ = padded.reset(seed=7)
    rng = np.random.default_rng(1)
    for _ in range(40):
        assert list(seen) == list(env.observation_space.spaces)
        for name, array in expected.items():
            np.testing.assert_array_equal(seen[name], array)
            assert seen[name].dtype == env.observation_space[name].dtype
        np.testing.assert_array_equal(get_action_masks(env), padded.action_masks())
        actions = drawn(env, rng)
        seen, rewards, dones, infos = env.step(actions)
        expected, own, terminated, truncated, _ = padded.step(actions)
        np.testing.assert_array_equal(rewards, own.astype(np.float32))
        assert rewards.dtype == np.float32
        np.testing.assert_array_equal(dones, terminated | truncated)
        assert dones.dtype == np.bool_
        cut_off = [info["TimeLimit.truncated"] for info in infos]
        assert cut_off == truncated.tolist()


@pytest.mark.parametrize(
    "make",
    [compiled, lambda: StableBaselinesVecEnv(ListEnv(lambda: MineSweeper(**BOARD), 4), *ROOM)],
)
def test_what_infos_say_of_episodes(make):
    env = make()
    env.seed(1)
    env.reset()
    returns, lengths, ended = np.zeros(4), np.zeros(4, int), {True: 0, False: 0}
    for seen, rewards, dones, infos in played(env, 60):
        returns += rewards
        lengths += 1
        for row, info in enumerate(infos):
            assert ("episode" in info) == ("terminal_observation" in info) == dones[row]
            if not dones[row]:
                assert info == {"TimeLimit.truncated": False}
                continue
            ended[info["TimeLimit.truncated"]] += 1
            assert info["episode"]["r"] == pytest.approx(returns[row], abs=1e-5)
            assert info["episode"]["l"] == lengths[row] <= 6
            assert info["episode"]["t"] >= 0
            assert info["metrics"]["episodic_length"] == lengths[row]
            assert info["metrics"]["win"] in (0, 1)
            last = info["terminal_observation"]
            assert last in env.observation_space
            if info["TimeLimit.truncated"]:
                assert lengths[row] == 6
                assert last["Robot/present"].tolist() == [1]
                assert any((last[name] != seen[name][row]).any() for name in last)
            else:
                assert not last["Robot/present"].any()
                assert last["Move/actors"].tolist() == [-1]
        returns[dones], lengths[dones] = 0, 0
    assert min(ended.values()) >= 3


def test_one_seed_plays_one_game():
    games = []
    for seed in (5, 5, 6):
        env = compiled()
        assert env.seed(seed) == [seed, seed + 1, seed + 2, seed + 3]
        first = env.reset()
        games.append((first["Mine/features"], [rewards for _, rewards, _, _ in played(env, 20)]))
    np.testing.assert_array_equal(games[0][0], games[1][0])
    np.testing.assert_array_equal(games[0][1], games[1][1])
    assert (games[0][0] != games[2][0]).any()
    # A seed counts once: the next reset goes on.
    again = env.reset()["Mine/features"]
    assert (again != games[2][0]).any()


def test_rows_can_be_asked_one_by_one():
    env = compiled()
    env.reset()
    assert is_masking_supported(env)
    assert not env.has_attr("ale")
    every = env.env_method("action_masks")
    assert np.shape(every) == (4, 5)
    two = env.env_method("action_masks", indices=[3, 1])
    np.testing.assert_array_equal(two, [every[3], every[1]])
    (one,) = env.env_method("action_masks", indices=2)
    np.testing.assert_array_equal(one, every[2])
    assert env.get_attr("action_space", 0) == [env.action_space]
    assert env.get_attr("render_mode") == [None] * 4
    assert env.env_is_wrapped(Monitor) == [True] * 4  # its infos tell of episodes
    assert env.env_is_wrapped(VecMonitor, [0]) == [False]
    valid = "observation_space, action_space, render_mode, metadata, spec, action_masks"
    for ask, message in (
        (
            lambda: env.get_attr("difficulty"),
            f"the rows of a VecEnv have no 'difficulty'; valid: {valid}",
        ),
        (lambda: env.env_method("cheat"), f"the rows of a VecEnv have no 'cheat'; valid: {valid}"),
        (
            lambda: env.set_attr("difficulty", 3),
            "attribute 'difficulty' of rows of a VecEnv cannot be set",
        ),
    ):
        with pytest.raises(AttributeError) as caught:
            ask()
        assert str(caught.value) == message


def test_its_own_wrappers_find_no_fault():
    env = VecCheckNan(compiled(), raise_exception=True)
    env = VecNormalize(env, norm_obs_keys=["Mine/features", "Robot/features"])
    env.reset()
    for _, _, dones, infos in played(env, 30):
        assert all("terminal_observation" in infos[row] for row in np.flatnonzero(dones))
    assert np.isfinite(env.ret_rms.var)


def test_pictures_stand_side_by_side():
    env = compiled(render_mode="rgb_array")
    env.reset()
    images = env.get_images()
    assert len(images) == 4
    height, width, _ = images[0].shape
    assert env.render().shape == (2 * height, 2 * width, 3)
    assert compiled().get_images() == [None] * 4


def test_pictures_of_different_boards_are_made_equally_large():
    boards = MineSweeperRows(6, 1, width=[3, 8], height=[3, 8], nmines=1, nrobots=1)
    env = StableBaselinesVecEnv(boards, *ROOM, render_mode="rgb_array")
    env.reset()
    sizes = {image.shape for image in boards.render()}
    assert len(sizes) > 1
    largest = tuple(np.max(list(sizes), axis=0))
    assert {image.shape for image in env.get_images()} == {largest}
    assert env.render().ndim == 3


def test_what_can_be_wrong():
    with pytest.raises(SettingError, match="not a VecEnv"):
        StableBaselinesVecEnv(MineSweeper(), 2)
    with pytest.raises(SettingError, match="render_mode does not exist"):
        compiled(render_mode="human")
    with pytest.raises(CapacityError, match="'Mine' has 2"):
        StableBaselinesVecEnv(MineSweeperRows(2, **BOARD), {**ROOM[0], "Mine": 1}, 1).reset()
    env = compiled()
    with pytest.raises(ResetNeededError):
        env.step(np.zeros((4, 1), int))
    with pytest.raises(ResetNeededError):
        env.env_method("action_masks")
    env.seed(0)
    env.reset()
    with pytest.raises(ActionError):
        env.step(np.zeros((3, 1), int))
    env.set_options({"size": 3})
    with pytest.raises(SettingError, match="options"):
        env.reset()
    env.close()
    env.close()
    env.set_options(None)
    with pytest.raises(ClosedError):
        env.reset()


def test_a_missing_package_is_named(monkeypatch):
    for module in list(sys.modules):
        if module.startswith("entity_env.interop.stable"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.monitor", None)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(MissingPackageError, match=r"ragged-rl\[sb3\]"):
        resolve("entity_env.interop.StableBaselinesVecEnv")


def test_an_action_of_the_player_alone_needs_no_room_for_actors():
    env = StableBaselinesVecEnv(ListEnv(Chain, 3), 4)
    env.reset()
    assert env.action_space.shape[0] >= 1


def test_maskable_ppo_trains_on_compiled_rows():
    import torch

    torch.set_num_threads(1)
    env = strict_rows(MineSweeperRows(20, **BOARD), *ROOM)
    settings = {"n_steps": 50, "batch_size": 250, "n_epochs": 1, "seed": 1, "device": "cpu"}
    model = sb3_contrib.MaskablePPO("MultiInputPolicy", env, **settings)
    model.learn(2_000)
    assert model.num_timesteps == 2_000
    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert len(lengths) == 100
    assert max(lengths) <= 6
    returns, steps = evaluate_policy(
        model, compiled(5), n_eval_episodes=10, return_episode_rewards=True
    )
    assert len(returns) == len(steps) == 10
    assert max(steps) <= 6
