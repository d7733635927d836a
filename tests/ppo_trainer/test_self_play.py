"""Games of several players in the trainer: every seat is played and trained by one network."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ragged_envs.tic_tac_toe import TicTacToe
from support.recorded import by_row
from support.seat_games import Secrets
from support.trainer_runs import assert_same, metrics, parameters, small_config

from ppo_trainer import resume, train
from ppo_trainer.config import EvalConfig, PPOConfig, RolloutConfig
from ppo_trainer.environments import make_factory, with_env, with_whole_games
from ppo_trainer.record import record_run
from ppo_trainer.watch import film, watch


def test_both_seats_are_trained_and_random_players_are_the_measure(tmp_path):
    config = small_config(
        total_timesteps=1024,
        rollout=RolloutConfig(num_envs=32, steps=16),
        ppo=PPOConfig(epochs=1, minibatch_size=256),
        run_dir=str(tmp_path),
        eval=EvalConfig(episodes=40),
    )
    result = train(config, env=TicTacToe)
    assert [e.player for e in result.evaluations][-1] == "random play"
    # one seat's win is the other's loss
    assert metrics(result.run)[-1]["episodic_reward"] == pytest.approx(0.0, abs=1e-6)
    assert result.steps >= 1024


def seat_config(tmp_path, name, **rollout):
    return small_config(
        total_timesteps=1024,
        rollout=RolloutConfig(num_envs=8, steps=16, **rollout),
        ppo=PPOConfig(epochs=1, minibatch_size=64),
        run_dir=str(tmp_path),
        run_name=name,
        eval=EvalConfig(episodes=0),
    )


def test_games_in_workers_train_as_in_one_process_and_go_on_so(tmp_path):
    here = train(seat_config(tmp_path, "here"), env=TicTacToe)
    config = seat_config(tmp_path, "workers", processes=2)
    part = train(config, env=TicTacToe, stop=lambda updates: updates == 3)
    assert part.interrupted
    rest = resume(part.run, env=TicTacToe)
    assert_same(parameters(here.net), parameters(rest.net))


def test_games_that_are_ready_first_train_and_the_run_is_watched_and_recorded(tmp_path, capsys):
    config = seat_config(tmp_path, "ready", processes=2, asynchronous=True)
    result = train(config, env=TicTacToe)
    assert result.steps >= 1024
    watch(result.run, env=TicTacToe, episodes=1)
    out = capsys.readouterr().out
    assert "X: the learner, O: random" in out or "X: random, O: the learner" in out
    assert film(result.run, tmp_path / "game.gif", env=TicTacToe, episodes=1).exists()
    recorded = record_run(result.run, tmp_path / "games", env=TicTacToe, episodes=8, rows=4)
    games = [e for e in by_row(recorded.path) if e.is_whole]
    assert len(games) >= 8
    for row in range(0, 4, 2):  # X and O of a table end together, and share nothing
        ours = [e.metrics["episodic_reward"] for e in games if e.row == row]
        theirs = [e.metrics["episodic_reward"] for e in games if e.row == row + 1]
        assert ours == [-reward for reward in theirs]


@pytest.mark.learning
def test_what_nobody_can_know_is_not_learned(tmp_path):
    config = small_config(
        total_timesteps=8192,
        rollout=RolloutConfig(num_envs=30, steps=16),
        run_dir=str(tmp_path),
        eval=EvalConfig(episodes=600),
    )
    result = train(config, env=Secrets)
    assert abs(result.evaluations[0].mean("episodic_reward")) < 0.15


@pytest.mark.parametrize(
    ("rollout", "rows"),
    [
        (RolloutConfig(num_envs=8, steps=2), 9),  # 3 games of 3 seats
        (RolloutConfig(num_envs=9, steps=2), 9),
        (RolloutConfig(num_envs=6, steps=2, processes=3), 9),  # a game for each worker
    ],
)
def test_rows_are_rounded_up_to_whole_games(tmp_path, capsys, rollout, rows):
    config = small_config(
        total_timesteps=18, rollout=rollout, run_dir=str(tmp_path), eval=EvalConfig(episodes=0)
    )
    config = with_env(config, Secrets)
    whole = with_whole_games(config, make_factory(config, Secrets))
    assert whole == replace(config, rollout=replace(rollout, num_envs=rows))
    said = capsys.readouterr().out
    assert ("rounded up to 9: games of 3 seats" in said) == (rows != rollout.num_envs)
    if not rollout.processes:
        result = train(config, env=Secrets)
        assert f"num_envs: {rows}" in (result.run / "config.yaml").read_text()
