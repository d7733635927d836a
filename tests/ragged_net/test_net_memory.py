"""Nothing that a caller changes behind the network's back reads or writes memory of others."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from net_support import ACTIONS, LENGTHS, OBS, make_batch, make_net
from torch.testing import assert_close

from entity_env.errors import ActionError, BatchError, EntityEnvError, FeatureError
from entity_env.spaces import CategoricalActionSpace, Entity, ObsSpace
from ragged_net import (
    CategoricalActors,
    CategoricalHead,
    EntityBatch,
    EntityEmbedding,
    GrowingBatch,
    Layout,
    NetConfig,
    Pairs,
    RaggedNet,
    RaggedTensor,
    RaggedTransformer,
    SelectEntityHead,
    kernels,
    ragged_attention,
)

FITS = NetConfig(dim=32, layers=1, heads=2)
HERE = Path(__file__).parent


def test_no_change_of_a_batch_or_a_network_crashes():
    """A crash ends a process, so the changes are made in one of their own."""
    paths = [str(HERE), str(HERE.parents[1])]
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", HERE / "mutate_batches.py", "1", "60"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'fine'" in done.stdout
    assert "'BatchError'" in done.stdout


def one_type(offsets):
    """A network for one entity type, and a batch with these offsets for its six entities."""
    torch.manual_seed(0)
    move = {"Move": CategoricalActionSpace(["a", "b"])}
    net = RaggedNet(ObsSpace(entities={"Mine": Entity(["x"])}), move, FITS)
    rows = RaggedTensor(torch.arange(6.0)[:, None], offsets)
    nobody = RaggedTensor.from_lengths(torch.zeros(0, dtype=torch.int64), [0] * rows.num_frames)
    actions = {"Move": CategoricalActors(nobody, torch.zeros(0, 2, dtype=torch.bool))}
    return net, EntityBatch({"Mine": rows}, torch.zeros(rows.num_frames, 0), {}, actions)


def test_offsets_are_copied_so_that_their_tensor_may_be_used_again():
    offsets = torch.tensor([0, 3, 6])
    net, batch = one_type(offsets)
    before = net(batch).value
    offsets[1] = 10**6
    assert torch.equal(net(batch).value, before)
    array = offsets.numpy()
    array[:] = 0
    assert torch.equal(net(batch).value, before)


def write_in_place(offsets):
    offsets[1] = 10**6


def write_by_data(offsets):
    offsets.data[1] = -1


def write_as_an_array(offsets):
    offsets.numpy()[1] = 10**6


def write_another_end(offsets):
    offsets[-1] = 10**6


def set_others(offsets):
    offsets.set_(torch.tensor([0, 3, 10**6]))


def set_fewer(offsets):
    offsets.data = torch.tensor([0, 6])


def set_a_number(offsets):
    offsets.data = torch.tensor(0)


def set_another_dtype(offsets):
    offsets.data = offsets.bfloat16()


def set_complex_numbers(offsets):
    offsets.data = offsets.to(torch.complex64)


OFFSET_CHANGES = [
    write_in_place,
    write_by_data,
    write_as_an_array,
    write_another_end,
    set_others,
    set_fewer,
    set_a_number,
    set_another_dtype,
    set_complex_numbers,
]


@pytest.mark.parametrize("change", OFFSET_CHANGES)
@pytest.mark.parametrize("trusted", [False, True])
def test_offsets_of_entities_that_have_been_changed(change, trusted):
    net, batch = one_type(torch.tensor([0, 3, 6]))
    net(batch)
    change(batch.entities["Mine"].offsets)
    with pytest.raises(EntityEnvError, match="entity type 'Mine'"):
        net(batch, trusted=trusted)
    with pytest.raises(EntityEnvError):
        batch.select(torch.tensor([1]))


@pytest.mark.parametrize("change", OFFSET_CHANGES)
@pytest.mark.parametrize(
    ("action", "part"), [("Move", "actors"), ("Fire", "actors"), ("Fire", "actees")]
)
def test_offsets_of_actors_that_have_been_changed(change, action, part):
    net, batch = make_net(config=FITS), make_batch([2, 4], [1, 2], [1, 1])
    for trusted in (False, True):
        given = {name: a.chosen.values for name, a in net(batch).actions.items()}
        changed = make_batch([2, 4], [1, 2], [1, 1])
        change(getattr(changed.actions[action], part).offsets)
        with pytest.raises(EntityEnvError):
            net(changed, given=given, trusted=trusted)


def test_parts_that_have_been_replaced_are_named():
    net = make_net(config=FITS)
    for name, part in (("Mine", [1.0]), ("Mine", None), ("Mine", torch.zeros(3, 2))):
        batch = make_batch(**LENGTHS)
        batch.entities[name] = part
        for use in (net, net.value, net.update_statistics, Layout.of):
            with pytest.raises(EntityEnvError, match="entity type 'Mine' is of the wrong class"):
                use(batch)
        with pytest.raises(EntityEnvError, match="entity type 'Mine' is of the wrong class"):
            batch.select(torch.tensor([0]))


def test_mappings_are_copied():
    parts = make_batch(**LENGTHS)
    entities = dict(parts.entities)
    batch = EntityBatch(entities, parts.global_features, {}, parts.actions)
    del entities["Mine"]
    assert list(batch.entities) == ["Mine", "Robot", "Orbital Cannon"]


def test_values_that_have_been_resized():
    for shape in ((3, 2), (60_000, 2), (6,), (6, 7)):
        net, batch = make_net(config=FITS), make_batch(**LENGTHS)
        batch.entities["Mine"].values.resize_(shape)
        for trusted in (False, True):
            with pytest.raises(BatchError, match="entity type 'Mine'"):
                net(batch, trusted=trusted)


def test_memory_that_has_been_taken_away():
    for name in ("values", "offsets"):
        net, batch = make_net(config=FITS), make_batch(**LENGTHS)
        tensor = getattr(batch.entities["Mine"], name)
        if name == "offsets":  # whose memory is lent to NumPy: torch lets nobody take it
            with pytest.raises(RuntimeError, match="not resizable"):
                tensor.untyped_storage().resize_(0)
            continue
        tensor.untyped_storage().resize_(8)
        with pytest.raises(BatchError, match="memory has been freed"):
            net(batch)
        with pytest.raises(BatchError, match="memory has been freed"):
            batch.select(torch.tensor([0]))


def test_a_grown_batch_whose_memory_has_been_used_again():
    net, grown = make_net(config=FITS), GrowingBatch(2)
    grown.add(make_batch([5, 5], [1, 1], [1, 1]))
    first = grown.all()
    grown.clear()
    grown.add(make_batch([1, 9], [1, 1], [1, 1]))
    with torch.no_grad():
        net(first)  # other frames by now, but frames
    grown.clear()
    grown.add(make_batch([1, 1], [1, 1], [1, 1]))
    with pytest.raises(EntityEnvError):
        net(first)


@pytest.mark.parametrize("number", [10**9, -1])
def test_choices_that_are_written_to_before_the_backward_pass(number):
    net, batch = make_net(config=FITS), make_batch(**LENGTHS)
    output = net(batch)
    output.actions["Move"].chosen.values.numpy()[1] = number  # autograd sees nothing of it
    with pytest.raises(ActionError, match="changed before the backward pass"):
        output.actions["Move"].log_prob.sum().backward()


@pytest.mark.parametrize("number", [3.0, -1.0, 1e9, float("nan")])
def test_discrete_features_that_are_written_to_before_the_backward_pass(number):
    net, batch = make_net(config=FITS), make_batch(**LENGTHS)
    value = net(batch).value.sum()
    batch.entities["Robot"].values.numpy()[0, 2] = number
    with pytest.raises(EntityEnvError, match="discrete feature"):
        value.backward()


def test_tensors_that_are_replaced_before_the_backward_pass():
    net, batch = make_net(config=FITS), make_batch(**LENGTHS)
    value = net(batch).value.sum()
    batch.entities["Mine"].values.data = torch.zeros(60_000, 2)
    with pytest.raises(BatchError, match="between the forward and the backward pass"):
        value.backward()
    for name, parameter in net.named_parameters():
        value = net(make_batch(**LENGTHS)).value.sum()
        before, parameter.data = parameter.data, torch.zeros(7)
        if value.requires_grad and not name.startswith(("heads", "value_head")):
            with pytest.raises(BatchError, match="between the forward and the backward pass"):
                value.backward()
        parameter.data = before


def test_weights_whose_memory_has_been_taken_away():
    net = make_net(config=FITS)
    net.encoder.mix.linear.weight.untyped_storage().resize_(8)
    with pytest.raises(BatchError, match="memory has been freed"):
        net(make_batch(**LENGTHS))


@pytest.mark.parametrize("size", [1, 3])
def test_statistics_of_another_size_are_not_read_by_kernels(size):
    net = make_net(config=FITS)
    net.encoder.embedding.types[0].norm.scale = torch.ones(size)
    with pytest.raises(BatchError, match="statistics or places that do not fit"):
        net(make_batch(**LENGTHS))


def test_attention_over_offsets_and_hidden_rows_that_change():
    torch.manual_seed(0)
    offsets, hidden = torch.tensor([0, 3, 6]), torch.tensor([True, False] * 3)
    qkv, gradients = torch.randn(6, 3, 2, 8, requires_grad=True), []
    for write in (False, True):
        total = ragged_attention(qkv, offsets, hidden, "numba").square().sum()
        if write:
            offsets.numpy()[:] = 10**6
        gradients += torch.autograd.grad(total, qkv)
    assert_close(*gradients)
    with pytest.raises(BatchError):
        ragged_attention(qkv, offsets)
    offsets = torch.tensor([0, 3, 6])
    total = ragged_attention(qkv, offsets, hidden, "numba").sum()
    hidden.data = torch.zeros(2, dtype=torch.bool)
    with pytest.raises(BatchError, match="hidden does not have one boolean for each row"):
        total.backward()


def test_layouts_that_lie():
    batch = make_batch(**LENGTHS)
    good = Layout.of(batch)
    embedding = EntityEmbedding(OBS, 32, False)
    for name in ("Mine", "Robot", "Orbital Cannon"):
        for place in (-1, 10**9):
            dest = {key: places.clone() for key, places in good.dest.items()}
            dest[name][0] = place
            with pytest.raises(BatchError, match="without a place"):
                embedding(batch, Layout(good.offsets, dest, None, good.num_rows))
    for offsets in ([0, 10**6], [0, 9, 3, 12], [5, 12], [0]):
        lie = Layout(torch.tensor(offsets), good.dest, None, good.num_rows)
        with pytest.raises(BatchError):
            RaggedTransformer(FITS)(torch.zeros(good.num_rows, 32), lie)


def test_pairs_that_lie():
    action = make_batch(**LENGTHS).actions["Fire"]
    pairs, head = Pairs.of(action), SelectEntityHead(32)
    actors, actees = (torch.randn(part.num_rows, 32) for part in (action.actors, action.actees))
    head(actors, actees, pairs)
    for name in ("actor_offsets", "actee_offsets"):
        for write in (write_in_place, write_another_end, write_as_an_array):
            lie = Pairs.of(action)
            write(getattr(lie, name))
            with pytest.raises(BatchError):
                head(actors, actees, lie)
    pairs = Pairs.of(action)
    total = head(actors, actees, pairs).log_probs.sum()
    pairs.actee_offsets.numpy()[1:] = 10**6
    with pytest.raises(BatchError):
        total.backward()


def test_masks_of_another_size():
    head = CategoricalHead(32, 4)
    for shape in ((3, 3), (2, 4), (3,)):
        with pytest.raises(BatchError):
            head(torch.randn(3, 32), torch.ones(shape, dtype=torch.bool)).choose(None, None, True)
    net, batch = make_net(config=FITS), make_batch(**LENGTHS, pair_mask=True)
    batch.actions["Fire"].mask.values.resize_(3)
    with pytest.raises(BatchError, match="one value for each pair"):
        net(batch)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("compiled", [True, False])
def test_features_that_are_not_finite_are_named(bad, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(kernels, "available", lambda: False)
    net = make_net(config=FITS)
    batch = make_batch(**LENGTHS)
    batch.entities["Mine"].values[3, 1] = bad  # frames of 2, 0, 3 mines
    for use in (net, net.value, net.update_statistics):
        with pytest.raises(FeatureError) as error:
            use(batch)
        assert str(error.value).splitlines() == [
            "entity type 'Mine': feature 'y' is not finite",
            "  expected: a finite number",
            f"  received: {bad} in row 1 of frame 2",
        ]
    with torch.no_grad():
        net(batch, trusted=True)  # looks at no number


def test_global_features_that_are_not_finite_are_named():
    net = make_net(config=FITS, with_global=True)
    batch = make_batch(**LENGTHS, with_global=True)
    batch.global_features[4, 0] = float("inf")
    with pytest.raises(FeatureError, match=r"(?s)global features: feature 'time'.*frame 4"):
        net(batch)


def test_large_features_are_finite():
    net, batch = make_net(config=FITS), make_batch(**LENGTHS)
    batch.entities["Mine"].values[:] = float(np.finfo(np.float32).max)  # their sum is not
    assert net(batch).value.isfinite().all()


def test_arguments_of_the_wrong_class():
    net, batch = make_net(config=FITS), make_batch(**LENGTHS)
    assert sorted(ACTIONS) == ["Fire", "Move"]
    for wrong in (None, [1.0], np.zeros(3), {"Mine": 1}):
        for use in (net, net.value, net.update_statistics):
            with pytest.raises(EntityEnvError, match=r"(?s)the batch is.*wrong class.*Entity"):
                use(wrong)
    with pytest.raises(EntityEnvError, match=r"given\['Move'\]: not a tensor"):
        net(batch, given={"Move": [0], "Fire": [1]})
    with pytest.raises(EntityEnvError, match="given is of the wrong class"):
        net(batch, given=torch.zeros(3))
    with pytest.raises(EntityEnvError, match="the generator is of the wrong class"):
        net(batch, generator=0)
