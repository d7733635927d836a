"""InputNorm: standardisation of the continuous features of one entity type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from entity_env.errors import BatchError, FeatureError
from entity_env.spaces import Continuous, Discrete, Feature, feature_name, num_values
from ragged_net.compiled.embedding import CLIP
from ragged_net.tensor_checks import check_kind, check_tensor

__all__ = ["Gathered", "InputNorm", "own_moments"]

# A smaller deviation, relative to the mean, is the rounding of float32.
RELATIVE_FLOOR, ABSOLUTE_FLOOR = 1e-6, 1e-12

_PART = 65_536
"""Number of rows that are added to the statistics at once."""

Gathered: TypeAlias = Callable[[Tensor], Sequence[Tensor]]


def own_moments(moments: Tensor) -> list[Tensor]:
    """Return the moments of this process only."""
    return [moments]


class InputNorm(nn.Module):
    """Running mean and variance of the continuous columns of an entity type.

    Only ``update`` changes the statistics, in train and eval mode. Before the first update the mean
    is 0 and the deviation 1. Columns that declare their scale (``Continuous(mean=, std=)``) use it
    and are never updated. A constant column becomes 0. Results are clamped to [-10, 10].

    Moments of chunks are merged in float64 after Chan, Golub and LeVeque (1979), "Updating
    formulae and a pairwise algorithm for computing sample variances".

    Args:
        features: All features of the entity type; discrete ones are skipped.
        left_out: Names of continuous features to skip.
    """

    count: Tensor
    mean: Tensor
    m2: Tensor
    shift: Tensor
    scale: Tensor
    declared: Tensor
    columns: Tensor

    def __init__(self, features: Sequence[Feature], left_out: Collection[str] = ()) -> None:
        super().__init__()
        check_kind("the features to normalise", features, list, tuple)
        for feature in features:
            check_kind("a feature to normalise", feature, str, Continuous, Discrete)
        self.width = len(features)
        kept = [
            i
            for i, f in enumerate(features)
            if num_values(f) is None and feature_name(f) not in left_out
        ]
        self.names = tuple(feature_name(features[i]) for i in kept)
        self.num_columns = len(kept)
        self._kept, scales = kept, [_declared_scale(features[i]) for i in kept]
        self._declared = [s is not None for s in scales]
        shift = torch.tensor([0.0 if s is None else s[0] for s in scales]).float()
        scale = torch.tensor([1.0 if s is None else 1.0 / s[1] for s in scales]).float()
        # Constants, which follow from the space and need not be saved.
        for name, constant in self._constants().items():
            self.register_buffer(name, constant, persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(len(kept), dtype=torch.float64))
        self.register_buffer("m2", torch.zeros(len(kept), dtype=torch.float64))
        # Derived from the moments, so that forward takes two operations.
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)

    def _constants(self, device: torch.device | None = None) -> dict[str, Tensor]:
        return {
            # Not bool, because ``AveragedModel(use_buffers=True)`` cannot average it.
            "declared": torch.tensor(self._declared, dtype=torch.int64, device=device),
            "columns": torch.tensor(self._kept, dtype=torch.int64, device=device),
        }

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> InputNorm:
        """Move the buffers without changing dtypes: counts would overflow in half precision."""

        def move(buffer: Tensor) -> Tensor:
            moved: Tensor = fn(buffer)
            return moved if moved.dtype == buffer.dtype else buffer.to(moved.device)

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        self._set_constants()
        return self

    def _load_from_state_dict(self, *arguments: Any) -> None:
        """Load a state; with ``assign=True`` it may be on another device."""
        super()._load_from_state_dict(*arguments)
        self._set_constants()

    def _set_constants(self) -> None:
        """Set the constants, which ``to_empty`` leaves undefined and states do not contain."""
        for name, constant in self._constants(self.scale.device).items():
            setattr(self, name, constant)

    def pick(self, values: Tensor) -> Tensor:
        """Return the continuous columns (N, F_c) of whole feature rows (N, F)."""
        self.check_width(values)
        if self.num_columns == self.width:
            return values
        return values.index_select(1, self.columns)

    def check_width(self, values: Tensor) -> None:
        """Raise BatchError if ``values`` are not whole feature rows (N, F)."""
        check_tensor("the feature rows", values)
        if values.ndim != 2 or values.shape[1] != self.width:
            raise BatchError(
                "feature rows have the wrong width",
                expected=f"(N, {self.width})",
                received=tuple(values.shape),
            )

    def forward(self, values: Tensor) -> Tensor:
        """Standardise feature rows.

        Args:
            values: Whole feature rows. Shape: (N, F), float32.

        Returns:
            (N, F_c) float32: the continuous columns, scaled.
        """
        return ((self.pick(values) - self.shift) * self.scale).clamp(-CLIP, CLIP)

    def check(self, values: Tensor) -> None:
        """Raise FeatureError if a continuous column of ``values`` (N, F) is not finite."""
        bad = ~torch.isfinite(self.pick(values))
        if not bool(bad.any()):
            return
        row, column = bad.nonzero()[0].tolist()
        raise FeatureError(
            f"feature {self.names[column]!r} is not finite in row {row}",
            expected="a finite number; the statistics are unchanged",
            received=float(self.pick(values)[row, column]),
        )

    @torch.no_grad()
    def update(self, values: Tensor, gathered: Gathered = own_moments) -> None:
        """Add rows to the statistics.

        Args:
            values: Whole feature rows. Shape: (N, F), float32.
            gathered: Function from the moments of these rows to those of all processes of one
                training. Shape of each: (parts, 1 + 2 F_c), float64.

        Raises:
            FeatureError: A value is not finite; the statistics are then unchanged.
        """
        self.check(values)
        if self.num_columns == 0:
            return
        # In parts, because a float64 copy of a rollout would take twice its memory.
        parts = [part for part in torch.split(values, _PART) if part.shape[0]]
        moments = [self._moments(part) for part in parts]
        sums = torch.stack(moments) if moments else self.mean.new_zeros(0, 1 + 2 * self.num_columns)
        every = [part for moments in gathered(sums) for part in moments]
        for part in every:
            added, mean, m2 = part.split([1, self.num_columns, self.num_columns])
            delta = mean - self.mean
            count = self.count + added
            self.m2 += m2 + delta.square() * (self.count * added / count)
            self.mean += delta * (added / count)
            self.count.copy_(count.squeeze(0))
        if every:
            self._derive()

    def _moments(self, values: Tensor) -> Tensor:
        """Return number, means and sums of squared deviations of rows. Shape: (1 + 2 F_c,)."""
        rows = self.pick(values).double()
        mean = rows.mean(0)
        m2 = (rows - mean).square().sum(0)
        return torch.cat([mean.new_full((1,), rows.shape[0]), mean, m2])

    def _derive(self) -> None:
        std = (self.m2 / self.count).sqrt()
        varies = std > RELATIVE_FLOOR * self.mean.abs() + ABSOLUTE_FLOOR
        scale = torch.where(varies, 1.0 / std, 0.0).to(self.scale.dtype)
        declared = self.declared.bool()
        self.shift.copy_(torch.where(declared, self.shift, self.mean.to(self.shift.dtype)))
        self.scale.copy_(torch.where(declared, self.scale, scale))


def _declared_scale(feature: Feature) -> tuple[float, float] | None:
    if isinstance(feature, Continuous) and feature.mean is not None and feature.std is not None:
        return feature.mean, feature.std
    return None
