"""The search for settings: what it keeps, compares and writes."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from entity_env.errors import MissingPackageError
from ppo_trainer import recipe, tune
from ppo_trainer.command_line.overrides import hydra_arguments
from ppo_trainer.command_line.spaces import Interval, spaces_of
from ppo_trainer.errors import ConfigError
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.trials import importances

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


def test_trials_shorter_than_a_run_are_named(
    tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    fast = tune.train

    def train(config: Any, callbacks: Any = None) -> Any:
        if not config.eval.episodes:  # the training that measures the speed: 500 steps a second
            for steps in (0, 500):
                callbacks(SimpleNamespace(steps=steps))
        return fast(config, callbacks)

    monkeypatch.setattr(tune, "train", train)
    tune.tune(SETTINGS, 1, tmp_path)
    # Ten trials of 3,000 steps fit into 60 seconds.
    said = "".join(capsys.readouterr())
    assert "trials of 3,000 steps (73% of total_timesteps=4,096)" in said


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
    with pytest.raises(ConfigError, match="contains another search"):
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


def test_settings_with_many_values_are_spaces() -> None:
    single, spaces = spaces_of(
        ["env=xor", "optim.lr=interval(1e-4,1e-2)", "++net.dim=16,32", "ppo.epochs=range(1,8,3)",
         "ppo.gamma=interval(0.9,0.99)", "ppo.clip_coef=tag(log,interval(0.1,0.3))",
         "stop_at={win: 1}", "net.relations=[[a,b]]"]
    )  # fmt: skip
    assert single == ["env=xor", "stop_at={win: 1}", "net.relations=[[a,b]]"]
    assert spaces == {
        "optim.lr": Interval(1e-4, 1e-2, log=True),  # its end is 100 times its beginning
        "net.dim": [16, 32],
        "ppo.epochs": Interval(1, 7, 3, is_whole=True),  # 1, 4, 7
        "ppo.gamma": Interval(0.9, 0.99),
        "ppo.clip_coef": Interval(0.1, 0.3, log=True),
    }
    for wrong in ("optim.lr=interval(2,1)", "optim.lr=tag(log,interval(0,1))", "a=range(1,2)"):
        with pytest.raises(ConfigError, match="an empty interval"):
            spaces_of([wrong])
    with pytest.raises(ConfigError, match=r"ppo_trainer\.tune env=\.\.\. 'optim\.lr=interval"):
        hydra_arguments(["-m", "optim.lr=interval(1,2)"])


def test_only_named_spaces_are_searched(tmp_path: Path, trained: list[Any]) -> None:
    settings = [*SETTINGS, "ppo.gae_lambda=interval(0.5,0.9)", "ppo.epochs=range(2,5)"]
    found = tune.tune(settings, 2, tmp_path)
    lambdas = [config.ppo.gae_lambda for config in trained[1:]]
    # xor has 0.95, and 0.9 is the nearest to it: the first trial has it, and nothing is better.
    assert lambdas[0] == 0.9
    assert all(0.5 <= own <= 0.9 for own in lambdas)
    assert len(set(lambdas)) > 4
    assert {config.ppo.epochs for config in trained[1:]} <= {2, 3, 4}
    assert {config.ppo.gamma for config in trained} == {trained[0].ppo.gamma}
    assert found["ppo.gae_lambda"] == pytest.approx(0.9)
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    assert lines[0] == "trial,state,episodic_reward,ppo.gae_lambda,ppo.epochs"
    assert lines[1].startswith("0,complete,8.0,0.9,")
    for name in ("importance.png", "parallel.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    trained.clear()
    tune.tune(settings, 2, tmp_path)  # goes on with it
    assert len((tmp_path / "trials.csv").read_text().splitlines()) > len(lines)
    with pytest.raises(ConfigError, match="gama is not a setting"):
        tune.tune([*SETTINGS, "ppo.gama=interval(0,1)"], 1, tmp_path / "other")


def test_what_matters_is_found() -> None:
    import optuna

    study = optuna.create_study(direction="maximize")
    spaces = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("matters", "not")}
    for number in range(60):
        drawn = {"matters": (7 * number % 60) / 60, "not": (11 * number % 60) / 60}
        trial = optuna.trial.create_trial(
            params=drawn, distributions=spaces, value=drawn["matters"]
        )
        study.add_trial(trial)
    found = importances(study)
    assert found["matters"] > 0.8 > 0.2 > found["not"]
