"""Recordings as data sets of Minari, and back."""

from __future__ import annotations

import json
import sys
from typing import ClassVar

import numpy as np
import pytest
from support.continuous_envs import Aim
from support.recorded import RandomFrames, record
from support.trainer_envs import Foraging, Truncated

from entity_env import ListEnv
from entity_env.batching.ragged import lengths
from entity_env.errors import MissingPackageError, RecordingError
from entity_env.play import random_policy
from entity_env.recording import EpisodeDataset, RecordEpisodes
from entity_env.storage.space_json import spaces_to_json

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
gymnasium = pytest.importorskip("gymnasium")
minari = pytest.importorskip("minari")

from gymnasium import spaces  # noqa: E402
from minari.data_collector import EpisodeBuffer  # noqa: E402
from minari.dataset import _storages  # noqa: E402
from minari.dataset.minari_storage import MinariStorage  # noqa: E402

from entity_env.interop import GymnasiumEnv, export_minari, import_minari  # noqa: E402


class InMemory(MinariStorage):
    """A storage of Minari that keeps arrays as they are given: that of files needs h5py."""

    FORMAT = "memory"
    kept: ClassVar[dict] = {}

    @classmethod
    def _create(cls, data_path, observation_space, action_space):
        cls.kept[str(data_path)] = []
        return cls(data_path, observation_space, action_space)

    def update_episodes(self, episodes):
        own = self.kept[str(self.data_path)]
        for episode in episodes:
            values = {name: getattr(episode, name) for name in vars(episode)}
            del values["seed"], values["options"]
            for name in ("rewards", "terminations", "truncations"):
                values[name] = np.asarray(values[name])
            own.append({**values, "id": len(own)})
        steps = sum(len(episode["rewards"]) for episode in own)
        self.update_metadata({"total_episodes": len(own), "total_steps": steps})

    def get_episodes(self, episode_indices):
        return (self.kept[str(self.data_path)][number] for number in episode_indices)

    def update_episode_metadata(self, metadatas, episode_indices=None): ...

    def get_episode_metadata(self, episode_indices):
        return iter(())


