"""Several processes that learn one network together give the numbers of one with all rows.

Threads stand for the processes here, each with a process group of its own; ``torchrun`` itself is
in ``test_torchrun.py``.
"""

import gc
import itertools
import sys
import threading
import traceback
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from support.fake_ray import FakeRay
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import (
    SMALL_NET,
    assert_same,
    assert_same_checkpoint,
    checkpoints,
    collect_with,
    metrics,
    network,
    resuming,
    saved,
    small_config,
)
from support.turn_rows import TurnRows
from torch.testing import assert_close

from entity_env import ListEnv
from entity_env.errors import EntityEnvError, LearnerLostError, SettingError
from ppo_trainer import OptimConfig, PPOConfig, RolloutConfig, ScaleConfig
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.environments import with_env
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.rollout import Rollout, Sequences
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.learner.minibatches import minibatch_numbers, part_sizes
from ppo_trainer.learner.optimizers import make_optimizers, step, zero_grad
from ppo_trainer.learner.step_metrics import StepMetrics
from ppo_trainer.learner.update import add_gradients, add_up, update
from ppo_trainer.loop import _train
from ppo_trainer.machine.ranks import LONE, Ranks
from ppo_trainer.machine.seeding import make_generators
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import EntityBatch, RaggedNet, RaggedTensor

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch has no gloo")
CPU = torch.device("cpu")


def together(size, function):
    """Return the results of ``function(ranks)`` in ``size`` threads, or its errors.

    A thread that ends closes its connections, as a process does, so that the others notice it at
    once. The time limits are those of a machine that hangs.
    """
    store, results = dist.HashStore(), [None] * size

    def work(rank):
        group = dist.ProcessGroupGloo(store, rank, size, timedelta(seconds=300))
        return function(Ranks(group, store))

    def run(rank):
        try:
            results[rank] = work(rank)
        except BaseException as error:
            results[rank] = own = error
            while own is not None:  # its frames hold the group
                traceback.clear_frames(own.__traceback__)
                own = own.__context__
            del own, error
            gc.collect()  # so do cycles of objects

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
        assert not thread.is_alive()
    return results


class Share:
    """The rows of one process, and what belongs to them."""

    def __init__(self, net, rows, config, rank):
        self.net, self.rows, self.config = net, rows, config
        self.generators = make_generators(config.seed, CPU, rank)
        self.buffer = RolloutBuffer(len(rows), config.rollout.steps)
        self.memory, self.pending = RowMemory(net, len(rows)), None
        self.obs = rows.reset()

    def rollout(self, algorithm):
        result = collect_with(
            self.net,
            self.rows,
            self.obs,
            self.config,
            self.generators.actions,
            self.buffer,
            self.pending,
            self.memory,
        )
        self.obs, self.pending = result.next_obs, result.pending
        return algorithm.estimate(result.trajectories, self.net)


def learn(net, rows, config, updates, ranks):
    """Learn as one of several processes."""
    algorithm, share = PPO(config.ppo), Share(net, rows, config, ranks.rank)
    optimizers = make_optimizers(net, config)
    net.update_statistics(EntityBatch.from_obs(share.obs), ranks.gathered)
    numbers = []
    for number in range(updates):
        rollout = share.rollout(algorithm)
        progress, own = number / updates, share.generators.minibatches
        numbers.append(
            update(
                algorithm, net, optimizers, rollout, config, progress, own, Stopwatch(), ranks=ranks
            )
        )
        net.update_statistics(rollout.batch, ranks.gathered)
    return deepcopy(net.state_dict()), numbers


