"""Stopping and going on, and one seed giving one run: bit for bit, in process and across."""

import errno
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.trainer_envs import Broken, Foraging, SavedForaging
from support.trainer_runs import (
    SMALL_NET,
    assert_same,
    assert_same_checkpoint,
    checkpoints,
    metrics,
    network,
    parameters,
    reseal,
    saved,
    small_config,
)

import ppo_trainer
from entity_env.errors import (
    CheckpointError,
    EntityEnvError,
    FeatureError,
    NonFiniteError,
    ObservationError,
    RunFolderError,
)
from ppo_trainer import CheckpointConfig, EvalConfig, PPOConfig, RolloutConfig, train
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.learner.optimizers import make_optimizers
from ppo_trainer.machine.seeding import derived_seed, make_generators
from ppo_trainer.runs.checkpoint import TrainState, load_state
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.logger import RunLogger
from ppo_trainer.training import start
from ragged_net import RelativePosition

PLACES = {"Robot": ["x"], "Food": ["x"]}
TRAIN = importlib.import_module("ppo_trainer.loop")


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path))


def with_processes(config, processes):
    return replace(config, rollout=replace(config.rollout, processes=processes))


def resume(config, run, **changes):
    return replace(config, resume=str(run), **changes)


# ---------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize(
    ("at", "changes"),
    [
        (0, {}),
        (3, {}),
        (3, {"value_net": True}),
        (1, {"ppo": PPOConfig(minibatch_size=10, ratio="per_frame", target_kl=1e-3)}),
        (3, {"precision": "bfloat16"}),
        (2, {"eval": EvalConfig(episodes=0, every=2)}),
        (3, {"net": replace(SMALL_NET, relative_position=RelativePosition(PLACES))}),
    ],
    ids=["at 0", "at 3", "value_net", "per_frame", "bfloat16", "eval", "waves"],
)
def test_a_resumed_run_equals_one_never_stopped(config, at, changes, capsys):
    config = replace(config, **changes)
    whole = train(config, env=SavedForaging)
    stopped = train(config, env=SavedForaging, stop=lambda update: update == at)
    assert (stopped.interrupted, stopped.steps) == (True, at * 24)
    assert [record["update"] for record in metrics(stopped.run)] == list(range(1, at + 1))

    resumed = train(resume(config, stopped.run), env=SavedForaging)
    assert resumed.run == stopped.run
    assert not resumed.interrupted
    assert "starting fresh episodes" not in capsys.readouterr().out
    assert_same(parameters(resumed.net), parameters(whole.net))
    assert_same_checkpoint(resumed.run, whole.run)
    assert metrics(resumed.run) == metrics(whole.run)
    assert [record["update"] for record in metrics(resumed.run)] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_is_stopped_after_every_update_equals_one_never_stopped(config):
    whole = train(config, env=SavedForaging)
    part = train(config, env=SavedForaging, stop=lambda update: update == 1)
    for at in (2, 3, 4, 5, 6):
        part = train(
            resume(config, part.run), env=SavedForaging, stop=lambda update, at=at: update == at
        )
    assert not part.interrupted
    assert_same_checkpoint(part.run, whole.run)
    assert metrics(part.run) == metrics(whole.run)


@pytest.mark.parametrize(("first", "second"), [(2, 2), (0, 2), (3, 0)])
def test_workers_make_no_difference_to_a_resume(config, first, second):
    whole = train(config, env=SavedForaging)
    before, after = with_processes(config, first), with_processes(config, second)
    stopped = train(before, env=SavedForaging, stop=lambda update: update == 3)
    resumed = train(resume(after, stopped.run), env=SavedForaging)
    assert_same_checkpoint(resumed.run, whole.run)
    assert metrics(resumed.run) == metrics(whole.run)


def test_episodes_go_on_where_they_stopped(config):
    """Rewards and lengths of episodes that span the interruption count from their start."""

    class Long(SavedForaging):
        def __init__(self):
            super().__init__(length=9)

    stopped = train(config, env=Long, stop=lambda update: update == 1)
    resumed = train(resume(config, stopped.run), env=Long)
    lengths = [r["episodic_length"] for r in metrics(resumed.run) if "episodic_length" in r]
    assert lengths
    assert set(lengths) == {9.0}


