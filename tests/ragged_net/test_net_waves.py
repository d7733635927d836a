"""Sines and cosines of continuous features."""

import math

import pytest
import torch
from torch.testing import assert_close

from entity_env.errors import AdoptionError, SettingError
from entity_env.spaces import CategoricalActionSpace, Entity, ObsSpace
from ragged_net import NetConfig, RaggedNet, adopt
from ragged_net.model.embedding import EntityEmbedding, TypeEmbedding, Waves


def test_waves_by_hand():
    waves = Waves(columns=2, count=2, dim=8)
    with torch.no_grad():
        waves.project.weight.copy_(torch.eye(8))
    # Angles x pi / 4 and x pi / 2: of 1 they are 45 and 90 degrees, of -2 -90 and -180.
    half = math.sqrt(0.5)
    (row,) = waves(torch.tensor([[1.0, -2.0]])).tolist()
    assert row == pytest.approx([half, half, 1, 0, -1, 0, 0, -1], abs=1e-6)


def test_features_that_are_not_embedded_have_none():
    space = ObsSpace(entities={"Lift": Entity(["x", "y"]), "Floor": Entity([])})
    embed = EntityEmbedding(space, 16, False, {"Lift": ["x"]}, NetConfig(dim=16, waves=2))
    assert embed.types[0].waves.project.weight.shape == (16, 4)
    assert embed.types[1].waves is None
    attributes = EntityEmbedding(space, 16, False, None, NetConfig(embedding="attributes", waves=2))
    assert not any(isinstance(module, Waves) for module in attributes.modules())


def test_a_network_that_grows_keeps_them():
    act = {"go": CategoricalActionSpace(["a", "b"])}
    old = RaggedNet(ObsSpace(entities={"Lift": Entity(["x", "y"])}), act, NetConfig(waves=2))
    space = ObsSpace(entities={"Lift": Entity(["new", "y", "x"])})
    net = RaggedNet(space, act, NetConfig(waves=2))
    adopt(net, old)
    mine, theirs = (own.encoder.embedding.types[0].waves.project.weight for own in (net, old))
    assert not mine[:, :4].any()
    assert torch.equal(mine[:, 4:8], theirs[:, 4:])
    assert torch.equal(mine[:, 8:], theirs[:, :4])
    with pytest.raises(AdoptionError, match="waves"):
        adopt(RaggedNet(space, act, NetConfig(waves=3)), old)


@pytest.mark.parametrize("waves", [-1, 1.5, 17])
def test_numbers_of_waves_that_there_are_not(waves):
    with pytest.raises(SettingError, match="NetConfig: invalid waves"):
        NetConfig(waves=waves)


def test_it_trains_the_same_in_half_precision_and_moved():
    embed = TypeEmbedding(["x"], 8, waves=2)
    expected = embed(torch.ones(3, 1))
    moved = TypeEmbedding(["x"], 8, waves=2).to_empty(device="cpu")
    moved.load_state_dict(embed.state_dict())
    assert_close(moved(torch.ones(3, 1)), expected)
    assert embed.bfloat16()(torch.ones(3, 1)).dtype == torch.bfloat16
