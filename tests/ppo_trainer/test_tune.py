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

from entity_env.errors import MissingPackageError, NonFiniteError, SettingError
from entity_env.storage.files import folder_lock
from ppo_trainer import recipe, tune, tuning
from ppo_trainer.command_line.configs import config_of, write_recipe
from ppo_trainer.command_line.words import combinations
from ppo_trainer.config import with_changes
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.tuning import choices, difference, spaces_of

pytest.importorskip("optuna")

SETTINGS = ["env=xor", "total_timesteps=4096", "net.dim=32", "eval.episodes=10"]


Score = Callable[[Any], float]


def evaluated(score: float) -> list[Evaluation]:
    metrics = {"episodic_reward": np.full(3, score), "episodic_length": np.ones(3)}
    return [Evaluation("agent, greedy", metrics), Evaluation("random play", metrics)]


def patch_train(
    monkeypatch: pytest.MonkeyPatch,
    score: Score = lambda config: 10 * config.ppo.gae_lambda - (config.seed == 1),
) -> list[Any]:
    """Replace trainings by a score of their settings; return the list of these settings.

    By default the score is 10 times lambda, 1 less with seed 1.
    """
    configs = []

    def train(config: Any) -> Any:
        if config.run_name != "measure":
            configs.append(config)
        steps = config.total_timesteps
        return SimpleNamespace(interrupted=False, steps=steps, evaluations=evaluated(score(config)))

    monkeypatch.setattr(tuning, "train", train)
    monkeypatch.setattr(tune, "SPACE", {"ppo.gae_lambda": (0.8, 0.9), "ppo.gamma": (0.9, 0.99)})
    # Each look at the clock takes a second.
    monkeypatch.setattr(tuning.time, "monotonic", itertools.count().__next__)
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
    config = recipe("xor", f"experiment={tmp_path / 'recipe.yaml'}", "ppo.gamma=0.5")
    assert config.ppo.gae_lambda == 0.99
    assert config.ppo.gamma == 0.5  # the command line counts more
    seeds = {config.seed for config in trained}
    assert {1, 2} <= seeds


@pytest.mark.parametrize(
    ("minutes", "leaves", "steps", "is_better"),
    # Each training takes a second, and 24 of them fit into the time: 2.5 seconds for a trial, which
    # are 2.5 times the steps of the attempt, or 0.25 seconds, so that twice its steps count. The
    # attempts end after four times the time for a trial, 1 second of 0.1 minutes.
    [
        (1, 8191, 20_480, True),
        (1, 8192, 40_960, True),
        (0.1, 8191, 16_384, True),
        (0.1, 8192, 16_384, False),
    ],
)
def test_trials_are_as_long_as_it_takes_to_leave_random_play(
    tmp_path: Path,
    trained: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    minutes: float,
    leaves: int,
    steps: int,
    is_better: bool,
) -> None:
    fast = tuning.train

    def train(config: Any) -> Any:
        result = fast(config)
        if config.run_name == "measure":
            result.evaluations = evaluated(10 * (result.steps > leaves))[:1] + evaluated(9)[1:]
        return result

    monkeypatch.setattr(tuning, "train", train)
    tune.tune([*SETTINGS, "total_timesteps=100_000"], minutes, tmp_path)
    said = "".join(capsys.readouterr())
    assert f"trials of {steps:,} steps ({steps / 100_000:.0%} of total_timesteps=100,000)" in said
    assert ("does not beat random play" in said) == (not is_better)
    assert {config.total_timesteps for config in trained} == {steps}


