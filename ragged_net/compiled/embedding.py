"""The Numba kernels of the embedding as a layer of a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from ragged_net import kernels
from ragged_net.compiled.autograd import Arrays

__all__ = ["CLIP", "EmbeddingLayer", "Part", "can_run"]

CLIP = 10.0
"""Largest absolute value of a normalised feature, in deviations: enough for a flag that is set in
one row of a hundred, and a limit for a feature that jumps after a long constant stretch."""
MOST_COLUMNS = 32
"""Maximum number of continuous features; with many more a matrix product is faster."""


@dataclass(frozen=True, eq=False)
class Part:
    """The entities of one type, and the weights of their embedding.

    Args:
        values: Feature rows. Shape: (N, F), float32.
        places: Rows of the result. Shape: (N,), int64.
        columns: Columns of the continuous features. Shape: (K,), int64.
        shift: Numbers subtracted from the continuous features. Shape: (K,), float32.
        scale: Numbers by which they are then multiplied. Shape: (K,), float32.
        weight: Projection of the continuous features; None if K is 0. Shape: (D, K).
        vector: Vector added to each row. Shape: (D,).
        discrete: Columns of the discrete features.
        tables: Table of each discrete feature, a row for each value. Shape of each: (n, D).
    """

    values: Tensor
    places: Tensor
    columns: Tensor
    shift: Tensor
    scale: Tensor
    weight: Tensor | None
    vector: Tensor
    discrete: Sequence[int]
    tables: Sequence[Tensor]

    @property
    def parameters(self) -> list[Tensor]:
        """The learned tensors."""
        weight = [] if self.weight is None else [self.weight]
        return [*weight, self.vector, *self.tables]

    @property
    def facts(self) -> list[Tensor]:
        """The first five arguments, which are not trained, as contiguous tensors."""
        tensors = (self.values, self.places, self.columns, self.shift, self.scale)
        return [tensor.contiguous() for tensor in tensors]


def can_run(parts: Sequence[Part], dim: int) -> bool:
    """Return True if an ``EmbeddingLayer`` accepts these parts."""
    return (
        kernels.available()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and all(_fits(part, dim) for part in parts)
    )


def _fits(part: Part, dim: int) -> bool:
    for tensor in (part.values, part.shift, part.scale, *part.parameters):
        if not tensor.is_cpu or tensor.dtype != torch.float32:
            return False
    return (
        not part.values.requires_grad
        and part.columns.numel() <= MOST_COLUMNS
        # A layer that was replaced may have another width.
        and (part.weight is None or part.weight.shape == (dim, part.columns.numel()))
        and part.vector.shape == (dim,)
        and all(table.shape[1:] == (dim,) for table in part.tables)
    )


@dataclass(frozen=True, eq=False)
class EmbeddingLayer:
    """The sum of the feature embeddings of each entity, as a ``Layer`` without input rows.

    Args:
        parts: At least one part accepted by ``can_run``; each row is the place of one entity.
        rows: Number of all entities.
    """

    parts: Sequence[Part]
    rows: int

    @cached_property
    def weights(self) -> list[Tensor]:
        """See ``Layer``."""
        return [parameter for part in self.parts for parameter in part.parameters]

    def forward(self, x: Tensor, weights: Arrays, keep: bool) -> tuple[Tensor, list[Tensor]]:
        """See ``Layer``.

        Raises:
            BatchError: A discrete feature, or a place, is out of range.
        """
        code, dim = kernels.load("embed"), self.parts[0].vector.shape[0]
        y = torch.empty(self.rows, dim, dtype=torch.float32, device="cpu")
        result, kept, left = y.numpy(), [], iter(weights)
        for part in self.parts:
            facts = part.facts
            values, places, columns, shift, scale = [fact.numpy() for fact in facts]
            weight = np.empty((dim, 0), np.float32) if part.weight is None else next(left)
            code.project(values, columns, shift, scale, _MOST, weight, next(left), places, result)
            for column in part.discrete:
                code.add_table(values, column, next(left), places, result)
            if keep:  # copies, because the statistics may change before the backward pass
                kept += [*facts[:3], facts[3].clone(), facts[4].clone()]
        return y, kept

    def backward(
        self, d_y: Tensor, x: Tensor, weights: Arrays, kept: list[Tensor], gradients: Arrays
    ) -> Tensor:
        """See ``Layer``."""
        code, d_rows = kernels.load("embed"), d_y.numpy()
        facts, left = iter(fact.numpy() for fact in kept), iter(gradients)
        for part in self.parts:
            values, places, columns, shift, scale = islice(facts, 5)
            d_weight = np.empty((d_rows.shape[1], 0), np.float32)
            if part.weight is not None:
                d_weight = next(left)
            code.project_backward(
                values, columns, shift, scale, _MOST, places, d_rows, d_weight, next(left)
            )
            for column in part.discrete:
                code.add_table_gradient(values, column, places, d_rows, next(left))
        return torch.empty_like(x)  # a new tensor, because x is shared


_MOST = np.float32(CLIP)
