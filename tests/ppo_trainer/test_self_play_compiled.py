"""Compiled games with seats: opponents, evaluations and leagues, as of games in Python."""

from __future__ import annotations

import numpy as np
from ragged_envs.connect_four import ConnectFour, ConnectFourRows
from support.trainer_runs import assert_same, metrics, saved, small_config

from entity_env import SeatRows
from entity_env.agent import RandomAgent
from ppo_trainer import resume, train
from ppo_trainer.config import EvalConfig, PPOConfig, RolloutConfig, SelfPlayConfig
from ppo_trainer.environments import Game
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.league import play_league
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.watch import watch

MINIMAX = "ragged_envs.connect_four_script.minimax_depth_4"
POOL = SelfPlayConfig(mode="pool", past=0.6, every=1, keep=2, opponents=("random",))


def config(tmp_path, name, selfplay, game="connect_four", **changes):
    return small_config(
        **{
            "total_timesteps": 384,
            "rollout": RolloutConfig(num_envs=8, steps=8),
            "ppo": PPOConfig(epochs=1, minibatch_size=32),
            "run_dir": str(tmp_path),
            "run_name": name,
            "env": {"_target_": game},
            "selfplay": selfplay,
            **changes,
        }
    )


class OneOfThree:
    """Game 0 is the learner's alone; in the others a random agent has a side, by turns."""

    def __init__(self, agent):
        self.player, self.count, self.heard = agent, 0, []

    def draw(self, game):
        self.count += 1
        return Lineup("random", self.count % 2) if game else Lineup()

    def agent(self, name):
        return self.player

    def shown_name(self, name):
        return name

    def ended(self, lineup, score):
        self.heard.append((lineup, score))


def test_the_learner_sees_the_same_of_compiled_rows_and_of_single_games():
    sides = Game(ConnectFourRows, {}).sides()
    assert sides == Game(ConnectFour, {}).sides() == [[0], [1]]
    both = []
    for rows in (ConnectFourRows(6, seed=1), SeatRows(ConnectFour, 6, seed=1)):
        spaces = rows.obs_space(), rows.action_space()
        table = OneOfThree(RandomAgent(*spaces, seed=2))
        learner = RandomAgent(*spaces, seed=3)
        with OpponentRows(rows, sides, table) as env:
            obs, seen = env.reset(), []
            for _ in range(80):
                seen.append(obs)
                obs = env.act(learner.act_rows(obs) if obs.num_frames else {})
        both.append((seen, table.heard))
    (fast, ended), (slow, ended_too) = both
    assert ended == ended_too
    assert len(ended) > 5
    for ours, theirs in zip(fast, slow, strict=True):
        assert ours.rows.tolist() == theirs.rows.tolist()
        for name in ("reward", "done", "truncated"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        for name, own in ours.features.items():
            np.testing.assert_array_equal(own.as_array(), theirs.features[name].as_array())
        assert ours.metrics.keys() == theirs.metrics.keys()
        for name, column in ours.metrics.items():
            np.testing.assert_array_equal(column, theirs.metrics[name])


def test_a_run_on_a_compiled_game_meets_opponents_and_goes_on_bit_for_bit(tmp_path):
    train(config(tmp_path, "whole", POOL))
    part = train(config(tmp_path, "part", POOL), stop=lambda updates: updates == 4)
    assert part.interrupted
    resume(part.run)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")
    (*ours, facts), (*theirs, facts_too) = (saved(tmp_path / n) for n in ("whole", "part"))
    for a, b in zip(ours, theirs, strict=True):
        assert_same(a, b)
    assert facts == facts_too
    assert any("win_vs_past" in record for record in metrics(tmp_path / "whole"))


def test_a_run_on_a_compiled_game_is_evaluated_against_others_watched_and_in_leagues(
    tmp_path, capsys
):
    run = train(config(tmp_path, "run", SelfPlayConfig(), eval=EvalConfig(episodes=6))).run
    # The evaluation at the end is against random play, not against itself: no two seats cancel out.
    shown = capsys.readouterr().out
    assert "random play" in shown
    results = evaluate_run(run, episodes=7, against=["random", MINIMAX])
    assert [(own.player, own.episodes) for own in results] == [
        ("against random", 8),
        ("against minimax_depth_4", 8),
    ]
    assert results[1].mean("win") < 0.3  # hardly anything was learned
    watch(run, episodes=1, against="random")
    assert "the learner" in capsys.readouterr().out
    league = play_league(load_policy(run), [str(run), "random"], games=6)
    assert league.games.tolist() == [[0, 6], [6, 0]]
