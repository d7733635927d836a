"""Whatever asks a run to end saves it within seconds, from any phase."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.trainer_envs import SavedForaging
from support.trainer_runs import assert_same_checkpoint, checkpoints, run_named, saved, small_config

import ppo_trainer.machine.interrupt
from ppo_trainer import EvalConfig, train
from ppo_trainer.machine.interrupt import Interrupt, Interrupted

ROOT = Path(__file__).parents[2]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
TAKEN = [*SIGNALS, signal.SIGURG]


@pytest.fixture(autouse=True)
def _handlers_are_restored():
    before = [signal.getsignal(number) for number in TAKEN]
    yield
    assert [signal.getsignal(number) for number in TAKEN] == before


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path))


def send(number):
    os.kill(os.getpid(), number)


class Signalled(SavedForaging):
    """Sends a signal in one phase of a run, once; with ``hangs`` it then never returns."""

    phase, number, hangs, made, waits = "", signal.SIGINT, False, 0, 0

    def __init__(self):
        super().__init__()
        type(self).made += 1
        self._at("opening")

    def reset(self):
        self._at("reset")
        return super().reset()

    def act(self, actions):
        self._at("training" if type(self).made <= 4 else "evaluation")
        return super().act(actions)

    def get_state(self):
        self._at("saving")
        return super().get_state()

    def _at(self, phase):
        kind = type(self)
        if kind.phase == phase:
            kind.waits -= 1
            if kind.waits == 0:
                send(kind.number)
                while kind.hangs:
                    time.sleep(0.01)


def signalled(phase, number=signal.SIGTERM, waits=1, hangs=False):
    options = {"phase": phase, "number": number, "waits": waits, "hangs": hangs}
    return type("SignalledHere", (Signalled,), options)


@pytest.mark.parametrize("number", SIGNALS)
def test_each_signal_breaks_off_what_waits(number):
    with Interrupt() as interrupt:
        assert interrupt.attempt(lambda: (send(number), time.sleep(600))) is None
    assert interrupt.requested


def test_in_the_middle_of_an_update_it_is_finished_first(config):
    """The 60th of 4 * 6 steps each: in the third update."""
    stopped = train(config, env=signalled("training", signal.SIGHUP, waits=60))
    assert (stopped.interrupted, stopped.steps) == (True, 72)
    whole = train(replace(config, total_timesteps=144), env=SavedForaging, stop=lambda n: n == 3)
    assert_same_checkpoint(stopped.run, whole.run)


@pytest.mark.parametrize("phase", ["opening", "reset"])
def test_before_there_is_anything_to_save_nothing_is_left(config, tmp_path, phase):
    with pytest.raises(KeyboardInterrupt):
        train(config, env=signalled(phase, hangs=True))
    assert list(tmp_path.iterdir()) == []


def test_while_it_saves_that_is_finished(config):
    # Four rows at 0 steps, and each time one that is asked whether it has a state at all.
    stopped = train(config, env=signalled("saving", waits=(1 + 4) + 2))
    assert (stopped.interrupted, stopped.steps) == (True, 48)
    assert saved(stopped.run)[2]["update"] == 2


def test_an_evaluation_meanwhile_is_broken_off(config):
    config = replace(config, eval=EvalConfig(episodes=0, every=2))
    stopped = train(config, env=signalled("evaluation", signal.SIGINT, hangs=True))
    assert (stopped.interrupted, stopped.steps) == (True, 48)
    assert saved(stopped.run)[2]["update"] == 2


def test_the_evaluation_at_the_end_is_broken_off(config, capsys):
    config = replace(config, eval=EvalConfig(episodes=8))
    stopped = train(config, env=signalled("evaluation", hangs=True))
    assert (stopped.interrupted, stopped.steps, stopped.evaluations) == (True, 144, [])
    assert saved(stopped.run)[2]["update"] == 6
    said = capsys.readouterr().out
    assert "stopped at step 144, saved; to resume:" in said
    assert "watch it play" not in said


def test_a_signal_in_the_last_update_leaves_the_evaluation_out(config):
    config = replace(config, eval=EvalConfig(episodes=8))
    stopped = train(config, env=signalled("training", waits=140))
    assert (stopped.interrupted, stopped.steps, stopped.evaluations) == (True, 144, [])


@pytest.mark.parametrize("processes", [0, 2])
def test_an_update_that_does_not_end_is_left_and_the_state_before_it_saved(
    config, processes, monkeypatch
):
    monkeypatch.setattr(ppo_trainer.machine.interrupt, "SECONDS_TO_FINISH", 0.3)
    monkeypatch.setattr("entity_env.workers.worker_rows.SECONDS_TO_CLOSE", 0.1)
    config = replace(config, rollout=replace(config.rollout, processes=processes))
    config, run = run_named(config, "run")
    if processes:  # the worker hangs; this process waits for it
        stopped = train(config, env=Hanging)
    else:
        stopped = train(config, env=signalled("training", waits=90, hangs=True))
        assert stopped.steps == 72
    assert stopped.interrupted
    assert saved(run)[2]["steps"] == stopped.steps
    whole = train(replace(config, run_name="whole"), env=SavedForaging)
    resumed = train(replace(config, resume=str(run), run_name=None), env=SavedForaging)
    assert (resumed.steps, resumed.interrupted) == (144, False)
    assert_same_checkpoint(resumed.run, whole.run)


class Hanging(SavedForaging):
    """Sends a signal to the trainer in its second step, and hangs."""

    def act(self, actions):
        if self.step == 1:
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(600)
        return super().act(actions)


def test_two_signals_of_one_cause_are_one(config):
    class Twice(Signalled):
        phase, waits = "training", 60

        def _at(self, phase):
            before = type(self).waits
            super()._at(phase)
            if type(self).waits == 0 and before == 1:
                send(signal.SIGHUP)

    stopped = train(config, env=Twice)
    assert (stopped.interrupted, stopped.steps) == (True, 72)


def test_a_second_signal_stops_at_once(config):
    def twice(updates):
        if updates == 3:
            send(signal.SIGTERM)
            time.sleep(ppo_trainer.machine.interrupt._ONE_CAUSE + 0.1)
            send(signal.SIGINT)
        return False

    config, run = run_named(config, "run")
    with pytest.raises(KeyboardInterrupt) as caught:
        train(config, env=SavedForaging, stop=twice)
    assert not isinstance(caught.value, Interrupted)
    assert checkpoints(run)[-1].name == f"step_{48:012d}"


def test_no_alarm_of_ray_ends_the_run_before_it_is_saved():
    """Ray's own handler of SIGTERM sets one, and then calls the handler from before."""

    def update():
        signal.alarm(60)
        send(signal.SIGTERM)
        for _ in range(300):
            if not (left := signal.getitimer(signal.ITIMER_REAL)[0]):
                break
            time.sleep(0.01)
        signal.alarm(0)
        return left

    with Interrupt() as interrupt:
        assert interrupt.finish(update) == 0


