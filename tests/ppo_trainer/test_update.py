"""One update: minibatches, micro-batches, optimizers, stops, and what is not finite."""

import math
from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from support.trainer_envs import Foraging
from support.trainer_runs import assert_same, network, parameters, rollout_of, small_config
from torch.testing import assert_close

from entity_env.errors import NonFiniteError
from ppo_trainer import OptimConfig, PPOConfig, RolloutConfig, train
from ppo_trainer.algorithms.algorithm import scheduled
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.learner.optimizers import Optimizers, clip_gradients, make_optimizers
from ppo_trainer.learner.update import update
from ppo_trainer.machine.stopwatch import Stopwatch


def run_update(net, optimizers, rollout, config, progress=0.0, seed=5):
    generator = torch.Generator().manual_seed(seed)
    algorithm = PPO(config.ppo)
    return update(algorithm, net, optimizers, rollout, config, progress, generator, Stopwatch())


def gradient_descent(net):
    """An optimizer whose step is the gradient itself, times the learning rate."""
    return Optimizers(torch.optim.SGD(net.parameters(), lr=1.0), None)


def one_step(**ppo):
    """One gradient step on the whole rollout of 24 frames, at learning rate 1, not clipped."""
    settings = {"epochs": 1, "minibatch_size": 24, "max_grad_norm": 1e9, **ppo}
    return small_config(ppo=PPOConfig(**settings), optim=OptimConfig(lr=1.0, schedule="constant"))


def moved(before, after):
    """Return the change of each parameter."""
    return {name: after[name] - before[name] for name in before}


# ---------------------------------------------------------------- minibatches and micro-batches


@pytest.mark.parametrize("ratio", ["per_actor", "per_frame"])
def test_micro_batches_give_the_gradient_of_the_whole_minibatch(ratio):
    settings = {"ratio": ratio, "clip_value": True}
    gradients, numbers = [], []
    for size in (0, 24, 7, 1):
        config = one_step(microbatch_size=size, **settings)
        net = network(Foraging(), config)
        rollout = rollout_of(Foraging, config, net)
        before = parameters(net)
        numbers.append(run_update(net, gradient_descent(net), rollout, config))
        gradients.append(moved(before, parameters(net)))
    assert max(g.abs().max() for g in gradients[0].values()) > 1e-2
    for other, metrics in zip(gradients[1:], numbers[1:], strict=True):
        for name, gradient in gradients[0].items():
            assert_close(other[name], gradient, atol=1e-5, rtol=1e-5, msg=name)
        assert metrics == pytest.approx(numbers[0], abs=1e-5)


def test_each_frame_occurs_once_in_each_epoch_in_minibatches_of_nearly_equal_size(monkeypatch):
    config = small_config(ppo=PPOConfig(epochs=3, minibatch_size=10))
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    asked = []
    select = Rollout.select
    monkeypatch.setattr(
        Rollout, "select", lambda self, frames: asked.append(frames) or select(self, frames)
    )
    run_update(net, make_optimizers(net, config), rollout, config)
    # 24 frames in parts of at most 10 are 3 of 8.
    assert [len(frames) for frames in asked] == [8] * 9
    orders = [torch.cat(asked[3 * epoch : 3 * epoch + 3]).tolist() for epoch in range(3)]
    for order in orders:
        assert Counter(order) == Counter(range(24))
    assert orders[0] != orders[1] != sorted(orders[1]), "each epoch shuffles anew"


def test_a_minibatch_holds_whole_frames_with_what_was_done_in_them():
    """Everything about a frame stays together: entities, actors, choices, numbers."""
    config = small_config()
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    order = torch.randperm(24, generator=torch.Generator().manual_seed(1))[:9]
    part = rollout.select(order)

    def frame(of, index):
        """All that belongs to one frame, by slicing."""
        entities = of.batch.entities.values()
        ragged = [*entities, *of.chosen.values(), *of.log_probs.values()]
        ragged += [action.actors for action in of.batch.actions.values()]
        pieces = [r.values[r.offsets[index] : r.offsets[index + 1]].tolist() for r in ragged]
        return pieces, of.values[index], of.advantages[index], of.returns[index]

    counts = set()
    for place, index in enumerate(order.tolist()):
        assert frame(part, place) == frame(rollout, index)
        counts.add(len(frame(part, place)[0][0]))
    assert len(counts) > 1, "frames of different sizes, or the test shows little"


