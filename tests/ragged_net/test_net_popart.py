"""PopArt: statistics by hand, values that stay what they are, and errors of size 1."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from net_support import ACTIONS, OBS, SMALL

from entity_env.errors import SettingError
from ragged_net import NetConfig, RaggedNet, ValueHead, plain_torch


def head(dim=32):
    torch.manual_seed(0)
    return ValueHead(dim, norm="popart")


def test_the_first_returns_give_mean_and_deviation():
    own = head()
    own.update_norm(torch.tensor([1000.0, 3000.0]))
    assert (float(own.norm.mean), float(own.norm.std)) == (2000.0, 1000.0)
    # The second ones count as much as the first: mean (2000 + 0) / 2, square (5e6 + 0) / 2, and
    # deviation sqrt(2.5e6 - 1e6) = 1224.745.
    own.update_norm(torch.zeros(2))
    assert float(own.norm.mean) == pytest.approx(1000)
    assert float(own.norm.std) == pytest.approx(1224.745, rel=1e-6)


def test_old_returns_are_forgotten_by_a_tenth():
    own = head()
    for _ in range(20):
        own.update_norm(torch.zeros(4))
    own.update_norm(torch.full((4,), 10.0))
    assert float(own.norm.mean) == pytest.approx(1.0)  # 0.9 * 0 + 0.1 * 10
    assert float(own.norm.std) == pytest.approx(3.0)  # sqrt(0.1 * 100 - 1)


@pytest.mark.parametrize("plain", [False, True])
def test_values_stay_what_they_are(plain):
    own, means = head(), torch.randn(50, 32)
    own.update_norm(100 * torch.randn(64) + 7)
    values, largest = own(means), 0.0
    for returns in (1e6 * torch.randn(64), 1e-3 * torch.randn(64), torch.full((3,), 5.0)):
        own.update_norm(returns)
        largest = max(largest, float(own.norm.std))
        if plain:
            with plain_torch():
                after = own(means)
        else:
            after = own(means)
        # float32 tells numbers of that size apart by 1e-7 of it.
        torch.testing.assert_close(after, values, rtol=1e-5, atol=1e-6 * largest)


@pytest.mark.parametrize("bad", [torch.zeros(0), torch.tensor([1.0, float("nan")])])
def test_returns_that_are_none_change_nothing(bad):
    own = head()
    own.update_norm(torch.tensor([1.0, 2.0]))
    before = {name: value.clone() for name, value in own.state_dict().items()}
    own.update_norm(bad)
    for name, value in own.state_dict().items():
        assert torch.equal(value, before[name])


def test_equal_returns_do_not_divide_by_0():
    own = head()
    own.update_norm(torch.full((4,), 3.0))
    assert float(own.norm.std) == pytest.approx(1e-4)
    assert own(torch.randn(3, 32)).isfinite().all()


def test_the_gradient_is_that_of_normalised_errors():
    own, means = head(), torch.randn(20, 32)
    returns = 1000 * torch.randn(20)
    own.update_norm(returns)
    error = (own(means) - returns) / own.norm.std
    (0.5 * error**2).sum().backward()
    # d/d bias of sum (n - target)^2 / 2 is the sum of normalised errors.
    bias = own.mlp[-1].bias.grad
    torch.testing.assert_close(bias, error.detach().sum()[None], rtol=1e-4, atol=1e-4)


def test_the_setting_decides_and_without_it_there_is_nothing():
    net = RaggedNet(OBS, ACTIONS, SMALL)
    assert net.value_std is None
    net.update_value_norm(torch.ones(3))
    assert not any("norm.std" in name for name in net.state_dict() if "value_head" in name)
    net = RaggedNet(OBS, ACTIONS, SMALL, NetConfig(dim=16, heads=2, value_norm="popart"))
    assert float(net.value_std) == 1.0
    assert "value_head.norm.std" in net.state_dict()
    with pytest.raises(SettingError, match="did you mean 'popart'"):
        dataclasses.replace(SMALL, value_norm="popat")
