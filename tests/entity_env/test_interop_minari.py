"""Recordings as data sets of Minari, and data sets of others as recordings."""

from __future__ import annotations

import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from support.continuous_envs import Aim
from support.recorded import record
from support.tiny_envs import Farm
from support.trainer_envs import Foraging, Truncated

from entity_env import ListEnv
from entity_env.errors import CapacityError, MissingPackageError, RecordingError, SettingError
from entity_env.play import random_policy
from entity_env.recording import EpisodeDataset, RecordEpisodes

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
gymnasium = pytest.importorskip("gymnasium")
minari = pytest.importorskip("minari")
pytest.importorskip("h5py", reason="Minari's files need h5py")

from gymnasium import spaces  # noqa: E402
from minari.data_collector import EpisodeBuffer  # noqa: E402

from entity_env.interop import EntityGymnasiumEnv, GymnasiumEnv, export_minari, import_minari  # noqa: E402
from entity_env.interop.padded_spaces import PaddedSpaces  # noqa: E402
from entity_env.interop.padding import choose, pad  # noqa: E402
from entity_env.interop.room import largest_counts  # noqa: E402


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def test_minari_gets_what_a_padded_environment_shows(tmp_path):
    """The recorded game, played again in EntityGymnasiumEnv with the numbers of the data set."""
    record(ListEnv(Farm, 1, seed=4), tmp_path / "a", 30)
    dataset = export_minari([tmp_path / "a"], "games/farm-v0", author="me")
    recorded = list(EpisodeDataset(tmp_path / "a").episodes())
    assert dataset.total_episodes == len(recorded) > 1
    rows = ListEnv(Farm, 1, seed=4)
    sizes = {name: space.shape[0] for name, space in dataset.observation_space.spaces.items()}
    entities = {name: sizes[f"{name}.present"] for name in Farm().obs_space().entities}
    actors = {
        name: sizes[f"{name}.actors"]
        for name, space in Farm().action_space().items()
        if not space.is_global
    }
    padded = PaddedSpaces(rows.obs_space(), rows.action_space(), entities, actors)
    assert dataset.action_space == padded.action_space
    obs = rows.reset()
    loaded = minari.load_dataset("games/farm-v0").iterate_episodes()
    for own, data in zip(recorded, loaded, strict=True):
        for step in range(len(own)):
            frames = pad(obs, padded)
            for name, array in frames.arrays.items():
                shown = data.observations[name.replace("/", ".")][step]
                np.testing.assert_array_equal(shown, array[0], name)
            obs = rows.act(choose(data.actions[step], frames, padded))
            assert data.rewards[step] == obs.reward[0]
        assert data.terminations[-1] == (own.done and not own.truncated)
        assert data.truncations[-1] == own.truncated
        for name, value in own.metrics.items():
            assert data.infos["metrics"][name][-1] == value


def test_an_end_has_no_entities_and_a_cut_off_its_last_observation(tmp_path):
    for env, is_shown in ((Foraging, False), (Truncated, True)):
        record(ListEnv(env, 1, seed=4), tmp_path / env.__name__, 40)
        dataset = export_minari([tmp_path / env.__name__], f"games/{env.__name__}-v0")
        data = next(iter(dataset.iterate_episodes()))
        shown = [data.observations[f"{name}.present"][-1] for name in env().obs_space().entities]
        assert any(array.any() for array in shown) == is_shown


def test_sizes_are_found_with_one_block_in_memory():
    policy, earlier, counts = random_policy(seed=0), [], []

    def blocks():
        rows = ListEnv(Farm, 2, seed=0)
        obs = rows.reset()
        for _ in range(4):
            # That before the last one is forgotten.
            assert all(reference() is None for reference in earlier[:-1])
            earlier.append(weakref.ref(obs))
            counts.append([int(buffer.size1().max()) for buffer in obs.features.values()])
            yield obs
            obs = rows.act(policy(obs))

    entities, _ = largest_counts(blocks(), Farm().action_space())
    assert list(entities.values()) == np.max(counts, axis=0).tolist()


def test_sizes_can_be_given(tmp_path):
    record(ListEnv(Foraging, 2, seed=4), tmp_path / "a", 10)
    dataset = export_minari([tmp_path / "a"], "games/a-v0", 7, 5)
    theirs = EntityGymnasiumEnv(Foraging(), 7, 5)
    assert dataset.action_space == theirs.action_space
    for name, box in theirs.observation_space.spaces.items():
        assert dataset.observation_space[name.replace("/", ".")] == box
    with pytest.raises(CapacityError, match="more than max_entities allows"):
        export_minari([tmp_path / "a"], "games/b-v0", 1)


