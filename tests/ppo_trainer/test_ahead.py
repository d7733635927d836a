"""Another process compiles the kernels of a training step, and nobody notices but by the clock."""

import os
import pickle
import subprocess
import sys
import time

import pytest

pytest.importorskip("numba")

from entity_env import (
    CategoricalActionSpace,
    Discrete,
    Entity,
    GlobalCategoricalActionSpace,
    ObsSpace,
    SelectEntityActionSpace,
)
from ppo_trainer.machine import compile_ahead as ahead
from ragged_net import NetConfig

SPACES = (
    ObsSpace(entities={"Unit": Entity(["x", Discrete("kind", 3)]), "Rock": Entity(["x"])}),
    {
        "Move": CategoricalActionSpace(["left", "right"]),
        "Aim": SelectEntityActionSpace(),
        "Speed": GlobalCategoricalActionSpace(["slow", "fast"]),
    },
)


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, **options
    )


def test_a_step_goes_without_all_kernels_but_those_of_indices():
    code = (
        "import inspect, pickle, sys\n"
        "from ppo_trainer.machine import compile_ahead as ahead\n"
        "from ragged_net import NetConfig, RaggedNet\n"
        "from ragged_net import kernels\n"
        "spaces = pickle.load(sys.stdin.buffer)\n"
        "ways = NetConfig(dim=32), NetConfig(dim=24)\n"
        "nets = [RaggedNet(*spaces, way) for way in ways]\n"
        "calls = ahead._postponed(lambda: [ahead._step(net) for net in nets])\n"
        "left_out = {inspect.unwrap(call.func).__self__ for call in calls}\n"
        "modules = [module for name, module in sys.modules.items() if '.kernels.' in name]\n"
        "things = {thing for module in modules for thing in vars(module).values()\n"
        "          if kernels.load('jit').is_kept(thing)}\n"
        "print(*sorted(kernel.py_func.__name__ for kernel in left_out))\n"
        "print(*{thing.__module__.split('.')[-1] for thing in things if thing.overloads})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(SPACES), capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    left_out, ran = done.stdout.decode().splitlines()
    assert left_out.split() == [
        "add_table", "add_table_gradient", "attend_backward",
        "attend_forward", "block_backward", "block_forward", "choose", "choose_backward",
        "norm_backward", "norm_forward", "project", "project_backward", "relu_linear_backward",
        "relu_linear_forward", "select_backward", "select_forward",
    ]  # fmt: skip
    assert set(ran.split()) == {"indices", "plan"}


def test_the_other_process_keeps_what_it_compiles_and_ends_with_the_block(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    processes = []
    start = ahead.start_helper
    monkeypatch.setattr(
        ahead, "start_helper", lambda *words: processes.append(start(*words)) or processes[0]
    )
    with ahead.compiling_ahead(*SPACES, NetConfig(dim=32, layers=1)):
        (process,) = processes
        while not list(tmp_path.rglob("embed.project_backward*.nbi")):
            assert process.poll() is None, "it ended without compiling"
            time.sleep(0.05)
        assert not list(tmp_path.rglob("embed.project-*.nbi"))  # the first of a step is the last
    assert process.returncode is not None


def test_the_other_process_ends_with_this_one():
    code = (
        "import sys, threading, time\n"
        "from ppo_trainer.machine import helper_process\n"
        "threading.Thread(target=helper_process._end_with_parent, daemon=True).start()\n"
        "time.sleep(60)\n"
        "sys.exit('it lives on')\n"
    )
    done = python(code, stdin=subprocess.DEVNULL)  # at its end, as when its writer has died
    assert done.returncode == 0, done.stderr


def test_where_nothing_can_be_started_everything_goes_on(monkeypatch):
    class Stubborn(ObsSpace):
        def __reduce_ex__(self, protocol):
            raise RuntimeError("never to be pickled")

    with ahead.compiling_ahead(Stubborn(), SPACES[1]):
        pass
    monkeypatch.setattr(sys, "executable", os.devnull)
    with ahead.compiling_ahead(*SPACES):
        pass
    monkeypatch.setattr(sys, "executable", "/bin/true")  # gone before it reads anything
    with ahead.compiling_ahead(*SPACES):
        pass


def test_what_is_raised_within_comes_out():
    with pytest.raises(ZeroDivisionError), ahead.compiling_ahead(*SPACES):
        raise ZeroDivisionError
