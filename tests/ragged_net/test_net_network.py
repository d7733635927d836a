import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given as given_
from hypothesis import settings
from hypothesis import strategies as st
from net_support import (
    ACTIONS,
    DEVICES,
    GLOBAL_ACTIONS,
    LENGTHS,
    SMALL,
    TOLERANCE,
    assert_same_policy,
    choices,
    disturb,
    make_batch,
    make_net,
    probs,
    ragged,
)
from torch.testing import assert_close

from entity_env.spaces import CategoricalActionSpace, Entity, ObsSpace
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    SelectActors,
)


@pytest.mark.parametrize("value_config", [None, NetConfig(dim=24, layers=1, heads=3)])
@pytest.mark.parametrize("device", DEVICES)
def test_shapes_and_dtypes(device, value_config):
    batch = make_batch(**LENGTHS, with_global=True, pair_mask=True).to(device)
    net = make_net(with_global=True, config=SMALL, value_config=value_config).to(device)
    output = net(batch)
    assert list(output.actions) == list(GLOBAL_ACTIONS)
    for name, action in output.actions.items():
        actors = batch.actions[name].actors
        assert torch.equal(action.chosen.offsets, actors.offsets)
        assert action.chosen.values.dtype == torch.int64
        for tensor in (action.chosen.values, action.log_prob, action.entropy):
            assert tensor.shape == (actors.num_rows,)
        assert action.log_prob.dtype == action.entropy.dtype == torch.float32
    assert output.actions["Move"].probs.shape == (6, 4)
    assert output.actions["Speak"].probs.shape == (5, 3)
    # Fire: 1 x 3 pairs in frame 0, 2 x 5 in frame 2; the cannon of frame 4 has nothing to fire at.
    assert output.actions["Fire"].probs.lengths.tolist() == [3, 0, 10, 0, 0]
    assert (output.value.shape, output.value.dtype) == ((5,), torch.float32)
    assert_close(net.value(batch), output.value, **TOLERANCE)


@pytest.mark.parametrize("attention", ["auto", "reference", "grouped"])
def test_a_frame_does_not_depend_on_its_neighbours(attention):
    batch = make_batch(**LENGTHS, with_global=True, pair_mask=True)
    net = make_net(with_global=True, config=replace(SMALL, attention=attention))
    whole = net(batch, greedy=True)
    order = torch.tensor([3, 0, 4, 2, 2, 1])
    shuffled = net(batch.select(order), greedy=True)
    assert_close(shuffled.value, whole.value[order], **TOLERANCE)
    for name, action in whole.actions.items():
        other = shuffled.actions[name]
        assert torch.equal(other.chosen.values, action.chosen.select(order).values)
        offsets = action.chosen.offsets
        for part in ("log_prob", "entropy"):
            expected = RaggedTensor(getattr(action, part), offsets).select(order).values
            assert_close(getattr(other, part), expected, **TOLERANCE)


def test_a_frame_depends_on_all_its_own_entities():
    batch, net = make_batch([2], [2], [1]), make_net(config=SMALL)
    one, two = net(batch), net(disturb(batch, "Mine", 0))
    assert (one.actions["Move"].probs - two.actions["Move"].probs).abs().max() > 1e-3
    assert (one.value - two.value).abs().max() > 1e-3


def test_permuting_entities_permutes_the_actions():
    batch, net = make_batch([3], [3], [1], pair_mask=True), make_net(config=SMALL)
    order = torch.tensor([2, 0, 1])
    entities = {
        name: RaggedTensor(part.values[order] if part.num_rows == 3 else part.values, part.offsets)
        for name, part in batch.entities.items()
    }
    move, fire = batch.actions["Move"], batch.actions["Fire"]
    # Mines are the entities 0-2 and robots 3-5, so the pairs are permuted in two halves.
    both = torch.cat([order, order + 3])
    actions = {
        "Move": CategoricalActors(move.actors, move.mask[order]),
        "Fire": replace(fire, mask=RaggedTensor(fire.mask.values[both], fire.mask.offsets)),
    }
    one, two = net(batch), net(replace(batch, entities=entities, actions=actions))
    assert_close(two.value, one.value, **TOLERANCE)
    assert_close(two.actions["Move"].probs, one.actions["Move"].probs[order], **TOLERANCE)
    expected = one.actions["Fire"].probs.values[both]
    assert_close(two.actions["Fire"].probs.values, expected, **TOLERANCE)


