"""Failures of a run leave a folder that can be resumed, and an error with the command."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
import torch
from ragged_envs.minesweeper import MineSweeper
from ragged_envs.tic_tac_toe import TicTacToe
from safetensors.torch import load_file, save_file
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import (
    SMALL_NET,
    assert_same,
    assert_same_checkpoint,
    checkpoints,
    metrics,
    network,
    parameters,
    reseal,
    resuming,
    run_named,
    saved,
    small_config,
)

import ppo_trainer
from entity_env.agent import RandomAgent
from entity_env.errors import (
    CheckpointError,
    EntityEnvError,
    RunFolderError,
    SettingError,
    StateError,
    WorkerDiedError,
)
from ppo_trainer import EvalConfig, PPOConfig, train
from ppo_trainer.config import SelfPlayConfig
from ppo_trainer.learner.optimizers import make_optimizers
from ppo_trainer.machine.seeding import make_generators
from ppo_trainer.runs.checkpoint import TrainState, load_state
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.training.curve import draw_curve


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path))


def target(kind, **settings):
    """The ``env`` settings of a class in this file."""
    return {"_target_": f"{kind.__module__}.{kind.__qualname__}", **settings}


# --------------------------------------------------------------------- a resume that cannot start


class Sized(SavedForaging):
    """Refuses the state of an environment of another ``length``."""

    def get_state(self):
        return {**super().get_state(), "length": self.length}

    def set_state(self, state):
        if state["length"] != self.length:
            raise StateError("saved with another length", received=state["length"])
        return super().set_state(state)


def everything(run):
    """The bytes of all files of a run."""
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"env": target(Sized, length=3)}, StateError),
        ({"env": target(Sized, lenght=3)}, EntityEnvError),
        ({"net": replace(SMALL_NET, dim=32)}, CheckpointError),
    ],
    ids=["state", "setting", "network"],
)
def test_a_resume_that_fails_leaves_the_run_as_it_was(config, changes, error):
    config = replace(config, env=target(Sized))
    whole = train(config)
    stopped = train(config, stop=lambda update: update == 3)
    before = everything(stopped.run)
    with pytest.raises(error):
        train(resuming(config, stopped.run, **changes))
    assert everything(stopped.run) == before
    resumed = ppo_trainer.resume(stopped.run)
    assert_same_checkpoint(resumed.run, whole.run)
    assert metrics(resumed.run) == metrics(whole.run)


# ------------------------------------------------------------------- a resume with other rollouts


@pytest.mark.parametrize(
    ("rollout", "steps"),
    [
        # 72 of 144 steps are done, in 3 updates of 24.
        ({"num_envs": 4, "steps": 3}, [84, 96, 108, 120, 132, 144]),
        ({"num_envs": 4, "steps": 12}, [120, 168]),  # rounded up to whole rollouts
        ({"num_envs": 6, "steps": 6}, [108, 144]),
        ({"num_envs": 4, "steps": 40}, [232]),
    ],
)
def test_a_resume_with_another_rollout_size_ends_at_the_total_of_steps(config, rollout, steps):
    config = replace(config, ppo=PPOConfig(epochs=1, minibatch_size=12))
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 3)
    assert (stopped.steps, stopped.interrupted) == (72, True)
    resumed = train(
        resuming(config, stopped.run, rollout=replace(config.rollout, **rollout)), env=SavedForaging
    )
    assert (resumed.steps, resumed.interrupted) == (steps[-1], False)
    records = metrics(resumed.run)
    assert [record["steps"] for record in records] == [24, 48, 72, *steps]
    assert [record["update"] for record in records] == list(range(1, len(records) + 1))
    # The linear schedule is at 1 - (steps done before the update) / 144.
    before = [0, 24, 48, 72, *steps[:-1]]
    for record, done in zip(records, before, strict=True):
        assert record["optim/lr"] == pytest.approx(3e-3 * (1 - done / 144))


def test_a_resume_with_another_rollout_size_that_is_stopped_is_interrupted(config, capsys):
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 3)
    larger = resuming(config, stopped.run, rollout=replace(config.rollout, num_envs=4, steps=12))
    # 72 + 48 = 120 of 144 steps, after more updates (4) than 144 / 48 = 3.
    again = train(larger, env=SavedForaging, stop=lambda update: update == 4)
    assert (again.steps, again.interrupted) == (120, True)
    assert "stopped at step 120" in capsys.readouterr().out
    smaller = resuming(config, stopped.run, rollout=replace(config.rollout, num_envs=4, steps=3))
    last = train(smaller, env=SavedForaging, stop=lambda update: update == 6)
    # 120 + 12 + 12 = 144: nothing was left when it was stopped.
    assert (last.steps, last.interrupted) == (144, False)


@pytest.mark.parametrize(("total", "steps"), [(96, 96), (97, 120), (95, 96), (1, 24)])
def test_the_steps_are_rounded_up_to_whole_rollouts(config, total, steps):
    done = train(replace(config, total_timesteps=total), env=Foraging)
    assert (done.steps, done.interrupted) == (steps, False)


def test_the_entropy_schedule_follows_the_steps_too(config):
    ppo = PPOConfig(epochs=1, minibatch_size=12, entropy_coef=0.5, entropy_schedule="linear")
    config = replace(config, ppo=ppo, total_timesteps=60)
    done = train(config, env=SavedForaging)
    # Before the updates 0, 24 and 48 of 60 steps are done.
    found = [record["policy/entropy_coef"] for record in metrics(done.run)]
    assert found == pytest.approx([0.5, 0.5 * 36 / 60, 0.5 * 12 / 60])
    above = replace(ppo, entropy_end=0.1)
    done = train(replace(config, ppo=above), env=SavedForaging)
    found = [record["policy/entropy_coef"] for record in metrics(done.run)]
    assert found == pytest.approx([0.5, 0.1 + 0.4 * 36 / 60, 0.1 + 0.4 * 12 / 60])


def test_asking_a_run_for_fewer_steps_than_it_has_changes_nothing(config, capsys):
    done = train(config, env=SavedForaging).run
    before = (done / "config.yaml").read_bytes()
    result = ppo_trainer.resume(done, env=SavedForaging, total_timesteps=24)
    assert not result.interrupted
    assert (done / "config.yaml").read_bytes() == before
    assert "set total_timesteps to train further" in capsys.readouterr().out


# --------------------------------------------------------------------------- names of the records

OWN_NAMES = ("update", "steps", "episodes", "policy/entropy", "optim/lr", "eval/win", "time/env")


class Namesake(SavedForaging):
    """Its metrics are called as the trainer calls its own numbers; their values are 1000, ..."""

    def _observe(self, reward):
        observation = super()._observe(reward)
        if observation.done:
            own = {name: 1000.0 + i for i, name in enumerate(OWN_NAMES)}
            observation.metrics = {**observation.metrics, **own, "fuel": 7.0}
        return observation


def test_metrics_of_an_environment_never_take_the_place_of_the_record_s_own(config):
    config = replace(config, eval=EvalConfig(episodes=0, every=1))
    plain = train(config, env=SavedForaging)
    done = train(config, env=Namesake)
    raw = [json.loads(line) for line in (done.run / "metrics.jsonl").read_text().splitlines()]
    assert all(record["time/env"] < 1000 for record in raw)
    for record, expected in zip(metrics(done.run), metrics(plain.run), strict=True):
        for name in OWN_NAMES[:-1]:
            assert record[name] == expected[name]
        if expected["episodes"]:
            assert [record[f"env/{name}"] for name in OWN_NAMES] == [1000 + i for i in range(7)]
            assert (record["fuel"], record["win"]) == (7, expected["win"])
            assert "env/fuel" not in record
    assert [record["update"] for record in metrics(done.run)] == [1, 2, 3, 4, 5, 6]


# ------------------------------------------------------------ an environment that fails mid-way


@pytest.mark.parametrize("how", ["checkpoint", "metrics"])
def test_a_disk_that_fills_up_says_how_to_go_on_and_leaves_nothing_half(config, monkeypatch, how):
    config, run = run_named(config, "full")
    whole = train(replace(config, run_name="whole"), env=SavedForaging)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill(update):
        if update == 2:
            if how == "checkpoint":
                monkeypatch.setattr("ppo_trainer.runs.saved_files.write_file", full)
            else:
                monkeypatch.setattr("ppo_trainer.runs.logger.json", SimpleNamespace(dumps=full))
        return False

    error = CheckpointError if how == "checkpoint" else RunFolderError
    with pytest.raises(error, match=r"cannot be written: .*No space left") as caught:
        train(config, env=SavedForaging, stop=fill)
    assert caught.value.hint.endswith(f"-m ppo_trainer resume={shlex.quote(str(run))}")
    assert not [path for path in run.rglob("*") if path.name.endswith(".tmp")]
    monkeypatch.undo()
    assert metrics(ppo_trainer.resume(run, env=SavedForaging).run) == metrics(whole.run)


@pytest.mark.parametrize("mode", ["mirror", "pool"])
def test_a_run_folder_that_is_removed_ends_the_training_and_is_not_made_again(config, mode):
    own = SelfPlayConfig(mode=mode, every=1)
    config, run = run_named(replace(config, selfplay=own), "removed")

    def remove_run(session):
        while session.updates == 1 and run.exists():
            shutil.rmtree(run, ignore_errors=True)  # TensorBoard's thread may write meanwhile

    with pytest.raises(
        (RunFolderError, CheckpointError), match=r"not exist|No such file"
    ) as caught:
        train(config, env=TicTacToe, callbacks=remove_run)
    assert "resume=" not in (caught.value.hint or "")
    assert not run.exists()


@pytest.mark.parametrize("what", ["pathlib.Path.mkdir", "ppo_trainer.runs.folder.write_file"])
def test_a_disk_that_is_full_at_the_start_leaves_no_folder_behind(
    config, tmp_path, monkeypatch, what
):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(what, full)
    with pytest.raises(RunFolderError, match="No space left"):
        train(config, env=Foraging)
    assert list(tmp_path.iterdir()) == []


def test_a_resume_where_nothing_can_be_written_says_so(config, monkeypatch):
    config, run = run_named(config, "read only")
    train(config, env=Foraging, stop=lambda update: update == 2)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("ppo_trainer.runs.folder.write_file", refuse)
    with pytest.raises(RunFolderError, match=r"config\.yaml cannot be written: .*Read-only"):
        ppo_trainer.resume(run, env=Foraging)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_worker_that_is_killed_keeps_its_own_hint_beside_that_of_the_run(config):
    class Killed(SavedForaging):
        """Its process is killed in the second step of the third episode."""

        episodes = 0

        def reset(self):
            self.episodes += 1
            return super().reset()

        def act(self, actions):
            if (self.episodes, self.step) == (3, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().act(actions)

    config, run = run_named(config, "killed")
    config = replace(config, rollout=replace(config.rollout, processes=2))
    with pytest.raises(WorkerDiedError) as caught:
        train(config, env=Killed)
    assert caught.value.where == "environment 0, step 12"  # two episodes of 5 steps, and 2
    assert "running out of memory" in caught.value.hint
    assert f"from ppo_trainer import resume; resume('{run}', env=Killed)" in caught.value.hint


# -------------------------------------------------------------------------- on another device


def as_if_saved_on_cuda(run):
    """Edit the newest checkpoint: CUDA's generators have a state of 16 bytes."""
    folder = checkpoints(run)[-1]
    assert json.loads((folder / "state.json").read_text())["device"] == "cpu"
    tensors = load_file(folder / "optimizers.safetensors")
    assert tensors["generator/actions"].numel() > 16
    tensors["generator/actions"] = torch.arange(16, dtype=torch.uint8)
    save_file(tensors, folder / "optimizers.safetensors")
    reseal(folder, lambda facts: facts.update(device="cuda"))


