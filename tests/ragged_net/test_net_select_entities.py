"""The head that selects sets: log-probabilities, entropies and gradients against enumeration."""

import itertools
import math
import random
from collections import Counter

import pytest
import torch

from entity_env import Entity, ObsSpace, SelectEntitiesActionSpace
from entity_env.errors import ActionError, BatchError, DtypeError
from ragged_net import EntityBatch, NetConfig, Pairs, RaggedNet, RaggedTensor, SelectActors
from ragged_net.heads.kind import Draw
from ragged_net.heads.select_entities import SelectEntitiesHead, SetDist

WIDTH = 4


def action(actors, actees, mask=None):
    """Actors and actees, entity indices of each frame."""
    ragged = [
        RaggedTensor.from_lengths(
            torch.tensor([i for own in parts for i in own], dtype=torch.int64),
            torch.tensor([len(own) for own in parts]),
        )
        for parts in (actors, actees)
    ]
    if mask is not None:
        lengths = torch.tensor([len(a) * len(e) for a, e in zip(actors, actees, strict=True)])
        mask = RaggedTensor.from_lengths(torch.tensor(mask), lengths)
    return SelectActors(*ragged, mask)


def head_of(at_most, seed=0, scale=3.0):
    """A head in double precision that has preferences."""
    torch.manual_seed(seed)
    head = SelectEntitiesHead(WIDTH, at_most).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_()
        head.query.weight.mul_(scale / 2)
    return head


def dist_of(head, own, seed=0):
    torch.manual_seed(seed)
    rows = torch.randn(own.actors.num_rows, WIDTH).double()
    actees = torch.randn(own.actees.num_rows, WIDTH).double()
    return SetDist(head, rows, actees, Pairs.of(own))


def draw(**changes):
    return Draw(**{"given": None, "generator": None, "greedy": False, "trusted": False, **changes})


def slow_steps(head, own, actor, actees, entities, order):
    """The options and probabilities of each step of one actor that selects ``order``."""
    steps, left = [], list(range(len(entities)))
    for step in range(head.at_most):
        query = head.query(own[actor])
        keys = [head.stop, *(head.key(actees[i]) for i in left)]
        scores = [float(query @ key) / math.sqrt(WIDTH) for key in keys]
        total = sum(map(math.exp, scores))
        probs = [math.exp(score) / total for score in scores]
        options = [-1, *(entities[i] for i in left)]
        steps.append(dict(zip(options, probs, strict=True)))
        if step == len(order):  # the stop
            break
        place = entities.index(order[step])
        left.remove(place)
        both = torch.cat([own[actor], actees[place]])
        own = own.clone()
        own[actor] = own[actor] + head.mix(head.hear(both).relu())
    return steps


def orders(entities, at_most):
    """All that an actor can select, in all orders."""
    for size in range(min(at_most, len(entities)) + 1):
        yield from itertools.permutations(entities, size)


def padded(order, at_most):
    return torch.tensor([*order, *[-1] * (at_most - len(order))])


@torch.no_grad()
def test_log_probabilities_and_entropies_are_those_of_a_slow_reference_that_enumerates():
    own = action(
        [[3, 0], [], [2]], [[0, 1, 4], [1], [5]], [True, True, False, True, True, True, True]
    )
    head = head_of(2)
    dist = dist_of(head, own)
    every = [  # of each actor: the entities it may select, the rows of these
        ([0, 1], [0, 1]),
        ([0, 1, 4], [0, 1, 2]),
        ([5], [4]),
    ]
    for actor, (entities, rows) in enumerate(every):
        total, expected_entropy, mean_entropy = 0.0, 0.0, 0.0
        for order in orders(entities, 2):
            given = torch.full((3, 2), -1)
            given[actor] = padded(order, 2)
            walk = dist.walk(draw(), given)
            steps = slow_steps(head, dist.actors, actor, dist.actees[rows], entities, order)
            chosen = [*order, -1][: len(steps)]
            log_prob = sum(math.log(s[c]) for s, c in zip(steps, chosen, strict=True))
            entropy = -sum(p * math.log(p) for s in steps for p in s.values())
            assert float(walk.log_prob[actor]) == pytest.approx(log_prob, abs=1e-9)
            assert float(walk.entropy[actor]) == pytest.approx(entropy, abs=1e-9)
            probability = math.exp(log_prob)
            total += probability
            expected_entropy -= probability * log_prob
            mean_entropy += probability * entropy
            # The first choice of each pair: those of the actors before it come first.
            start = (0, 3, 6)[actor]
            for place, entity in enumerate(entities):
                assert float(walk.first[start + place]) == pytest.approx(steps[0][entity])
        assert total == pytest.approx(1.0, abs=1e-9)  # of all orders
        # The entropy is right in expectation over what is drawn.
        assert mean_entropy == pytest.approx(expected_entropy, abs=1e-9)


