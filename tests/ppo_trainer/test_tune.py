"""The search for settings: what it keeps, compares and writes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from entity_env.errors import MissingPackageError
from ppo_trainer import recipe, tune
from ppo_trainer.errors import ConfigError
from ppo_trainer.reporting.evaluation import Evaluation

pytest.importorskip("optuna")

SETTINGS = ["env=xor", "total_timesteps=4096", "net.dim=32", "eval.episodes=10"]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Trainings that do not train: the score is 10 times lambda, 1 less with seed 1."""
    import numpy as np

    configs = []

    def train(config: Any, callbacks: Any = None) -> Any:
        configs.append(config)
        score = 10 * config.ppo.gae_lambda - (config.seed == 1)
        metrics = {"episodic_reward": np.full(3, score), "episodic_length": np.ones(3)}

        class Result:
            interrupted = False
            evaluations = (Evaluation("agent, greedy", metrics),)

        return Result()

    monkeypatch.setattr(tune, "train", train)
    monkeypatch.setattr(tune, "SPACE", {"ppo.gae_lambda": (0.8, 0.9), "ppo.gamma": (0.9, 0.99)})
    # Each look at the clock takes a second.
    monkeypatch.setattr(tune.time, "monotonic", itertools.count().__next__)
    return configs


def test_the_best_settings_of_other_seeds_are_written(tmp_path: Path, trained: list[Any]) -> None:
    found = tune.tune([*SETTINGS, "ppo.gae_lambda=0.5"], 1, tmp_path)
    # Lambda was given, so that gamma is searched alone, and makes no difference.
    assert set(found) <= {"ppo.gamma"}
    assert {config.ppo.gae_lambda for config in trained} == {0.5}
    assert {config.net.dim for config in trained} == {32}
    trained.clear()
    found = tune.tune(SETTINGS, 1, tmp_path / "free")
    assert trained[1].ppo.gae_lambda == 0.95  # the first trial changes nothing
    # 0.95 is the best, and the first trial has it.
    assert "ppo.gae_lambda" not in found


def test_a_better_trial_becomes_a_recipe_that_trains(tmp_path: Path, trained: list[Any]) -> None:
    tune.SPACE["ppo.gae_lambda"] = (0.8, 0.99)
    found = tune.tune(SETTINGS, 2, tmp_path)
    assert found["ppo.gae_lambda"] == 0.99
    text = (tmp_path / "recipe.yaml").read_text()
    assert yaml.safe_load(text)["ppo"]["gae_lambda"] == 0.99
    own = recipe("xor", f"experiment={tmp_path / 'recipe.yaml'}", "ppo.gamma=0.5")
    assert own.ppo.gae_lambda == 0.99
    assert own.ppo.gamma == 0.5  # the command line counts more
    seeds = {config.seed for config in trained}
    assert {1, 2} <= seeds


def test_a_search_goes_on_where_it_stopped(
    tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = tune.train

    def interrupted(config: Any, callbacks: Any = None) -> Any:
        result: Any = train(config, callbacks)
        result.interrupted = len(trained) > 4
        return result

    monkeypatch.setattr(tune, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(SETTINGS, 1, tmp_path)
    stopped = trained[-1]
    trained.clear()
    monkeypatch.setattr(tune, "train", train)
    tune.tune(SETTINGS, 1, tmp_path)
    # The length of a trial is known, and the trial that was stopped is trained first.
    assert trained[0].ppo == stopped.ppo
    with pytest.raises(ConfigError, match="holds another search"):
        tune.tune([*SETTINGS, "seed=7"], 1, tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["seed=1"], "no environment"),
        (["env=xor", "resume=runs/x"], "--folder"),
        (["env=xor", "ppo.gama=1"], "gamma"),
    ],
)
def test_settings_that_no_search_has(tmp_path: Path, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tune.tune(settings, 1, tmp_path)


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingPackageError, match=r"ragged-rl\[tune\]"):
        tune.tune(SETTINGS, 1, tmp_path)


def test_a_whole_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "SPACE", {"optim.lr": (0.003, 0.001)})
    tune.tune(SETTINGS, 1e-4, tmp_path)
    assert (tmp_path / "recipe.yaml").exists()
    with pytest.raises(ConfigError, match="no metric 'wins'"):
        tune.tune(SETTINGS, 1e-4, tmp_path / "other", metric="wins")
