"""``python -m ppo_trainer`` as a user types it: few runs, since each start costs seconds."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file
from support.commands import run_here
from support.trainer_runs import metrics

from entity_env.errors import SettingError
from ppo_trainer.__main__ import main
from ppo_trainer.machine.commands import python_command, run_main, training_command
from ppo_trainer.training.curve import draw_curve

ROOT = Path(__file__).parents[2]
TINY = [
    "env=minesweeper",
    "env.width=3",
    "env.height=3",
    "env.nmines=1",
    "env.max_steps=6",
    "rollout.num_envs=8",
    "rollout.steps=6",
    "ppo.minibatch_size=24",
    "net.dim=16",
    "net.layers=1",
    "net.heads=2",
    "device=cpu",
    "threads=1",
]

pytestmark = pytest.mark.slow


def environment():
    """No terminal, no network (a proxy that is not there), this checkout."""
    paths = [str(ROOT), str(ROOT / "tests")]
    nowhere = "http://127.0.0.1:9"
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("WANDB")},
        "PYTHONPATH": os.pathsep.join(paths),
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "WANDB_BASE_URL": nowhere,
    }


def trainer(*arguments, cwd, **variables):
    return subprocess.run(
        [sys.executable, "-m", "ppo_trainer", *arguments],
        cwd=cwd,
        env=environment() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two runs, one for each seed, as ``-m seed=1,2`` makes them; and what was printed."""
    folder = tmp_path_factory.mktemp("sweep")
    settings = [*TINY, "seed=1,2", "total_timesteps=144", "eval.episodes=20"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ppo_trainer.training.report.draw_curve", draw_curve)
        done = run_here("ppo_trainer", "-m", *settings, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done


def runs_of(folder):
    return sorted(path for path in (folder / "runs").iterdir() if path.is_dir())


def test_a_sweep_ends_with_a_table_of_its_runs(sweep):
    folder, done = sweep
    names, *rows = done.stdout.rstrip().splitlines()[-3:]
    assert names.split() == ["seed", "win", "reward", "length", "steps", "run"]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert [folder / row.split()[-1] for row in rows] == runs_of(folder)
    for row, run in zip(rows, runs_of(folder), strict=True):
        players = json.loads((run / "evaluation.json").read_text())["players"]
        assert row.split()[1] == f"{players[0]['win']['mean']:.3f}"


def test_a_sweep_makes_one_run_for_each_seed(sweep):
    folder, _ = sweep
    runs = runs_of(folder)
    configs = [yaml.safe_load((run / "config.yaml").read_text()) for run in runs]
    assert sorted(config["seed"] for config in configs) == [1, 2]
    assert metrics(runs[0]) != metrics(runs[1])
    assert {p.name for p in folder.iterdir()} == {"runs"}


def test_the_run_folder_holds_everything(sweep):
    folder, _ = sweep
    run = runs_of(folder)[0]
    names = {p.name for p in run.iterdir()}
    (events,) = [name for name in names if name.startswith("events.out.tfevents")]
    assert names - {events} == {
        "checkpoints",
        "config.signature",
        "config.yaml",
        "curve.png",
        "evaluation.json",
        "metrics.jsonl",
        "spaces.json",
    }
    assert [r["update"] for r in metrics(run)] == [1, 2, 3]
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    players = json.loads((run / "evaluation.json").read_text())["players"]
    assert [p["player"] for p in players] == [
        "agent, greedy",
        "agent, sampled",
        "scripted player",
        "random play",
    ]
    last = run / "checkpoints" / "step_000000000144"
    assert {p.name for p in last.iterdir()} == {
        "model.safetensors",
        "optimizers.safetensors",
        "state.json",
    }
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["env"]["width"] == 3
    assert config["resume"] is None


def test_what_a_run_prints(sweep):
    folder, done = sweep
    text = done.stdout
    run = runs_of(folder)[0]
    assert f"runs/{run.name}" in text
    assert "144 / 144 steps" in text
    assert "steps/s" in text
    assert "win rate" in text
    for player in ("agent, greedy", "agent, sampled", "scripted player", "random play"):
        assert player in text
    for line in ("ppo_trainer.watch", "resume=", "env._target_="):
        assert line in text
    assert "curve.png" in text
    assert "step_000000000144" in text
    assert "\x1b[" not in text, "plain lines where there is no terminal"
    assert "Traceback (most" not in done.stderr


def test_help_shows_how_to_start_and_where_the_settings_are(tmp_path):
    done = run_here("ppo_trainer", "--help", cwd=tmp_path)
    assert done.returncode == 0
    for part in (
        "python -m ppo_trainer env=minesweeper",
        "resume=",
        "-m seed=1,2,3",
        "ppo_trainer.watch",
        "--show",
        "--help ppo.gamma",
        "minesweeper",
    ):
        assert part in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_show_prints_what_this_command_would_train_with(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = ["env._target_=support.richer_envs.Richer", "optim.lr=1e-4", "--show"]
    monkeypatch.setattr("sys.argv", ["ppo_trainer", *own])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert "* optim.lr=0.0001" in lines
    assert "  rollout.num_envs=128" in lines
    assert "  net.value_norm=popart" in lines
    monkeypatch.setattr("sys.argv", ["ppo_trainer", "env=minesweeper", "--show"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert "* net.dim=32" in lines
    assert "* env.nmines=5" in lines
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("sys.argv", ["ppo_trainer", "seed=1,2", "-m", "--show"])
    with pytest.raises(SettingError, match="--show shows the settings of one run"):
        main()


def test_show_names_the_positions_that_a_run_would_find(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["env._target_=ragged_envs.tic_tac_toe.TicTacToe", "--show"]
    monkeypatch.setattr("sys.argv", ["ppo_trainer", *words])
    main()
    text = capsys.readouterr().out
    assert "* net.relative_position={" in text
    assert "Cell: [x, y]" in text


def test_a_misspelt_setting_exits_with_1_and_without_a_traceback(tmp_path):
    done = run_here("ppo_trainer", "total_timestep=5", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("SettingError: unknown setting 'total_timestep'")
    assert "did you mean 'total_timesteps'?" in done.stderr
    assert "Traceback (most" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_environment_of_one_s_own_trains_by_its_path_with_workers(tmp_path):
    (tmp_path / "my_game.py").write_text(
        "from support.trainer_envs import SavedForaging\nclass MyGame(SavedForaging):\n    pass\n"
    )
    own = [a for a in TINY if not a.startswith("env")]
    done = run_here(
        "ppo_trainer",
        "env._target_=my_game.MyGame",
        "env.length=4",
        *own,
        "total_timesteps=48",
        "eval.episodes=4",
        "rollout.processes=2",
        "run_name=mine",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert metrics(tmp_path / "runs" / "mine")[0]["episodic_length"] == 4
    assert "scripted player" not in done.stdout


def test_ctrl_c_saves_says_how_to_go_on_and_the_run_goes_on(tmp_path):
    arguments = [*TINY, "total_timesteps=4800000", "eval.episodes=0", "run_name=run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ppo_trainer", *arguments, "checkpoint.every=1000000"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    file = tmp_path / "runs" / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (file.is_file() and file.read_text().count("\n") >= 2):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback (most" not in errors
    assert "finishing this update" in errors
    assert " -m ppo_trainer resume=runs/run" in output

    done = len(metrics(tmp_path / "runs" / "run"))
    saved = sorted((tmp_path / "runs" / "run" / "checkpoints").glob("step_*"))[-1]
    assert saved.name == f"step_{48 * done:012d}", "the last update is saved"
    before = load_file(saved / "model.safetensors")

    longer = f"total_timesteps={48 * (done + 2)}"
    resumed = run_here("ppo_trainer", "resume=runs/run", longer, "checkpoint.keep=9", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert f"at step {48 * done:,}" in resumed.stdout
    records = metrics(tmp_path / "runs" / "run")
    assert [r["update"] for r in records] == list(range(1, done + 3))
    config = yaml.safe_load((tmp_path / "runs" / "run" / "config.yaml").read_text())
    assert config["env"]["width"] == 3, "the settings are those of the run"
    last = sorted((tmp_path / "runs" / "run" / "checkpoints").glob("step_*"))[-1]
    after = load_file(last / "model.safetensors")
    assert any(not after[name].equal(before[name]) for name in before)


def test_a_run_whose_output_nobody_reads_saves_and_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "ppo_trainer", *TINY, "total_timesteps=96_000"]
    with subprocess.Popen(
        [*command, "run_name=unread", "eval.episodes=0"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while " steps" not in process.stdout.readline():
            pass
        process.stdout.close()  # as head does
        said = process.stderr.read()
    assert process.returncode == 1
    assert "nobody reads its output; it is saved" in said
    assert "-m ppo_trainer resume=runs/unread" in said
    assert "Traceback (most" not in said
    assert "Exception ignored" not in said
    last = max((tmp_path / "runs/unread/checkpoints").glob("step_*"))
    assert 0 < int(last.name.removeprefix("step_")) < 96_000


@pytest.mark.parametrize(
    ("machines", "flags"), [("1", "--nproc-per-node=4"), ("2", "--nproc-per-node=4 --nnodes=2 ...")]
)
def test_a_run_of_several_processes_resumes_with_as_many(monkeypatch, machines, flags):
    assert training_command() == f"{python_command()} -m ppo_trainer"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("GROUP_WORLD_SIZE", machines)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    expected = f"{python_command()} -m torch.distributed.run {flags} -m ppo_trainer"
    assert training_command() == expected


@pytest.mark.parametrize(("printing", "code"), [("print(1)", 0), ("print(1, flush=True)", 1)])
def test_a_command_whose_output_nobody_reads_does_not_complain(printing, code):
    reader, writer = os.pipe()
    os.close(reader)
    script = f"from ppo_trainer.machine.commands import run_main; run_main(lambda: {printing})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment(), "PYTHONUNBUFFERED": ""},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_a_stream_did_not_take_is_dropped_at_the_end(name, monkeypatch):
    """Else Python would end with status 120."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        stream.write("lost")
        monkeypatch.setattr(sys, name, stream)
        run_main(lambda: None)
        stream.flush()  # to nowhere


def test_wandb_online_without_an_account_stops_before_there_is_a_run_folder(tmp_path):
    pytest.importorskip("wandb")
    (tmp_path / "home").mkdir()
    done = trainer(*TINY, "wandb.mode=online", cwd=tmp_path, HOME=str(tmp_path / "home"))
    assert done.returncode == 1
    assert "SettingError: W&B cannot be reached" in done.stderr
    assert "wandb.mode=offline" in done.stderr
    assert "Traceback (most" not in done.stderr
    assert not (tmp_path / "runs").exists()


@contextlib.contextmanager
def ended_after(process, seconds=300.0):
    """Kill a process at the end, or after ``seconds``, so that nobody waits for its output."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def send_until_it_ends(process, number):
    """Send a signal again and again: signals that arrive together count as one."""
    while process.poll() is None:
        time.sleep(0.5)
        process.send_signal(number)


LONG_KERNEL = """
import signal
import numpy as np
from numba import njit
from ppo_trainer.machine import interrupt

interrupt._PATIENCE = 0.5
signal.signal(signal.SIGUSR1, lambda *_: None)

@njit(nogil=True)
def long(wait):
    while wait[0]:
        wait[1] += 1

long(np.zeros(2))
def update():
    print("begun", flush=True)
    long(np.ones(2))

with interrupt.Interrupt() as asked:
    asked.finish(update)
"""


def test_a_second_signal_ends_what_is_in_a_kernel():
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_KERNEL],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended_after(process):
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "\n"
        assert "press Ctrl-C again to stop at once" in process.stderr.readline()
        process.send_signal(signal.SIGUSR1)
        send_until_it_ends(process, signal.SIGINT)
        assert process.returncode == 130
        told = "stopped in the middle of an update; the last checkpoint is complete\n"
        assert process.stderr.read() == told
