"""Kill -9 a training run at random moments and go on with it, again and again.

    python tests/support/kill_resume.py --kills 30

A run saves a checkpoint at every update. A kill may come at any moment of its process: while it
starts, trains, writes a checkpoint, logs, or ends. After each kill the run must resume from its
folder; where it was killed before there was one, it starts anew. A run that came to its end is
compared with one that was never stopped: the records of all updates without a gap, the parameters,
the optimizer, the random numbers and the environments, bit for bit. Then the next run begins, until
all kills are spent. The exit code is 0 if everything held, else 1.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # where the script is run by its path
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

import torch

# What a run imports late, imported once, so that each child starts quickly.
import torch.utils.tensorboard
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from safetensors.torch import load_file

from ppo_trainer import (
    CheckpointConfig,
    EvalConfig,
    PPOConfig,
    RolloutConfig,
    TrainConfig,
    resume,
    train,
)
from ragged_net import NetConfig

UPDATES = 12


class Failure(Exception):
    """Something that must hold did not; the message says what."""


@dataclass(frozen=True)
class Ended:
    """The end of a child process: killed, or by itself after ``seconds``."""

    killed: bool
    seconds: float


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; default: the clock")
    parser.add_argument("--processes", type=int, default=0, help="worker processes of the runs")
    options = parser.parse_args(arguments)
    seed = time.time_ns() % 1_000_000 if options.seed is None else options.seed
    torch.set_num_threads(1)  # before any fork: threads do not survive one
    draw_once()
    print(f"{options.kills} kills, --seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="kill-resume-"))
    try:
        kill_and_compare(folder, options.kills, options.processes, random.Random(seed))
    except Failure as failure:
        print(f"FAILED: {failure}\nwhat it left is in {folder}")
        return 1
    shutil.rmtree(folder)
    print("all runs resumed, and ended as if they had never been stopped")
    return 0


def kill_and_compare(folder: Path, kills: int, processes: int, random_: random.Random) -> None:
    """Spend all kills on as many runs as it takes; raises Failure."""
    config = TrainConfig(
        env={"_target_": "minesweeper", "width": 4, "height": 4, "nmines": 2, "max_steps": 9},
        device="cpu",
        total_timesteps=UPDATES * 24,
        run_dir=str(folder),
        rollout=RolloutConfig(num_envs=4, steps=6, processes=processes),
        net=NetConfig(dim=16, layers=1, heads=2),
        ppo=PPOConfig(epochs=2, minibatch_size=12),
        eval=EvalConfig(episodes=0),
        checkpoint=CheckpointConfig(every=1, keep=2),
    )
    unbroken = run_of(config, "unbroken")
    whole = run_child(unbroken, folder / "unbroken.log", None).seconds
    # Resuming what is finished takes no update: all but the training.
    around = run_child(unbroken, folder / "unbroken.log", None).seconds
    print(
        f"{UPDATES} updates that nobody kills take {whole:.2f} s, {around:.2f} s of it around them"
    )
    done = number = 0
    while done < kills:
        number += 1
        run = run_of(config, f"killed-{number}")
        while True:
            log = folder / f"killed-{number}.log"
            # From the first moment of the process to its last, but at most a quarter of the run.
            left = min(1 - last_update(run) / UPDATES, 0.25)
            window = 1.1 * (around + max(whole - around, 0.0) * left)
            # A run that has done its last update is let through: only its end could be killed.
            kill = done < kills and last_update(run) < UPDATES
            moment = random_.uniform(0, window) if kill else None
            ended = run_child(run, log, moment)
            if not ended.killed:
                break
            done += 1
            print(f"kill {done:>2} of run {number} after {ended.seconds:5.2f} s: {found(run)}")
            sys.stdout.flush()
        compare(Path(unbroken.run_dir) / "unbroken", Path(run.run_dir) / str(run.run_name))
        print(f"run {number} came to its end and equals the unbroken one")


def draw_once() -> None:
    """Find and load the fonts here, not in every child."""
    figure = Figure()
    FigureCanvasAgg(figure)
    figure.add_subplot().set_title("warm")
    figure.savefig(os.devnull, format="png")


def run_of(config: TrainConfig, name: str) -> TrainConfig:
    """The same run under another name."""
    return replace(config, run_name=name)


def path_of(config: TrainConfig) -> Path:
    """Its folder."""
    return Path(config.run_dir) / str(config.run_name)


def run_child(config: TrainConfig, log: Path, kill_after: float | None) -> Ended:
    """Start or resume a run in a fork, and kill it after some seconds if it still runs then."""
    started = time.perf_counter()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            sys.stdout = sys.stderr = os.fdopen(descriptor, "w", buffering=1)
            start_or_resume(config)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    if kill_after is not None:
        time.sleep(max(0.0, kill_after - (time.perf_counter() - started)))
        os.kill(pid, signal.SIGKILL)  # a child that has ended waits for us: the number is still its
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    seconds = time.perf_counter() - started
    if code not in (0, -signal.SIGKILL):
        raise Failure(f"a run did not start or resume; {log} ends with\n{tail(log)}")
    return Ended(code != 0, seconds)


def start_or_resume(config: TrainConfig) -> None:
    """Do what a user would do after a kill."""
    if path_of(config).exists():
        resume(path_of(config))
    else:
        print("nothing there yet: a fresh start")
        train(config)


def found(config: TrainConfig) -> str:
    """Return a text on the files that a kill left."""
    path = path_of(config)
    if not path.exists():
        return "no run folder yet"
    folders = sorted((path / "checkpoints").iterdir())
    saved = [int(f.name.removeprefix("step_")) // 24 for f in folders if f.name[0] != "."]
    half = sum(f.name[0] == "." for f in folders)
    text = f"checkpoints of the updates {saved}"
    text += f", {half} half-written" if half else ""
    lines = (path / "metrics.jsonl").read_text().splitlines() if has_metrics(path) else []
    return f"{text}, {len(lines)} records"


def has_metrics(path: Path) -> bool:
    """Return True if a run has written any."""
    return (path / "metrics.jsonl").is_file()


def last_update(config: TrainConfig) -> int:
    """The update of the newest checkpoint; 0 without one."""
    folders = sorted((path_of(config) / "checkpoints").glob("step_*"))
    return int(folders[-1].name.removeprefix("step_")) // 24 if folders else 0


def compare(unbroken: Path, killed: Path) -> None:
    """Raise Failure unless both runs left the same."""
    records = records_of(killed)
    updates = [record["update"] for record in records]
    if updates != list(range(1, UPDATES + 1)):
        raise Failure(f"{killed}: the records are of the updates {updates}")
    if records != records_of(unbroken):
        raise Failure(f"{killed}: the records differ from those of the unbroken run")
    last = f"checkpoints/step_{UPDATES * 24:012d}"
    for name in ("model.safetensors", "optimizers.safetensors"):
        mine, other = load_file(killed / last / name), load_file(unbroken / last / name)
        if mine.keys() != other.keys():
            raise Failure(f"{killed}: {name} holds other tensors than that of the unbroken run")
        wrong = [key for key in mine if not torch.equal(mine[key], other[key])]
        if wrong:
            raise Failure(f"{killed}: {name} differs from the unbroken run's in {wrong}")
    states = [json.loads((path / last / "state.json").read_text()) for path in (killed, unbroken)]
    if states[0] != states[1]:
        raise Failure(f"{killed}: state.json differs from that of the unbroken run")
    left = [path.name for path in (killed / "checkpoints").iterdir()]
    if len(left) != 2 or any(name.startswith(".") for name in left):
        raise Failure(f"{killed}: kept {left}, not the last two checkpoints")
    if not (killed / "curve.png").is_file():
        raise Failure(f"{killed}: no learning curve")


def records_of(run: Path) -> list[dict[str, Any]]:
    """The records of a run without its times."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if not name.startswith("time/")}
        for line in lines
    ]


def tail(log: Path) -> str:
    """The end of a log."""
    return "\n".join(log.read_text().splitlines()[-25:])


if __name__ == "__main__":
    sys.exit(main())
