"""Remains of killed starts, which the next start removes."""

import os
import time

import pytest
from support.trainer_runs import small_config

from entity_env.storage.files import folder_lock
from ppo_trainer import train
from ppo_trainer.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks and processes of POSIX")


def unpublished(folder, hours):
    """Return the hidden folder of a start some hours ago."""
    run = RunFolder.new(small_config(run_dir=str(folder)))
    moment = time.time() - 3600 * hours
    os.utime(run.path, (moment, moment))
    return run.path


def test_the_folder_of_a_killed_start_is_removed_after_a_day(tmp_path):
    paths = [unpublished(tmp_path, hours) for hours in (25, 23, 26)]
    with folder_lock(paths[2]):
        RunFolder.new(small_config(run_dir=str(tmp_path)))
    assert [path.exists() for path in paths] == [False, True, True]


def test_other_folders_and_links_stay(tmp_path):
    target = unpublished(tmp_path / "elsewhere", 0)
    names = [".run", ".run-mine.tmp", "run.0123456789abcdef.tmp"]
    for name in names:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / target.name).symlink_to(target)
    os.utime(tmp_path / target.name, (1, 1), follow_symlinks=False)
    run = RunFolder.new(small_config(run_dir=str(tmp_path)))
    left = sorted([*names, "elsewhere", target.name, run.path.name])
    assert sorted(os.listdir(tmp_path)) == left
    assert (target / "config.yaml").exists()


def test_leftovers_in_a_run_go_when_it_is_held_by_one_alone(tmp_path):
    config = small_config(run_dir=str(tmp_path), run_name="run")
    run = RunFolder.new(config).publish(config)
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


def test_a_start_that_fails_at_any_moment_leaves_no_folder(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    # After the folder has been made, and before its rows begin.
    monkeypatch.setattr("ppo_trainer.training.population.make_optimizers", stop)
    with pytest.raises(KeyboardInterrupt):
        train(small_config(run_dir=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
