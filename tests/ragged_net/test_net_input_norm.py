import math

import pytest
import torch
from net_support import DEVICES
from torch.testing import assert_close

from entity_env.errors import BatchError, FeatureError
from entity_env.spaces import Continuous, Discrete
from ragged_net import InputNorm


def state(norm):
    return {name: tensor.clone() for name, tensor in norm.state_dict().items()}


def test_before_the_first_update_values_pass_through():
    values = torch.tensor([[1.5, -2.0]])
    assert torch.equal(InputNorm(["x", "y"])(values), values)


def test_by_hand():
    norm = InputNorm(["x", "y"])
    norm.update(torch.tensor([[1.0, 10.0], [2.0, 10.0], [6.0, 40.0]]))
    # x: mean 3, variance (4 + 1 + 9) / 3. y: mean 20, variance (100 + 100 + 400) / 3.
    assert norm.mean.tolist() == [3.0, 20.0]
    result = norm(torch.tensor([[5.0, 30.0]]))
    expected = [[2 / math.sqrt(14 / 3), 10 / math.sqrt(200)]]
    assert_close(result, torch.tensor(expected))


def test_chunks_equal_one_update():
    torch.manual_seed(0)
    values = torch.randn(100, 3) * 7 + 1000
    whole, chunked = InputNorm(["a", "b", "c"]), InputNorm(["a", "b", "c"])
    whole.update(values)
    for chunk in values.split([1, 0, 39, 60]):
        chunked.update(chunk)
    assert chunked.count == 100
    assert_close(chunked.mean, whole.mean, rtol=1e-12, atol=0)
    assert_close(chunked.m2, whole.m2, rtol=1e-10, atol=0)
    assert_close(whole.m2 / 100, values.double().var(0, unbiased=False), rtol=1e-10, atol=0)


@pytest.mark.parametrize("training", [True, False])
def test_forward_never_changes_the_statistics(training):
    norm = InputNorm(["x"]).train(training)
    norm.update(torch.tensor([[0.0], [2.0]]))
    before = state(norm)
    norm(torch.tensor([[50.0], [60.0]]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in norm.state_dict().items())


def test_a_declared_scale_is_used_and_never_updated():
    norm = InputNorm([Continuous("hp", mean=10.0, std=4.0), "x"])
    norm.update(torch.tensor([[100.0, 1.0], [300.0, 3.0]]))
    # hp: (12 - 10) / 4. x: mean 2, deviation 1.
    assert norm(torch.tensor([[12.0, 3.0]])).tolist() == [[0.5, 1.0]]


def test_discrete_columns_are_skipped():
    norm = InputNorm([Discrete("team", 3), "x", Discrete("kind", 2), "y"])
    assert norm(torch.tensor([[2.0, 5.0, 1.0, 6.0]])).tolist() == [[5.0, 6.0]]
    assert norm.num_columns == 2


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6, -3.3e-4])
def test_a_constant_feature_comes_out_as_zero(constant):
    norm = InputNorm(["x"])
    for _ in range(5):
        norm.update(torch.full((7, 1), constant))
    assert norm(torch.tensor([[constant], [constant + 1.0]])).tolist() == [[0.0], [0.0]]


def test_a_small_deviation_is_not_taken_for_a_constant():
    norm = InputNorm(["x"])
    norm.update(torch.tensor([[1e-5], [3e-5]]))
    assert_close(norm(torch.tensor([[3e-5]])), torch.tensor([[1.0]]))


def test_results_are_clamped():
    norm = InputNorm(["x"])
    norm.update(torch.tensor([[-1.0], [1.0]]))
    assert norm(torch.tensor([[99.0], [-99.0]])).tolist() == [[10.0], [-10.0]]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_are_refused(bad):
    norm = InputNorm(["x", "speed"])
    norm.update(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
    before = state(norm)
    with pytest.raises(FeatureError, match="'speed' is not finite in row 1"):
        norm.update(torch.tensor([[1.0, 2.0], [3.0, bad]]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in norm.state_dict().items())


def test_the_statistics_are_in_the_state():
    norm, other = InputNorm(["x"]), InputNorm(["x"])
    norm.update(torch.tensor([[1.0], [5.0]]))
    other.load_state_dict(norm.state_dict())
    for each in (norm, other):
        each.update(torch.tensor([[9.0]]))
    assert torch.equal(norm(torch.ones(1, 1)), other(torch.ones(1, 1)))


def test_wrong_width():
    with pytest.raises(BatchError, match=r"\(N, 2\)"):
        InputNorm(["x", "y"])(torch.zeros(1, 3))


@pytest.mark.parametrize("device", DEVICES)
def test_no_columns_and_no_rows(device):
    norm = InputNorm([]).to(device)
    norm.update(torch.zeros(3, 0, device=device))
    assert norm(torch.zeros(3, 0, device=device)).shape == (3, 0)
    assert InputNorm(["x"]).to(device)(torch.zeros(0, 1, device=device)).shape == (0, 1)