def test_what_cannot_be_exported(tmp_path):
    record(ListEnv(Foraging, 1), tmp_path / "empty", 0)
    with pytest.raises(RecordingError, match="no episode"):
        export_minari([tmp_path / "empty"], "games/empty-v0")
    with RecordEpisodes(ListEnv(Aim, 1), tmp_path / "aim") as rows:
        rows.act(random_policy(seed=0)(rows.reset()))
    with pytest.raises(SettingError, match="cannot be a part of a MultiDiscrete"):
        export_minari([tmp_path / "aim"], "games/aim-v0")


def test_metrics_with_slashes_stay_apart_from_those_with_dots(tmp_path):
    class Scored(Foraging):
        def act(self, actions):
            observation = super().act(actions)
            observation.metrics = {"hp/mean": 1.0, "hp.mean": 2.0} if observation.done else {}
            return observation

    record(ListEnv(Scored, 1), tmp_path / "a", 40)
    (data, *_) = export_minari(tmp_path / "a", "games/scored-v0").iterate_episodes()
    last = {name: values[-1] for name, values in data.infos["metrics"].items()}
    assert (last["hp%2Fmean"], last["hp.mean"]) == (1.0, 2.0)


def test_what_is_no_data_set_is_refused(tmp_path):
    with pytest.raises(RecordingError, match=r"(?s)not a data set.*received: *(Posix|Windows)Path"):
        import_minari(tmp_path, tmp_path / "a")


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


def test_data_sets_of_others_are_read_as_their_environments_are(tmp_path):
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
        "others/x-v0", buffers,
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


def in_memory(*episodes):
    """A data set with a feature and three choices: (observations, actions, ended) of episodes."""
    data = [
        SimpleNamespace(
            observations=np.array(shown, np.float32),
            actions=np.array(done),
            rewards=np.arange(len(done), dtype=np.float32),
            terminations=[False] * (len(done) - 1) + [ended],
            truncations=[False] * len(done),
        )
        for shown, done, ended in episodes
    ]
    return SimpleNamespace(
        storage=None,
        total_episodes=len(data),
        observation_space=spaces.Box(-9, 9, (1,)),
        action_space=spaces.Discrete(3),
        iterate_episodes=lambda: iter(data),
    )


def test_episodes_that_do_not_end_are_followed_by_others(tmp_path):
    first, second = ([[1], [2], [3]], [0, 1], False), ([[4], [5]], [2], True)
    import_minari(in_memory(first, second, first), tmp_path / "a")
    episodes = list(EpisodeDataset(tmp_path / "a").episodes())
    shown = [episode.steps.obs.global_features[:, 0].tolist() for episode in episodes]
    assert shown == [[1, 2], [4], [1, 2]]
    chosen = [episode.steps.actions["action"].as_array()[:, 0].tolist() for episode in episodes]
    assert chosen == [[0, 1], [2], [0, 1]]
    assert [episode.done for episode in episodes] == [False, True, False]
    assert [episode.next_obs is None for episode in episodes] == [False, True, False]
    assert episodes[0].next_obs.global_features.tolist() == [[3]]


@pytest.mark.parametrize(
    ("episode", "words"),
    [
        (([[0], [1]], [3], True), "episode 1 .*3"),  # there are three choices
        (([[0], [np.nan]], [0], True), "episode 1 .*nan"),
        (([[0]], [0], True), "episode 1 .*out of bounds"),  # the last observation is missing
    ],
)
def test_numbers_that_do_not_fit_are_refused(episode, words, tmp_path):
    whole = [[0], [1]], [0], True
    with pytest.raises(RecordingError, match=f"(?s){words}"):
        import_minari(in_memory(whole, episode), tmp_path / "a")
    with pytest.raises(RecordingError, match="no episodes"):
        import_minari(in_memory(), tmp_path / "b")


def test_without_what_files_need_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    monkeypatch.delitem(sys.modules, "minari.dataset._storages.hdf5_storage", raising=False)
    record(ListEnv(Foraging, 1, seed=4), tmp_path / "a", 10)
    with pytest.raises(MissingPackageError, match=r"h5py.*\n.*ragged-rl\[data\]"):
        export_minari([tmp_path / "a"], "games/a-v0")