def test_without_saved_state_a_run_resumes_with_fresh_episodes_and_says_so(config, capsys):
    whole = train(config, env=Foraging)
    stopped = train(config, env=Foraging, stop=lambda update: update == 3)
    at_stop = saved(stopped.run)
    assert at_stop[2]["envs"] is None
    capsys.readouterr()
    resumed = train(resume(config, stopped.run), env=Foraging)
    text = capsys.readouterr().out
    assert "fresh episodes" in text
    assert "get_state and set_state" in text
    assert "at step 72" in text
    assert resumed.steps == 144
    records = metrics(resumed.run)
    assert [record["update"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records[:3] == metrics(whole.run)[:3]
    assert records[3:] != metrics(whole.run)[3:]
    # Which fresh episodes they are depends on the seed alone.
    again = train(config, env=Foraging, stop=lambda update: update == 3)
    assert metrics(train(resume(config, again.run), env=Foraging).run) == records


def test_another_number_of_environments_starts_fresh_episodes_and_says_so(config, capsys):
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 3)
    more = resume(config, stopped.run, rollout=RolloutConfig(num_envs=6, steps=4))
    assert train(more, env=SavedForaging).steps == 144
    assert "saved with 4 environments" in capsys.readouterr().out


def test_a_finished_run_goes_on_with_more_steps(config):
    done = train(config, env=SavedForaging)
    longer = train(resume(config, done.run, total_timesteps=240), env=SavedForaging)
    assert longer.steps == 240
    assert [record["update"] for record in metrics(longer.run)] == list(range(1, 11))
    assert RunFolder.open(done.run).read_config().total_timesteps == 240


def test_a_finished_run_has_nothing_left_to_do(config):
    done = train(config, env=SavedForaging)
    before, records = saved(done.run), metrics(done.run)
    again = train(resume(config, done.run), env=SavedForaging)
    assert not again.interrupted
    assert again.steps == 144
    after = saved(again.run)
    assert_same(before[0], after[0])
    assert_same(before[1], after[1])
    assert metrics(again.run) == records


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_that_is_being_trained_cannot_be_resumed(config, resumed):
    """Each of the two would write over what the other has written."""
    config = replace(config, run_name="held")
    run = Path(config.run_dir) / "held"
    refused = []

    def try_another(update):
        if update == 4:
            before = (run / "config.yaml").read_text(), metrics(run)
            with pytest.raises(RunFolderError, match="is being trained by another") as caught:
                train(resume(config, run, total_timesteps=500), env=SavedForaging)
            refused.append(caught.value)
            assert ((run / "config.yaml").read_text(), metrics(run)) == before
        return False

    if resumed:
        train(config, env=SavedForaging, stop=lambda update: update == 3)
        config = resume(config, run)
    assert train(config, env=SavedForaging, stop=try_another).steps == 144
    assert len(refused) == 1
    assert len(metrics(run)) == 6
    assert train(resume(config, run, total_timesteps=168), env=SavedForaging).steps == 168


def test_without_locks_a_run_trains_all_the_same(config, monkeypatch):
    def unknown(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("entity_env.storage.files.fcntl.flock", unknown)
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 3)
    monkeypatch.setattr("entity_env.storage.files.fcntl", None)
    assert train(resume(config, stopped.run), env=SavedForaging).steps == 144


def test_resume_in_python_needs_the_run_folder_only(config):
    config = replace(config, env={"_target_": "support.trainer_envs.SavedForaging", "length": 4})
    whole = train(config)
    stopped = train(config, stop=lambda update: update == 2)
    resumed = ppo_trainer.resume(stopped.run)
    assert_same_checkpoint(resumed.run, whole.run)
    assert metrics(resumed.run) == metrics(whole.run)
    longer = ppo_trainer.resume(stopped.run, total_timesteps=168, stop=lambda update: update == 7)
    assert longer.steps == 168
    assert RunFolder.open(stopped.run).read_config() == replace(config, total_timesteps=168)


def test_resume_in_python_of_an_environment_that_cannot_be_imported_takes_it_as_an_argument(config):
    class Local(SavedForaging):
        pass

    stopped = train(config, env=Local, stop=lambda update: update == 2)
    with pytest.raises(RunFolderError, match="cannot be imported"):
        ppo_trainer.resume(stopped.run)
    assert ppo_trainer.resume(stopped.run, env=Local).steps == 144


def test_a_resume_restores_the_value_network_and_its_adam_state(config):
    config = replace(config, value_net=True)
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 2)
    net = network(SavedForaging(), config, seed=4)
    state = TrainState(net, make_optimizers(net, config), make_generators(0, torch.device("cpu")))
    load_state(checkpoints(stopped.run)[-1], state)
    assert_same(parameters(net), parameters(stopped.net))
    moments = state.optimizers.value.state_dict()["state"]
    assert len(moments) == len(list(net.value_parameters()))
    assert all(m["step"] == 8 for m in moments.values())  # 2 updates x 2 epochs x 2 minibatches
    assert any(m["exp_avg"].abs().max() > 0 for m in moments.values())


