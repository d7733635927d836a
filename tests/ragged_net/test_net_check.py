"""Every mistake in a batch is refused with a message that says what is wrong."""

import dataclasses

import pytest
import torch
from net_support import choices, make_batch, make_net, ragged

from entity_env.errors import (
    ActionError,
    BatchError,
    DeviceError,
    DtypeError,
    FeatureError,
    MaskError,
)
from ragged_net import CategoricalActors, NetConfig, RaggedTensor, SelectActors

SMALL = NetConfig(dim=16, layers=1, heads=2)


@pytest.fixture
def net():
    return make_net(config=SMALL)


@pytest.fixture
def batch():
    # Frame 0: mines 0, 1, robot 2, cannon 3. Frame 1: mine 0, robots 1, 2, cannon 3.
    return make_batch([2, 1], [1, 2], [1, 1])


def with_entities(batch, **entities):
    return dataclasses.replace(batch, entities={**batch.entities, **entities})


def with_action(batch, **actions):
    return dataclasses.replace(batch, actions={**batch.actions, **actions})


def movers(*frames):
    indices = ragged(frames)
    return CategoricalActors(indices, torch.ones(indices.num_rows, 4, dtype=torch.bool))


def test_entity_types(net, batch):
    with pytest.raises(BatchError, match="unknown entity type 'Robots'"):
        net(with_entities(batch, Robots=batch.entities["Robot"]))
    entities = {name: part for name, part in batch.entities.items() if name != "Mine"}
    with pytest.raises(BatchError, match="lacks the entity type 'Mine'"):
        net.value(dataclasses.replace(batch, entities=entities))


def test_entity_types_may_come_in_any_order(net, batch):
    turned = dataclasses.replace(batch, entities=dict(reversed(batch.entities.items())))
    assert torch.equal(net(turned).value, net(batch).value)


def test_feature_widths(net, batch):
    narrow = RaggedTensor(batch.entities["Mine"].values[:, :1], batch.entities["Mine"].offsets)
    with pytest.raises(BatchError, match="'Mine': wrong number of features"):
        net(with_entities(batch, Mine=narrow))
    with pytest.raises(BatchError, match="global features: wrong number"):
        net.update_statistics(dataclasses.replace(batch, global_features=torch.zeros(2, 1)))


@pytest.mark.parametrize("bad", [3.0, -1.0, 1.5, float("nan")])
def test_discrete_features(net, batch, bad):
    batch.entities["Robot"].values[1, 2] = bad
    with pytest.raises(FeatureError, match="'team' is out of range"):
        net(batch)


def test_action_names(net, batch):
    with pytest.raises(BatchError, match="did you mean 'Move'"):
        net(with_action(batch, Moves=batch.actions["Move"]))
    with pytest.raises(BatchError, match="lacks the action 'Fire'"):
        net(dataclasses.replace(batch, actions={"Move": batch.actions["Move"]}))


def test_action_classes_and_widths(net, batch):
    with pytest.raises(BatchError, match="expected: SelectActors"):
        net(with_action(batch, Fire=batch.actions["Move"]))
    with pytest.raises(BatchError, match="expected: CategoricalActors"):
        net(with_action(batch, Move=batch.actions["Fire"]))
    move = batch.actions["Move"]
    with pytest.raises(BatchError, match="mask has the wrong width"):
        net(with_action(batch, Move=CategoricalActors(move.actors, move.mask[:, :3])))


@pytest.mark.parametrize("index", [-1, 4])
def test_indices_outside_of_their_frame(net, batch, index):
    with pytest.raises(BatchError, match=f"index {index} in frame 1"):
        net(with_action(batch, Move=movers([2], [1, index])))
    fire = SelectActors(ragged([[3], [3]]), ragged([[0], [index]]))
    with pytest.raises(BatchError, match="the actees of action 'Fire'"):
        net(with_action(batch, Fire=fire))


def test_actees_that_come_twice(net, batch):
    fire = dataclasses.replace(batch.actions["Fire"], actees=ragged([[0, 1], [0, 1, 0]]), mask=None)
    with pytest.raises(BatchError, match="'Fire' name an entity more than once"):
        net(with_action(batch, Fire=fire))


def test_actors_without_a_choice(net, batch):
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1] = False
    move = CategoricalActors(batch.actions["Move"].actors, mask)
    with pytest.raises(MaskError, match="action 'Move': actor 1 of the batch has no choice"):
        net(with_action(batch, Move=move))
    # The second actor has no actees in its frame, or none that its mask allows.
    for fire in (
        SelectActors(ragged([[3], [3]]), ragged([[0], []])),
        SelectActors(ragged([[3], [3]]), ragged([[0], [1]]), ragged([[True], [False]], torch.bool)),
    ):
        with pytest.raises(MaskError, match="action 'Fire': actor 1"):
            net(with_action(batch, Fire=fire))


def test_hidden_actors_and_actees(net, batch):
    visible = {"Robot": torch.tensor([True, False, True])}
    with pytest.raises(BatchError, match=r"actors of action 'Move'[^$]*index 1 in frame 1"):
        net(dataclasses.replace(batch, visible=visible))
    visible = {"Mine": torch.tensor([False, True, True])}
    with pytest.raises(BatchError, match=r"actees of action 'Fire'[^$]*index 0 in frame 0"):
        net(dataclasses.replace(batch, visible=visible))


def test_given_actions(net, batch):
    given = choices(net(batch))
    with pytest.raises(BatchError, match="given lacks the action 'Fire'"):
        net(batch, given={"Move": given["Move"]})
    with pytest.raises(BatchError, match="one choice for each actor"):
        net(batch, given={**given, "Move": given["Move"][:1]})
    with pytest.raises(DtypeError, match="int64"):
        net(batch, given={**given, "Move": given["Move"].float()})
    with pytest.raises(DeviceError, match="given"):
        net(batch, given={**given, "Move": given["Move"].to("meta")})


@pytest.mark.parametrize("choice", [-1, 4, 2])
def test_given_choices_that_do_not_exist_or_are_forbidden(net, batch, choice):
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1, 2] = False
    batch = with_action(batch, Move=CategoricalActors(batch.actions["Move"].actors, mask))
    given = {**choices(net(batch)), "Move": torch.tensor([0, choice, 0])}
    with pytest.raises(ActionError, match=f"choice {choice} for actor 1"):
        net(batch, given=given)


@pytest.mark.parametrize("entity", [-1, 3, 1])
def test_given_entities_that_cannot_be_selected(net, batch, entity):
    allowed = ragged([[True, True], [True, False]], torch.bool)
    fire = SelectActors(ragged([[3], [3]]), ragged([[0, 1], [0, 1]]), allowed)
    batch = with_action(batch, Fire=fire)
    given = {**choices(net(batch)), "Fire": torch.tensor([1, entity])}
    with pytest.raises(ActionError, match=rf"of \[0\]\n  received: {entity} for actor 1"):
        net(batch, given=given)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dim", [16, 32])
def test_parameters_of_another_type(batch, dtype, dim):
    net = make_net(config=dataclasses.replace(SMALL, dim=dim)).to(dtype)
    for call in (net, net.value):
        with pytest.raises(DtypeError, match=f"received: {dtype}\n.*autocast"):
            call(batch)


def test_devices(net, batch):
    with pytest.raises(DeviceError, match="batch is on another device than the network"):
        net(batch.to("meta"))
    with pytest.raises(DeviceError, match="generator"):
        make_net(config=SMALL).to("meta")(batch.to("meta"), generator=torch.Generator())
