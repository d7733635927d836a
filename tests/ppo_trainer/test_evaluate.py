"""Evaluation: intervals by hand, the table, and what a run folder alone is enough for."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.trainer_envs import Foraging, SavedForaging, Truncated
from support.trainer_runs import assert_same, network, parameters, small_config

from entity_env import CategoricalAction
from entity_env.errors import SettingError
from ppo_trainer import EvalConfig, train
from ppo_trainer.environments import Game
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.reporting.evaluation import Evaluation, table
from ppo_trainer.runs.folder import RunFolder

Z2 = 1.959964**2  # 3.84146


def evaluation(**metrics):
    return Evaluation("agent", {name: np.array(v, dtype=float) for name, v in metrics.items()})


@pytest.mark.parametrize(
    ("wins", "n", "low", "high"),
    [
        (10, 10, 10 / (10 + Z2), 1.0),  # 0.7225
        (0, 10, 0.0, Z2 / (10 + Z2)),  # 0.2775
        (1000, 1000, 1000 / (1000 + Z2), 1.0),  # 0.99617
        (1, 1, 1 / (1 + Z2), 1.0),  # 0.2065
        # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I,
        # method 3: 81 of 263, 15 of 148, 1 of 29.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval(wins, n, low, high):
    interval = evaluation(win=[1] * wins + [0] * (n - wins)).interval("win")
    assert interval == pytest.approx((low, high), abs=5e-5)


def test_normal_interval_by_hand():
    # 2, 4, 6: mean 4, deviation 2; 4 +- 1.96 * 2 / sqrt(3) = 4 +- 2.2632
    low, high = evaluation(length=[2, 4, 6]).interval("length")
    half = math.sqrt(Z2) * 2 / math.sqrt(3)
    assert (low, high) == pytest.approx((4 - half, 4 + half))
    assert half == pytest.approx(2.2632, abs=1e-4)


def test_episodes_without_a_metric_do_not_count():
    result = evaluation(win=[1, math.nan, 0, 1, math.nan], episodic_reward=[0] * 5)
    assert result.mean("win") == pytest.approx(2 / 3)
    assert result.interval("win") == evaluation(win=[1, 0, 1]).interval("win")


def test_the_table_shows_means_and_intervals():
    agent = Evaluation(
        "agent, greedy",
        {
            "win": np.ones(10),
            "episodic_reward": np.array([1.0] * 10),
            "episodic_length": np.array([8.0, 10.0] * 5),
        },
    )
    other = replace(agent, player="random play", metrics={**agent.metrics, "win": np.zeros(10)})
    head, first, second = table([agent, other]).splitlines()
    assert [part for part in ("win rate", "reward", "length") if part in head] == [
        "win rate",
        "reward",
        "length",
    ]
    assert "95%" in head
    assert first.startswith("agent, greedy")
    assert "1.000 (0.722 to 1.000)" in first
    # deviation sqrt(10 / 9), half = 1.96 * 1.0541 / sqrt(10) = 0.653
    assert "9.00 (8.35 to 9.65)" in first
    assert second.startswith("random play")
    assert "0.000 (0.000 to 0.278)" in second
    assert len({len(line) for line in (head, first, second)}) == 1, "columns line up"


def test_a_metric_that_some_players_lack_has_a_dash_and_one_that_some_episodes_lack_a_count():
    lengths = {"episodic_reward": [0.5] * 4, "episodic_length": [7.0] * 4}
    nan = math.nan
    results = [
        replace(evaluation(win=[1, nan, 1, nan], **lengths), player="half"),
        replace(evaluation(**lengths), player="none"),
        replace(evaluation(win=[nan] * 4, **lengths), player="only nan"),
        replace(evaluation(win=[0, 1, 1, 1], **lengths), player="all"),
    ]
    head, *lines = table(results).splitlines()
    assert "win rate" in head
    # Two of two: low is 2 / (2 + 3.84146) = 0.342.
    assert "  1.000 (0.342 to 1.000) of 2  " in lines[0]
    for line in lines[1:3]:
        assert line[17:47].strip() == "-"
    # Wilson's centre (0.75 + 0.48018) / 1.96037 = 0.6275 and half width 0.3269.
    assert "  0.750 (0.301 to 0.954)  " in lines[3]
    assert " of " not in "".join(lines[1:])
    assert len({len(line) for line in (head, *lines)}) == 1, "columns line up"


def test_numbers_that_are_wider_than_their_column_stay_apart():
    wide = evaluation(
        win=[1.0, 0.0] * 9_000 + [math.nan],
        episodic_reward=[-123456.0, -234567.0] * 9_000 + [0.0],
        episodic_length=[1000.0] * 18_001,
    )
    head, line = table([wide]).splitlines()
    assert len(head) == len(line)
    assert line.endswith("  1000.00 (1000.00 to 1000.00)")
    assert "of 18,000  -" in line


@pytest.mark.parametrize("values", [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]])
@pytest.mark.parametrize("name", ["episodic_reward", "episodic_length"])
def test_a_reward_is_no_rate_even_if_it_is_always_0_or_1(name, values):
    result = evaluation(**{name: values, "win": values})
    # 1, 0, 1, 1: mean 0.75, deviation 0.5; 1.96 * 0.5 / 2 = 0.49. The others do not deviate.
    half = 0.489991 if len(set(values)) == 2 else 0.0
    mean = sum(values) / 4
    assert result.interval(name) == pytest.approx((mean - half, mean + half), abs=1e-5)
    low, high = result.interval("win")
    assert 0 <= low < high <= 1


def strict(text):
    """JSON as the standard has it: NaN and Infinity are none."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_one_episode_has_no_interval_and_its_summary_is_json():
    result = evaluation(win=[1], episodic_reward=[2.5], episodic_length=[7])
    facts = strict(json.dumps(result.summary()))
    assert facts["episodic_reward"] == {"mean": 2.5, "interval95": None, "count": 1}
    assert facts["win"] == {"mean": 1.0, "interval95": None, "count": 1}
    assert facts["episodes"] == 1


