import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from net_support import DEVICES
from torch.testing import assert_close

from entity_env.errors import BatchError, DeviceError
from ragged_net import kernels, ragged_attention
from ragged_net.frames import Frames
from ragged_net.model.attention import Permute, _auto, attend
from ragged_net.ragged import offsets_of

# What runs here; test_net_triton.py has the kernels of a GPU.
FAST = ["grouped", "numba"] if kernels.available() else ["grouped"]


def run(backend, qkv, offsets, hidden, weight):
    """Output and gradient."""
    qkv = qkv.clone().requires_grad_()
    output = ragged_attention(qkv, offsets, hidden=hidden, backend=backend)
    (output * weight).sum().backward()
    return output.detach(), qkv.grad


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("backend", FAST)
@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(0, 7), max_size=9), seed=st.integers(0, 999))
def test_backends_agree_with_the_reference(backend, masked, device, lengths, seed):
    if backend == "numba" and device != "cpu":
        pytest.skip("a backend of the CPU")
    torch.manual_seed(seed)
    rows = sum(lengths)
    qkv = torch.randn(rows, 3, 2, 4, device=device)
    weight = torch.randn(rows, 2, 4, device=device)
    hidden = (torch.rand(rows) < 0.4).to(device) if masked else None
    offsets = offsets_of(torch.tensor(lengths, dtype=torch.int64)).to(device)
    expected = run("reference", qkv, offsets, hidden, weight)
    assert_close(run(backend, qkv, offsets, hidden, weight), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["auto", "reference", *FAST])
def test_two_entities_by_hand(backend):
    # One head of width 1: q = [1, 2], k = [0, ln 3], v = [4, 8]; 1 / sqrt(D) = 1.
    # Row 0: scores 0, ln 3, weights 1/4, 3/4: 1 + 6 = 7.
    # Row 1: scores 0, 2 ln 3, weights 1/10, 9/10: 0.4 + 7.2 = 7.6.
    qkv = torch.tensor([[1.0, 0.0, 4.0], [2.0, math.log(3.0), 8.0]]).view(2, 3, 1, 1)
    output = ragged_attention(qkv, torch.tensor([0, 2]), backend=backend)
    assert_close(output.flatten(), torch.tensor([7.0, 7.6]))
    # With row 1 hidden, row 0 sees itself only; row 1 still sees both.
    hidden = torch.tensor([False, True])
    output = ragged_attention(qkv, torch.tensor([0, 2]), hidden=hidden, backend=backend)
    assert_close(output.flatten(), torch.tensor([4.0, 7.6]))


def test_the_scale_is_one_over_the_root_of_the_head_width():
    # D = 4, q = k0 = (1, 1, 1, 1), k1 = 0: score 4 / 2 = 2 against 0, so 1 / (1 + e^-2) of v0 = 1.
    qkv = torch.zeros(2, 3, 1, 4)
    qkv[0] = 1.0
    output = ragged_attention(qkv, torch.tensor([0, 2]))
    assert_close(output[0, 0, 0], torch.tensor(1 / (1 + math.exp(-2))))


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_no_rows(lengths):
    qkv = torch.zeros(0, 3, 2, 4, requires_grad=True)
    for hidden in (None, torch.zeros(0, dtype=torch.bool)):
        output = ragged_attention(qkv, offsets_of(torch.tensor(lengths, dtype=torch.int64)), hidden)
        assert output.shape == (0, 2, 4)
        output.sum().backward()


def test_groups_by_hand():
    # Lengths 3, 1, 0, 3, 1: rows 0-2, 3, none, 4-6, 7. Ones first: rows 3, 7, then the threes.
    groups = Frames(torch.tensor([0, 3, 4, 4, 7, 8]), 8).groups
    assert groups.sizes == ((1, 2), (3, 2))
    assert groups.order.tolist() == [3, 7, 0, 1, 2, 4, 5, 6]
    assert groups.inverse.tolist() == [2, 3, 4, 0, 5, 6, 7, 1]
    assert groups.masks is None


