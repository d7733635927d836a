"""The Numba kernels of the embedding as one operation of autograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ragged_net import kernels
from ragged_net.compiled import run

__all__ = ["Part", "can_run", "embed"]

MOST_COLUMNS = 16
"""With more continuous features a matrix product is faster."""


@dataclass(frozen=True, eq=False)
class Part:
    """The entities of one type, and how they are embedded.

    Args:
        values: (N, F) float32, their feature rows.
        places: (N,) int64: their rows of the result.
        columns: (K,) int64: the continuous features among the F.
        shift: (K,) float32, taken from them.
        scale: (K,) float32, by which they are then multiplied.
        most: The largest absolute value that is left of them.
        weight: (D, K), which projects them; None if K is 0.
        vector: (D,), added to each row.
        discrete: The discrete features among the F.
        tables: For each of those (n, D), a row for each of its values.
    """

    values: Tensor
    places: Tensor
    columns: Tensor
    shift: Tensor
    scale: Tensor
    most: float
    weight: Tensor | None
    vector: Tensor
    discrete: Sequence[int]
    tables: Sequence[Tensor]

    @property
    def parameters(self) -> list[Tensor]:
        """What is learned."""
        weight = [] if self.weight is None else [self.weight]
        return [*weight, self.vector, *self.tables]


def can_run(parts: Sequence[Part]) -> bool:
    """Whether ``embed`` takes these."""
    return (
        kernels.available()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and all(_fits(part) for part in parts)
    )


def _fits(part: Part) -> bool:
    return (
        part.values.is_cpu
        and not part.values.requires_grad
        and part.columns.shape[0] <= MOST_COLUMNS
        and all(tensor.dtype == torch.float32 for tensor in part.parameters)
    )


def embed(parts: Sequence[Part], rows: int) -> Tensor:
    """(rows, D) float32: for each entity the sum of what its features stand for.

    Args:
        parts: At least one, for which ``can_run`` holds; each row is the place of one entity.
        rows: All entities.

    Raises:
        IndexError: A discrete feature that is out of range.
    """
    result: Tensor = run(_Embed, parts, rows, *(p for part in parts for p in part.parameters))
    return result


class _Embed(torch.autograd.Function):
    """``embed``; the parameters are those of the parts, once more, for autograd to see."""

    @staticmethod
    def forward(ctx: Any, parts: Sequence[Part], rows: int, *parameters: Tensor) -> Tensor:
        embed = kernels.load("embed")
        y = parameters[0].new_empty(rows, parts[0].vector.shape[0])
        for part in parts:
            features, places = _features(part), part.places.numpy()
            weight = part.vector.new_empty(y.shape[1], 0) if part.weight is None else part.weight
            embed.project(*features, _array(weight), _array(part.vector), places, y.numpy())
            for column, table in zip(part.discrete, part.tables, strict=True):
                embed.add_table(features[0], column, _array(table), places, y.numpy())
        # Saved for torch to notice if somebody changes them before the backward pass.
        ctx.save_for_backward(*(t for part in parts for t in (part.values, part.shift, part.scale)))
        ctx.parts = parts
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        embed = kernels.load("embed")
        _, d_rows = ctx.saved_tensors, _array(d_y)
        gradients: list[Tensor] = []
        for part in ctx.parts:
            features, places = _features(part), part.places.numpy()
            d_weight = d_y.new_empty(d_y.shape[1], part.columns.shape[0])
            d_vector = d_y.new_empty(d_y.shape[1])
            embed.project_backward(*features, places, d_rows, d_weight.numpy(), d_vector.numpy())
            gradients += [d_vector] if part.weight is None else [d_weight, d_vector]
            for column, table in zip(part.discrete, part.tables, strict=True):
                gradients.append(d_y.new_zeros(table.shape))
                embed.add_table_gradient(features[0], column, places, d_rows, gradients[-1].numpy())
        return None, None, *gradients


def _features(part: Part) -> tuple[Any, ...]:
    """The first arguments of the kernels."""
    tensors = part.values.contiguous(), part.columns, part.shift, part.scale
    return *(tensor.numpy() for tensor in tensors), np.float32(part.most)


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.contiguous().numpy(force=True)