# ------------------------------------------------------------------------ ratios and statistics


@pytest.mark.parametrize("value_net", [False, True])
def test_before_the_first_gradient_step_of_each_update_every_ratio_is_1(
    tmp_path, monkeypatch, value_net
):
    """The statistics change only between an update and the next collection.

    The features grow by half with every step, so that statistics that moved in between would show.
    """
    largest, kl, counts = [], [], []
    real = PPO.losses

    def spy(self, output, part, *rest):
        gaps = [
            (action.log_prob - part.log_probs[name].values).abs()
            for name, action in output.actions.items()
        ]
        largest.append(torch.cat(gaps).max().item())
        result = real(self, output, part, *rest)
        kl.append(result["policy/kl"].item())
        # The value function is a ratio's sibling: it, too, must be that of the rollout.
        assert_close(output.value, part.values, atol=1e-5, rtol=1e-5)
        return result

    monkeypatch.setattr(PPO, "losses", spy)
    monkeypatch.setattr(
        "ragged_net.RaggedNet.update_statistics",
        count_calls(counts, "ragged_net.RaggedNet.update_statistics"),
    )
    config = small_config(
        run_dir=str(tmp_path),
        total_timesteps=96,
        ppo=PPOConfig(epochs=1, minibatch_size=24),
        optim=OptimConfig(lr=1e-2),
        value_net=value_net,
    )
    result = train(config, env=lambda: Foraging(length=50, scale=1.5))
    assert len(largest) == 4
    assert max(largest) < 1e-5
    assert max(kl) < 1e-8
    assert len(counts) == 5, "the first observation, and each of four rollouts"
    del result


def count_calls(counts, path):
    from ragged_net import RaggedNet

    real = RaggedNet.update_statistics

    def update_statistics(self, batch, *gathered):
        counts.append(path)
        return real(self, batch, *gathered)

    return update_statistics


def test_an_update_changes_no_input_statistics():
    config = small_config(optim=OptimConfig(lr=0.1))
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    statistics = {name: buffer.clone() for name, buffer in net.named_buffers()}
    assert statistics
    before = parameters(net)
    run_update(net, make_optimizers(net, config), rollout, config)
    assert_same(statistics, dict(net.named_buffers()))
    changed = {name for name, p in net.named_parameters() if not torch.equal(p, before[name])}
    assert len(changed) > len(list(net.named_parameters())) // 2


# --------------------------------------------------------------------- target KL, clipping, loss


def test_target_kl_stops_the_update_before_the_step_that_goes_too_far():
    free = small_config(
        ppo=PPOConfig(epochs=4, minibatch_size=24), optim=OptimConfig(lr=0.05, schedule="constant")
    )
    stopping = replace(free, ppo=replace(free.ppo, target_kl=1e-3))
    net = network(Foraging(), free)
    rollout = rollout_of(Foraging, free, net)
    other, once = deepcopy(net), deepcopy(net)

    metrics = run_update(net, make_optimizers(net, free), rollout, free)
    assert metrics["optim/gradient_steps"] == 4
    assert metrics["policy/stopped"] == 0
    metrics = run_update(other, make_optimizers(other, stopping), rollout, stopping)
    # The first step starts at KL 0; after it the policy has moved by more than 0.001.
    assert metrics["optim/gradient_steps"] == 1
    assert metrics["policy/stopped"] == 1
    single = replace(free, ppo=replace(free.ppo, epochs=1))
    run_update(once, make_optimizers(once, single), rollout, single)
    assert_same(parameters(other), parameters(once))


