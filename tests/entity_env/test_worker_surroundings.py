"""Worker processes among forks, threads, signal handlers and other programs, as in real use."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.broken import ragged
from support.tiny_envs import Chain
from support.workers import collected, pids

from entity_env import AsyncEnv, CategoricalActionSpace, ParallelEnv, errors
from entity_env.workers import worker, worker_process, worker_rows

ROOT = Path(__file__).parents[2]
GO = {"Go": ragged([0], [1])}


def one_row(kind, create_env):
    return kind(create_env, 1, 1, 1) if kind is AsyncEnv else kind(create_env, 1, 1)


def first_step(env):
    """Play the first step of a single row."""
    env.reset()
    return env.act(GO)


class Companion(Chain):
    """Kills itself in its first step, beside a process that it has started and that lives on."""

    def __init__(self, how, note):
        super().__init__()
        if how == "fork":
            pid = os.fork()
            if not pid:
                time.sleep(600)
        else:
            pid = subprocess.Popen(["sleep", "600"], close_fds=False).pid
        Path(note).write_text(str(pid))

    def act(self, actions):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kind", [ParallelEnv, AsyncEnv])
@pytest.mark.parametrize("how", ["fork", "program"])
def test_a_dead_worker_is_noticed_though_its_children_live(kind, how, tmp_path):
    note = tmp_path / "pid"
    env = one_row(kind, lambda: Companion(how, note))
    try:
        with alarm(30), pytest.raises(errors.WorkerDiedError, match="signal 9"):
            first_step(env)
    finally:
        os.kill(int(note.read_text()), signal.SIGKILL)


class Threaded(Chain):
    """Ends its process in its first step, beside a thread that runs on."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def act(self, actions):
        worker.SECONDS_TO_CLOSE = self.seconds  # in the worker's process
        threading.Thread(target=time.sleep, args=(600,)).start()
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", [ParallelEnv, AsyncEnv])
@pytest.mark.parametrize(("in_worker", "here"), [(0.1, 30.0), (600.0, 0.1)])
def test_a_worker_that_ends_is_noticed_though_its_threads_live(kind, in_worker, here, monkeypatch):
    """It ends itself; if that fails, as where the system has stopped it, it is killed."""
    monkeypatch.setattr(worker_process, "_SECONDS_TO_DIE", here)
    env = one_row(kind, lambda: Threaded(in_worker))
    (pid,) = pids(env)
    with alarm(30), pytest.raises(errors.WorkerDiedError, match="environment 0, step 1"):
        first_step(env)
    assert collected(pid)


class Closing(Chain):
    """Notes that it has been closed."""

    def __init__(self, note):
        super().__init__()
        self.note = note

    def close(self):
        Path(self.note).write_text("closed")


def test_environments_are_closed_though_this_process_has_been_forked(tmp_path):
    env = ParallelEnv(lambda: Closing(tmp_path / "note"), 1, 1)
    workers = pids(env)
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    try:
        env.close()
        assert (tmp_path / "note").read_text() == "closed"
        assert all(collected(pid) for pid in workers)
    finally:
        child.kill()
        child.join()


def use_and_close(env):
    with pytest.raises(errors.ClosedError, match="used by the process that made them"):
        first_step(env)
    env.close()


def test_a_forked_process_does_not_use_the_workers_nor_end_them():
    with ParallelEnv(Chain, 1, 1) as env:
        env.reset()
        child = multiprocessing.get_context("fork").Process(target=use_and_close, args=(env,))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert env.act(GO).reward.tolist() == [1.0]


@contextlib.contextmanager
def alarm(seconds):
    """Raise TimeoutError, as the usual recipe for time limits does."""

    def ring(*_):
        raise TimeoutError("too slow")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Endless(Chain):
    """Never comes back from a step."""

    def act(self, actions):
        time.sleep(600)


@pytest.mark.parametrize("kind", [ParallelEnv, AsyncEnv])
def test_a_signal_that_raises_an_os_error_is_no_dead_worker(kind, monkeypatch):
    monkeypatch.setattr(worker_rows, "SECONDS_TO_CLOSE", 0.2)
    env = one_row(kind, Endless)
    workers = pids(env)
    env.reset()
    with pytest.raises(TimeoutError, match="too slow"), alarm(1):
        first_step(env)
    assert all(collected(pid) for pid in workers)
    with pytest.raises(errors.ClosedError):
        env.reset()


def test_workers_import_what_this_process_imports(tmp_path, monkeypatch):
    """Neither modules that lie in the working directory, nor entries that import skips."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p] + [tmp_path])
    with ParallelEnv(Chain, 1, 1) as env:
        env.reset()


SCRIPT = """
from enum import Enum
from entity_env import CategoricalActionSpace, ParallelEnv
from support.broken import ragged
from support.tiny_envs import Chain

class Side(str, Enum):
    LEFT = "left"
    RIGHT = "right"

class Game(Chain):
    def action_space(self):
        return {"Go": CategoricalActionSpace(list(Side))}

    def act(self, actions):
        assert actions["Go"].labels == [Side.RIGHT]
        return super().act(actions)

with ParallelEnv(Game, 2, 2) as env:
    env.reset()
    env.act({"Go": ragged([1, 1], [1, 1])})
    print(env.action_space()["Go"].index_to_label[1] is Side.RIGHT)
"""


def test_labels_may_be_of_a_class_of_the_script():
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


class Locked(str):
    """A label that no pickle takes."""

    __slots__ = ("lock",)

    def __reduce__(self):
        raise TypeError("cannot pickle a lock")


class Labelled(Chain):
    def action_space(self):
        return {"Go": CategoricalActionSpace([Locked("left"), Locked("right")])}


def test_spaces_that_cannot_be_sent_are_an_error_of_ours():
    with pytest.raises(errors.EnvironmentFailedError, match="the spaces cannot be sent"):
        ParallelEnv(Labelled, 2, 2)


class Painter(Chain):
    """Draws what it is told."""

    def render(self, draw):
        return draw()


def test_what_render_is_given_may_be_a_lambda_and_what_cannot_be_sent_changes_nothing():
    with ParallelEnv(Painter, 2, 2) as env:
        env.reset()
        assert env.render(draw=lambda: 7) == [7, 7]
        with pytest.raises(errors.EnvironmentFailedError, match="the argument of render cannot be"):
            env.render(draw=threading.Lock())
        assert env.render(draw=lambda: 8) == [8, 8]
