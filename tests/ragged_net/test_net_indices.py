"""Index arithmetic: the compiled loops against torch's operations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from net_support import rows
from torch.testing import assert_close

from entity_env.errors import BatchError
from ragged_net import EntityBatch, Layout, RaggedTensor, SelectActors, kernels
from ragged_net.actors import Pairs
from ragged_net.model.encoder import frame_means

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs Numba")

lengths = st.lists(st.integers(0, 6), min_size=1, max_size=12)


def both(function):
    """Return the results of ``function`` with the kernels and without them."""
    with pytest.MonkeyPatch.context() as patch:
        compiled = function()
        patch.setattr(kernels, "available", lambda: False)
        return compiled, function()


def ragged(counts, width=None):
    shape = (sum(counts),) if width is None else (sum(counts), width)
    return RaggedTensor.from_lengths(torch.randn(shape), counts)


@settings(deadline=None)
@given(lengths)
def test_frame_ids(counts):
    fast, slow = both(lambda: ragged(counts).frame_ids())
    assert torch.equal(fast, slow)


@settings(deadline=None)
@given(lengths, st.data())
def test_selected_rows(counts, data):
    frames = torch.tensor(data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=20)))
    frames = frames.to(torch.int64)
    tensor = ragged(counts)
    (fast, fast_rows), (slow, slow_rows) = both(lambda: tensor.select_with_rows(frames))
    assert torch.equal(fast_rows, slow_rows)
    assert torch.equal(fast.offsets, slow.offsets)
    assert torch.equal(fast.values, slow.values)


@pytest.mark.parametrize("frame", [-1, 3])
def test_a_frame_that_does_not_exist(frame):
    tensor = ragged([2, 0, 1])
    with pytest.raises(BatchError, match="a frame that the batch does not have"):
        tensor.select(torch.tensor([0, frame]))


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=9), st.booleans())
def test_layouts(counts, with_global):
    types = {name: rows(list(n), 2) for name, n in zip("abc", zip(*counts, strict=True))}  # noqa: B905
    batch = EntityBatch(types, torch.zeros(len(counts), 0))
    fast, slow = both(lambda: Layout.of(batch, with_global))
    assert torch.equal(fast.offsets, slow.offsets)
    assert fast.num_rows == slow.num_rows
    for name in types:
        assert torch.equal(fast.dest[name], slow.dest[name])
    assert (fast.global_dest is None) == (slow.global_dest is None) == (not with_global)
    if with_global:
        assert torch.equal(fast.global_dest, slow.global_dest)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=9))
def test_pairs(counts):
    actors, actees = (
        RaggedTensor.from_lengths(torch.cat([torch.arange(n) for n in part]), list(part))
        for part in zip(*counts, strict=True)
    )
    fast, slow = both(lambda: Pairs.of(SelectActors(actors, actees)))
    for name in ("actor", "actee", "entity", "frame_offsets"):
        assert torch.equal(getattr(fast, name), getattr(slow, name)), name
    assert fast.num_actors == slow.num_actors


@settings(deadline=None)
@given(lengths)
def test_means_and_their_gradients(counts):
    torch.manual_seed(0)
    x = torch.randn(sum(counts), 8, requires_grad=True)

    def run():
        means = frame_means(RaggedTensor.from_lengths(x, counts))
        change = torch.arange(1.0, means.numel() + 1).view_as(means)
        return means, *torch.autograd.grad(means, [x], change)

    for fast, slow in zip(*both(run), strict=True):
        assert_close(fast, slow, rtol=1e-5, atol=1e-5)
