"""The compiled value head against torch's operations, and by hand."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

pytest.importorskip("numba")

from ragged_net.heads.value import ValueHead


def compiled(values):
    return values.grad_fn.next_functions[0][0].name() == "_ChainBackward"


def test_by_hand():
    head = ValueHead(32)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.zero_()
        head.mlp[0].weight[0, 0] = 2.0
        head.mlp[0].weight[1, 1] = -1.0
        head.mlp[0].bias[2] = 0.5
        head.mlp[2].weight[0, :3] = torch.tensor([10.0, 100.0, 1000.0])
        head.mlp[2].bias[0] = 7.0
    x = torch.zeros(3, 32)
    x[:, 0], x[:, 1] = torch.tensor([2.0, 0.0, 5.0]), torch.tensor([2.0, 0.0, -6.0])
    # Hidden: 2 * column 0, -1 * column 1 where that is over 0, and 0.5.
    values = head(x.requires_grad_())
    assert compiled(values)
    expected = [10 * 4 + 500 + 7, 500 + 7, 10 * 10 + 100 * 6 + 500 + 7]
    assert values.tolist() == expected
    (values * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    # 10 * 2, nothing through a hidden unit at 0.
    assert x.grad[:, :2].tolist() == [[20.0, 0.0], [0.0, 0.0], [2000.0, -10_000.0]]
    assert not x.grad[:, 2:].any()
    assert head.mlp[2].bias.grad.tolist() == [111.0]
    assert head.mlp[2].weight.grad[0, :3].tolist() == [4 + 1000.0, 600.0, 55.5]


@settings(deadline=None, max_examples=30)
@given(frames=st.integers(1, 150), dim=st.sampled_from([32, 64, 96]), seed=st.integers(0, 99))
def test_values_and_gradients_are_those_of_torch(frames, dim, seed):
    torch.manual_seed(seed)
    head = ValueHead(dim)
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.3)
    means, change = torch.randn(frames, dim, requires_grad=True), torch.randn(frames)
    found = []
    for looked_at in (False, True):
        # With somebody who looks on, torch runs the modules one by one.
        handle = head.mlp[0].register_forward_hook(_no_kink) if looked_at else None
        values = head(means)
        assert compiled(values) != looked_at
        found.append([values, *torch.autograd.grad(values, [means, *head.parameters()], change)])
        if handle is not None:
            handle.remove()
    for fast, slow in zip(*found, strict=True):
        assert_close(fast, slow, rtol=0, atol=1e-5 * max(1.0, float(slow.detach().abs().max())))


def _no_kink(module, x, y):
    """Where the ReLU sees a zero but for rounding, gradients differ and neither is wrong."""
    assume(bool((y.abs() > 1e-6).all()))


def test_a_frame_that_is_not_a_number_stays_so_and_alone():
    means = torch.randn(2, 32)
    means[1, 7] = float("nan")
    values = ValueHead(32)(means)
    assert values.isnan().tolist() == [False, True]


@pytest.mark.parametrize("dim", [4, 48])
def test_widths_that_the_kernel_does_not_take(dim):
    assert not compiled(ValueHead(dim)(torch.ones(3, dim)))
    assert len(ValueHead(32)(torch.ones(0, 32))) == 0


def test_an_mlp_that_somebody_changed_is_run():
    means = torch.randn(2, 32)
    for change in (
        lambda mlp: mlp.append(nn.Tanh()),
        lambda mlp: mlp.pop(2) and mlp.pop(1) and mlp.append(nn.Linear(32, 1)),
        lambda mlp: mlp.__setitem__(2, nn.Linear(32, 2)),
        lambda mlp: mlp.__setitem__(1, nn.Tanh()),
        lambda mlp: (mlp.__setitem__(0, nn.Linear(32, 40)), mlp.__setitem__(2, nn.Linear(40, 1))),
        lambda mlp: setattr(mlp, "forward", lambda x: x[:, :1]),
    ):
        head = ValueHead(32)
        change(head.mlp)
        assert_close(head(means), head.mlp(means).squeeze(-1))


def test_a_hidden_layer_that_is_cut_short_where_it_lies():
    head, means = ValueHead(64), torch.randn(2, 64)
    head(means)
    first, last = head.mlp[0], head.mlp[2]
    first.weight.data, first.bias.data = first.weight.data[:32], first.bias.data[:32]
    last.weight.data = last.weight.data[:, :32]
    values = head(means)
    assert compiled(values)
    assert_close(values, head.mlp(means).squeeze(-1), rtol=1e-5, atol=1e-5)
