import math

import pytest
import torch
from net_support import ragged, random_mask
from torch.testing import assert_close

from ragged_net import (
    CategoricalHead,
    Pairs,
    RaggedTensor,
    SelectActors,
    SelectEntityHead,
    ValueHead,
)
from ragged_net.heads.categorical import CategoricalDist
from ragged_net.heads.kind import gumbel_like
from ragged_net.heads.select_entity import SelectDist


def categorical(probs, mask):
    """The distribution with the given probabilities, made by a head whose logits are its input."""
    probs = torch.tensor(probs)
    head = CategoricalHead(probs.shape[1], probs.shape[1])
    with torch.no_grad():
        head.logits.weight.copy_(torch.eye(probs.shape[1]))
    return head(probs.log(), torch.tensor(mask))


def select_action(seed=0):
    """Frames with 2 x 3, 0 x 2, 1 x 1, 0 x 0 and 3 x 2 pairs, about half of them allowed."""
    torch.manual_seed(seed)
    actors = ragged([[3, 4], [], [1], [], [0, 1, 2]])
    actees = ragged([[2, 0, 1], [0, 1], [0], [], [3, 4]])
    masks = [random_mask(a, e).flatten() for a, e in ((2, 3), (1, 1), (3, 2))]
    mask = RaggedTensor.from_lengths(torch.cat(masks), [6, 0, 1, 0, 6])
    return SelectActors(actors, actees, mask)


def test_categorical_by_hand():
    # Choices 1, 3, 4 of 8 parts; the last is forbidden: 1/4 and 3/4 remain.
    dist = categorical([[1 / 8, 3 / 8, 4 / 8]], [[True, True, False]])
    assert_close(dist.probs, torch.tensor([[0.25, 0.75, 0.0]]))
    assert_close(dist.log_prob(torch.tensor([1])), torch.tensor([math.log(0.75)]))
    entropy = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert_close(dist.entropy(), torch.tensor([entropy]))
    assert dist.draw(greedy=True).tolist() == [1]


def test_a_single_choice_has_no_entropy():
    dist = categorical([[0.2, 0.8]], [[True, False]])
    assert dist.entropy().tolist() == [0.0]
    assert dist.log_prob(torch.tensor([0])).tolist() == [0.0]


def test_select_by_hand():
    # Scores q k / sqrt(1): actor 0 has q = 1, actees k = ln 1, ln 3, ln 4, the last forbidden.
    # Actor 1 has q = 0: three equal chances.
    head = SelectEntityHead(1)
    with torch.no_grad():
        for layer in (head.query, head.key):
            layer.weight.fill_(1.0)
    mask = ragged([[True, True, False, True, True, True]], torch.bool)
    pairs = Pairs.of(SelectActors(ragged([[5, 6]]), ragged([[4, 0, 2]]), mask))
    keys = torch.tensor([[1.0], [3.0], [4.0]]).log()
    dist = head(torch.tensor([[1.0], [0.0]]), keys, pairs)
    assert_close(dist.probs, torch.tensor([0.25, 0.75, 0.0, 1 / 3, 1 / 3, 1 / 3]))
    entropy = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert_close(dist.entropy(), torch.tensor([entropy, math.log(3.0)]))
    # Actor 0 selects entity 0, the second actee; actor 1 entity 2, the third one: pairs 1 and 5.
    found = dist.find(torch.tensor([0, 2]))
    assert found.tolist() == [1, 5]
    assert_close(dist.log_prob(found), torch.tensor([math.log(0.75), -math.log(3.0)]))
    # Entity 2 is forbidden to actor 0, and entity 5 is no actee: six pairs, so 6 stands for none.
    assert dist.find(torch.tensor([2, 5])).tolist() == [6, 6]
    assert dist.draw(greedy=True).tolist() == [1, 3]


def test_the_score_is_scaled_by_the_root_of_the_width():
    head = SelectEntityHead(4)
    with torch.no_grad():
        for layer in (head.query, head.key):
            layer.weight.copy_(torch.eye(4))
    pairs = Pairs.of(SelectActors(ragged([[0]]), ragged([[0, 1]])))
    keys = torch.stack([torch.ones(4), torch.zeros(4)])
    dist = head(torch.ones(1, 4), keys, pairs)
    # Scores 4 / sqrt(4) = 2 and 0.
    assert_close(dist.probs[0], torch.tensor(1 / (1 + math.exp(-2))))


def test_pairs_by_hand():
    pairs = Pairs.of(SelectActors(ragged([[7, 8], [], [9]]), ragged([[1, 2], [3], [4]])))
    assert pairs.actor.tolist() == [0, 0, 1, 1, 2]
    assert pairs.actee.tolist() == [0, 1, 0, 1, 3]
    assert pairs.entity.tolist() == [1, 2, 1, 2, 4]
    assert pairs.frame_offsets.tolist() == [0, 4, 4, 5]
    assert pairs.allowed_counts().tolist() == [2, 2, 1]


