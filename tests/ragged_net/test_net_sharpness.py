"""Temperature and top-k: probabilities by hand, and what is drawn with them."""

from __future__ import annotations

import math

import pytest
import torch
from net_support import ACTIONS, OBS, SMALL, ragged

from entity_env.errors import SettingError
from ragged_net import EntityBatch, Pairs, RaggedNet, SelectActors, plain_torch
from ragged_net.heads.categorical import CategoricalDist
from ragged_net.heads.continuous import ClippedNormal
from ragged_net.heads.select_entity import SelectDist

# Probabilities 0.6, 0.3, 0.1 and a forbidden choice.
LOGITS = torch.tensor([[0.6, 0.3, 0.1, 5.0]]).log()
MASK = torch.tensor([[True, True, True, False]])


def probs(temperature, top_k, logits=LOGITS, mask=MASK):
    return CategoricalDist(logits, mask).tempered(temperature, top_k).probs[0].tolist()


def test_a_temperature_of_a_half_squares_probabilities():
    # 0.36 + 0.09 + 0.01 = 0.46
    assert probs(0.5, 0) == pytest.approx([0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46, 0])
    roots = [math.sqrt(p) for p in (0.6, 0.3, 0.1)]
    assert probs(2.0, 0) == pytest.approx([root / sum(roots) for root in roots] + [0])


def test_top_k_leaves_the_most_probable_and_those_as_probable():
    assert probs(1.0, 1) == pytest.approx([1, 0, 0, 0])
    assert probs(1.0, 2) == pytest.approx([2 / 3, 1 / 3, 0, 0])
    for top_k in (0, 3, 4, 100):
        assert probs(1.0, top_k) == pytest.approx([0.6, 0.3, 0.1, 0])
    even = torch.tensor([[1.0, 0.0, 0.0, -1.0]])
    every = torch.ones_like(MASK)
    e = math.e
    assert probs(1.0, 2, even, every) == pytest.approx([e / (e + 2), 1 / (e + 2), 1 / (e + 2), 0])


@pytest.mark.parametrize("top_k", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_selections_are_sharpened_as_categories_are(top_k, temperature):
    torch.manual_seed(0)
    mask = ragged([[1, 1, 0, 1, 1, 1], [1, 0, 1, 1]], torch.bool)
    actors = SelectActors(ragged([[0, 1], [0]]), ragged([[0, 1, 2], [0, 1, 2, 3]]), mask)
    pairs = Pairs.of(actors)
    scores = torch.randint(0, 3, (10,)).float()  # with ties
    scores = scores.masked_fill(~mask.values, float("-inf"))
    parts = [scores[:3], scores[3:6], scores[6:]]
    log_probs = torch.cat([part.log_softmax(0) for part in parts])
    own = SelectDist(log_probs, pairs).tempered(temperature, top_k).probs
    slow = []
    for part in parts:
        one = CategoricalDist(part[None], (part > float("-inf"))[None])
        slow.append(one.tempered(temperature, top_k).probs[0])
    torch.testing.assert_close(own, torch.cat(slow))


def test_of_a_gaussian_the_variance_is_multiplied():
    one = torch.ones(1)
    own = ClippedNormal(torch.zeros(1, 1), one / 2, -one, one, 0 * one, one).tempered(4.0)
    assert own.stds.tolist() == [[1.0]]


def frames(count=400):
    """Frames with a robot that moves and fires at one of three mines."""
    from ragged_net import CategoricalActors

    torch.manual_seed(1)
    ids, every = torch.arange(count), torch.ones(count, 4, dtype=torch.bool)
    robots = torch.stack([torch.zeros(count), torch.ones(count), ids % 3], 1)
    return EntityBatch(
        {
            "Mine": ragged([[0.0, 1.0, 2.0]] * count, torch.float32).with_values(
                torch.randn(3 * count, 2)
            ),
            "Robot": ragged([[0]] * count).with_values(robots.float()),
            "Orbital Cannon": ragged([[]] * count).with_values(torch.zeros(0, 0)),
        },
        torch.zeros(count, 0),
        actions={
            "Move": CategoricalActors(ragged([[3]] * count), every),
            "Fire": SelectActors(ragged([[3]] * count), ragged([[0, 1, 2]] * count)),
        },
    )


@pytest.mark.parametrize("plain", [False, True])
def test_the_network_draws_from_what_it_says(plain):
    net, batch = RaggedNet(OBS, ACTIONS, SMALL), frames()
    if plain:
        with plain_torch():
            output = net(batch, temperature=0.5, top_k=2)
    else:
        output = net(batch, temperature=0.5, top_k=2)
    usual = net(batch)
    move, fire = output.actions["Move"], output.actions["Fire"]
    assert ((move.probs > 0).sum(1) == 2).all()
    assert (move.probs.gather(1, move.chosen.values[:, None]) > 0).all()
    assert ((fire.probs.values.view(-1, 3) > 0).sum(1) == 2).all()
    torch.testing.assert_close(
        move.log_prob, move.probs.gather(1, move.chosen.values[:, None])[:, 0].log()
    )
    best = usual.actions["Move"].probs.topk(2, 1).values ** 2
    torch.testing.assert_close(move.probs.max(1).values, best[:, 0] / best.sum(1))
    # And with the same numbers, as without them.
    torch.testing.assert_close(
        net(batch, temperature=1.0, top_k=0).actions["Move"].probs, usual.actions["Move"].probs
    )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"temperature": 0}, "greedy=True"),
        ({"temperature": -1.0}, "> 0"),
        ({"temperature": math.nan}, "> 0"),
        ({"temperature": True}, "> 0"),
        ({"temperature": "hot"}, "> 0"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
    ],
)
def test_impossible_sharpness_is_refused(how, words):
    with pytest.raises(SettingError, match=words):
        RaggedNet(OBS, ACTIONS, SMALL)(frames(1), **how)