@pytest.fixture(params=["memory", "hdf5"])
def data_format(request, tmp_path, monkeypatch):
    if request.param == "hdf5":
        pytest.importorskip("h5py", reason="Minari's files need h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setitem(_storages._registry, "memory", lambda: InMemory)
    return request.param


def same_buffers(one, other):
    np.testing.assert_array_equal(lengths(one), lengths(other))
    np.testing.assert_array_equal(one.as_array(), other.as_array())


def same_frames(one, other):
    """Everything about frames but rewards and ends, which are those of steps."""
    assert set(one.features) == set(other.features)
    for name, features in one.features.items():
        same_buffers(features, other.features[name])
    assert set(one.visible) == set(other.visible)
    for name, shown in one.visible.items():
        same_buffers(shown, other.visible[name])
    np.testing.assert_array_equal(one.global_features, other.global_features)
    for name, mask in one.action_masks.items():
        theirs = other.action_masks[name]
        assert type(mask) is type(theirs)
        for part in ("actors", "actees", "mask"):
            own = getattr(mask, part, None)
            if own is None:
                assert getattr(theirs, part, None) is None
            else:
                same_buffers(own, getattr(theirs, part))


def same_episodes(one, other):
    """Episodes of two recordings, whatever rows they were played in."""
    every, others = list(one), list(other)
    assert len(every) == len(others) > 0
    for own, theirs in zip(every, others, strict=True):
        same_frames(own.steps.obs, theirs.steps.obs)
        for name, chosen in own.steps.actions.items():
            same_buffers(chosen, theirs.steps.actions[name])
        for name in ("reward", "done", "truncated"):
            np.testing.assert_array_equal(getattr(own.steps, name), getattr(theirs.steps, name))
        assert own.metrics == theirs.metrics
        assert (own.next_obs is None) == (theirs.next_obs is None)
        if own.next_obs is not None:
            same_frames(own.next_obs, theirs.next_obs)


@pytest.mark.parametrize("env", [RandomFrames, Foraging, Truncated, Aim])
def test_equal_steps_come_back(env, data_format, tmp_path):
    with RecordEpisodes(ListEnv(env, 3, seed=1), tmp_path / "a", part_frames=12) as rows:
        policy, obs = random_policy(seed=1), rows.reset()
        for _ in range(25):
            obs = rows.act(policy(obs))
    made = export_minari([tmp_path / "a"], "games/x-v0", data_format=data_format, author="me")
    dataset = minari.load_dataset("games/x-v0")
    episodes = list(EpisodeDataset(tmp_path / "a").episodes())
    assert dataset.total_episodes == made.total_episodes == len(episodes)
    assert dataset.total_steps == sum(map(len, episodes))
    import_minari("games/x-v0", tmp_path / "b")
    same_episodes(episodes, EpisodeDataset(tmp_path / "b").episodes())


def test_what_minari_sees(data_format, tmp_path):
    """Robots and food, padded, by the numbers of the recording."""
    record(ListEnv(Foraging, 2, seed=4), tmp_path / "a", 10)
    dataset = export_minari(
        EpisodeDataset([tmp_path / "a"]), "games/foraging-v0", data_format=data_format
    )
    recorded = list(EpisodeDataset(tmp_path / "a").episodes())
    for own, data in zip(recorded, dataset.iterate_episodes(), strict=True):
        length = len(own)
        assert dataset.observation_space.contains(_at(data.observations, 0)), (
            "a frame is not in the space that the data set says"
        )
        robots = data.observations["entities.Robot"]
        assert robots["values"].shape == (length + 1, 2, 2)
        counts = lengths(own.steps.obs.features["Robot"])
        assert robots["count"][:length].tolist() == counts.tolist()
        values = own.steps.obs.features["Robot"].as_array()
        padded = np.concatenate([robots["values"][i, :n] for i, n in enumerate(counts)])
        np.testing.assert_array_equal(padded, values)
        assert not robots["values"][0, counts[0] :].any()
        moves = data.actions["Move"]
        assert moves.shape == (length, 2, 1)
        chosen = np.concatenate([moves[i, :n] for i, n in enumerate(counts)])
        np.testing.assert_array_equal(chosen, own.steps.actions["Move"].as_array())
        assert (moves[0, counts[0] :] == -1).all()
        np.testing.assert_array_equal(data.rewards, own.steps.reward)
        assert data.terminations[-1] == (own.done and not own.truncated)
        assert data.truncations[-1] == own.truncated
        if own.metrics:
            assert data.infos["metrics"]["win"][-1] == own.metrics["win"]


def test_what_is_not_ours_or_damaged_is_refused(tmp_path, data_format):
    record(ListEnv(Foraging, 1, seed=4), tmp_path / "a", 10)
    dataset = export_minari([tmp_path / "a"], "games/a-v0", data_format=data_format)
    dataset.storage.update_metadata({"ragged_rl": json.dumps({"entities": 3})})
    with pytest.raises(RecordingError, match="do not describe its entities"):
        import_minari(dataset, tmp_path / "b")
    known = spaces_to_json(Foraging().obs_space(), Foraging().action_space())
    dataset.storage.update_metadata({"ragged_rl": json.dumps(known)})
    if data_format == "memory":
        episode = next(iter(InMemory.kept[str(dataset.storage.data_path)]))
        robots = episode["observations"]["entities.Robot"]
        robots["count"][0] = 7
        with pytest.raises(RecordingError, match=r"counts of entities\.Robot are out of range"):
            import_minari(dataset, tmp_path / "c")
        robots["count"][0] = -2
        with pytest.raises(RecordingError, match="are out of range"):
            import_minari(dataset, tmp_path / "d")
    record(ListEnv(Foraging, 1), tmp_path / "empty", 0)
    with pytest.raises(RecordingError, match="no episode"):
        export_minari([tmp_path / "empty"], "games/empty-v0", data_format=data_format)


class Joystick(gymnasium.Env):
    """Shows what was done, and ends or is cut off after 3 steps."""

    observation_space = spaces.Dict(
        {"last": spaces.Box(-9, 9, (2,), np.float32), "step": spaces.Discrete(4)}
    )
    action_space = spaces.Dict(
        {"stick": spaces.Box(-1, 1, (2,), np.float32), "buttons": spaces.MultiDiscrete([2, 3])}
    )

    def __init__(self, cut_off):
        self.cut_off = cut_off

    def reset(self, seed=None, options=None):
        self.steps = 0
        return {"last": np.zeros(2, np.float32), "step": 0}, {}

    def step(self, action):
        self.steps += 1
        shown = {"last": action["stick"] + action["buttons"], "step": self.steps}
        is_over = self.steps == 3
        reward = float(action["buttons"][1])
        return shown, reward, is_over and not self.cut_off, is_over and self.cut_off, {}


def test_data_sets_of_others_are_read_as_their_environments_are(tmp_path, data_format):
    """Data sets have the observations and actions of GymnasiumEnv in the same games."""
    buffers, rng = [], np.random.default_rng(0)
    for cut_off in (False, True, False):
        env = Joystick(cut_off)
        seen, done, steps = [env.reset()[0]], [], []
        for _ in range(3):
            stick = rng.uniform(-1, 1, 2).astype(np.float32)
            done.append({"stick": stick, "buttons": rng.integers([2, 3])})
            observation, *rest = env.step(done[-1])
            seen.append(observation)
            steps.append(rest)
        buffers.append(
            EpisodeBuffer(
                observations={name: np.array([own[name] for own in seen]) for name in seen[0]},
                actions={name: np.array([own[name] for own in done]) for name in done[0]},
                rewards=[own[0] for own in steps],
                terminations=[own[1] for own in steps],
                truncations=[own[2] for own in steps],
            )
        )
    minari.create_dataset_from_buffers(
        "others/x-v0", buffers, data_format=data_format,
        observation_space=Joystick.observation_space, action_space=Joystick.action_space,
    )  # fmt: skip
    import_minari("others/x-v0", tmp_path / "a")
    episodes = list(EpisodeDataset(tmp_path / "a").episodes())
    assert [len(episode) for episode in episodes] == [3, 3, 3]
    assert [episode.truncated for episode in episodes] == [False, True, False]
    env = GymnasiumEnv(Joystick(cut_off=False))
    assert EpisodeDataset(tmp_path / "a").obs_space == env.obs_space()
    assert EpisodeDataset(tmp_path / "a").action_space == env.action_space()
    for episode, buffer in zip(episodes, buffers, strict=True):
        assert episode.metrics["episodic_reward"] == sum(buffer.rewards)
        np.testing.assert_allclose(episode.steps.reward, buffer.rewards)
        shown = episode.steps.obs.global_features
        stick, buttons = buffer.actions["stick"], buffer.actions["buttons"]
        expected = np.concatenate([np.zeros((1, 2)), (stick + buttons)[:2]])
        names = env.obs_space().global_names
        places = [names.index(name) for name in ("last[0]", "last[1]", "step")]
        np.testing.assert_allclose(shown[:, places[:2]], expected, rtol=1e-6)
        assert shown[:, places[2]].tolist() == [0, 1, 2]
        actions = episode.steps.actions
        np.testing.assert_allclose(actions["stick"].as_array(), stick)
        assert actions["buttons[0]"].as_array()[:, 0].tolist() == buttons[:, 0].tolist()
        assert actions["buttons[1]"].as_array()[:, 0].tolist() == buttons[:, 1].tolist()
        if episode.truncated:
            last = episode.next_obs.global_features[0, places]
            np.testing.assert_allclose(last, [*(stick + buttons)[2], 3], rtol=1e-6)


def test_without_what_files_need_the_extra_is_named(tmp_path, data_format, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    monkeypatch.delitem(sys.modules, "minari.dataset._storages.hdf5_storage", raising=False)
    record(ListEnv(Foraging, 1, seed=4), tmp_path / "a", 10)
    with pytest.raises(MissingPackageError, match=r"h5py.*\n.*ragged-rl\[data\]"):
        export_minari([tmp_path / "a"], "games/a-v0")


def _at(values, step):
    """The observation of one step, as its space has it."""
    if isinstance(values, dict):
        return {name: _at(own, step) for name, own in values.items()}
    return np.asarray(values[step], values.dtype)
