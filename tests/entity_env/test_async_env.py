"""``AsyncEnv``: the first rows that are ready, each with the trajectory that it has in a list."""

from __future__ import annotations

import functools
import os
import signal
import time
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from support.broken import ragged
from support.mines import NEEDS_NUMBA, minesweeper
from support.rows import rows_of
from support.tiny_envs import Chain, Failing, Farm
from support.workers import collected, pids, wait_until

from entity_env import AsyncEnv, Entity, ListEnv, ObsSpace, ParallelEnv, errors


def go(rows):
    return {"Go": ragged([0] * rows, [1] * rows)}


# -------------------------------------------------------------- the same episodes as in a ListEnv


class Drawn:
    """Random allowed actions, for each row from a generator of its own."""

    def __init__(self, rows):
        self.rngs = [np.random.default_rng(row) for row in range(rows)]

    def __call__(self, frames, rows):
        """Ragged actions for frames as ``rows_of`` returns them."""
        chosen = {name: [] for name in frames[0]["masks"]}
        for frame, row in zip(frames, rows, strict=True):
            for name, mask in frame["masks"].items():
                options = [
                    [actee for actee, ok in zip(mask["actees"], allowed, strict=True) if ok]
                    for allowed in mask["mask"]
                ]
                chosen[name].append([int(self.rngs[row].choice(o)) for o in options])
        return {
            name: ragged(list(chain(*own)), [len(one) for one in own])
            for name, own in chosen.items()
        }


def play_list(create_env, num_envs, steps, seed):
    """For each row what it observed in a reset and some steps."""
    policy = Drawn(num_envs)
    with ListEnv(create_env, num_envs, seed) as env:
        seen = [rows_of(env.reset())]
        for _ in range(steps):
            seen.append(rows_of(env.act(policy(seen[-1], range(num_envs)))))
    return [list(row) for row in zip(*seen, strict=True)]


def frames_of(obs):
    """The rows that must act, and for each what it observed."""
    rows, parts = obs.rows, ("reward", "done", "truncated")
    own = {part: getattr(obs, part)[rows] for part in parts}
    metrics = {name: column[rows] for name, column in obs.metrics.items()}
    return rows.tolist(), rows_of(replace(obs, rows=np.arange(len(rows)), metrics=metrics, **own))


def play_async(env, obs, steps):
    """The same as ``play_list`` for at least ``steps`` steps of each row."""
    policy = Drawn(len(env))
    seen = [[] for _ in range(len(env))]
    while True:
        rows, frames = frames_of(obs)
        for row, frame in zip(rows, frames, strict=True):
            seen[row].append(frame)
        if min(map(len, seen)) > steps:
            return [row[: steps + 1] for row in seen]
        obs = env.act(policy(frames, rows))


class Uneven(Farm):
    """A ``Farm`` whose steps take different times, which must not change what happens."""

    def act(self, actions):
        time.sleep(0.004 * np.random.default_rng().random())
        return super().act(actions)


@pytest.mark.parametrize(("processes", "batch"), [(1, 5), (2, 1), (3, 2), (5, 3)])
@pytest.mark.parametrize(
    "create_env",
    [Uneven, pytest.param(functools.partial(minesweeper, 4, 4, 3, 2, 2, 1), marks=NEEDS_NUMBA)],
)
def test_each_row_plays_what_it_plays_in_a_list(create_env, processes, batch):
    expected = play_list(create_env, 5, 25, seed=3)
    with AsyncEnv(create_env, 5, processes, batch, seed=3) as env:
        obs = env.reset()
        assert obs.num_frames == env.batch_size == batch
        assert play_async(env, obs, 25) == expected


def test_a_reset_with_a_seed_begins_anew_whatever_is_under_way():
    expected = play_list(Farm, 4, 10, seed=9)
    with AsyncEnv(Uneven, 4, 2, 2, seed=1) as env:
        play_async(env, env.reset(), 7)
        assert play_async(env, env.reset(9), 10) == expected
        assert play_async(env, env.reset(2**70), 3) == play_list(Farm, 4, 3, seed=2**70)


@pytest.mark.parametrize("seeds", [(9, None), (None, 9, None, None), (9, 8)])
def test_resets_in_a_row_all_count(seeds):
    """Also for rows that were not ready in the first of them."""
    listed = ListEnv(Farm, 4, seed=1)
    for seed in seeds:
        listed.reset(seed)
    expected = rows_of(listed.reset())
    with AsyncEnv(Farm, 4, 2, 1, seed=1) as env:
        for pause in (0.0, 0.01, 0.1):
            for seed in (1, *seeds, None):
                obs = env.reset(seed)
                time.sleep(pause)
            (row,), frames = frames_of(obs)
            assert frames == [expected[row]]


# ------------------------------------------------------------------------------- who comes first


