"""``AsyncEnv``: the first rows that are ready, each with the trajectory that it has in a list."""

from __future__ import annotations

import functools
import os
import signal
import time
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


def play_async(env, steps):
    """The same for at least ``steps`` steps of each row; also the rows in order of arrival."""
    policy = Drawn(len(env))
    seen = [[] for _ in range(len(env))]
    order = []
    while min(map(len, seen)) <= steps:
        ready = env.recv(timeout=60)
        frames = rows_of(ready.obs)
        for row, frame in zip(ready.rows.tolist(), frames, strict=True):
            seen[row].append(frame)
        order.append(ready.rows.tolist())
        env.send(policy(frames, ready.rows.tolist()), ready.rows)
    return [row[: steps + 1] for row in seen], order


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
        env.async_reset()
        seen, order = play_async(env, 25)
    assert all(len(rows) == batch for rows in order)
    assert seen == expected


def test_a_reset_with_a_seed_begins_anew_whatever_is_under_way():
    expected = play_list(Farm, 4, 10, seed=9)
    with AsyncEnv(Uneven, 4, 2, 2, seed=1) as env:
        env.async_reset()
        play_async(env, 7)
        env.async_reset(seed=9)
        assert play_async(env, 10)[0] == expected
        env.async_reset(2**70)
        assert play_async(env, 3)[0] == play_list(Farm, 4, 3, seed=2**70)


@pytest.mark.parametrize("seeds", [(9, None), (None, 9, None, None), (9, 8)])
def test_resets_in_a_row_all_count(seeds):
    """Whether a worker has begun with the first of them when the next one comes, or not."""
    listed = ListEnv(Farm, 4, seed=1)
    for seed in seeds:
        obs = listed.reset(seed)
    with AsyncEnv(Farm, 4, 2, 4, seed=1) as env:
        for pause in (0.0, 0.01, 0.1):
            env.async_reset(1)
            for seed in seeds:
                env.async_reset(seed)
                time.sleep(pause)
            ready = env.recv(timeout=60)
            expected = rows_of(obs)
            for row, frame in zip(ready.rows.tolist(), rows_of(ready.obs), strict=True):
                assert frame == expected[row]


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


def times(ready):
    """Return the number of steps that each row has made in its episode."""
    return ready.obs.features["Walker"].as_array()[:, 0].tolist()


def test_rows_that_are_ready_do_not_wait_for_a_slow_one(tmp_path):
    gate = tmp_path / "gate"
    with AsyncEnv(lambda: Gated(1, gate), 3, 3, 1) as env:
        env.async_reset()
        for rows in [env.recv(60).rows for _ in range(3)]:
            env.send(go(1), rows)
        steps = dict.fromkeys(range(3), 0)
        for _ in range(9):
            ready = env.recv(60)
            steps[int(ready.rows[0])] += 1
            assert times(ready) == [steps[int(ready.rows[0])]]
            if sum(steps.values()) < 7:
                env.send(go(1), ready.rows)
            elif not gate.exists():
                assert steps[1] == 0
                gate.touch()
        assert steps[1] == 1
        assert sum(steps.values()) == 9


def test_a_row_is_reported_before_the_next_one_of_its_worker_is_done(tmp_path):
    gate = tmp_path / "gate"
    with AsyncEnv(lambda: Gated(2, gate), 4, 1, 2) as env:
        env.async_reset()
        rows = [env.recv(60).rows.tolist() for _ in range(2)]
        assert rows == [[0, 1], [2, 3]]
        env.send(go(2), np.array([1, 0]))
        env.send(go(2), np.array([2, 3]))
        first = env.recv(60)
        assert first.rows.tolist() == [1, 0]
        assert times(first) == [1, 1]
        with pytest.raises(errors.NotReadyError, match="the time for recv is over") as caught:
            env.recv(timeout=0.05)
        assert "0 rows" in str(caught.value)
        with pytest.raises(errors.NotReadyError):
            env.recv(0)
        gate.touch()
        second = env.recv(60)
        assert second.rows.tolist() == [2, 3]
        assert times(second) == [1, 1]


