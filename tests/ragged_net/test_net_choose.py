"""The compiled categorical choice against torch's operations, and by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from net_support import ragged
from torch.testing import assert_close

from entity_env.errors import ActionError, BatchError
from ragged_net import CategoricalActors, RaggedTensor, check, kernels
from ragged_net.compiled.heads import choose
from ragged_net.heads.categorical import CategoricalDist
from ragged_net.layout import Layout

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs Numba")

masks = st.lists(st.lists(st.booleans(), min_size=4, max_size=4).filter(any), max_size=9)


def slowly(logits, mask, chosen):
    """Log-probability, entropy and probabilities in torch."""
    dist = CategoricalDist(logits, mask)
    return dist.log_prob(chosen), dist.entropy(), dist.probs


def everything(made):
    return made.log_prob, made.entropy, made.probs


def test_by_hand():
    # Weights 1, 3 and a forbidden 4: 1/4 and 3/4 remain.
    logits = torch.tensor([[1.0, 3.0, 4.0]]).log()
    made = choose(logits, torch.tensor([[True, True, False]]), torch.tensor([1]), None, False)
    assert_close(made.probs, torch.tensor([[0.25, 0.75, 0.0]]))
    assert_close(made.log_prob, torch.tensor([math.log(0.75)]))
    assert_close(made.entropy, torch.tensor([-0.25 * math.log(0.25) - 0.75 * math.log(0.75)]))
    greedy = choose(logits, torch.tensor([[True, True, False]]), None, None, True)
    assert greedy.chosen.tolist() == [1]


def test_large_logits_lose_no_digits():
    # Between 10,000 and 10,006 floats are 0.001 apart. p = 1 / (1 + e^-6) for the second choice.
    logits = torch.tensor([[10_000.0, 10_006.0]])
    made = choose(logits, torch.ones(1, 2, dtype=torch.bool), torch.tensor([1]), None, False)
    p = 1 / (1 + math.exp(-6))
    assert_close(made.log_prob, torch.tensor([math.log(p)]), rtol=1e-4, atol=0)
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert_close(made.entropy, torch.tensor([entropy]), rtol=1e-4, atol=0)


@settings(deadline=None)
@given(masks, st.sampled_from([0.1, 1.0, 30.0, 1e4]), st.integers(0, 99), st.data())
def test_given_choices_and_their_gradients_are_those_of_torch(mask, scale, seed, data):
    torch.manual_seed(seed)
    mask = torch.tensor(mask, dtype=torch.bool).view(-1, 4)
    logits = torch.randn(len(mask), 4) * scale
    picked = [data.draw(st.sampled_from(row.nonzero().squeeze(1).tolist())) for row in mask]
    chosen = torch.tensor(picked, dtype=torch.int64)
    weights = [torch.randn(len(mask)), torch.randn(len(mask)), torch.randn(len(mask), 4)]
    results = []
    for function in (lambda x: everything(choose(x, mask, chosen, None, False)),
                     lambda x: slowly(x, mask, chosen)):  # fmt: skip
        x = logits.clone().requires_grad_()
        parts = function(x)
        sum((w * p).sum() for w, p in zip(weights, parts, strict=True)).backward()
        results.append([part.detach() for part in parts] + [x.grad])
    for fast, slow in zip(*results, strict=True):
        assert_close(fast, slow, rtol=1e-5, atol=1e-5)


def test_the_gradient_is_that_of_small_differences():
    torch.manual_seed(1)
    logits, mask = torch.randn(3, 5), torch.rand(3, 5) < 0.7
    mask[:, 2] = True
    chosen, x = torch.tensor([2, 2, 2]), logits.clone().requires_grad_()

    def loss(values):
        made = choose(values, mask, chosen, None, False)
        return (made.log_prob + 0.5 * made.entropy + made.probs.square().sum(1)).sum()

    loss(x).backward()
    step = 1e-2
    for a in range(3):
        for c in range(5):
            change = torch.zeros(3, 5)
            change[a, c] = step
            expected = (loss(logits + change) - loss(logits - change)) / (2 * step)
            assert_close(x.grad[a, c], expected, rtol=0, atol=2e-3)


def test_draws_follow_the_probabilities():
    # 40,000 draws: the deviation of a frequency is at most sqrt(0.25 / 40000) = 0.0025.
    logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().expand(40_000, 4)
    mask = torch.tensor([True, False, True, True]).expand(40_000, 4)
    drawn = choose(logits, mask, None, torch.Generator().manual_seed(1), False).chosen
    frequencies = drawn.bincount(minlength=4) / 40_000
    assert_close(frequencies, torch.tensor([1 / 8, 0.0, 3 / 8, 4 / 8]), rtol=0, atol=0.0125)
    assert frequencies[1] == 0


def test_a_generator_decides_the_draw_and_what_torch_would_draw():
    torch.manual_seed(0)
    logits, mask = torch.randn(300, 4), torch.rand(300, 4) < 0.6
    mask[:, 1] = True
    made = choose(logits, mask, None, torch.Generator().manual_seed(3), False)
    again = choose(logits, mask, None, torch.Generator().manual_seed(3), False)
    assert torch.equal(made.chosen, again.chosen)
    assert mask.gather(1, made.chosen[:, None]).all()
    slow = CategoricalDist(logits, mask).draw(torch.Generator().manual_seed(3))
    assert torch.equal(made.chosen, slow)
    for fast, other in zip(everything(made), slowly(logits, mask, slow), strict=True):
        assert_close(fast, other, rtol=1e-5, atol=1e-5)


def test_noise_of_zero_chooses_nothing_forbidden(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "exponential_", lambda self, generator=None: self.zero_())
    mask = torch.tensor([[False, True, True, False]])
    made = choose(torch.tensor([[9.0, -90.0, 3.0, 9.0]]), mask, None, None, False)
    assert made.chosen.tolist() == [2]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_network_that_has_diverged_shows(bad, place):
    logits = torch.tensor([[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]])
    logits[0, place] = bad
    for given_ in (None, torch.tensor([1, 1])):
        made = choose(logits, torch.ones(2, 3, dtype=torch.bool), given_, None, False)
        assert made.log_prob[0].isnan()
        assert made.entropy[0].isnan()
        assert_close(made.log_prob[1], torch.tensor(-math.log(3.0)))


def test_a_forbidden_choice_has_no_probability_and_one_that_is_none_is_an_error():
    logits, mask = torch.zeros(1, 3), torch.tensor([[True, True, False]])
    assert choose(logits, mask, torch.tensor([2]), None, False).log_prob.tolist() == [-math.inf]
    for choice in (3, -1):
        with pytest.raises(ActionError):
            choose(logits, mask, torch.tensor([choice]), None, False)


def test_the_gradient_of_a_forbidden_choice_is_that_of_torch():
    mask, results = torch.tensor([[True, True, False]]), []
    for function in (lambda x: choose(x, mask, torch.tensor([2]), None, False).log_prob,
                     lambda x: CategoricalDist(x, mask).log_prob(torch.tensor([2]))):  # fmt: skip
        x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
        function(x).sum().backward()
        results.append(x.grad)
    assert_close(*results)


def test_of_equally_likely_choices_the_first_allowed_one_is_taken():
    mask = torch.tensor([[False, True, True, True]])
    for logits in (torch.zeros(1, 4), torch.full((1, 4), math.nan)):
        made = choose(logits, mask, None, None, True)
        assert made.chosen.tolist() == [1]
        assert_close(made.log_prob, logits[0, :1] - math.log(3), equal_nan=True)


@pytest.mark.parametrize(
    ("mask", "chosen"), [((1, 3), None), ((4, 2), None), ((4,), None), ((4, 3), 3), ((4, 3), 5)]
)
def test_shapes_that_do_not_fit_are_refused(mask, chosen):
    made = None if chosen is None else torch.zeros(chosen, dtype=torch.int64)
    with pytest.raises(BatchError, match="do not fit the logits"):
        choose(torch.zeros(4, 3), torch.ones(mask, dtype=torch.bool), made, None, False)


def test_large_logits_drown_no_noise():
    # 1 / (1 + e) and the rest; 20,000 draws have a deviation of 0.0032.
    logits = torch.tensor([1e6, 1e6 + 1]).expand(20_000, 2)
    mask = torch.ones(20_000, 2, dtype=torch.bool)
    for draw in (
        CategoricalDist(logits, mask).draw(torch.Generator().manual_seed(1)),
        choose(logits, mask, None, torch.Generator().manual_seed(1), False).chosen,
    ):
        expected = 1 / (1 + math.exp(-1))
        assert_close(draw.double().mean().item(), expected, rtol=0, atol=0.006)


def test_nobody_and_a_single_choice():
    made = choose(torch.zeros(0, 3), torch.zeros(0, 3, dtype=torch.bool), None, None, False)
    assert made.chosen.shape == made.log_prob.shape == made.entropy.shape == (0,)
    made = choose(torch.ones(2, 1), torch.ones(2, 1, dtype=torch.bool), None, None, False)
    assert made.chosen.tolist() == [0, 0]
    assert made.log_prob.tolist() == made.entropy.tolist() == [0.0, 0.0]


def test_tensors_that_are_views_are_read_right():
    torch.manual_seed(2)
    logits, mask = torch.randn(4, 6).T, (torch.rand(4, 6) < 0.8).T
    mask = mask | (torch.arange(4) == 0)
    chosen = torch.tensor([[0, 9]] * 6)[:, 0]
    fast = everything(choose(logits, mask, chosen, None, False))
    for a, b in zip(fast, slowly(logits, mask, chosen), strict=True):
        assert_close(a, b)


# --------------------------------------------------------------------------- checked in one look


@pytest.mark.parametrize(
    ("index", "allowed", "choice", "sound"),
    [
        (1, [True, False], None, True),
        (1, [True, False], 0, True),
        (2, [True, False], None, False),
        (-1, [True, False], None, False),
        (1, [False, False], None, False),
        (1, [True, False], 1, False),
        (1, [True, False], 2, False),
        (1, [True, False], -1, False),
    ],
)
def test_one_look_at_an_actor(index, allowed, choice, sound):
    """The second of two frames, with two entities."""
    action = CategoricalActors(ragged([[], [index]]), torch.tensor([allowed]))
    layout = Layout(torch.tensor([0, 5, 7]), {}, None, 7)
    chosen = None if choice is None else torch.tensor([choice])
    assert check._are_sound(action, layout, None, chosen) is sound


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.integers(-1, 3), max_size=4),
    st.lists(st.integers(-1, 4), max_size=4),
    st.integers(0, 2**16 - 1),
    st.booleans(),
)
def test_one_look_finds_what_the_flags_find(rows, indices, choices, bits, with_given):
    frames = len(rows)
    counts = [0] * frames
    for i in range(len(indices)):
        counts[i % frames] += 1
    mask = torch.tensor([[bits >> (4 * a + c) & 1 for c in range(4)] for a in range(len(indices))])
    mask = mask.view(-1, 4).bool()
    actors = RaggedTensor.from_lengths(torch.tensor(indices, dtype=torch.int64), counts)
    action = CategoricalActors(actors, mask)
    chosen = None
    if with_given:
        chosen = torch.tensor((choices + [0] * 4)[: len(indices)], dtype=torch.int64)
    layout = Layout(ragged([[0] * n for n in rows]).offsets, {}, None, sum(rows))
    flags = check.FaultFlags()
    check._flag_rows("actors", actors, layout, None, flags)
    if chosen is not None:
        check._flag_choices("Move", chosen, mask, flags)
    flags.add(mask.sum(1) == 0, lambda: AssertionError())
    bad = any(bool(up) for up, _ in flags._pending)
    assert check._are_sound(action, layout, None, chosen) is (not bad)
