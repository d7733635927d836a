"""A run against named opponents: every side plays the same number of games, and all know who."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ragged_envs.minesweeper import MineSweeper
from ragged_envs.tic_tac_toe import TicTacToe
from support.trainer_runs import small_config

from entity_env.errors import SettingError
from entity_env.scripted_agent import ScriptedAgent
from ppo_trainer import train
from ppo_trainer.evaluate import evaluate_run, main
from ppo_trainer.evaluation.matches import play_sides
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.watch import film, watch


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    config = small_config(total_timesteps=24, run_dir=str(folder), env={"_target_": "tic_tac_toe"})
    return train(config).run


def test_each_side_plays_as_many_games(run):
    loaded, boards = load_policy(run, TicTacToe), []

    def note(observation):
        marks = [int(row[2]) for row in observation.features["Cell"]]
        if sum(map(bool, marks)) <= 1:  # its first move: as X on an empty board, or as O
            boards.append(sum(map(bool, marks)))
        ids = observation.ids["Player"]
        from entity_env import SelectEntityAction

        return {"Mark": SelectEntityAction(ids, [observation.actions["Mark"].actee_ids[0]])}

    spaces = loaded.net.obs_space, loaded.net.action_space
    agent, script = NetworkAgent(loaded.net), ScriptedAgent(note, *spaces)
    played = play_sides(agent, loaded.game, loaded.config, 21, script, seed=3)
    assert len(played["win"]) == 22  # 21, rounded up to 11 of each side
    assert set(np.unique(played["win"])) <= {0.0, 0.5, 1.0}
    # More games have begun than count, of each side alike.
    assert abs(boards.count(0) - boards.count(1)) <= 2 * 11


def test_the_command_line_plays_against_several(run, capsys):
    main([str(run), "--against", "random", "--against", str(run), "--episodes", "20", "--json"])
    players = json.loads(capsys.readouterr().out)["players"]
    assert [p["player"] for p in players] == ["against random", f"against {run.name}"]
    assert [p["episodes"] for p in players] == [20, 20]
    # It is as good as itself: 20 games, 0.5 with a deviation of about 0.1.
    assert abs(players[1]["win"]["mean"] - 0.5) < 0.45
    same = evaluate_run(run, episodes=20, against=["random"])[0].summary()
    assert same["win"] == players[0]["win"]  # seeds are the run's


def test_watching_says_who_is_who(run, capsys, tmp_path):
    watch(run, episodes=1, against="random")
    shown = capsys.readouterr().out
    assert ("X: the learner, O: random" in shown) or ("X: random, O: the learner" in shown)
    watch(run, episodes=1)
    assert "the learner" in capsys.readouterr().out
    assert film(run, tmp_path / "game.gif", episodes=1, against=str(run)).stat().st_size > 1000


def test_who_is_not_there_cannot_be_played_against(run, tmp_path):
    with pytest.raises(SettingError, match="there is no opponent 'rondom'"):
        evaluate_run(run, against=["rondom"])
    with pytest.raises(SettingError, match="is not a scripted player"):
        main([str(run), "--against", "ragged_envs.tic_tac_toe.PerfectPlayer"])
    main([str(run), "--against", "ragged_envs.tic_tac_toe.play_perfectly", "--episodes", "2"])
    alone = train(small_config(run_dir=str(tmp_path)), env=MineSweeper).run
    with pytest.raises(SettingError, match="not a game for several players"):
        evaluate_run(alone, MineSweeper, against=["random"])
    with pytest.raises(SettingError, match="not a game for several players"):
        watch(alone, MineSweeper, against="random")