def test_gradients_are_scaled_down_to_the_largest_norm():
    free, clipped = one_step(), one_step(max_grad_norm=0.1)
    net = network(Foraging(), free)
    rollout = rollout_of(Foraging, free, net)
    other, before = deepcopy(net), parameters(net)
    long = run_update(net, gradient_descent(net), rollout, free)
    short = run_update(other, gradient_descent(other), rollout, clipped)
    whole, part = moved(before, parameters(net)), moved(before, parameters(other))
    norm = math.sqrt(sum((g.double() ** 2).sum().item() for g in whole.values()))
    assert norm > 0.2
    assert long["optim/grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert short["optim/grad_norm"] == pytest.approx(norm, rel=1e-4), "the norm before clipping"
    for name, gradient in whole.items():
        assert_close(part[name], gradient * 0.1 / norm, atol=1e-5, rtol=1e-3, msg=name)


def test_the_norm_of_many_numbers_is_exact():
    # In float32 one running sum over 20 million squares would be off by a thousandth.
    torch.manual_seed(0)
    gradients = [torch.randn(4_000_000) for _ in range(3)]
    exact = math.sqrt(sum((g.double() ** 2).sum().item() for g in gradients))
    assert float(clip_gradients(gradients, math.inf, look=True)) == pytest.approx(exact, rel=1e-6)
    assert float(clip_gradients(gradients, 1.0, look=False)) == pytest.approx(exact, rel=1e-6)
    assert float(torch.cat(gradients).double().norm()) == pytest.approx(1.0, rel=1e-5)


def test_the_entropy_bonus_raises_the_entropy_and_only_by_its_coefficient():
    """Without advantages and value loss nothing else moves the parameters."""
    base = {"value_coef": 0.0, "normalize_advantages": False}
    net = network(Foraging(), one_step(**base))
    rollout = rollout_of(Foraging, one_step(**base), net)
    rollout = replace(rollout, advantages=torch.zeros_like(rollout.advantages))
    before = parameters(net)

    still = one_step(entropy_coef=0.0, **base)
    first = run_update(net, gradient_descent(net), rollout, still)
    assert_same(before, parameters(net))

    rising = one_step(entropy_coef=0.05, **base)
    run_update(net, gradient_descent(net), rollout, rising)
    after = run_update(net, gradient_descent(net), rollout, still)
    assert after["policy/entropy"] > first["policy/entropy"]


def test_the_value_coefficient_scales_the_gradient_of_the_value_loss():
    settings = {"entropy_coef": 0.0, "normalize_advantages": False}
    results = []
    for coefficient in (0.5, 1.0):
        config = one_step(value_coef=coefficient, **settings)
        net = network(Foraging(), config)
        rollout = rollout_of(Foraging, config, net)
        rollout = replace(rollout, advantages=torch.zeros_like(rollout.advantages))
        before = parameters(net)
        run_update(net, gradient_descent(net), rollout, config)
        results.append(moved(before, parameters(net)))
    for name in results[0]:
        assert_close(2 * results[0][name], results[1][name], atol=1e-5, rtol=1e-4, msg=name)
    assert max(g.abs().max() for g in results[0].values()) > 1e-2


def test_advantages_are_normalised_unless_switched_off():
    """Adding 100 to every advantage changes nothing when they are normalised."""
    results = {}
    for normalize in (True, False):
        for shift in (0.0, 100.0):
            config = one_step(normalize_advantages=normalize)
            net = network(Foraging(), config)
            rollout = rollout_of(Foraging, config, net)
            rollout = replace(rollout, advantages=rollout.advantages + shift)
            results[normalize, shift] = run_update(net, gradient_descent(net), rollout, config)[
                "loss/policy"
            ]
    assert results[True, 0.0] == pytest.approx(results[True, 100.0], abs=1e-4)
    assert results[False, 0.0] - results[False, 100.0] == pytest.approx(100.0, rel=1e-4)


def test_the_least_deviation_is_that_of_the_config():
    losses = {}
    for least in (0.0, 1e6):
        config = one_step(least_deviation=least, entropy_coef=0.0, value_coef=0.0)
        net = network(Foraging(), config)
        rollout = rollout_of(Foraging, config, net)
        before = parameters(net)
        run_update(net, gradient_descent(net), rollout, config)
        losses[least] = max(g.abs().max().item() for g in moved(before, parameters(net)).values())
    assert losses[0.0] > 1e-3
    assert losses[1e6] < 1e-5 * losses[0.0] + 1e-7


# ------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(
    ("schedule", "progress", "expected"),
    [
        ("constant", 0.75, 4.0),
        ("linear", 0.0, 4.0),
        ("linear", 0.25, 3.0),
        ("linear", 1.0, 0.0),
        ("cosine", 0.0, 4.0),
        ("cosine", 1 / 3, 3.0),  # 4 * (1 + cos 60 degrees) / 2 = 4 * 0.75
        ("cosine", 0.5, 2.0),
        ("cosine", 1.0, 0.0),
        ("linear", 1.5, 0.0),
        ("linear", -0.5, 4.0),
    ],
)
def test_schedules_by_hand(schedule, progress, expected):
    assert scheduled(4.0, schedule, progress) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("constant", [4, 4, 4]), ("linear", [4, 2.5, 1]), ("cosine", [4, 2.5, 1])],
)
def test_a_schedule_may_end_above_0(schedule, expected):
    """From 4 to 1: half of the way is 2.5."""
    found = [scheduled(4.0, schedule, progress, end=1.0) for progress in (0.0, 0.5, 1.0)]
    assert found == pytest.approx(expected)


