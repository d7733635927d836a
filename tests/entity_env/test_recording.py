"""Recordings return the same numbers as steps, as episodes and as minibatches."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os

import numpy as np
import pytest
from support.recorded import RandomFrames, Seen, play, random_notes, record
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
    SeedError,
    SettingError,
)
from entity_env.player.episodes import random_policy
from entity_env.recording import RecordEpisodes, Recording
from entity_env.wrappers import VecWrapper

GAMES = {
    "random": lambda: ListEnv(RandomFrames, 5, seed=1),
    "farm": lambda: ListEnv(Farm, 4, seed=2),
    "truncated": lambda: ListEnv(lambda: Chain(3, truncates=True), 3),
    "one row": lambda: ListEnv(RandomFrames, 1, seed=3),
}


def minesweeper():
    native = pytest.importorskip("ragged_envs.minesweeper_native")
    settings = {"width": 4, "height": 4, "nmines": 2, "orbital_cannon": 2, "cooldown_period": 2}
    return native.MineSweeperVec(6, seed=1, max_steps=3, **settings)


GAMES["minesweeper"] = minesweeper


def assert_steps(recording, seen):
    """The steps of a recording are those that were seen."""
    steps = list(recording.steps())
    assert len(steps) == recording.num_steps == len(seen.actions)
    for t, step in enumerate(steps):
        assert_same_obs(step.obs, seen.shown[t])
        assert_same_obs(step.next_obs, seen.shown[t + 1])
        for name, mask in seen.shown[t].action_masks.items():
            if name in seen.actions[t]:
                assert step.actions[name] == seen.actions[t][name]
            else:
                assert step.actions[name].items() == 0
            for kind in ("log_probs", "logits"):
                noted = getattr(step, kind)
                assert (noted is not None) == getattr(recording, f"has_{kind}")
                if noted is not None:
                    expected = getattr(seen, kind)[t][name]
                    given = noted[name].as_array().reshape(expected.shape)
                    np.testing.assert_array_equal(given, expected)
                    assert given.dtype == np.float32
            assert step.actions[name].size0() == mask.actors.size0()


@pytest.mark.parametrize("chunk_steps", [1, 7, 1000])
@pytest.mark.parametrize("game", GAMES)
def test_steps_come_back_as_they_were(game, chunk_steps, tmp_path):
    with GAMES[game]() as env:
        seen = record(env, tmp_path / "a", 40, chunk_steps=chunk_steps)
        recording = Recording(tmp_path / "a")
        assert (recording.obs_space, recording.action_space) == (
            env.obs_space(),
            env.action_space(),
        )
        assert list(recording.action_space) == list(env.action_space())
        assert recording.num_frames == 40 * len(env)
    assert recording.truncated_bytes == 0
    assert_steps(recording, seen)
    assert any(obs.final is not None for obs in seen.shown)


@pytest.mark.parametrize("noted", [("log_probs",), ("logits",), ("log_probs", "logits")])
@pytest.mark.parametrize("game", ["random", "farm", "minesweeper"])
def test_log_probs_and_logits_come_back(game, noted, tmp_path):
    with GAMES[game]() as env:
        seen = record(env, tmp_path / "a", 30, noted=noted, chunk_steps=11)
    recording = Recording(tmp_path / "a")
    assert (recording.has_log_probs, recording.has_logits) == (
        "log_probs" in noted,
        "logits" in noted,
    )
    assert_steps(recording, seen)


def test_a_step_says_what_was_shown_what_was_done_and_what_came_of_it(tmp_path):
    # Three steps each, rewards 1, 2 and 3; the metric is twice the step.
    with ListEnv(lambda: Chain(3, truncates=True), 1) as env:
        record(env, tmp_path / "a", 4)
    steps = list(Recording(tmp_path / "a").steps())
    assert [lists(step.obs.features["Walker"]) for step in steps] == [
        [[[0.0]]],
        [[[1.0]]],
        [[[2.0]]],
        [[[0.0]]],
    ]
    assert [step.reward.tolist() for step in steps] == [[1.0], [2.0], [3.0], [1.0]]
    assert [step.done.tolist() for step in steps] == [[False], [False], [True], [False]]
    assert [step.truncated.tolist() for step in steps] == [[False], [False], [True], [False]]
    assert steps[2].metrics["twice"].tolist() == [6.0]
    assert lists(steps[2].final.features["Walker"]) == [[[3.0]]]
    assert steps[3].final is None


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


def one_frame(obs):
    (row,) = rows_of(obs)
    return {name: row[name] for name in ("features", "visible", "masks", "global_features")}


@pytest.mark.parametrize("chunk_steps", [1, 4, 100])
@pytest.mark.parametrize("game", GAMES)
def test_episodes_are_the_steps_of_one_row(game, chunk_steps, tmp_path):
    with GAMES[game]() as env:
        rows = len(env)
        seen = record(
            env, tmp_path / "a", 30, chunk_steps=chunk_steps, noted=("log_probs", "logits")
        )
    shown = [rows_of(obs) for obs in seen.shown]
    episodes = list(Recording(tmp_path / "a").episodes())
    begins = [0] * rows
    for episode in episodes:
        row, begin = episode.row, begins[episode.row]
        end = begins[row] = begin + len(episode)
        whole = rows_of(episode.steps.obs)
        for t in range(begin, end):
            frame = shown[t][row]
            for part in ("features", "visible", "masks", "global_features", "reward"):
                assert whole[t - begin][part] == frame[part]
            assert episode.steps.reward[t - begin] == np.float32(shown[t + 1][row]["reward"])
            assert (
                episode.steps.done[t - begin]
                == shown[t + 1][row]["done"]
                == (t == end - 1 and episode.done)
            )
            for name, chosen in seen.actions[t].items():
                own = lists(episode.steps.actions[name])[t - begin]
                assert own == lists(chosen)[row]
        last = shown[end][row]
        assert episode.truncated == last["truncated"]
        if episode.truncated:
            assert one_frame(episode.next_obs)["features"] == last["final"]["features"]
        elif episode.done:
            assert episode.next_obs is None
        else:
            assert end == 30
            assert one_frame(episode.next_obs)["features"] == last["features"]
        assert episode.metrics == (last["metrics"] if episode.done else {})
        assert episode.is_whole == episode.done
    assert begins == [30] * rows


def test_log_probs_and_logits_of_an_episode(tmp_path):
    # Two rows and two choices: actor r of step t has log-probability -(10 t + r).
    with RecordEpisodes(ListEnv(Chain, 2), tmp_path / "a", chunk_steps=2) as env:
        obs = env.reset()
        for t in range(4):
            value = np.array([10.0 * t, 10.0 * t + 1])
            logits = np.stack([value, -value], axis=1)
            obs = env.act(random_policy(0)(obs), log_probs={"Go": -value}, logits={"Go": logits})
    episodes = list(Recording(tmp_path / "a").episodes())
    assert [(episode.row, len(episode)) for episode in episodes] == [(0, 3), (1, 3), (0, 1), (1, 1)]
    steps = episodes[1].steps
    assert steps.log_probs["Go"].as_array().ravel().tolist() == [-1.0, -11.0, -21.0]
    assert steps.logits["Go"].as_array().tolist() == [[1.0, -1.0], [11.0, -11.0], [21.0, -21.0]]


def test_episodes_that_are_not_whole_say_so(tmp_path):
    with ListEnv(lambda: Counted(4), 2) as inner:
        recorder = RecordEpisodes(inner, tmp_path / "a", chunk_steps=3)
        play(recorder, 5)  # a whole episode of 4 steps, and 1 step of the next
        state = recorder.get_state()
        play(recorder, 2)  # 2 steps
        obs = recorder.set_state(state)
        for _ in range(8):  # the 3 steps that were left, an episode of 4, and 1 of another
            obs = recorder.act(random_policy(0)(obs))
        recorder.flush()
        found = [
            (episode.row, episode.steps.reward.tolist(), episode.done, episode.is_whole)
            for episode in Recording(tmp_path / "a").episodes()
        ]
        recorder.close()
    each = [
        ([1.0, 2.0, 3.0, 4.0], True, True),
        ([1.0], False, False),
        ([1.0, 2.0], False, False),
        ([2.0, 3.0, 4.0], True, False),
        ([1.0, 2.0, 3.0, 4.0], True, True),
        ([1.0], False, False),
    ]
    assert found == [(row, *episode) for episode in each for row in (0, 1)]


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
    with RecordEpisodes(ListEnv(lambda: Numbered(9), 3), tmp_path / "a", chunk_steps=4) as env:
        obs = env.reset()
        for _ in range(29):
            own = obs.features["Walker"].as_array()[:, 0].astype(np.int64)
            shown += own.tolist()
            obs = env.act({"Go": RaggedBufferI64.from_flattened(own[:, None] % 2, np.ones(3, int))})
            follows |= dict(zip(own.tolist(), obs.reward.tolist(), strict=True))
    return Recording(tmp_path / "a"), shown, follows


@pytest.mark.parametrize("window", [1, 3000, 1 << 28])
@pytest.mark.parametrize("size", [1, 5, 16, 87, 100])
def test_minibatches_show_each_frame_once_in_each_epoch(numbered, size, window):
    recording, shown, follows = numbered
    assert len(shown) == 87
    batches = list(recording.minibatches(size, seed=3, epochs=2, window=window))
    sizes = [size] * (87 // size) + [87 % size] * (87 % size > 0)
    assert [len(batch) for batch in batches] == 2 * sizes
    orders = [numbers(batch) for batch in batches]
    first, second = (
        list(itertools.chain(*part)) for part in (orders[: len(sizes)], orders[len(sizes) :])
    )
    assert sorted(first) == sorted(second) == sorted(shown)
    assert first != shown
    assert first != second
    for batch, own in zip(batches, orders, strict=True):
        assert batch.actions["Go"].as_array()[:, 0].tolist() == [n % 2 for n in own]
        assert batch.reward.tolist() == [follows[n] for n in own]
        assert batch.done.tolist() == [follows[n] == 9.0 for n in own]
        assert (batch.log_probs, batch.logits) == (None, None)
        assert batch.obs.final is None
        assert len(batch.obs) == len(own)


@pytest.mark.parametrize("window", [1, 3000, 1 << 28])
def test_one_seed_is_one_order(numbered, window):
    recording, _, _ = numbered
    orders = [
        [numbers(batch) for batch in recording.minibatches(16, seed=seed, window=window)]
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_a_window_holds_as_many_chunks_as_fit(numbered, monkeypatch):
    recording, _, _ = numbered
    loaded = []
    monkeypatch.setattr(
        recording, "frames", lambda chunks: loaded.append(len(chunks)) or join(chunks)
    )
    join = Recording.frames.__get__(recording)
    sizes = [chunk.arrays for chunk in recording._chunks]  # 7 chunks of 4 steps, 1 of 1
    list(recording.minibatches(16, seed=1, window=3 * max(sizes)))
    assert sum(loaded) == 8
    assert max(loaded) in (3, 4)
    loaded.clear()
    list(recording.minibatches(16, seed=1, epochs=5, window=sum(sizes)))
    assert loaded == [8]  # what fits is read once


@pytest.mark.parametrize("window", [1, 1 << 28])
@pytest.mark.parametrize("game", ["random", "farm", "minesweeper"])
def test_minibatches_equal_the_frames_one_by_one(game, window, tmp_path):
    noted = ("log_probs", "logits")
    with GAMES[game]() as env:
        seen = record(env, tmp_path / "a", 25, noted=noted, chunk_steps=6)
        total = 25 * len(env)

    def keyed(row, chosen, log_probs, logits, reward, done):
        row = {name: row[name] for name in ("features", "visible", "masks", "global_features")}
        return repr((row, chosen, log_probs, logits, reward, done))

    slow = []
    for step in Recording(tmp_path / "a").steps():
        parts = [
            {name: lists(buffer) for name, buffer in own.items()}
            for own in (step.actions, step.log_probs, step.logits)
        ]
        for i, row in enumerate(rows_of(step.obs)):
            own = [{name: frames[i] for name, frames in part.items()} for part in parts]
            slow.append(keyed(row, *own, step.reward[i], step.done[i]))
    fast = []
    for batch in Recording(tmp_path / "a").minibatches(7, seed=1, window=window):
        parts = [
            {name: lists(buffer) for name, buffer in own.items()}
            for own in (batch.actions, batch.log_probs, batch.logits)
        ]
        for i, row in enumerate(rows_of(dataclasses.replace(batch.obs))):
            own = [{name: frames[i] for name, frames in part.items()} for part in parts]
            fast.append(keyed(row, *own, batch.reward[i], batch.done[i]))
    assert len(seen.actions) == 25
    assert len(fast) == total
    assert sorted(fast) == sorted(slow)


def test_a_recording_without_steps(tmp_path):
    with RecordEpisodes(ListEnv(Farm, 2), tmp_path / "a") as env:
        env.reset()
        env.reset()
    recording = Recording(tmp_path / "a")
    assert (recording.num_steps, recording.num_frames, recording.truncated_bytes) == (0, 0, 0)
    assert list(recording.steps()) == list(recording.episodes()) == []
    assert list(recording.minibatches(3, seed=1, epochs=2)) == []


def test_appending_goes_on(tmp_path):
    with ListEnv(Farm, 3, seed=1) as env:
        first = record(env, tmp_path / "a", 8, chunk_steps=5, append=True)  # nothing there yet
        with ListEnv(Farm, 3, seed=2) as other:
            second = record(other, tmp_path / "a", 4, append=True)
    both = Recording(tmp_path / "a")
    steps = list(both.steps())
    assert len(steps) == 12
    for step, shown in zip(steps, [*first.shown[:8], *second.shown[:4]], strict=True):
        assert_same_obs(step.obs, shown)
    ends = sum(int(obs.done.sum()) for obs in [*first.shown, *second.shown])
    episodes = list(both.episodes())
    assert sum(episode.is_whole for episode in episodes) == ends
    assert sum(map(len, episodes)) == 36


def test_rows_may_be_more_or_fewer_when_it_goes_on(tmp_path):
    for rows in (2, 5, 1):
        with ListEnv(Chain, rows) as env:
            record(env, tmp_path / "a", 3, append=True)
    recording = Recording(tmp_path / "a")
    assert recording.num_frames == 3 * (2 + 5 + 1)
    assert [episode.row for episode in recording.episodes()] == [0, 1, 0, 1, 2, 3, 4, 0]
    assert len(next(recording.minibatches(24, seed=1))) == 24


def test_what_a_block_did_before_it_failed_is_there(tmp_path):
    def broken():
        with RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a") as env:
            seen.append(play(env, 5))
            raise KeyError("the policy broke")

    seen = []
    with pytest.raises(KeyError):
        broken()
    assert_steps(Recording(tmp_path / "a"), seen[0])


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
    assert Recording(tmp_path / "a").num_steps == 3


def test_a_full_disk_is_said_and_loses_nothing(tmp_path, monkeypatch):
    with ListEnv(Chain, 2) as inner, RecordEpisodes(inner, tmp_path / "a", chunk_steps=3) as env:
        seen = play(env, 2)
        size = os.path.getsize(tmp_path / "a")

        def full(_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(RecordingError, match="No space left"):
                env.act(random_policy(0)(seen.shown[-1]))
        assert os.path.getsize(tmp_path / "a") == size
        play(env, 4)
    recording = Recording(tmp_path / "a")
    assert (recording.num_steps, recording.truncated_bytes) == (7, 0)


def test_rows_that_forget_a_final_observation_are_refused(tmp_path):
    class Forgets(VecWrapper):
        def _show(self, obs):
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
    values = [step.log_probs["Go"].as_array()[0, 0] for step in Recording(tmp_path / "a").steps()]
    assert values == [0.0, 1.0, 2.0]


def test_the_bytes_of_a_frame_are_few(tmp_path):
    """MineSweeper: 7 entities with 2 features each, 2 actors with 5 choices, all lengths."""
    native = pytest.importorskip("ragged_envs.minesweeper_native")
    with native.MineSweeperVec(128, seed=1) as env:
        record(env, tmp_path / "a", 64)
    recording = Recording(tmp_path / "a")
    assert os.path.getsize(tmp_path / "a") < 8 * recording.num_frames


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
    counts = [step.log_probs["Mode"].items() for step in Recording(tmp_path / "a").steps()]
    assert counts == [2, 0, 2]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((), ("log_probs",)),
        (("log_probs",), ()),
        (("log_probs",), ("log_probs", "logits")),
        (("log_probs", "logits"), ("log_probs",)),
    ],
)
@pytest.mark.parametrize("appends", [False, True])
def test_what_is_given_once_is_given_always(first, then, appends, tmp_path):
    with ListEnv(Farm, 2) as inner:
        recorder = RecordEpisodes(inner, tmp_path / "a")
        seen = play(recorder, 2, noted=first)
        if appends:
            recorder.close()
            recorder = RecordEpisodes(ListEnv(Farm, 2), tmp_path / "a", append=True)
            seen = Seen([recorder.reset()])
        notes = random_notes(seen.shown[-1], np.random.default_rng(0))
        with pytest.raises(RecordingError, match="for some steps only"):
            recorder.act(random_policy(0)(seen.shown[-1]), **{name: notes[name] for name in then})
        recorder.close()
    assert Recording(tmp_path / "a").num_steps == 2


BROKEN_RECORDERS = [
    (lambda env, path: RecordEpisodes(Chain(), path), SettingError, "needs rows"),
    (lambda env, path: RecordEpisodes(env, 3), RecordingError, "path"),
    (lambda env, path: RecordEpisodes(env, path / "no" / "a"), RecordingError, "No such file"),
    (lambda env, path: RecordEpisodes(env, path), RecordingError, "--append in the terminal"),
    (lambda env, path: RecordEpisodes(env, path, overwrite=True), RecordingError, "a folder"),
    (lambda env, path: RecordEpisodes(env, path / "b", chunk_steps=0), SettingError, "chunk"),
    (lambda env, path: RecordEpisodes(env, path / "b", chunk_steps=2.0), SettingError, "chunk"),
    (
        lambda env, path: RecordEpisodes(env, path / "b", append=True, overwrite=True),
        RecordingError,
        "cannot be combined",
    ),
    (lambda env, path: RecordEpisodes(env, path / "a"), RecordingError, "exists"),
    (
        lambda env, path: RecordEpisodes(ListEnv(Farm, 2), path / "a", append=True),
        RecordingError,
        "other spaces: the global_features differ",
    ),
    (
        lambda env, path: RecordEpisodes(ListEnv(Mode, 2), path / "a", append=True),
        RecordingError,
        "expected:",
    ),
]


@pytest.mark.parametrize(("make", "kind", "message"), BROKEN_RECORDERS)
def test_a_recorder_that_cannot_be_is_refused(make, kind, message, tmp_path):
    with ListEnv(Chain, 1) as env:
        record(env, tmp_path / "a", 3)
        before = (tmp_path / "a").read_bytes()
        with ListEnv(Chain, 2) as other, pytest.raises(kind, match=message):
            make(other, tmp_path)
    assert (tmp_path / "a").read_bytes() == before


def test_overwriting_begins_anew(tmp_path):
    for steps in (20, 3):
        with ListEnv(Chain, 2) as env:
            seen = record(env, tmp_path / "a", steps, overwrite=True)
    assert_steps(Recording(tmp_path / "a"), seen)


def test_a_recorder_needs_a_reset_and_ends_when_it_is_closed(tmp_path):
    recorder = RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a")
    with pytest.raises(ResetNeededError):
        recorder.act({})
    recorder.close()
    for call in (recorder.reset, recorder.flush, lambda: recorder.act({})):
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"size": 0, "seed": 1}, SettingError),
        ({"size": 3, "seed": -1}, SeedError),
        ({"size": 3, "seed": 1, "epochs": 0}, SettingError),
        ({"size": 3, "seed": 1, "window": 0}, SettingError),
    ],
)
def test_minibatches_that_cannot_be_are_refused_at_once(options, kind, numbered):
    with pytest.raises(kind):
        numbered[0].minibatches(**options)
