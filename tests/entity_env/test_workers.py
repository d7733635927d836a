"""Worker processes: whatever happens to them, the error says what, and none is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.broken import ragged
from support.tiny_envs import BrokenAtBirth, Chain, Failing, Farm, assert_same_obs
from support.workers import collected, pids, wait_until

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    ListEnv,
    Observation,
    ObsSpace,
    ParallelEnv,
    RaggedBufferI64,
    errors,
)
from entity_env.workers.worker_process import WorkerProcess
from entity_env.workers.worker_rows import end_workers

ROOT = Path(__file__).parents[2]


def go(rows):
    return {"Go": ragged([0] * rows, [1] * rows)}


def drive(env, steps):
    env.reset()
    for _ in range(steps):
        env.act(go(len(env)))


def alive(pid):
    """Return True if a process exists, also if it has ended but is not collected yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        pass
    else:
        return stat.rsplit(")", 1)[1].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_environments_run_in_the_workers():
    class Where(Chain):
        def render(self):
            return os.getpid()

    with ParallelEnv(Where, 4, 2) as env:
        first, second = pids(env)
        env.reset()
        assert env.render() == [first, first, second, second]


def test_a_worker_that_hangs_when_it_is_closed_is_killed():
    class Hanging(Chain):
        def close(self):
            time.sleep(600)

    env = ParallelEnv(Hanging, 1, 1)
    workers = pids(env)
    env.close()
    assert all(collected(pid) for pid in workers)


def test_dropping_the_environment_ends_the_workers():
    env = ParallelEnv(Farm, 2, 2)
    workers = pids(env)
    del env
    gc.collect()
    assert wait_until(lambda: all(collected(pid) for pid in workers))


@pytest.mark.parametrize(
    ("how", "cause", "step"),
    [("exit", "exit status 7", 2), ("kill", "signal 9", 2), ("kill", "signal 9", 0)],
)
def test_a_worker_that_dies_is_reported_with_row_step_and_cause(how, cause, step):
    env = ParallelEnv(lambda: Failing(how, row=2, at=step), 4, 2)
    workers = pids(env)
    with pytest.raises(errors.WorkerDiedError) as caught:
        drive(env, 2)
    assert caught.value.where == f"environment 2, step {step}"
    assert f"the worker of environments 2 to 3 died ({cause})" in str(caught.value)
    assert ("memory" in str(caught.value)) == (how == "kill")
    assert all(collected(pid) for pid in workers)
    with pytest.raises(errors.ClosedError):
        env.reset()
    env.close()


@pytest.mark.parametrize("how", ["raise", "bad", "object", "system-exit"])
def test_an_error_in_a_worker_ends_all_workers(how):
    env = ParallelEnv(lambda: Failing(how, row=0, at=1), 3, 3)
    workers = pids(env)
    env.reset()
    with pytest.raises(errors.EntityEnvError, match=r"^environment 0, step 1"):
        env.act(go(3))
    assert all(collected(pid) for pid in workers)
    with pytest.raises(errors.ClosedError):
        env.act(go(3))


def test_a_worker_killed_before_it_runs_anything_is_reported_by_its_first_row():
    worker = WorkerProcess(5, 3)
    try:
        worker._process.kill()
        with pytest.raises(errors.WorkerDiedError, match=r"environments 5 to 7 died") as caught:
            worker.receive()
        assert caught.value.where == "environment 5, step 0"
    finally:
        end_workers([worker])


