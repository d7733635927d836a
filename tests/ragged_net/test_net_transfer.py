"""Copies between devices, and what the CPU goes on knowing of tensors that have left it."""

import pytest
import torch
from net_support import make_batch, ragged
from torch.testing import assert_close

from ragged_net import EntityBatch, RaggedTensor
from ragged_net.devices import send
from ragged_net.frames import Frames
from ragged_net.ragged import FrameNumbers, offsets_of


class Recorded:
    """What is asked of a tensor on some device, where there is no such device."""

    def __init__(self, device):
        self.device, self.calls = torch.device(device), []

    def pin_memory(self):
        self.calls.append("pin")
        return self

    def to(self, device, non_blocking=False):
        self.calls.append((device.type, non_blocking))
        return self


@pytest.mark.parametrize(
    ("source", "target", "calls"),
    [
        ("cpu", "cuda", ["pin", ("cuda", True)]),
        ("cpu", "cpu", [("cpu", False)]),
        ("cuda", "cpu", [("cpu", False)]),
        ("cuda", "cuda", [("cuda", True)]),
        ("cpu", "meta", [("meta", True)]),
        ("cpu", "mps", [("mps", False)]),
    ],
)
def test_copies_to_a_gpu_are_not_waited_for(source, target, calls):
    tensor = Recorded(source)
    send(tensor, target)
    assert tensor.calls == calls


@pytest.mark.skipif(not torch.cuda.is_available(), reason="here is no GPU")
def test_a_gpu_gets_the_numbers():
    assert_close(send(torch.arange(9), "cuda").cpu(), torch.arange(9))


def test_lengths_are_known_wherever_the_rows_are():
    there = ragged([[1, 2], [], [3]]).to("meta")
    assert there.host_offsets.tolist() == [0, 2, 2, 3]
    assert there.with_values(torch.zeros(3, device="meta")).host_offsets.tolist() == [0, 2, 2, 3]
    both = RaggedTensor.cat([there, there])
    assert both.host_offsets.tolist() == [0, 2, 2, 3, 5, 5, 6]
    picked, rows = there.select_with_rows(torch.tensor([2, 0, 0, 1]))
    assert picked.host_offsets.tolist() == [0, 1, 3, 5, 5]
    assert rows.shape == picked.values.shape == (5,)
    made = RaggedTensor.from_lengths(torch.zeros(3, device="meta"), [1, 2])
    assert made.host_offsets.tolist() == [0, 1, 3]


def test_lengths_that_nobody_knew_are_asked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: asked.append(1) or torch.tensor([0, 3]))
    there = RaggedTensor(torch.zeros(3, device="meta"), torch.zeros(2, device="meta").long())
    assert [there.host_offsets.tolist() for _ in range(3)] == [[0, 3]] * 3
    assert len(asked) == 1


@pytest.mark.parametrize("frame", [3, -1])
def test_a_frame_that_does_not_exist_is_told_before_the_device_hears_of_it(frame):
    with pytest.raises(IndexError):
        ragged([[1, 2], [], [3]]).to("meta").select(torch.tensor([0, frame]))


def test_numbers_of_frames_go_to_the_device_once():
    frames = FrameNumbers.of(torch.tensor([1, 0], dtype=torch.int32), torch.device("meta"))
    assert (frames.host.tolist(), frames.there.device.type) == ([1, 0], "meta")
    assert frames.host.dtype == frames.there.dtype == torch.int64
    assert FrameNumbers.of(frames, torch.device("meta")) is frames
    here = FrameNumbers.of(torch.tensor([1, 0]), torch.device("cpu"))
    assert here.host is here.there


def test_batches_are_selected_without_asking():
    batch = make_batch([3, 0, 2], [1, 1, 1], [1, 0, 1], pair_mask=True)
    there = batch.to("meta").select(torch.tensor([2, 0]))
    here = batch.select(torch.tensor([2, 0]))
    assert isinstance(there, EntityBatch)
    for name, rows in here.entities.items():
        assert torch.equal(there.entities[name].host_offsets, rows.offsets)
        assert there.entities[name].values.shape == rows.values.shape
    fire, own = there.actions["Fire"], here.actions["Fire"]
    assert torch.equal(fire.mask.host_offsets, own.mask.offsets)
    assert torch.equal(fire.full_mask().host_offsets, own.full_mask().offsets)


def test_frames_are_grouped_by_what_the_cpu_knows():
    lengths = torch.tensor([3, 1, 0, 3, 1, 2])
    offsets = offsets_of(lengths)
    here, there = Frames(offsets, 10), Frames(offsets.to("meta"), 10, None, offsets)
    assert there.groups.sizes == here.groups.sizes == ((1, 2), (2, 1), (3, 2))
    assert there.groups.order.shape == here.groups.order.shape == (10,)
    assert here.groups.order.tolist() == [3, 7, 8, 9, 0, 1, 2, 4, 5, 6]
    assert torch.equal(there.lengths, lengths)