def test_learning_rates_and_entropy_follow_their_schedules():
    config = small_config(
        value_net=True,
        optim=OptimConfig(lr=4e-3, schedule="linear"),
        ppo=PPOConfig(minibatch_size=12, entropy_coef=0.08, entropy_schedule="linear"),
    )
    net = network(Foraging(), config)
    optimizers = make_optimizers(net, config)
    rollout = rollout_of(Foraging, config, net)
    metrics = run_update(net, optimizers, rollout, config, progress=0.25)
    assert metrics["optim/lr"] == pytest.approx(3e-3)
    assert optimizers.main.param_groups[0]["lr"] == pytest.approx(3e-3)
    assert optimizers.value.param_groups[0]["lr"] == pytest.approx(3e-3)
    assert metrics["policy/entropy_coef"] == pytest.approx(0.06)


# ---------------------------------------------------------------------- value network of its own


def test_a_value_network_of_its_own_has_its_own_optimizer():
    config = small_config(value_net=True, optim=OptimConfig(lr=1e-3))
    net = network(Foraging(), config)
    optimizers = make_optimizers(net, config)
    group, own = optimizers.main.param_groups[0], optimizers.value.param_groups[0]
    assert (group["lr"], group["eps"]) == (own["lr"], own["eps"]) == (1e-3, 1e-5)
    policy, value = ({id(p) for p in g["params"]} for g in (group, own))
    assert not policy & value
    assert policy | value == {id(p) for p in net.parameters()}
    assert value == {
        id(p)
        for name, p in net.named_parameters()
        if name.startswith(("value_encoder", "value_head"))
    }


def test_a_shared_value_head_belongs_to_the_one_optimizer():
    config = small_config()
    net = network(Foraging(), config)
    optimizers = make_optimizers(net, config)
    assert optimizers.value is None
    assert list(optimizers.all()) == ["main"]
    mine = {id(p) for p in optimizers.main.param_groups[0]["params"]}
    assert mine == {id(p) for p in net.parameters()}


def test_each_optimizer_clips_a_norm_of_its_own():
    """A value loss that explodes must not shrink the step of the policy."""
    config = replace(one_step(max_grad_norm=0.1), value_net=True)
    results = []
    for factor in (1.0, 1e6):
        net = network(Foraging(), config)
        rollout = rollout_of(Foraging, config, net)
        rollout = replace(rollout, returns=rollout.returns * factor)
        before = parameters(net)
        optimizers = Optimizers(
            torch.optim.SGD(net.policy_parameters(), lr=1.0),
            torch.optim.SGD(net.value_parameters(), lr=1.0),
        )
        run_update(net, optimizers, rollout, config)
        results.append(moved(before, parameters(net)))
    policy = [n for n in results[0] if not n.startswith("value")]
    assert_same({n: results[0][n] for n in policy}, {n: results[1][n] for n in policy})
    assert max(results[0][n].abs().max() for n in policy) > 1e-3


