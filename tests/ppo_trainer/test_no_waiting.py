"""No update waits for its device: one on "meta", where no number can be read, runs to its end.

A GPU that is asked for a number first finishes all the work that it has been given. Tensors on
torch's device "meta" have shapes but no numbers, so that asking for one is an error.
"""

from dataclasses import replace

import pytest
import torch
from support.tiny_envs import Farm
from support.trainer_envs import Foraging
from support.trainer_runs import (
    SMALL_NET,
    assert_same,
    network,
    parameters,
    rollout_of,
    small_config,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from entity_env import ListEnv
from entity_env.errors import MaskError, NonFiniteError
from ppo_trainer import PPOConfig
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.learner.optimizers import Optimizers, make_optimizers
from ppo_trainer.learner.step_metrics import StepMetrics
from ppo_trainer.learner.update import update
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import EntityBatch, RaggedNet, RaggedTensor, RelativePosition, SelectActors
from ragged_net.model.attention import BACKENDS

SETTINGS = {
    "plain": {},
    "per frame": {"ratio": "per_frame", "clip_value": True},
    "micro-batches": {"microbatch_size": 5, "normalize_advantages": False},
}


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch):
    """torch knows no autocast on "meta", and refuses to say that there is none."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)


class NoWaiting(TorchDispatchMode):
    """Lets no copy from the CPU through that the program would wait for, and nothing else mixed.

    Some operations on "meta" take tensors of the CPU as well; a GPU refuses them, or waits.
    """

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [t for t in tree_iter((args, kwargs)) if isinstance(t, torch.Tensor)]
        places = {tensor.device.type for tensor in tensors if tensor.ndim}
        assert len(places) < 2, f"{function} of {[(t.device.type, *t.shape) for t in tensors]}"
        if function is torch.ops.aten._to_copy.default and args[0].device.type == "cpu":
            elsewhere = torch.device(kwargs.get("device") or "cpu").type != "cpu"
            assert kwargs.get("non_blocking") or not elsewhere, "a copy that is waited for"
        return function(*args, **kwargs)


class Unmoved(torch.optim.Optimizer):
    """torch's fused Adam does not run on "meta"; that it waits for no device is torch's word."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.0})

    def step(self):
        assert self.found_inf.device.type == "meta"


def unmoved(net):
    separate = list(net.value_parameters())
    return Optimizers(Unmoved(net.policy_parameters()), Unmoved(separate) if separate else None)


def on_meta(rollout):
    """A rollout as a GPU would have it: all there, only what the CPU knew is known."""

    def moved(part):
        return {name: ragged.to("meta") for name, ragged in part.items()}

    return Rollout(
        rollout.batch.to("meta"),
        moved(rollout.chosen),
        moved(rollout.log_probs),
        rollout.values.to("meta"),
        rollout.advantages.to("meta"),
        rollout.returns.to("meta"),
    )


def run_update(net, optimizers, rollout, config):
    generator = torch.Generator().manual_seed(5)
    algorithm = PPO(config.ppo)
    return update(algorithm, net, optimizers, rollout, config, 0.0, generator, Stopwatch())


def test_what_waits_is_noticed():
    there, here = torch.zeros(3, device="meta"), torch.tensor([2, 0])
    with NoWaiting():
        there.index_select(0, here.to("meta", non_blocking=True))
        there.mul(torch.tensor(2.0))  # one number goes along with the call
        with pytest.raises(AssertionError, match="index_select"):
            there.index_select(0, here)
        with pytest.raises(AssertionError, match="waited for"):
            here.to("meta")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("value_net", [False, True], ids=["shared", "value_net"])
@pytest.mark.parametrize("create_env", [Foraging, Farm])
def test_an_update_asks_the_device_for_no_number(monkeypatch, create_env, value_net, name):
    config = small_config(ppo=PPOConfig(epochs=1, minibatch_size=12, **SETTINGS[name]))
    config = replace(config, value_net=value_net)
    net = network(create_env(), config)
    rollout = rollout_of(create_env, config, net)
    learnt = [p for p in net.parameters() if p.requires_grad]
    net, rollout = net.to("meta"), on_meta(rollout)
    optimizers = unmoved(net)
    readings = []
    monkeypatch.setattr(StepMetrics, "read", lambda self: readings.append(self) or [{"loss": 0.0}])
    with NoWaiting():
        run_update(net, optimizers, rollout, config)
    assert len(readings[0]._steps) == 24 // 12
    assert not readings[0].at_once
    assert sum(p.grad is not None for p in net.parameters()) > len(learnt) // 2


