"""Worlds, networks and weights in processes of their own; threads stand for those of Ray."""

import importlib.util
import itertools
import os
import signal
import socket
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.fake_ray import FakeRay
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import assert_same, collect_with, metrics, network, resuming, small_config
from support.turn_rows import TurnRows

from entity_env import ListEnv
from entity_env.errors import EntityEnvError, SettingError
from ppo_trainer import RolloutConfig, ScaleConfig, TrainConfig, train
from ppo_trainer.environments import make_factory, make_vec_env, with_env
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.rollout import Trajectories
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.machine.ranks import LONE, Share
from ppo_trainer.machine.seeding import make_generators
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.scale.fleet import Fleet
from ppo_trainer.scale.ray_cluster import why_lost
from ppo_trainer.scale.worlds import RowMaker, ServedRows, World, WorldShare, cells, part_of


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
    scale = ScaleConfig(mode=mode, worlds=worlds, networks=networks, timeout=300)
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
    with pytest.raises(SettingError, match="cannot be shared evenly"):
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


# ------------------------------------------------------- the same numbers as without processes


class Recurring(SavedForaging):
    """Foraging whose every reward is a number of the row that its seed draws."""

    def act(self, actions):
        if not hasattr(self, "pays"):
            self.pays = round(float(self.rng.random()), 3)
        return replace(super().act(actions), reward=self.pays)


def opened(config, ray, game):
    """Return workers without a run, and what stands for the session that they ask."""
    config = with_env(config, game)
    made = make_factory(config, game)
    rows = made.rows(2, 0)
    net = network(rows, config)
    session = SimpleNamespace(config=config, game=made, net=net, steps=0, ranks=LONE)
    session.updates = 0
    return Fleet(session, ray), session


def change(net, number):
    """Give a network other weights, and values that say which they are."""
    draw = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(0.0, 0.2, generator=draw)
        net.value_head.mlp[2].weight.zero_()
        net.value_head.mlp[2].bias.fill_(float(number))