def test_ready_rows_wait_in_order_of_arrival():
    with AsyncEnv(Chain, 4, 1, 4) as env:
        env.async_reset()
        ready = env.recv(60)
        assert ready.rows.tolist() == [0, 1, 2, 3]
        assert ready.rows.dtype == np.int64
        env.send(go(2), np.array([3, 0]))
        env.send(go(2), [2, 1])
        assert env.recv(60).rows.tolist() == [3, 0, 2, 1]


def test_a_part_of_the_rows_in_any_order_gets_its_own_actions():
    with AsyncEnv(Farm, 6, 2, 6, seed=3) as env, ListEnv(Farm, 6, seed=3) as other:
        env.async_reset()
        policy, same = Drawn(6), Drawn(6)
        expected = rows_of(other.reset())
        for _ in range(12):
            ready = env.recv(60)
            frames = dict(zip(ready.rows.tolist(), rows_of(ready.obs), strict=True))
            assert [frames[row] for row in range(6)] == expected
            for rows in ([5, 1, 3], [2, 4], [], [0]):
                actions = policy([frames[row] for row in rows], rows) if rows else {}
                env.send(actions, rows)
            expected = rows_of(other.act(same(expected, range(6))))


def test_a_reset_drops_steps_that_run_and_steps_that_wait(tmp_path):
    gate = tmp_path / "gate"
    with AsyncEnv(lambda: Gated(0, gate), 3, 1, 3) as env:
        env.async_reset()
        env.send(go(3), env.recv(60).rows)
        # Row 0 stands at the gate, and the others wait for it.
        assert wait_until((tmp_path / "there").exists)
        env.async_reset()
        gate.touch()
        for step in range(3):
            ready = env.recv(60)
            assert ready.rows.tolist() == [0, 1, 2]
            assert times(ready) == [step] * 3
            env.send(go(3), ready.rows)


# ----------------------------------------------------------------------------------------- misuse


