"""A signature holds for one user, one machine and just these names of code."""

import multiprocessing
import os
import shutil
from dataclasses import replace

import pytest
from support.trainer_runs import small_config

from ppo_trainer import EvalConfig
from ppo_trainer.config import WandbConfig
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.signature import KeyUnavailableError, key_file, sign, verify

CONFIG = small_config(env={"_target_": "orchard.Orchard", "sizes": (1, 2.5), "name": "ä\n"})


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """This user's own folder, still empty."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def changed(config, **env):
    return replace(config, env={**config.env, **env})


def test_only_what_names_code_is_signed():
    signature = sign(CONFIG)
    assert verify(CONFIG, signature)
    assert verify(replace(CONFIG, seed=7, run_dir="elsewhere"), signature)
    for other in (
        changed(CONFIG, _target_="orchard.Grove"),
        changed(CONFIG, sizes=(1, 3)),
        changed(CONFIG, more=1),
        replace(CONFIG, eval=EvalConfig(episodes=0, scripted="orchard.pick")),
        replace(CONFIG, eval=EvalConfig(episodes=0, env={"sizes": 3})),
        replace(CONFIG, rollout=replace(CONFIG.rollout, replays="elsewhere")),
        replace(CONFIG, wandb=WandbConfig(project="theirs")),
    ):
        assert not verify(other, signature)
    evaluated = [replace(CONFIG, eval=EvalConfig(env={"sizes": sizes})) for sizes in (3, 4)]
    assert not verify(evaluated[0], sign(evaluated[1]))
    for wrong in ("", "ä", signature[:-1], signature.upper(), signature + "0"):
        assert not verify(CONFIG, wrong)


def test_a_run_folder_keeps_its_signature_through_yaml(tmp_path):
    drafted = RunFolder.new(replace(CONFIG, run_dir=str(tmp_path)))
    assert verify(drafted.read_config(), drafted.read_signature())


def test_another_user_has_another_key(tmp_path, monkeypatch):
    signature = sign(CONFIG)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert not verify(CONFIG, signature)
    assert sign(CONFIG) != signature
    assert not verify(CONFIG, signature)


def test_only_the_user_can_read_the_key(state):
    mask = os.umask(0)
    try:
        sign(CONFIG)
    finally:
        os.umask(mask)
    assert key_file().is_relative_to(state)
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert key_file().parent.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in key_file().parent.iterdir()] == [key_file().name]


def _damage(how):
    file = key_file()
    if how in ("0644", "0640", "0620", "0604"):
        file.chmod(int(how, 8))
    elif how == "short":
        file.write_bytes(b"short")
    elif how == "long":
        file.write_bytes(bytes(10**6))
    else:
        key = file.with_name("elsewhere")
        file.rename(key)
        if how == "link":
            file.symlink_to(key)
        elif how == "pipe":
            os.mkfifo(file)
        elif how == "folder":
            file.mkdir()


@pytest.mark.parametrize(
    "how", ["0644", "0640", "0620", "0604", "short", "long", "link", "pipe", "folder"]
)
def test_a_key_that_others_may_know_or_have_made_is_none(how):
    signature = sign(CONFIG)
    _damage(how)
    with pytest.raises(KeyUnavailableError, match="run_key"):
        verify(CONFIG, signature)
    with pytest.raises(KeyUnavailableError, match="run_key"):
        sign(CONFIG)


def test_no_home_is_no_key(monkeypatch):
    for state in ("", "relative/folder"):  # a relative one would lie in any folder
        monkeypatch.setenv("XDG_STATE_HOME", state)
        monkeypatch.setattr("pathlib.Path.home", _homeless)
        with pytest.raises(KeyUnavailableError, match="no home"):
            sign(CONFIG)


def _homeless():
    raise RuntimeError("no home")


def test_a_place_that_cannot_be_written_to_is_no_key(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(KeyUnavailableError, match="is not available"):
        sign(CONFIG)


def _sign_at(barrier, signatures):
    barrier.wait()
    signatures.put(sign(CONFIG))


def test_two_runs_that_begin_at_once_have_one_key(state):
    fork = multiprocessing.get_context("fork")
    for _ in range(5):
        shutil.rmtree(state, ignore_errors=True)
        barrier, signatures = fork.Barrier(2), fork.Queue()
        pair = [fork.Process(target=_sign_at, args=(barrier, signatures)) for _ in range(2)]
        for process in pair:
            process.start()
        assert signatures.get(timeout=20) == signatures.get(timeout=20)
        for process in pair:
            process.join()
