import warnings

import pytest
import torch
from net_support import GLOBAL_OBS, OBS, make_batch
from torch.testing import assert_close

from entity_env.errors import BatchError
from entity_env.spaces import Discrete, Entity, ObsSpace
from ragged_net import EntityBatch, EntityEmbedding, Layout
from ragged_net.compiled import embedding as compiled_embedding
from ragged_net.model.embedding import TypeEmbedding


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


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_layout_that_does_not_fit(monkeypatch, grad, compiled):
    if not compiled:
        monkeypatch.setattr(compiled_embedding, "can_run", lambda *_: False)
    batch, other = make_batch([1], [2], [0], with_global=True), make_batch([0], [2], [0])
    embed = EntityEmbedding(GLOBAL_OBS, 8, with_global=True)
    with torch.set_grad_enabled(grad):
        with pytest.raises(BatchError, match="with_global=True"):
            embed(batch, Layout.of(batch))
        with pytest.raises(BatchError, match=r"places for 1 \+ 2 \+ 1 entities"):
            embed(batch, Layout.of(other, with_global=True))
        plain = EntityEmbedding(OBS, 8, with_global=False)
        with pytest.raises(BatchError, match="with_global=False"):
            plain(batch, Layout.of(batch, with_global=True))


def test_features_of_another_width():
    batch = make_batch([1], [2], [0])
    space = ObsSpace(entities={**OBS.entities, "Mine": Entity(["x", "y", "z"])})
    embed = EntityEmbedding(space, 8, with_global=False)
    with pytest.raises(BatchError, match="wrong width"):
        embed(batch, Layout.of(batch))


def test_the_batch_may_list_its_types_in_another_order():
    torch.manual_seed(0)
    embed, batch = EntityEmbedding(OBS, 8, with_global=False), make_batch([2, 0], [1, 2], [0, 1])
    turned = EntityBatch(dict(reversed(batch.entities.items())), batch.global_features)
    layout = Layout.of(turned)
    assert list(layout.dest) != list(OBS.entities)
    flat = embed(turned, layout)
    for name, kind in zip(OBS.entities, embed.types, strict=True):
        assert_close(flat[layout.dest[name]], kind(batch.entities[name].values))
