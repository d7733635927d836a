"""A network takes over what one for smaller spaces has learned."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from net_support import DEVICES
from torch import nn
from torch.testing import assert_close

from entity_env.errors import AdoptionError
from entity_env.spaces import (
    CategoricalActionSpace,
    Discrete,
    Entity,
    Grid,
    ObsSpace,
    SelectEntityActionSpace,
)
from ragged_net import EntityBatch, NetConfig, RaggedNet, RaggedTensor, adopt
from ragged_net.actors import CategoricalActors, SelectActors

SMALL = NetConfig(dim=16, layers=1, heads=2)
A, B = Entity(["x", "y", Discrete("way", 2)]), Entity(["x"])
OLD = ObsSpace(entities={"A": A, "B": B})
MOVES = {"Move": CategoricalActionSpace(["left", "right"])}
# Another order, a new type, new features first and last, a wider discrete one.
NEW = ObsSpace(
    entities={
        "C": Entity(["size"]),
        "B": Entity(["speed", "x"]),
        "A": Entity(["y", Discrete("way", 3), "x", Discrete("team", 2)]),
    }
)
MORE = {"Jump": SelectEntityActionSpace(), "Move": CategoricalActionSpace(["right", "up", "left"])}


def rows(lengths, width):
    return RaggedTensor.from_lengths(torch.randn(sum(lengths), width) + 3.0, lengths)


def old_batch(seed=0):
    torch.manual_seed(seed)
    a, b = rows([2, 1, 3], 3), rows([1, 0, 2], 1)
    a.values[:, 2] = torch.randint(2, (6,)).float()
    actors = RaggedTensor.from_lengths(torch.tensor([0, 0, 2]), [1, 1, 1])
    move = CategoricalActors(actors, torch.ones(3, 2, dtype=torch.bool))
    return EntityBatch({"A": a, "B": b}, torch.zeros(3, 0), {}, {"Move": move})


def new_batch(old):
    """The same frames in the new spaces; what is new holds anything. No C, and nobody goes up."""
    a, b = old.entities["A"], old.entities["B"]
    team, speed = torch.randint(2, (6, 1)).float(), torch.randn(3, 1) * 100
    new_a = torch.cat([a.values[:, 1:2], a.values[:, 2:], a.values[:, :1], team], 1)
    new_b = torch.cat([speed, b.values], 1)
    # B comes before A now: actors move up by the number of B in their frame.
    actors = RaggedTensor.from_lengths(torch.tensor([1, 0, 4]), [1, 1, 1])
    none = RaggedTensor.from_lengths(torch.zeros(0, dtype=torch.int64), [0, 0, 0])
    mask = torch.tensor([[True, False, True]] * 3)
    return EntityBatch(
        {
            "C": RaggedTensor.from_lengths(torch.zeros(0, 1), [0, 0, 0]),
            "B": b.with_values(new_b),
            "A": a.with_values(new_a),
        },
        torch.zeros(3, 0),
        {},
        {"Jump": SelectActors(none, none), "Move": CategoricalActors(actors, mask)},
    )


def trained(separate=False, **settings):
    """A network with statistics and a policy that is far from uniform."""
    torch.manual_seed(1)
    config = replace(SMALL, **settings)
    net = RaggedNet(OLD, MOVES, config, SMALL if separate else None)
    net.update_statistics(old_batch())
    with torch.no_grad():
        for parameter in net.heads.parameters():
            parameter.normal_(std=0.5)
    return net


@pytest.mark.parametrize("separate", [False, True])
def test_what_it_knew_it_knows_and_what_is_new_is_named(separate):
    old = trained(separate)
    net = RaggedNet(NEW, MORE, SMALL, SMALL if separate else None)
    found = adopt(net, old)
    assert set(found.new) == {
        "entity type 'C'",
        "feature 'speed' of 'B'",
        "feature 'team' of 'A'",
        "value 2 of 'way' of 'A'",
        "action 'Jump'",
        "choice 'up' of 'Move'",
    }
    assert found.left == ()
    assert "new: entity type 'C'" in str(found)
    batch = old_batch(seed=7)
    before, after = old(batch, greedy=True), net(new_batch(batch), greedy=True)
    assert_close(after.value, before.value, rtol=1e-5, atol=1e-5)
    probs = after.actions["Move"].probs  # right, up, left
    assert_close(probs[:, [2, 0]], before.actions["Move"].probs, rtol=1e-5, atol=1e-5)


def test_the_way_back_leaves_behind_what_it_names():
    old = trained()
    larger = RaggedNet(NEW, MORE, SMALL)
    adopt(larger, old)
    smaller = RaggedNet(OLD, MOVES, SMALL)
    found = adopt(smaller, larger)
    assert found.new == ()
    assert "entity type 'C'" in found.left
    batch = old_batch(seed=3)
    assert_close(smaller(batch, greedy=True).value, old(batch, greedy=True).value)


def test_what_is_new_can_be_learned_and_gets_statistics_of_its_own():
    """The value becomes the speed of B, which the old network had never seen."""
    net = RaggedNet(NEW, MORE, SMALL)
    adopt(net, trained())
    batch = new_batch(old_batch())
    speed = batch.entities["B"].values[:, 0]
    for _ in range(100):
        torch.manual_seed(2)
        many = EntityBatch.cat([batch] * 30)
        net.update_statistics(many)
    norm = net.encoder.embedding.types[1].norm
    # The past counts for as many rows as it had, 3 of B, and the new rows are 100 * 30 * 3.
    assert_close(norm.mean[0].float(), speed.mean(), rtol=2e-3, atol=1e-3)
    assert_close(
        (norm.m2[0] / norm.count).sqrt().float(), speed.std(correction=0), rtol=2e-2, atol=0
    )
    truth = torch.tensor([speed[0], 0.0, speed[1:].sum()]) / 100
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(80):
        loss = nn.functional.mse_loss(net(batch, greedy=True).value, truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0]


def test_long_pasts_do_not_drown_the_statistics_of_new_features():
    old = trained()
    for _ in range(3):
        old.update_statistics(EntityBatch.cat([old_batch()] * 2000))
    net = RaggedNet(NEW, MORE, SMALL)
    adopt(net, old)
    of_b, of_old = net.encoder.embedding.types[1].norm, old.encoder.embedding.types[1].norm
    assert float(of_old.count) > 10_000
    assert float(of_b.count) == 4096.0
    # The deviation of x is what it was, and that of the new feature 1.
    assert_close((of_b.m2[1] / of_b.count), (of_old.m2[0] / of_old.count))
    assert float(of_b.m2[0] / of_b.count) == 1.0


@pytest.mark.parametrize(
    "settings", [{"memory": "lstm", "memory_size": 8}, {"value_norm": "popart"}]
)
def test_memory_and_normalised_values_are_taken_over(settings):
    old = trained(**settings)
    old.update_value_norm(torch.tensor([50.0, 150.0]))
    net = RaggedNet(NEW, MORE, replace(SMALL, **settings))
    adopt(net, old)
    batch = old_batch(seed=5)
    state = None if old.memory is None else torch.randn(3, old.memory.state_size)
    before = old(batch, memory=state, greedy=True)
    after = net(new_batch(batch), memory=state, greedy=True)
    assert_close(after.value, before.value, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RaggedNet(NEW, MORE, replace(SMALL, dim=32)), "config.dim"),
        (lambda: RaggedNet(NEW, MORE, SMALL, SMALL), "separate value network"),
        (lambda: RaggedNet(NEW, {"Move": SelectEntityActionSpace()}, SMALL), "'Move' has another"),
        (
            lambda: RaggedNet(ObsSpace(entities={"B": Entity([Discrete("x", 4)])}), MOVES, SMALL),
            "feature 'x' of 'B' has another kind",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_said(make, text):
    with pytest.raises(AdoptionError, match=text):
        adopt(make(), trained())


@pytest.mark.parametrize("device", DEVICES)
def test_weights_come_from_any_device(device):
    old = trained().to(device)
    net = RaggedNet(NEW, MORE, SMALL)
    adopt(net, old)
    assert next(net.parameters()).device.type == "cpu"
    batch = old_batch(seed=7)
    after = net(new_batch(batch), greedy=True).value
    assert_close(after, old(batch.to(device), greedy=True).value.cpu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["grid", "attributes", "vocabulary"])
def test_embeddings_of_all_kinds_are_copied_and_others_refused(kind):
    config = replace(SMALL, embedding="attributes" if kind == "attributes" else "linear")
    shared = "place" if kind == "vocabulary" else None

    def make(*more):
        torch.manual_seed(len(more))
        features = [Discrete("way", 3, vocabulary=shared), *more]
        made = Grid((5, 5), features) if kind == "grid" else Entity(features)
        return RaggedNet(ObsSpace(entities={"B": B, "A": made}), MOVES, config)

    old, same = make(), make()
    for parameter in same.parameters():
        torch.nn.init.normal_(parameter)
    found = adopt(same, old)
    assert not found.new
    assert not found.left
    for name, tensor in old.state_dict().items():
        assert_close(same.state_dict()[name], tensor, rtol=0, atol=0)
    with pytest.raises(AdoptionError, match="features of 'A' differ"):
        adopt(make("size"), old)


def test_a_feature_that_becomes_a_relation_does_not_shift_the_weights_of_others():
    types = {"A": Entity(["x", "y", "z"]), "B": Entity(["x", "y", "z"])}
    old, net = (
        RaggedNet(ObsSpace(entities=types), MOVES, replace(SMALL, relations=[[f"A.{x}", f"B.{x}"]]))
        for x in "xy"
    )
    adopt(net, old)
    (mine, _), (theirs, _) = (one.encoder.embedding.types for one in (net, old))
    assert (mine.norm.names, theirs.norm.names) == (("x", "z"), ("y", "z"))
    assert torch.equal(mine.project.weight[:, 1], theirs.project.weight[:, 1])
    assert not mine.project.weight[:, 0].any()


def test_a_refusal_shows_features_that_differ_in_size_only():
    nets = [
        RaggedNet(ObsSpace(entities={"A": Grid((4, 4), [Discrete("way", n)])}), MOVES, SMALL)
        for n in (3, 2)
    ]
    with pytest.raises(AdoptionError, match=r"(?s)expected: .*n=2.*received: .*n=3"):
        adopt(*nets)


def test_a_vocabulary_that_another_type_has_first_is_refused():
    word = Entity([Discrete("way", 3, vocabulary="place")])
    old, after, before = (
        RaggedNet(ObsSpace(entities=dict.fromkeys(names, word)), MOVES, SMALL)
        for names in ("A", "AB", "BA")
    )
    assert adopt(after, old).new == ("entity type 'B'",)
    with pytest.raises(AdoptionError, match="a vocabulary that the same type has first"):
        adopt(before, old)


def test_a_grid_of_another_shape_is_refused():
    nets = [
        RaggedNet(ObsSpace(entities={"A": Grid((side, side), ["height"])}), MOVES, SMALL)
        for side in (4, 3)
    ]
    with pytest.raises(AdoptionError, match="of 'A' differ in kind or size"):
        adopt(*nets)