def children():
    """Ids of this process's children, zombies included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize(
    ("create_env", "error", "words"),
    [
        (BrokenAtBirth, errors.EnvironmentFailedError, "in create_env: no parts left"),
        (dict, errors.ObservationError, "create_env did not make an environment"),
        (lambda: os._exit(3), errors.WorkerDiedError, "exit status 3"),
    ],
)
def test_a_constructor_that_fails_in_a_worker_leaves_no_process(create_env, error, words):
    before = children()
    with pytest.raises(error) as caught:
        ParallelEnv(create_env, 4, 2)
    assert str(caught.value).startswith("environment 0, step 0")
    assert words in str(caught.value)
    gc.collect()
    assert children() <= before


@needs_proc
def test_refused_arguments_start_no_process():
    before = children()
    for arguments in ((0, 1), (2, 3), (2, 0)):
        with pytest.raises(errors.SettingError):
            ParallelEnv(Chain, *arguments)
    with pytest.raises(errors.SettingError):
        ParallelEnv(Chain, 2, 2, seed=-1)
    assert children() <= before


@needs_proc
def test_a_factory_that_cannot_be_pickled_leaves_no_process():
    lock = threading.Lock()
    before = children()
    with pytest.raises(
        errors.EnvironmentFailedError, match="cannot be sent to another process"
    ) as caught:
        ParallelEnv(lambda: Chain(lock), 2, 2)
    assert "pickle" in str(caught.value)
    gc.collect()
    assert children() <= before


class Stubborn:
    """Can be pickled, but not loaded."""

    def __reduce__(self):
        return int, ("no number",)

    def __call__(self):
        return Chain()


@needs_proc
def test_a_factory_that_cannot_be_loaded_leaves_no_process():
    before = children()
    with pytest.raises(errors.EnvironmentFailedError, match="cannot be loaded in a worker"):
        ParallelEnv(Stubborn(), 2, 2)
    assert children() <= before


def test_lambdas_local_classes_and_closures_work_in_workers():
    length = 2

    class Local(Chain):
        def __init__(self):
            super().__init__(length)

    for create_env in (Local, lambda: Local(), lambda: Chain(length)):
        with ListEnv(create_env, 2) as left, ParallelEnv(create_env, 2, 2) as right:
            assert_same_obs(left.reset(), right.reset())
            for _ in range(3):
                assert_same_obs(left.act(go(2)), right.act(go(2)))


def test_what_an_environment_prints_does_not_disturb_the_messages(capfd):
    class Chatty(Chain):
        def act(self, actions):
            print("hello from the environment", flush=True)
            os.write(1, b"raw bytes\n")
            return super().act(actions)

    with ParallelEnv(Chatty, 2, 2) as env:
        env.reset()
        assert env.act(go(2)).reward.tolist() == [1.0, 1.0]
    assert capfd.readouterr().out.count("hello from the environment") == 2


SCRIPT = """
import sys, time
from support.tiny_envs import Farm
from entity_env import ParallelEnv
env = ParallelEnv(Farm, 4, 2)
env.reset()
print(*[worker._process.pid for worker in env._workers], flush=True)
time.sleep(600)
"""


def start_script(script, **options):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_parent_leaves_no_worker(sig):
    parent = start_script(SCRIPT)
    try:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(alive(pid) for pid in workers)
    finally:
        parent.send_signal(sig)
        parent.wait()
        parent.stdout.close()
    assert wait_until(lambda: not any(alive(pid) for pid in workers))


def test_a_closed_terminal_leaves_no_worker():
    parent = start_script(SCRIPT, start_new_session=True)
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    os.killpg(parent.pid, signal.SIGHUP)  # the workers hear of it as well
    assert parent.wait() == -signal.SIGHUP
    parent.stdout.close()
    assert wait_until(lambda: not any(alive(pid) for pid in workers))


def test_a_program_that_forgets_to_close_ends_and_leaves_no_worker():
    script = SCRIPT.replace("time.sleep(600)", "")
    parent = start_script(script)
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert parent.wait(timeout=60) == 0
    parent.stdout.close()
    assert len(workers) == 2
    assert wait_until(lambda: not any(alive(pid) for pid in workers))


ENDLESS = """
from support.tiny_envs import Chain
from support.broken import ragged
from entity_env import AsyncEnv, ParallelEnv
from entity_env.workers import worker

class Endless(Chain):
    def act(self, actions):
        worker.SECONDS_TO_CLOSE = 0.2  # in the worker's process
        while True:
            pass

go = {"Go": ragged([0, 0], [1, 1])}
"""
TOGETHER = """
env = ParallelEnv(Endless, 2, 2)
env.reset()
print(*[worker._process.pid for worker in env._workers], flush=True)
env.act(go)
"""
APART = """
env = AsyncEnv(Endless, 2, 2, 2)
env.reset()
print(*[worker._process.pid for worker in env._workers], flush=True)
env.act(go)
"""


def busy(pid):
    """Return True if a process computes, by the clock ticks that it uses meanwhile."""

    def ticks():
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))

    before = ticks()
    return wait_until(lambda: ticks() > before + 5)


@needs_proc
@pytest.mark.parametrize("script", [TOGETHER, APART])
def test_a_worker_in_an_endless_step_does_not_outlive_a_killed_parent(script):
    parent = start_script(ENDLESS + script)
    workers = []
    try:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(busy(pid) for pid in workers)
        parent.kill()
        parent.wait()
        assert wait_until(lambda: not any(alive(pid) for pid in workers))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        for pid in workers:
            if alive(pid):  # else a failure would keep the cores busy for ever
                os.kill(pid, signal.SIGKILL)


class Swelling(Environment):
    """One entity more than ten times as many in every second step, and few in the others."""

    def obs_space(self):
        return ObsSpace(entities={"Star": Entity(["x", "y"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["left", "right"])}

    def reset(self):
        self.time = 0
        return self._observe()

    def act(self, actions):
        assert (actions["Go"].indices == np.arange(len(actions["Go"].indices)) % 2).all()
        self.time += 1
        return self._observe()

    def _observe(self):
        count = 3 if self.time % 2 else 10 ** (self.time // 2)
        stars = np.arange(2 * count).reshape(-1, 2) + self.time
        return Observation(
            features={"Star": stars}, actions={"Go": CategoricalActionMask(actor_types=["Star"])}
        )


def test_observations_and_actions_of_any_size_cross():
    with ListEnv(Swelling, 3) as left, ParallelEnv(Swelling, 3, 2) as right:
        a, b = left.reset(), right.reset()
        for _ in range(11):
            assert_same_obs(a, b)
            counts = a.features["Star"].size1()
            flat = np.concatenate([np.arange(count) % 2 for count in counts])
            actions = {"Go": RaggedBufferI64.from_flattened(flat[:, None], counts)}
            a, b = left.act(actions), right.act(actions)
        assert counts.max() == 100_000
