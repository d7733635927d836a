"""Whatever ends a run, the state before the failing update is saved, and a resume loses nothing."""

import os
import sys
from dataclasses import replace

import pytest
import torch
from ragged_envs.tic_tac_toe import TicTacToe
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import (
    assert_same_checkpoint,
    checkpoints,
    metrics,
    resuming,
    run_named,
    saved,
    small_config,
)

from entity_env.errors import NonFiniteError
from ppo_trainer import CheckpointConfig, EvalConfig, OptimConfig, PPOConfig, RolloutConfig, train
from ppo_trainer.config import SelfPlayConfig
from ragged_net import NetConfig

TRAIN = sys.modules["ppo_trainer.loop"]
FAIL_AT = "TEST_FAIL_AT"
"""The step, of all environments of a process, in which one fails; 24 steps are an update."""


class Failing(SavedForaging):
    """Foraging that raises ``error`` once."""

    error: object = KeyError("no such ore")
    steps = 0

    def act(self, actions):
        Failing.steps += 1
        if str(Failing.steps) == os.environ.get(FAIL_AT):
            raise self.error
        return super().act(actions)


class Dying(Failing):
    """Foraging whose process dies, as by a bug in compiled code."""

    def act(self, actions):
        Dying.steps += 1
        if str(Dying.steps) == os.environ.get(FAIL_AT):
            os._exit(9)
        return SavedForaging.act(self, actions)


class FailingForgetful(Foraging):
    """Foraging that does not save its state, and raises an error once."""

    def act(self, actions):
        Failing.steps += 1
        if str(Failing.steps) == os.environ.get(FAIL_AT):
            raise KeyError("no such ore")
        return super().act(actions)


class FailingGame(TicTacToe):
    """Tic-tac-toe that raises an error once."""

    steps = 0

    def act(self, actions):
        FailingGame.steps += 1
        if str(FailingGame.steps) == os.environ.get(FAIL_AT):
            raise ValueError("no such field")
        return super().act(actions)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(Failing, "steps", 0)
    monkeypatch.setattr(FailingGame, "steps", 0)


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path), checkpoint=CheckpointConfig(every=1000))


def assert_nothing_is_lost(config, env, whole_env, monkeypatch, at, update=None):
    """A run fails after ``update`` updates, and its resume equals a run that never failed."""
    whole = train(config, env=whole_env)
    config, run = run_named(config, "failed")
    monkeypatch.setenv(FAIL_AT, str(at))
    with pytest.raises(Exception, match="nothing is lost") as caught:
        train(config, env=env)
    monkeypatch.delenv(FAIL_AT)
    assert str(run) in str(caught.value)
    assert saved(run)[2]["update"] in (range(1, 5) if update is None else [update])
    resumed = train(resuming(config, run), env=whole_env)
    assert metrics(resumed.run) == metrics(whole.run)
    assert_same_checkpoint(resumed.run, whole.run)


@pytest.mark.parametrize("error", [KeyError("ore"), MemoryError(), OSError(5, "lost"), SystemExit])
def test_an_environment_that_raises_loses_nothing(config, error, monkeypatch):
    monkeypatch.setattr(Failing, "error", error)
    assert_nothing_is_lost(config, Failing, SavedForaging, monkeypatch, at=75, update=3)


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_nor_does_a_network_with_a_memory(config, memory, monkeypatch):
    config = replace(config, net=NetConfig(dim=16, layers=1, heads=2, memory=memory))
    assert_nothing_is_lost(config, Failing, SavedForaging, monkeypatch, at=75, update=3)


@pytest.mark.parametrize("env", [Failing, Dying])
def test_nor_do_worker_processes(config, env, monkeypatch):
    config = replace(config, rollout=replace(config.rollout, processes=2))
    assert_nothing_is_lost(config, env, SavedForaging, monkeypatch, at=40, update=3)


@pytest.mark.parametrize(
    "selfplay",
    [
        SelfPlayConfig(mode="pool", every=1, keep=2, past=0.5),
        SelfPlayConfig(mode="stages", until_steps=64),
        SelfPlayConfig(mode="population"),
        SelfPlayConfig(team_spirit=0.5),
        SelfPlayConfig(average=True),
    ],
    ids=lambda own: own.mode if own.mode != "mirror" else f"average={own.average}",
)
def test_nor_do_opponents_and_populations(config, selfplay, monkeypatch):
    config = replace(
        config,
        total_timesteps=160,
        rollout=RolloutConfig(num_envs=8, steps=4),
        ppo=PPOConfig(epochs=1, minibatch_size=16),
        selfplay=selfplay,
    )
    assert_nothing_is_lost(config, FailingGame, TicTacToe, monkeypatch, at=70)


