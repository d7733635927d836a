"""A screen that fails never costs work: neither a run, nor its evaluation."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.trainer_envs import Foraging
from support.trainer_runs import metrics, small_config

from ppo_trainer import EvalConfig, train
from ppo_trainer.machine.screen import Screen, deliver, log, warn
from ppo_trainer.reporting.progress import RunProgress
from ppo_trainer.reporting.recent_episodes import RecentEpisodes

ROOT = Path(__file__).parents[2]


class OnlyWrites:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


class Fails(io.StringIO):
    """A terminal that is gone, or a disk that is full."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def isatty(self):
        return True

    def write(self, text):
        raise self.error

    def flush(self):
        raise self.error


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


BROKEN = {
    "missing": lambda: None,
    "closed": closed,
    "no stream": object,
    "full disk": lambda: Fails(OSError(28, "No space left on device")),
    "terminal gone": lambda: Fails(OSError(5, "Input/output error")),
    "somebody's own": lambda: Fails(RuntimeError("lost")),
    "only write": OnlyWrites,
    "ascii": lambda: io.TextIOWrapper(io.BytesIO(), encoding="ascii"),
}


@pytest.mark.parametrize("kind", ["missing", "closed", "full disk", "only write", "ascii"])
def test_a_run_and_its_evaluation_do_not_need_a_screen(kind, monkeypatch, tmp_path):
    config = small_config(
        run_dir=str(tmp_path), run_name="süß", eval=EvalConfig(episodes=2, max_steps=5)
    )
    monkeypatch.setattr("sys.stdout", BROKEN[kind]())
    monkeypatch.setattr("sys.stderr", BROKEN[kind]())
    result = train(config, env=Foraging)
    monkeypatch.undo()
    assert (result.steps, result.interrupted) == (144, False)
    assert [player.episodes for player in result.evaluations] == [2, 2, 2]
    assert (tmp_path / "süß" / "evaluation.json").is_file()
    assert len(metrics(tmp_path / "süß")) == 6


def test_what_a_screen_can_show_is_shown(monkeypatch):
    only = OnlyWrites()
    monkeypatch.setattr("sys.stdout", only)
    log("a line")
    log()
    assert only.text == "a line\n\n"
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stderr", ascii_only)
    warn("süß 🍒")
    assert ascii_only.buffer.getvalue() == b"s\\xfc\\xdf \\U0001f352\n"


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_broken_streams_are_forgiven(make):
    screen = Screen(make(), is_read=True)
    screen.write("text")
    screen.flush()
    assert screen.isatty() in (True, False)
    assert "x".encode(screen.encoding) == b"x"


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_what_a_command_was_called_for_is_never_lost(make, monkeypatch, capsys):
    stream = make()
    monkeypatch.setattr("sys.stdout", stream)
    if isinstance(stream, (OnlyWrites, io.TextIOWrapper)):
        deliver("the results")
        assert capsys.readouterr().err == ""
    else:
        with pytest.raises(SystemExit) as ended:
            deliver("the results")
        assert ended.value.code == 1
        assert capsys.readouterr().err == "the results\n"


def test_a_reader_that_has_had_enough_ends_only_what_is_for_him(monkeypatch):
    monkeypatch.setattr("sys.stdout", Fails(BrokenPipeError()))
    monkeypatch.setattr("sys.stderr", Fails(BrokenPipeError()))
    log("said")
    warn("said")
    with pytest.raises(BrokenPipeError):
        log("for a reader", is_read=True)


@pytest.mark.filterwarnings("error")  # what the bar's own thread raises is one
def test_the_bar_outlives_its_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdout", Fails(OSError(5, "Input/output error")))
    with RunProgress(0, 96, RecentEpisodes(4)) as progress:
        progress.show(48, {})
        progress.show(96, {})


TINY = ["env=xor", "total_timesteps=2048", "eval.episodes=4", "device=cpu", "run_name=run"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_command_without_a_screen_ends_well(tmp_path):
    command = f'"{sys.executable}" -m ppo_trainer {" ".join(TINY)} rollout.processes=2'
    code = f"exec {command} <&- >&- 2>&-"
    variables = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run(
        ["sh", "-c", code],
        cwd=tmp_path,
        env={**os.environ, **variables, "PYTHONUNBUFFERED": ""},
        check=False,
    )
    assert done.returncode == 0
    assert (tmp_path / "runs" / "run" / "evaluation.json").is_file()
