"""Actions that are decided in order: the chain rule, gradients, and what must stay independent."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from net_support import GLOBAL_ACTIONS, GLOBAL_OBS, SMALL, ragged

from entity_env.errors import SettingError
from entity_env.spaces import (
    CategoricalActionSpace,
    ContinuousActionSpace,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)
from ragged_net import CategoricalActors, ContinuousActors, EntityBatch, RaggedNet, SelectActors

OBS = ObsSpace(entities={"Robot": Entity(["x"]), "Mine": Entity(["x"])})
ACTIONS = {
    "Target": SelectEntityActionSpace(),
    "Move": CategoricalActionSpace(["a", "b", "c"]),
    "Push": ContinuousActionSpace([-1, None], [1, None]),
}
ORDER = ("Move", "Push", "Target")


def make_net(order=ORDER):
    torch.manual_seed(0)
    net = RaggedNet(OBS, ACTIONS, dataclasses.replace(SMALL, action_order=order))
    with torch.no_grad():  # policies that begin even would show little
        for head in net.heads:
            for weights in head.parameters():
                weights.normal_()
    return net


def batch(robots, mines):
    torch.manual_seed(1)
    acts = ragged([list(range(count)) for count in robots])
    selectable = [
        list(range(a, a + b)) if a and b else [] for a, b in zip(robots, mines, strict=True)
    ]
    both = zip(robots, mines, strict=True)
    select = ragged([list(range(a)) if a and b else [] for a, b in both])
    return EntityBatch(
        {
            "Robot": ragged([[0.0] * n for n in robots], torch.float32).with_values(
                torch.randn(sum(robots), 1)
            ),
            "Mine": ragged([[0.0] * n for n in mines], torch.float32).with_values(
                torch.randn(sum(mines), 1)
            ),
        },
        torch.zeros(len(robots), 0),
        actions={
            "Target": SelectActors(select, ragged(selectable)),
            "Move": CategoricalActors(acts, torch.ones(sum(robots), 3, dtype=torch.bool)),
            "Push": ContinuousActors(acts),
        },
    )


def values_of(output):
    return {name: own.chosen.values for name, own in output.actions.items()}


@pytest.mark.parametrize(
    ("robots", "mines"), [([2, 0, 1], [3, 1, 2]), ([0], [0]), ([1], [0]), ([500], [3])]
)
def test_what_was_drawn_has_the_same_probability_when_it_is_given(robots, mines):
    net, frames = make_net(), batch(robots, mines)
    output = net(frames)
    assert list(output.actions) == list(ACTIONS)
    for trusted in (False, True):
        again = net(frames, given=values_of(output), trusted=trusted)
        for name in ACTIONS:
            torch.testing.assert_close(again.actions[name].log_prob, output.actions[name].log_prob)


def test_an_actor_is_told_all_of_its_earlier_choices():
    # The frame as a whole has chosen the same: only what an actor itself has chosen differs.
    net, frames = make_net(), batch([2], [3])
    given = {"Push": torch.zeros(2, 2), "Target": torch.tensor([2, 3])}
    one, other = (
        net(frames, given={**given, "Move": torch.tensor(moves)}).actions["Target"].log_prob
        for moves in ([0, 1], [1, 0])
    )
    assert (one - other).abs().min() > 1e-4


def test_joint_probabilities_add_up_to_1_and_joint_entropies_follow():
    """One robot, 3 moves, 2 mines: all 6 pairs, and the entropy by the chain rule."""
    net, frames = make_net(("Move", "Target")), batch([1], [2])
    push = torch.zeros(1, 2)
    total, entropy, by_chain = 0.0, 0.0, 0.0
    for move in range(3):
        for target in (1, 2):
            given = {"Target": torch.tensor([target]), "Move": torch.tensor([move]), "Push": push}
            actions = net(frames, given=given).actions
            joint = float(actions["Move"].log_prob + actions["Target"].log_prob)
            total += math.exp(joint)
            entropy -= math.exp(joint) * joint
            both = float(actions["Move"].entropy + actions["Target"].entropy)
            by_chain += math.exp(joint) * both
    assert total == pytest.approx(1, abs=1e-5)
    # The mean over what is drawn of the entropies that the network says is the joint entropy.
    assert by_chain == pytest.approx(entropy, abs=1e-5)


def test_later_actions_depend_on_earlier_ones_and_never_the_other_way_round():
    net, frames = make_net(), batch([2, 1], [2, 3])
    given = values_of(net(frames))
    usual = net(frames, given=given).actions
    for place, name in enumerate(ORDER):
        other = given[name].clone()
        if name == "Push":
            other[0] = 0.25 - other[0].clamp(-0.5, 0.5)
        else:  # frame 0 has robots 0 and 1 and mines 2 and 3
            other[0] = 5 - other[0] if name == "Target" else (other[0] + 1) % 3
        changed = net(frames, given={**given, name: other}).actions
        for earlier in ORDER[:place]:
            assert torch.equal(changed[earlier].log_prob, usual[earlier].log_prob)
        for later in ORDER[place + 1 :]:
            # The actor itself, and the other robot of its frame; not the one in frame 1.
            moved = (changed[later].log_prob - usual[later].log_prob).abs()
            assert (moved[:2] > 1e-4).all()
            assert moved[2] < 1e-6


def test_what_is_told_is_learned():
    net, frames = make_net(), batch([2, 1], [2, 3])
    output = net(frames, given=values_of(net(frames)))
    output.actions["Target"].log_prob.sum().backward()
    for name, weights in net.conditioning.named_parameters():
        # The words of Move and Push reach Target; the listener of Push does not.
        reached = not name.startswith("listeners.0")
        assert (weights.grad is not None and bool(weights.grad.any())) == reached, name


def test_actions_of_the_player_tell_all_entities():
    torch.manual_seed(0)
    settings = dataclasses.replace(SMALL, action_order=["Speak", "Move"])
    net = RaggedNet(GLOBAL_OBS, GLOBAL_ACTIONS, settings)
    torch.nn.init.normal_(net.heads[0].logits.weight)
    frames = EntityBatch(
        {
            "Mine": ragged([[]]).with_values(torch.zeros(0, 2)),
            "Robot": ragged([[0, 1]]).with_values(torch.zeros(2, 3)),
            "Orbital Cannon": ragged([[]]).with_values(torch.zeros(0, 0)),
        },
        torch.zeros(1, 2),
        actions={
            "Move": CategoricalActors(ragged([[0, 1]]), torch.ones(2, 4, dtype=torch.bool)),
            "Fire": SelectActors(ragged([[]]), ragged([[]])),
            "Speak": CategoricalActors(ragged([[2]]), torch.ones(1, 3, dtype=torch.bool)),
        },
    )
    none = torch.zeros(0, dtype=torch.int64)
    said = [
        net(
            frames, given={"Move": torch.zeros(2, dtype=torch.int64), "Fire": none, "Speak": words}
        ).actions["Move"]
        for words in (torch.tensor([0]), torch.tensor([1]))
    ]
    assert ((said[0].log_prob - said[1].log_prob).abs() > 1e-4).all()


def test_without_an_order_there_is_nothing_more_in_the_network():
    assert make_net(None).conditioning is None
    assert not any("conditioning" in name for name in make_net(None).state_dict())


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (["Move", "Tarket"], "did you mean 'Target'"),
        (["Move"], "at least two actions"),
        (["Move", "Move"], "each once"),
        ("Move", "at least two actions"),
        ([1, 2], "names"),
    ],
)
def test_impossible_orders_are_refused(order, words):
    with pytest.raises(SettingError, match=words):
        make_net(order)