@pytest.mark.parametrize("kind", ["waves", "mlp"])
def test_positions_ask_the_device_for_no_number(monkeypatch, kind):
    places = {"Robot": ["x"], "Food": ["x"]}
    position = RelativePosition(places, kind=kind)
    config = small_config(net=replace(SMALL_NET, relative_position=position))
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    net, rollout = net.to("meta"), on_meta(rollout)
    optimizers = unmoved(net)
    monkeypatch.setattr(StepMetrics, "read", lambda self: [{"loss": 0.0}])
    with NoWaiting():
        run_update(net, optimizers, rollout, config)
    assert net.encoder.transformer.blocks[0].qkv.weight.grad is not None


class Idle(Foraging):
    """Nobody ever acts."""

    def _draw(self):
        super()._draw()
        self.counts[0] = 0


def test_an_update_in_which_nobody_acts(monkeypatch):
    """No parameter of the policy has a gradient then; the value network learns on."""
    config = replace(four_steps(), value_net=True)
    net = network(Idle(), config)
    rollout = rollout_of(Idle, config, net)
    assert not rollout.log_probs["Move"].num_rows
    metrics = run_update(net, make_optimizers(net, config), rollout, config)
    assert metrics["optim/grad_norm"] == 0 < metrics["optim/value_grad_norm"]
    added = []
    monkeypatch.setattr(
        StepMetrics, "read", lambda self: added.append(self._unread) or [{"loss": 0}]
    )
    net = net.to("meta")
    run_update(net, unmoved(net), on_meta(rollout), config)
    assert {numbers.device.type for step in added[0] for _, numbers in step} == {"meta"}


def test_what_the_cpu_knew_grows_with_the_rollout():
    with ListEnv(Farm, 3, seed=1) as env:
        there, here = RolloutBuffer(3, 2), RolloutBuffer(3, 2)
        net = RaggedNet(env.obs_space(), env.action_space(), SMALL_NET)
        obs = env.reset()
        for _ in range(4):
            batch = EntityBatch.from_obs(obs)
            here.decide(obs.rows, batch, net(batch))
            net.to("meta")
            with NoWaiting():
                there.decide(obs.rows, batch.to("meta"), net(batch.to("meta"), trusted=True))
            net = RaggedNet(env.obs_space(), env.action_space(), SMALL_NET)
        known, real = there._batch.all(), here._batch.all()
        for name, rows in real.entities.items():
            assert torch.equal(known.entities[name].host_offsets, rows.offsets)
        for name, action in real.actions.items():
            assert torch.equal(known.actions[name].actors.host_offsets, action.actors.offsets)
        for name, chosen in here._chosen.items():
            assert torch.equal(there._chosen[name].all().host_offsets, chosen.all().offsets)


def test_a_pass_needs_no_length_that_only_the_device_knows(monkeypatch):
    """As within a graph: the kernels of a GPU, for which this attention stands in, need none."""
    config = small_config(net=replace(SMALL_NET, attention="reference"))
    monkeypatch.setitem(BACKENDS, "reference", lambda qkv, frames: qkv[:, 2])
    net = network(Foraging(), config)
    batch = rollout_of(Foraging, config, net).batch.to("meta")
    unknown = EntityBatch(
        {name: forget(rows) for name, rows in batch.entities.items()},
        batch.global_features,
        {},
        {
            "Move": replace(batch.actions["Move"], actors=forget(batch.actions["Move"].actors)),
            "Pick": SelectActors(
                forget(batch.actions["Pick"].actors), forget(batch.actions["Pick"].actees), room=99
            ),
        },
    )
    net = net.to("meta")
    with NoWaiting():
        output = net(unknown, trusted=True)
    assert output.actions["Pick"].probs.values.shape == (99,)
    assert output.value.shape == (batch.num_frames,)


def forget(ragged):
    return RaggedTensor.unchecked(ragged.values, ragged.offsets)


def test_numbers_are_looked_at_before_they_are_sent():
    net = network(Foraging(), small_config())
    batch = rollout_of(Foraging, small_config(), net).batch
    net.to("meta").check(batch)
    batch.actions["Move"].mask[0] = False
    with pytest.raises(MaskError, match="'Move': actor 0 of the batch has no choice"):
        net.check(batch)


