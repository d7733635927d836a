"""``torchrun -m ppo_trainer``: real processes, one of which is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist

pytestmark = [
    pytest.mark.platforms,
    pytest.mark.skipif(not dist.is_gloo_available(), reason="torch has no gloo"),
    pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL"),
]
SETTINGS = (
    "env=xor total_timesteps=600 rollout.num_envs=6 rollout.steps=5 ppo.minibatch_size=15 "
    "eval.episodes=0 checkpoint.every=100 net.dim=16 net.layers=1 run_name=run device=cpu"
)


def torchrun(folder: Path, settings: str, *flags: str) -> "subprocess.Popen[str]":
    """Begin a run of two processes in a folder."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", *flags, "-m", "ppo_trainer", *settings.split()]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def steps(folder: Path) -> list[int]:
    """The steps of all updates that are in the log."""
    file = folder / "runs" / "run" / "metrics.jsonl"
    if not file.exists():
        return []
    lines = file.read_text().splitlines()
    return [json.loads(line)["steps"] for line in lines]


def kill_one(folder: Path, process: "subprocess.Popen[str]", killed: int) -> int:
    """Kill the process of a rank when some updates are done, and return their steps."""
    while len(steps(folder)) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ranks = {
        child: dict(
            entry.split("=", 1)
            for entry in Path(f"/proc/{child}/environ").read_text().split("\0")
            if "=" in entry
        ).get("RANK")
        for child in children
    }
    done = steps(folder)[-1]
    number = next(int(child) for child, rank in ranks.items() if rank == str(killed))
    os.kill(number, signal.SIGKILL)
    return done


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("scale", "killed", "restarts"),
    [
        ("local", 1, 0),
        ("local", 1, 1),
        ("local", 0, 1),
        ("ascend", 1, 0),
        ("ascend", 1, 1),
        ("rapid", 0, 1),
        ("rapid", 1, 1),
    ],
)
def test_a_killed_process_ends_the_run_or_all_start_again(tmp_path, restarts, scale, killed):
    settings = SETTINGS
    if scale != "local":
        pytest.importorskip("ray")
        settings += f" scale={scale} scale.worlds={1 if scale == 'ascend' else 2} scale.cpus=0.1"
        # torchrun ends Ray, too, which may end the process that is left before it saves.
        settings = settings.replace("every=100", "every=2")
    process = torchrun(tmp_path, settings, f"--max-restarts={restarts}")
    before, lost = kill_one(tmp_path, process, killed), 30 if scale == "local" else 60
    text, _ = process.communicate(timeout=300)
    done = steps(tmp_path)
    if restarts:
        assert process.returncode == 0, text
        resumed = re.search(r"resuming .* at step ([\d,]+)", text)
        assert resumed is not None, text
        assert int(resumed[1].replace(",", "")) >= before - lost
        assert done == list(range(30, 601, 30))
    else:
        assert process.returncode != 0, text
        assert len(done) >= 3
        assert any((tmp_path / "runs" / "run" / "checkpoints").iterdir())
        if scale == "local":  # torchrun may kill a process that takes long to leave Ray
            assert "another process of this training has ended" in text
            assert "resume=runs/run" in text
