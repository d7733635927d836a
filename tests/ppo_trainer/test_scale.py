"""Worlds, networks and weights in processes of their own; threads stand for those of Ray."""

import importlib.util
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.fake_ray import FakeRay
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import metrics, small_config
from support.turn_rows import TurnRows

from entity_env import ListEnv
from ppo_trainer import RolloutConfig, ScaleConfig, train
from ppo_trainer.errors import ConfigError, TrainerError
from ppo_trainer.scale.ray_cluster import why_lost
from ppo_trainer.scale.topology import WorldShare, cells
from ppo_trainer.scale.worlds import part_of


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path), total_timesteps=240)


def with_ray(monkeypatch, **settings):
    ray = FakeRay(**settings)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


# ----------------------------------------------------------------------- who serves whom

# The topologies of ELF (Tian et al. 2017, arXiv:1707.01067): the settings, and who plays what.
TOPOLOGIES = {
    "one model for each game": (2, 2, [[[WorldShare(0)]], [[WorldShare(1)]]]),
    "many games to one model": (
        4,
        2,
        [[[WorldShare(0), WorldShare(1)]], [[WorldShare(2), WorldShare(3)]]],
    ),
    "one game to many models": (1, 2, [[[WorldShare(0, 0, 2)], [WorldShare(0, 1, 2)]]]),
}


@pytest.mark.parametrize(
    ("topology", "mode"),
    [*((name, "ascend") for name in TOPOLOGIES), ("one model for each game", "rapid")],
)
def test_a_topology_is_two_numbers(config, monkeypatch, topology, mode):
    worlds, networks, expected = TOPOLOGIES[topology]
    assert cells(worlds, networks) == expected
    ray = with_ray(monkeypatch)
    scale = ScaleConfig(mode=mode, worlds=worlds, networks=networks, timeout=20)
    result = train(replace(config, scale=scale), SavedForaging)
    assert result.steps == 240
    in_one = mode == "rapid" and worlds == networks
    assert len(ray.actors) == networks + (0 if in_one else worlds)
    records = metrics(result.run)
    assert [record["steps"] for record in records] == list(range(24, 241, 24))
    assert all(record["policy/staleness.max"] <= 1 for record in records)
    assert records[-1]["scale/lost"] == 0
    # Each of the 4 rows has played about 60 steps in episodes of 5.
    assert 44 <= sum(record["episodes"] for record in records) <= 60


def test_worlds_and_networks_are_shared_evenly():
    with pytest.raises(ConfigError, match="cannot be shared evenly"):
        cells(3, 2)


def test_a_network_sees_its_part_of_a_world():
    with ListEnv(Foraging, 4, seed=3) as rows:
        obs = rows.reset()
    first, second = part_of(obs, 0, 3), part_of(obs, 3, 1)
    robots = [obs.features["Robot"].size1(frame) for frame in range(4)]
    assert [first.features["Robot"].size1(frame) for frame in range(3)] == robots[:3]
    assert second.features["Robot"].size1(0) == robots[3]
    assert (len(first), len(second)) == (3, 1)
    assert second.rows.tolist() == [0]


# -------------------------------------------------------------------------------- staleness


def test_without_staleness_all_wait_for_the_newest_weights(config, monkeypatch):
    with_ray(monkeypatch)
    scale = ScaleConfig(mode="rapid", max_staleness=0)
    result = train(replace(config, scale=scale), SavedForaging)
    assert {record["policy/staleness.max"] for record in metrics(result.run)} == {0.0}


def test_networks_of_one_world_cannot_wait_for_each_other(config, monkeypatch):
    with_ray(monkeypatch)
    scale = ScaleConfig(mode="ascend", worlds=1, max_staleness=0)
    with pytest.raises(ConfigError, match="different moments"):
        train(replace(config, scale=scale), SavedForaging)


def test_a_clone_with_a_memory_needs_every_rollout(config, monkeypatch):
    with_ray(monkeypatch)
    config = replace(config, net=replace(config.net, memory="gru", memory_size=8))
    begin = train(replace(config, total_timesteps=24), SavedForaging).run
    config = replace(config, init=str(begin), ppo=replace(config.ppo, clone_kl=0.1))
    with pytest.raises(ConfigError, match=r"needs all decisions of a row[\s\S]*torchrun"):
        train(replace(config, scale=ScaleConfig(mode="rapid")), SavedForaging)


# ----------------------------------------------------------------------------- what is lost