def refused(call, *words):
    """A call raises ActionError, whose message holds some words."""
    with pytest.raises(errors.ActionError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_calls_out_of_turn_are_refused_and_change_nothing():
    with AsyncEnv(Chain, 4, 2, 2) as env:
        for call in (env.recv, lambda: env.send(go(1), [0])):
            with pytest.raises(errors.ResetNeededError, match="before async_reset"):
                call()
        env.async_reset()
        one, two = env.recv(60), env.recv(60)
        refused(
            lambda: env.recv(5),
            "never return: it waits for 2 rows, but only 0 are ready",
            "4: [0, 1, 2, 3]",
        )
        a, b = one.rows.tolist()
        c, _ = two.rows.tolist()
        refused(lambda: env.send(go(2), [a, a]), f"row {a} is given twice")
        refused(lambda: env.send(go(2), [a, 4]), "row 4 does not exist", "[0, 1, 2, 3]")
        refused(lambda: env.send(go(1), [-1]), "row -1 does not exist")
        refused(lambda: env.send(go(1), [0.0]), "not numbers of rows", "from 0 to 3")
        refused(lambda: env.send(go(1), [True]), "not numbers of rows")
        refused(lambda: env.send(go(1), [[a]]), "not numbers of rows")
        refused(lambda: env.send(go(1), [[a], [b, c]]), "not numbers of rows")
        refused(lambda: env.send(go(2), [c, b]), f"rows {c} and {b} come from different calls")
        env.send(go(1), [b])
        refused(lambda: env.send(go(2), [a, b]), f"row {b} does not wait for actions")
        refused(lambda: env.recv(5), "1 are ready or running")
        env.send(go(1), [a])
        assert sorted(env.recv(60).rows.tolist()) == sorted([a, b])


@pytest.mark.parametrize("timeout", [-1, "1", True, float("nan")])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with AsyncEnv(Chain, 1, 1, 1) as env:
        env.async_reset()
        with pytest.raises(errors.SettingError, match="seconds >= 0"):
            env.recv(timeout)


@pytest.mark.parametrize(
    "timeout",
    [1e9, float("inf"), 10**400, np.float32(60), np.float64("inf"), np.int64(2**40), np.inf],
)
def test_any_number_of_seconds_is_a_timeout(timeout):
    with AsyncEnv(Chain, 2, 1, 2) as env:
        env.async_reset()
        assert sorted(env.recv(timeout).rows.tolist()) == [0, 1]


def test_a_long_wait_is_many_short_ones(monkeypatch):
    waits = []
    with AsyncEnv(Chain, 1, 1, 1) as env:
        reports = env._reports

        def some_time(milliseconds):
            waits.append(milliseconds)
            return [] if len(waits) < 3 else reports.poll(milliseconds)

        monkeypatch.setattr(env, "_reports", SimpleNamespace(poll=some_time))
        for timeout in (1e9, None):
            env.async_reset()
            env.recv(timeout)
            assert waits[:2] == [3600e3] * 2, "one hour at a time, and not over after it"
            waits.clear()


def test_wrong_actions_are_refused_with_the_number_of_their_row():
    with AsyncEnv(Chain, 4, 1, 4) as env:
        env.async_reset()
        env.recv(60)
        for bad, error, where in (
            ({"Go": ragged([0, 2], [1, 1])}, errors.ActionError, "environment 3"),
            ({"Go": ragged([0, 0, 0], [1, 2])}, errors.ActionError, "environment 3"),
            ({"Went": ragged([0, 0], [1, 1])}, errors.ActionError, None),
            ({}, errors.ActionError, None),
            (None, errors.ActionError, None),
        ):
            with pytest.raises(error) as caught:
                env.send(bad, [1, 3])
            assert caught.value.where == where
        env.send(go(4), [3, 1, 0, 2])
        assert env.recv(60).rows.tolist() == [3, 1, 0, 2]


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
    env.async_reset()
    for _ in range(10):
        ready = env.recv(60)
        env.send(go(len(ready.rows)), ready.rows)


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
    for call in (env.reset, env.async_reset, env.recv, lambda: env.send(go(1), [0])):
        with pytest.raises(errors.ClosedError):
            call()
    env.close()


def test_a_worker_killed_between_two_calls_is_noticed():
    env = AsyncEnv(Chain, 4, 2, 2)
    workers = pids(env)
    env.async_reset()
    rows = [env.recv(60).rows for _ in range(2)]
    os.kill(workers[1], signal.SIGKILL)
    for own in rows:
        env.send(go(2), own)
    with pytest.raises(errors.WorkerDiedError, match=r"environments 2 to 3 died \(signal 9\)"):
        [env.recv(60) for _ in range(2)]
    assert all(collected(pid) for pid in workers)


def test_ctrl_c_in_recv_ends_all_workers(monkeypatch):
    env = AsyncEnv(Chain, 2, 2, 2)
    workers = pids(env)
    env.async_reset()

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(env, "_reports", SimpleNamespace(poll=interrupt))
    with pytest.raises(KeyboardInterrupt):
        env.recv()
    assert all(collected(pid) for pid in workers)
    with pytest.raises(errors.ClosedError):
        env.recv()


def test_closing_ends_workers_that_have_work_left():
    env = AsyncEnv(Uneven, 8, 2, 8)
    workers = pids(env)
    env.async_reset()
    env.close()
    env.close()
    assert all(collected(pid) for pid in workers)


def test_hundreds_of_rows_do_not_fill_the_sockets():
    """Neither side may wait for the other to read: 700 messages are more than a socket holds."""

    def too_long(*_):
        raise AssertionError("parent and worker wait for each other")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        with AsyncEnv(Chain, 700, 1, 1) as env:
            env.async_reset()
            ready = [env.recv().rows for _ in range(700)]
            for rows in ready:
                env.send(go(1), rows)
            env.async_reset()
            ready = [env.recv() for _ in range(700)]
            assert [int(r.rows[0]) for r in ready] == list(range(700))
            assert {times(r)[0] for r in ready} == {0.0}
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


def test_send_and_act_do_not_answer_the_same_rows_twice():
    with AsyncEnv(Chain, 4, 2, 2) as env:
        obs = env.reset()
        env.send(go(2), obs.rows)
        with pytest.raises(errors.ResetNeededError):
            env.act(go(2))
        assert sorted(env.recv(60).rows.tolist() + env.recv(60).rows.tolist())


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
