"""The compiled choice of entities against torch's operations, and by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from net_support import ragged
from torch.testing import assert_close

from entity_env.errors import BatchError
from ragged_net import RaggedTensor, SelectActors, SelectEntityHead, kernels, plain_torch
from ragged_net.actors import Pairs
from ragged_net.compiled import heads as compiled_heads
from ragged_net.compiled.heads import can_select, select

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs Numba")

frames = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9) | st.integers(15, 40)), max_size=6)


def pairs_of(sizes, forbidden=0.0):
    """Pairs of frames with so many actors and actees; each actor may select its first actee."""

    def counted(lengths):
        values = [torch.arange(n) for n in lengths]
        return RaggedTensor.from_lengths(torch.cat([torch.empty(0).long(), *values]), lengths)

    actors, actees = [a for a, _ in sizes], [e for _, e in sizes]
    mask = [torch.rand(a, e) >= forbidden for a, e in sizes]
    for part in mask:
        part[:, :1] = True
    flat = torch.cat([torch.empty(0).bool(), *(part.flatten() for part in mask)])
    allowed = RaggedTensor.from_lengths(flat, [a * e for a, e in sizes]) if forbidden else None
    return Pairs.of(SelectActors(counted(actors), counted(actees), allowed))


def slowly(query, key, pairs):
    scores = (query[pairs.actor] * key[pairs.actee]).sum(1) / query.shape[1] ** 0.5
    if pairs.mask is not None:
        scores = scores.masked_fill(~pairs.mask, -math.inf)
    parts = [scores[pairs.actor == a].log_softmax(0) for a in range(pairs.num_actors)]
    return torch.cat([scores[:0], *parts])


def test_by_hand():
    # One actor, three actees, D = 8: (1, 0, ...) times (x, 0, ...) / sqrt(8) is log 1, log 3, any.
    query, key = torch.zeros(1, 8), torch.zeros(3, 8)
    query[0, 0] = 1.0
    key[:, 0] = torch.tensor([0.0, math.log(3.0), 70.0]) * 8**0.5
    mask = RaggedTensor.from_lengths(torch.tensor([True, True, False]), [3])
    pairs = Pairs.of(SelectActors(ragged([[4]]), ragged([[0, 1, 2]]), mask))
    key.requires_grad_()
    log_probs = select(query, key, pairs)
    assert_close(log_probs, torch.tensor([math.log(0.25), math.log(0.75), -math.inf]))
    # d log p_0 / d score_j is 1 - 1/4 and -3/4, and a score moves by key / sqrt(8).
    log_probs[0].backward()
    assert_close(key.grad[:, 0], torch.tensor([0.75, -0.75, 0.0]) / 8**0.5)


@pytest.mark.parametrize("width", [8, 16, 24, 32, 64])
@pytest.mark.parametrize("forbidden", [0.0, 0.5])
@settings(max_examples=15, deadline=None)
@given(sizes=frames, seed=st.integers(0, 99))
def test_results_and_gradients_are_those_of_torch(width, forbidden, sizes, seed):
    torch.manual_seed(seed)
    pairs = pairs_of(sizes, forbidden)
    query = torch.randn(pairs.num_actors, width)
    key = torch.randn(sum(e for _, e in sizes), width)
    wanted, some = torch.randn(pairs.num_pairs), torch.randn(pairs.num_pairs)
    results = []
    for function in (select, slowly):
        x, y = query.clone().requires_grad_(), key.clone().requires_grad_()
        log_probs = function(x, y, pairs)
        seen = log_probs.masked_fill(log_probs.isinf(), 0.0)
        ((seen * wanted).sum() + (log_probs.exp() * some).sum()).backward()
        results.append([log_probs.detach(), x.grad, y.grad])
    for fast, slow in zip(*results, strict=True):
        assert_close(fast, slow, rtol=1e-5, atol=1e-5)


def test_room_for_more_pairs_belongs_to_the_last_actor():
    # Frames of 1 x 2 and 2 x 1 actors and actees: pairs (0, 0), (0, 1), (1, 2), (2, 2), and two
    # more. Their offsets are those of the pairs that there are.
    actors, actees = ragged([[5], [6, 7]]), ragged([[0, 1], [3]])
    with plain_torch():
        pairs = Pairs.of(SelectActors(actors, actees, room=6))
    assert pairs.actor.tolist() == [0, 0, 1, 2, 2, 2]
    assert pairs.actee.tolist() == [0, 1, 2, 2, 2, 2]
    assert pairs.entity.tolist() == [0, 1, 3, 3, 3, 3]
    assert pairs.frame_offsets.tolist() == [0, 2, 4]


def test_large_scores_lose_no_digits():
    # 8 * 8,192 / sqrt(64) and 8 * 8,198 / sqrt(64): floats there are 0.001 apart.
    query, key = torch.zeros(1, 64), torch.zeros(2, 64)
    query[0, 0], key[:, 0] = 8.0, torch.tensor([8192.0, 8198.0])
    log_probs = select(query, key, pairs_of([(1, 2)]))
    likely = -math.log1p(math.exp(-6))
    assert_close(log_probs, torch.tensor([likely - 6, likely]), rtol=1e-4, atol=0)


def test_large_scores_and_many_entities():
    torch.manual_seed(0)
    pairs = pairs_of([(300, 700), (1, 1000)], 0.3)
    query, key = torch.randn(301, 16) * 30, torch.randn(1700, 16) * 30
    log_probs = select(query, key, pairs)
    assert_close(log_probs, slowly(query, key, pairs), rtol=1e-5, atol=1e-2)  # scores are thousands
    assert_close(pairs.sum(log_probs.exp()), torch.ones(301), rtol=1e-4, atol=0)


def test_what_is_not_a_number_shows_where_it_is():
    pairs = pairs_of([(2, 3), (1, 20)])
    for place in range(23):
        query, key = torch.ones(3, 8), torch.ones(23, 8)
        key[place, 3] = math.nan
        first, second = select(query, key, pairs).split([6, 20])
        bad, good = (first, second) if place < 3 else (second, first)
        assert bad.isnan().all()
        assert good.isfinite().all()


def test_frames_without_actors_or_actees():
    action = SelectActors(ragged([[], [0], []]), ragged([[0, 1], [1], []]))
    query, key = torch.randn(1, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)
    log_probs = select(query, key, Pairs.of(action))
    assert log_probs.tolist() == [0.0]
    log_probs.sum().backward()
    assert not query.grad.any()
    assert not key.grad.any()


@pytest.mark.parametrize("dim", [8, 20])
def test_the_head_is_the_same_with_and_without(dim, monkeypatch):
    torch.manual_seed(0)
    head, pairs = SelectEntityHead(dim), pairs_of([(3, 4), (0, 2), (20, 33)], 0.4)
    actors, actees = torch.randn(23, dim), torch.randn(39, dim)
    assert can_select(actors, actees) == (dim == 8)
    fast = head(actors, actees, pairs).log_probs
    monkeypatch.setattr(compiled_heads, "can_run", lambda x: False)
    assert_close(fast, head(actors, actees, pairs).log_probs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [((2, 8), (4, 8)), ((3, 8), (5, 8)), ((3, 8), (4, 16))])
def test_rows_that_are_not_those_of_the_pairs(sizes):
    queries, keys = sizes
    with pytest.raises(BatchError, match="do not fit the pairs"):
        select(torch.zeros(queries), torch.zeros(keys), pairs_of([(3, 4)]))