def learn_alone(net, every, config, updates):
    """Learn from the rows of all shares in one process, in the same minibatches."""
    algorithm = PPO(config.ppo)
    shares = [Share(net, rows, config, rank) for rank, rows in enumerate(every)]
    optimizers = make_optimizers(net, config)
    for group in (*optimizers.main.param_groups, *getattr(optimizers.value, "param_groups", ())):
        group["lr"] = config.optim.lr
    net.update_statistics(EntityBatch.cat([EntityBatch.from_obs(share.obs) for share in shares]))
    stops, step_metrics = [], StepMetrics(CPU)
    for _ in range(updates):
        rollouts = [share.rollout(algorithm) for share in shares]
        net.update_value_norm(torch.cat([rollout.returns for rollout in rollouts]))
        sizes = part_sizes([len(own) for own in rollouts], config.ppo.minibatch_size)
        drawn = [
            minibatch_numbers(rollout, config.ppo, share.generators.minibatches, size)
            for share, rollout, size in zip(shares, rollouts, sizes, strict=True)
        ]
        stops.append(False)
        for numbers in zip(*drawn, strict=True):
            pairs = zip(rollouts, numbers, strict=True)
            parts = [rollout.part(own) for rollout, own in pairs if len(own)]
            if not parts:
                continue
            whole = cat(parts)
            zero_grad(optimizers)
            step_metrics.begin()
            coefficients = algorithm.coefficients(0.0)
            measured = add_gradients(algorithm, net, whole, config, coefficients, Stopwatch())
            if algorithm.stops(measured):
                stops[-1] = True
                break
            step(net, optimizers, config.ppo.max_grad_norm, step_metrics)
        net.update_statistics(EntityBatch.cat([rollout.batch for rollout in rollouts]))
    return deepcopy(net.state_dict()), stops


def cat(parts):
    """One rollout of several."""
    sequences = None
    if parts[0].sequences is not None:
        before = np.cumsum([0, *map(len, parts)])
        frames = [
            part.sequences.frames.with_values(part.sequences.frames.values + int(first))
            for part, first in zip(parts, before, strict=False)
        ]
        states = torch.cat([part.sequences.states for part in parts])
        sequences = Sequences(RaggedTensor.cat(frames), states)
    names = parts[0].chosen
    return Rollout(
        EntityBatch.cat([part.batch for part in parts]),
        {name: RaggedTensor.cat([part.chosen[name] for part in parts]) for name in names},
        {name: RaggedTensor.cat([part.log_probs[name] for part in parts]) for name in names},
        torch.cat([part.values for part in parts]),
        torch.cat([part.advantages for part in parts]),
        torch.cat([part.returns for part in parts]),
        sequences,
    )


def settings(**changes):
    ppo = {"epochs": 2, "minibatch_size": 7, **changes.pop("ppo", {})}
    values = {
        "rollout": RolloutConfig(num_envs=5, steps=4, stagger=False),
        "optim": OptimConfig(lr=3e-3, schedule="constant"),
        "ppo": PPOConfig(**ppo),
    }
    return small_config(**{**values, **changes})


def foraging(counts):
    """Rows with frames without actors, food or anything at all."""
    return lambda: [ListEnv(Foraging, n, seed=rank) for rank, n in enumerate(counts)]


def turns(counts):
    """Rows of which only some are asked, and decisions wait for their outcome."""
    return lambda: [TurnRows(n, seed=rank, slow=0.5) for rank, n in enumerate(counts)]


ONE_FRAME = {"rollout": RolloutConfig(num_envs=3, steps=2), "ppo": {"minibatch_size": 1}}
CASES = {
    "two, micro-batches, each actor counts": (foraging([3, 2]), {"ppo": {"microbatch_size": 2}}),
    "three, normalised values, a value network": (
        foraging([2, 1, 2]),
        {"net": replace(SMALL_NET, value_norm="popart"), "value_net": True},
    ),
    "empty shares": (foraging([1, 1, 1]), ONE_FRAME),
    "rows that wait": (turns([4, 2]), {}),
    "a memory": (turns([3, 4]), {"net": replace(SMALL_NET, memory="gru", memory_size=8)}),
    "a KL limit": (foraging([3, 2]), {"ppo": {"target_kl": 5e-4, "epochs": 4}}),
}