def assert_same_trajectories(one, other):
    for name in ("rows", "rewards", "staleness", "values"):
        assert np.array_equal(getattr(one.decisions, name), getattr(other.decisions, name)), name
    for name in ("ends", "final_values", "next_values"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name, chosen in one.decisions.chosen.items():
        assert torch.equal(chosen.values, other.decisions.chosen[name].values)
        assert torch.equal(
            one.decisions.log_probs[name].values, other.decisions.log_probs[name].values
        )


@pytest.mark.parametrize("mode", ["rapid", "ascend"])
@pytest.mark.parametrize("game", [SavedForaging, TurnRows])
def test_one_worker_trains_as_a_run_without_ray(config, monkeypatch, mode, game):
    with_ray(monkeypatch)
    net = replace(config.net, memory="gru", memory_size=8, value_norm="popart")
    config = replace(config, net=net, rollout=replace(config.rollout, stagger=True))
    if game is TurnRows:
        config = replace(config, env={"_target_": "x", "slow": 0.5})
    scale = ScaleConfig(mode=mode, worlds=1, networks=1, max_staleness=0, timeout=300)
    alone = train(replace(config, run_name="alone"), game)
    found = train(replace(config, run_name="workers", scale=scale), game)
    assert_same(found.net.state_dict(), alone.net.state_dict())
    records = [
        {name: own for name, own in record.items() if not name.startswith("scale/")}
        for record in metrics(found.run)
    ]
    assert records == metrics(alone.run)


@pytest.mark.parametrize("mode", ["rapid", "ascend"])
@pytest.mark.parametrize("game", [Recurring, TurnRows])
def test_each_worker_plays_as_a_process_of_torchrun(config, monkeypatch, mode, game):
    """Every reward, choice and value is that of the worker's own rows with the newest weights."""
    config = replace(config, rollout=RolloutConfig(num_envs=5, steps=4, stagger=False))
    config = replace(config, env={"_target_": "x"} | ({"slow": 0.5} if game is TurnRows else {}))
    scale = ScaleConfig(mode=mode, worlds=2, networks=2, max_staleness=0, timeout=300)
    config = replace(config, scale=scale)
    fleet, session = opened(config, with_ray(monkeypatch), game)
    shares = []
    for rank in range(2):
        rows = make_vec_env(config, session.game, config.seed, Share(rank, 2))
        generator = make_generators(config.seed, torch.device("cpu"), rank).actions
        buffer, memory = RolloutBuffer(len(rows), 4), RowMemory(session.net, len(rows))
        shares.append([rows, rows.reset(), generator, buffer, memory, None])
    rewards = set()
    for number in range(4):
        change(session.net, number)
        session.updates = number
        (found,) = fleet.gather(session, None, Stopwatch())
        parts = []
        for share in shares:
            rows, obs, generator, buffer, memory, pending = share
            own = collect_with(session.net, rows, obs, config, generator, buffer, pending, memory)
            share[1], share[5] = own.next_obs, own.pending
            parts.append(own.trajectories)
        assert_same_trajectories(found.trajectories, Trajectories.cat(parts))
        rewards |= {part.decisions.rewards[0].item() for part in parts}
        if game is Recurring:
            assert not found.trajectories.decisions.staleness.any()
    fleet.close()
    if game is Recurring:
        assert len(rewards) == 2  # each world has its own


def started(ray):
    """What gives random numbers to each process: its kind, seed and number."""
    found = []
    for actor in ray.actors:
        for argument in actor.arguments:
            if isinstance(argument, RowMaker):
                found.append(("rows", argument.seed, argument.world))
        if isinstance(actor.arguments[0], TrainConfig):
            found.append(("draws", *actor.arguments[2:]))
    return found


@pytest.mark.parametrize("mode", ["rapid", "ascend"])
def test_no_process_repeats_the_random_numbers_of_another(config, monkeypatch, mode):
    ray = with_ray(monkeypatch, chance=0.4, in_turns=True)
    config = replace(config, scale=ScaleConfig(mode=mode, timeout=300), total_timesteps=120)
    result = train(config, SavedForaging)
    before = ray.killed
    assert before > 0
    train(resuming(config, result.run, total_timesteps=240), SavedForaging)
    found = started(ray)
    assert ray.killed > before
    assert len(found) == 2 * (2 + 2 + ray.killed)
    assert len(set(found)) == len(found)
    assert ("rows", config.seed, 0) == found[0]


def test_worlds_that_begin_again_play_different_episodes(config):
    """One network plays two worlds, and starts both with one seed."""
    scale = ScaleConfig(mode="ascend", worlds=2, networks=1)
    config = with_env(replace(config, scale=scale), SavedForaging)
    game = make_factory(config, SavedForaging)
    ray = FakeRay()
    make = ray.remote(num_cpus=1)(World).remote
    makers = [RowMaker(config, game, number, config.seed) for number in range(2)]
    obs = ServedRows([(make(maker, 1, 60.0), 0) for maker in makers], ray.get).reset(seed=7)
    first, second = part_of(obs, 0, 2), part_of(obs, 2, 2)
    shown = [part.features["Robot"].as_array().tolist() for part in (first, second)]
    assert shown[0] != shown[1]


# -------------------------------------------------------------------------------- staleness


def test_without_staleness_all_wait_for_the_newest_weights_and_nothing_is_dropped(
    config, monkeypatch
):
    ray = with_ray(monkeypatch)
    scale = ScaleConfig(mode="rapid", max_staleness=0)
    result = train(replace(config, scale=scale, total_timesteps=8 * 24), SavedForaging)
    records = metrics(result.run)
    assert {record["policy/staleness.max"] for record in records} == {0.0}
    assert {record["scale/dropped"] for record in records} == {0.0}
    assert [actor.rollouts for actor in ray.actors] == [8, 8]


def test_without_staleness_a_lost_process_plays_again(config, monkeypatch):
    ray = with_ray(monkeypatch, chance=0.3, in_turns=True)
    result = train(replace(config, scale=ScaleConfig(mode="rapid", max_staleness=0)), SavedForaging)
    records = metrics(result.run)
    assert ray.killed > 2
    assert records[-1]["scale/lost"] == ray.killed
    assert {record["policy/staleness.max"] for record in records} == {0.0}
    assert sum(actor.rollouts for actor in ray.actors) == 2 * len(records) + ray.killed


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_staleness_of_each_decision_is_the_number_of_updates_since(config, most):
    """The value of a decision says which weights made it; rows wait for many rollouts."""
    config = replace(
        config,
        rollout=RolloutConfig(num_envs=6, steps=2),
        env={"_target_": "x", "slow": 0.9},
        scale=ScaleConfig(mode="rapid", max_staleness=most, timeout=300),
    )
    fleet, session = opened(config, FakeRay(in_turns=True), TurnRows)
    oldest = []
    for number in range(10):
        change(session.net, number)
        session.updates = number
        (found,) = fleet.gather(session, None, Stopwatch())
        decisions = found.trajectories.decisions
        assert decisions.staleness.tolist() == (number - decisions.values).tolist()
        oldest.append(decisions.staleness.max())
        # Two networks play on while the learner learns, so that each is one update behind.
        assert decisions.staleness.min() == (0 if most == 0 or number == 0 else 1)
    assert max(oldest) > 1  # of rows that waited
    assert found.numbers["scale/dropped"] == 0
    fleet.close()


def test_rollouts_that_are_too_old_are_dropped(config):
    fleet, session = opened(
        replace(config, scale=ScaleConfig(mode="rapid", timeout=300)),
        FakeRay(in_turns=True),
        SavedForaging,
    )
    dropped = []
    for number in (0, 1, 3, 4):  # an update that gathers nothing lies between
        session.updates = number
        (found,) = fleet.gather(session, None, Stopwatch())
        assert found.trajectories.decisions.staleness.max() <= 1
        dropped.append((found.numbers["scale/dropped"], found.numbers["scale/dropped_frames"]))
    assert dropped == [(0, 0), (0, 0), (2, 24), (2, 24)]
    fleet.close()


def test_networks_of_one_world_cannot_wait_for_each_other(config, monkeypatch):
    with_ray(monkeypatch)
    scale = ScaleConfig(mode="ascend", worlds=1, max_staleness=0)
    with pytest.raises(SettingError, match="different moments"):
        train(replace(config, scale=scale), SavedForaging)


def test_a_clone_with_a_memory_needs_every_rollout(config, monkeypatch):
    with_ray(monkeypatch)
    config = replace(config, net=replace(config.net, memory="gru", memory_size=8))
    begin = train(replace(config, total_timesteps=24), SavedForaging).run
    config = replace(config, init=str(begin), ppo=replace(config.ppo, clone_kl=0.1))
    with pytest.raises(SettingError, match=r"needs all decisions of a row[\s\S]*torchrun"):
        train(replace(config, scale=ScaleConfig(mode="rapid")), SavedForaging)


# ----------------------------------------------------------------------------- what is lost


@pytest.mark.parametrize(("worlds", "networks"), [(2, 2), (1, 2)])
def test_a_run_whose_processes_end_at_random_goes_on(config, monkeypatch, worlds, networks):
    ray = with_ray(monkeypatch, chance=0.3)
    scale = ScaleConfig(mode="ascend", worlds=worlds, networks=networks, timeout=300)
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


def test_a_process_that_hangs_is_replaced_although_others_play_on(config, monkeypatch):
    ray = FakeRay(in_turns=True, hangs=0)
    scale = ScaleConfig(mode="rapid", max_staleness=3, timeout=20)
    fleet, session = opened(replace(config, scale=scale), ray, SavedForaging)
    clock = itertools.count()  # a second passes each time somebody looks
    monkeypatch.setattr("ppo_trainer.scale.fleet.time.monotonic", lambda: float(next(clock)))
    lost = []
    for number in range(8):
        session.updates = number
        (found,) = fleet.gather(session, None, Stopwatch())
        lost.append(found.numbers["scale/lost"])
    assert (lost[0], lost[-1]) == (0, 1)
    assert found.numbers["scale/lost_frames"] == 12
    assert [actor.is_gone for actor in ray.actors] == [True, False, False]
    assert ray.actors[2].rollouts > 1
    fleet.close()


def test_an_environment_that_fails_ends_the_run(config, monkeypatch):
    class Failing(SavedForaging):
        def act(self, actions):
            raise ValueError("the cat has eaten the food")

    with_ray(monkeypatch)
    with pytest.raises(EntityEnvError, match="the cat has eaten the food"):
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
    with pytest.raises(
        SettingError, match=r"3 processes of Ray want 3 cores[\s\S]*scale.cpus=0.67"
    ):
        train(replace(config, scale=scale), SavedForaging)


class Starting(FakeRay):
    """A Ray that is not there yet, and whose ``init`` is ``begin``."""

    def __init__(self, begin):
        super().__init__()
        self.begin, self.asked = begin, []

    def is_initialized(self):
        return False

    def init(self, address, **settings):
        self.asked.append(address)
        self.begin()

    def shutdown(self):
        self.asked.append("shutdown")


def raising(error):
    def begin():
        raise error

    return begin


def closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "error", "told"),
    [
        ("auto", ConnectionError("Could not find any\nrunning Ray"), "Could not find any"),
        ("auto", ValueError(""), "ValueError"),
        (None, Exception("The current node timed out during startup."), "timed out during"),
        ("nonsense", ValueError("Invalid address format"), "Invalid address"),
    ],
)
def test_a_cluster_that_does_not_start_or_answer_is_one_error(
    config, monkeypatch, tmp_path, address, error, told
):
    ray = Starting(raising(error))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = replace(config, scale=ScaleConfig(mode="rapid", address=address))
    with pytest.raises(SettingError, match="ray start --head") as raised:
        train(config, SavedForaging)
    assert told in str(raised.value)
    assert ray.asked == [address or "local"]
    assert list(tmp_path.iterdir()) == []  # no run folder


