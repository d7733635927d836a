"""Lines of metrics.jsonl that are no records are said, kept, and in nobody's way."""

import json

import pytest
from support.trainer_runs import small_config

from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.logger import RunLogger
from ppo_trainer.runs.results import read_metrics

DAMAGED = [
    b"",
    b"\0\0\0\0",
    b'{"update": 3, "steps": 72, "loss": 1.0',
    b'{"steps": 72, "loss": 1.0}',
    b'{"update": "3", "steps": 72}',
    b'{"update": true, "steps": 72}',
    b'{"update": -3, "steps": 72}',
    b'{"update": 3, "steps": 72, "loss": "much"}',
    b'{"update": 3, "steps": 72, "loss": 1e999}',
    b'{"update": 3, "steps": 72, "loss": NaN}',
    b'{"update": 3, "steps": 72, "loss": 1' + b"0" * 400 + b"}",
    b'{"update": 3, "steps": 72, "loss": 1' + b"0" * 5000 + b"}",
    b'{"update": 3, "steps": 72, "loss": [1]}',
    b'[{"update": 3, "steps": 72}]',
    b"[" * 900,
    b"\xff\xfe",
]


@pytest.fixture
def run(tmp_path):
    config = small_config(run_dir=str(tmp_path), run_name="run")
    run = RunFolder.new(config).publish(config)
    with RunLogger(run, config, 0) as log:
        for number in range(1, 6):
            log.write(number, 24 * number, {"loss": 1.0})
    return run


def updates(run):
    return [record["update"] for record in read_metrics(run)]


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_line_is_named_and_the_others_are_read(run, line, capsys):
    lines = run.metrics_file.read_bytes().split(b"\n")
    lines[2] = line
    run.metrics_file.write_bytes(b"\n".join(lines))
    assert updates(run) == [1, 2, 4, 5]
    assert "metrics.jsonl: line 3 is not a record and left out" in capsys.readouterr().err


def test_a_resume_keeps_the_damaged_file_and_goes_on(run, capsys):
    damaged = run.metrics_file.read_bytes().replace(b'{"update": 2', b'{"upd@te": 2')
    for number in ("", "-2"):
        run.metrics_file.write_bytes(damaged)
        with RunLogger(run, small_config(), 4) as log:
            log.write(5, 120, {"loss": 0.5})
        said = capsys.readouterr().err
        aside = run.path / f"metrics.damaged{number}.jsonl"
        assert f"line 2 is no record; the file is kept: {aside}" in said
        assert aside.read_bytes() == damaged
        assert updates(run) == [1, 3, 4, 5]
        assert capsys.readouterr().err == ""
    assert read_metrics(run)[-1]["loss"] == 0.5


def test_a_line_that_a_kill_has_cut_is_nothing_to_speak_of(run, capsys):
    whole = run.metrics_file.read_bytes()
    run.metrics_file.write_bytes(whole[:-9])
    assert updates(run) == [1, 2, 3, 4]
    with RunLogger(run, small_config(), 5) as log:
        log.write(5, 120, {"loss": 0.5})
    assert updates(run) == [1, 2, 3, 4, 5]
    run.metrics_file.write_bytes(whole[:-1])  # all but the end of the line
    with RunLogger(run, small_config(), 5) as log:
        log.write(6, 144, {"loss": 0.5})
    assert updates(run) == [1, 2, 3, 4, 5, 6]
    assert capsys.readouterr().err == ""
    assert not list(run.path.glob("*damaged*"))


def test_records_are_kept_to_the_letter(run):
    lines = run.metrics_file.read_bytes().splitlines(keepends=True)
    RunLogger(run, small_config(), 3).__exit__()
    assert run.metrics_file.read_bytes() == b"".join(lines[:3])


def test_files_of_tensorboard_have_names_that_nobody_can_foresee(run):
    first = {file.name for file in run.path.glob("events.out.tfevents.*")}
    RunLogger(run, small_config(), 5).__exit__()
    second = {file.name for file in run.path.glob("events.out.tfevents.*")} - first
    suffixes = {name.rpartition(".")[2] for name in first | second}
    assert len(first) == len(second) == 1
    assert len(suffixes) == 2
    assert all(len(suffix) == 16 and int(suffix, 16) >= 0 for suffix in suffixes)


def test_wandb_writes_through_no_link(run, tmp_path):
    pytest.importorskip("wandb")
    (tmp_path / "target").mkdir()
    (run.path / "wandb").symlink_to(tmp_path / "target")
    config = small_config(wandb={"mode": "offline"})
    with pytest.raises(ValueError, match="wandb is a link"):
        RunLogger(run, config, 5)
    assert not list((tmp_path / "target").iterdir())
    assert json.loads(run.metrics_file.read_text().splitlines()[-1])["update"] == 5
