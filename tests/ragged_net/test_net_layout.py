import pytest
import torch
from net_support import make_batch, ragged, rows

from entity_env.errors import BatchError
from ragged_net import EntityBatch, Layout


def three_frames():
    return EntityBatch(
        {
            "Mine": rows([5, 1, 3], 2),
            "Robot": rows([1, 1, 2], 2),
            "Orbital Cannon": rows([0, 1, 0], 1),
        },
        torch.zeros(3, 0),
    )


def test_flat_order_by_hand():
    layout = Layout.of(three_frames())
    # Frame 0: mines 0-4, robot 5. Frame 1: mine 6, robot 7, cannon 8. Frame 2: mines 9-11, robots.
    assert layout.offsets.tolist() == [0, 6, 9, 14]
    assert layout.dest["Mine"].tolist() == [0, 1, 2, 3, 4, 6, 9, 10, 11]
    assert layout.dest["Robot"].tolist() == [5, 7, 12, 13]
    assert layout.dest["Orbital Cannon"].tolist() == [8]
    assert layout.global_dest is None
    assert layout.num_rows == 14


def test_flat_rows_of_actors_by_hand():
    # Actors [[5], [1], [3, 4]] with frames that start at 0, 6, 9: rows 5, 6 + 1, 9 + 3, 9 + 4.
    rows_of = Layout.of(three_frames()).flat_rows(ragged([[5], [1], [3, 4]]))
    assert rows_of.tolist() == [5, 7, 12, 13]


def test_the_global_entity_comes_last_in_its_frame():
    layout = Layout.of(three_frames(), with_global=True)
    assert layout.offsets.tolist() == [0, 7, 11, 17]
    assert layout.dest["Robot"].tolist() == [5, 8, 14, 15]
    assert layout.global_dest.tolist() == [6, 10, 16]
    # A global action's actor has the number of entities as its index.
    assert layout.flat_rows(ragged([[6], [3], [5]])).tolist() == [6, 10, 16]


def test_given_names_decide_the_order():
    layout = Layout.of(three_frames(), names=["Robot", "Orbital Cannon", "Mine"])
    assert layout.dest["Robot"].tolist() == [0, 6, 9, 10]
    with pytest.raises(BatchError, match="unknown entity type 'Mine'"):
        Layout.of(three_frames(), names=["Robot", "Orbital Cannon"])


def test_every_flat_row_is_written_once():
    batch = make_batch([0, 3, 0, 1], [2, 0, 0, 1], [0, 1, 0, 0])
    layout = Layout.of(batch, with_global=True)
    written = torch.cat([*layout.dest.values(), layout.global_dest])
    assert written.sort().values.tolist() == list(range(layout.num_rows))


def test_scatter_brings_rows_in_flat_order():
    batch = three_frames()
    layout = Layout.of(batch, with_global=True)
    parts = [*layout.dest.values(), layout.global_dest]
    flat = layout.scatter([part[:, None].float() for part in parts], parts)
    assert flat.flatten().tolist() == list(range(17))


def test_no_types():
    layout = Layout.of(EntityBatch({}, torch.zeros(2, 0)))
    assert layout.offsets.tolist() == [0, 0, 0]
    assert Layout.of(EntityBatch({}, torch.zeros(2, 0)), True).global_dest.tolist() == [0, 1]
