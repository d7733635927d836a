"""Diagnoses of runs, from numbers made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from ragged_envs.tic_tac_toe import TicTacToe
from support.trainer_envs import Foraging, Truncated
from support.trainer_runs import metrics, network, small_config

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
)
from ppo_trainer import EvalConfig, train
from ppo_trainer.environments import Game
from ppo_trainer.reporting.diagnosis import diagnose
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.training.evidence import is_zero_sum, lacks_positions, out_of_sight
from ragged_net.position_config import RelativePosition

HEALTHY = {
    "episodes": 50.0,
    "episodes_truncated": 10.0,
    "episodic_length": 20.0,
    "policy/entropy": 0.8,
    "value/explained_variance": 0.6,
}


def run(rewards, noise=0.05, **changes):
    """A record for each reward; a value of ``changes`` may be a list, one for each record."""
    wobble = np.resize([noise, -noise], len(rewards))
    records = []
    for index, (reward, off) in enumerate(zip(rewards, wobble, strict=True)):
        own = {n: v[index] if isinstance(v, list) else v for n, v in changes.items()}
        records.append({**HEALTHY, "policy/entropy": 0.8 if index else 1.4} | own)
        records[-1]["episodic_reward"] = float(reward + off)
    return records


def played(agent, random, episodes=200):
    """An evaluation whose players win this part of their episodes."""
    players = {"agent, greedy": agent, "agent, sampled": agent, "random play": random}
    ranks = (np.arange(episodes) + 0.5) / episodes
    return [
        Evaluation(
            player,
            {
                "win": (ranks < part).astype(float),
                "episodic_reward": (ranks < part).astype(float),
                "episodic_length": np.full(episodes, 20.0),
            },
        )
        for player, part in players.items()
    ]


FLAT = [0.1] * 20
LEARNED = list(1 - 0.9 * np.exp(-np.arange(20.0)))  # 0.1 to 1, and 0.99 from the sixth on


@pytest.mark.parametrize("evaluations", [(), played(0.98, 0.04)])
def test_nothing_is_said_of_a_run_that_has_learned(evaluations):
    assert diagnose(run(LEARNED), evaluations) == []
    # Whatever its other numbers look like.
    odd = {"episodes_truncated": 50.0, "policy/entropy": 1.4, "value/explained_variance": -1.0}
    assert diagnose(run(LEARNED, **odd), evaluations) == []


def test_a_run_no_better_than_random_play_says_so_with_both_numbers():
    (line,) = diagnose(run(FLAT), played(0.05, 0.04))
    assert "wins 0.05, and random play 0.04" in line
    # 10 more of 200 are luck: 0.05 +- 2 * sqrt(0.05 * 0.95 / 200 + 0.1 * 0.9 / 200) = +- 0.052.
    assert diagnose(run(FLAT), played(0.10, 0.05))
    assert diagnose(run(FLAT), played(0.20, 0.05)) == []


def test_a_run_worse_than_random_play_says_that():
    # 0.12 more of 200 are no luck: 2 * sqrt(0.05 * 0.95 / 200 + 0.17 * 0.83 / 200) = 0.061.
    (line,) = diagnose(run(FLAT), played(0.05, 0.17))
    assert line == "it plays worse than at random: wins 0.05, and random play 0.17"
    (line,) = diagnose(run(FLAT), played(0.05, 0.09))
    assert "it has not learned" in line


def test_better_in_the_reward_is_better_though_nothing_is_won():
    evaluations = played(0.0, 0.0)
    for evaluation in evaluations:
        shift = 0.0 if evaluation.player == "random play" else 0.5
        noise = np.resize([0.1, -0.1], 200)
        evaluation.metrics["episodic_reward"][:] = shift + noise
    assert diagnose(run(FLAT), evaluations) == []


def test_longer_lives_are_better_where_each_costs_the_same():
    evaluations = played(0.0, 0.0)
    for evaluation in evaluations:
        evaluation.metrics["episodic_reward"][:] = -1
        lives = 8 if evaluation.player == "random play" else 16
        evaluation.metrics["episodic_length"] = lives + np.resize([2.0, -2.0], 200)
    assert diagnose(run([-1.0] * 20, noise=0), evaluations) == []
    assert "it has not learned" in diagnose(run([-0.9] * 10 + [-1.0] * 10), evaluations)[0]


def test_a_policy_that_tries_nothing_new():
    falling = [1.4] * 10 + [0.01] * 10
    _, line = diagnose(run(FLAT, **{"policy/entropy": falling}), played(0.05, 0.05))
    assert "does not explore any more (entropy 0.01, at first 1.4)" in line


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (0.10, "10% of the way from random play to the scripted player: rewards of 0, 0.1 and 1"),
        (0.30, "30% of the way"),
        (0.89, "89% of the way"),
        (0.90, None),
        (1.10, None),
    ],
)
def test_the_part_of_the_way_to_the_script_comes_first(agent, expected):
    evaluations = []
    for player, mean in (
        ("agent, greedy", agent - 0.05),
        ("agent, sampled", agent),
        ("scripted player", 1.0),
        ("random play", 0.0),
    ):
        rewards = mean + np.resize([0.1, -0.1], 200)
        values = {"episodic_reward": rewards, "episodic_length": np.full(200, 20.0)}
        evaluations.append(Evaluation(player, values))
    lines = diagnose(run(LEARNED), evaluations)
    assert expected is None or expected in lines[0]
    assert any("of the way" in line for line in lines) == (expected is not None)
    # A script that is no better than random play measures nothing.
    evaluations[2] = replace(evaluations[3], player="scripted player")
    assert not any("of the way" in line for line in diagnose(run(LEARNED), evaluations))


def test_actors_that_choose_directions_need_positions_rather_than_larger_steps():
    records = run(FLAT, **{"policy/entropy": 1.39})
    _, line = diagnose(records, played(0.05, 0.05), lacks_positions=True)
    assert "Position" in line
    assert "optim.lr" not in line
    assert diagnose(run(LEARNED), played(0.98, 0.04), lacks_positions=True) == []


def test_returns_that_are_known_though_nothing_is_learned_happen_anyway():
    records = run(FLAT, **{"value/explained_variance": 0.93})
    _, line = diagnose(records, played(0.05, 0.05))
    assert "(explained variance 0.93)" in line
    assert "happens anyway" in line


def test_returns_that_nothing_predicts_are_luck():
    records = run(FLAT, **{"value/explained_variance": 0.03})
    _, line = diagnose(records, played(0.05, 0.05))
    assert "(explained variance 0.03), as where luck rules them" in line
    assert diagnose(run(LEARNED, **{"value/explained_variance": 0.03}), played(0.98, 0.04)) == []


def test_episodes_of_fixed_length_are_no_cause():
    assert len(diagnose(run(FLAT, episodes_truncated=50.0), played(0.05, 0.05))) == 1


def test_rewards_that_are_nearly_all_the_same_are_the_reason():
    _, line = diagnose(run([0.0] * 10 + [0.01] * 10), played(0.01, 0.01))
    assert "99% of the episodes had the same reward, 0" in line
    assert len(diagnose(run(FLAT), played(0.04, 0.04))) == 1


def test_returns_that_still_rise_ask_for_more_training():
    rising = list(np.linspace(0, 1, 20))  # fifths of mean 0.08, 0.29, 0.5, 0.71 and 0.92
    (line,) = diagnose(run(rising), played(0.9, 0.05))
    assert "from 0.711 to 0.921 in the last fifth: train longer" in line
    late = [0.0] * 16 + [0.1] * 4
    assert any("train longer" in line for line in diagnose(run(late, noise=0.001)))
    # Noise is no rise: fifths of mean 0.1 with a deviation of 1.
    assert not any("train longer" in line for line in diagnose(run(late, noise=1.0)))


def test_episodes_that_end_first_are_short_and_tell_of_nothing():
    # As a run of MineSweeper had it, of which 256 boards had played 3 games each at most.
    episodes = [50, 27, 32, 21, 17, 5, 9, 5, 7, 10]
    rewards = [0.0, 0.0, 0.0, 0.05, 0.06, 0.0, 0.0, 0.2, 0.6, 0.7]
    records = run(rewards, noise=0.0, episodes=[float(count) for count in episodes])
    assert diagnose(records, rows=256) == []


def test_rewards_that_are_all_the_same_are_the_reason():
    records = run([0.0] * 20, noise=0.0, **{"value/explained_variance": 0.0})
    _, line = diagnose(records, played(0.0, 0.0))
    assert "100% of the episodes had the same reward, 0" in line


def test_no_episode_has_ended():
    (line,) = diagnose([{"episodes": 0.0, "policy/entropy": 1.0}] * 20)
    assert "no episode has ended" in line
    assert "TimeLimit" in line


def test_three_lines_are_enough_and_too_few_numbers_say_nothing():
    wrong = {"policy/entropy": [1.4] * 10 + [0.01] * 10, "value/explained_variance": 0.9}
    late = [0.0] * 16 + [0.1] * 4
    assert len(diagnose(run(late, noise=0.001, **wrong), played(0.05, 0.05))) == 3
    assert diagnose([]) == []
    assert diagnose(run([0.1] * 5)) == []


def test_memory_is_for_entities_that_vanish_from_sight():
    _, line = diagnose(run(FLAT), played(0.05, 0.05), out_of_sight=lambda: ["Key", "Door"])
    assert line == "entities of Key and Door vanish from sight and come back: try net.memory=lstm"
    greedy, _, random = played(0.2, 0.05)
    mixed = [greedy, played(0.4, 0.05)[1], random]
    assert "net.memory" in diagnose(run(LEARNED), mixed, out_of_sight=lambda: ["Key"])[-1]
    # A run that has learned does not play the game again.
    assert diagnose(run(LEARNED), played(0.98, 0.04), out_of_sight=lambda: 1 / 0) == []


class Corridor(Environment):
    """A walker sees lamps at a distance of one at most; each step burns one of the candles."""

    seen, ids = 1, True

    def obs_space(self):
        return ObsSpace(
            entities={"Walker": Entity(["x"]), "Lamp": Entity(["x"]), "Candle": Entity([])}
        )

    def action_space(self):
        return {"Walk": CategoricalActionSpace(["left", "right"])}

    def reset(self):
        self.at, self.steps = 4, 0
        return self.shown()

    def act(self, actions):
        self.at += 2 * int(actions["Walk"].indices[0]) - 1
        self.steps += 1
        return self.shown()

    def shown(self):
        lamps = [x for x in range(9) if abs(x - self.at) <= self.seen]
        candles = [[] for _ in range(self.steps, 20)]
        ids = {"Lamp": [f"lamp {x}" for x in lamps], "Candle": [*range(self.steps, 20)]}
        return Observation(
            features={"Walker": [[self.at]], "Lamp": [[x] for x in lamps], "Candle": candles},
            ids=ids if self.ids else {},
            actions={"Walk": CategoricalActionMask(actor_types=["Walker"])},
            reward=0.0,
            done=self.steps == 19,
        )


class Lit(Corridor):
    seen = 99


class Unnamed(Corridor):
    ids = False


@pytest.mark.parametrize(
    ("env", "expected"), [(Corridor, ["Lamp"]), (Lit, []), (Unnamed, ["Lamp"])]
)
def test_what_vanishes_and_comes_back_is_found_in_the_game(env, expected):
    game = Game(env, {})
    assert out_of_sight(game) == expected
    assert out_of_sight(Game(TicTacToe, {})) == []


def test_directions_without_positions_are_found_in_the_network():
    assert lacks_positions(network(Corridor(), small_config()))
    places = {"Walker": ["x"], "Lamp": ["x"]}
    net = {"dim": 16, "heads": 2, "relative_position": RelativePosition(places)}
    assert not lacks_positions(network(Corridor(), small_config(net=net)))


def test_a_run_counts_what_a_limit_cut_off_and_its_end_says_what_is_wrong(tmp_path, capsys):
    # Whatever it does, the reward is 1 + 2 + 3, and a limit ends each episode after 3 steps.
    config = small_config(
        total_timesteps=240, run_dir=str(tmp_path), eval=EvalConfig(episodes=40, seconds=0)
    )
    result = train(config, env=Truncated)
    assert [(r["episodes"], r["episodes_truncated"]) for r in metrics(result.run)] == [(8, 8)] * 10
    printed = capsys.readouterr().out
    assert "it has not learned: a reward of 6, and random play 6" in printed
    assert "100% of the episodes had the same reward, 6" in printed
    # An episode of Foraging is cut off where it ends with one piece of food: some, not all.
    counted = metrics(train(config, env=Foraging).run)
    cut = sum(record["episodes_truncated"] for record in counted)
    assert 0 < cut < sum(record["episodes"] for record in counted)


def test_rewards_of_a_policy_that_plays_itself_are_not_taken_for_failure():
    records = run(np.zeros(50), noise=0.0)
    (line,) = diagnose(records, meets_equals=True)
    assert "--against random" in line
    assert "has not learned" not in line
    better, equal = played(0.9, 0.5), played(0.5, 0.5)
    assert diagnose(records, better, meets_equals=True) == []
    assert "has not learned" in diagnose(records, equal, meets_equals=True)[0]


def test_a_game_is_zero_sum_where_the_mean_return_of_all_seats_is_0():
    assert is_zero_sum(run(np.zeros(50), noise=1e-8))
    # Seats of one game that end in two updates: the sums are off now and then, to both sides.
    assert is_zero_sum(run(np.random.default_rng(0).normal(0, 0.1, 50), noise=0.0))
    for shared in (FLAT, LEARNED, -np.array(LEARNED), np.full(20, 1e-3)):
        assert not is_zero_sum(run(shared, noise=0.0))
    assert is_zero_sum([])


class Shared(TicTacToe):
    """Both seats are paid for each end of a game."""

    def act(self, actions):
        told = super().act(actions)
        return {seat: replace(own, reward=float(own.done)) for seat, own in told.items()}


@pytest.mark.parametrize(("game", "says_nothing"), [(TicTacToe, True), (Shared, False)])
def test_only_rewards_of_zero_sum_games_say_nothing(game, says_nothing, tmp_path, capsys):
    config = small_config(run_dir=str(tmp_path), total_timesteps=96, eval=EvalConfig(episodes=0))
    train(config, env=game)
    assert ("its rewards do not measure" in capsys.readouterr().out) == says_nothing


def test_greedy_play_that_is_worse_than_sampled():
    greedy, _, random = played(0.2, 0.05)
    for part, is_worse in ((0.2, False), (0.4, True), (0.26, False)):
        # 0.26 against 0.2 of 200 is luck: 2 * sqrt((0.2 * 0.8 + 0.26 * 0.74) / 200) = 0.084.
        lines = diagnose(run(LEARNED), [greedy, played(part, 0.05)[1], random])
        assert any("--temperature 0.5" in line for line in lines) == is_worse
    assert diagnose(run(LEARNED), [played(0.4, 0.05)[1], random]) == []
    # Nearly as good, though significantly worse: 0.97 of 0.995, with random play at 0.05.
    greedy, _, random = played(0.97, 0.05, episodes=1000)
    nearly = [greedy, played(0.995, 0.05, episodes=1000)[1], random]
    assert diagnose(run(LEARNED), nearly) == []
