"""Stopping and going on, and one seed giving one run: bit for bit, in process and across."""

import errno
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.continuous_envs import Aim
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import (
    SMALL_NET,
    assert_same,
    assert_same_checkpoint,
    checkpoints,
    metrics,
    parameters,
    saved,
    small_config,
)

import ppo_trainer
from entity_env.errors import CheckpointError, EntityEnvError, RunFolderError
from ppo_trainer import CheckpointConfig, EvalConfig, PPOConfig, RolloutConfig, train
from ppo_trainer.machine.seeding import derived_seed, make_generators
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.logger import RunLogger
from ragged_net import RelativePosition

PLACES = {"Robot": ["x"], "Food": ["x"]}


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
        (3, {"env": Aim}),
    ],
    ids=["at 0", "at 3", "value_net", "per_frame", "bfloat16", "eval", "waves", "continuous"],
)
def test_a_resumed_run_equals_one_never_stopped(config, at, changes, capsys):
    env = changes.get("env", SavedForaging)
    config = replace(config, **{name: own for name, own in changes.items() if name != "env"})
    whole = train(config, env=env)
    stopped = train(config, env=env, stop=lambda update: update == at)
    assert (stopped.interrupted, stopped.steps) == (True, at * 24)
    assert [record["update"] for record in metrics(stopped.run)] == list(range(1, at + 1))

    resumed = train(resume(config, stopped.run), env=env)
    assert resumed.run == stopped.run
    assert not resumed.interrupted
    assert "starting fresh episodes" not in capsys.readouterr().out
    assert_same(parameters(resumed.net), parameters(whole.net))
    assert_same_checkpoint(resumed.run, whole.run)
    assert metrics(resumed.run) == metrics(whole.run)
    assert [record["update"] for record in metrics(resumed.run)] == [1, 2, 3, 4, 5, 6]


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
