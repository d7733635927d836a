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
from ragged_net.input_norm import CLIP

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
    weight: Tensor | None
    vector: Tensor
    discrete: Sequence[int]
    tables: Sequence[Tensor]

    @property
    def parameters(self) -> list[Tensor]:
        """What is learned."""
        weight = [] if self.weight is None else [self.weight]
        return [*weight, self.vector, *self.tables]


def can_run(parts: Sequence[Part], dim: int) -> bool:
    """Whether ``embed`` takes these."""
    return (
        kernels.available()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and all(_fits(part, dim) for part in parts)
    )


def _fits(part: Part, dim: int) -> bool:
    tensors = [part.values, part.shift, part.scale, *part.parameters]
    return (
        all(tensor.is_cpu and tensor.dtype == torch.float32 for tensor in tensors)
        and not part.values.requires_grad
        and part.columns.shape[0] <= MOST_COLUMNS
        # What somebody put in the place of a layer may have another width.
        and (part.weight is None or part.weight.shape == (dim, part.columns.shape[0]))
        and part.vector.shape == (dim,)
        and all(table.shape[1] == dim for table in part.tables)
    )


def embed(parts: Sequence[Part], rows: int) -> Tensor:
    """(rows, D) float32: for each entity the sum of what its features stand for.

    Args:
        parts: At least one, for which ``can_run`` holds; each row is the place of one entity.
        rows: All entities.

    Raises:
        IndexError: A discrete feature, or a place, that is out of range.
    """
    result: Tensor = run(_Embed, parts, rows, *(p for part in parts for p in part.parameters))
    return result


class _Embed(torch.autograd.Function):
    """``embed``; the parameters are those of the parts, once more, for autograd to see."""

    @staticmethod
    def forward(ctx: Any, parts: Sequence[Part], rows: int, *parameters: Tensor) -> Tensor:
        code = kernels.load("embed")
        y = parameters[0].new_empty(rows, parts[0].vector.shape[0])
        result = y.numpy()
        scalings = [_scaling(part) for part in parts]
        for part, scaling in zip(parts, scalings, strict=True):
            values, places = _array(part.values), _array(part.places)
            weight = part.vector.new_empty(y.shape[1], 0) if part.weight is None else part.weight
            code.project(values, *scaling, _array(weight), _array(part.vector), places, result)
            for column, table in zip(part.discrete, part.tables, strict=True):
                code.add_table(values, column, _array(table), places, result)
        ctx.save_for_backward(*(t for part in parts for t in (part.values, part.places)))
        ctx.scalings = scalings
        ctx.tables = [
            [(c, t.shape) for c, t in zip(part.discrete, part.tables, strict=True)]
            for part in parts
        ]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        code = kernels.load("embed")
        d_rows, saved = _array(d_y), iter(map(_array, ctx.saved_tensors))
        gradients: list[Tensor] = []
        for scaling, tables in zip(ctx.scalings, ctx.tables, strict=True):
            values, places = next(saved), next(saved)
            d_weight = d_y.new_empty(d_y.shape[1], len(scaling[0]))
            d_vector = d_y.new_empty(d_y.shape[1])
            code.project_backward(
                values, *scaling, places, d_rows, d_weight.numpy(), d_vector.numpy()
            )
            gradients += [d_weight, d_vector] if len(scaling[0]) else [d_vector]
            for column, shape in tables:
                gradients.append(d_y.new_zeros(shape))
                code.add_table_gradient(values, column, places, d_rows, gradients[-1].numpy())
        return None, None, *gradients


def _scaling(part: Part) -> tuple[Any, ...]:
    """What the kernels do to the features; copied, for the statistics may move on meanwhile."""
    shift, scale = part.shift.numpy().copy(), part.scale.numpy().copy()
    return part.columns.numpy(), shift, scale, np.float32(CLIP)


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.contiguous().numpy(force=True)
