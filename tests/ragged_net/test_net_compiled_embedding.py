"""The compiled embedding against torch's operations, and by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from net_support import GLOBAL_OBS, make_batch
from torch.testing import assert_close

from entity_env.errors import BatchError
from entity_env.spaces import Discrete, Entity, ObsSpace
from ragged_net import EntityBatch, EntityEmbedding, Layout, RaggedTensor, kernels
from ragged_net.compiled import embedding as compiled_embedding
from ragged_net.model.embedding import TypeEmbedding

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs Numba")

counts = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=90)
SPACE = ObsSpace(entities={"Robot": Entity(["x", Discrete("team", 3), "y"])})


def robots(*rows):
    """One frame."""
    values = RaggedTensor.from_lengths(torch.tensor(rows), [len(rows)])
    return EntityBatch({"Robot": values}, torch.zeros(1, 0))


def by_hand():
    embed = EntityEmbedding(SPACE, 2, with_global=False)
    with torch.no_grad():
        embed.types[0].project.weight.copy_(torch.tensor([[1.0, 10.0], [2.0, 20.0]]))
        embed.types[0].tables[0].weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 0.0], [100.0, 200]]))
        embed.types[0].type_vector.copy_(torch.tensor([1000.0, 2000.0]))
    return embed


def in_torch(monkeypatch):
    monkeypatch.setattr(compiled_embedding, "can_run", lambda *_: False)


@pytest.fixture
def ran(monkeypatch):
    """Return True if the compiled embedding was used."""
    calls, forward = [], compiled_embedding.EmbeddingLayer.forward
    noting = lambda *arguments: (calls.append(1), forward(*arguments))[1]  # noqa: E731
    monkeypatch.setattr(compiled_embedding.EmbeddingLayer, "forward", noting)
    return calls


def test_by_hand(ran):
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0], [-20.0, 0.0, 12.0])
    x = embed(batch, Layout.of(batch))
    # x = 3, team 2, y = 4: 3 * 1 + 4 * 10 + 100 + 1000 and 3 * 2 + 4 * 20 + 200 + 2000.
    # x = -20 counts as -10, y = 12 as 10: -10 * 1 + 10 * 10 + 1000, -10 * 2 + 10 * 20 + 2000.
    assert x.tolist() == [[1143.0, 2286.0], [1090.0, 2180.0]]
    assert ran
    (x * torch.tensor([[1.0, 0.0], [2.0, 5.0]])).sum().backward()
    kind = embed.types[0]
    # Column d of the gradient (1, 0; 2, 5) times the features (3, 4; -10, 10).
    assert kind.project.weight.grad.tolist() == [[3.0 - 20.0, 4.0 + 20.0], [-50.0, 50.0]]
    assert kind.type_vector.grad.tolist() == [3.0, 5.0]
    assert kind.tables[0].weight.grad.tolist() == [[2.0, 5.0], [0.0, 0.0], [1.0, 0.0]]


@settings(deadline=None, max_examples=40)
@given(counts, st.sampled_from([1, 8, 40]), st.booleans(), st.integers(0, 99))
def test_rows_and_gradients_are_those_of_torch(lengths, dim, with_global, seed):
    torch.manual_seed(seed)
    embed = EntityEmbedding(GLOBAL_OBS, dim, with_global)
    mines, robot_counts, cannons = map(list, zip(*lengths, strict=True))
    batch = make_batch(mines, robot_counts, cannons, with_global=with_global)
    embed.update_statistics(batch)
    layout = Layout.of(batch, with_global, tuple(GLOBAL_OBS.entities))
    weights, results = torch.randn(layout.num_rows, dim), []
    for compiled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not compiled:
                in_torch(patch)
            embed.zero_grad()
            x = embed(batch, layout)
            if layout.num_rows:
                assert (type(x.grad_fn).__name__ == "_ChainBackward") == compiled
                (x * weights).sum().backward()
            results.append((x.detach(), {n: p.grad for n, p in embed.named_parameters()}))
    (fast, fast_gradients), (slow, slow_gradients) = results
    assert_close(fast, slow, rtol=1e-5, atol=1e-5)
    for name, gradient in slow_gradients.items():
        assert_close(fast_gradients[name], gradient, rtol=1e-5, atol=1e-4)


def test_what_is_not_a_number_stays_so(ran):
    batch = robots([float("nan"), 0.0, 1.0], [1.0, 0.0, 1.0])
    x = by_hand()(batch, Layout.of(batch))
    assert x[0].isnan().all()
    assert x[1].isfinite().all()
    assert ran


@pytest.mark.parametrize("team", [3.0, -1.0, -0.5, float("nan")])
def test_a_discrete_feature_out_of_range(team):
    batch = robots([1.0, team, 1.0])
    with pytest.raises(BatchError, match="discrete feature"):
        by_hand()(batch, Layout.of(batch))


def test_features_with_a_gradient_get_it(ran):
    embed, values = by_hand(), torch.tensor([[3.0, 2.0, 4.0]], requires_grad=True)
    batch = EntityBatch({"Robot": RaggedTensor.from_lengths(values, [1])}, torch.zeros(1, 0))
    embed(batch, Layout.of(batch)).sum().backward()
    assert values.grad.tolist() == [[1.0 + 2.0, 0.0, 10.0 + 20.0]]
    assert not ran


def test_a_type_may_have_an_embedding_of_its_own(ran):
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0])
    embed.types[0] = torch.nn.Linear(3, 2)
    assert_close(embed(batch, Layout.of(batch)), embed.types[0](batch.entities["Robot"].values))
    assert not ran


def test_autocast_is_left_to_torch(ran):
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0])
    with torch.autocast("cpu"):
        embed(batch, Layout.of(batch))
    assert not ran


def test_double_precision_is_left_to_torch(ran):
    embed, batch = by_hand().double(), robots([3.0, 2.0, 4.0])
    assert embed(batch, Layout.of(batch)).dtype == torch.double
    assert not ran


@pytest.mark.parametrize(("count", "compiled"), [(32, True), (33, False)])
def test_many_features_are_left_to_torch(ran, monkeypatch, count, compiled):
    space = ObsSpace(entities={"Robot": Entity([f"f{i}" for i in range(count)])})
    values = RaggedTensor.from_lengths(torch.randn(2, count), [2])
    batch = EntityBatch({"Robot": values}, torch.zeros(1, 0))
    embed = EntityEmbedding(space, 32, with_global=False)
    rows = embed(batch, Layout.of(batch))
    assert bool(ran) == compiled
    in_torch(monkeypatch)
    assert_close(rows, embed(batch, Layout.of(batch)), rtol=1e-5, atol=1e-5)


def test_the_gradient_is_that_of_the_statistics_of_the_forward_pass():
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0], [1.0, 1.0, 1.0])
    x = embed(batch, Layout.of(batch))
    embed.update_statistics(batch)
    x.sum().backward()
    assert embed.types[0].project.weight.grad.tolist() == [[4.0, 5.0], [4.0, 5.0]]


def test_features_that_change_before_the_backward_pass_are_noticed():
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0])
    x = embed(batch, Layout.of(batch))
    batch.entities["Robot"].values.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


class Silent(TypeEmbedding):
    def forward(self, values):
        return 0 * super().forward(values)


def test_a_changed_embedding_of_a_type_is_asked(ran):
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0])
    embed.types[0] = Silent(SPACE.entities["Robot"].features, 2)
    assert embed(batch, Layout.of(batch)).tolist() == [[0.0, 0.0]]
    assert not ran


@pytest.mark.parametrize("change", ["vector", "weight", "table", "meta"])
def test_parts_that_do_not_fit_are_left_to_torch(ran, change):
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0])
    kind = embed.types[0]
    if change == "vector":
        kind.type_vector = torch.nn.Parameter(torch.zeros(4))
    elif change == "weight":
        kind.project = torch.nn.Linear(2, 4, bias=False)
    elif change == "table":
        kind.tables[0] = torch.nn.Embedding(3, 4)
    else:
        embed.to("meta")
    with pytest.raises(RuntimeError):
        embed(batch, Layout.of(batch))
    assert not ran


@pytest.mark.parametrize(
    "change",
    [{"padding_idx": 2}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}],
)
def test_a_table_that_does_more_than_look_up_is_left_to_torch(ran, change):
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0], [1.0, 2.0, 0.0])
    embed.types[0].tables[0] = torch.nn.Embedding(3, 2, **change)
    embed(batch, Layout.of(batch)).sum().backward()
    if "padding_idx" in change:
        assert embed.types[0].tables[0].weight.grad[2].tolist() == [0.0, 0.0]
    assert not ran


def test_a_column_that_the_features_do_not_have():
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0])
    embed.types[0].norm.columns[1] = 2**40
    with pytest.raises(BatchError, match="a column that the features do not have"):
        embed(batch, Layout.of(batch))


def test_places_outside_the_batch():
    embed, batch = by_hand(), robots([3.0, 2.0, 4.0])
    layout = Layout(torch.tensor([0, 1]), {"Robot": torch.tensor([1])}, None, 1)
    with pytest.raises(BatchError, match="without a place"):
        embed(batch, layout)
