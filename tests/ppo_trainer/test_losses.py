"""The losses of three frames with two, no and one actor, with the arithmetic in comments."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from entity_env.errors import BatchError
from ppo_trainer import PPOConfig
from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.algorithms.losses import NAMES, minibatch_scale, normalized, ppo_losses
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.experience.rollout import Rollout
from ragged_net import ActionOutput, EntityBatch, NetOutput, RaggedTensor

LN = math.log
OLD = LN(0.5)  # every actor's log-probability at the time of the rollout


def ragged(values, lengths):
    return RaggedTensor.from_lengths(torch.tensor(values, dtype=torch.float32), lengths)


def frames(actions, lengths, values, returns, advantages):
    """A minibatch; ``actions`` are the names, ``lengths`` each action's actors by frame."""
    old = {
        name: ragged([OLD] * sum(counts), counts)
        for name, counts in zip(actions, lengths, strict=True)
    }
    return Rollout(
        batch=EntityBatch({}, torch.zeros(len(values), 0)),
        chosen={name: RaggedTensor(o.values.long(), o.offsets) for name, o in old.items()},
        log_probs=old,
        values=torch.tensor(values),
        advantages=torch.tensor(advantages),
        returns=torch.tensor(returns),
    )


def output(minibatch, ratios, entropies, values):
    """Return an output with these ratios to the old probabilities, and entropies, of each actor."""
    actions = {}
    for name, old in minibatch.log_probs.items():
        log_prob = old.values + torch.tensor(ratios[name], dtype=torch.float32).log()
        entropy = torch.tensor(entropies[name], dtype=torch.float32)
        chosen = minibatch.chosen[name]
        actions[name] = ActionOutput(chosen, log_prob, entropy, torch.zeros(len(log_prob), 2))
    return NetOutput(actions, torch.tensor(values))


@pytest.fixture(params=["compiled", "torch"], autouse=True)
def implementation(request, monkeypatch):
    """Everything here holds for the kernel and for the plain operations that a GPU runs."""
    compiled = request.param == "compiled"
    monkeypatch.setattr("ppo_trainer.algorithms.losses.compiled_heads.can_run", lambda x: compiled)


def losses(minibatch, out, config):
    """The numbers by the last part of their names."""
    scale = minibatch_scale(minibatch)
    numbers = ppo_losses(out, minibatch, scale, config)
    assert tuple(numbers) == NAMES
    return SimpleNamespace(**{name.split("/")[1]: number for name, number in numbers.items()})


# Frame 0 has the actors 1.5 and 0.5 (ratios), frame 1 nobody, frame 2 the actor 1.1.
# Advantages 2, 7, -1; the 7 must not matter to the policy. clip_coef is 0.2.
THREE = frames(["Move"], [[2, 0, 1]], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 7.0, -1.0])
NOW = output(THREE, {"Move": [1.5, 0.5, 1.1]}, {"Move": [1.0, 0.5, 0.2]}, [0.0, 0.0, 0.0])


def k3(ratio):
    return ratio - 1 - LN(ratio)


@pytest.mark.parametrize(
    ("ratio", "policy", "entropy", "kl", "clip_fraction"),
    [
        # Actors: min(1.5 * 2, 1.2 * 2) = 2.4; min(0.5 * 2, 0.8 * 2) = 1; min(-1.1, -1.1) = -1.1.
        # Frames: (2.4 + 1) / 2 = 1.7 and -1.1; their mean is 0.3.
        (
            "per_actor",
            -0.3,
            (0.75 + 0.2) / 2,
            ((k3(1.5) + k3(0.5)) / 2 + k3(1.1)) / 2,
            (1 + 0) / 2,  # both actors of frame 0 are outside, that of frame 2 is not
        ),
        # Frame 0: 1.5 * 0.5 = 0.75, min(0.75 * 2, 0.8 * 2) = 1.5; frame 2: -1.1; mean 0.2.
        ("per_frame", -0.2, (0.75 + 0.2) / 2, (k3(0.75) + k3(1.1)) / 2, 1 / 2),
    ],
)
def test_losses_equal_arithmetic_by_hand(ratio, policy, entropy, kl, clip_fraction):
    result = losses(THREE, NOW, PPOConfig(clip_coef=0.2, ratio=ratio))
    assert_close(float(result.policy), policy)
    assert_close(float(result.entropy), entropy)
    assert_close(float(result.kl), kl, atol=1e-6, rtol=1e-5)
    assert_close(float(result.clip_fraction), clip_fraction)