# --------------------------------------------------------------------------------- not finite


def test_a_nan_parameter_is_reported_and_no_parameter_moves():
    config = small_config()
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    with torch.no_grad():
        next(net.heads[0].parameters()).view(-1)[0] = float("nan")
    before = parameters(net)
    with pytest.raises(NonFiniteError) as caught:
        run_update(net, make_optimizers(net, config), rollout, config)
    assert "loss/policy" in str(caught.value)
    assert "loss/value" not in str(caught.value), "the value head is whole"
    assert_same(before, parameters(net))


def test_an_infinite_return_is_reported_as_the_value_loss():
    config = one_step()
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    returns = rollout.returns.clone()
    returns[3] = float("inf")
    before = parameters(net)
    with pytest.raises(NonFiniteError, match="loss/value") as caught:
        run_update(net, gradient_descent(net), replace(rollout, returns=returns), config)
    assert "loss/policy" not in str(caught.value)
    assert_same(before, parameters(net))


@pytest.mark.parametrize("value_net", [False, True])
def test_a_nan_gradient_names_its_parameter_and_no_parameter_moves(value_net):
    config = replace(one_step(), value_net=value_net)
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    name, parameter = next((n, p) for n, p in net.named_parameters() if n.startswith("heads.1"))
    parameter.register_hook(lambda gradient: gradient * float("nan"))
    before = parameters(net)
    with pytest.raises(NonFiniteError) as caught:
        run_update(net, make_optimizers(net, config), rollout, config)
    assert "gradient" in str(caught.value)
    assert caught.value.received == name, "this parameter, and none that is fine"
    assert_same(before, parameters(net))


# ------------------------------------------------------------------------------- empty frames


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("empty", [[23], [20, 21, 22, 23], [0], list(range(24))])
def test_frames_without_entities_change_no_shape(precision, empty):
    """Also at the end of a batch, where a sum over frames may come out too short."""

    class Emptied(Foraging):
        """Foraging in which the given frames of a rollout of one row are empty."""

        def _draw(self):
            super()._draw()
            if self.step in empty:
                self.counts, self.places = [0, 0], []

    config = small_config(
        rollout=RolloutConfig(num_envs=1, steps=24),
        precision=precision,
        ppo=PPOConfig(minibatch_size=24, epochs=2),
    )
    net = network(Foraging(), config)
    rollout = rollout_of(lambda: Emptied(length=100), config, net)
    robots, food = (rollout.batch.entities[name].lengths for name in ("Robot", "Food"))
    assert ((robots + food)[empty] == 0).all()
    assert rollout.values.shape == rollout.advantages.shape == rollout.returns.shape == (24,)
    for ragged in (*rollout.chosen.values(), *rollout.log_probs.values()):
        assert ragged.num_frames == 24
        assert ragged.values.shape == (ragged.lengths.sum(),)
    assert rollout.chosen["Move"].lengths.equal(robots)
    metrics = run_update(net, make_optimizers(net, config), rollout, config)
    assert all(math.isfinite(value) for value in metrics.values())
    assert all(torch.isfinite(p).all() for p in net.parameters())


def test_bfloat16_keeps_losses_and_parameters_in_float32():
    config = small_config(precision="bfloat16")
    net = network(Foraging(), config)
    rollout = rollout_of(Foraging, config, net)
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    assert rollout.values.dtype == rollout.log_probs["Move"].values.dtype == torch.float32
    exact = rollout_of(Foraging, small_config(), network(Foraging(), config))
    # The first frames are the same; bfloat16 has 8 bits, so values agree to about 1 in 100.
    assert_close(rollout.values[:4], exact.values[:4], atol=0.05, rtol=0.05)
    assert not torch.equal(rollout.values[:4], exact.values[:4]), "autocast is on"