@settings(max_examples=25, deadline=None)
@given_(
    frames=st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=5),
    with_global=st.booleans(),
    pair_mask=st.booleans(),
)
def test_any_mix_of_missing_types_and_empty_frames(frames, with_global, pair_mask):
    mines, robots, cannons = ([frame[k] for frame in frames] for k in range(3))
    batch = make_batch(mines, robots, cannons, with_global=with_global, pair_mask=pair_mask)
    net = make_net(with_global=with_global, config=SMALL)
    net.update_statistics(batch)
    output = net(batch)
    again = net(batch, given=choices(output))
    loss = again.value.sum()
    for name, action in again.actions.items():
        assert torch.equal(action.log_prob, output.actions[name].log_prob)
        loss = loss + action.log_prob.sum() + action.entropy.sum()
    assert torch.isfinite(loss)
    loss.backward()
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value_config", [None, SMALL])
def test_half_precision(value_config, device):
    batch = make_batch(**LENGTHS, with_global=True, pair_mask=True).to(device)
    net = make_net(with_global=True, config=SMALL, value_config=value_config).to(device)
    exact = net(batch, greedy=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        output = net(batch, given=choices(exact))
    loss = output.value.sum()
    for name, action in output.actions.items():
        assert action.log_prob.dtype == action.entropy.dtype == probs(action).dtype == torch.float32
        assert_close(action.log_prob, exact.actions[name].log_prob, rtol=0.1, atol=0.1)
        loss = loss + action.log_prob.sum() + action.entropy.sum()
    assert output.value.dtype == torch.float32
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


def test_draws_respect_the_masks_and_the_generator():
    batch = make_batch([3] * 40, [2] * 40, [1] * 40, pair_mask=True)
    net = make_net(config=SMALL)
    one, two, three = (
        net(batch, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert_same_policy(one, two)
    assert not torch.equal(choices(one)["Fire"], choices(three)["Fire"])
    moves = choices(one)["Move"]
    assert batch.actions["Move"].mask[torch.arange(len(moves)), moves].all()
    allowed = batch.actions["Fire"].mask.values.view(40, 5)
    assert allowed[torch.arange(40), choices(one)["Fire"]].all()


def test_greedy_takes_the_most_probable():
    batch, net = make_batch([3] * 9, [2] * 9, [1] * 9, pair_mask=True), make_net(config=SMALL)
    output = net(batch, greedy=True)
    assert torch.equal(choices(output)["Move"], output.actions["Move"].probs.argmax(-1))
    fire = output.actions["Fire"]
    assert torch.equal(choices(output)["Fire"], fire.probs.values.view(9, 5).argmax(-1))
    assert_close(fire.log_prob.exp(), fire.probs.values.view(9, 5).max(-1).values)


def test_actees_in_any_order_come_back_as_entity_indices():
    batch, net = make_batch([3], [1], [1]), make_net(config=SMALL)
    fire = SelectActors(ragged([[4]]), ragged([[3, 0, 2]]))
    batch = replace(batch, actions={**batch.actions, "Fire": fire})
    output = net(batch, greedy=True)
    best = int(output.actions["Fire"].probs.values.argmax())
    assert choices(output)["Fire"].tolist() == [[3, 0, 2][best]]
    again = net(batch, given=choices(output))
    assert torch.equal(again.actions["Fire"].log_prob, output.actions["Fire"].log_prob)


def test_the_global_action_depends_on_global_features_and_on_entities():
    batch = make_batch([2], [1], [1], with_global=True)
    speak = CategoricalActors(ragged([[4]]), torch.ones(1, 3, dtype=torch.bool))
    batch = replace(batch, actions={**batch.actions, "Speak": speak})
    net = make_net(with_global=True, config=SMALL)
    before = net(batch).actions["Speak"].probs
    later = replace(batch, global_features=batch.global_features + torch.tensor([[2.0, 0.0]]))
    for changed in (later, disturb(batch, "Mine", 0)):
        assert (net(changed).actions["Speak"].probs - before).abs().max() > 1e-3


def test_a_global_action_without_global_features_or_entities():
    net = RaggedNet(ObsSpace(), {"Speak": GLOBAL_ACTIONS["Speak"]}, SMALL)
    speak = CategoricalActors(ragged([[0], [0]]), torch.ones(2, 3, dtype=torch.bool))
    output = net(EntityBatch({}, torch.zeros(2, 0), {}, {"Speak": speak}))
    assert output.actions["Speak"].probs.shape == (2, 3)


def test_names_that_modules_would_refuse():
    space = ObsSpace(entities={"type": Entity(["x"]), "a.b": Entity()})
    net = RaggedNet(space, {"keys": CategoricalActionSpace(["a", "b"]), "x.y": ACTIONS["Fire"]})
    entities = {
        "type": RaggedTensor.from_lengths(torch.zeros(1, 1), [1]),
        "a.b": RaggedTensor.from_lengths(torch.zeros(1, 0), [1]),
    }
    actions = {
        "keys": CategoricalActors(ragged([[0]]), torch.ones(1, 2, dtype=torch.bool)),
        "x.y": SelectActors(ragged([[0]]), ragged([[1]])),
    }
    output = net(EntityBatch(entities, torch.zeros(1, 0), {}, actions))
    assert choices(output)["x.y"].tolist() == [1]


def test_the_state_reproduces_the_network():
    batch = make_batch(**LENGTHS, with_global=True)
    net = make_net(with_global=True, config=SMALL, value_config=SMALL)
    net.update_statistics(batch)
    other = make_net(with_global=True, config=SMALL, value_config=SMALL, seed=1)
    other.load_state_dict(net.state_dict())
    one, two = net(batch, greedy=True), other(batch, greedy=True)
    assert_same_policy(one, two)
    assert torch.equal(one.value, two.value)


@pytest.mark.parametrize("begin", ["meta", "copy"])
def test_the_state_fills_a_network_whose_memory_held_anything(begin):
    batch = make_batch(**LENGTHS, with_global=True)
    net = make_net(with_global=True, config=replace(SMALL, dim=32))
    net.update_statistics(batch)
    other = copy.deepcopy(net).to("meta") if begin == "meta" else copy.deepcopy(net)
    other._apply(lambda t: torch.full_like(t, 7, device="cpu"))  # as to_empty, at its worst
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.value(batch), net.value(batch))
    for own in (net, other):
        own.update_statistics(make_batch(**LENGTHS, with_global=True, seed=1))
    assert torch.equal(other.value(batch), net.value(batch))


def test_parameters_are_split_between_policy_and_value():
    shared = make_net(config=SMALL)
    assert list(shared.value_parameters()) == []
    assert len(list(shared.policy_parameters())) == len(list(shared.parameters()))
    net = make_net(config=SMALL, value_config=SMALL)
    policy, value = (
        {id(p) for p in part} for part in (net.policy_parameters(), net.value_parameters())
    )
    assert not policy & value
    assert policy | value == {id(p) for p in net.parameters()}
    # The loss of one leaves the other alone.
    output = net(make_batch(**LENGTHS))
    output.value.sum().backward()
    assert all(p.grad is None for p in net.policy_parameters())
    assert all(p.grad is not None for p in net.value_parameters())


def test_only_update_statistics_changes_the_statistics():
    batch = make_batch(**LENGTHS, with_global=True)
    net = make_net(with_global=True, config=SMALL, value_config=SMALL).train()
    buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
    net(batch)
    net.value(batch)
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in net.named_buffers())
    net.update_statistics(batch)
    for encoder in (net.encoder, net.value_encoder):
        mean = batch.entities["Mine"].values.double().mean(0)
        assert_close(encoder.embedding.types[0].norm.mean, mean)
        assert encoder.embedding.global_type.norm.count == 5


def test_a_bad_feature_leaves_the_statistics_of_all_types_untouched():
    batch = make_batch(**LENGTHS)
    batch.entities["Robot"].values[1, 0] = float("nan")
    net = make_net(config=SMALL)
    with pytest.raises(ValueError, match=r"(?s)'Robot': feature 'x' is not.*row 0 of frame 2"):
        net.update_statistics(batch)
    assert net.encoder.embedding.types[0].norm.count == 0


@pytest.mark.parametrize("with_gradients", [False, True])
def test_types_with_and_without_features_meet_under_autocast(with_gradients):
    # A type vector stays float32 there, a projection of features becomes bfloat16.
    space = ObsSpace(entities={"Hero": Entity(["x"]), "Wall": Entity([])})
    actions = {"Go": CategoricalActionSpace(["on"])}
    net = RaggedNet(space, actions, NetConfig(dim=32, layers=1))
    batch = EntityBatch(
        {
            "Hero": RaggedTensor.from_lengths(torch.randn(2, 1), [1, 1]),
            "Wall": RaggedTensor.from_lengths(torch.zeros(3, 0), [3, 0]),
        },
        torch.zeros(2, 0),
    )
    expected = net.value(batch)
    with torch.set_grad_enabled(with_gradients), torch.autocast("cpu", dtype=torch.bfloat16):
        value = net.value(batch)
    assert_close(value, expected, rtol=0.1, atol=0.1)