@pytest.mark.parametrize("case", CASES)
def test_processes_learn_what_one_with_all_rows_learns(case):
    make_rows, changes = CASES[case]
    config = settings(**deepcopy(changes))
    net = network(make_rows()[0], config)
    nets = [deepcopy(net) for _ in make_rows()]
    found = together(
        len(nets), lambda ranks: learn(nets[ranks.rank], make_rows()[ranks.rank], config, 5, ranks)
    )
    first = deepcopy(net.state_dict())
    expected, stops = learn_alone(net, make_rows(), config, 5)
    assert max((expected[n] - first[n]).abs().max() for n, _ in net.named_parameters()) > 1e-2
    for parameters, numbers in found:
        assert_same(parameters, found[0][0])  # bit for bit the same in all processes
        for name, tensor in expected.items():
            assert_close(parameters[name], tensor, atol=1e-5, rtol=1e-5, msg=name)
        assert [bool(own["policy/stopped"]) for own in numbers] == stops
    assert any(stops) == (case == "a KL limit")


def test_minibatches_of_several_processes_are_of_equal_size():
    # 11 frames in parts of at most 4: 3 parts, of 4, 4 and 3 frames. The first process has 4: one
    # for each part, and one more for part 0; the second has 2, for the parts 1 and 2; the third
    # has 5: one each, and more for the parts 0 and 1.
    assert part_sizes([4, 2, 5], 4) == [[2, 1, 1], [0, 1, 1], [2, 2, 1]]
    assert part_sizes([10], 4) == [[4, 3, 3]]
    assert part_sizes([1, 1, 0], 1) == [[1, 0], [0, 1], [0, 0]]


def test_gradients_that_nobody_has_stay_none_and_extremes_are_those_of_all():
    def work(ranks):
        own = [torch.zeros(2, requires_grad=True) for _ in range(3)]
        own[0].grad = torch.full((2,), 1.0 + ranks.rank)
        if ranks.rank:
            own[1].grad = torch.tensor([5.0, 6.0])
        number = torch.tensor(float(ranks.rank))
        measured = {"loss/a": number, "b.min": number, "b.max": number}
        return add_up(ranks, own, measured), [one.grad for one in own]

    for measured, (first, second, third) in together(2, work):
        assert measured == {"loss/a": 1.0, "b.min": 0.0, "b.max": 1.0}
        assert first.tolist() == [3.0, 3.0]  # 1 + 2
        assert second.tolist() == [5.0, 6.0]
        assert third is None


def test_what_processes_tell_each_other():
    def work(ranks):
        parts = ranks.gathered(torch.arange(float(ranks.rank)))
        return (
            [part.tolist() for part in parts],
            ranks.gathered_json({"rank": ranks.rank}),
            ranks.of_first("a" if ranks.is_first else "b"),
            ranks.any(ranks.rank == 1),
            ranks.any(False),
            ranks.share.cut(10, together=2),
        )

    found = together(3, work)
    for rank, (parts, values, first, somebody, nobody, share) in enumerate(found):
        assert parts == [[], [0.0], [0.0, 1.0]]
        assert values == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
        assert (first, somebody, nobody) == ("a", True, False)
        assert share == [(0, 4), (4, 4), (8, 2)][rank]
    assert LONE.gathered_json(3) == [3]
    assert LONE.share.cut(10, 2) == (0, 10)


def test_each_process_needs_a_game_of_its_own():
    (first, *_) = together(3, lambda ranks: ranks.share.cut(4, together=2))
    assert isinstance(first, SettingError)
    assert "rollout.num_envs=6 or more" in str(first)


def test_a_process_that_ends_is_noticed_with_its_cause():
    def work(ranks):
        with ranks.sharing_errors():
            ranks.any(False)
            if ranks.rank == 1:
                raise ValueError("the cat has pulled the plug")
            ranks.any(False)

    waiting, ended = together(2, work)
    assert isinstance(ended, ValueError)
    assert isinstance(waiting, LearnerLostError)
    assert "process 1: ValueError: the cat has pulled the plug" in str(waiting)


