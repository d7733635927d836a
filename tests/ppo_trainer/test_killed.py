"""A training that is killed by SIGKILL goes on bit for bit, with all its networks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support.trainer_runs import assert_same, metrics, saved, small_config

from ppo_trainer import resume, train
from ppo_trainer.config import (
    CheckpointConfig,
    EvalConfig,
    PPOConfig,
    RolloutConfig,
    SelfPlayConfig,
)

MODES = {
    "mirror": SelfPlayConfig(),
    "pool": SelfPlayConfig(mode="pool", past=0.6, every=1, keep=2, opponents=("random",)),
    "population": SelfPlayConfig(mode="population", size=2),
}

SCRIPT = """
import sys
sys.path[:0] = [{tests!r}]
from test_killed import config
from ppo_trainer import train

train(config({folder!r}, {mode!r}, "killed"), callbacks=lambda session: print(
    "updates", session.updates, flush=True))
"""


def config(folder, mode, name):
    return small_config(
        total_timesteps=320,
        rollout=RolloutConfig(num_envs=8, steps=4),
        ppo=PPOConfig(epochs=1, minibatch_size=16),
        run_dir=str(folder),
        run_name=name,
        env={"_target_": "tic_tac_toe"},
        eval=EvalConfig(episodes=0),
        # A kill then comes between a version that was kept and the checkpoint that knows it.
        checkpoint=CheckpointConfig(every=2, keep=1),
        selfplay=MODES[mode],
    )


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_run_ends_as_one_that_was_not(tmp_path, mode):
    train(config(tmp_path, mode, "whole"))
    code = SCRIPT.format(tests=os.path.dirname(__file__), folder=str(tmp_path), mode=mode)
    path = os.pathsep.join(sys.path)
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        while not child.stdout.readline().startswith(b"updates 3"):
            assert child.poll() is None
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    killed = tmp_path / "killed"
    assert metrics(killed)[-1]["update"] < metrics(tmp_path / "whole")[-1]["update"]
    resume(killed)
    assert metrics(tmp_path / "whole") == metrics(killed)
    for policy in ("", "policy_1") if mode == "population" else ("",):
        ours, theirs = (saved(tmp_path / name / policy) for name in ("whole", "killed"))
        for a, b in zip(ours[:2], theirs[:2], strict=True):
            assert_same(a, b)
    facts = [saved(tmp_path / name)[2] for name in ("whole", "killed")]
    assert facts[0]["players"] == facts[1]["players"]
    assert facts[0]["envs"] == facts[1]["envs"]
