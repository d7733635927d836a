import pytest
import torch
from net_support import make_batch, ragged, rows

from entity_env.errors import BatchError, DeviceError, DtypeError
from ragged_net import CategoricalActors, EntityBatch, RaggedTensor, SelectActors


def tensors(batch):
    """All tensors of a batch by name, to compare two batches."""
    found = {"global": batch.global_features, **{f"v {k}": v for k, v in batch.visible.items()}}
    parts = dict(batch.entities)
    for name, action in batch.actions.items():
        parts[f"{name} actors"] = action.actors
        if isinstance(action, CategoricalActors):
            found[f"{name} mask"] = action.mask
        else:
            parts[f"{name} actees"] = action.actees
            if action.mask is not None:
                parts[f"{name} mask"] = action.mask
    for name, part in parts.items():
        found[f"{name} values"], found[f"{name} offsets"] = part.values, part.offsets
    return found


def assert_same(one, two):
    one, two = tensors(one), tensors(two)
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name


def with_visible(batch):
    visible = {"Mine": torch.rand(batch.entities["Mine"].num_rows) < 0.5}
    return EntityBatch(batch.entities, batch.global_features, visible, batch.actions)


BIG = {"mines": [2, 0, 3, 1], "robots": [1, 0, 2, 3], "cannons": [1, 0, 2, 0]}


def test_counts():
    batch = make_batch(**BIG)
    assert batch.num_frames == 4
    assert batch.num_entities == 6 + 6 + 3


def test_selecting_each_frame_and_concatenating_is_the_identity():
    batch = with_visible(make_batch(**BIG, with_global=True, pair_mask=True))
    parts = [batch.select(torch.tensor([frame])) for frame in range(4)]
    assert_same(EntityBatch.cat(parts), batch)


def test_select_reorders_and_repeats():
    batch = with_visible(make_batch(**BIG, with_global=True, pair_mask=True))
    order = [3, 0, 0, 2]
    parts = [batch.select(torch.tensor([frame])) for frame in order]
    assert_same(EntityBatch.cat(parts), batch.select(torch.tensor(order)))


def test_select_by_hand():
    batch = make_batch([1, 0, 2], [1, 2, 0], [1, 1, 1])
    picked = batch.select(torch.tensor([2, 0]))
    # Frame 2: mines 0, 1, cannon 2. Frame 0: mine 0, robot 1, cannon 2.
    assert picked.actions["Fire"].actors.values.tolist() == [2, 2]
    assert picked.actions["Fire"].actees.values.tolist() == [0, 1, 0, 1]
    assert picked.actions["Move"].actors.values.tolist() == [1]
    assert torch.equal(picked.actions["Move"].mask, batch.actions["Move"].mask[:1])
    assert torch.equal(picked.entities["Mine"].values, batch.entities["Mine"].values[[1, 2, 0]])


def test_cat_fills_masks_that_only_some_batches_have():
    plain = make_batch([1], [1], [1], seed=1)
    masked = with_visible(make_batch([2], [1], [1], pair_mask=True, seed=2))
    whole = EntityBatch.cat([plain, masked])
    assert whole.visible["Mine"].tolist() == [True, *masked.visible["Mine"].tolist()]
    assert "Robot" not in whole.visible
    mask = whole.actions["Fire"].mask
    assert mask.values.tolist() == [True, True, *masked.actions["Fire"].mask.values.tolist()]
    assert mask.lengths.tolist() == [2, 3]


def test_cat_of_nothing_and_of_strangers():
    with pytest.raises(BatchError, match="at least one"):
        EntityBatch.cat([])
    batch = make_batch([1], [1], [1])
    other = EntityBatch(batch.entities, batch.global_features, {}, {})
    with pytest.raises(BatchError, match="lacks the action 'Move'"):
        EntityBatch.cat([batch, other])


def test_no_frames_and_no_entities():
    for lengths in ([], [0], [0, 0]):
        batch = make_batch(lengths, lengths, lengths, with_global=True, pair_mask=True)
        assert batch.num_frames == len(lengths)
        assert_same(batch.select(torch.arange(len(lengths))), batch)
        assert EntityBatch.cat([batch, batch]).num_frames == 2 * len(lengths)


def test_to_moves_everything():
    batch = with_visible(make_batch(**BIG, pair_mask=True)).to("meta")
    assert {tensor.device.type for tensor in tensors(batch).values()} == {"meta"}


def test_parts_that_do_not_fit():
    entities, features = {"Mine": rows([1, 2], 2)}, torch.zeros(2, 0)
    with pytest.raises(BatchError, match="entity type 'Mine' has another number of frames"):
        EntityBatch(entities, torch.zeros(3, 0))
    with pytest.raises(DtypeError, match="float32"):
        EntityBatch({"Mine": ragged([[1]])}, torch.zeros(1, 0))
    with pytest.raises(BatchError, match=r"\(N, F\)"):
        EntityBatch({"Mine": ragged([[1]], torch.float32)}, torch.zeros(1, 0))
    with pytest.raises(BatchError, match=r"\(B, G\)"):
        EntityBatch(entities, torch.zeros(2))
    with pytest.raises(DeviceError, match="another device"):
        EntityBatch(entities, features.to("meta"))
    with pytest.raises(BatchError, match="visible mask of entity type 'Mine'"):
        EntityBatch(entities, features, {"Mine": torch.ones(2, dtype=torch.bool)})
    with pytest.raises(DtypeError, match="visible mask"):
        EntityBatch(entities, features, {"Mine": torch.ones(3)})
    with pytest.raises(BatchError, match="did you mean 'Mine'"):
        EntityBatch(entities, features, {"Mines": torch.ones(3, dtype=torch.bool)})


def test_actors_that_do_not_fit():
    actors = ragged([[0], [1, 2]])
    with pytest.raises(BatchError, match="A = 3 actors"):
        CategoricalActors(actors, torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(DtypeError, match="bool"):
        CategoricalActors(actors, torch.ones(3, 4))
    with pytest.raises(DtypeError, match="int64"):
        CategoricalActors(ragged([[0.0]], torch.float32), torch.ones(1, 4, dtype=torch.bool))
    bad = RaggedTensor.from_lengths(torch.zeros(1, 1, dtype=torch.int64), [1])
    with pytest.raises(BatchError, match="one entity index each"):
        CategoricalActors(bad, torch.ones(1, 4, dtype=torch.bool))
    with pytest.raises(DeviceError, match="the mask of"):
        CategoricalActors(actors, torch.ones(3, 4, dtype=torch.bool, device="meta"))
    with pytest.raises(BatchError, match="differ in their frames"):
        SelectActors(actors, ragged([[0]]))
    # One actor on two actees, then two actors on one actee: two pairs in each frame.
    actees = ragged([[0, 1], [0]])
    with pytest.raises(BatchError, match=r"\[2, 2\] values in its frames"):
        SelectActors(actors, actees, ragged([[True], [True, True, True]], torch.bool))
    SelectActors(actors, actees, ragged([[True, True], [True, True]], torch.bool))
