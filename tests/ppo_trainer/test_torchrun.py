"""``torchrun -m ppo_trainer``: real processes, one of which is killed."""

import json
import os
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
    "eval.episodes=0 checkpoint.every=2 net.dim=16 net.layers=1 run_name=run device=cpu"
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


def kill_second(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Kill the process of rank 1 when some updates are done."""
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
    os.kill(next(int(child) for child, rank in ranks.items() if rank == "1"), signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("scale", ["local", "ascend"])
def test_a_killed_process_ends_the_run_or_all_start_again(tmp_path, restarts, scale):
    settings = SETTINGS
    if scale == "ascend":
        pytest.importorskip("ray")
        settings += " scale=ascend scale.worlds=1"
    process = torchrun(tmp_path, settings, f"--max-restarts={restarts}")
    kill_second(tmp_path, process)
    text, _ = process.communicate(timeout=120)
    done = steps(tmp_path)
    if restarts:
        assert process.returncode == 0, text
        assert "resuming" in text
        assert done == list(range(30, 601, 30))
    else:
        assert process.returncode != 0, text
        assert len(done) >= 3
        assert any((tmp_path / "runs" / "run" / "checkpoints").iterdir())
        if scale == "local":  # torchrun may kill a process that takes long to leave Ray
            assert "another process of this training has ended" in text
            assert "resume=runs/run" in text