def test_actors_of_all_actions_of_a_frame_count_together():
    # Frame 0: Move 1.1, Pick 1.2 and 0.9; frame 1: Pick 0.7. Advantages 1 and -2; clip 0.25.
    # Frame 0, per actor: (1.1 + 1.2 + 0.9) / 3; frame 1: min(0.7 * -2, 0.75 * -2) = -1.5.
    minibatch = frames(["Move", "Pick"], [[1, 0], [2, 1]], [0.0] * 2, [0.0] * 2, [1.0, -2.0])
    ratios = {"Move": [1.1], "Pick": [1.2, 0.9, 0.7]}
    out = output(minibatch, ratios, {"Move": [0.0], "Pick": [0.0] * 3}, [0.0] * 2)
    per_actor = losses(minibatch, out, PPOConfig(clip_coef=0.25))
    assert_close(float(per_actor.policy), -(3.2 / 3 - 1.5) / 2)
    # The product is 1.1 * 1.2 * 0.9 = 1.188, within 1.25.
    per_frame = losses(minibatch, out, PPOConfig(clip_coef=0.25, ratio="per_frame"))
    assert_close(float(per_frame.policy), -(1.188 - 1.5) / 2)


@pytest.mark.parametrize("ratio", ["per_actor", "per_frame"])
def test_the_weight_of_a_frame_does_not_grow_with_its_actors(ratio):
    def gradient(count):
        """Return the gradient of the policy loss summed over all actors of frame 0."""
        minibatch = frames(["Move"], [[count, 1]], [0.0] * 2, [0.0] * 2, [1.0, 1.0])
        log_prob = torch.full((count + 1,), OLD, requires_grad=True)
        action = ActionOutput(
            minibatch.chosen["Move"], log_prob, torch.zeros(count + 1), torch.zeros(count + 1, 2)
        )
        out = NetOutput({"Move": action}, torch.zeros(2))
        config = PPOConfig(ratio=ratio)
        losses(minibatch, out, config).policy.backward()
        return log_prob.grad[:count].sum().item(), log_prob.grad[count].item()

    # d(ratio)/d(log_prob) is 1 at ratio 1. per_frame: each actor moves the one product.
    for count in (1, 2, 50):
        grown = count if ratio == "per_frame" else 1
        assert gradient(count) == pytest.approx((-0.5 * grown, -0.5))


@pytest.mark.parametrize("ratio", ["per_actor", "per_frame"])
class TestNobodyActs:
    """An action, or a whole minibatch, in which nobody acts."""

    def test_a_minibatch_without_actors_has_a_value_loss_and_nothing_else(self, ratio):
        config = PPOConfig(ratio=ratio)
        minibatch = frames(["Move", "Pick"], [[0, 0], [0, 0]], [0.0] * 2, [3.0, 1.0], [1.0, 2.0])
        out = output(minibatch, {"Move": [], "Pick": []}, {"Move": [], "Pick": []}, [1.0, 1.0])
        result = losses(minibatch, out, config)
        for name in ("policy", "entropy", "kl", "clip_fraction"):
            assert getattr(result, name).item() == 0.0, name
        assert result.value.item() == pytest.approx(0.5 * (4 + 0) / 2)
        assert torch.equal(normalized(minibatch), minibatch.advantages)

    def test_an_action_without_actors_changes_nothing(self, ratio):
        config = PPOConfig(ratio=ratio)
        both = frames(
            ["Move", "Pick"], [[2, 0, 1], [0, 0, 0]], [0.0] * 3, [0.0] * 3, [2.0, 7.0, -1.0]
        )
        out = output(
            both,
            {"Move": [1.5, 0.5, 1.1], "Pick": []},
            {"Move": [1.0, 0.5, 0.2], "Pick": []},
            [0.0] * 3,
        )
        alone, together = losses(THREE, NOW, config), losses(both, out, config)
        for name in ("policy", "entropy", "kl", "clip_fraction", "value"):
            assert getattr(alone, name).item() == getattr(together, name).item(), name


