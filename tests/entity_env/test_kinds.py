"""Games of every kind of action and of entities: checked, in workers, and in recordings."""

from __future__ import annotations

import numpy as np
import pytest
from ragged_envs.fill_order import FillOrder
from support.continuous_envs import Aim
from support.input_envs import CoinOnAMap, PickTheCoin

from entity_env import AsyncEnv, ListEnv, ParallelEnv, check_env
from entity_env.checking.check_tools import difference, pack_obs
from entity_env.play import random_policy
from entity_env.recording import EpisodeDataset, RecordEpisodes

GAMES = [Aim, FillOrder, CoinOnAMap, PickTheCoin]


@pytest.mark.parametrize("game", GAMES)
def test_it_passes_the_check(game):
    check_env(game)


def played(rows):
    """Return what rows show in some steps of random play."""
    policy = random_policy(1)
    with rows:
        shown = [rows.reset()]
        for _ in range(6):
            shown.append(rows.act(policy(shown[-1])))
    return [pack_obs(obs) for obs in shown]


@pytest.mark.parametrize("game", GAMES)
def test_workers_play_the_same_game(game):
    alone = played(ListEnv(game, 4, seed=7))
    for apart in (ParallelEnv(game, 4, 2, seed=7), AsyncEnv(game, 4, 2, batch_size=4, seed=7)):
        for here, there in zip(alone, played(apart), strict=True):
            assert difference("", here, there) is None


@pytest.mark.parametrize("game", GAMES)
def test_a_recording_gives_everything_back(game, tmp_path):
    kept, shapes = [], {}
    with RecordEpisodes(ListEnv(game, 1, seed=0), tmp_path / "a", part_frames=2) as rows:
        obs, policy = rows.reset(), random_policy(5)
        for _ in range(5):
            actions = policy(obs)
            notes = {name: np.ones(m.logits_shape) for name, m in obs.action_masks.items()}
            parts = {**obs.features, **actions}
            kept.append({name: part.as_array().copy() for name, part in parts.items()})
            for name, own in notes.items():
                shapes[name] = shapes.get(name, 0) + own.size
            obs = rows.act(actions, logits=notes)
    dataset = EpisodeDataset(tmp_path / "a")
    assert dataset.obs_space == game().obs_space()
    (block,) = dataset.blocks(100)
    for name, part in {**block.steps.obs.features, **block.steps.actions}.items():
        expected = np.concatenate([own[name] for own in kept])
        assert part.as_array().dtype == expected.dtype
        np.testing.assert_array_equal(part.as_array(), expected)
    for name, logits in block.steps.logits.items():
        assert logits.as_array().size == shapes[name]
