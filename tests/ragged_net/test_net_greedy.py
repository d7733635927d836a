"""Greedy choices of actors that are alike: quantiles by hand, and actors that must part."""

from __future__ import annotations

import pytest
import torch
from net_support import SMALL, ragged
from torch.testing import assert_close

from entity_env import (
    CategoricalActionSpace,
    Entity,
    ObsSpace,
    SelectEntitiesActionSpace,
    SelectEntityActionSpace,
)
from ragged_net import CategoricalActors, EntityBatch, Pairs, RaggedNet, SelectActors, plain_torch
from ragged_net.heads.greedy import choice_at, pair_at, quantiles_of_alike

OBS = ObsSpace(entities={"Robot": Entity(["x"])})


def test_alike_actors_take_the_middles_of_equal_parts():
    # In frame 0 actors 0, 2 and 3 are alike; actor 1 chooses something else, actor 4 is less
    # certain, and actor 5 is in another frame.
    frames = torch.tensor([0, 0, 0, 0, 0, 1])
    chosen = torch.tensor([2, 1, 2, 2, 2, 2])
    log_prob = torch.tensor([0.600, 0.600, 0.602, 0.604, 0.5, 0.600]).log()
    found = quantiles_of_alike(frames, chosen, log_prob)
    assert_close(found, torch.tensor([1 / 6, 0, 1 / 2, 5 / 6, 0, 0], dtype=found.dtype))
    unlike = [0, 1, 4, 5]
    assert quantiles_of_alike(frames[unlike], chosen[unlike], log_prob[unlike]) is None
    one = torch.zeros(1, dtype=torch.int64)
    assert quantiles_of_alike(one, one, one.float()) is None


def test_actors_that_differ_are_not_alike_through_others_between_them():
    # Probabilities of 0.40, 0.41, ... 0.48 in three parts of a width of 0.03.
    zeros = torch.zeros(9, dtype=torch.int64)
    found = quantiles_of_alike(zeros, zeros, (0.4001 + 0.01 * torch.arange(9)).log())
    assert_close(found, torch.tensor([1, 3, 5] * 3) / 6, check_dtype=False)


def test_many_actors_follow_their_own_probabilities():
    probs = torch.linspace(0.4, 0.9999, 10_000)[torch.randperm(10_000)]
    zeros = torch.zeros(10_000, dtype=torch.int64)
    found = choice_at(
        quantiles_of_alike(zeros, zeros, probs.log()), torch.stack([probs, 1 - probs], 1)
    )
    for low, high in ((0.5, 0.6), (0.6, 0.8), (0.8, 0.97), (0.97, 1.0)):
        those = (probs >= low) & (probs < high)
        assert abs((found[those] == 0).float().mean() - probs[those].mean()) < 0.03


def test_actors_without_a_probability_are_alone():
    zeros = torch.zeros(2, dtype=torch.int64)
    assert quantiles_of_alike(zeros, zeros, torch.full((2,), float("nan"))) is None
    probs = torch.tensor([[0.5, 0.5], [float("nan")] * 2])
    assert choice_at(torch.tensor([0.75, 0.0]), probs).tolist() == [1, 0]
    assert quantiles_of_alike(zeros[:0], zeros[:0], torch.zeros(0)) is None


def test_quantiles_count_from_the_most_likely_choice():
    probs = torch.tensor([[0.2, 0.0, 0.45, 0.35]]).repeat(5, 1)
    quantiles = torch.tensor([0.0, 1 / 6, 1 / 2, 5 / 6, 1.0])
    assert choice_at(quantiles, probs).tolist() == [2, 2, 3, 0, 0]


def test_selections_are_divided_as_choices_are():
    torch.manual_seed(0)
    mask = ragged([[1, 1, 0, 1, 1, 1], [1, 0, 1, 1]], torch.bool)
    pairs = Pairs.of(SelectActors(ragged([[0, 1], [0]]), ragged([[0, 1, 2], [0, 1, 2, 3]]), mask))
    scores = torch.randn(10).masked_fill(~mask.values, float("-inf"))
    parts, starts = [scores[:3], scores[3:6], scores[6:]], torch.tensor([0, 3, 6])
    log_probs = torch.cat([part.log_softmax(0) for part in parts])
    for quantiles in torch.rand(50, 3):
        slow = [
            choice_at(quantile[None], part.softmax(0)[None])
            for quantile, part in zip(quantiles, parts, strict=True)
        ]
        assert torch.equal(pair_at(quantiles, log_probs, pairs), starts + torch.cat(slow))


def choose(space, actors, count, compiled=True):
    """Return what the robots of a frame of equal ones, and of one with a single robot, choose."""
    torch.manual_seed(1)
    net = RaggedNet(OBS, {"Act": space}, SMALL)
    features = {"Robot": ragged([[[1.0]] * count, [[1.0]]], torch.float32)}
    batch = EntityBatch(features, torch.zeros(2, 0), actions={"Act": actors})
    if compiled:
        return net(batch, greedy=True).actions["Act"]
    with plain_torch():
        return net(batch, greedy=True).actions["Act"]


@pytest.mark.parametrize("compiled", [True, False])
def test_equal_robots_part(compiled):
    actors = ragged([list(range(8)), [0]])
    own = CategoricalActors(actors, torch.ones(9, 4, dtype=torch.bool))
    made = choose(CategoricalActionSpace(["a", "b", "c", "d"]), own, 8, compiled)
    # Untrained probabilities are all near 1/4: two of eight robots for each choice.
    assert made.chosen.values[:8].bincount().tolist() == [2, 2, 2, 2]
    assert made.chosen.values[8] == made.probs[8].argmax()
    given = made.probs.gather(1, made.chosen.values[:, None])[:, 0]
    assert_close(made.log_prob.exp(), given)


def test_equal_robots_select_different_ones():
    actors = ragged([list(range(4)), [0]])
    own = SelectActors(actors, actors)
    assert choose(SelectEntityActionSpace(), own, 4).chosen.values[:4].unique().numel() == 4
    one = choose(SelectEntitiesActionSpace(at_most=1), own, 4).chosen.values[:4]
    assert one.unique().numel() >= 3
