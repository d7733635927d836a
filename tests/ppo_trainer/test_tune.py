"""The search for settings: what it keeps, compares and writes."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from entity_env.errors import MissingPackageError
from entity_env.storage.files import folder_lock
from ppo_trainer import recipe, tune
from ppo_trainer.command_line.overrides import config_of, hydra_arguments, write_recipe
from ppo_trainer.command_line.spaces import Interval, spaces_of
from ppo_trainer.config import with_changes
from ppo_trainer.errors import ConfigError, NonFiniteError
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.tuning import trainings
from ppo_trainer.tuning.trials import difference, importances

pytest.importorskip("optuna")

SETTINGS = ["env=xor", "total_timesteps=4096", "net.dim=32", "eval.episodes=10"]


Score = Callable[[Any], float]


def evaluated(score: float) -> list[Evaluation]:
    metrics = {"episodic_reward": np.full(3, score), "episodic_length": np.ones(3)}
    return [Evaluation("agent, greedy", metrics), Evaluation("random", metrics)]


def patch_train(
    monkeypatch: pytest.MonkeyPatch,
    score: Score = lambda config: 10 * config.ppo.gae_lambda - (config.seed == 1),
) -> list[Any]:
    """Replace trainings by a score of their settings; return the list of these settings.

    By default the score is 10 times lambda, 1 less with seed 1.
    """
    configs = []

    def train(config: Any, callbacks: Any = None, stop: Any = None) -> Any:
        if config.run_name != "measure":
            configs.append(config)
        return SimpleNamespace(interrupted=False, evaluations=evaluated(score(config)))

    monkeypatch.setattr(trainings, "train", train)
    monkeypatch.setattr(tune, "SPACE", {"ppo.gae_lambda": (0.8, 0.9), "ppo.gamma": (0.9, 0.99)})
    # Each look at the clock takes a second.
    monkeypatch.setattr(trainings.time, "monotonic", itertools.count().__next__)
    return configs


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return patch_train(monkeypatch)


def test_the_best_settings_of_other_seeds_are_written(tmp_path: Path, trained: list[Any]) -> None:
    found = tune.tune([*SETTINGS, "ppo.gae_lambda=0.5"], 1, tmp_path)
    # Lambda was given, so that gamma is searched alone, and makes no difference.
    assert set(found) <= {"ppo.gamma"}
    assert {config.ppo.gae_lambda for config in trained} == {0.5}
    assert {config.net.dim for config in trained} == {32}
    trained.clear()
    found = tune.tune(SETTINGS, 1, tmp_path / "free")
    assert trained[0].ppo.gae_lambda == 0.95  # the first trial changes nothing
    # 0.95 is the best, and the first trial has it.
    assert "ppo.gae_lambda" not in found


def test_a_better_trial_becomes_a_recipe_that_trains(tmp_path: Path, trained: list[Any]) -> None:
    tune.SPACE["ppo.gae_lambda"] = (0.8, 0.99)
    found = tune.tune(SETTINGS, 1, tmp_path)
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
    fast = trainings.train

    def train(config: Any, callbacks: Any = None, stop: Any = None) -> Any:
        if config.run_name == "measure":  # 500 steps a second
            for steps in (0, 500):
                callbacks(SimpleNamespace(steps=steps))
        return fast(config, callbacks)

    monkeypatch.setattr(trainings, "train", train)
    tune.tune(SETTINGS, 1, tmp_path)
    # Twelve trials fit into 60 seconds. Three episodes take a second, ten take 3.33 of the 5.
    said = "".join(capsys.readouterr())
    assert "trials of 833 steps (20% of total_timesteps=4,096) and 10 episodes" in said


@pytest.mark.parametrize("trial", [0, 1])
def test_a_search_goes_on_where_it_stopped(
    tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch, trial: int
) -> None:
    train = trainings.train

    def interrupted(config: Any, callbacks: Any = None, stop: Any = None) -> Any:
        result: Any = train(config, callbacks)
        result.interrupted = len(trained) > trial
        return result

    monkeypatch.setattr(trainings, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(SETTINGS, 1, tmp_path)
    stopped = trained[-1]
    trained.clear()
    monkeypatch.setattr(trainings, "train", train)
    found = tune.tune(SETTINGS, 1, tmp_path)
    # The length of a trial is known, and the trial that was stopped is trained first.
    assert trained[0].ppo == stopped.ppo
    # Also after an interruption the others are compared with the first trial, which is better.
    assert "ppo.gae_lambda" not in found
    assert {config.ppo.gae_lambda for config in trained if config.seed == 2} > {0.95}
    with pytest.raises(ConfigError, match="contains another search"):
        tune.tune([*SETTINGS, "seed=7"], 1, tmp_path)
    with folder_lock(tmp_path), pytest.raises(ConfigError, match="another process searches"):
        tune.tune(SETTINGS, 1, tmp_path)


def test_a_search_that_was_killed_before_its_first_trial(
    tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = trainings.train
    monkeypatch.setattr(trainings, "train", lambda *_, **__: SimpleNamespace(interrupted=True))
    with pytest.raises(KeyboardInterrupt):
        tune.tune(SETTINGS, 1, tmp_path)
    monkeypatch.setattr(trainings, "train", train)
    tune.tune([*SETTINGS, "seed=7"], 1, tmp_path)  # any other search
    assert trained[0].ppo.gae_lambda == 0.95


def test_luck_with_one_seed_is_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def score(config: Any) -> float:
        if config.seed == 1:  # the seed by which trials are selected
            return 10 * (config.ppo.gae_lambda != 0.95)
        # The others win by 1 and lose by 0.8: 0.1 on average, with a standard error of 0.9.
        return (1 if config.seed % 2 else -0.8) * (config.ppo.gae_lambda != 0.95)

    patch_train(monkeypatch, score)
    assert tune.tune(SETTINGS, 1, tmp_path) == {}
    assert yaml.safe_load((tmp_path / "recipe.yaml").read_text()) == {}


def test_differences_are_those_of_common_seeds() -> None:
    # 3 - 1 and 7 - 3: their mean is 3, their deviation the root of 2, divided by the root of 2.
    own = difference({1: 3.0, 2: 7.0, 3: 100.0}, {1: 1.0, 2: 3.0, 4: 0.0})
    assert (own.mean, own.error, own.seeds) == (3, pytest.approx(1), 2)
    assert own.is_better
    assert not difference({1: 3.0}, {1: 1.0}).is_better  # one seed
    assert not difference({1: 3.0, 2: 1.0}, {1: 1.0, 2: 3.0}).is_better
    assert not difference({1: 9.0, 2: -math.inf}, {1: 1.0, 2: 1.0}).is_better
    assert not difference({}, {}).is_better


def test_values_that_cannot_be_combined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = patch_train(monkeypatch)
    settings = [*SETTINGS, "rollout.num_envs=128", "ppo.minibatch_size=512,1024"]
    with pytest.raises(ConfigError, match="50 combinations of values were refused") as caught:
        tune.tune([*settings, "rollout.steps=2,3"], 1, tmp_path / "none")  # at most 384 frames
    assert "ppo.minibatch_size is larger than a rollout" in str(caught.value.__cause__)
    assert not trained
    tune.tune([*settings, "rollout.steps=2,4"], 1, tmp_path / "one")  # 512 frames
    assert {(own.rollout.steps, own.ppo.minibatch_size) for own in trained} == {(4, 512)}


def test_each_combination_is_tried_once(tmp_path: Path, trained: list[Any]) -> None:
    tune.tune([*SETTINGS, "ppo.gae_lambda=0.8,0.9", "ppo.epochs=1,2"], 5, tmp_path)
    tried = [(own.ppo.gae_lambda, own.ppo.epochs) for own in trained if own.seed == 1]
    assert sorted(tried) == [(0.8, 1), (0.8, 2), (0.9, 1), (0.9, 2)]


def test_a_training_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def score(config: Any) -> float:
        if config.ppo.gae_lambda == failing and config.run_name != "measure":
            raise NonFiniteError("the loss is nan")
        return 0.0

    patch_train(monkeypatch, score)
    failing, settings = 0.8, [*SETTINGS, "ppo.gae_lambda=0.8,0.95"]
    assert tune.tune(settings, 1, tmp_path) == {}
    assert "failed, NonFiniteError: the loss is nan; ppo.gae_lambda=0.8" in capsys.readouterr().out
    failing = 0.95
    with pytest.raises(NonFiniteError):
        tune.tune(settings, 1, tmp_path / "first")


def test_bad_trials_are_stopped_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_train(monkeypatch)
    fast, reached = trainings.train, list[tuple[float, float]]()

    def train(config: Any, callbacks: Any = None, stop: Any = None) -> Any:
        quality = 0.8 if config.ppo.gae_lambda == 0.9 else 0.9
        for part in (1 / 8, 1 / 4, 1 / 2, 1) if config.seed == 1 and stop else ():
            # That with lambda 0.9 is worse in the last half only.
            means = {"episodic_reward": quality if part >= 1 / 2 else 1.0}
            callbacks(
                SimpleNamespace(
                    steps=part * config.total_timesteps,
                    means=means,
                    game=SimpleNamespace(has_seats=False),
                )
            )
            try:
                stop(0)
            except Exception:
                reached.append((config.ppo.gae_lambda, part))
                raise
        return fast(config)

    monkeypatch.setattr(trainings, "train", train)
    tune.tune([*SETTINGS, "ppo.gae_lambda=0.9,0.95"], 2, tmp_path)
    assert reached == [(0.9, 1 / 2)]
    assert "pruned,0.8,0.9" in (tmp_path / "trials.csv").read_text()


def test_a_recipe_gives_the_same_config(tmp_path: Path) -> None:
    changes = {
        "total_timesteps": 5,
        "optim.lr": 1e-5,
        "net.value_norm": "none",
        "env.a.b": [1, "it's é"],
        "env.a.c": {"d": "C:\\folder\\"},
        "env.e": 'say "x", or {y}',
        "env.f": None,
    }
    write_recipe(tmp_path / "own.yaml", changes)
    own = recipe("custom", "env._target_=m.E", f"experiment={tmp_path / 'own.yaml'}")
    assert own == with_changes(recipe("custom", "env._target_=m.E"), changes)


def test_the_printed_command_can_be_typed(tmp_path: Path, trained: list[Any], capsys: Any) -> None:
    folder = tmp_path / "my search"
    tune.tune([*SETTINGS, "run_name=a b", "ppo.gae_lambda=0.97,0.99"], 1, folder)
    line = capsys.readouterr().out.rstrip().splitlines()[-1]
    _, _, module, *settings = shlex.split(line)
    assert module == "ppo_trainer"
    config = config_of(settings, "train")
    assert (config.run_name, config.ppo.gae_lambda) == ("a b", 0.99)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["seed=1"], "no environment"),
        (["env=xor", "resume=runs/x"], "--folder"),
        (["env=xor", "eval.episodes=0"], "compares evaluations"),
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
    with pytest.raises(ConfigError, match="no episode has the metric 'wins'"):
        tune.tune(SETTINGS, 1e-4, tmp_path / "other", metric="wins")
    tune.tune(SETTINGS, 1e-4, tmp_path / "other", metric="win")  # the folder is free


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
    lambdas = [config.ppo.gae_lambda for config in trained]
    # xor has 0.95, and 0.9 is the nearest to it: the first trial has it, and nothing is better.
    assert lambdas[0] == 0.9
    assert all(0.5 <= own <= 0.9 for own in lambdas)
    assert len(set(lambdas)) > 4
    assert {config.ppo.epochs for config in trained} <= {2, 3, 4}
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