def test_a_batch_that_is_not_trusted_is_looked_at():
    config = small_config()
    net = network(Foraging(), config)
    batch = rollout_of(Foraging, config, net).batch.to("meta")
    net.to("meta")(batch, trusted=True)
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        net(batch)


# ------------------------------------------------------- numbers that are read only at the end


@pytest.fixture
def costly(monkeypatch):
    """Looks at numbers cost something, as on a GPU."""
    monkeypatch.setattr("ppo_trainer.learner.step_metrics.reads_are_free", lambda device: False)


def four_steps():
    return small_config(ppo=PPOConfig(epochs=2, minibatch_size=12))


def trained(config, poisoned=None, optimizers=make_optimizers):
    """The parameters after an update, its metrics, or its error; one gradient may turn NaN."""
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    steps = []

    def poison(gradient):
        steps.append(None)
        return gradient * float("nan") if len(steps) - 1 == poisoned else gradient

    next(p for n, p in net.named_parameters() if n.startswith("heads.0")).register_hook(poison)
    try:
        found = run_update(net, optimizers(net, config), rollout, config)
    except NonFiniteError as error:
        found = error
    return parameters(net), found, len(steps)


@pytest.mark.parametrize("value_net", [False, True], ids=["shared", "value_net"])
def test_reading_at_the_end_changes_nothing(monkeypatch, value_net):
    config = replace(four_steps(), value_net=value_net)
    before, expected, _ = trained(config)
    monkeypatch.setattr("ppo_trainer.learner.step_metrics.reads_are_free", lambda device: False)
    after, metrics, _ = trained(config)
    assert_same(before, after)
    assert metrics == expected


@pytest.mark.parametrize("value_net", [False, True], ids=["shared", "value_net"])
@pytest.mark.parametrize("poisoned", [0, 1, 3])
def test_no_step_is_taken_from_the_first_that_is_not_finite_on(monkeypatch, poisoned, value_net):
    config = replace(four_steps(), value_net=value_net)
    expected, at_once, seen = trained(config, poisoned)
    assert isinstance(at_once, NonFiniteError)
    assert seen == poisoned + 1, "where looks are free the first one ends the update"
    monkeypatch.setattr("ppo_trainer.learner.step_metrics.reads_are_free", lambda device: False)
    after, error, seen = trained(config, poisoned)
    assert isinstance(error, NonFiniteError)
    assert error.what == at_once.what == "a gradient is not finite"
    assert "optim/grad_norm" in error.received
    assert seen == 4
    assert_same(expected, after)


def test_a_loss_that_is_not_finite_is_named_at_the_end(costly):
    config = four_steps()
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    rollout = replace(rollout, returns=rollout.returns.index_fill(0, torch.tensor([3]), torch.inf))
    before = parameters(net)
    with pytest.raises(NonFiniteError, match="loss/value") as caught:
        run_update(net, make_optimizers(net, replace(config)), rollout, config)
    assert caught.value.what == "a loss is not finite"
    assert "loss/policy" not in caught.value.received
    changed = [n for n, p in parameters(net).items() if not torch.equal(p, before[n])]
    assert bool(changed) == (3 not in first_frames(config))


def first_frames(config):
    """The frames of the first minibatch."""
    generator = torch.Generator().manual_seed(5)
    return torch.randperm(24, generator=generator)[:12].tolist()


def test_where_looks_are_free_no_tensor_is_kept():
    """Small ones between the large ones of a minibatch would break up the memory."""
    readings = StepMetrics(torch.device("cpu"))
    readings.begin()
    readings.add(["loss/policy", "policy/kl"], torch.tensor([1.5, 0.25]))
    assert not any(readings._unread)
    readings.begin()
    readings.add(["loss/policy"], torch.tensor([2.0]))
    assert readings.read() == [{"loss/policy": 1.5, "policy/kl": 0.25}, {"loss/policy": 2.0}]


def test_a_policy_that_goes_too_far_still_stops_the_update(costly):
    config = small_config(ppo=PPOConfig(epochs=4, minibatch_size=24, target_kl=1e-9))
    _, metrics, _ = trained(config)
    assert metrics["policy/stopped"] == 1
    assert metrics["optim/gradient_steps"] < 4