@pytest.mark.parametrize(
    ("changes", "expected", "received"),
    [
        (
            {"net": replace(SMALL_NET, dim=32, heads=1)},
            "net.dim=16 net.heads=2 value_net=false",
            None,
        ),
        (
            {"net": replace(SMALL_NET, value_norm="popart")},
            None,
            "net.value_norm=popart value_net=false",
        ),
        ({"value_net": True}, "value_net=false", "value_net=true"),
    ],
)
def test_a_resume_with_another_network_is_refused(config, changes, expected, received):
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 2)
    with pytest.raises(CheckpointError, match="another network") as caught:
        train(resume(config, stopped.run, **changes), env=SavedForaging)
    assert expected in (None, caught.value.expected)
    assert received in (None, caught.value.received)


def test_a_resume_may_compute_attention_otherwise(config):
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 2)
    plain = replace(SMALL_NET, attention="reference")
    assert not train(resume(config, stopped.run, net=plain), env=SavedForaging).interrupted


def test_a_state_that_does_not_fit_the_environment_names_the_environment(config):
    stopped = train(config, env=SavedForaging, stop=lambda update: update == 2)
    folder = checkpoints(stopped.run)[-1]
    reseal(folder, lambda facts: facts["envs"][2]["env"].pop("places"))
    with pytest.raises(EntityEnvError, match="environment 2") as caught:
        train(resume(config, stopped.run), env=SavedForaging)
    assert "KeyError" in str(caught.value)


def test_a_state_that_is_no_json_is_the_environment_s_mistake_and_says_so(config):
    class Numpy(SavedForaging):
        def get_state(self):
            import numpy as np

            return {**super().get_state(), "counts": np.array(self.counts)}

    with pytest.raises(EntityEnvError, match="get_state") as caught:
        train(config, env=Numpy)
    assert "JSON" in str(caught.value)


# -------------------------------------------------------------------------------- checkpoints


def test_a_run_saves_when_it_should_and_at_its_end(config):
    config = replace(config, checkpoint=CheckpointConfig(every=4, keep=10))
    done = train(config, env=SavedForaging)
    steps = [0, 4 * 24, 6 * 24]
    assert [f.name for f in checkpoints(done.run)] == [f"step_{s:012d}" for s in steps]
    assert saved(done.run)[2]["update"] == 6
    assert_same(saved(done.run)[0], parameters(done.net))


def test_the_record_of_an_update_is_written_before_its_checkpoint(config, monkeypatch):
    """Else a kill between the two would leave a gap in the metrics of the resumed run."""
    whole = train(replace(config, checkpoint=CheckpointConfig(every=1)), env=SavedForaging)
    real = RunLogger.write

    def write(self, update, *rest):
        if update == 3:
            raise KeyboardInterrupt
        real(self, update, *rest)

    monkeypatch.setattr(RunLogger, "write", write)
    config = replace(config, checkpoint=CheckpointConfig(every=1), run_name="cut")
    with pytest.raises(KeyboardInterrupt):
        train(config, env=SavedForaging)
    run = RunFolder.open(f"{config.run_dir}/cut").path
    assert saved(run)[2]["update"] == 2
    monkeypatch.setattr(RunLogger, "write", real)
    resumed = train(resume(config, run), env=SavedForaging)
    assert metrics(resumed.run) == metrics(whole.run)
    assert_same_checkpoint(resumed.run, whole.run)


# --------------------------------------------------------------------------------- not finite


def test_the_state_before_a_non_finite_loss_is_saved_and_loads(config, monkeypatch):
    """The third rollout has an infinite return; what the second update left is kept."""
    real, calls = PPO.estimate, []

    def estimate(*args):
        rollout = real(*args)
        calls.append(1)
        if len(calls) < 3:
            return rollout
        returns = rollout.returns.clone()
        returns[0] = float("inf")
        return replace(rollout, returns=returns)

    two = train(replace(config, total_timesteps=144), env=SavedForaging, stop=lambda u: u == 2)
    monkeypatch.setattr(PPO, "estimate", estimate)
    config = replace(config, run_name="bad")
    with pytest.raises(NonFiniteError, match="loss/value") as caught:
        train(config, env=SavedForaging)
    run = RunFolder.open(f"{config.run_dir}/bad").path
    folder = run / "checkpoints" / "step_000000000048"
    assert str(folder) in str(caught.value)

    net = network(SavedForaging(), config)
    state = TrainState(net, make_optimizers(net, config), make_generators(0, torch.device("cpu")))
    assert len(load_state(folder, state).envs) == 4
    assert (state.update, state.steps) == (2, 48)
    assert all(torch.isfinite(p).all() for p in net.parameters())
    # Other minibatches of the same update may have come before the one with the infinite return.
    assert_same(parameters(net), parameters(two.net))
    monkeypatch.setattr(PPO, "estimate", real)
    assert train(resume(config, run), env=SavedForaging).steps == 144


