"""The end of the compiled encoder, where rows that nobody reads alone are added up."""

import itertools
from contextlib import ExitStack
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from net_support import GLOBAL_OBS, make_batch
from torch import nn
from torch.testing import assert_close

pytest.importorskip("numba")

from entity_env.errors import BatchError
from ragged_net import Layout, NetConfig, RaggedTensor, kernels
from ragged_net.kernels import threads
from ragged_net.layout import Reading
from ragged_net.model.encoder import Encoder, frame_means

COUNTS = [5, 0, 0, 3, 40, 1] * 4


def make(counts, **changes):
    torch.manual_seed(0)
    made = Encoder(GLOBAL_OBS, False, NetConfig(**{"dim": 32, "layers": 2, "heads": 2} | changes))
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    batch = make_batch(counts, [n % 3 for n in counts], [0 for _ in counts])
    return made, batch, Layout.of(batch, False, tuple(GLOBAL_OBS.entities))


def results(made, batch, layout, hidden, asked):
    """Means, rows and gradients."""
    encoded = made(batch, layout, hidden, asked)
    found = [encoded.means, *encoded.rows]
    loss = sum((x * torch.linspace(-1, 2, x.numel()).view_as(x)).sum() for x in found)
    return [*found, *torch.autograd.grad(loss, list(made.parameters()), materialize_grads=True)]


def in_kernels(made, batch, layout, hidden, asked):
    """``results`` of one chain."""
    with patch.object(Reading, "split", autospec=True, side_effect=Reading.split) as split:
        found = results(made, batch, layout, hidden, asked)
    assert split.called == bool(layout.num_rows)
    return found


def in_torch(*arguments):
    """``results`` without any kernel."""
    with patch.object(kernels, "available", lambda: False):
        return results(*arguments)


def least_before_relu(made, *arguments):
    """How near to 0 any number before a ReLU is: there, rounding decides about the gradient."""
    least = []
    layers = [made.mix.activation, *(block.mlp[1] for block in made.transformer.blocks)]

    def look(_, given):
        least.append(given[0].detach().abs().min())

    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_pre_hook(look).remove)
        in_torch(made, *arguments)
    return float(min(least, default=1.0))


def assert_near(found, expected):
    for fast, slow in zip(found, expected, strict=True):
        largest = max(1.0, float(slow.detach().abs().max())) if slow.numel() else 1.0
        assert_close(fast, slow, rtol=0, atol=1e-5 * largest)


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.sampled_from([0, 0, 1, 2, 3, 5, 16, 40, 70]), min_size=1, max_size=30),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    lists=st.integers(0, 3),
    masked=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_rows_may_be_read(counts, share, lists, masked, seed):
    made, batch, layout = make(counts, mlp_ratio=1 + seed % 4, layers=1 + seed % 2)
    torch.manual_seed(seed)
    rows = layout.num_rows
    # Rows may be asked for twice, within a list and by two of them.
    asked = [torch.randint(rows, (int(share * rows),)) for _ in range(lists)] if rows else []
    hidden = torch.rand(rows) < 0.3 if masked else None
    assume(not rows or least_before_relu(made, batch, layout, hidden, asked) > 1e-6)
    expected = in_torch(made, batch, layout, hidden, asked)
    assert_near(in_kernels(made, batch, layout, hidden, asked), expected)


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(("dim", "ratio"), [(64, 2), (288, 4)])
def test_any_width_and_number_of_threads(monkeypatch, dim, ratio, number):
    monkeypatch.setattr(threads, "LEAST", 1)
    made, batch, layout = make(COUNTS, dim=dim, mlp_ratio=ratio)
    asked = [torch.randperm(layout.num_rows)[:20]]
    expected = in_torch(made, batch, layout, None, asked)
    threads.set_threads(number)
    try:
        found = in_kernels(made, batch, layout, None, asked)
    finally:
        threads.set_threads(1)
    assert_near(found, expected)


def test_where_nobody_is_asked_for_the_norm_learns_nothing():
    made, batch, layout = make(COUNTS)
    for available in (kernels.available(), False):
        made.zero_grad()
        with patch.object(kernels, "available", lambda answer=available: answer):
            made(batch, layout).means.sum().backward()
        assert [own.grad for own in made.norm.parameters()] == [None, None]
        assert made.mix.linear.weight.grad is not None