def test_an_error_in_what_the_first_makes_ends_all():
    """The first process goes on, as in a script that catches the error."""

    def work(ranks):
        assert ranks.made_by_first(lambda: [1, ranks.rank]) == [1, 0]
        return ranks.made_by_first(lambda: 1 / 0)

    first, other = together(2, work)
    assert isinstance(first, ZeroDivisionError)
    assert isinstance(other, LearnerLostError)
    assert "process 0: ZeroDivisionError: division by zero" in str(other)
    assert LONE.made_by_first(lambda: 3) == 3


# ------------------------------------------------------------------------------ whole runs


@pytest.fixture(autouse=True)
def the_same_first_network(monkeypatch):
    """Threads share the random numbers of torch, from which networks are drawn."""

    def made(*arguments):
        net, generator = RaggedNet(*arguments), torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.normal_(0.0, 0.2, generator=generator)
        return net

    monkeypatch.setattr("ppo_trainer.training.start.RaggedNet", made)
    monkeypatch.setattr("ppo_trainer.runs.checkpoint.RaggedNet", made)


def run_together(size, config, env=SavedForaging, stop=None):
    """The results of ``train`` in several processes."""
    results = together(size, lambda ranks: _train(with_env(config, env), env, stop, None, ranks))
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def remembering_config(tmp_path, **changes):
    net = replace(SMALL_NET, memory="gru", memory_size=8, value_norm="popart")
    ppo = PPOConfig(epochs=2, minibatch_size=13)
    return small_config(net=net, ppo=ppo, run_dir=str(tmp_path), seed=3, **changes)


@pytest.mark.parametrize("stays_near", [False, True])
def test_a_run_of_two_processes_has_one_folder_and_resumes_as_if_unbroken(tmp_path, stays_near):
    config = remembering_config(tmp_path)
    if stays_near:
        begin = run_together(1, replace(config, total_timesteps=24))[0].run
        ppo = replace(config.ppo, clone_kl=0.5, clone_kl_fade=0.0)
        config = replace(config, init=str(begin), ppo=ppo)
    first, second = run_together(2, replace(config, run_name="whole"))
    assert first.run == second.run == tmp_path / "whole"
    assert_same(first.net.state_dict(), second.net.state_dict())
    assert [record["steps"] for record in metrics(first.run)] == [24, 48, 72, 96, 120, 144]
    assert sum(record["episodes"] for record in metrics(first.run)) == 4 * 36 // 5
    stopped, _ = run_together(2, replace(config, run_name="broken"), stop=lambda n: n == 3)
    assert stopped.interrupted
    assert stopped.steps == 72
    run_together(2, resuming(config, stopped.run))
    assert_same_checkpoint(stopped.run, first.run)
    assert metrics(stopped.run) == metrics(first.run)
    assert len(list(tmp_path.iterdir())) == (3 if stays_near else 2)


@pytest.mark.parametrize("sizes", [(2, 1), (1, 3)])
def test_another_number_of_processes_goes_on_with_the_same_episodes(tmp_path, sizes):
    before, after = sizes
    config = remembering_config(tmp_path, run_name="run")
    run, *_ = run_together(before, config, stop=lambda n: n == 3)
    _, _, facts = saved(run.run)
    assert [row["episode"]["length"] for row in facts["envs"]] == [18 % 5] * 4
    run_together(after, resuming(config, run.run, total_timesteps=96))
    _, optimizers, facts = saved(run.run)
    assert facts["steps"] == 96
    assert [row["episode"]["length"] for row in facts["envs"]] == [24 % 5] * 4
    names = [f"generator/actions/{rank}" for rank in range(1, after)]
    assert [name for name in optimizers if name.startswith("generator/actions/")] == names