def test_gradients_are_those_of_finite_differences():
    own = action([[0, 1], [2]], [[1, 2, 3], [0, 1]], [True] * 5 + [False] + [True] * 2)
    head = head_of(3)
    given = torch.tensor([[2, 3, 1], [1, -1, -1], [0, 1, -1]])

    def numbers(rows, actees, *parameters):
        walk = SetDist(head, rows, actees, Pairs.of(own)).walk(draw(), given)
        return walk.log_prob, walk.entropy

    rows = torch.randn(3, WIDTH, dtype=torch.float64, requires_grad=True)
    actees = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(numbers, (rows, actees, *head.parameters()))


@torch.no_grad()
def test_draws_have_the_probabilities_that_they_say():
    copies = 20_000
    own = action([[0]] * copies, [[1, 2]] * copies)
    head = head_of(2, scale=1.0)
    one = dist_of(head, action([[0]], [[1, 2]]))
    pairs = Pairs.of(own)
    many = SetDist(head, one.actors.repeat(copies, 1), one.actees.repeat(copies, 1), pairs)
    walk = many.walk(draw(generator=torch.Generator().manual_seed(1)))
    counts = Counter(map(tuple, walk.chosen.tolist()))
    for order in orders([1, 2], 2):
        own = padded(order, 2)
        probability = float(one.walk(draw(), own[None]).log_prob.exp())
        # Three standard deviations of a share of 20,000 are at most 3 * 0.5 / sqrt(20,000) = 0.011.
        assert counts[tuple(own.tolist())] / copies == pytest.approx(probability, abs=0.011)
    assert sum(counts.values()) == copies


@torch.no_grad()
@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_is_a_set_that_can_be_given_again(seed):
    rng = random.Random(seed)
    at_most = rng.randint(1, 6)
    sizes = [(rng.randint(0, 3), rng.randint(1, 5)) for _ in range(rng.randint(1, 4))] + [(1, 2)]
    actors = [list(range(a)) for a, _ in sizes]
    own = action(actors, [list(range(e)) if a else [] for a, e in sizes])
    dist = dist_of(head_of(at_most, seed), own, seed)
    for greedy in (False, True):
        walk = dist.walk(draw(greedy=greedy, generator=torch.Generator().manual_seed(seed)))
        again = dist.walk(draw(), walk.chosen)
        assert torch.equal(again.chosen, walk.chosen)
        assert torch.allclose(again.log_prob, walk.log_prob)
        for row in walk.chosen.tolist():
            chosen = [entity for entity in row if entity != -1]
            assert row == chosen + [-1] * (at_most - len(chosen))
            assert len(set(chosen)) == len(chosen)


@torch.no_grad()
def test_the_most_probable_of_each_step_is_greedy_and_top_k_of_one_and_low_temperature():
    own = action([[0, 1, 2]], [[0, 1, 2, 3]])
    dist = dist_of(head_of(3), own)
    greedy = dist.walk(draw(greedy=True)).chosen
    assert torch.equal(dist.walk(draw(top_k=1)).chosen, greedy)
    assert torch.equal(dist.walk(draw(temperature=1e-4)).chosen, greedy)
    sure = dist.walk(draw(top_k=1))
    assert sure.log_prob.tolist() == pytest.approx([0, 0, 0])
    for actor, row in enumerate(greedy.tolist()):
        order = [entity for entity in row if entity != -1]
        steps = slow_steps(dist.head, dist.actors, actor, dist.actees, [0, 1, 2, 3], order)
        assert [max(step, key=step.get) for step in steps] == [*order, -1][: len(steps)]


