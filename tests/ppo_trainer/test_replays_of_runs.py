"""Trainings, evaluations and leagues leave replays that play the same games again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.trainer_runs import assert_same, parameters, small_config

from entity_env.recording import Replay
from ppo_trainer import resume, train
from ppo_trainer.evaluate import evaluate_run, main
from ppo_trainer.league import main as league


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A network that has hardly begun to learn, and the replays of its training."""
    folder = tmp_path_factory.mktemp("replays")
    config = small_config(
        run_dir=str(folder), env={"_target_": "minesweeper", "width": 4}, total_timesteps=96
    )
    replays = folder / "training"
    rollout = replace(config.rollout, replays=str(replays))
    return train(replace(config, rollout=rollout)).run, replays, config


def test_a_training_can_be_played_again(run):
    _, replays, config = run
    (path,) = replays.iterdir()
    replay = Replay.read(path)
    assert replay.rows == config.rollout.num_envs
    assert replay.settings == {"width": 4}
    # Each frame that was trained on.
    assert sum(len(step.choices) for step in replay.steps) == 96
    assert len(list(replay.play())) == 1 + 96 // config.rollout.num_envs


@pytest.mark.parametrize("target", ["minesweeper", "support.trainer_envs.Foraging"])
def test_a_resumed_training_writes_another_replay_and_goes_on_bit_for_bit(run, tmp_path, target):
    _, _, config = run
    rollout = replace(config.rollout, replays=str(tmp_path / "replays"))
    config = replace(config, env={"_target_": target}, run_dir=str(tmp_path), rollout=rollout)
    whole = train(replace(config, rollout=replace(rollout, replays=None)))
    part = train(config, stop=lambda updates: updates == 2)
    rest = resume(part.run)
    assert rest.steps == whole.steps == 96
    frames = 0
    for number in range(2):
        replay = Replay.read(tmp_path / "replays" / f"{number:04d}.replay")
        assert len(list(replay.play(trust=True))) == 1 + len(replay.steps)
        frames += sum(len(step.choices) for step in replay.steps)
    assert frames == 96
    if target == "minesweeper":  # the other one saves no state
        assert_same(parameters(whole.net), parameters(rest.net))


@pytest.mark.parametrize("settings", [{}, {"_target_": "ragged_envs.minesweeper.MineSweeper"}])
def test_an_evaluation_can_be_played_again(run, tmp_path, settings):
    folder, _, _ = run
    (greedy,) = evaluate_run(
        folder, episodes=6, greedy=True, settings=settings, replays=tmp_path / "games"
    )
    paths = sorted((tmp_path / "games").iterdir())
    assert [path.name for path in paths] == ["0000.replay"]
    rewards = [
        reward
        for moment in Replay.read(paths[0]).play()
        for reward in moment.obs.metrics.get("episodic_reward", [])
        if reward == reward
    ]
    # Rows whose share is played go on meanwhile: the first episodes are those that count.
    counted = greedy.metrics["episodic_reward"]
    assert len(rewards) >= len(counted) == 6
    assert set(np.round(counted, 4)) <= set(np.round(rewards, 4))


def test_the_command_lines_write_them(run, tmp_path, capsys, monkeypatch):
    folder, _, _ = run
    arguments = [str(folder), "--episodes", "2", "--greedy", "--replays", str(tmp_path / "games")]
    main(arguments)
    main(arguments)  # another file each time
    assert len(list((tmp_path / "games").iterdir())) == 2


def test_a_league_can_be_played_again(tmp_path, capsys):
    config = small_config(
        run_dir=str(tmp_path), env={"_target_": "tic_tac_toe"}, total_timesteps=96
    )
    folder = train(config).run
    league(
        [
            str(folder),
            "random",
            "--games",
            "4",
            "--out",
            str(tmp_path / "out"),
            "--replays",
            str(tmp_path / "games"),
        ]
    )
    capsys.readouterr()
    games = sum(
        int(moment.obs.done.reshape(-1, 2).all(axis=1).sum())
        for path in (tmp_path / "games").iterdir()
        for moment in Replay.read(path).play()
    )
    assert games >= 4