def test_a_checkpoint_of_another_kind_of_device_resumes_with_fresh_random_numbers(config, capsys):
    whole = train(config, env=SavedForaging)
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 3)
    as_if_saved_on_cuda(stopped.run)

    net = network(SavedForaging(), config)
    state = TrainState(net, make_optimizers(net, config), make_generators(5, torch.device("cpu")))
    fresh = make_generators(5, torch.device("cpu")).actions.get_state()
    shuffling = load_file(checkpoints(stopped.run)[-1] / "optimizers.safetensors")
    assert load_state(checkpoints(stopped.run)[-1], state).other_device
    assert torch.equal(state.generators.actions.get_state(), fresh)
    # The frames are shuffled on the CPU everywhere.
    assert torch.equal(state.generators.minibatches.get_state(), shuffling["generator/minibatches"])
    assert_same(parameters(net), parameters(stopped.net))

    capsys.readouterr()
    resumed = train(resuming(config, stopped.run), env=SavedForaging)
    text = capsys.readouterr().out
    assert "drawing fresh random numbers: it was saved on another kind of device" in text
    assert "starting fresh episodes" not in text
    assert resumed.steps == 144
    records, expected = metrics(resumed.run), metrics(whole.run)
    assert records[:3] == expected[:3]
    assert records[3:] != expected[3:]
    assert saved(resumed.run)[2]["device"] == "cpu"