class Gated(Chain):
    """The first step of a row makes the file ``there``, and lasts until ``gate`` exists."""

    def __init__(self, row, gate):
        super().__init__(length=100)
        self.row, self.gate = row, gate
        self.stands = False

    def seed(self, seed):
        self.stands = seed == int(
            np.random.SeedSequence(0, spawn_key=(self.row,)).generate_state(1)[0]
        )

    def act(self, actions):
        if self.stands:
            self.gate.with_name("there").touch()
            assert wait_until(self.gate.exists)
        self.stands = False
        return super().act(actions)


def times(obs):
    """Return the number of steps that each row has made in its episode."""
    return obs.features["Walker"].as_array()[:, 0].tolist()


def test_rows_that_are_ready_do_not_wait_for_a_slow_one(tmp_path):
    gate = tmp_path / "gate"
    with AsyncEnv(lambda: Gated(1, gate), 3, 3, 1) as env:
        obs, asked = env.reset(), np.zeros(3, int)
        while asked.sum() < 12 or not asked[1]:
            assert times(obs) == asked[obs.rows].tolist()
            asked[obs.rows] += 1
            if asked.sum() == 10:
                assert asked[1] <= 1, "it stands at the gate, and the others play on"
                gate.touch()
            obs = env.act(go(1))
        assert asked[1]


def test_a_row_is_reported_before_the_next_one_of_its_worker_is_done(tmp_path):
    gate = tmp_path / "gate"
    with AsyncEnv(lambda: Gated(2, gate), 3, 1, 1) as env:
        obs, seen = env.reset(), []
        for _ in range(3):
            seen += obs.rows.tolist()
            obs = env.act(go(1))
        # All have been reset and have their actions; row 2 waits at the gate, and is the last.
        assert (seen, obs.rows.tolist(), times(obs)) == ([0, 1, 2], [0], [1])
        gate.touch()


def test_a_reset_drops_steps_that_run_and_steps_that_wait(tmp_path):
    gate = tmp_path / "gate"
    with AsyncEnv(lambda: Gated(2, gate), 3, 1, 2) as env:
        # Rows 0 and 1 are ready first; then row 2 and one of them, and row 2 waits at the gate.
        env.act({"Go": env.reset().ragged_actions({"Go": np.zeros(2, int)})["Go"]})
        env.act(go(2))
        assert wait_until((tmp_path / "there").exists)
        gate.touch()
        obs = env.reset()
        for _ in range(3):
            assert set(times(obs)) <= {0.0, 1.0, 2.0}
            obs = env.act(go(2))


# ----------------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 1, 1), errors.SettingError),
        ((2, 3, 1), errors.SettingError),
        ((2, 1, 3), errors.SettingError),
        ((2, 1, 0), errors.SettingError),
        ((2, 1, 1, -1), errors.SettingError),
    ],
)
def test_wrong_sizes_are_refused(arguments, error):
    with pytest.raises(error):
        AsyncEnv(Chain, *arguments)


def test_rows_need_the_same_spaces(tmp_path):
    def second(name):
        """Return True if this is the second environment with this name."""
        try:
            (tmp_path / name).mkdir()
        except FileExistsError:
            return True
        return False

    class Odd(Chain):
        names = ("time",)

        def __init__(self):
            super().__init__()
            if second("odd"):
                self.names = ("clock",)

        def obs_space(self):
            return ObsSpace(entities={"Walker": Entity(self.names)})

    class Turned(Chain):
        def __init__(self):
            super().__init__()
            self.turned = second("turned")

        def obs_space(self):
            kinds = ["Walker", "Wall"]
            return ObsSpace(entities=dict.fromkeys(kinds[:: -1 if self.turned else 1], Entity()))

    for make, words in (
        (lambda: AsyncEnv(Odd, 2, 1, 1), "obs_space differs"),
        (lambda: AsyncEnv(Odd, 2, 2, 1), "obs_space differs"),
        (lambda: ListEnv(Turned, 2), "obs_space has its names in another order"),
        (lambda: ParallelEnv(Turned, 2, 2), "obs_space has its names in another order"),
        (lambda: AsyncEnv(Turned, 2, 1, 1), "obs_space has its names in another order"),
        (lambda: AsyncEnv(Turned, 2, 2, 1), "obs_space has its names in another order"),
    ):
        with pytest.raises(errors.SpaceError, match=words) as caught:
            make()
        assert caught.value.where == "environment 1, step 0"
        for folder in tmp_path.iterdir():
            folder.rmdir()


# ------------------------------------------------------------------------------------- bad endings


def drive(env):
    """Steps of all rows, until something happens."""
    env.reset()
    for _ in range(10):
        env.act(go(env.batch_size))


