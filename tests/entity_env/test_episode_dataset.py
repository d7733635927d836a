"""Recordings of many files as one data set."""

from __future__ import annotations

import numpy as np
import pytest
from support.recorded import RandomFrames, record
from support.trainer_envs import Truncated

from entity_env import ListEnv
from entity_env.errors import RecordingError, SettingError
from entity_env.recording import DamageWarning, EpisodeDataset, Recording


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Three files of random frames, in chunks of 4 steps."""
    folder = tmp_path_factory.mktemp("recordings")
    for number in range(3):
        env = ListEnv(RandomFrames, 3, seed=number)
        record(env, folder / f"{number}.episodes", 15 + number, seed=number, chunk_steps=4)
    return [folder / f"{number}.episodes" for number in range(3)]


def facts(episodes):
    """Return values that identify episodes of random frames."""
    return [
        (episode.row, len(episode), episode.steps.obs.global_features.tobytes())
        for episode in episodes
    ]


def test_it_has_the_episodes_of_all_files(paths):
    dataset = EpisodeDataset(paths)
    every = [e for path in paths for e in Recording(path).episodes() if len(e)]
    assert facts(dataset.episodes()) == facts(every)
    index = dataset.index
    assert index.lengths.tolist() == [len(episode) for episode in every]
    rewards = [float(episode.steps.reward.sum(dtype=np.float64)) for episode in every]
    assert index.rewards.tolist() == rewards
    assert dataset.num_frames == sum(len(episode) for episode in every) == 3 * (15 + 16 + 17)
    counts = [sum(1 for e in Recording(path).episodes() if len(e)) for path in paths]
    assert np.bincount(index.files).tolist() == counts
    assert index.places.tolist() == [i for count in counts for i in range(count)]


def test_one_seed_gives_one_order_with_several_readers_too(paths):
    dataset, ahead = EpisodeDataset(paths), EpisodeDataset(paths, readers=2)
    plain = facts(dataset.episodes())
    orders = {tuple(facts(dataset.episodes(seed))) for seed in range(8)}
    assert len(orders) > 1
    assert all(sorted(order) == sorted(plain) for order in orders)
    first = facts(ahead.episodes(seed=5))
    assert first == facts(ahead.episodes(seed=5))
    assert sorted(first) == sorted(plain)
    next(iter(ahead.episodes()))  # whoever stops early leaves no thread waiting


@pytest.mark.parametrize("readers", [1, 2])
def test_a_split_holds_every_episode_once(paths, readers):
    dataset = EpisodeDataset(paths, readers=readers)
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
def test_minibatches_have_each_frame_of_all_files_once(paths, window):
    dataset = EpisodeDataset(paths)
    batches = list(dataset.minibatches(32, seed=1, window=window))
    assert [len(batch) for batch in batches] == [32, 32, 32, 32, 16]
    seen = np.concatenate([batch.obs.global_features for batch in batches])
    every = [step.obs.global_features for path in paths for step in Recording(path).steps()]
    np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(np.concatenate(every), axis=0))
    mixed = batches[0].obs.global_features.tobytes()
    again = next(iter(dataset.minibatches(32, seed=1, window=window)))
    assert mixed == again.obs.global_features.tobytes()
    with pytest.raises(SettingError, match="selected episodes"):
        dataset.split(0.5, seed=1)[0].minibatches(32, seed=1)


def test_damage_is_left_out_as_of_one_file(paths, tmp_path):
    damaged = tmp_path / "damaged.episodes"
    data = bytearray(paths[1].read_bytes())
    data[len(data) // 2] ^= 255
    damaged.write_bytes(data)
    with pytest.warns(DamageWarning, match=r"damaged\.episodes is damaged"):
        dataset = EpisodeDataset([paths[0], damaged])
    with pytest.warns(DamageWarning):
        alone = [episode for episode in Recording(damaged).episodes() if len(episode)]
    whole = facts(EpisodeDataset([paths[0]]).episodes())
    assert facts(dataset.episodes()) == whole + facts(alone)
    assert dataset.num_frames < 3 * (15 + 16)


def test_files_that_do_not_go_together_are_refused(paths, tmp_path):
    record(ListEnv(Truncated, 1), tmp_path / "other", 2)
    with pytest.raises(RecordingError, match="has other spaces than"):
        EpisodeDataset([paths[0], tmp_path / "other"])
    with pytest.raises(RecordingError, match="no files"):
        EpisodeDataset([])
    with pytest.raises(RecordingError, match="not a list"):
        EpisodeDataset(paths[0])
    with pytest.raises(SettingError):
        EpisodeDataset(paths, readers=0)