def test_an_address_where_nobody_listens_is_told_at_once(config, monkeypatch):
    ray = Starting(lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    for address in (closed_port(), "no-such-host.invalid:6379", "127.0.0.1:99999"):
        scale = ScaleConfig(mode="ascend", address=address)
        with pytest.raises(SettingError, match=f"(?s)scale.address={address}.*ray start --head"):
            train(replace(config, scale=scale), SavedForaging)
    assert ray.asked == []


@pytest.mark.parametrize("address", ["auto", None])
def test_a_cluster_that_is_silent_is_not_waited_for(config, monkeypatch, address):
    free = threading.Event()
    monkeypatch.setitem(sys.modules, "ray", Starting(free.wait))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in ("_SECONDS", "_SECONDS_IF_BUSY"):
        monkeypatch.setattr(f"ppo_trainer.scale.ray_cluster.{name}", 0.2)
    with pytest.raises(SettingError, match=r"no answer within 0\.2 s") as raised:
        train(replace(config, scale=ScaleConfig(mode="rapid", address=address)), SavedForaging)
    free.set()
    assert "ray start --head" in str(raised.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_wait_for_a_cluster(config, monkeypatch, number):
    free = threading.Event()

    def begin():
        os.kill(os.getpid(), number)
        free.wait(300)

    monkeypatch.setitem(sys.modules, "ray", Starting(begin))
    monkeypatch.setattr("ppo_trainer.scale.ray_cluster._SECONDS", 300.0)
    with pytest.raises(KeyboardInterrupt):
        train(replace(config, scale=ScaleConfig(mode="rapid", address="auto")), SavedForaging)
    free.set()


def test_numbers_that_do_not_fit_are_refused_before_there_is_a_folder(config, tmp_path):
    scale = ScaleConfig(mode="rapid", worlds=3, networks=2)
    with pytest.raises(SettingError, match="cannot be shared evenly"):
        train(replace(config, scale=scale), SavedForaging)
    assert list(tmp_path.iterdir()) == []


def test_without_ray_the_extra_is_named(config, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingError, match=r"pip install 'ragged-rl\[ray\]'"):
        train(replace(config, scale=ScaleConfig(mode="rapid")), SavedForaging)


def test_workers_of_its_own_are_refused(config, monkeypatch):
    with_ray(monkeypatch)
    rollout = replace(config.rollout, processes=2)
    config = replace(config, scale=ScaleConfig(mode="rapid"), rollout=rollout)
    with pytest.raises(SettingError, match=r"rollout\.processes=0"):
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
    with pytest.raises(EntityEnvError, match=r"Unable to allocate 256[\s\S]*lower scale.networks"):
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