def test_value_loss_by_hand():
    # Errors -1, 0, 2: 0.5 * (1 + 0 + 4) / 3
    minibatch = frames(["Move"], [[0, 0, 0]], [0.5, 2.0, 3.5], [2.0, 2.0, 1.0], [0.0] * 3)
    out = output(minibatch, {"Move": []}, {"Move": []}, [1.0, 2.0, 3.0])
    assert losses(minibatch, out, PPOConfig()).value.item() == pytest.approx(5 / 6)


def test_clipped_value_loss_takes_the_larger_error():
    # clip_coef 0.2. Frame 0: 2 -> 1 counts as 1.8, return 0: max(1, 3.24) = 3.24.
    # Frame 1: 0 -> 0.1 is within: 0.9^2 = 0.81.
    # Frame 2: 3 -> 2 counts as 2.8, return 4: max(4, 1.44).
    minibatch = frames(["Move"], [[0, 0, 0]], [2.0, 0.0, 3.0], [0.0, 1.0, 4.0], [0.0] * 3)
    out = output(minibatch, {"Move": []}, {"Move": []}, [1.0, 0.1, 2.0])
    clipped = losses(minibatch, out, PPOConfig(clip_value=True)).value.item()
    assert clipped == pytest.approx(0.5 * (3.24 + 0.81 + 4.0) / 3)
    free = losses(minibatch, out, PPOConfig(clip_value=False)).value.item()
    assert free == pytest.approx(0.5 * (1.0 + 0.81 + 4.0) / 3)


@pytest.mark.parametrize(
    ("clip_value", "expected"),
    [
        # In units of 2: values 1, 2, 3 now and 0, 2, 2 then, returns 2, 2, 4.
        # Squared errors 1, 0, 1: 0.5 * 2 / 3.
        (False, 1 / 3),
        # Values may move by 0.2 only, to 0.2 and 2.2: 1.8^2 = 3.24 twice: 0.5 * 6.48 / 3.
        (True, 1.08),
    ],
)
def test_values_and_returns_are_compared_in_the_unit_of_the_value(clip_value, expected):
    nobody = [[0, 0, 0]]
    minibatch = frames(["Move"], nobody, [0.0, 4.0, 4.0], [4.0, 4.0, 8.0], [0.0] * 3)
    now = torch.tensor([2.0, 4.0, 6.0], requires_grad=True)
    out = replace(output(minibatch, {"Move": []}, {"Move": []}, [0.0]), value=now)
    algorithm = PPO(PPOConfig(clip_value=clip_value, clip_coef=0.2))
    scale = algorithm.scale(minibatch)
    loss = algorithm.losses(out, minibatch, scale, torch.tensor(2.0))["loss/value"]
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    # (value - return) / 2 / 2 / 3, which is -1 / 6; clipped values do not move any more.
    moved = -1 / 6 if not clip_value else 0.0
    assert_close(now.grad, torch.tensor([moved, 0.0, moved]))


def test_a_value_within_the_clip_range_keeps_its_gradient():
    """However old + (value - old) - target rounds: near 0 often to more than value - target."""
    draw = torch.Generator().manual_seed(0)
    old = 0.01 * torch.randn(2000, generator=draw)
    value = (old + 0.1 * (torch.rand(2000, generator=draw) - 0.5)).requires_grad_()
    target = torch.randn(2000, generator=draw)
    nobody = [[0] * 2000]
    minibatch = frames(["Move"], nobody, old.tolist(), target.tolist(), [0.0] * 2000)
    out = replace(output(minibatch, {"Move": []}, {"Move": []}, [0.0]), value=value)
    losses(minibatch, out, PPOConfig(clip_value=True)).value.backward()
    assert_close(value.grad, (value.detach() - target) / 2000, rtol=1e-5, atol=1e-8)


