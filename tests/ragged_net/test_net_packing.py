"""Batches from lists, padded tensors and nested tensors."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from net_support import OBS
from torch.testing import assert_close

from entity_env.errors import BatchError, DeviceError, DtypeError, EntityEnvError
from ragged_net import EntityBatch, GrowingBatch, RaggedTensor

# Frames with 2, 0 and 1 mines of 2 features.
MINES = [[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]]
FLAT = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def check(batch):
    assert batch.num_frames == 3
    assert_close(batch.entities["Mine"].values, FLAT)
    assert batch.entities["Mine"].offsets.tolist() == [0, 2, 2, 3]
    assert batch.global_features.shape == (3, 0)


def test_lists_tensors_and_arrays_of_rows():
    check(EntityBatch.from_lists({"Mine": MINES}))
    check(EntityBatch.from_lists({"Mine": [torch.tensor(MINES[0]), torch.zeros(0, 2), MINES[2]]}))
    check(EntityBatch.from_lists({"Mine": [np.array(MINES[0]), [], ((5, 6),)]}))


def test_a_space_knows_types_that_are_absent_and_their_widths():
    batch = EntityBatch.from_lists({"Mine": MINES}, obs_space=OBS)
    check(batch)
    assert list(batch.entities) == ["Mine", "Robot", "Orbital Cannon"]
    assert batch.entities["Robot"].values.shape == (0, 3)
    # Two cannons without features: their rows are empty, and there are two of them.
    cannons = EntityBatch.from_lists({"Orbital Cannon": [[[], []]]}, obs_space=OBS)
    assert cannons.entities["Orbital Cannon"].values.shape == (2, 0)


def test_padded_tensors_with_lengths_or_a_mask():
    padded = torch.full((3, 4, 2), torch.nan)
    padded[0, :2], padded[2, 0] = FLAT[:2], FLAT[2]
    check(EntityBatch.from_padded({"Mine": padded}, {"Mine": [2, 0, 1]}))
    check(EntityBatch.from_padded({"Mine": padded}, {"Mine": torch.tensor([2, 0, 1])}))
    present = torch.zeros(3, 4, dtype=torch.bool)
    scattered = torch.full((3, 4, 2), torch.nan)
    for row, (frame, place) in enumerate([(0, 1), (0, 3), (2, 2)]):
        present[frame, place], scattered[frame, place] = True, FLAT[row]
    check(EntityBatch.from_padded({"Mine": scattered}, {"Mine": present}))


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_tensors_and_their_gradients(layout):
    parts = [torch.tensor(MINES[0]), torch.zeros(0, 2), torch.tensor(MINES[2])]
    parts = [part.requires_grad_() for part in parts]
    batch = EntityBatch.from_nested({"Mine": torch.nested.as_nested_tensor(parts, layout=layout)})
    check(batch)
    (batch.entities["Mine"].values * torch.tensor([1.0, 10.0])).sum().backward()
    assert parts[2].grad.tolist() == [[1.0, 10.0]]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: EntityBatch.from_lists({"Mine": [[[1.0], [1.0, 2.0]]]}), BatchError, "different"),
        (
            lambda: EntityBatch.from_lists({"Mine": [[[1.0]], [[1.0, 2.0]]]}),
            BatchError,
            "different",
        ),
        (lambda: EntityBatch.from_lists({"Mine": [[], []]}), BatchError, "obs_space="),
        (lambda: EntityBatch.from_lists({"Mine": [[["x", "y"]]]}), DtypeError, "numbers"),
        (lambda: EntityBatch.from_lists({"Mine": [[1.0, 2.0]]}), BatchError, "dimensions"),
        (lambda: EntityBatch.from_lists({"Mine": MINES, "Robot": [[[1]]]}), BatchError, "'Robot'"),
        (lambda: EntityBatch.from_lists({"Mines": MINES}, obs_space=OBS), BatchError, "Mines"),
        (lambda: EntityBatch.from_lists({}), BatchError, "the number of frames"),
        (
            lambda: EntityBatch.from_padded({"Mine": torch.zeros(2, 3, 1)}, {"Mine": [1, 4]}),
            BatchError,
            "from 0 to 3",
        ),
        (
            lambda: EntityBatch.from_padded({"Mine": torch.zeros(2, 3, 1)}, {"Robot": [1, 2]}),
            BatchError,
            "'Robot'",
        ),
        (lambda: EntityBatch.from_nested({"Mine": torch.zeros(2, 3, 1)}), DtypeError, "nested"),
    ],
)
def test_what_does_not_fit_is_explained(make, error, text):
    with pytest.raises(EntityEnvError, match=text) as caught:
        make()
    assert isinstance(caught.value, error)


class Odd:
    def __repr__(self):
        raise RuntimeError("odd")

    __len__ = __iter__ = __index__ = __repr__


ODD = [
    None, Odd(), [None], [Odd()], True, 3, 10**400, [[[10**400]]], "ab", range(2), iter([1]),
    np.array(["a"]), [[np.zeros(2)], [[1.0]]], torch.tensor(1.0), torch.tensor([True]),
    torch.zeros(2, 3, 2).to_sparse(), torch.tensor([1, 2]).to_sparse(),
    torch.zeros(2, 3, 2, device="meta"), torch.zeros(2, dtype=torch.int64, device="meta"),
    torch.zeros(2, 3, 2, dtype=torch.complex64), torch.zeros(2, 3, 2).to(torch.float8_e4m3fn),
    torch.quantize_per_tensor(torch.zeros(2, 3, 2), 0.1, 0, torch.qint8),
    torch.tensor([1, 2]).to(torch.uint64), torch.tensor([1, 2]).to(torch.uint16),
    torch.nested.nested_tensor([torch.zeros(1, 2), torch.zeros(2, 2)]),
    torch.nested.nested_tensor([torch.zeros(1, 2), torch.zeros(2, 3)]),
    torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)], layout=torch.jagged),
    torch.nested.nested_tensor([torch.tensor(1.0)]), torch.nested.nested_tensor([]),
]  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda odd: EntityBatch.from_lists({"Mine": odd}),
        lambda odd: EntityBatch.from_lists({"Mine": odd}, obs_space=OBS),
        lambda odd: EntityBatch.from_lists({"Mine": [odd, []]}),
        lambda odd: EntityBatch.from_lists({"Mine": MINES}, odd),
        lambda odd: EntityBatch.from_lists({"Mine": MINES}, None, odd),
        lambda odd: EntityBatch.from_lists({"Mine": MINES}, None, {"Fire": odd}),
        lambda odd: EntityBatch.from_lists({"Mine": MINES}, obs_space=odd),
        lambda odd: EntityBatch.from_padded({"Mine": odd}, {"Mine": [1, 2]}),
        lambda odd: EntityBatch.from_padded({"Mine": torch.zeros(2, 3, 2)}, {"Mine": odd}),
        lambda odd: EntityBatch.from_padded(odd, {"Mine": [1, 2]}),
        lambda odd: EntityBatch.from_nested({"Mine": odd}),
        lambda odd: EntityBatch({"Mine": odd}, torch.zeros(2, 0)),
        lambda odd: EntityBatch({}, torch.zeros(2, 0), {"Mine": odd}),
        lambda odd: EntityBatch.from_lists({"Mine": MINES}).select(odd),
        lambda odd: EntityBatch.from_lists({"Mine": MINES}).to(odd),
        lambda odd: EntityBatch.cat([odd]),
        lambda odd: RaggedTensor.from_lengths(torch.zeros(3, 2), odd),
        lambda odd: RaggedTensor.from_lengths(odd, [1, 2]),
        lambda odd: RaggedTensor(odd, torch.tensor([0, 1])),
        lambda odd: RaggedTensor(torch.zeros(3, 2), odd),
        lambda odd: RaggedTensor(torch.zeros(3, 2), torch.tensor([0, 3]), odd),
        lambda odd: GrowingBatch(odd),
    ],
)
def test_odd_values_lead_to_errors_of_this_package_alone(make):
    for odd in ODD:
        with contextlib.suppress(EntityEnvError):
            make(odd)


def test_what_is_no_dense_tensor_says_what_to_do():
    sparse = torch.zeros(2, 3, 2).to_sparse()
    with pytest.raises(DtypeError, match=r"'Mine': not a dense(?s:.*)sparse_coo(?s:.*)to_dense"):
        EntityBatch.from_padded({"Mine": sparse}, {"Mine": [1, 2]})
    nested = torch.nested.nested_tensor([torch.zeros(1, 2), torch.zeros(2, 2)])
    with pytest.raises(DtypeError, match=r"not a dense(?s:.*)nested(?s:.*)from_nested"):
        EntityBatch.from_padded({"Mine": nested}, {"Mine": [1, 2]})
    lengths = torch.zeros(2, dtype=torch.int64, device="meta")
    with pytest.raises(DeviceError, match=r"the lengths: the numbers are unknown(?s:.*)meta"):
        EntityBatch.from_padded({"Mine": torch.zeros(2, 3, 2)}, {"Mine": lengths})
