"""Recordings return the same numbers as steps, as episodes and as minibatches."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os

import numpy as np
import pytest
from support.recorded import RandomFrames, by_row, play, random_notes, record
from support.rows import rows_of
from support.tiny_envs import Chain, Farm, assert_same_obs, lists

from entity_env import (
    Entity,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    RaggedBufferI64,
)
from entity_env.errors import (
    ClosedError,
    EntityEnvError,
    ObservationError,
    RecordingError,
    ResetNeededError,
    SettingError,
)
from entity_env.play import random_policy
from entity_env.recording import EpisodeDataset, RecordEpisodes
from entity_env.wrappers import VecWrapper

GAMES = {
    "random": lambda: ListEnv(RandomFrames, 5, seed=1),
    "farm": lambda: ListEnv(Farm, 4, seed=2),
    "truncated": lambda: ListEnv(lambda: Chain(3, truncates=True), 3),
    "one row": lambda: ListEnv(RandomFrames, 1, seed=3),
}


def minesweeper():
    native = pytest.importorskip("ragged_envs.minesweeper")
    settings = {"width": 4, "height": 4, "nmines": 2, "orbital_cannon": 2, "cooldown_period": 2}
    return native.MineSweeperRows(6, seed=1, max_steps=3, **settings)


GAMES["minesweeper"] = minesweeper


def test_recording_changes_nothing_of_the_game(tmp_path):
    with ListEnv(Farm, 3, seed=5) as plain, ListEnv(Farm, 3, seed=5) as inner:
        recorder = RecordEpisodes(inner, tmp_path / "a")
        assert len(recorder) == 3
        assert recorder.has_state()
        a, b = plain.reset(), recorder.reset()
        policy = random_policy(1)
        for _ in range(20):
            assert_same_obs(a, b)
            actions = policy(a)
            a, b = plain.act(actions), recorder.act(actions)
        assert recorder.get_state() == plain.get_state()
        assert np.array_equal(recorder.render()[0], plain.render()[0])
        recorder.close()
        recorder.close()


PARTS = ("features", "visible", "masks", "global_features")


@pytest.mark.parametrize("noted", [(), ("log_probs",), ("log_probs", "logits")])
@pytest.mark.parametrize("part_frames", [1, 20, 1000])
@pytest.mark.parametrize("game", GAMES)
def test_episodes_are_the_steps_of_one_row(game, part_frames, noted, tmp_path):
    with GAMES[game]() as env:
        rows, spaces = len(env), (env.obs_space(), env.action_space())
        seen = record(env, tmp_path / "a", 30, part_frames=part_frames, noted=noted)
    dataset = EpisodeDataset(tmp_path / "a")
    assert (dataset.obs_space, dataset.action_space) == spaces
    assert list(dataset.action_space) == list(spaces[1])
    assert (dataset.has_log_probs, dataset.has_logits) == (bool(noted), len(noted) == 2)
    assert dataset.num_frames == 30 * rows
    shown = [rows_of(obs) for obs in seen.shown]
    notes = {
        what: [
            {name: np.split(own[name], ends_of(obs, name, what)) for name in own}
            for own, obs in zip(getattr(seen, what), seen.shown, strict=False)
        ]
        for what in noted
    }
    begins = [0] * rows
    for episode in by_row(tmp_path / "a"):
        row, begin = episode.row, begins[episode.row]
        end = begins[row] = begin + len(episode)
        whole = rows_of(episode.steps.obs)
        for t in range(begin, end):
            frame = shown[t][row]
            for part in PARTS:
                assert whole[t - begin][part] == frame[part]
            assert episode.steps.reward[t - begin] == np.float32(shown[t + 1][row]["reward"])
            assert (
                episode.steps.done[t - begin]
                == shown[t + 1][row]["done"]
                == (t == end - 1 and episode.done)
            )
            for name, buffer in episode.steps.actions.items():
                chosen = seen.actions[t].get(name)
                assert lists(buffer)[t - begin] == ([] if chosen is None else lists(chosen)[row])
            for what in noted:
                for name, buffer in getattr(episode.steps, what).items():
                    own = np.ravel(lists(buffer)[t - begin])
                    np.testing.assert_array_equal(own, notes[what][t][name][row].ravel())
                    assert buffer.as_array().dtype == np.float32
        last = shown[end][row]
        assert episode.truncated == last["truncated"]
        if episode.done and not episode.truncated:
            assert episode.next_obs is None
        else:
            assert episode.truncated or end == 30
            (final,) = rows_of(episode.next_obs)
            assert final["features"] == (last["final"] if episode.truncated else last)["features"]
        assert episode.metrics == (last["metrics"] if episode.done else {})
        assert episode.is_whole == episode.done
    assert begins == [30] * rows


def ends_of(obs, name, what):
    """Where the numbers of each row begin, but for the first one."""
    mask = obs.action_masks[name]
    counts = mask.actors.size1()
    if what == "logits" and len(mask.logits_shape) == 1:
        counts = counts * mask.actees.size1()
    return np.cumsum(counts)[:-1]


def test_a_data_frame_has_a_row_for_each_decision(tmp_path):
    """Any tool reads the parts: one of two Chains of 3 steps, rewards 1, 2 and 3."""
    parquet = pytest.importorskip("pyarrow.parquet")
    with ListEnv(lambda: Chain(3, truncates=True), 2) as env:
        record(env, tmp_path / "a", 4)
    table = parquet.read_table(tmp_path / "a").to_pylist()
    first = [line for line in table if line["row"] == 0]
    assert [line["entities.Walker"] for line in first] == [
        [{"time": time}] for time in (0.0, 1.0, 2.0, 3.0, 0.0, 1.0)
    ]
    # The fourth is the observation at which the limit ended the episode, the last one that at which
    # the recording ended.
    assert [line["reward"] for line in first] == [1.0, 2.0, 3.0, None, 1.0, None]
    assert [line["step"] for line in first] == [0, 1, 2, 3, 3, 4]
    assert [line["episode"] for line in first] == [0, 0, 0, 0, 2, 2]
    assert [line["is_first"] for line in first] == [True, False, False, False, True, False]
    assert [line["done"] for line in first] == [False, False, True, False, False, False]
    assert [line["truncated"] for line in first] == [False, False, True, False, False, False]
    assert dict(first[2]["metrics"])["twice"] == 6.0
    assert not first[0]["metrics"]
    assert all(len(line["choices.Go"]) == 1 for line in first if line["reward"] is not None)
    assert first[0]["mask.Go"] == [[True, True]]
    assert first[3]["choices.Go"] is None


def test_log_probs_and_logits_of_an_episode(tmp_path):
    # Two rows and two choices: actor r of step t has log-probability -(10 t + r).
    with RecordEpisodes(ListEnv(Chain, 2), tmp_path / "a", part_frames=4) as env:
        obs = env.reset()
        for t in range(4):
            value = np.array([10.0 * t, 10.0 * t + 1])
            logits = np.stack([value, -value], axis=1)
            obs = env.act(random_policy(0)(obs), log_probs={"Go": -value}, logits={"Go": logits})
    episodes = by_row(tmp_path / "a")
    assert [(episode.row, len(episode)) for episode in episodes] == [(0, 3), (0, 1), (1, 3), (1, 1)]
    steps = episodes[2].steps
    assert steps.log_probs["Go"].as_array().ravel().tolist() == [-1.0, -11.0, -21.0]
    assert steps.logits["Go"].as_array().tolist() == [[1.0, -1.0], [11.0, -11.0], [21.0, -21.0]]


def test_episodes_that_are_not_whole_say_so(tmp_path):
    with ListEnv(lambda: Counted(4), 2) as inner:
        recorder = RecordEpisodes(inner, tmp_path / "a", part_frames=6)
        play(recorder, 5)  # a whole episode of 4 steps, and 1 step of the next
        state = recorder.get_state()
        play(recorder, 2)  # 2 steps
        obs = recorder.set_state(state)
        for _ in range(8):  # the 3 steps that were left, an episode of 4, and 1 of another
            obs = recorder.act(random_policy(0)(obs))
        recorder.close()
        found = [
            (episode.row, episode.steps.reward.tolist(), episode.done, episode.is_whole)
            for episode in by_row(tmp_path / "a")
        ]
    each = [
        ([1.0, 2.0, 3.0, 4.0], True, True),
        ([1.0], False, False),
        ([1.0, 2.0], False, False),
        ([2.0, 3.0, 4.0], True, False),
        ([1.0, 2.0, 3.0, 4.0], True, True),
        ([1.0], False, False),
    ]
    assert found == [(row, *episode) for row in (0, 1) for episode in each]


class Counted(Chain):
    """A ``Chain`` that saves its state."""

    def get_state(self):
        return {"time": self.time}

    def set_state(self, state):
        self.time = state["time"]
        return self._observe()


class Numbered(Chain):
    """A ``Chain`` with a number that no other frame has; the right choice is that number mod 2."""

    made = 0

    def _observe(self):
        Numbered.made += 1
        return dataclasses.replace(super()._observe(), features={"Walker": [[Numbered.made]]})


def numbers(batch):
    return batch.obs.features["Walker"].as_array()[:, 0].astype(int).tolist()


@pytest.fixture
def numbered(tmp_path):
    """A recording whose frames have numbers, and the number that each is followed by."""
    Numbered.made = 0
    follows, shown = {}, []
    with RecordEpisodes(ListEnv(lambda: Numbered(9), 3), tmp_path / "a", part_frames=12) as env:
        obs = env.reset()
        for _ in range(29):
            own = obs.features["Walker"].as_array()[:, 0].astype(np.int64)
            shown += own.tolist()
            obs = env.act({"Go": RaggedBufferI64.from_flattened(own[:, None] % 2, np.ones(3, int))})
            follows |= dict(zip(own.tolist(), obs.reward.tolist(), strict=True))
    return EpisodeDataset(tmp_path / "a"), shown, follows


@pytest.mark.parametrize("window", [1, 3000, 1 << 28])
@pytest.mark.parametrize("size", [1, 5, 16, 87, 100])
def test_minibatches_show_each_frame_once(numbered, size, window, monkeypatch):
    monkeypatch.setattr("entity_env.recording.dataset._WINDOW", window)
    recording, shown, follows = numbered
    assert len(shown) == 87
    batches = list(recording.minibatches(size, seed=3))
    sizes = [size] * (87 // size) + [87 % size] * (87 % size > 0)
    assert [len(batch) for batch in batches] == sizes
    orders = [numbers(batch) for batch in batches]
    order = list(itertools.chain(*orders))
    assert sorted(order) == sorted(shown)
    assert order != shown
    for batch, own in zip(batches, orders, strict=True):
        assert batch.actions["Go"].as_array()[:, 0].tolist() == [n % 2 for n in own]
        assert batch.reward.tolist() == [follows[n] for n in own]
        assert batch.done.tolist() == [follows[n] == 9.0 for n in own]
        assert (batch.log_probs, batch.logits) == (None, None)
        assert batch.obs.final is None
        assert len(batch.obs) == len(own)


@pytest.mark.parametrize("window", [1, 3000, 1 << 28])
def test_one_seed_is_one_order(numbered, window, monkeypatch):
    monkeypatch.setattr("entity_env.recording.dataset._WINDOW", window)
    recording, _, _ = numbered
    orders = [
        [numbers(batch) for batch in recording.minibatches(16, seed=seed)] for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_a_window_holds_as_many_parts_as_fit(numbered, monkeypatch):
    dataset, _, _ = numbered
    loaded, read = [], dataset._frames
    monkeypatch.setattr(dataset, "_frames", lambda table: loaded.append(len(table)) or read(table))
    sizes = [part.size for part in dataset.parts]
    monkeypatch.setattr("entity_env.recording.dataset._WINDOW", 3 * max(sizes))
    list(dataset.minibatches(16, seed=1))
    assert len(loaded) >= len(sizes) / 4
    assert max(loaded) <= 4 * 15 + 16


@pytest.mark.parametrize("window", [1, 1 << 28])
@pytest.mark.parametrize("game", ["random", "farm", "minesweeper"])
def test_minibatches_equal_the_frames_one_by_one(game, window, tmp_path, monkeypatch):
    monkeypatch.setattr("entity_env.recording.dataset._WINDOW", window)
    noted = ("log_probs", "logits")
    with GAMES[game]() as env:
        record(env, tmp_path / "a", 25, noted=noted, part_frames=30)
        total = 25 * len(env)

    def keyed(batch):
        parts = [
            {name: lists(buffer) for name, buffer in own.items()}
            for own in (batch.actions, batch.log_probs, batch.logits)
        ]
        for i, row in enumerate(rows_of(batch.obs)):
            shown = [row[part] for part in PARTS]
            own = [{name: frames[i] for name, frames in part.items()} for part in parts]
            yield repr((shown, own, batch.reward[i], batch.done[i], batch.truncated[i]))

    dataset = EpisodeDataset(tmp_path / "a")
    slow = [frame for episode in dataset.episodes() for frame in keyed(episode.steps)]
    batches = dataset.minibatches(7, seed=1)
    fast = [frame for batch in batches for frame in keyed(batch)]
    assert len(fast) == total
    assert sorted(fast) == sorted(slow)


def test_a_recording_without_steps(tmp_path):
    with RecordEpisodes(ListEnv(Farm, 2), tmp_path / "a") as env:
        env.reset()
        env.reset()
    dataset = EpisodeDataset(tmp_path / "a")
    assert (dataset.num_frames, len(dataset.index), dataset.lost_parts) == (0, 0, 0)
    assert list(dataset.episodes()) == list(dataset.minibatches(3, seed=1)) == []


def test_what_a_block_did_before_it_failed_is_there(tmp_path):
    def broken():
        with RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a") as env:
            play(env, 5)
            raise KeyError("the policy broke")

    with pytest.raises(KeyError):
        broken()
    assert EpisodeDataset(tmp_path / "a").num_frames == 5


def test_an_environment_that_fails_leaves_the_steps_before(tmp_path):
    class Breaks(Chain):
        def act(self, actions):
            if self.time == 2:
                raise RuntimeError("broke")
            return super().act(actions)

    with ListEnv(Breaks, 2) as inner, RecordEpisodes(inner, tmp_path / "a") as env:
        with pytest.raises(EntityEnvError, match="broke"):
            play(env, 5)
        with pytest.raises(ResetNeededError):
            env.act({})
        play(env, 1)
    assert EpisodeDataset(tmp_path / "a").num_frames == 2 * 3


def test_a_full_disk_is_said_and_loses_nothing(tmp_path, monkeypatch):
    with ListEnv(Chain, 2) as inner, RecordEpisodes(inner, tmp_path / "a", part_frames=6) as env:
        seen = play(env, 2)

        def full(_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(RecordingError, match="No space left"):
                env.act(random_policy(0)(seen.shown[-1]))
        assert os.listdir(tmp_path / "a") == []
        play(env, 4)
    dataset = EpisodeDataset(tmp_path / "a")
    assert (dataset.num_frames, dataset.lost_parts) == (2 * 7, 0)


def test_rows_that_forget_a_final_observation_are_refused(tmp_path):
    class Forgets(VecWrapper):
        def observation(self, obs):
            return dataclasses.replace(obs, final=None)

    inner = Forgets(ListEnv(lambda: Chain(1, truncates=True), 2))
    with (
        RecordEpisodes(inner, tmp_path / "a") as env,
        pytest.raises(ObservationError, match="2 frames in VecObs"),
    ):
        play(env, 1)


def test_values_are_copied_when_they_are_given(tmp_path):
    with RecordEpisodes(ListEnv(Chain, 2), tmp_path / "a") as env:
        obs, log_probs = env.reset(), np.zeros(2, np.float32)
        for t in range(3):
            log_probs[:] = t
            obs = env.act(random_policy(0)(obs), log_probs={"Go": log_probs})
    values = [own.steps.log_probs["Go"].as_array()[:, 0] for own in by_row(tmp_path / "a")]
    assert values[0].tolist() == [0.0, 1.0, 2.0]


def test_the_bytes_of_a_frame_are_few(tmp_path):
    """MineSweeper: 7 entities with 2 features each, 2 actors with 5 choices, all lengths."""
    native = pytest.importorskip("ragged_envs.minesweeper")
    with native.MineSweeperRows(128, seed=1) as env:
        record(env, tmp_path / "a", 128)
    size = sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    assert size < 8 * EpisodeDataset(tmp_path / "a").num_frames


class Mode(Chain):
    """A ``Chain`` with a global action that is there in every other step."""

    def obs_space(self):
        return ObsSpace(entities={"Walker": Entity(["time"])}, global_features=["time"])

    def action_space(self):
        return {**super().action_space(), "Mode": GlobalCategoricalActionSpace(["a", "b", "c"])}

    def _observe(self):
        seen = super()._observe()
        mode = {"Mode": GlobalCategoricalActionMask()} if self.time % 2 == 0 else {}
        return Observation(
            features=seen.features,
            ids=seen.ids,
            actions={**seen.actions, **mode},
            reward=seen.reward,
            done=seen.done,
            global_features=[self.time],
        )


NOTES = [
    ({"log_probs": [1.0, 2.0]}, "not a mapping"),
    ({"log_probs": {"Go": [1.0, 2.0], "Mdoe": [1.0, 2.0]}}, "did you mean 'Mode'"),
    ({"log_probs": {"Go": [1.0, 2.0]}}, "log_probs of action 'Mode' have the wrong shape"),
    ({"log_probs": {"Go": [1.0], "Mode": [1.0, 2.0]}}, "expected: +\\(2,\\)"),
    ({"log_probs": {"Go": [[1.0], [2.0]], "Mode": [1.0, 2.0]}}, "received: +\\(2, 1\\)"),
    ({"log_probs": {"Go": ["a", "b"], "Mode": [1.0, 2.0]}}, "array of numbers.*\n.*\\(2,\\)"),
    ({"log_probs": {"Go": None, "Mode": [1.0, 2.0]}}, "wrong shape"),
    ({"logits": {"Go": np.zeros((2, 3)), "Mode": np.zeros((2, 3))}}, "expected: +\\(2, 2\\)"),
    ({"logits": {"Go": np.zeros(4), "Mode": np.zeros((2, 3))}}, "received: +\\(4,\\)"),
    ({"logits": {3: np.zeros(4)}}, "unknown action 3"),
    ({"logits": 3}, "logits are not a mapping"),
]


@pytest.mark.parametrize(("notes", "message"), NOTES)
def test_broken_notes_are_refused_before_the_step(notes, message, tmp_path):
    with RecordEpisodes(ListEnv(Mode, 2), tmp_path / "a") as env:
        obs = env.reset()
        with pytest.raises(RecordingError, match=message):
            env.act(random_policy(0)(obs), **notes)
        obs = env.act(random_policy(0)(obs))  # nothing has happened, and nothing was given
        assert obs.reward.tolist() == [1.0, 1.0]


def test_a_tensor_with_a_gradient_is_to_be_detached(tmp_path):
    torch = pytest.importorskip("torch")
    values = {"Go": torch.zeros(2, requires_grad=True), "Mode": torch.zeros(2)}
    with RecordEpisodes(ListEnv(Mode, 2), tmp_path / "a") as env:
        obs = env.reset()
        with pytest.raises(RecordingError, match=r"log_probs of action 'Go' .*") as caught:
            env.act(random_policy(0)(obs), log_probs=values)
        assert caught.value.hint == "convert tensors by tensor.detach().float().cpu()"
        detached = {name: value.detach().float().cpu() for name, value in values.items()}
        env.act(random_policy(0)(obs), log_probs=detached)


def test_an_action_without_actors_may_be_left_out(tmp_path):
    with RecordEpisodes(ListEnv(Mode, 2), tmp_path / "a") as env:
        obs = env.reset()
        for t in range(3):
            actions = random_policy(0)(obs)
            values = {"Go": [-1.0, -2.0], "Mode": [-3.0, -4.0]}
            logits = {"Go": np.zeros((2, 2)), "Mode": np.zeros((2, 3))}
            if t == 1:
                del actions["Mode"], values["Mode"], logits["Mode"]
            obs = env.act(actions, log_probs=values, logits=logits)
    for episode in by_row(tmp_path / "a"):
        assert episode.steps.log_probs["Mode"].size1().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((), ("log_probs",)),
        (("log_probs",), ()),
        (("log_probs",), ("log_probs", "logits")),
        (("log_probs", "logits"), ("log_probs",)),
    ],
)
def test_what_is_given_once_is_given_always(first, then, tmp_path):
    with ListEnv(Farm, 2) as inner:
        recorder = RecordEpisodes(inner, tmp_path / "a")
        seen = play(recorder, 2, noted=first)
        notes = random_notes(seen.shown[-1], np.random.default_rng(0))
        with pytest.raises(RecordingError, match="for some steps only"):
            recorder.act(random_policy(0)(seen.shown[-1]), **{name: notes[name] for name in then})
        recorder.close()
    assert EpisodeDataset(tmp_path / "a").num_frames == 4


BROKEN_RECORDERS = [
    (lambda env, path: RecordEpisodes(Chain(), path), SettingError, "needs rows"),
    (lambda env, path: RecordEpisodes(env, 3), RecordingError, "path"),
    (lambda env, path: RecordEpisodes(env, path / "no" / "a"), RecordingError, "No such file"),
    (lambda env, path: RecordEpisodes(env, path), RecordingError, "--overwrite in the terminal"),
    (
        lambda env, path: RecordEpisodes(env, path, overwrite=True),
        RecordingError,
        "not a recording",
    ),
    (lambda env, path: RecordEpisodes(env, path / "b", part_frames=0), SettingError, "part_frames"),
    (lambda env, path: RecordEpisodes(env, path / "b", part_seconds=-1), SettingError, ">= 0\n"),
    (lambda env, path: RecordEpisodes(env, path / "a"), RecordingError, "exists"),
]


@pytest.mark.parametrize(("make", "kind", "message"), BROKEN_RECORDERS)
def test_a_recorder_that_cannot_be_is_refused(make, kind, message, tmp_path):
    with ListEnv(Chain, 1) as env:
        record(env, tmp_path / "a", 3)
        before = os.listdir(tmp_path / "a")
        with ListEnv(Chain, 2) as other, pytest.raises(kind, match=message):
            make(other, tmp_path)
    assert os.listdir(tmp_path / "a") == before


def test_overwriting_begins_anew(tmp_path):
    for steps in (20, 3):
        with ListEnv(Chain, 2) as env:
            record(env, tmp_path / "a", steps, overwrite=True)
    assert EpisodeDataset(tmp_path / "a").num_frames == 2 * 3


def test_a_recorder_needs_a_reset_and_ends_when_it_is_closed(tmp_path):
    recorder = RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a")
    with pytest.raises(ResetNeededError):
        recorder.act({})
    recorder.close()
    for call in (recorder.reset, lambda: recorder.act({})):
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"size": 0, "seed": 1}, SettingError), ({"size": 3, "seed": -1}, SettingError)],
)
def test_minibatches_that_cannot_be_are_refused_at_once(options, kind, numbered):
    with pytest.raises(kind):
        numbered[0].minibatches(**options)