# ------------------------------------------------------------------------------------- of a run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = small_config(
        run_dir=str(tmp_path_factory.mktemp("runs")),
        env={"_target_": "minesweeper", "width": 3, "height": 3, "nmines": 1, "max_steps": 8},
        total_timesteps=48,
        eval=EvalConfig(episodes=6, scripted="ragged_envs.minesweeper_script.walk_and_defuse"),
        value_net=True,
    )
    return train(config)


def test_the_run_folder_is_enough_to_evaluate(run):
    results = evaluate_run(run.run, episodes=6)
    assert [r.player for r in results] == [
        "agent, greedy",
        "agent, sampled",
        "scripted player",
        "random play",
    ]
    for mine, other in zip(results, run.evaluations, strict=True):
        assert mine.metrics.keys() == other.metrics.keys()
        for name in mine.metrics:
            assert np.array_equal(mine.metrics[name], other.metrics[name]), "the same episodes"
    assert results[2].mean("win") == 1.0


def test_the_evaluation_file_says_the_same(run):
    facts = json.loads((run.run / "evaluation.json").read_text())
    assert facts["steps"] == 48
    assert [p["player"] for p in facts["players"]] == [e.player for e in run.evaluations]
    for player, result in zip(facts["players"], run.evaluations, strict=True):
        assert player["episodes"] == 6
        assert player["win"]["mean"] == result.mean("win")
        assert player["win"]["interval95"] == list(result.interval("win"))


@pytest.mark.parametrize(
    "path", ["nope", "no.such.module", "ragged_envs.minesweeper_script.walk", "os.path"]
)
def test_a_scripted_player_that_is_not_there_stops_the_run_before_it_starts(tmp_path, path):
    config = small_config(run_dir=str(tmp_path), eval=EvalConfig(episodes=2, scripted=path))
    with pytest.raises(SettingError, match=r"eval\.scripted") as caught:
        train(config, env=Foraging)
    assert path in str(caught.value)
    assert list(tmp_path.iterdir()) == [], "not after hours of training"


def test_evaluation_leaves_the_network_and_the_training_alone():
    config = small_config()
    net = network(Foraging(), config)
    before = parameters(net)
    random = torch.get_rng_state()
    results = [
        evaluate(net, Game(Foraging, {}), config, 4, greedy=greedy) for greedy in (True, False)
    ]
    assert_same(before, parameters(net))
    assert torch.equal(random, torch.get_rng_state())
    assert [r.player for r in results] == ["agent, greedy", "agent, sampled"]
    assert all(p.grad is None for p in net.parameters())


