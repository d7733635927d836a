"""Derivatives of gradients: right in plain torch, refused where the kernels took the gradient."""

import pytest
import torch
from net_support import LENGTHS, make_batch, make_net
from torch.testing import assert_close

from entity_env.errors import GradientError
from ragged_net import NetConfig, kernels, plain_torch, ragged_attention
from ragged_net.actors import Pairs
from ragged_net.compiled import heads as compiled_heads

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs Numba")


def make(attention="auto"):
    return make_net(config=NetConfig(dim=32, layers=1, heads=2, attention=attention))


def slope(net):
    """The gradient of values and log-probabilities by some of the features."""
    batch = make_batch(**LENGTHS)
    mines = batch.entities["Mine"].values.requires_grad_()
    output = net(batch, greedy=True)
    total = output.value.sum() + output.actions["Move"].log_prob.sum()
    return torch.autograd.grad(total, mines, create_graph=True)[0]


@pytest.mark.parametrize("attention", ["auto", "reference", "numba"])
def test_a_gradient_penalty_is_refused_where_kernels_run(attention):
    gradient = slope(make(attention))
    with pytest.raises(GradientError, match=r"plain_torch\(\)"):
        gradient.square().sum().backward()


@plain_torch()
def test_a_gradient_penalty_is_right_in_plain_torch():
    net, step = make("reference"), 1e-2
    weight = net.encoder.mix.linear.weight
    slope(net).square().sum().backward()
    direction, steepness = weight.grad / weight.grad.norm(), weight.grad.norm().item()
    penalties = []
    for move in (step, -2 * step):
        weight.data += move * direction
        penalties.append(slope(net).detach().square().sum().item())
    assert (penalties[0] - penalties[1]) / (2 * step) == pytest.approx(steepness, rel=0.02)


def test_plain_torch_and_kernels_agree_on_the_first_gradient():
    with plain_torch():
        expected = slope(make("reference"))
    assert_close(slope(make()), expected, rtol=1e-4, atol=1e-5)


def test_kernels_come_back_after_an_error():
    with pytest.raises(KeyError), plain_torch(), plain_torch():
        {kernels.available(): "off"}[True]
    assert kernels.available()


def results():
    """Return the results of each compiled operation for inputs that require gradients."""
    qkv = torch.randn(5, 3, 1, 8, requires_grad=True)
    yield qkv, ragged_attention(qkv, torch.tensor([0, 2, 5]), backend="numba")
    logits = torch.randn(4, 3, requires_grad=True)
    mask = torch.ones(4, 3, dtype=torch.bool)
    yield logits, compiled_heads.choose(logits, mask, torch.zeros(4).long(), None, False).log_prob
    query = torch.randn(1, 8, requires_grad=True)
    (actors,) = (a for a in make_batch([2], [1], [1]).actions.values() if hasattr(a, "actees"))
    yield query, compiled_heads.select(query, torch.randn(3, 8), Pairs.of(actors))


@pytest.mark.parametrize("number", range(3))
def test_each_operation_refuses(number):
    given, result = list(results())[number]
    (gradient,) = torch.autograd.grad(result.sum(), given, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(GradientError):
        gradient.sum().backward()


def test_a_graph_that_nobody_differentiates_again_changes_nothing():
    gradients = []
    for create_graph in (False, True):
        net = make_net(config=NetConfig(dim=32, layers=1, heads=2))
        output = net(make_batch(**LENGTHS), greedy=True)
        loss = output.value.sum() + output.actions["Move"].log_prob.sum()
        learned = net.policy_parameters()
        found = torch.autograd.grad(
            loss, list(learned), create_graph=create_graph, allow_unused=True
        )
        gradients.append([gradient for gradient in found if gradient is not None])
    assert len(gradients[0]) > 5
    for first, second in zip(*gradients, strict=True):
        assert torch.equal(first, second)