@pytest.mark.parametrize(
    ("how", "step", "error", "where"),
    [
        ("raise", 2, errors.EnvironmentFailedError, "environment 2, step 2"),
        ("raise", 0, errors.EnvironmentFailedError, "environment 2, step 0"),
        ("bad", 1, errors.FeatureError, "environment 2, step 1, act"),
        ("object", 1, errors.ObservationError, "environment 2, step 1, act"),
        ("exit", 2, errors.WorkerDiedError, "environment 2, step 2"),
        ("kill", 1, errors.WorkerDiedError, "environment 2, step 1"),
    ],
)
def test_what_goes_wrong_in_a_worker_names_row_and_step_and_ends_all(how, step, error, where):
    env = AsyncEnv(lambda: Failing(how, row=2, at=step), 4, 2, 4)
    workers = pids(env)
    with pytest.raises(error) as caught:
        drive(env)
    assert type(caught.value) is error
    assert caught.value.where == where
    assert all(collected(pid) for pid in workers)
    with pytest.raises(errors.ClosedError):
        env.reset()
    env.close()


def test_a_worker_killed_between_two_calls_is_noticed():
    env = AsyncEnv(Chain, 4, 2, 4)
    workers = pids(env)
    env.reset()
    os.kill(workers[1], signal.SIGKILL)
    with pytest.raises(errors.WorkerDiedError, match=r"environments 2 to 3 died \(signal 9\)"):
        env.act(go(4))
    assert all(collected(pid) for pid in workers)


def test_ctrl_c_ends_all_workers(monkeypatch):
    env = AsyncEnv(Chain, 2, 2, 2)
    workers = pids(env)

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(env, "_reports", SimpleNamespace(poll=interrupt))
    with pytest.raises(KeyboardInterrupt):
        env.reset()
    assert all(collected(pid) for pid in workers)
    with pytest.raises(errors.ClosedError):
        env.reset()


def test_closing_ends_workers_that_have_work_left():
    env = AsyncEnv(Uneven, 8, 2, 1)
    workers = pids(env)
    env.reset()
    env.close()
    env.close()
    assert all(collected(pid) for pid in workers)


def test_hundreds_of_rows_do_not_fill_the_sockets():
    """Neither side may wait for the other to read: 2,000 reports are more than a pipe holds."""

    def too_long(*_):
        raise AssertionError("parent and worker wait for each other")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        with AsyncEnv(Chain, 2000, 1, 1) as env:
            obs = env.reset()
            for _ in range(50):
                obs = env.act(go(1))
            time.sleep(1)  # the worker fills its pipe
            obs = env.reset()
            for _ in range(2000):
                assert times(obs) == [0.0]
                obs = env.act(go(1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -------------------------------------------------------------- as a VecEnv, which asks some rows


@pytest.mark.parametrize(
    ("create_env", "processes"), [pytest.param(minesweeper, 2, marks=NEEDS_NUMBA), (Farm, 1)]
)
def test_with_all_rows_at_once_it_is_a_list(create_env, processes):
    policy, other = Drawn(3), Drawn(3)
    with AsyncEnv(create_env, 3, processes, 3, seed=4) as env, ListEnv(create_env, 3, 4) as listed:
        obs, expected = env.reset(), listed.reset()
        for _ in range(40):
            assert obs.rows.tolist() == [0, 1, 2]
            assert rows_of(obs) == rows_of(expected)
            obs = env.act(policy(rows_of(obs), range(3)))
            expected = listed.act(other(rows_of(expected), range(3)))


def test_the_rows_that_are_asked_get_what_happened_to_them_and_the_others_nothing():
    # Step t of an episode of three pays t: row after row 1, 2, 3 and the end, again and again.
    with AsyncEnv(Chain, 5, 2, 2, seed=1) as env:
        obs = env.reset()
        asked = np.zeros(5, int)  # how often, the first time for the reset
        for _ in range(60):
            assert (len(obs), obs.num_frames) == (5, 2)
            assert obs.rows.tolist() == sorted(set(obs.rows.tolist()))
            steps = asked[obs.rows]
            expected = np.zeros(5)
            expected[obs.rows] = np.where(steps > 0, (steps - 1) % 3 + 1, 0)
            assert obs.reward.tolist() == expected.tolist()
            assert np.flatnonzero(obs.done).tolist() == [
                row for row in obs.rows if asked[row] and asked[row] % 3 == 0
            ]
            assert obs.features["Walker"].as_array()[:, 0].tolist() == (steps % 3).tolist()
            for column in obs.metrics.values():
                assert np.isnan(column[~obs.done]).all()
            asked[obs.rows] += 1
            obs = env.act(go(2))
    assert asked.min() > 1


def test_what_rows_in_flight_cannot_do_is_said():
    with AsyncEnv(Chain, 2, 1, 1) as env:
        env.reset()
        assert not env.has_state()
        for call in (env.get_state, lambda: env.set_state([])):
            with pytest.raises(errors.StateError):
                call()
        with pytest.raises(errors.SettingError, match="drawn"):
            env.render()
        with pytest.raises(errors.SettingError, match="single environments"):
            env.wrap_each(lambda e: e)
