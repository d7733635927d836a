"""The clipped Gaussian: against torch.distributions, numerical integrals, and its own draws."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Normal

from entity_env.errors import ActionError, BatchError, DtypeError
from entity_env.spaces import (
    CategoricalActionSpace,
    ContinuousActionSpace,
    Entity,
    GlobalContinuousActionSpace,
    ObsSpace,
)
from ragged_net import (
    ContinuousActors,
    ContinuousHead,
    EntityBatch,
    GrowingBatch,
    NetConfig,
    RaggedNet,
    RaggedTensor,
)
from ragged_net.heads.continuous import ClippedNormal, ContinuousHeadKind

SPACE = ContinuousActionSpace([-2, 0, None, None], [2, None, 1, None])


def dist(mean, space=SPACE, std=0.7, dtype=torch.float32):
    """The distribution with these means (A, K), in units from the centres."""
    head = ContinuousHead(4, space).to(dtype)
    mean = torch.tensor(mean, dtype=dtype)
    stds = torch.full((len(space),), std, dtype=dtype)
    return ClippedNormal(mean, stds, head.low, head.high, head.centre, head.unit)


def reference(own, values):
    """The log-probability of each number (A, K), by torch.distributions, one at a time."""
    normal = Normal(own.means.double(), own.stds.double())
    low, high, units = own.low.double(), own.high.double(), own.unit.double()
    result = torch.empty(values.shape, dtype=torch.float64)
    for a in range(values.shape[0]):
        for k in range(values.shape[1]):
            value = values[a, k].double()
            here = Normal(normal.loc[a, k], normal.scale[a, k])
            if value <= low[k]:
                result[a, k] = here.cdf(low[k]).log()
            elif value >= high[k]:
                result[a, k] = (1 - here.cdf(high[k])).log()
            else:  # a density over numbers measured in units is larger by a unit
                result[a, k] = here.log_prob(value) + units[k].log()
    return result


def test_log_probabilities_are_those_of_torch_distributions():
    torch.manual_seed(0)
    own = dist(torch.randn(200, 4).tolist())
    values = own.draw()
    assert (values == own.low).any()
    assert (values == own.high).any()
    expected = reference(own, values).sum(1)
    torch.testing.assert_close(own.log_prob(values).double(), expected, atol=1e-4, rtol=1e-4)


def test_a_number_by_hand():
    # From -2 to 2 the centre is 0 and the unit 2. A mean of 0.5 units and a deviation of 0.5 are
    # 1 +- 1 for the environment. The bound 2 lies one deviation above: P(Z > 1) = 0.158655.
    own = dist([[0.5]], ContinuousActionSpace(-2, 2), std=0.5)
    assert own.means.tolist() == [[1.0]]
    assert own.stds.tolist() == [[1.0]]
    at_bound = own.log_prob(torch.tensor([[2.0]]))
    assert float(at_bound) == pytest.approx(math.log(0.158655), abs=1e-5)
    # At the mean: -log(0.5) - log(2 pi) / 2 = 0.693147 - 0.918939.
    assert float(own.log_prob(torch.tensor([[1.0]]))) == pytest.approx(-0.225791, abs=1e-5)
    # Greedily the mean, and the bound where the mean lies beyond it.
    assert own.draw(greedy=True).tolist() == [[1.0]]
    assert dist([[1.5]], ContinuousActionSpace(-2, 2)).draw(greedy=True).tolist() == [[2.0]]


def test_later_actions_are_told_numbers_in_units():
    # From -2 to 6 the centre is 2 and the unit 4.
    head = ContinuousHead(4, ContinuousActionSpace(-2, 6))
    chosen = torch.tensor([[-2.0], [2.0], [6.0]])
    told = ContinuousHeadKind().spell(torch.nn.Identity(), head, chosen, None, None)
    assert told.tolist() == [[-1.0], [0.0], [1.0]]


def test_probabilities_add_up_to_1_and_entropies_to_their_integral():
    space = ContinuousActionSpace(-2, 6)
    own = dist([[0.3]], space, std=0.8, dtype=torch.float64)
    x = torch.linspace(-2, 6, 200_003, dtype=torch.float64)[1:-1, None]
    inside = own.log_prob(x)  # one actor's mean, broadcast over all x
    step = (6 - -2) / 200_002 / float(own.unit)  # in units
    bounds = own.log_prob(torch.tensor([[-2.0], [6.0]], dtype=torch.float64))
    total = float(inside.exp().sum() * step + bounds.exp().sum())
    assert total == pytest.approx(1, abs=1e-4)
    by_sum = -float((inside.exp() * inside).sum() * step + (bounds.exp() * bounds).sum())
    assert float(own.entropy()) == pytest.approx(by_sum, abs=1e-4)


def test_without_bounds_the_entropy_is_a_gaussian_s():
    own = dist([[0.3]], ContinuousActionSpace(None, None), std=0.8)
    assert float(own.entropy()) == pytest.approx(float(Normal(0, 0.8).entropy()), abs=1e-6)


def test_gradients_are_those_of_differences_and_finite_everywhere():
    mean = torch.tensor([[0.2, -0.5, 0.9, 0.0]], dtype=torch.float64, requires_grad=True)
    std = torch.tensor([0.5, 0.6, 0.7, 0.8], dtype=torch.float64, requires_grad=True)
    head = ContinuousHead(4, SPACE).double()
    parts = head.low, head.high, head.centre, head.unit
    for values in ([[-2.0, 0, 1, 3]], [[2.0, 1, 0, -3]], [[0.5, 2, -1, 0]]):
        chosen = torch.tensor(values, dtype=torch.float64)
        assert torch.autograd.gradcheck(
            lambda m, s, c=chosen: ClippedNormal(m, s, *parts).log_prob(c), (mean, std)
        )
    assert torch.autograd.gradcheck(lambda m, s: ClippedNormal(m, s, *parts).entropy(), (mean, std))
    far = torch.tensor([[40.0, -40, 40, 1e6]], requires_grad=True)
    own = ClippedNormal(far, torch.full((4,), 0.5), *(part.float() for part in parts))
    (own.log_prob(own.draw(greedy=True)) + own.entropy()).sum().backward()
    assert far.grad.isfinite().all()


def test_draws_are_as_likely_as_they_say():
    torch.manual_seed(1)
    own = dist([[0.6]], ContinuousActionSpace(-1, 1), std=0.5)
    many = ClippedNormal(own.mean.expand(200_000, 1), *list(vars(own).values())[1:])
    values = many.draw()
    # P(at 1) = P(Z > 0.8) = 0.2119, P(at -1) = P(Z < -3.2) = 0.0007, P(< 0.6) = 0.5.
    assert float((values == 1).float().mean()) == pytest.approx(0.2119, abs=0.004)
    assert float((values == -1).float().mean()) == pytest.approx(0.0007, abs=0.0004)
    assert float((values < 0.6).float().mean()) == pytest.approx(0.5, abs=0.005)
    # The mean of -log p is the entropy.
    assert float(-many.log_prob(values).mean()) == pytest.approx(float(own.entropy()), abs=0.01)


OBS = ObsSpace(["g"], {"Gun": Entity(["x", "y"]), "Rock": Entity(["x"])})
ACTIONS = {
    "Angle": ContinuousActionSpace([-2, -1], [2, 1]),
    "Wind": GlobalContinuousActionSpace([0, None], [10, None]),
    "Move": CategoricalActionSpace(["a", "b", "c"]),
}


def batch(guns, rocks, seed=0):
    """Frames with these numbers of guns and rocks; all guns aim and move, the player winds."""
    from ragged_net import CategoricalActors

    torch.manual_seed(seed)
    lengths, others = torch.tensor(guns), torch.tensor(rocks)
    index = torch.cat([torch.arange(count) for count in guns])
    once = torch.ones(len(guns), dtype=torch.int64)
    actors = RaggedTensor.from_lengths(index, lengths)
    return EntityBatch(
        {
            "Gun": RaggedTensor.from_lengths(torch.randn(sum(guns), 2), lengths),
            "Rock": RaggedTensor.from_lengths(torch.randn(sum(rocks), 1), others),
        },
        torch.randn(len(guns), 1),
        actions={
            "Angle": ContinuousActors(actors),
            "Wind": ContinuousActors(RaggedTensor.from_lengths(lengths + others, once)),
            "Move": CategoricalActors(actors, torch.ones(sum(guns), 3, dtype=torch.bool)),
        },
    )


def make_net():
    torch.manual_seed(3)
    net = RaggedNet(OBS, ACTIONS, NetConfig(dim=32, layers=1))
    with torch.no_grad():
        for head in net.heads:
            if isinstance(head, ContinuousHead):
                head.mean.weight.normal_()
    return net


def values_of(output):
    return {name: own.chosen.values for name, own in output.actions.items()}


@pytest.mark.parametrize("guns", [[2, 0, 1], [0, 0], [1], [500]])
def test_the_network_sets_numbers_and_says_their_probability_again(guns):
    net, frames = make_net(), batch(guns, [1] * len(guns))
    output = net(frames)
    for name in ("Angle", "Wind"):
        own, space = output.actions[name], ACTIONS[name]
        actors = frames.actions[name].actors
        assert own.chosen.values.shape == (actors.num_rows, 2)
        assert own.chosen.values.dtype == torch.float32
        assert own.mean.shape == own.std.shape == own.chosen.values.shape
        assert own.probs is None
        assert own.log_prob.shape == own.entropy.shape == (actors.num_rows,)
        low, high = (torch.tensor(bound) for bound in space.inner_bounds)
        assert ((own.chosen.values >= low) & (own.chosen.values <= high)).all()
    for trusted in (False, True):
        again = net(frames, given=values_of(output), trusted=trusted)
        for name, own in output.actions.items():
            assert torch.equal(again.actions[name].log_prob, own.log_prob)


def test_batches_grow_move_and_join():
    one, two = batch([1, 2], [0, 1]), batch([0], [3], seed=1)
    grown = GrowingBatch(2)
    grown.add(one)
    grown.add(two)
    assert grown.all().actions["Angle"].actors.lengths.tolist() == [1, 2, 0]
    assert EntityBatch.cat([one, two]).actions["Wind"].actors.values.tolist() == [1, 3, 3]
    net = make_net()
    parts = [net(own, greedy=True) for own in (one, two)]
    joined = type(parts[0]).cat(parts)
    whole = net(EntityBatch.cat([one, two]), greedy=True)
    torch.testing.assert_close(joined.actions["Angle"].mean, whole.actions["Angle"].mean)
    assert joined.actions["Wind"].chosen.num_rows == 3


def test_numbers_that_cannot_be_are_refused():
    net, frames = make_net(), batch([2], [0])
    good = values_of(net(frames))
    for bad, error, words in [
        (torch.full((2, 2), 5.0), ActionError, "from -2 to 2"),
        (torch.full((2, 2), math.nan), ActionError, "number 0 of actor 0"),
        (torch.zeros(2), BatchError, r"\(2, 2\)"),
        (torch.zeros(2, 2, dtype=torch.int64), DtypeError, "float32"),
    ]:
        with pytest.raises(error, match=words):
            net(frames, given={**good, "Angle": bad})
    actions = {**frames.actions, "Angle": frames.actions["Move"]}
    with pytest.raises(BatchError, match="ContinuousActors"):
        net(EntityBatch(frames.entities, frames.global_features, actions=actions))
    other = EntityBatch(frames.entities, frames.global_features, actions=actions)
    with pytest.raises(BatchError, match="CategoricalActors and ContinuousActors"):
        EntityBatch.cat([other, frames])