def test_shares_of_micro_batches_add_up():
    config = PPOConfig()
    scale = minibatch_scale(THREE)
    total = dict.fromkeys(NAMES, 0.0)
    move = NOW.actions["Move"]
    for rows, actors in (([0, 1], slice(0, 2)), ([2], slice(2, 3))):
        part = THREE.select(torch.tensor(rows))
        action = replace(
            move,
            chosen=part.chosen["Move"],
            log_prob=move.log_prob[actors],
            entropy=move.entropy[actors],
        )
        out = NetOutput({"Move": action}, NOW.value[rows])
        for name, share in ppo_losses(out, part, scale, config).items():
            total[name] = total[name] + share
    assert_close(total, ppo_losses(NOW, THREE, scale, config))


def test_the_scale_counts_frames_with_actors():
    assert minibatch_scale(THREE) == Scale(frames=3, policy=2.0)
    nobody = frames(["Move"], [[0, 0]], [0.0] * 2, [0.0] * 2, [1.0, 2.0])
    assert minibatch_scale(nobody) == Scale(2, policy=1.0)


def test_advantages_are_normalised_over_the_frames_in_which_somebody_acted():
    # Frames 0 and 2 hold 2 and -1: mean 0.5, deviation 1.5; frame 1 (7) is not counted.
    result = normalized(THREE)
    assert_close(result[[0, 2]], torch.tensor([1.0, -1.0]))
    assert_close(float(result[1]), (7 - 0.5) / 1.5)


def test_small_deviations_are_not_scaled_up_beyond_what_is_asked():
    # Frames 0 and 2 deviate by 1.5 from their mean 0.5: a least deviation of 3 halves them.
    assert_close(normalized(THREE, 3.0)[[0, 2]], torch.tensor([0.5, -0.5]))
    assert_close(normalized(THREE, 1.0), normalized(THREE))


def test_equal_advantages_become_0_and_not_nan():
    same = replace(THREE, advantages=torch.full((3,), 4.0))
    assert normalized(same).tolist() == [0.0, 0.0, 0.0]


def test_a_single_frame_in_which_somebody_acted_keeps_its_advantage():
    # Less its own mean it would be 0, and a run with ppo.minibatch_size=1 would learn nothing.
    single = frames(["Move"], [[1]], [0.0], [0.0], [5.0])
    assert normalized(single).tolist() == [5.0]
    of_two = frames(["Move"], [[1, 0]], [0.0, 0.0], [0.0, 0.0], [5.0, 3.0])
    assert normalized(of_two).tolist() == [5.0, 3.0]


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_the_gradient_stops_where_clipping_bites_and_only_there(advantage):
    """Beyond the clip the gradient is 0 on the side that would go further, not on the other."""
    minibatch = frames(["Move"], [[1]], [0.0], [0.0], [advantage])
    for ratio in (0.7, 0.9, 1.1, 1.3):
        log_prob = torch.tensor([OLD + LN(ratio)], requires_grad=True)
        action = ActionOutput(minibatch.chosen["Move"], log_prob, torch.zeros(1), torch.zeros(1, 2))
        out = NetOutput({"Move": action}, torch.zeros(1))
        losses(minibatch, out, PPOConfig(clip_coef=0.2)).policy.backward()
        clipped = ratio > 1.2 if advantage > 0 else ratio < 0.8
        expected = 0.0 if clipped else -advantage * ratio
        assert log_prob.grad.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("clip_value", [False, True])