def test_greedy_play_repeats_and_evaluations_have_episodes_of_their_own():
    config = small_config()
    net = network(SavedForaging(), config)

    def play(number):
        result = evaluate(net, Game(SavedForaging, {}), config, 6, greedy=True, number=number)
        return result.metrics["episodic_reward"].tolist()

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_an_evaluation_has_as_many_environments_at_once_as_the_training():
    made, closed = [], []

    class Counted(Truncated):
        def __init__(self):
            super().__init__(4)
            made.append(self)

        def close(self):
            closed.append(self)

    config = small_config()  # of 4 environments
    net = network(Truncated(), config)
    result = evaluate(net, Game(Counted, {}), config, 11, greedy=True)
    assert (len(made), len(closed)) == (4, 4)
    # Each episode counts once.
    assert result.metrics["episodic_length"].tolist() == [4.0] * 11
    assert result.metrics["episodic_reward"].tolist() == [10.0] * 11  # 1 + 2 + 3 + 4


@pytest.mark.parametrize("greedy", [False, True])
def test_an_episode_without_an_end_is_cut_off_and_counted(greedy):
    config = small_config(eval=EvalConfig(max_steps=6))
    net = network(Truncated(), config)
    result = evaluate(net, Game(Truncated, {"limit": 500}), config, 6, greedy=greedy)
    assert result.metrics["episodic_length"].tolist() == [6.0] * 6
    assert result.metrics["episodic_reward"].tolist() == [21.0] * 6  # 1 + 2 + ... + 6


# ------------------------------------------------------------------- a win that only winners have

CODE = (1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1)
"""The choices that win; in half of the episodes the opposite ones, which is not observable."""


class Vault(Truncated):
    """Reports ``win`` only when it is won, which takes the whole code."""

    def __init__(self):
        super().__init__(limit=len(CODE), truncated=False)

    def reset(self):
        self.opposite = int(self.rng.integers(2))
        self.right = True
        return super().reset()

    def act(self, actions):
        self.right &= int(actions["Move"].indices[0]) == CODE[self.step] ^ self.opposite
        observation = super().act(actions)
        if observation.done and self.right:
            observation.metrics = {"win": 1.0}
        return observation


def spy(observation):
    """Knows the code."""
    choice = CODE[int(observation.features["Robot"][0][0])]
    return {"Move": CategoricalAction([0], np.array([choice]), ["left", "right"])}


def test_a_run_whose_environment_reports_a_win_only_when_won(tmp_path, capsys):
    config = small_config(
        run_dir=str(tmp_path),
        total_timesteps=24,
        eval=EvalConfig(episodes=20, every=1, scripted=f"{__name__}.spy"),
    )
    done = train(config, env=Vault)
    players = strict((done.run / "evaluation.json").read_text())["players"]
    wins = {player["player"]: player.get("win") for player in players}
    won = wins.pop("scripted player")
    # Twenty fair coins: 10 and 4 * 2.24 to either side.
    assert 2 <= won["count"] <= 18
    assert won["mean"] == 1.0
    assert set(wins.values()) == {None}, "of 4,096 codes two open it"
    lines = capsys.readouterr().out.splitlines()
    cell = {line[:17].strip(): line[17:47].strip() for line in lines}
    low = won["count"] / (won["count"] + Z2)
    assert cell["scripted player"] == f"1.000 ({low:.3f} to 1.000) of {won['count']}"
    assert cell["agent, greedy"] == cell["agent, sampled"] == cell["random play"] == "-"


def test_eval_env_changes_the_environment_wherever_a_run_is_measured(tmp_path):
    settings = small_config(
        run_dir=str(tmp_path),
        env={"_target_": "cherry_pick", "num_cherries": 8, "num_picks": 3},
        eval=EvalConfig(episodes=4, every=1, env={"num_picks": 7}),
    )
    result = train(settings)
    trained = json.loads((result.run / "metrics.jsonl").read_text().splitlines()[-1])
    assert (trained["episodic_length"], trained["eval/episodic_length"]) == (3.0, 7.0)
    assert {own.mean("episodic_length") for own in result.evaluations} == {7.0}
    known, told = (
        evaluate_run(result.run, episodes=4),
        evaluate_run(result.run, episodes=4, settings={"num_picks": 5}),
    )
    assert {own.mean("episodic_length") for own in known} == {7.0}
    assert {own.mean("episodic_length") for own in told} == {5.0}
    assert RunFolder(result.run).read_config().env["num_picks"] == 3


def test_eval_env_is_checked_before_the_training(tmp_path):
    env = {"_target_": "count"}
    with pytest.raises(SettingError, match="no setting 'lenght'"):
        train(small_config(run_dir=str(tmp_path), env=env, eval=EvalConfig(env={"lenght": 7})))
    with pytest.raises(SettingError, match=r"eval\.env has a _target_"):
        small_config(env=env, eval=EvalConfig(env={"_target_": "xor"}))
    assert list(tmp_path.iterdir()) == []
