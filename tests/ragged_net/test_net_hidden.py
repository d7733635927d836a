"""Hidden entities reach the value function and nothing else."""

from dataclasses import replace

import pytest
import torch
from net_support import (
    LENGTHS,
    SMALL,
    TOLERANCE,
    assert_same_policy,
    disturb,
    hide,
    make_batch,
    make_net,
    probs,
    ragged,
)
from torch.testing import assert_close

from ragged_net import CategoricalActors, SelectActors


def only_visible_actions(batch):
    """Robot 0 acts and is selected by cannon 0; the mine 0 of the frame is neither."""
    actions = {
        "Move": CategoricalActors(ragged([[2]]), torch.ones(1, 4, dtype=torch.bool)),
        "Fire": SelectActors(ragged([[3]]), ragged([[1, 2]])),
    }
    return replace(batch, actions=actions)


@pytest.mark.parametrize("value_config", [None, SMALL])
def test_hidden_entities_reach_the_value_but_not_the_policy(value_config):
    batch = only_visible_actions(make_batch([2], [1], [1]))
    net = make_net(config=SMALL, value_config=value_config)
    one = net(hide(batch, Mine=[0]), greedy=True)
    two = net(disturb(hide(batch, Mine=[0]), "Mine", 0), greedy=True)
    for name, action in one.actions.items():
        # Not one bit may leak.
        assert torch.equal(probs(action), probs(two.actions[name]))
    assert (one.value - two.value).abs().max() > 1e-3
    # A visible entity does reach the policy.
    three = net(disturb(hide(batch, Mine=[0]), "Mine", 1), greedy=True)
    assert (one.actions["Move"].probs - three.actions["Move"].probs).abs().max() > 1e-3


def test_a_separate_value_network_sees_hidden_entities_as_if_they_were_visible():
    batch = only_visible_actions(make_batch([2], [1], [1]))
    net = make_net(config=SMALL, value_config=SMALL)
    assert torch.equal(net(hide(batch, Mine=[0])).value, net(batch).value)
    assert torch.equal(net.value(hide(batch, Mine=[0])), net(batch).value)


def test_an_all_visible_mask_changes_nothing():
    batch, net = make_batch(**LENGTHS), make_net(config=SMALL)
    one, two = net(batch, greedy=True), net(hide(batch, Mine=[], Robot=[]), greedy=True)
    assert_same_policy(one, two)
    assert_close(one.value, two.value, **TOLERANCE)