@pytest.mark.parametrize("ratio", ["per_actor", "per_frame"])
def test_the_kernel_agrees_with_torch_forward_and_backward(monkeypatch, ratio, clip_value):
    config = PPOConfig(ratio=ratio, clip_value=clip_value, clip_coef=0.15)
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(0, 4, (2, 50), generator=draw).tolist()
    numbers = torch.randn(3, 50, generator=draw)
    minibatch = frames(["Move", "Pick"], lengths, *(row.tolist() for row in numbers))
    log_probs, entropies = (
        {
            name: torch.rand(old.num_rows, generator=draw, requires_grad=True)
            for name, old in minibatch.log_probs.items()
        }
        for _ in range(2)
    )
    value = torch.randn(50, generator=draw, requires_grad=True)
    learnt = [*log_probs.values(), *entropies.values(), value]
    coefficients = PPO(replace(config, entropy_coef=0.3)).coefficients(progress=0.0)
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(
            "ppo_trainer.algorithms.losses.compiled_heads.can_run", lambda x, c=compiled: c
        )
        actions = {
            name: ActionOutput(chosen, OLD + log_probs[name] - 0.5, entropies[name], chosen)
            for name, chosen in minibatch.chosen.items()
        }
        scale = minibatch_scale(minibatch)
        out = NetOutput(actions, value)
        result = ppo_losses(out, minibatch, scale, config)
        total = sum(coef * result[name] for name, coef in coefficients.items())
        found.append([*result.values(), *torch.autograd.grad(2 * total, learnt)])
    assert_close(*found, atol=1e-6, rtol=1e-5)
    assert 0 < result["policy/clip_fraction"] < 1


def test_outputs_that_do_not_fit_the_minibatch_are_refused(implementation):
    move = NOW.actions["Move"]
    four = replace(move, log_prob=torch.zeros(4))
    for out in (NetOutput({"Move": four}, NOW.value), NetOutput({"Move": move}, torch.zeros(7))):
        with pytest.raises((BatchError, RuntimeError)):
            losses(THREE, out, PPOConfig())
    with pytest.raises(BatchError, match="'Move' has different numbers of choices"):
        replace(THREE, log_probs={"Move": ragged([OLD], [0, 0, 1])})


def test_nan_in_old_values_shows_in_the_loss():
    for values in (torch.full((3,), torch.nan), torch.tensor([0.0, torch.nan, 0.0])):
        poisoned = replace(THREE, values=values)
        assert math.isnan(losses(poisoned, NOW, PPOConfig(clip_value=True)).value)


def test_the_loss_is_policy_minus_entropy_plus_value_and_the_rest_is_only_logged():
    config = PPOConfig(entropy_coef=0.4, entropy_schedule="linear", value_coef=0.25)
    # A quarter of the run is over: three quarters of the entropy's weight are left.
    assert PPO(config).coefficients(progress=0.25) == {
        "loss/policy": 1.0,
        "policy/entropy": pytest.approx(-0.3),
        "loss/value": 0.25,
        "policy/kl": 0.0,
        "policy/clip_fraction": 0.0,
    }
    assert PPO(config).logged(progress=0.25) == {"policy/entropy_coef": pytest.approx(0.3)}
    assert tuple(PPO(config).coefficients(progress=0.25)) == NAMES


@pytest.mark.parametrize("wrong", ["log_prob", "entropy", "value"])
@pytest.mark.parametrize("ratio", ["per_actor", "per_frame"])
@pytest.mark.parametrize("clip_value", [False, True])
def test_nan_shows_in_the_losses(wrong, ratio, clip_value):
    move, value = NOW.actions["Move"], NOW.value
    if wrong == "value":
        value = value * torch.nan
    else:
        move = replace(move, **{wrong: getattr(move, wrong) * torch.nan})
    out = NetOutput({"Move": move}, value)
    result = losses(THREE, out, PPOConfig(ratio=ratio, clip_value=clip_value))
    shown = {"log_prob": "policy", "entropy": "entropy", "value": "value"}[wrong]
    assert math.isnan(getattr(result, shown))