@pytest.mark.parametrize("lengths", [[3, 3, 3], [1, 2, 2, 5], [0, 2, 0, 2], [4]])
def test_frames_that_are_grouped_already_are_not_gathered(lengths):
    frames = Frames(offsets_of(torch.tensor(lengths)), sum(lengths))
    assert frames.groups.order is None


def test_groups_are_computed_once():
    frames = Frames(torch.tensor([0, 2, 3]), 3)
    assert frames.groups is frames.groups


def test_more_frames_than_one_launch_takes(monkeypatch):
    monkeypatch.setattr("ragged_net.frames.MOST_FRAMES", 2)
    lengths = torch.tensor([3, 1, 3, 0, 3, 3, 3, 1])
    offsets, qkv = offsets_of(lengths), torch.randn(17, 3, 2, 8)
    hidden = torch.arange(17) % 4 == 0
    assert Frames(offsets, 17).groups.sizes == ((1, 2), (3, 2), (3, 2), (3, 1))
    for mask in (None, hidden):
        expected = run("reference", qkv, offsets, mask, qkv[:, 0])
        assert_close(run("grouped", qkv, offsets, mask, qkv[:, 0]), expected)


def test_permute_is_a_permutation_with_its_gradient():
    order = torch.tensor([2, 0, 3, 1])
    inverse = torch.tensor([1, 3, 0, 2])
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(Permute.apply(x, order, inverse), x[order])
    assert torch.autograd.gradcheck(lambda x: Permute.apply(x, order, inverse) ** 2, x)
    assert torch.autograd.gradgradcheck(lambda x: Permute.apply(x, order, inverse) ** 2, x)


@pytest.mark.parametrize(
    ("device", "dtype", "has_numba", "expected"),
    [
        ("cpu", torch.float32, True, "numba"),
        ("cpu", torch.float32, False, "grouped"),
        ("cpu", torch.float64, True, "grouped"),
        ("cpu", torch.bfloat16, True, "grouped"),
        ("meta", torch.float32, True, "grouped"),
    ],
)
def test_the_backend_that_auto_takes(monkeypatch, device, dtype, has_numba, expected):
    monkeypatch.setattr(kernels, "available", lambda: has_numba)
    qkv = torch.zeros(2, 3, 1, 8, device=device, dtype=dtype)
    assert _auto(qkv, Frames(torch.tensor([0, 2]), 2)) == expected


def test_backends_refuse_what_they_cannot_run():
    qkv = torch.zeros(2, 3, 1, 8, dtype=torch.float64)
    with pytest.raises(DeviceError, match="'numba' cannot run this batch"):
        ragged_attention(qkv, torch.tensor([0, 2]), backend="numba")


@pytest.mark.parametrize("backend", ["auto", "reference", *FAST])
@pytest.mark.parametrize("offsets", [[0, 400_000], [0, 2], [0, 3, 2, 4], [1, 4], [0, -4, 4]])
def test_offsets_that_do_not_fit_the_rows(offsets, backend):
    with pytest.raises(BatchError, match="do not fit its values"):
        ragged_attention(torch.randn(4, 3, 2, 8), torch.tensor(offsets), backend=backend)


@pytest.mark.parametrize("hidden", [torch.tensor([True]), torch.zeros(4), torch.zeros(4, 1).bool()])
def test_hidden_rows_are_one_boolean_each(hidden):
    with pytest.raises(BatchError, match="one boolean for each row"):
        ragged_attention(torch.randn(4, 3, 2, 8), torch.tensor([0, 4]), hidden)


def test_mistakes():
    offsets = torch.tensor([0, 2])
    with pytest.raises(BatchError, match="'auto', 'reference', 'grouped'"):
        ragged_attention(torch.zeros(2, 3, 1, 4), offsets, backend="flash")
    with pytest.raises(BatchError, match=r"\(2, 3, H, D\)"):
        attend(torch.zeros(2, 2, 1, 4), Frames(offsets, 2))
