"""Positions as pure functions, with numbers computed by hand."""

import math

import torch
from torch.testing import assert_close

from ragged_net.model import geometry


def close(found, expected):
    assert_close(found, torch.tensor(expected), rtol=1e-6, atol=1e-6)


def test_offsets_go_from_the_query_to_the_key():
    offsets = geometry.offsets_between(torch.tensor([[1.0, 2.0], [4.0, 6.0]]))
    close(offsets, [[[0.0, 0.0], [3.0, 4.0]], [[-3.0, -4.0], [0.0, 0.0]]])


def test_who_looks_up_sees_what_is_above_ahead_and_what_is_left_of_it_to_the_left():
    up = torch.tensor(math.pi / 2)
    ahead, left = torch.tensor([0.0, 2.0]), torch.tensor([-3.0, 0.0])
    close(geometry.into_frame(torch.stack([ahead, left]), up), [[2.0, 0.0], [0.0, 3.0]])
    # Looking along the diagonal, (1, 0) is ahead to the right: cos 45 = sin 45 = 0.7071.
    half = geometry.into_frame(torch.tensor([1.0, 0.0]), torch.tensor(math.pi / 4))
    close(half, [math.sqrt(0.5), -math.sqrt(0.5)])


def test_distance_and_direction_of_nothing_are_zero_and_so_are_their_gradients():
    vectors = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    close(geometry.distance(vectors).detach(), [5.0, 0.0])
    close(geometry.direction(vectors).detach(), [[0.6, 0.8], [0.0, 0.0]])
    geometry.distance(vectors).sum().backward()
    close(vectors.grad, [[0.6, 0.8], [0.0, 0.0]])


def test_headings_are_radians_or_shares_of_a_full_turn():
    close(geometry.radians(torch.tensor([0.0, 4.0, 12.0]), 16), [0, math.pi / 2, 1.5 * math.pi])
    close(geometry.radians(torch.tensor([0.5]), None), [0.5])


def test_waves_take_the_axes_in_turn_and_grow_longer():
    # Lengths 4 * 1, 4 * 4, 4 * 16 = 4, 16, 64: quarter turns at offsets of 1, 4 and 16.
    waves = geometry.wave_vectors(6, 2, unit=1.0, extent=16.0)
    quarter = math.pi / 2
    expected = [[quarter / own * x, quarter / own * y] for own in (1, 4, 16) for x, y in _AXES]
    close(waves, expected)


_AXES = ((1.0, 0.0), (0.0, 1.0))


def test_pairs_turn_and_turn_back():
    # A quarter turn takes (a, b) to (-b, a).
    cos, sin = torch.zeros(4), torch.tensor([-1.0, 1.0, -1.0, 1.0])
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    close(geometry.turn(x, cos, sin), [-2.0, 1.0, -4.0, 3.0])
    assert torch.equal(geometry.turn_back(geometry.turn(x, cos, sin), cos, sin), x)
