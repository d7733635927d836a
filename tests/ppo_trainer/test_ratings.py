"""Ratings of the versions of a run, beside its training or after it."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest
from ragged_envs.tic_tac_toe import TicTacToe
from support.trainer_runs import small_config

from entity_env.errors import CheckpointError, RunFolderError, SettingError
from ppo_trainer import train
from ppo_trainer.config import EvalConfig, PPOConfig, RolloutConfig, SelfPlayConfig
from ppo_trainer.evaluation import ratings as ratings_module
from ppo_trainer.evaluation.ratings import Ratings, follow
from ppo_trainer.league import main
from ppo_trainer.runs.checkpoint import save_network
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.runs.results import read_ratings
from ppo_trainer.training import background
from ppo_trainer.training.curve import draw_curve

PERFECT = "ragged_envs.tic_tac_toe.play_perfectly"


def config(folder, **changes):
    values = {
        "total_timesteps": 64,
        "rollout": RolloutConfig(num_envs=8, steps=4),
        "ppo": PPOConfig(epochs=1, minibatch_size=32),
        "run_dir": str(folder),
        "env": {"_target_": "tic_tac_toe"},
        "eval": EvalConfig(episodes=0),
        "selfplay": SelfPlayConfig(ratings=True),
    }
    return small_config(**{**values, **changes})


def test_ratings_beside_a_training_know_the_class_of_a_script(tmp_path):
    """A class that no other process can import is rated, too."""

    class Local(TicTacToe):
        """A game that lives in a function."""

    def wait(session):  # a busy machine is no failure
        end = time.monotonic() + 120.0
        while not session.run.ratings_file.exists() and time.monotonic() < end:
            time.sleep(0.05)

    run = train(config(tmp_path), env=Local, callbacks=wait).run
    rated = {own.player: own for own in read_ratings(RunFolder(run))}
    (first,) = (own for own in rated.values() if own.steps == 0)
    assert sum(first.games["random"]) == 20
    assert (rated["random"].rating, rated["random"].deviation) == (0.0, 0.0)
    assert 0 < first.deviation < 1000
    assert draw_curve(RunFolder(run)) == run / "curve.png"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    selfplay = SelfPlayConfig()
    folder = tmp_path_factory.mktemp("rated")
    return train(config(folder, selfplay=selfplay, eval=EvalConfig(episodes=0, scripted=PERFECT)))


@pytest.fixture
def loaded(trained, tmp_path):
    """A run without checkpoints; ``add`` adds one."""
    run = load_policy(shutil.copytree(trained.run, tmp_path / "run"))
    shutil.rmtree(run.run.checkpoints)
    run.run.checkpoints.mkdir()
    return run


def add(loaded, *versions, policy=None):
    run = loaded.run if policy is None else RunFolder(loaded.run.path / f"policy_{policy}")
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    for steps in versions:
        folder = run.checkpoints / f"step_{steps:012d}"
        save_network(folder, loaded.net.state_dict(), {})


def names(*versions):
    return [f"step_{steps:012d}" for steps in versions]


def test_draws_are_draws_and_all_games_of_all_versions_count(loaded, monkeypatch):
    monkeypatch.setattr(ratings_module, "play_pair", lambda *_: np.array([1.0, 0.5, 0.5, 0.0]))
    ratings = Ratings(loaded)
    for steps in range(1, 8):
        add(loaded, steps)
        assert ratings.rate_next() == names(steps)[0]
    whole = {own.player: own for own in read_ratings(loaded.run)}
    assert {tuple(counts) for own in whole.values() for counts in own.games.values()} == {(1, 2, 1)}
    assert all(own.rating == pytest.approx(0.0, abs=1e-6) for own in whole.values())
    monkeypatch.setattr(ratings_module, "play_pair", lambda *_: np.array([1.0, 1.0, 1.0, 0.0]))
    add(loaded, 8)
    assert Ratings(loaded).rate_next()
    later = {own.player: own for own in read_ratings(loaded.run)}
    assert list(later) == [*whole, *names(8)]
    assert later[names(8)[0]].rating > 100
    assert later["random"].rating == 0.0


def test_versions_meet_those_before_them_and_the_newest_is_rated_first(loaded):
    ratings = Ratings(loaded, games=2)
    assert ratings.rate_next() is None
    for steps in (10, 20, 30, 40, 50):
        add(loaded, steps)
        assert ratings.rate_next() == names(steps)[0]
    add(loaded, 60, 70)
    shutil.rmtree(loaded.run.checkpoints / names(50)[0])  # as a training does
    ratings = Ratings(loaded, games=2)  # a process that was ended continues from the file
    assert [ratings.rate_next() for _ in range(3)] == [*names(70, 60), None]
    rated = {own.player: own for own in read_ratings(loaded.run)}
    assert [own.steps for own in rated.values()] == [None, None, 10, 20, 30, 40, 50, 70, 60]
    assert list(rated[names(70)[0]].games) == ["random", "scripted", *names(30, 40, 50)]
    assert list(rated[names(60)[0]].games) == ["random", "scripted", *names(40, 50)]
    assert rated[names(70)[0]].games["scripted"][0] == 0  # nobody beats it
    assert sorted(own.name for own in loaded.run.rated.iterdir()) == names(50, 60, 70)


def test_a_version_whose_rating_is_interrupted_is_rated_later_and_once(loaded, monkeypatch):
    play, calls = ratings_module.play_pair, []

    def interrupted(*words):
        calls.append(words)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return play(*words)

    monkeypatch.setattr(ratings_module, "play_pair", interrupted)
    add(loaded, 10)
    with pytest.raises(KeyboardInterrupt):
        Ratings(loaded, games=2).rate_next()
    assert read_ratings(loaded.run) == []
    shutil.rmtree(loaded.run.checkpoints / names(10)[0])  # its copy stays
    add(loaded, 20)
    ratings = Ratings(loaded, games=2)
    assert [ratings.rate_next() for _ in range(3)] == [*names(20, 10), None]
    assert [own.player for own in read_ratings(loaded.run)][2:] == names(20, 10)


def test_a_checkpoint_that_is_removed_meanwhile_is_left_out(loaded, monkeypatch):
    monkeypatch.setattr(ratings_module, "_PAUSE", 0.0)
    ratings, gone = Ratings(loaded, games=2), loaded.run.checkpoints / names(30)[0]
    monkeypatch.setattr(ratings_module, "own_checkpoints", lambda run: [gone])
    assert ratings.rate_next() is None
    gone.mkdir()
    with pytest.raises(CheckpointError):
        ratings.rate_next()


def test_each_policy_of_a_population_has_a_rating(loaded):
    selfplay = SelfPlayConfig(mode="population", size=2)
    two = replace(loaded, config=replace(loaded.config, selfplay=selfplay))
    add(loaded, 10)
    add(loaded, 10, policy=1)
    ratings = Ratings(two, games=2)
    version, other = *names(10), f"{names(10)[0]}_policy_1"
    assert [ratings.rate_next() for _ in range(3)] == [version, other, None]
    assert version in read_ratings(loaded.run)[-1].games


def test_one_process_rates_a_run(loaded, monkeypatch):
    def ends(_):
        raise InterruptedError

    monkeypatch.setattr(ratings_module.time, "sleep", ends)
    add(loaded, 10)
    with pytest.raises(InterruptedError):
        follow(loaded.run.path, games=2)
    assert [own.steps for own in read_ratings(loaded.run)] == [None, None, 10]
    with (
        ratings_module._alone(loaded.run),
        pytest.raises(RunFolderError, match="another process rates the run"),
    ):
        follow(loaded.run.path)
    for words in (["a", "b"], ["a", "--greedy"], ["a", "--replays", "b"]):
        with pytest.raises(SystemExit):
            main([*words, "--follow"])
    loaded.run.rated.rename(loaded.run.path / "moved")
    loaded.run.rated.symlink_to(loaded.run.path / "moved")
    with pytest.raises(RunFolderError, match="is a link"):
        follow(loaded.run.path)


def test_a_crash_of_the_ratings_is_shown_and_the_training_goes_on(tmp_path, monkeypatch, capfd):
    start = "import sys; sys.stdin.buffer.read(1); raise ValueError('no ratings today')  # {}"
    monkeypatch.setattr(background, "_START", start)
    started, start_helper = [], background.start_helper
    monkeypatch.setattr(
        background,
        "start_helper",
        lambda *w, **o: started.append(start_helper(*w, **o)) or started[0],
    )
    result = train(config(tmp_path), callbacks=lambda session: started[0].wait(timeout=60) and None)
    assert result.steps >= 64
    assert "ValueError: no ratings today" in capfd.readouterr().err


def test_a_game_for_one_has_no_ratings(tmp_path):
    with pytest.raises(SettingError, match=r"selfplay.ratings is set, and .* not a game for"):
        train(config(tmp_path, env={"_target_": "xor"}, eval=EvalConfig(episodes=0)))


def test_the_file_is_json_lines(tmp_path):
    run = RunFolder(tmp_path)
    assert read_ratings(run) == []
    (tmp_path / "ratings.jsonl").write_text(
        json.dumps({"player": "a", "steps": 1, "rating": 2.0, "deviation": 1.0, "games": {}}) + "\n"
    )
    (own,) = read_ratings(run)
    assert (own.player, own.steps, own.rating) == ("a", 1, 2.0)