SPACE = ObsSpace(entities={"A": Entity(["x"]), "B": Entity()})
PICK = {"Pick": SelectEntitiesActionSpace(2)}


def batch_of(lengths, seed=0):
    """Frames with so many A and one B, which selects among the A, if there are any."""
    torch.manual_seed(seed)
    ones = torch.ones(len(lengths), dtype=torch.int64)
    own = action([[n] if n else [] for n in lengths], [list(range(n)) for n in lengths])
    entities = {
        "A": RaggedTensor.from_lengths(torch.randn(sum(lengths), 1), torch.tensor(lengths)),
        "B": RaggedTensor.from_lengths(torch.zeros(len(lengths), 0), ones),
    }
    return EntityBatch(entities, torch.zeros(len(lengths), 0), actions={"Pick": own})


def net_of(**config):
    torch.manual_seed(0)
    net = RaggedNet(SPACE, PICK, NetConfig(dim=32, layers=1, **config))
    with torch.no_grad():
        net.heads[0].query.weight.mul_(300)
    return net


@torch.no_grad()
def test_neighbours_in_the_batch_change_nothing():
    net, batch = net_of(), batch_of([3, 0, 1, 5])
    together = net(batch, greedy=True)
    for frame in range(4):
        alone = net(batch.select(torch.tensor([frame])), greedy=True).actions["Pick"]
        part = together.actions["Pick"].chosen.select(torch.tensor([frame]))
        assert torch.equal(alone.chosen.values, part.values)
        place = together.actions["Pick"].chosen.offsets[frame]
        for own, every in ((alone.log_prob, together.actions["Pick"].log_prob),
                           (alone.entropy, together.actions["Pick"].entropy)):  # fmt: skip
            assert torch.allclose(own, every[place : place + len(own)], atol=1e-5)


@torch.no_grad()
def test_frames_without_actors_have_results_without_rows():
    output = net_of()(batch_of([0, 0])).actions["Pick"]
    assert output.chosen.values.shape == (0, 2)
    assert output.chosen.values.dtype == torch.int64
    assert output.log_prob.shape == output.entropy.shape == (0,)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ([[0, 0]], ActionError, "or has selected already"),
        ([[3, -1]], ActionError, r"one of \[-1, 0, 1, 2\]"),
        ([[-1, 1]], ActionError, "followed by -1 only"),
        ([[-2, -1]], ActionError, "may not select"),
        ([[0]], BatchError, r"\(1, 2\), one row for each actor"),
        ([[0.0, 1.0]], DtypeError, "int64"),
    ],
)
def test_what_cannot_be_selected_is_refused(given, error, text):
    with pytest.raises(error, match=text):
        net_of()(batch_of([3]), given={"Pick": torch.tensor(given)})


def test_a_later_action_is_told_of_the_set():
    spaces = {"Pick": SelectEntitiesActionSpace(2), "Then": SelectEntitiesActionSpace(1)}
    torch.manual_seed(0)
    net = RaggedNet(SPACE, spaces, NetConfig(dim=32, layers=1, action_order=["Pick", "Then"]))
    with torch.no_grad():
        net.heads[1].query.weight.mul_(300)
    one = batch_of([4])
    both = dict.fromkeys(spaces, one.actions["Pick"])
    batch = EntityBatch(one.entities, one.global_features, actions=both)
    then = torch.tensor([[2]])
    told = [
        net(batch, given={"Pick": torch.tensor([pick]), "Then": then}).actions["Then"].log_prob
        for pick in ([0, 1], [1, 0], [1, -1], [-1, -1])
    ]
    assert torch.allclose(told[0], told[1])  # of the set, not of its order
    assert abs((told[0] - told[2]).item()) > 1e-4
    assert abs((told[2] - told[3]).item()) > 1e-4
    told[0].sum().backward()
    assert net.heads[0].query.weight.grad is None  # what is given has no gradient
