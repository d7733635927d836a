from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from net_support import DEVICES, ragged

from entity_env.errors import BatchError, DeviceError, DtypeError
from ragged_net import RaggedTensor

LENGTHS = st.lists(st.integers(0, 4), max_size=6)


def as_lists(tensor):
    bounds = tensor.offsets.tolist()
    return [tensor.values[start:end].tolist() for start, end in pairwise(bounds)]


def numbered(lengths):
    return RaggedTensor.from_lengths(torch.arange(sum(lengths)), lengths)


def test_lengths_offsets_and_frame_ids_by_hand():
    tensor = numbered([2, 0, 3, 0])
    assert tensor.offsets.tolist() == [0, 2, 2, 5, 5]
    assert tensor.lengths.tolist() == [2, 0, 3, 0]
    assert (tensor.num_frames, tensor.num_rows) == (4, 5)
    assert tensor.frame_ids().tolist() == [0, 0, 2, 2, 2]


def test_select_by_hand():
    # Frames [0, 1], [], [2, 3, 4]: any order, and a frame twice.
    picked = numbered([2, 0, 3]).select(torch.tensor([2, 1, 0, 2]))
    assert as_lists(picked) == [[2, 3, 4], [], [0, 1], [2, 3, 4]]


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.data())
def test_select_equals_indexing_a_list(lengths, data):
    last = max(len(lengths) - 1, 0)
    frames = data.draw(st.lists(st.integers(0, last), max_size=8)) if lengths else []
    picked = numbered(lengths).select(torch.tensor(frames, dtype=torch.int64))
    reference = as_lists(numbered(lengths))
    assert as_lists(picked) == [reference[frame] for frame in frames]


@settings(max_examples=40, deadline=None)
@given(st.lists(LENGTHS, min_size=1, max_size=4))
def test_cat_equals_adding_lists(parts):
    tensors = [numbered(lengths) for lengths in parts]
    whole = RaggedTensor.cat(tensors)
    assert as_lists(whole) == [frame for tensor in tensors for frame in as_lists(tensor)]


def test_no_frames():
    empty = numbered([])
    assert (empty.num_frames, empty.num_rows) == (0, 0)
    assert empty.frame_ids().shape == (0,)
    assert empty.select(torch.zeros(0, dtype=torch.int64)).num_frames == 0


def test_rows_may_have_dimensions():
    tensor = RaggedTensor.from_lengths(torch.arange(12).view(3, 2, 2), [1, 2])
    assert torch.equal(tensor.select(torch.tensor([1])).values, torch.arange(4, 12).view(2, 2, 2))


@pytest.mark.parametrize("device", DEVICES)
def test_to_device(device):
    moved = numbered([2, 0, 3]).to(device)
    assert moved.values.device.type == moved.offsets.device.type == device
    assert moved.select(torch.tensor([2], device=device)).values.tolist() == [2, 3, 4]


@pytest.mark.parametrize("offsets", [[1, 3], [0, 2], [0, 4], [0, 4, 3]])
def test_offsets_must_fit(offsets):
    with pytest.raises(BatchError, match="do not fit its values"):
        RaggedTensor(torch.zeros(3), torch.tensor(offsets))


def test_other_mistakes():
    with pytest.raises(BatchError, match="number of dimensions"):
        RaggedTensor(torch.zeros(3), torch.tensor(3))
    with pytest.raises(DtypeError, match="int64"):
        RaggedTensor(torch.zeros(3), torch.tensor([0, 3], dtype=torch.int32))
    with pytest.raises(DeviceError, match="two devices"):
        RaggedTensor(torch.zeros(3), torch.tensor([0, 3], device="meta"))
    for lengths in ([1.7, 1.3], torch.tensor([1.7, 1.3])):
        with pytest.raises(DtypeError, match="not whole numbers"):
            RaggedTensor.from_lengths(torch.zeros(2), lengths)
    assert RaggedTensor.from_lengths(torch.zeros(0), []).num_frames == 0
    with pytest.raises(BatchError):
        RaggedTensor.cat([])
    with pytest.raises(BatchError, match="different shapes"):
        RaggedTensor.cat([ragged([[1]]), RaggedTensor.from_lengths(torch.zeros(1, 2), [1])])


def test_frames_are_selected_by_their_numbers():
    tensor = RaggedTensor.from_lengths(torch.arange(3), [1, 1, 1])
    assert tensor.select(torch.tensor([2, 0], dtype=torch.int32)).values.tolist() == [2, 0]
    for wrong in (torch.tensor([True, False, True]), torch.tensor([0.9, 2.0])):
        with pytest.raises(DtypeError, match="selected by their numbers"):
            tensor.select(wrong)
    with pytest.raises(BatchError, match="selected by a list"):
        tensor.select(torch.tensor([[0], [1]]))