@pytest.mark.parametrize("ratio", [0.0, 1e9])
def test_it_makes_no_difference_how_often_the_state_is_saved(config, ratio, monkeypatch):
    monkeypatch.setattr("ppo_trainer.experience.row_history._RATIO", ratio)
    assert_nothing_is_lost(config, Failing, SavedForaging, monkeypatch, at=130, update=5)


def test_an_environment_without_saved_states_loses_its_episodes_only(config, monkeypatch, capsys):
    config, run = run_named(config, "failed")
    monkeypatch.setenv(FAIL_AT, "75")
    with pytest.raises(Exception, match="nothing is lost"):
        train(config, env=FailingForgetful)
    assert saved(run)[2]["update"] == 3
    assert train(resuming(config, run), env=Foraging).steps == 144
    assert "fresh episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no memory"), NonFiniteError("loss"), ValueError("a bug")]
)
def test_a_failing_update_loses_nothing(config, error, monkeypatch):
    """The failing update has changed the network, the optimizer and the random numbers."""
    whole = train(config, env=SavedForaging)
    config, run = run_named(config, "failed")
    real, calls = TRAIN.update, []

    def update(*args):
        result = real(*args)
        calls.append(1)
        if len(calls) == 4:
            raise error
        return result

    monkeypatch.setattr(TRAIN, "update", update)
    with pytest.raises(type(error)) as caught:
        train(config, env=SavedForaging)
    said = f"{caught.value} {getattr(caught.value, '__notes__', '')}"
    assert "nothing is lost" in said
    assert "resume" in said
    monkeypatch.undo()
    resumed = train(resuming(config, run), env=SavedForaging)
    assert metrics(resumed.run) == metrics(whole.run)
    assert_same_checkpoint(resumed.run, whole.run)


def test_an_evaluation_that_fails_is_repeated(config, monkeypatch):
    """Otherwise the update would be saved without its line in metrics.jsonl."""
    config = replace(config, eval=EvalConfig(episodes=0, every=2))
    whole = train(config, env=SavedForaging)
    config, run = run_named(config, "failed")
    output = sys.modules["ppo_trainer.training.output"]
    real = output.evaluate_now

    def evaluate(session):
        if session.updates == 4:
            raise RuntimeError("no board")
        return real(session)

    monkeypatch.setattr(output, "evaluate_now", evaluate)
    with pytest.raises(RuntimeError, match="no board"):
        train(config, env=SavedForaging)
    monkeypatch.undo()
    resumed = train(resuming(config, run), env=SavedForaging)
    assert metrics(resumed.run) == metrics(whole.run)


def test_a_full_disk_names_the_checkpoint_that_remains(config, monkeypatch, capsys):
    config, run = run_named(config, "failed")
    session = sys.modules["ppo_trainer.training.session"]
    monkeypatch.setenv(FAIL_AT, "75")
    real = session.save_state

    def full(run, content, *rest):
        if content.steps:
            raise OSError(28, "No space left on device")
        return real(run, content, *rest)

    monkeypatch.setattr(session, "save_state", full)
    with pytest.raises(Exception, match="to resume from the last checkpoint") as caught:
        train(config, env=Failing)
    assert str(checkpoints(run)[-1]) in str(caught.value)
    assert "No space left" in capsys.readouterr().err


# --------------------------------------------------------------------- other optimizers


@pytest.mark.parametrize(
    "kind",
    [
        lambda p, lr: torch.optim.SGD(p, lr=lr),
        lambda p, lr: torch.optim.RMSprop(p, lr=lr, momentum=0.1, centered=True),
        lambda p, lr: torch.optim.Adagrad(p, lr=lr),
        lambda p, lr: torch.optim.AdamW(p, lr=lr, amsgrad=True),
    ],
    ids=["sgd", "rmsprop", "adagrad", "amsgrad"],
)
def test_any_optimizer_resumes_as_if_it_had_not_stopped(config, kind, monkeypatch):
    optimizers = sys.modules["ppo_trainer.learner.optimizers"]
    monkeypatch.setattr(optimizers, "_adam", lambda p, own: kind(p, own.lr))
    config = replace(config, optim=OptimConfig(lr=1e-3))
    whole = train(config, env=SavedForaging)
    config, run = run_named(config, "cut")
    train(config, env=SavedForaging, stop=lambda update: update == 3)
    resumed = train(resuming(config, run), env=SavedForaging)
    assert_same_checkpoint(resumed.run, whole.run)
    monkeypatch.undo()
    with pytest.raises(Exception, match="belongs to other optimizers"):
        train(resuming(config, run, total_timesteps=300), env=SavedForaging)
