"""Ratings while a run trains: a process of their own, whose end is no end of the training."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from support.trainer_runs import metrics, small_config

from ppo_trainer import train
from ppo_trainer.config import EvalConfig, PPOConfig, RolloutConfig, SelfPlayConfig
from ppo_trainer.errors import ConfigError, RunFolderError
from ppo_trainer.players import ratings as ratings_module
from ppo_trainer.players.rating_process import Ratings, RatingTask
from ppo_trainer.reporting.ratings_file import read_ratings
from ppo_trainer.runs.checkpoint import save_network
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.runs.population import policy_folder

pytest.importorskip("openskill")

PERFECT = "ragged_envs.tic_tac_toe_script.play_perfectly"


def config(tmp_path, **changes):
    values = {
        "total_timesteps": 128,
        "rollout": RolloutConfig(num_envs=8, steps=4),
        "ppo": PPOConfig(epochs=1, minibatch_size=32),
        "run_dir": str(tmp_path),
        "env": {"_target_": "tic_tac_toe"},
        "eval": EvalConfig(episodes=0, scripted=PERFECT),
        "selfplay": SelfPlayConfig(ratings=True, every=2, rating_games=4),
    }
    return small_config(**{**values, **changes})


def test_a_run_ends_with_ratings_and_trains_as_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr(ratings_module, "_LAST_WAIT", 300.0)  # a busy machine is no failure
    run = train(config(tmp_path, run_name="rated")).run
    rated = {own.player: own for own in read_ratings(RunFolder(run))}
    assert {"random", "scripted"} <= rated.keys()
    newest = max(own.steps for own in rated.values() if own.steps is not None)
    last = rated[f"step_{newest:012d}"]
    assert newest == metrics(run)[-1]["steps"]
    assert all(sum(games) == 4 for games in last.games.values())
    assert last.games["scripted"][0] == 0  # nobody beats it
    assert 0 < last.deviation < 25 / 3
    assert rated["scripted"].rating > rated["random"].rating
    assert (run / "curve.png").is_file()
    plain = train(config(tmp_path, run_name="plain", selfplay=SelfPlayConfig())).run
    assert [strip(own) for own in metrics(run)] == metrics(plain)


def test_nothing_is_written_through_links(tmp_path, monkeypatch):
    run, target = RunFolder(tmp_path / "run"), tmp_path / "precious"
    target.write_text("precious")
    run.path.mkdir()
    (run.path / "ratings.log").symlink_to(target)
    started = SimpleNamespace(stdin=io.BytesIO())
    monkeypatch.setattr(ratings_module, "start_python", lambda *words, **pipes: started)
    spaces = SimpleNamespace(obs_space=None, action_space=None)
    session = SimpleNamespace(run=run, config=config(tmp_path), game=len, net=spaces)
    ratings_module.RunRatings(session)
    assert target.read_text() == "precious"
    assert (run.path / "ratings.log").read_bytes() == b""
    for folder, write in (
        (run.rated, lambda: ratings_module.RunRatings(session)),
        (run.path / "policy_1", lambda: policy_folder(run, 1)),
    ):
        folder.symlink_to(tmp_path)
        with pytest.raises(RunFolderError, match="is a link"):
            write()


def strip(record):
    return {name: value for name, value in record.items() if not name.startswith("rating/")}


def test_versions_meet_those_before_them_and_the_oldest_are_removed(tmp_path):
    run = train(config(tmp_path, selfplay=SelfPlayConfig())).run
    loaded, folder = load_policy(run), RunFolder(run)
    settings = config(tmp_path, selfplay=SelfPlayConfig(rating_games=2))
    spaces = loaded.net.obs_space, loaded.net.action_space
    ratings = Ratings(RatingTask(run, loaded.game, settings, *spaces))
    assert not ratings.rate_newest()
    for steps in (10, 20, 30, 40, 50):
        save_network(folder.rated / f"step_{steps:012d}", loaded.net.state_dict(), {})
        assert ratings.rate_newest()
    for steps in (60, 70):  # the first of two that wait is left out
        save_network(folder.rated / f"step_{steps:012d}", loaded.net.state_dict(), {})
    # A process that was ended goes on from the file.
    ratings = Ratings(RatingTask(run, loaded.game, settings, *spaces))
    assert ratings.rate_newest()
    assert not ratings.rate_newest()
    rated = {own.player: own for own in read_ratings(folder)}
    assert [own.steps for own in rated.values()] == [None, None, 10, 20, 30, 40, 50, 70]
    before = [f"step_{steps:012d}" for steps in (30, 40, 50)]
    assert list(rated[f"step_{70:012d}"].games) == ["random", "scripted", *before]
    kept = sorted(own.name for own in folder.rated.iterdir())
    assert kept == [f"step_{steps:012d}" for steps in (40, 50, 70)]


def test_a_crash_of_the_ratings_is_shown_and_the_training_goes_on(tmp_path, monkeypatch, capsys):
    start = "import sys; sys.stdin.buffer.read(1); raise ValueError('no ratings today')"
    monkeypatch.setattr(ratings_module, "_START", start)

    def wait(session):  # until the process is gone: what follows must not depend on the clock
        log = session.run.path / "ratings.log"
        while "no ratings today" not in log.read_text():
            time.sleep(0.02)

    result = train(config(tmp_path), callbacks=wait)
    assert result.steps >= 128
    shown = capsys.readouterr().err
    assert shown.count("the ratings have failed") == 1
    assert "ValueError: no ratings today" in shown


SCRIPT = """
import sys
from ppo_trainer import train
from ppo_trainer.players import ratings
sys.path[:0] = [{tests!r}]
from test_ratings import config

def tell(session):
    import subprocess
    print("began", flush=True)

train(config({folder!r}, total_timesteps=10**7), callbacks=tell)
"""


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_the_ratings_end_with_a_training_that_is_killed(tmp_path):
    code = SCRIPT.format(tests=os.path.dirname(__file__), folder=str(tmp_path))
    path = os.pathsep.join(sys.path)
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        while b"began" not in child.stdout.readline():
            assert child.poll() is None
        (rating,) = [pid for pid in children(child.pid) if "rating_process" in command(pid)]
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    while "rating_process" in command(rating):
        time.sleep(0.05)


def children(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(pid))
        except OSError:
            continue
    return found


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


def test_a_game_for_one_has_no_ratings(tmp_path):
    with pytest.raises(ConfigError, match=r"selfplay.ratings is set, and .* no game of several"):
        train(config(tmp_path, env={"_target_": "xor"}, eval=EvalConfig(episodes=0)))


def test_the_file_is_json_lines(tmp_path):
    run = RunFolder(tmp_path)
    assert read_ratings(run) == []
    (tmp_path / "ratings.jsonl").write_text(
        json.dumps({"player": "a", "steps": 1, "rating": 2.0, "deviation": 1.0, "games": {}}) + "\n"
    )
    (own,) = read_ratings(run)
    assert (own.player, own.steps, own.rating) == ("a", 1, 2.0)