def test_decisions_that_wait_are_saved_for_all_rows(tmp_path):
    config = remembering_config(tmp_path, run_name="run", env={"_target_": "x", "slow": 0.5})
    config = replace(config, rollout=RolloutConfig(num_envs=6, steps=6))
    run, *_ = run_together(3, config, TurnRows, stop=lambda n: n == 2)
    folder = checkpoints(run.run)[-1]
    waiting = load_file(folder / "pending.safetensors")['["rows"]'].tolist()
    assert len(set(waiting)) == len(waiting)
    assert len({row // 2 for row in waiting}) > 1  # of several processes


@pytest.mark.parametrize(("worlds", "size"), [(1, 2), (4, 2)])
def test_processes_learn_from_the_worlds_that_serve_them(tmp_path, monkeypatch, worlds, size):
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    scale = ScaleConfig(mode="ascend", worlds=worlds, timeout=300)
    config = remembering_config(tmp_path, run_name="run", scale=scale)
    first, second = run_together(size, config)
    assert_same(first.net.state_dict(), second.net.state_dict())
    assert first.steps == 144
    assert len(ray.actors) == worlds
    records = metrics(first.run)
    # 4 rows of the worlds have played 36 steps in episodes of 5.
    assert sum(record["episodes"] for record in records) == 4 * 36 // 5
    assert records[-1]["policy/staleness.max"] == 0.0
    run_together(size, resuming(config, first.run, total_timesteps=168))
    assert saved(first.run)[2]["steps"] == 168


def test_rollouts_of_one_world_end_at_the_same_step(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    scale = ScaleConfig(mode="ascend", worlds=1, timeout=300)
    rows = {"_target_": "x", "slow": 0.5}  # some rows are asked more often than others
    config = remembering_config(tmp_path, run_name="run", env=rows, scale=scale)
    config = replace(config, rollout=RolloutConfig(num_envs=6, steps=6))
    run, *_ = run_together(3, config, TurnRows)
    steps = [record["steps"] for record in metrics(run.run)]
    assert steps[-1] >= 144
    assert any(after - before > 36 for before, after in itertools.pairwise(steps))


def test_a_world_that_is_lost_is_told(tmp_path, monkeypatch):
    class Failing(SavedForaging):
        def act(self, actions):
            raise ValueError("the cat has eaten the food")

    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    scale = ScaleConfig(mode="ascend", worlds=1, timeout=300)
    config = with_env(small_config(run_dir=str(tmp_path), scale=scale), Failing)
    found = together(2, lambda ranks: _train(config, Failing, None, None, ranks))
    assert any("the cat has eaten the food" in str(error) for error in found)
    assert all(isinstance(error, EntityEnvError) for error in found)


@pytest.mark.parametrize(
    "changes", [{"selfplay": {"mode": "pool"}}, {"selfplay": {"average": True}}]
)
def test_what_one_process_only_can_train(tmp_path, changes):
    config = small_config(run_dir=str(tmp_path), **changes)
    with pytest.raises(SettingError, match="trains in one process only"):
        run_together(2, config)
    assert list(tmp_path.iterdir()) == []


def rapid(**settings):
    return ScaleConfig(mode="rapid", max_staleness=0, timeout=300, **settings)


def test_learners_with_a_worker_each_train_as_processes_that_play_themselves(tmp_path, monkeypatch):
    """World k plays the rows of process k with its random numbers."""
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    config = remembering_config(tmp_path)
    alone, _ = run_together(2, replace(config, run_name="alone"))
    scale = rapid(worlds=2, networks=2)
    first, second = run_together(2, replace(config, run_name="workers", scale=scale))
    assert_same(first.net.state_dict(), alone.net.state_dict())
    assert_same(second.net.state_dict(), alone.net.state_dict())
    assert [
        {name: number for name, number in record.items() if not name.startswith("scale/")}
        for record in metrics(first.run)
    ] == metrics(alone.run)
    assert [actor.rollouts for actor in ray.actors] == [6, 6]


def test_learners_share_workers_unevenly_and_count_those_of_all(tmp_path, monkeypatch):
    ray = FakeRay(chance=0.3)
    monkeypatch.setitem(sys.modules, "ray", ray)
    scale = rapid(worlds=3, networks=3)
    first, second = run_together(2, remembering_config(tmp_path, run_name="run", scale=scale))
    assert_same(first.net.state_dict(), second.net.state_dict())
    records = metrics(first.run)
    # 4 rows in 3 worlds, of 2, 1 and 1, play 6 steps: 24 frames in all.
    assert [record["steps"] for record in records] == [24, 48, 72, 96, 120, 144]
    assert records[-1]["scale/lost"] == ray.killed > 0
    assert sum(actor.rollouts for actor in ray.actors) == 3 * 6 + ray.killed
    makers = [actor.arguments[1] for actor in ray.actors]
    seeds = [(maker.world, maker.seed) for maker in makers]
    assert len(set(seeds)) == len(seeds)
    run_together(2, resuming(remembering_config(tmp_path, scale=scale), first.run))


def test_each_learner_needs_workers(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    config = small_config(run_dir=str(tmp_path), scale=rapid(worlds=4, networks=1))
    with pytest.raises(SettingError, match=r"2 processes learn[\s\S]*scale\.networks=2 or more"):
        run_together(2, config)
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_worker_of_one_learner_ends_all(tmp_path, monkeypatch):
    class Failing(SavedForaging):
        def act(self, actions):
            raise ValueError("the cat has eaten the food")

    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    config = small_config(run_dir=str(tmp_path), scale=rapid(worlds=2, networks=2))
    named = with_env(config, Failing)
    found = together(2, lambda ranks: _train(named, Failing, None, None, ranks))
    assert all(isinstance(error, EntityEnvError) for error in found)
    assert "the cat has eaten the food" in str(found[0]) + str(found[1])


@pytest.mark.parametrize("mode", ["local", "rapid"])
def test_where_the_first_process_is_killed_another_saves_what_was_learned(
    tmp_path, monkeypatch, mode
):
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    scale = ScaleConfig(mode=mode, timeout=300)
    config = small_config(run_dir=str(tmp_path), run_name="run", scale=scale)
    named = with_env(config, SavedForaging)

    def killed(updates):
        if updates == 3:
            raise SystemExit  # saves nothing
        return False

    def train_or_end(ranks):
        return _train(named, SavedForaging, killed if ranks.is_first else None, None, ranks)

    _, lost = together(2, train_or_end)
    assert isinstance(lost, LearnerLostError)
    assert "nothing is lost" in str(lost)
    # The second process has not heard that the third update is in the log.
    assert saved(tmp_path / "run")[2]["steps"] == 48
    run_together(2, resuming(config, tmp_path / "run"))
    assert [record["steps"] for record in metrics(tmp_path / "run")] == [*range(24, 145, 24)]


def test_where_a_process_fails_the_first_saves_what_was_learned(tmp_path):
    config = small_config(run_dir=str(tmp_path), run_name="run")

    def train_or_fail(ranks):
        with ranks.sharing_errors():
            named = with_env(config, SavedForaging)
            return _train(named, SavedForaging, fails if ranks.rank else None, None, ranks)

    def fails(updates):
        if updates == 3:
            raise ValueError("the cat has pulled the plug")
        return False

    lost, failed = together(2, train_or_fail)
    assert isinstance(failed, ValueError)
    assert isinstance(lost, LearnerLostError)
    assert "the cat has pulled the plug" in str(lost)
    assert "resume=" in str(lost)
    assert saved(tmp_path / "run")[2]["steps"] == 72
    (result,) = run_together(1, resuming(config, tmp_path / "run"))
    assert result.steps == 144