@pytest.mark.parametrize("masked", [True, False])
def test_select_equals_one_frame_at_a_time(masked):
    action = select_action()
    if not masked:
        action = SelectActors(action.actors, action.actees)
    head = SelectEntityHead(8)
    x, y = torch.randn(action.actors.num_rows, 8), torch.randn(action.actees.num_rows, 8)
    dist = head(x, y, Pairs.of(action))
    log_probs, entropies = [], []
    a, e, p = action.actors.offsets, action.actees.offsets, action.pair_lengths().cumsum(0)
    for b in range(action.actors.num_frames):
        query, key = head.query(x[a[b] : a[b + 1]]), head.key(y[e[b] : e[b + 1]])
        if not query.shape[0]:
            continue
        scores = query @ key.T / 8**0.5
        if masked:
            count = query.shape[0] * key.shape[0]
            mask = action.mask.values[p[b] - count : p[b]].view_as(scores)
            scores = scores.masked_fill(~mask, float("-inf"))
        logs = scores.log_softmax(-1)
        log_probs.append(logs.flatten())
        entropies.append(torch.distributions.Categorical(probs=logs.exp()).entropy())
    assert_close(dist.log_probs, torch.cat(log_probs), rtol=1e-5, atol=1e-5)
    # torch clamps the probabilities in its entropy by 1e-7.
    assert_close(dist.entropy(), torch.cat(entropies), rtol=1e-4, atol=1e-4)


def test_categorical_draws_follow_the_probabilities():
    # 40,000 draws: the deviation of a frequency is at most sqrt(0.25 / 40000) = 0.0025.
    dist = categorical([[0.1, 0.2, 0.3, 0.4]], [[True, False, True, True]])
    many = CategoricalDist(dist.log_probs.expand(40_000, 4), dist.mask.expand(40_000, 4))
    drawn = many.draw(torch.Generator().manual_seed(1))
    frequencies = drawn.bincount(minlength=4) / 40_000
    assert_close(frequencies, torch.tensor([1 / 8, 0.0, 3 / 8, 4 / 8]), rtol=0, atol=0.0125)
    assert frequencies[1] == 0


def test_select_draws_follow_the_probabilities():
    # 20,000 frames with two actors and three actees; pairs of actor 0: 1/4, 3/4, forbidden.
    count = 20_000
    mask = torch.tensor([True, True, False, True, True, True]).repeat(count)
    actors = RaggedTensor.from_lengths(torch.tensor([3, 4]).repeat(count), [2] * count)
    actees = RaggedTensor.from_lengths(torch.tensor([0, 1, 2]).repeat(count), [3] * count)
    action = SelectActors(actors, actees, RaggedTensor.from_lengths(mask, [6] * count))
    log_probs = torch.tensor([0.25, 0.75, 0.0, 0.2, 0.5, 0.3]).log().repeat(count)
    dist = SelectDist(log_probs, Pairs.of(action))
    pairs = dist.draw(torch.Generator().manual_seed(2)) % 6
    frequencies = pairs.bincount(minlength=6) / count
    expected = torch.tensor([0.25, 0.75, 0.0, 0.2, 0.5, 0.3])
    assert_close(frequencies, expected, rtol=0, atol=0.02)
    assert frequencies[2] == 0


def test_the_generator_decides_the_draw():
    dist = categorical([[0.25] * 4] * 50, [[True] * 4] * 50)
    one, two, three = (dist.draw(torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_noise_is_finite_even_where_the_uniform_noise_is_zero(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "exponential_", lambda self, generator=None: self.zero_())
    assert torch.isfinite(gumbel_like(torch.zeros(3), None)).all()


def test_zero_actors():
    dist = CategoricalHead(4, 3)(torch.zeros(0, 4), torch.zeros(0, 3, dtype=torch.bool))
    for dtype, tensor in ((torch.int64, dist.draw()), (torch.float32, dist.entropy())):
        assert (tensor.shape, tensor.dtype) == ((0,), dtype)
    pairs = Pairs.of(SelectActors(ragged([[], []]), ragged([[0, 1], []])))
    dist = SelectEntityHead(4)(torch.zeros(0, 4), torch.zeros(2, 4), pairs)
    assert dist.draw().shape == dist.entropy().shape == dist.log_prob(dist.draw()).shape == (0,)


@pytest.mark.parametrize("kind", ["categorical", "select"])
def test_gradients_are_finite_under_masks_and_extreme_logits(kind):
    for scale in (1.0, 1e4):
        x, y = torch.randn(6, 8) * scale, torch.randn(8, 8)
        x.requires_grad_()
        if kind == "categorical":
            dist = CategoricalHead(8, 4)(x, random_mask(6, 4))
        else:
            dist = SelectEntityHead(8)(x, y, Pairs.of(select_action()))
        chosen = dist.draw()
        (dist.log_prob(chosen).sum() + dist.entropy().sum() + dist.probs.square().sum()).backward()
        assert torch.isfinite(dist.entropy()).all()
        assert torch.isfinite(dist.log_prob(chosen)).all()
        assert torch.isfinite(x.grad).all()


def test_first_policies_are_nearly_uniform():
    torch.manual_seed(0)
    x = torch.randn(6, 64)
    dist = CategoricalHead(64, 4)(x, torch.ones(6, 4, dtype=torch.bool))
    assert_close(dist.probs, torch.full((6, 4), 0.25), rtol=0, atol=0.03)
    action = select_action()
    pairs = Pairs.of(SelectActors(action.actors, action.actees))
    dist = SelectEntityHead(64)(x, torch.randn(8, 64), pairs)
    assert_close(dist.probs[:6], torch.full((6,), 1 / 3), rtol=0, atol=0.03)


def test_values_are_those_of_the_mlp():
    torch.manual_seed(0)
    head = ValueHead(4)
    means = torch.randn(3, 4)
    assert_close(head(means), head.mlp(means).squeeze(-1))