@pytest.mark.parametrize(("worlds", "networks"), [(2, 2), (1, 2)])
def test_a_run_whose_processes_end_at_random_goes_on(config, monkeypatch, worlds, networks):
    ray = with_ray(monkeypatch, chance=0.3)
    scale = ScaleConfig(mode="ascend", worlds=worlds, networks=networks, timeout=1)
    config = replace(config, scale=scale, algorithm="vtrace", total_timesteps=480)
    result = train(config, SavedForaging)
    records = metrics(result.run)
    assert result.steps == 480
    assert ray.killed > 5
    assert records[-1]["scale/lost"] >= ray.killed / 2  # of two in a cell at once one is counted
    # A rollout of a network has 12 frames; a cell has one or two networks, each in one rollout.
    lost = records[-1]["scale/lost_frames"] / records[-1]["scale/lost"]
    assert lost == 12 if worlds == 2 else 12 <= lost <= 24
    assert all(np.isfinite(list(record.values())).all() for record in records)


def test_an_environment_that_fails_ends_the_run(config, monkeypatch):
    class Failing(SavedForaging):
        def act(self, actions):
            raise ValueError("the cat has eaten the food")

    with_ray(monkeypatch)
    with pytest.raises(TrainerError, match="the cat has eaten the food"):
        train(replace(config, scale=ScaleConfig(mode="rapid")), Failing)


def test_errors_say_what_helps_where_the_memory_is_full():
    class Died(FakeRay.exceptions.RayError):
        pass

    def why(error):
        return why_lost(FakeRay, error)

    errors = FakeRay.exceptions
    assert "out of memory: lower scale.networks" in why(errors.OutOfMemoryError("x"))
    full = errors.RayTaskError(MemoryError("Unable to allocate 8.00 GiB"))
    assert why(full).startswith("MemoryError: Unable to allocate 8.00 GiB; it is out of memory")
    full = errors.RayTaskError(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert "lower scale.networks" in why(full)
    assert why(errors.RayTaskError(ValueError("a cat"))) == "ValueError: a cat"
    assert "may be out of memory" in why(Died("The actor died.\nSIGKILL"))


def test_rows_that_wait_keep_their_decisions(config, monkeypatch):
    with_ray(monkeypatch)
    config = replace(
        config,
        rollout=RolloutConfig(num_envs=6, steps=4),
        env={"_target_": "x", "slow": 0.5},
        scale=ScaleConfig(mode="rapid", max_staleness=2),
        algorithm="vtrace",
    )
    result = train(config, TurnRows)
    assert max(record["policy/staleness"] for record in metrics(result.run)) > 0


# --------------------------------------------------------------------------- what is refused


def test_too_few_cores_are_told_before_anything_waits(config, monkeypatch):
    with_ray(monkeypatch, cores=2.0)
    scale = ScaleConfig(mode="ascend", worlds=1, networks=2)
    with pytest.raises(ConfigError, match=r"3 processes of Ray want 3 cores[\s\S]*scale.cpus=0.67"):
        train(replace(config, scale=scale), SavedForaging)


def test_without_ray_the_extra_is_named(config, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'ragged-rl\[ray\]'"):
        train(replace(config, scale=ScaleConfig(mode="rapid")), SavedForaging)


def test_workers_of_its_own_are_refused(config, monkeypatch):
    with_ray(monkeypatch)
    rollout = replace(config.rollout, processes=2)
    config = replace(config, scale=ScaleConfig(mode="rapid"), rollout=rollout)
    with pytest.raises(ConfigError, match=r"rollout\.processes=0"):
        train(config, SavedForaging)


@pytest.mark.platforms
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_a_memory_limit_ends_the_run_with_a_clear_error(config):
    resource = pytest.importorskip("resource")

    class Hungry(SavedForaging):
        def act(self, actions):
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (1 << 36, hard))
            self.food = np.ones(1 << 35)  # 256 GiB, where 64 are allowed
            return super().act(actions)

    scale = ScaleConfig(mode="rapid", worlds=1, networks=1, cpus=0.1, timeout=600)
    with pytest.raises(TrainerError, match=r"Unable to allocate 256[\s\S]*lower scale.networks"):
        train(replace(config, scale=scale), Hungry)


@pytest.mark.platforms
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_ray_itself_plays_and_a_killed_process_is_replaced(config):
    def kill_one(session):
        if session.updates == 2:
            children = psutil.Process().children(recursive=True)
            own = next(
                child for child in children if "ray::RolloutWorker" in " ".join(child.cmdline())
            )
            own.kill()

    psutil = pytest.importorskip("psutil")
    scale = ScaleConfig(mode="ascend", worlds=1, networks=2, cpus=0.1, timeout=600)
    result = train(replace(config, scale=scale), SavedForaging, callbacks=[kill_one])
    assert result.steps == 240
    assert metrics(result.run)[-1]["scale/lost"] >= 1