# -------------------------------------------------------------------- starts that come to nothing


class FailsToStart(SavedForaging):
    """Fails in ``how``."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def reset(self):
        if self.how == "reset":
            raise RuntimeError("no")
        if self.how == "ctrl-c":
            raise KeyboardInterrupt
        return super().reset()

    def get_state(self):
        return {"state": {1, 2}} if self.how == "state" else super().get_state()


def test_a_curve_that_cannot_be_written_costs_no_evaluation(config, monkeypatch, capsys):
    monkeypatch.setattr("ppo_trainer.training.report.draw_curve", draw_curve)
    config, run = run_named(replace(config, eval=EvalConfig(episodes=2)), "run")

    def in_the_way(update):
        (run / "curve.png").mkdir(exist_ok=True)
        return False

    result = train(config, env=SavedForaging, stop=in_the_way)
    out, err = capsys.readouterr()
    assert len(result.evaluations) > 0
    assert "What next:" in out
    assert "learning curve" not in out
    assert "no learning curve" in err
    assert "curve.png cannot be written" in err


@pytest.mark.parametrize("how", ["reset", "state", "ctrl-c"])
def test_a_start_that_fails_leaves_no_folder_behind(config, tmp_path, how):
    with pytest.raises((EntityEnvError, KeyboardInterrupt)):
        train(replace(config, env=target(FailsToStart, how=how)))
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_cannot_be_given_leaves_no_folder_behind(config, tmp_path):
    with pytest.raises(EntityEnvError, match="cannot be made"):
        train(replace(config, run_name="x" * 300), env=SavedForaging)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "env",
    ["minesweeper", MineSweeper(), 3, {"_target_": "minesweeper"}],
    ids=["name", "object", "number", "settings"],
)
def test_env_must_be_a_class_or_a_function(config, tmp_path, env):
    with pytest.raises(SettingError, match="not a class or function") as caught:
        train(config, env=env)
    assert "env=MyEnv, not env=MyEnv(...)" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "where", "what"),
    [
        ({"kind": Foraging}, "env.kind", "ABCMeta"),
        ({"deep": {"er": {"n": 3j}}}, "env.deep.er.n", "complex"),
        ({"n": {1, 2}}, "env.n", "set"),
        ({"n": np.zeros(2)}, "env.n", "ndarray"),
        ({"n": {(1, 2): 3}}, "env.n", "tuple"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_settings_that_cannot_be_written_are_refused_before_there_is_a_folder(
    tmp_path, settings, where, what
):
    with pytest.raises(SettingError, match=r"cannot be written to config\.yaml") as caught:
        small_config(run_dir=str(tmp_path), env={"_target_": "minesweeper", **settings})
    assert caught.value.what.startswith(f"{where} ")
    assert what in caught.value.received
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        ([1, np.int32(2)], [1, 2]),
        ({"er": {"n": np.True_}}, {"er": {"n": True}}),
        (Path("x"), "x"),
        (OrderedDict(a=1), {"a": 1}),
        ({np.int64(3): 1}, {3: 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
    ],
    ids=lambda x: str(x)[:40],
)
def test_settings_that_yaml_has_no_word_for_become_those_it_has(tmp_path, given, written):
    config = small_config(run_dir=str(tmp_path), env={"_target_": "minesweeper", "n": given})
    assert config.env["n"] == written
    assert type(config.env["n"]) is type(written)


def test_plain_settings_of_any_depth_come_back_as_they_are(tmp_path):
    twice = [1, 2]  # written as an alias, it could not be read
    env = {
        "first": twice,
        "second": twice,
        "_target_": "x.Y",
        "none": None,
        "deep": {"list": [1, [2.5, "three"], {"four": True}], "empty": {}},
        "small": 1e-300,
        5: "five",
    }
    config = small_config(run_dir=str(tmp_path), env=env)
    run = RunFolder.new(config).publish(config)
    assert run.read_config() == config
    assert [path.name for path in tmp_path.iterdir()] == [run.path.name]


# ------------------------------------------------------------------ classes without a path


class Outer:
    class Inner(SavedForaging):
        pass


def local_class():
    class Local(SavedForaging):
        pass

    return Local


@pytest.mark.parametrize(
    ("env", "name"),
    [(lambda: SavedForaging(), "..."), (local_class(), "Local"), (Outer.Inner, "Inner")],
    ids=["lambda", "local", "inner"],
)
def test_what_next_of_a_class_without_a_path_is_python(
    config, tmp_path, monkeypatch, capsys, env, name
):
    monkeypatch.chdir(tmp_path)
    config = replace(config, total_timesteps=24)
    done = train(config, env=env)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*-seed1", done.run.name), done.run.name
    text = capsys.readouterr().out.partition("What next:")[2]
    *calls, last = (line.strip() for line in text.strip().splitlines())
    watch, film, evaluate, export, further = calls
    assert not any(" -m ppo_trainer" in call for call in calls)
    moved = "MyEnv" if name == "..." else name
    assert (
        f" -m ppo_trainer resume={shlex.quote(str(done.run))} env._target_=my_env.{moved}" in last
    )

    # What was printed does what it says, typed as it stands where the class has its name.
    lines = {"watch it play": watch, "film it": film, "train it further": further}
    assert "import export_run; export_run(" in export
    assert f"import evaluate_run; evaluate_run({str(done.run)!r}, {name})" in evaluate
    for label, line in lines.items():
        code = line.removeprefix(label).strip()
        assert f"env={name}" in code or f", {name})" in code
        exec(code.replace("...", "env"), {name: env, "env": env})
    assert "episode 1, step 1" in capsys.readouterr().out
    assert (tmp_path / "game.gif").is_file()
    assert [record["steps"] for record in metrics(done.run)] == [24, 48]


def test_what_next_of_a_class_with_a_path_is_for_the_shell(config, capsys):
    done = train(replace(config, total_timesteps=24), env=SavedForaging)
    text = capsys.readouterr().out.partition("What next:")[2]
    assert f" -m ppo_trainer.watch {shlex.quote(str(done.run))}\n" in text
    assert f" -m entity_env.viewer {shlex.quote(str(done.run))}\n" in text
    assert f" -m ppo_trainer resume={shlex.quote(str(done.run))} total_timesteps=48\n" in text
    game = "support.trainer_envs.SavedForaging"
    assert f" -m entity_env.runner {game} --agent {shlex.quote(str(done.run))}\n" in text
    for command in ("evaluate", "export"):
        assert f" -m ppo_trainer.{command} {shlex.quote(str(done.run))}" in text
    assert done.run.name.startswith("savedforaging-")


# ------------------------------------------------------- what fails when the training is over


CALLS = []


def raises(observation):
    """Fail after the first step, which every script plays before the training."""
    CALLS.append(observation)
    if len(CALLS) > 1:
        raise KeyError("Bit")
    return RandomAgent(SavedForaging().obs_space(), SavedForaging().action_space()).act(observation)


def test_a_script_that_fails_costs_no_evaluation(config, capsys):
    config = replace(config, eval=EvalConfig(episodes=3, scripted=f"{__name__}.raises"))
    CALLS.clear()
    result = train(config, env=SavedForaging)
    players = ["agent, greedy", "agent, sampled", "random play"]
    assert [evaluation.player for evaluation in result.evaluations] == players
    said = capsys.readouterr()
    assert "KeyError: 'Bit'" in said.err
    assert "eval.scripted=test_robustness.raises failed" in said.err
    assert "What next" in said.out


class FailsToClose(SavedForaging):
    def close(self):
        raise OSError("no such device")


def test_an_environment_that_cannot_be_closed_costs_no_evaluation(config, capsys):
    result = train(config, env=FailsToClose)
    assert not result.interrupted
    said = capsys.readouterr()
    assert "no such device" in said.err
    assert "What next" in said.out


# ------------------------------------------------------------- evaluations that would not end


def nothing(observation):
    """A script for those whose actions do not matter."""
    return {}


# -------------------------------------------------------------------- signals, as a scheduler sends
