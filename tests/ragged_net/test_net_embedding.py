import warnings

import pytest
import torch
from net_support import GLOBAL_OBS, OBS, make_batch
from torch.testing import assert_close

from entity_env.spaces import Discrete
from ragged_net import EntityEmbedding, Layout
from ragged_net.embedding import TypeEmbedding
from ragged_net.errors import ShapeError


def test_a_row_is_the_sum_of_its_parts():
    embed = TypeEmbedding(["x", Discrete("team", 3), "y"], 2)
    with torch.no_grad():
        embed.project.weight.copy_(torch.tensor([[1.0, 10.0], [2.0, 20.0]]))
        embed.tables[0].weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 0.0], [100.0, 200.0]]))
        embed.type_vector.copy_(torch.tensor([1000.0, 2000.0]))
    # x = 3, team 2, y = 4: 3 * 1 + 4 * 10 + 100 + 1000 and 3 * 2 + 4 * 20 + 200 + 2000.
    assert embed(torch.tensor([[3.0, 2.0, 4.0]])).tolist() == [[1143.0, 2286.0]]


def test_a_type_without_features_is_its_type_vector():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embed = TypeEmbedding([], 4)
    assert torch.equal(embed(torch.zeros(2, 0)), embed.type_vector.expand(2, 4))


def test_flat_order():
    torch.manual_seed(0)
    embed = EntityEmbedding(GLOBAL_OBS, 8, with_global=True)
    batch = make_batch([2, 0], [1, 2], [0, 1], with_global=True)
    x = embed(batch, Layout.of(batch, with_global=True))
    parts = zip(OBS.entities, embed.types, strict=True)
    mine, robot, cannon = (part(batch.entities[name].values) for name, part in parts)
    total = embed.global_type(batch.global_features)
    # Frame 0: two mines, a robot, global. Frame 1: two robots, a cannon, global.
    expected = [mine[0], mine[1], robot[0], total[0], robot[1], robot[2], cannon[0], total[1]]
    assert_close(x, torch.stack(expected), rtol=1e-6, atol=1e-6)


def test_the_gradient_reaches_every_part():
    torch.manual_seed(0)
    embed = EntityEmbedding(OBS, 8, with_global=False)
    batch = make_batch([2, 0], [1, 2], [0, 1])
    x = embed(batch, Layout.of(batch))
    x.sum().backward()
    # The sum's gradient is 1 everywhere, so a type vector's is the number of its rows.
    counts = [int(part.type_vector.grad[0]) for part in embed.types]
    assert counts == [2, 3, 1]
    assert torch.isfinite(embed.types[1].tables[0].weight.grad).all()


def test_no_entities_at_all():
    batch = make_batch([0, 0], [0, 0], [0, 0])
    assert EntityEmbedding(OBS, 8, with_global=False)(batch, Layout.of(batch)).shape == (0, 8)


def test_a_layout_without_global_entities():
    batch = make_batch([1], [0], [0], with_global=True)
    with pytest.raises(ShapeError, match="with_global=True"):
        EntityEmbedding(GLOBAL_OBS, 8, with_global=True)(batch, Layout.of(batch))
