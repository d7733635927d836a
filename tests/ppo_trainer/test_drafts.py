"""Remains of killed starts, which the next start removes."""

import os
import subprocess
import sys
import time

import pytest
from support.trainer_runs import small_config

from entity_env.storage.files import lock
from ppo_trainer import train
from ppo_trainer.runs.drafts import draft_name, remove_drafts
from ppo_trainer.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks and processes of POSIX")


def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def draft(folder, pid=None, host=None, age=0.0):
    """The name that a start gave its draft."""
    own_host = draft_name().rpartition("-")[0].rpartition("-")[0].removeprefix(".draft-")
    moment = time.time_ns() - int(age * 1e9)
    path = folder / f".draft-{host or own_host}-{pid or os.getpid()}-{moment}"
    path.mkdir(parents=True)
    (path / "config.yaml").write_text("seed: 1\n")
    return path


def test_the_draft_of_a_dead_process_is_removed_by_the_next_start(tmp_path):
    left, working = draft(tmp_path, pid=dead_pid()), draft(tmp_path)
    run = RunFolder.draft(small_config(run_dir=str(tmp_path)))
    assert not left.exists()
    assert working.exists()
    assert run.path.exists()


def test_an_old_draft_is_removed_unless_somebody_holds_it(tmp_path):
    left, held = draft(tmp_path, age=3600), draft(tmp_path, age=3600.5)
    descriptor = os.open(held, os.O_RDONLY)
    try:
        assert lock(descriptor)
        remove_drafts(tmp_path)
    finally:
        os.close(descriptor)
    assert (left.exists(), held.exists()) == (False, True)


def test_drafts_of_other_computers_must_be_a_day_old(tmp_path):
    dead = dead_pid()
    young = draft(tmp_path, dead, "elsewhere", age=3600)
    old = draft(tmp_path, dead, "elsewhere", age=90_000)
    nameless = tmp_path / f".draft-{dead}-{time.time_ns() - 90_000 * 10**9}"  # of older versions
    nameless.mkdir()
    remove_drafts(tmp_path)
    assert [path.exists() for path in (young, old, nameless)] == [True, False, False]


def test_what_is_no_draft_stays(tmp_path):
    names = [".draft", ".draft-mine", "draft-host-1-1234567890123456789", ".draft-host-1-1"]
    for name in names:
        (tmp_path / name).mkdir()
    target = draft(tmp_path / "elsewhere", dead_pid())
    (tmp_path / target.name).symlink_to(target)
    remove_drafts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "elsewhere", target.name])
    assert (target / "config.yaml").exists()


def test_leftovers_in_a_run_go_when_it_is_held_by_one_alone(tmp_path):
    config = small_config(run_dir=str(tmp_path), run_name="run")
    run = RunFolder.draft(config).publish(config)
    run.checkpoints.mkdir()
    left = [
        run.path / ".config.yaml.0123456789abcdef.tmp",
        run.checkpoints / ".step_000000000024.0123456789abcdef.tmp",
    ]
    for path in left:
        path.mkdir()
        (path / "half").write_text("")
    (run.path / ".mine.tmp").write_text("")
    with run.held():
        assert not any(path.exists() for path in left)
        assert (run.path / ".mine.tmp").exists()
        left[0].mkdir()
        with pytest.raises(ValueError, match="being trained by another"), run.held():
            pass
        assert left[0].exists()  # the other one may be writing it


def test_a_start_that_fails_at_any_moment_leaves_no_draft(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    # After the draft has been made, and before its rows begin.
    monkeypatch.setattr("ppo_trainer.training.session.make_optimizers", stop)
    with pytest.raises(KeyboardInterrupt):
        train(small_config(run_dir=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
