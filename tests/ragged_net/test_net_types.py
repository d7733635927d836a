"""Arguments of the wrong class: every public part refuses them with an error of its own."""

import numpy as np
import pytest
import torch
from net_support import ACTIONS, LENGTHS, OBS, SMALL, make_batch

from entity_env.errors import DtypeError, EntityEnvError
from ragged_net import (
    CategoricalActors,
    CategoricalHead,
    EntityBatch,
    EntityEmbedding,
    Frames,
    GrowingBatch,
    InputNorm,
    Layout,
    Pairs,
    RaggedNet,
    RaggedTensor,
    RaggedTransformer,
    SelectActors,
    SelectEntityHead,
    ValueHead,
    frame_means,
    ragged_attention,
    set_threads,
)

BATCH = make_batch(**LENGTHS)
FIRE, MOVE = BATCH.actions["Fire"], BATCH.actions["Move"]
LAYOUT = Layout.of(BATCH)
ENDS = torch.tensor([0, 2])
ROWS, QKV = torch.zeros(LAYOUT.num_rows, 16), torch.zeros(2, 3, 1, 8)
FEATURES = BATCH.global_features

USES = {
    "values": lambda w: RaggedTensor(w, ENDS),
    "offsets": lambda w: RaggedTensor(torch.zeros(2), w),
    "values with lengths": lambda w: RaggedTensor.from_lengths(w, [2]),
    "lengths": lambda w: RaggedTensor.from_lengths(torch.zeros(2), w),
    "parts": RaggedTensor.cat,
    "a part": lambda w: RaggedTensor.cat([w]),
    "selected": MOVE.actors.select,
    "with_values": MOVE.actors.with_values,
    "to": MOVE.actors.to,
    "categorical actors": lambda w: CategoricalActors(w, MOVE.mask),
    "categorical mask": lambda w: CategoricalActors(MOVE.actors, w),
    "selecting actors": lambda w: SelectActors(w, FIRE.actees),
    "actees": lambda w: SelectActors(FIRE.actors, w),
    "entities": lambda w: EntityBatch(w, FEATURES),
    "an entity type": lambda w: EntityBatch({"Mine": w}, FEATURES),
    "global features": lambda w: EntityBatch(BATCH.entities, w),
    "visible": lambda w: EntityBatch(BATCH.entities, FEATURES, w),
    "visible mines": lambda w: EntityBatch(BATCH.entities, FEATURES, {"Mine": w}),
    "actions": lambda w: EntityBatch(BATCH.entities, FEATURES, {}, w),
    "an action": lambda w: EntityBatch(BATCH.entities, FEATURES, {}, {"Move": w}),
    "batches": EntityBatch.cat,
    "a batch of several": lambda w: EntityBatch.cat([w]),
    "selected frames": BATCH.select,
    "device": BATCH.to,
    "grown": lambda w: GrowingBatch().add(w),
    "layout of": Layout.of,
    "layout offsets": lambda w: Layout(w, {}, None, 0),
    "layout rows": lambda w: Layout(ENDS, {}, None, w),
    "indices": LAYOUT.flat_rows,
    "frames offsets": lambda w: Frames(w, 3),
    "hidden": lambda w: Frames(ENDS, 2, w),
    "head width": lambda w: CategoricalHead(w, 3),
    "choices": lambda w: CategoricalHead(8, w),
    "select width": SelectEntityHead,
    "value width": ValueHead,
    "embedded space": lambda w: EntityEmbedding(w, 8, False),
    "embedding width": lambda w: EntityEmbedding(OBS, w, False),
    "embedded batch": lambda w: EntityEmbedding(OBS, 8, False)(w, LAYOUT),
    "embedding layout": lambda w: EntityEmbedding(OBS, 8, False)(BATCH, w),
    "features": InputNorm,
    "normalised": InputNorm(["x"]),
    "statistics": lambda w: InputNorm(["x"]).update(w),
    "space": lambda w: RaggedNet(w, ACTIONS),
    "action space": lambda w: RaggedNet(OBS, w),
    "config": lambda w: RaggedNet(OBS, ACTIONS, w),
    "value config": lambda w: RaggedNet(OBS, ACTIONS, None, w),
    "transformer": RaggedTransformer,
    "rows": lambda w: RaggedTransformer(SMALL)(w, LAYOUT),
    "frames of rows": lambda w: RaggedTransformer(SMALL)(ROWS, w),
    "pairs": Pairs.of,
    "threads": set_threads,
    "qkv": lambda w: ragged_attention(w, ENDS),
    "attention offsets": lambda w: ragged_attention(QKV, w),
    "hidden rows": lambda w: ragged_attention(QKV, ENDS, w),
    "backend": lambda w: ragged_attention(QKV, ENDS, None, w),
    "means": frame_means,
    "actors' vectors": lambda w: CategoricalHead(8, 3)(w, MOVE.mask),
    "actors' mask": lambda w: CategoricalHead(8, 3)(torch.zeros(6, 8), w),
    "pairs of a head": lambda w: SelectEntityHead(8)(torch.zeros(2, 8), torch.zeros(2, 8), w),
    "valued means": ValueHead(8),
}
MAY_BE_NONE = {"config", "value config", "hidden", "hidden rows"}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_what_is_no_argument_is_refused(use, request):
    name = request.node.callspec.id
    for wrong in (None, [[1, "x"]], np.full(3, 0.5), "x", 1.5, object(), 2 + 1j):
        if wrong is None and name in MAY_BE_NONE:
            continue
        with pytest.raises(EntityEnvError):
            use(wrong)


def test_a_plain_tensor_is_no_mask_of_pairs():
    with pytest.raises(DtypeError) as caught:
        SelectActors(FIRE.actors, FIRE.actees, mask=torch.ones(4, dtype=torch.bool))
    assert str(caught.value).splitlines() == [
        "the mask of a select-entity action is of the wrong class",
        "  expected: RaggedTensor",
        "  received: Tensor",
        "  hint:     RaggedTensor.from_lengths(mask, lengths), with actors x actees values in "
        "each frame",
    ]


def test_a_list_is_no_part_of_a_batch():
    with pytest.raises(DtypeError, match=r"(?s)'Mine' is of the wrong class.*from_lengths"):
        EntityBatch({"Mine": [[1.0, 2.0]]}, torch.zeros(1, 0))
    with pytest.raises(DtypeError, match=r"(?s)entities of an EntityBatch.*a dict"):
        EntityBatch([[1.0, 2.0]], torch.zeros(1, 0))
    with pytest.raises(DtypeError, match="features: not a tensor"):
        EntityBatch({}, [[1.0]])


def test_a_wrong_class_is_a_type_error_and_a_value_error():
    for kind in (TypeError, ValueError):
        with pytest.raises(kind):
            GrowingBatch().add([1])