@pytest.mark.parametrize("trial", [0, 1])
def test_a_search_goes_on_where_it_stopped(
    tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch, trial: int
) -> None:
    train = tuning.train

    def interrupted(config: Any) -> Any:
        result: Any = train(config)
        result.interrupted = len(trained) > trial
        return result

    monkeypatch.setattr(tuning, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune.tune(SETTINGS, 1, tmp_path)
    assert (tmp_path / "recipe.yaml").exists() == (trial > 0)  # without a score nothing is said
    with (tmp_path / "trials.journal").open("ab") as file:
        file.write(b'{"op_code":4,"study')  # of a search that was killed
    first = trained[0].ppo
    trained.clear()
    monkeypatch.setattr(tuning, "train", train)
    found = tune.tune(SETTINGS, 1, tmp_path)
    # The first trial is trained again only if it was stopped.
    of_trials = [config.ppo for config in trained if config.seed == 1]
    assert of_trials.count(first) == (trial == 0)
    assert len(of_trials) > 1
    # Also after an interruption the others are compared with the first trial, which is better.
    assert "ppo.gae_lambda" not in found
    assert {config.ppo.gae_lambda for config in trained if config.seed == 2} > {0.95}
    with pytest.raises(SettingError, match="contains another search"):
        tune.tune([*SETTINGS, "seed=7"], 1, tmp_path)
    with folder_lock(tmp_path), pytest.raises(SettingError, match="another process searches"):
        tune.tune(SETTINGS, 1, tmp_path)
    (tmp_path / "trials.journal").write_text('{"op_code":0}\n')
    with pytest.raises(SettingError, match="cannot be read"):
        tune.tune(SETTINGS, 1, tmp_path)


def test_a_search_that_was_killed_before_its_first_trial(
    tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = tuning.train
    monkeypatch.setattr(
        tuning, "train", lambda *_, **__: SimpleNamespace(interrupted=True, steps=1)
    )
    with pytest.raises(KeyboardInterrupt):
        tune.tune(SETTINGS, 1, tmp_path)
    monkeypatch.setattr(tuning, "train", train)
    tune.tune([*SETTINGS, "seed=7"], 1, tmp_path)  # any other search
    assert trained[0].ppo.gae_lambda == 0.95


def test_luck_with_one_seed_is_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def score(config: Any) -> float:
        if config.seed == 1:  # the seed by which trials are selected
            return 10 * (config.ppo.gae_lambda != 0.95)
        # The others win by 1 and lose by 0.8: 0.1 on average, with a standard error of 0.9.
        return (-0.8 if config.seed % 2 else 1) * (config.ppo.gae_lambda != 0.95)

    patch_train(monkeypatch, score)
    assert tune.tune(SETTINGS, 1, tmp_path) == {}
    assert yaml.safe_load((tmp_path / "recipe.yaml").read_text()) == {}


def test_differences_are_those_of_common_seeds() -> None:
    # 3 - 1 and 7 - 3: their mean is 3, their deviation the root of 2, divided by the root of 2.
    gain = difference([3.0, 7.0, 100.0], [1.0, 3.0])
    assert (gain.mean, gain.error, gain.seeds) == (3, pytest.approx(1), 2)
    assert gain.is_better
    assert not difference([3.0], [1.0]).is_better  # one seed
    assert not difference([3.0, 1.0], [1.0, 3.0]).is_better
    assert not difference([9.0, -math.inf], [1.0, 1.0]).is_better
    assert not difference([], []).is_better


def test_values_that_cannot_be_combined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    trained = patch_train(monkeypatch)
    settings = ["rollout.num_envs=128", "ppo.minibatch_size=512,1024", "rollout.steps=4,3"]
    tune.tune([*SETTINGS, *settings], 5, tmp_path)
    # Minibatches of 512 frames need four steps.
    tried = {(config.rollout.steps, config.ppo.minibatch_size) for config in trained[1:]}
    assert tried - {(trained[0].rollout.steps, trained[0].ppo.minibatch_size)} == {(4, 512)}
    assert "is not valid: ppo.minibatch_size is larger" in capsys.readouterr().out


def test_each_combination_is_tried_once(tmp_path: Path, trained: list[Any]) -> None:
    tune.tune([*SETTINGS, "ppo.gae_lambda=0.8,0.9", "ppo.epochs=1,2"], 5, tmp_path)
    of_trials = [config.ppo for config in trained if config.seed == 1]
    tried = [(ppo.gae_lambda, ppo.epochs) for ppo in of_trials]
    assert sorted(tried[1:]) == [(0.8, 1), (0.8, 2), (0.9, 1), (0.9, 2)]


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
    config = recipe("custom", "env._target_=m.E", f"experiment={tmp_path / 'own.yaml'}")
    assert config == with_changes(recipe("custom", "env._target_=m.E"), changes)


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
        (["env=xor", "ppo.gama=interval(0,1)"], "gamma"),
        (["env=xor", "net=1,2"], "net is a group"),
        (["env=xor", "seed=1,2"], "seed cannot be searched"),
        (["env=xor", "selfplay.opponents=[a],[b]"], "no values that can be tried"),
        (["env=xor", "ppo.gamma=glob(*)"], "no values that can be tried"),
        (["env=xor", "ppo.gamma=interval(0,nan)"], "no values that can be tried"),
    ],
)
def test_settings_that_no_search_has(tmp_path: Path, settings: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        tune.tune(settings, 1, tmp_path)


def test_given_groups_are_not_searched(tmp_path: Path, trained: list[Any]) -> None:
    tune.tune([*SETTINGS, "ppo={gae_lambda: 0.5}"], 1, tmp_path)
    assert {config.ppo.gae_lambda for config in trained} == {0.5}
    with pytest.raises(SettingError, match="minutes"):
        tune.tune(SETTINGS, math.nan, tmp_path)


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingPackageError, match=r"ragged-rl\[tune\]"):
        tune.tune(SETTINGS, 1, tmp_path)