def test_nohup_is_respected(config):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = train(config, env=signalled("training", signal.SIGHUP, waits=60))
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (done.interrupted, done.steps) == (False, 144)


def test_in_another_thread_a_run_trains_as_ever(config):
    results = []
    thread = threading.Thread(target=lambda: results.append(train(config, env=SavedForaging)))
    thread.start()
    thread.join()
    assert (results[0].steps, results[0].interrupted) == (144, False)


def test_what_catches_the_exception_is_broken_off_again(monkeypatch):
    monkeypatch.setattr(ppo_trainer.machine.interrupt, "_AGAIN", 0.3)
    caught = []

    def stubborn():
        while True:
            try:
                if not caught:
                    send(signal.SIGTERM)
                time.sleep(600)
            except BaseException as error:
                caught.append(error)
                if len(caught) == 3:
                    raise

    with Interrupt() as interrupt:
        assert interrupt.attempt(stubborn) is None
    assert [type(error) for error in caught] == [Interrupted] * 3


def test_what_a_c_library_swallows_is_raised_again_and_not_told(monkeypatch):
    """As LLVM does, which calls Python while it compiles."""
    monkeypatch.setattr(ppo_trainer.machine.interrupt, "_AGAIN", 0.2)
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    swallowed = ctypes.CFUNCTYPE(None)(lambda: send(signal.SIGTERM))
    other = ctypes.CFUNCTYPE(None)(lambda: 1 / 0)

    def compiles():
        swallowed()
        other()
        for _ in range(200):
            time.sleep(0.05)
        return "not broken off"

    with Interrupt() as interrupt:
        assert interrupt.attempt(compiles) is None
    assert [what.exc_type for what in told] == [ZeroDivisionError]
    assert sys.unraisablehook == told.append


ACTING = """
from support.trainer_envs import Foraging


class Acting(Foraging):
    def act(self, actions):
        print("acting", flush=True)
        return super().act(actions)
"""
COMPILING = [
    "env._target_=acting.Acting", "eval.episodes=0", "device=cpu", "run_name=run",
    "find_positions=false",  # it plays before there is a run
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.platforms
def test_in_the_first_compilation_it_ends_within_seconds(tmp_path):
    (tmp_path / "acting.py").write_text(ACTING)
    paths = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    process = subprocess.Popen(
        [sys.executable, "-m", "ppo_trainer", *COMPILING],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    limit = threading.Timer(300.0, process.kill)  # reading has none
    limit.start()
    # The rest of the first update compiles the kernels of gradients.
    while not (line := process.stdout.readline()).startswith("acting"):
        assert line, process.stderr.read()
    os.killpg(process.pid, signal.SIGHUP)
    out, err = process.communicate()
    limit.cancel()
    assert process.returncode == 130, err
    assert "to resume:" in out
    assert "Traceback (most" not in err
    # On a busy machine, the kernel that compiles may outlast the seconds that the run has to save
    # step 0 again; a fast one may end the update.
    assert checkpoints(tmp_path / "runs/run")[0].name == f"step_{0:012d}"
