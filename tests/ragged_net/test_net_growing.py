import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from net_support import make_batch, ragged
from test_net_batch import assert_same

from entity_env.errors import BatchError
from ragged_net import EntityBatch
from ragged_net.batch import GrowingBatch
from ragged_net.growing import GrowingRagged, GrowingTensor


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(1, 4))
def test_parts_of_any_size_come_back_in_order(sizes, expected_parts):
    parts = [torch.randn(n, 3) for n in sizes]
    grown = GrowingTensor(expected_parts)
    for part in parts:
        grown.add(part)
    assert torch.equal(grown.all(), torch.cat(parts))


def test_room_is_made_once_for_parts_like_the_first():
    grown = GrowingTensor(4)
    grown.add(torch.zeros(8))
    start = grown.all().data_ptr()
    for _ in range(3):
        grown.add(torch.zeros(9))  # 8 + 27 = 35 of 8 * 4 * 1.25 = 40
    assert grown.all().data_ptr() == start
    grown.add(torch.zeros(9))
    assert grown.all().data_ptr() != start


def test_frames_go_on_counting():
    grown = GrowingRagged(2)
    for part in ([[1], []], [[2, 3]], [[]], [[4]]):
        grown.add(ragged(part))
    whole = grown.all()
    assert whole.offsets.tolist() == [0, 1, 1, 3, 3, 4]
    assert whole.values.tolist() == [1, 2, 3, 4]
    assert grown.num_rows == 4


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=6))
def test_batches_grow_frame_by_frame(parts):
    batches = [
        make_batch([n, 1], [1, n], [1, 1], pair_mask=masked, seed=i)
        for i, (masked, n) in enumerate(parts)
    ]
    grown = GrowingBatch(3)
    for batch in batches:
        grown.add(batch)
    whole = grown.all()
    for i, batch in enumerate(batches):
        own = whole.select(torch.tensor([2 * i, 2 * i + 1]))
        if whole.actions["Fire"].mask is not None and batch.actions["Fire"].mask is None:
            assert own.actions["Fire"].mask.values.all()
            fire = batch.actions["Fire"]
            batch.actions["Fire"] = type(fire)(fire.actors, fire.actees, fire.full_mask())
        assert_same(own, batch)


def test_parts_that_do_not_fit():
    with pytest.raises(BatchError):
        GrowingBatch().all()
    batch = make_batch([1], [1], [1])
    grown = GrowingBatch()
    grown.add(batch)
    swapped = dict(zip(batch.actions, reversed(batch.actions.values()), strict=True))
    with pytest.raises(BatchError, match="actors of one class"):
        grown.add(EntityBatch(batch.entities, batch.global_features, {}, swapped))
    with pytest.raises(BatchError, match="lacks the action 'Move'"):
        grown.add(EntityBatch(batch.entities, batch.global_features, {}, {}))


def test_rows_of_different_kinds_are_not_broadcast():
    grown = GrowingTensor(2)
    grown.add(torch.zeros(2, 3))
    for other in (torch.zeros(2, 1), torch.zeros(2, 3).double(), torch.zeros(2, 3, device="meta")):
        with pytest.raises(BatchError, match="rows of different kinds"):
            grown.add(other)
    with pytest.raises(BatchError):
        GrowingTensor().all()


def test_a_cleared_batch_grows_again_in_the_same_memory():
    grown = GrowingBatch(3)
    places = set()
    for game in range(3):
        batches = [
            make_batch([n, 1], [1, n], [1, 1], pair_mask=(game + n) % 2 == 0, seed=10 * game + n)
            for n in (3, 0, 2)
        ]
        for batch in batches:
            grown.add(batch)
        whole = grown.all()
        assert_same(whole, EntityBatch.cat(batches))
        places |= {(name, rows.values.data_ptr()) for name, rows in whole.entities.items()}
        grown.clear()
        with pytest.raises(BatchError):
            grown.all()
    assert len(places) == len(whole.entities)