def test_a_whole_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "SPACE", {"optim.lr": (0.003, 0.001)})
    tune.tune(SETTINGS, 1e-4, tmp_path)
    assert (tmp_path / "recipe.yaml").exists()
    with pytest.raises(SettingError, match="no episode has the metric 'wins'"):
        tune.tune(SETTINGS, 1e-4, tmp_path / "other", metric="wins")
    tune.tune(SETTINGS, 1e-4, tmp_path / "other", metric="win")  # the folder is free


def test_settings_with_many_values_are_spaces() -> None:
    from optuna.distributions import FloatDistribution

    single, spaces = spaces_of(
        ["env=xor", "optim.lr=interval(1e-4,1e-2)", "++net.dim=16,32", "ppo.epochs=range(1,8,3)",
         "ppo.gamma=interval(0.9,0.99)", "ppo.clip_coef=tag(log,interval(0.1,0.3))",
         "stop_at={win: 1}", "net.relations=[[a,b]]"]
    )  # fmt: skip
    assert single == ["env=xor", "stop_at={win: 1}", "net.relations=[[a,b]]"]
    assert spaces == {
        "optim.lr": FloatDistribution(1e-4, 1e-2, log=True),  # its end is 100 times its beginning
        "net.dim": choices([16, 32]),
        "ppo.epochs": choices([1, 4, 7]),
        "ppo.gamma": FloatDistribution(0.9, 0.99),
        "ppo.clip_coef": FloatDistribution(0.1, 0.3, log=True),
    }
    for wrong in ("optim.lr=interval(2,1)", "optim.lr=tag(log,interval(0,1))", "a=range(2,1)"):
        with pytest.raises(SettingError, match="has no values"):
            spaces_of([wrong])
    with pytest.raises(SettingError, match=r"ppo_trainer\.tune env=\.\.\. 'optim\.lr=interval"):
        combinations(["optim.lr=interval(1,2)"])


def test_only_named_spaces_are_searched(tmp_path: Path, trained: list[Any]) -> None:
    settings = [*SETTINGS, "ppo.gae_lambda=interval(0.5,0.9)", "ppo.epochs=range(2,5)"]
    found = tune.tune(settings, 2, tmp_path)
    lambdas = [config.ppo.gae_lambda for config in trained]
    # xor has 0.95, which is better than all values of the interval.
    assert lambdas[0] == 0.95
    others = {value for value in lambdas if value != 0.95}
    assert all(0.5 <= value <= 0.9 for value in others)
    assert len(others) > 4
    assert {config.ppo.epochs for config in trained[1:]} <= {2, 3, 4, trained[0].ppo.epochs}
    assert {config.ppo.gamma for config in trained} == {trained[0].ppo.gamma}
    assert found == {}