def test_what_was_read_may_be_changed_in_place():
    made, batch, layout = make(COUNTS)
    for asked in ([torch.arange(4)], [torch.arange(4), torch.arange(2)]):
        encoded = made(batch, layout, None, asked)
        (encoded.means.relu_().sum() + sum(rows.relu_().sum() for rows in encoded.rows)).backward()


def test_a_transformer_without_blocks():
    made, batch, layout = make(COUNTS)
    made.transformer.blocks = nn.ModuleList()
    asked = [torch.arange(layout.num_rows)]
    assert_near(
        results(made, batch, layout, None, asked), in_torch(made, batch, layout, None, asked)
    )


def test_a_layout_of_other_frames_with_as_many_entities():
    made, batch, own = make([8, 0])  # and two robots in the first frame
    other = make([4, 3, 1])[2]  # and a robot in two of them
    assert own.num_rows == other.num_rows == 10
    with pytest.raises(BatchError, match="not that of this batch") as caught:
        made(batch, other)
    assert "8 + 2 entities in 2 frames" in str(caught.value)
    assert "10 places in 3 frames" in str(caught.value)


def test_the_order_in_which_rows_are_asked_for():
    made, batch, layout = make(COUNTS)
    every = torch.arange(layout.num_rows)
    all_rows = made(batch, layout, None, [every]).rows[0]
    for asked in ([every.flip(0)], [every[3:9], every[40:41], every[:0], every[::2]], [every] * 2):
        encoded = made(batch, layout, None, asked)
        assert len(encoded.rows) == len(asked)
        for own, rows in zip(encoded.rows, asked, strict=True):
            assert_close(own, all_rows[rows], rtol=1e-5, atol=1e-5)


def test_means_by_hand():
    rows = RaggedTensor.from_lengths(torch.tensor([[1.0, 4.0], [3.0, 0.0], [5.0, -6.0]]), [2, 0, 1])
    assert frame_means(rows).tolist() == [[2.0, 2.0], [0.0, 0.0], [5.0, -6.0]]


def test_a_reading_by_hand():
    # Frames of some 6 rows, 3 of them; row 4 is wanted three times, 1 and 0 once.
    reading = Reading.of(3, 6, [torch.tensor([4, 1]), torch.tensor([4, 0, 4])])
    assert reading.places.tolist() == [5, 4, -1, -1, 3, -1]
    assert (reading.num_frames, reading.num_results) == (3, 6)
    encoded = reading.split(torch.tensor([[10.0], [20.0], [30.0], [4.0], [1.0], [0.0]]))
    assert encoded.means.flatten().tolist() == [10, 20, 30]
    assert [part.flatten().tolist() for part in encoded.rows] == [[4, 1], [4, 0, 4]]


@pytest.mark.parametrize("row", [-1, 6])
def test_a_row_that_does_not_exist(row):
    with pytest.raises(BatchError, match="an entity that the batch does not have"):
        Reading.of(3, 6, [torch.tensor([0, row])])


def test_a_frame_of_many_entities_that_nobody_reads():
    # 10,000 rows are added up before the last layer, and agree with their results' mean.
    made, batch, layout = make([10_000, 2], layers=1)
    found = in_kernels(made, batch, layout, None, [torch.tensor([0])])
    # A chain would not call it: the blocks then run one by one, and hand out all rows.
    made.norm.register_forward_hook(lambda *_: None)
    assert_near(found, results(made, batch, layout, None, [torch.tensor([0])]))


@pytest.mark.parametrize("counts", [[1_000], [10_000], [0, 3_000, 1, 64, 65, 129]])
def test_the_mean_of_many_equal_entities_is_their_vector(counts):
    # One float32 sum of 10,000 of them would be off by 0.02%.
    made, _, _ = make([], layers=1)

    def means(counts, every, run):
        none = [0] * len(counts)
        batch = make_batch(counts, none, none)
        batch.entities["Mine"].values.fill_(0.5)
        batch.global_features.zero_()
        layout = Layout.of(batch, False, tuple(GLOBAL_OBS.entities))
        rows = torch.arange(layout.num_rows)[:: every or layout.num_rows]
        return run(made, batch, layout, None, [rows] if every else [])[0]

    shown = torch.tensor(counts) > 0
    for every, run in itertools.product((0, 1, 3), (in_kernels, in_torch)):
        expected = means([1], every, run).expand(len(counts), -1) * shown[:, None]
        assert_close(means(counts, every, run), expected, rtol=1e-5, atol=1e-5)
