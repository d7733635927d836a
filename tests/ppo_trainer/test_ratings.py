"""Ratings while a run trains: a process of their own, whose end is no end of the training."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from support.fake_ray import FakeRay
from support.trainer_runs import metrics, small_config

from ppo_trainer import train
from ppo_trainer.config import EvalConfig, PPOConfig, RolloutConfig, ScaleConfig, SelfPlayConfig
from ppo_trainer.errors import ConfigError, RunFolderError
from ppo_trainer.play import rating_process
from ppo_trainer.play.rating_process import Ratings, RatingTask
from ppo_trainer.runs.checkpoint import save_network
from ppo_trainer.runs.curve import draw_curve
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.runs.ratings_file import read_ratings
from ppo_trainer.training import ratings as ratings_module
from ppo_trainer.training.population import policy_folder

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
    monkeypatch.setattr("ppo_trainer.training.report.draw_curve", draw_curve)
    run = train(config(tmp_path, run_name="rated")).run
    rated = {own.player: own for own in read_ratings(RunFolder(run))}
    assert {"random", "scripted"} <= rated.keys()
    newest = max(own.steps for own in rated.values() if own.steps is not None)
    last = rated[f"step_{newest:012d}"]
    assert newest == metrics(run)[-1]["steps"]
    assert all(sum(games) == 4 for games in last.games.values())
    assert last.games["scripted"][0] == 0  # nobody beats it
    assert (rated["random"].rating, rated["random"].deviation) == (0.0, 0.0)
    assert 0 < last.deviation < 1000
    assert rated["scripted"].rating > rated["random"].rating
    assert (run / "curve.png").is_file()
    plain = train(config(tmp_path, run_name="plain", selfplay=SelfPlayConfig())).run
    assert [strip(own) for own in metrics(run)] == metrics(plain)


def with_ray(monkeypatch):
    monkeypatch.setattr(ratings_module, "_LAST_WAIT", 300.0)
    monkeypatch.setattr(ratings_module, "start_helper", None)  # no process of this machine
    monkeypatch.setitem(sys.modules, "ray", ray := FakeRay())
    return {"total_timesteps": 64, "scale": ScaleConfig(mode="rapid", worlds=1, networks=1)}, ray


def test_where_processes_of_ray_play_one_of_them_rates(tmp_path, monkeypatch):
    settings, ray = with_ray(monkeypatch)
    run = train(config(tmp_path, **settings)).run
    rated = [own.steps for own in read_ratings(RunFolder(run)) if own.steps is not None]
    assert rated[-1] == metrics(run)[-1]["steps"]
    assert len(ray.actors) == 2  # one plays, one rates
    assert ray.actors[1].is_gone


def test_ratings_in_a_process_of_ray_that_fail_are_told(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise ValueError("the cat cannot count")

    settings, _ = with_ray(monkeypatch)
    monkeypatch.setattr(rating_process, "play_pair", fails)
    run = train(config(tmp_path, **settings)).run
    assert metrics(run)[-1]["steps"] >= 64
    shown = capsys.readouterr().err
    assert "the rating process failed" in shown
    assert "ValueError: the cat cannot count" in shown


def test_nothing_is_written_through_links(tmp_path, monkeypatch):
    run, target = RunFolder(tmp_path / "run"), tmp_path / "precious"
    target.write_text("precious")
    run.path.mkdir()
    (run.path / "ratings.log").symlink_to(target)
    started = SimpleNamespace(stdin=io.BytesIO())
    monkeypatch.setattr(ratings_module, "start_helper", lambda *words: started)
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


def of_run(tmp_path, **selfplay):
    """Ratings of a run that has not been rated."""
    run = train(config(tmp_path, selfplay=SelfPlayConfig())).run
    loaded = load_policy(run)
    settings = config(tmp_path, selfplay=SelfPlayConfig(**selfplay))
    spaces = loaded.net.obs_space, loaded.net.action_space
    return RatingTask(run, loaded.game, settings, *spaces), loaded.net.state_dict()


def test_draws_are_draws_and_all_games_of_all_versions_count(tmp_path, monkeypatch):
    task, weights = of_run(tmp_path, rating_games=4)
    run = RunFolder(task.run)
    monkeypatch.setattr(rating_process, "play_pair", lambda *_: np.array([1.0, 0.5, 0.5, 0.0]))
    ratings = Ratings(task)
    for steps in range(1, 8):
        save_network(run.rated / f"step_{steps:012d}", weights, {})
        assert ratings.rate_newest()
    whole = {own.player: own for own in read_ratings(run)}
    assert {tuple(counts) for own in whole.values() for counts in own.games.values()} == {(1, 2, 1)}
    assert all(own.rating == pytest.approx(0.0, abs=1e-6) for own in whole.values())
    # In a long run the last versions are fitted beside the ratings of earlier ones, which stay.
    monkeypatch.setattr(rating_process, "_MOST_FITTED", 4)
    monkeypatch.setattr(rating_process, "play_pair", lambda *_: np.array([1.0, 1.0, 1.0, 0.0]))
    save_network(run.rated / f"step_{8:012d}", weights, {})
    assert Ratings(task).rate_newest()
    later = {own.player: own for own in read_ratings(run)}
    assert list(later) == [*whole, "step_000000000008"]
    for steps in (1, 2, 3, 4):
        assert later[f"step_{steps:012d}"] == whole[f"step_{steps:012d}"]
    assert later["step_000000000008"].rating > 100
    assert later["random"].rating == 0.0


def test_a_file_with_ratings_of_a_former_scale_is_rated_anew_from_its_games(tmp_path):
    task, _ = of_run(tmp_path)
    version = "step_000000000064"
    lines = [
        {"player": "random", "steps": None, "rating": 22.4, "deviation": 7.9, "games": {}},
        {"player": "scripted", "steps": None, "rating": 30.1, "deviation": 7.9, "games": {}},
        {
            "player": version,
            "steps": 64,
            "rating": 27.6,
            "deviation": 7.1,
            # Odds of 3 to 1 and of 1 to 1; draws in the proportion sqrt(3 * 1) and sqrt(1 * 1).
            "games": {"random": [150, 87, 50], "scripted": [100, 100, 100]},
        },
    ]
    run = RunFolder(task.run)
    run.ratings_file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    Ratings(task)
    rated = {own.player: own for own in read_ratings(run)}
    assert rated["random"].rating == 0.0
    assert rated[version].rating == pytest.approx(400 * np.log10(3), rel=0.01)
    assert rated["scripted"].rating == pytest.approx(rated[version].rating, rel=0.01)
    # Davidson's information on 287 games with random, less what is shared with that on draws;
    # without draws it is that of 200 games, 200 * (1/4 - 1/16) = 37.5.
    information = 50 - 2500 / 287 - (87 * 50 / 287) ** 2 / (87 * 200 / 287 + 100 * 200 / 300)
    assert rated[version].deviation == pytest.approx(173.7 / np.sqrt(information), rel=0.01)
    assert rated[version].games == {"random": (150, 87, 50), "scripted": (100, 100, 100)}
    once = run.ratings_file.read_bytes()
    Ratings(task)
    assert run.ratings_file.read_bytes() == once


def test_the_end_of_a_training_names_versions_without_a_rating(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ratings_module, "_START", "import sys; sys.stdin.buffer.read()")
    monkeypatch.setattr(ratings_module, "_LAST_WAIT", 0.2)
    train(config(tmp_path))
    shown = capsys.readouterr()
    assert "The last version is being rated, for 0.2 s at most." in shown.out
    assert re.search(
        r"2 versions .* no rating, the newest is step_\d+: 0.2 s after the end", shown.err
    )
    assert "selfplay.rating_games, now 4" in shown.err
    train(config(tmp_path), stop=lambda updates: updates == 2)
    shown = capsys.readouterr()
    assert re.search(r"1 versions .* no rating, .*step_\d+: the training ended before", shown.err)


def strip(record):
    return {name: value for name, value in record.items() if not name.startswith("rating/")}


def test_versions_meet_those_before_them_and_the_oldest_are_removed(tmp_path):
    task, weights = of_run(tmp_path, rating_games=2)
    folder, ratings = RunFolder(task.run), Ratings(task)
    assert not ratings.rate_newest()
    for steps in (10, 20, 30, 40, 50):
        save_network(folder.rated / f"step_{steps:012d}", weights, {})
        assert ratings.rate_newest()
    for steps in (60, 70):  # the first of two that wait is left out
        save_network(folder.rated / f"step_{steps:012d}", weights, {})
    # A process that was ended goes on from the file.
    ratings = Ratings(task)
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
    assert shown.count("the rating process failed") == 1
    assert "ValueError: no ratings today" in shown


SCRIPT = """
import sys
from ppo_trainer import train
from ppo_trainer.training import ratings
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
    with pytest.raises(ConfigError, match=r"selfplay.ratings is set, and .* not a game for"):
        train(config(tmp_path, env={"_target_": "xor"}, eval=EvalConfig(episodes=0)))


def test_the_file_is_json_lines(tmp_path):
    run = RunFolder(tmp_path)
    assert read_ratings(run) == []
    (tmp_path / "ratings.jsonl").write_text(
        json.dumps({"player": "a", "steps": 1, "rating": 2.0, "deviation": 1.0, "games": {}}) + "\n"
    )
    (own,) = read_ratings(run)
    assert (own.player, own.steps, own.rating) == ("a", 1, 2.0)
