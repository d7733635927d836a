"""Embeddings of features: flags, narrow and shared tables, attributes that attend."""

import copy
import math

import pytest
import torch
from net_support import ACTIONS, OBS, TOLERANCE, choices, make_batch
from torch.testing import assert_close

from entity_env.spaces import CategoricalActionSpace, Discrete, Entity, Flags, ObsSpace
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    plain_torch,
)
from ragged_net.model.discrete import AttributeEmbedding, FlagTable, Tables
from ragged_net.model.embedding import TypeEmbedding

TERRAIN = [Discrete(name, 5, vocabulary="terrain") for name in ("terrain", "below", "left")]
SPACE = ObsSpace(
    ["time", TERRAIN[2]],
    {
        "Tile": Entity([TERRAIN[0], "food"]),
        "Unit": Entity(["x", Flags("status", 3), TERRAIN[1], Discrete("team", 2)]),
    },
)
MOVE = {"Move": CategoricalActionSpace(["a", "b", "c"])}


def units(tiles=(2, 0, 1), own=(1, 0, 3), seed=0):
    """A batch for ``SPACE``, in which all units move."""
    torch.manual_seed(seed)
    food = torch.randn(sum(tiles), 2)
    food[:, 0] = torch.randint(5, (sum(tiles),)).float()
    rows = torch.randn(sum(own), 4)
    for column, n in ((1, 8), (2, 5), (3, 2)):
        rows[:, column] = torch.randint(n, (sum(own),)).float()
    time = torch.randn(len(tiles), 2)
    time[:, 1] = torch.randint(5, (len(tiles),)).float()
    index = [t + i for t, count in zip(tiles, own, strict=True) for i in range(count)]
    movers = RaggedTensor.from_lengths(torch.tensor(index, dtype=torch.int64), list(own))
    mask = torch.ones(len(index), 3, dtype=torch.bool)
    entities = {
        "Tile": RaggedTensor.from_lengths(food, list(tiles)),
        "Unit": RaggedTensor.from_lengths(rows, list(own)),
    }
    return EntityBatch(entities, time, {}, {"Move": CategoricalActors(movers, mask)})


def make(seed=0, **settings):
    torch.manual_seed(seed)
    return RaggedNet(SPACE, MOVE, NetConfig(**{"dim": 32, "heads": 2, "layers": 1, **settings}))


def learned(net, output):
    net.zero_grad()
    move = output.actions["Move"]
    (output.value.square().sum() + move.log_prob.sum() + move.entropy.sum()).backward()
    return {name: p.grad.clone() for name, p in net.named_parameters()}


OPTIONS = [{}, {"embedding": "attributes"}]


def test_flags_add_up():
    for count in (3, 9):  # with a table of all sets, and without
        table = FlagTable(count, 2)
        with torch.no_grad():
            table.weight.zero_()
            table.weight[:3] = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
        # 5 is flags 0 and 2: 1 + 4 and 10 + 40; 0 is none of them.
        assert table(torch.tensor([5, 0, 2])).tolist() == [[5.0, 50.0], [0.0, 0.0], [2.0, 20.0]]


def test_a_vocabulary_has_one_table():
    net = make()
    tables = [name for name, p in net.named_parameters() if p.shape == (5, 32)]
    assert tables == ["encoder.embedding.types.0.tables.0.table.weight"]
    tile, unit = net.encoder.embedding.types
    values = torch.tensor([3])
    assert torch.equal(tile.tables[0](values), unit.tables[1](values))
    # A copy shares within itself, not with the original.
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.encoder.embedding.types[0].tables[0].table.weight.add_(1.0)
    assert torch.equal(tile.tables[0](values), unit.tables[1](values))
    first, second, _ = (
        t.tables for t in [*twin.encoder.embedding.types, twin.encoder.embedding.global_type]
    )
    assert torch.equal(first[0](values), second[1](values))
    assert not torch.equal(first[0](values), tile.tables[0](values))
    # A state that is loaded reaches all who share.
    twin.load_state_dict(net.state_dict())
    assert torch.equal(second[1](values), tile.tables[0](values))


def test_gradients_of_those_who_share_add_up():
    net = make()
    batch = units()
    shared = net.encoder.embedding.types[0].tables[0].table.weight
    grads = []
    for slow in (True, False):
        if slow:
            with plain_torch():
                learned(net, net(batch, given={"Move": torch.zeros(4, dtype=torch.int64)}))
        else:
            learned(net, net(batch, given={"Move": torch.zeros(4, dtype=torch.int64)}))
        grads.append(shared.grad.clone())
    assert_close(grads[0], grads[1], rtol=1e-3, atol=1e-5)
    used = {int(v) for v in batch.entities["Tile"].values[:, 0]}
    used |= {int(v) for v in batch.entities["Unit"].values[:, 2]}
    used |= {int(v) for v in batch.global_features[:, 1]}
    moved = {i for i in range(5) if bool((grads[0][i] != 0).any())}
    assert moved == used


