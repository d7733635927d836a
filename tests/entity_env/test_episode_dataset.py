"""Several recordings as one data set."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from support.recorded import RandomFrames, record
from support.trainer_envs import Truncated

from entity_env import ListEnv
from entity_env.errors import RecordingError, SettingError
from entity_env.recording import DamageWarning, EpisodeDataset


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Three recordings of random frames, in parts of 4 steps."""
    folder = tmp_path_factory.mktemp("recordings")
    for number in range(3):
        env = ListEnv(RandomFrames, 3, seed=number)
        record(env, folder / f"{number}.episodes", 15 + number, seed=number, part_frames=12)
    return [folder / f"{number}.episodes" for number in range(3)]


def facts(episodes):
    """Return values that identify episodes of random frames."""
    return [
        (episode.row, len(episode), episode.steps.obs.global_features.tobytes())
        for episode in episodes
    ]


def test_it_has_the_episodes_of_all_recordings(paths):
    dataset = EpisodeDataset(paths)
    every = [episode for path in paths for episode in EpisodeDataset(path).episodes()]
    assert sorted(facts(dataset.episodes())) == sorted(facts(every))
    index = dataset.index
    assert sorted(index.lengths.tolist()) == sorted(len(episode) for episode in every)
    rewards = [float(episode.steps.reward.sum(dtype=np.float64)) for episode in every]
    assert sorted(index.rewards.tolist()) == pytest.approx(sorted(rewards))
    assert dataset.num_frames == sum(len(episode) for episode in every) == 3 * (15 + 16 + 17)
    counts = [len(EpisodeDataset(path).index) for path in paths]
    assert np.bincount(index.recordings).tolist() == counts
    rows = np.bincount([episode.row for episode in every])
    assert np.bincount(index.rows).tolist() == rows.tolist()


@pytest.mark.parametrize("most", [1, 10, 40, 1000])
def test_blocks_have_whole_episodes_and_few_more_frames(paths, most):
    dataset = EpisodeDataset(paths)
    blocks = list(dataset.blocks(most, seed=1))
    for block in blocks:
        assert len(block) == block.lengths.sum()
        assert len(block) - block.lengths[-1] < most
    assert all(len(block) >= most for block in blocks[:-1])
    episodes = [episode for block in blocks for episode in block.episodes()]
    assert sorted(facts(episodes)) == sorted(facts(dataset.episodes()))


def test_one_seed_gives_one_order(paths):
    dataset = EpisodeDataset(paths)
    plain = facts(dataset.episodes())
    orders = {tuple(facts(dataset.episodes(seed))) for seed in range(8)}
    assert len(orders) == 8
    assert all(sorted(order) == sorted(plain) for order in orders)
    assert facts(dataset.episodes(seed=5)) == facts(dataset.episodes(seed=5))


def test_a_split_holds_every_episode_once(paths):
    dataset = EpisodeDataset(paths)
    most, few = dataset.split(0.25, seed=3)
    total = len(dataset.index)
    assert (len(most.index), len(few.index)) == (total - round(total / 4), round(total / 4))
    parts = [facts(part.episodes(seed=1)) for part in (most, few)]
    assert [len(part) for part in parts] == [len(most.index), len(few.index)]
    assert sorted(parts[0] + parts[1]) == sorted(facts(dataset.episodes()))
    lengths = [length for _, length, _ in facts(few.episodes())]
    assert sorted(lengths) == sorted(few.index.lengths.tolist())
    # A part of a part.
    half, other = most.split(0.5, seed=1)
    assert sorted(facts(half.episodes()) + facts(other.episodes())) == sorted(parts[0])
    assert len(dataset.split(0.001, seed=1)[1].index) == 1
    assert len(dataset.split(0.0, seed=1)[1].index) == 0
    with pytest.raises(SettingError, match="0 to 1"):
        dataset.split(1.5, seed=1)


@pytest.mark.parametrize("window", [1, 1 << 28])
def test_minibatches_have_each_frame_of_all_recordings_once(paths, window, monkeypatch):
    monkeypatch.setattr("entity_env.recording.dataset._WINDOW", window)
    dataset = EpisodeDataset(paths)
    for own in (dataset, *dataset.split(0.5, seed=1)):
        batches = list(own.minibatches(32, seed=1))
        assert all(len(batch) == 32 for batch in batches[:-1])
        seen = np.concatenate([batch.obs.global_features for batch in batches])
        every = [episode.steps.obs.global_features for episode in own.episodes()]
        expected = np.concatenate(every)
        np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(expected, axis=0))
        assert not np.array_equal(seen, expected)
    again = next(iter(dataset.minibatches(32, seed=1)))
    first = next(iter(dataset.minibatches(32, seed=1)))
    assert first.obs.global_features.tobytes() == again.obs.global_features.tobytes()


def test_damage_is_left_out_as_of_one_recording(paths, tmp_path):
    damaged = tmp_path / "damaged.episodes"
    shutil.copytree(paths[1], damaged)
    file = sorted(damaged.iterdir())[1]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(DamageWarning, match=r"damaged\.episodes is damaged"):
        dataset = EpisodeDataset([paths[0], damaged])
    with pytest.warns(DamageWarning):
        alone = list(EpisodeDataset(damaged).episodes())
    whole = list(EpisodeDataset(paths[0]).episodes())
    assert sorted(facts(dataset.episodes())) == sorted(facts(whole + alone))
    assert dataset.num_frames == 3 * (15 + 16) - 12
    for file in damaged.iterdir():
        file.write_bytes(b"")
    with pytest.warns(DamageWarning, match="5 of 5 parts"):  # the other one can be read
        assert EpisodeDataset([paths[0], damaged]).num_frames == 3 * 15


def test_files_that_do_not_go_together_are_refused(paths, tmp_path):
    record(ListEnv(Truncated, 1), tmp_path / "other", 2)
    with pytest.raises(RecordingError, match="has other spaces than"):
        EpisodeDataset([paths[0], tmp_path / "other"])
    with pytest.raises(RecordingError, match="no recordings"):
        EpisodeDataset([])
    with pytest.raises(RecordingError, match="not a list"):
        EpisodeDataset(3)
    for wrong in (0, 1.5):
        with pytest.raises(SettingError):
            next(EpisodeDataset(paths).blocks(wrong))
