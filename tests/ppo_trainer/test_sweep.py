"""The table at the end of a sweep."""

from pathlib import Path

import numpy as np

from ppo_trainer.command_line.sweep import SweptRun, sweep_table
from ppo_trainer.loop import TrainResult
from ppo_trainer.reporting.evaluation import Evaluation


def result(name, reward, win=None, steps=2048, evaluated=True, interrupted=False):
    """Return the run of a greedy agent with these numbers in each of two episodes."""
    means = {"episodic_reward": reward, "episodic_length": 7.0}
    means |= {} if win is None else {"win": win}
    players = [("agent, greedy", 0.0), ("agent, sampled", -1.0), ("random play", -2.0)]
    evaluations = [
        Evaluation(player, {name: np.full(2, value + less) for name, value in means.items()})
        for player, less in players
    ]
    training = {name: value / 2 for name, value in means.items()}
    shown = evaluations if evaluated else []
    return TrainResult(Path("runs") / name, steps, interrupted, None, shown, training)


def swept(settings, *more, **kinds):
    return SweptRun(dict(word.split("=") for word in settings.split()), *more, **kinds)


def test_settings_that_differ_stand_beside_what_came_out():
    runs = [
        swept("seed=1 optim.lr=0.001 env=xor", result("a", 0.5, 0.25, 700_416)),
        swept("seed=2 optim.lr=0.001 env=count", result("b", -1.5, 1.0)),
    ]
    assert sweep_table(runs).splitlines() == [
        "The 2 runs of this sweep (agent, greedy, in fresh episodes):",
        "seed  env      win  reward  length    steps  run",
        "1     xor    0.250   0.500    7.00  700,416  runs/a",
        "2     count  1.000  -1.500    7.00    2,048  runs/b",
    ]


def test_without_evaluations_the_last_episodes_of_the_training_are_shown():
    runs = [
        swept("seed=1", result("a", 0.5, evaluated=False)),
        swept("seed=2", result("b", 0.7, evaluated=False)),
    ]
    head, names, first, second = sweep_table(runs).splitlines()
    assert "over the last episodes of training" in head
    assert names.split() == ["seed", "reward", "length", "steps", "run"]
    assert first.split() == ["1", "0.250", "3.50", "2,048", "runs/a"]
    assert second.split() == ["2", "0.350", "3.50", "2,048", "runs/b"]


def test_runs_that_failed_or_were_stopped_are_in_it():
    runs = [
        swept("optim.lr=0.001", result("a", 0.5)),
        swept("optim.lr=1e9", failure="NonFiniteError"),
        swept("optim.lr=0.1", result("c", 0.5, evaluated=False, interrupted=True)),
    ]
    lines = sweep_table(runs).splitlines()
    assert lines[3].split() == ["1e9", "-", "-", "-", "failed:", "NonFiniteError"]
    assert lines[4].split() == ["0.1", "-", "-", "2,048", "runs/c", "(stopped)"]


def test_a_setting_of_one_run_only_differs():
    runs = [swept("seed=1", result("a", 1.0)), swept("seed=1 x=2", result("b", 1.0))]
    assert [line.split()[0] for line in sweep_table(runs).splitlines()[1:]] == ["x", "-", "2"]