@pytest.mark.parametrize("settings", OPTIONS, ids=str)
def test_kernels_do_what_torch_does(settings):
    net, batch = make(**settings), units()
    net.update_statistics(batch)
    with plain_torch():
        slow = net(batch, greedy=True)
        expected = learned(net, slow)
    fast = net(batch, given=choices(slow))
    assert_close(fast.value, slow.value, **TOLERANCE)
    assert_close(fast.actions["Move"].log_prob, slow.actions["Move"].log_prob, **TOLERANCE)
    for name, gradient in learned(net, fast).items():
        assert_close(gradient, expected[name], rtol=1e-3, atol=1e-5, msg=name)


def test_tables_are_embedded_by_the_kernel_and_attributes_are_not():
    from ragged_net.layout import Layout

    batch = units()
    layout = Layout.of(batch, with_global=True)
    for settings, compiled in zip(OPTIONS, (True, False), strict=True):
        layer = make(**settings).encoder.embedding.layer(batch, layout)
        assert (layer is not None) == compiled, settings


@pytest.mark.parametrize("settings", OPTIONS, ids=str)
@pytest.mark.parametrize("lengths", [((0,), (0,)), ((0, 0), (1, 0)), ((500,), (500,))])
def test_frames_of_all_kinds(settings, lengths):
    assert torch.isfinite(make(**settings)(units(*lengths)).value).all()


def test_attention_over_two_attributes_by_hand():
    embed = AttributeEmbedding(["x"], 2)
    with torch.no_grad():
        for p in embed.parameters():
            p.zero_()
        embed.type_vector.copy_(torch.tensor([0.0, 1.0]))
        embed.slope.copy_(torch.tensor([[1.0, 0.0]]))
        embed.query.weight.copy_(torch.eye(2))
        embed.key.weight.copy_(torch.eye(2))
        embed.value.weight.copy_(torch.eye(2))
    # x = 2: attributes (0, 1) and (2, 0). Scores over sqrt(2): 1 and 0 for the first, 0 and 4 for
    # the second one. Both share out one unit each between the two vectors.
    first = 1 / (1 + math.exp(-1 / 2**0.5))  # of the first for itself
    second = 1 / (1 + math.exp(-4 / 2**0.5))  # of the second for itself
    on_type, on_x = first + 1 - second, second + 1 - first
    assert_close(embed(torch.tensor([[2.0]])), torch.tensor([[2 * on_x, on_type]]), **TOLERANCE)


def test_attributes_against_one_entity_at_a_time():
    torch.manual_seed(0)
    embed = AttributeEmbedding(SPACE.entities["Unit"].features, 16)
    values = units().entities["Unit"].values
    attributes = embed.attributes(values)
    for row, found in zip(attributes, embed(values), strict=True):
        total = torch.zeros(16)
        for asking in row:
            scores = torch.stack([embed.query(asking) @ embed.key(other) / 4 for other in row])
            mixed = (scores.softmax(0)[:, None] * row).sum(0)
            total = total + embed.value(mixed) - embed.value.bias
        assert_close(found, total + embed.value.bias, **TOLERANCE)


@pytest.mark.parametrize("kind", [AttributeEmbedding, TypeEmbedding])
def test_gradients_in_float64(kind):
    torch.manual_seed(0)
    features = ["x", Flags("status", 3), Discrete("kind", 3, "kinds"), Discrete("team", 4)]
    embed = kind(features, 4, (), Tables(6)).double()
    values = torch.tensor([[0.5, 5.0, 2.0, 3.0], [-1.0, 0.0, 1.0, 0.0], [2.0, 7.0, 2.0, 1.0]])
    names = [name for name, _ in embed.named_parameters()]

    def run(*weights):
        return torch.func.functional_call(embed, dict(zip(names, weights, strict=True)), (values,))

    weights = [w.detach().clone().requires_grad_() for w in embed.parameters()]
    assert torch.autograd.gradcheck(run, weights)


def test_nothing_changes_where_nothing_is_asked_for():
    torch.manual_seed(5)
    net = RaggedNet(OBS, ACTIONS, NetConfig(dim=32))
    kinds = {type(m).__name__ for m in net.modules()}
    assert not kinds & {"FlagTable", "SharedTable", "AttributeEmbedding"}
    assert net.grids is None
    assert torch.isfinite(net(make_batch([1], [1], [1])).value).all()
