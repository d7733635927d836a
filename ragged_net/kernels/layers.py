"""Single layers over flat rows: ReLU and a linear layer, LayerNorm."""

from __future__ import annotations

import numpy as np

from entity_env.storage.inner import inner
from ragged_net.kernels.jit import kernel
from ragged_net.kernels.linear import (
    CHUNK,
    add_bias_gradient,
    add_weight_gradient,
    gradient_scratch,
    linear,
    pack,
    set_zero,
)
from ragged_net.kernels.norm import normalize, normalize_backward
from ragged_net.kernels.tile import ADD, WHERE
from ragged_net.kernels.vector import LANES, load, store, where_positive

__all__ = ["norm_backward", "norm_forward", "relu_linear_backward", "relu_linear_forward"]


@kernel
def relu_linear_forward(x, weight, bias, y):
    """``y = relu(x) @ weight.T + bias``.

    Args:
        x: (N * K) float32.
        weight: (J, K); both are multiples of 32.
        bias: (J,).
        y: (N * J), written.
    """
    columns, depth = weight.shape
    zero = np.int64(0)  # see ``block.py``
    panels, active = pack(weight, True), np.empty(CHUNK * depth, np.float32)
    total = x.shape[0] // depth
    for first in range(0, total, CHUNK):
        rows = min(CHUNK, total - first)
        _relu(x, first * depth, rows * depth, active)
        linear(
            active, zero, rows, depth, panels, y, first * columns, columns, ADD, bias, zero, zero
        )


@kernel
def relu_linear_backward(d_y, x, weight, d_x, d_weight, d_bias):
    """Write d_x of ``relu_linear_forward``, and add to the other gradients."""
    columns, depth = weight.shape
    zero = np.int64(0)  # see ``block.py``
    panels, active = pack(weight, False), np.empty(CHUNK * depth, np.float32)
    scratch = gradient_scratch(columns)
    total = x.shape[0] // depth
    for first in range(0, total, CHUNK):
        rows = min(CHUNK, total - first)
        _relu(x, first * depth, rows * depth, active)
        add_weight_gradient(
            d_y, first * columns, rows, columns, active, zero, depth, d_weight, scratch
        )
        add_bias_gradient(d_y, first * columns, rows, columns, d_bias)
        linear(
            d_y, first * columns, rows, columns, panels, d_x, first * depth, depth,
            WHERE, x, first * depth, depth,
        )  # fmt: skip


@kernel
def norm_forward(x, gain, bias, y):
    """LayerNorm of the rows of x (N * D), written to y (N * D); D is a multiple of 16."""
    dim = gain.shape[0]
    normalize(x, np.int64(0), x.shape[0] // dim, dim, gain, bias, y)


@kernel
def norm_backward(d_y, x, gain, d_x, d_gain, d_bias):
    """Write d_x of ``norm_forward``, and add to the other gradients."""
    dim = gain.shape[0]
    set_zero(d_x, x.shape[0])
    normalize_backward(d_y, x, np.int64(0), x.shape[0] // dim, dim, gain, d_x, d_gain, d_bias)


@inner
def _relu(x, start, size, y):
    for i in range(0, size, LANES):
        store(y, i, where_positive(load(x, start + i), load(x, start + i)))