def test_a_nan_parameter_stops_the_run_at_its_first_loss(config, monkeypatch):
    real = TRAIN.update

    def poisoned(algorithm, net, *args):
        with torch.no_grad():
            next(net.heads[0].parameters()).view(-1)[0] = float("nan")
        return real(algorithm, net, *args)

    monkeypatch.setattr(TRAIN, "update", poisoned)
    with pytest.raises(NonFiniteError, match="loss/policy") as caught:
        train(replace(config, run_name="bad"), env=SavedForaging)
    assert "step_000000000000" in str(caught.value)


@pytest.mark.parametrize(
    ("what", "error"), [("feature", FeatureError), ("reward", ObservationError)]
)
@pytest.mark.parametrize("processes", [0, 2])
def test_a_nan_is_refused_at_the_door_and_never_reaches_the_statistics(
    config, monkeypatch, what, error, processes
):
    nets = []
    real = start.RaggedNet
    monkeypatch.setattr(start, "RaggedNet", lambda *a: nets.append(real(*a)) or nets[-1])
    config = replace(with_processes(config, processes), env={"_target_": "x", "what": what})
    settings = {**config.env, "_target_": "support.trainer_envs.Broken"}
    with pytest.raises(error) as caught:
        train(replace(config, env=settings), env=Broken)
    assert "environment 0, step 3" in str(caught.value)
    (net,) = nets
    numbers = net.state_dict()
    assert all(torch.isfinite(value).all() for value in numbers.values())
    # One robot in each of the 4 first observations is all that was counted.
    counts = {float(v) for name, v in numbers.items() if name.endswith("count")}
    assert counts == {4.0}


# ------------------------------------------------------------------------------- determinism


def test_one_seed_gives_one_run(config):
    config = replace(config, eval=EvalConfig(episodes=5, every=3))
    first = train(config, env=SavedForaging)
    torch.manual_seed(1234)  # torch's own random numbers do not matter
    torch.rand(7)
    second = train(config, env=SavedForaging)
    assert first.run != second.run
    assert metrics(first.run) == metrics(second.run)
    assert_same_checkpoint(first.run, second.run)
    evaluations = [json.loads((r.run / "evaluation.json").read_text()) for r in (first, second)]
    assert [evaluation.pop("run") for evaluation in evaluations] == [
        first.run.name,
        second.run.name,
    ]
    assert evaluations[0] == evaluations[1]


def test_another_seed_gives_another_run(config):
    first = train(config, env=SavedForaging)
    second = train(replace(config, seed=2), env=SavedForaging)
    assert all(a != b for a, b in zip(metrics(first.run), metrics(second.run), strict=True))


@pytest.mark.parametrize("env", ["foraging", "minesweeper"])
def test_any_number_of_worker_processes_gives_the_same_run(config, env):
    target = {"foraging": "support.trainer_envs.Foraging", "minesweeper": "minesweeper"}[env]
    config = replace(config, env={"_target_": target}, total_timesteps=72)
    alone = train(config)
    for processes in (1, 2, 3):
        other = train(with_processes(config, processes))
        assert metrics(other.run) == metrics(alone.run), f"{processes} processes"
        assert_same(parameters(other.net), parameters(alone.net))


def test_every_purpose_has_a_seed_of_its_own():
    seeds = [
        derived_seed(seed, purpose, number)
        for seed in (0, 1, 2)
        for purpose in ("network", "actions", "minibatches", "evaluation", "resumed episodes")
        for number in (0, 1, 20)
    ]
    assert len(set(seeds)) == len(seeds)
    assert derived_seed(3, "actions") == derived_seed(3, "actions")
    generators = make_generators(1, torch.device("cpu")).all().values()
    draws = {tuple(torch.rand(3, generator=g).tolist()) for g in generators}
    assert len(draws) == 2


# -------------------------------------------------------------------------------- the metrics


def test_the_records_of_a_run_say_what_happened(config):
    config = replace(config, eval=EvalConfig(episodes=0, every=2))
    done = train(config, env=SavedForaging)
    records = metrics(done.run)
    assert [r["steps"] for r in records] == [24 * u for u in range(1, 7)]
    for record in records:
        assert record["optim/gradient_steps"] == 4  # 2 epochs of 2 minibatches
        assert record["episodic_length"] == 5
        assert 0 <= record["win"] <= 1
        assert record["entities_per_frame"] <= 4
        assert ("eval/win" in record) == (record["update"] % 2 == 0)
    # 4 rows, 5 steps an episode: after 24 steps of all rows each has ended 144 / 4 // 5 = 7.
    assert sum(r["episodes"] for r in records) == 4 * 7
    raw = [json.loads(line) for line in (done.run / "metrics.jsonl").read_text().splitlines()]
    assert {"time/env", "time/inference", "time/forward", "time/backward", "time/optimizer"} <= set(
        raw[0]
    )
