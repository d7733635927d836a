"""The head of continuous actions: a Gaussian for each number, clipped to the action's bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.arguments import check_whole
from entity_env.spaces import ContinuousActionSpace, GlobalContinuousActionSpace
from ragged_net.actors import ContinuousActors, Pairs
from ragged_net.devices import full_precision
from ragged_net.heads.kind import POLICY_GAIN, ActionOutput, Draw, HeadKind, Sizes, orthogonal
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_rows

__all__ = ["ClippedNormal", "ContinuousHead", "ContinuousHeadKind", "GlobalContinuousHeadKind"]

FIRST_STD = 0.5
"""Initial standard deviation, in units of half a range (Andrychowicz et al. 2021, "What matters for
on-policy deep actor-critic methods", section 3.2)."""


@dataclass(frozen=True, eq=False)
class ClippedNormal:
    """For each of A actors, independent Gaussians for K numbers, clipped to the bounds.

    A draw beyond a bound becomes the bound, so that a bound has a probability, and numbers between
    the bounds have a density. The density of a draw is therefore that of the number that the
    environment gets (Fujita and Maeda 2018, "Clipped action policy gradient"). Numbers are measured
    in ``unit``: half a range if there are two bounds, else 1.

    Args:
        mean: (A, K) float32, relative to ``centre``, in units, before clipping.
        std: (K,) float32 in units.
        low: (K,) float32, -inf where there is no bound.
        high: (K,) float32.
        centre: (K,) float32.
        unit: (K,) float32.
    """

    mean: Tensor
    std: Tensor
    low: Tensor
    high: Tensor
    centre: Tensor
    unit: Tensor

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None, greedy: bool = False) -> Tensor:
        """Return drawn numbers within the bounds, or the clipped means. Shape: (A, K)."""
        scaled = self.mean
        if not greedy:
            noise = torch.empty_like(scaled).normal_(generator=generator)
            scaled = scaled + noise * self.std
        return torch.clamp(self.centre + self.unit * scaled, self.low, self.high)

    def log_prob(self, values: Tensor) -> Tensor:
        """Return the sum over the ``values`` (A, K) of each actor. Shape: (A,), float32.

        A number at a bound contributes the log of the bound's probability, a number between the
        bounds the log of the density, in units.
        """
        at_low, at_high = values <= self.low, values >= self.high
        at_bound = at_low | at_high
        # Each branch is 0 where it is not used, because infinite bounds must not reach a gradient.
        beyond = torch.where(
            at_low,
            self._scaled(self.low) - self.mean,
            torch.where(at_high, self.mean - self._scaled(self.high), torch.zeros_like(self.mean)),
        )
        tail = torch.special.log_ndtr(beyond / self.std)
        nothing = torch.zeros_like(self.mean)
        offset = torch.where(at_bound, nothing, self._scaled(values) - self.mean)
        inside = -0.5 * (offset / self.std) ** 2 - self.std.log() - _HALF_LOG_2_PI
        return torch.where(at_bound, tail, inside).sum(-1)

    def entropy(self) -> Tensor:
        """Return the sum over the numbers of each actor, in nats. Shape: (A,), float32.

        A number contributes the entropy of its two bounds and of the density between them: -p log p
        - q log q + Z (log std + log(2 pi e) / 2) + (a phi(a) - b phi(b)) / 2, where a and b are the
        bounds in deviations from the mean, p and q their probabilities, Z = 1 - p - q, and phi the
        standard normal density.
        """
        a, b = (self._edge(bound) for bound in (self.low, self.high))
        low, high = torch.special.ndtr(a), torch.special.ndtr(-b)
        between = (1 - low - high) * (self.std.log() + _HALF_LOG_2_PI + 0.5)
        tails = -low * torch.special.log_ndtr(a) - high * torch.special.log_ndtr(-b)
        entropies: Tensor = tails + between + 0.5 * (a * _phi(a) - b * _phi(b))
        return entropies.sum(-1)

    @property
    def means(self) -> Tensor:
        """The means (A, K) float32 before clipping, in the units of the environment."""
        return self.centre + self.unit * self.mean

    @property
    def stds(self) -> Tensor:
        """The deviations (A, K) float32 before clipping, in the units of the environment."""
        return (self.unit * self.std).expand_as(self.mean)

    def tempered(self, temperature: float) -> ClippedNormal:
        """Return Gaussians whose densities before clipping have the power 1 / ``temperature``."""
        std = self.std * temperature**0.5
        return ClippedNormal(self.mean, std, self.low, self.high, self.centre, self.unit)

    def _scaled(self, values: Tensor) -> Tensor:
        return (values - self.centre) / self.unit

    def _edge(self, bound: Tensor) -> Tensor:
        """Return a bound in deviations from the mean (A, K), within +-15, the range of float32."""
        # An infinite number would make the gradient of the deviation NaN.
        finite = self._scaled(bound).clamp(-_FAR, _FAR)
        return ((finite - self.mean) / self.std).clamp(-15.0, 15.0)


class ContinuousHead(nn.Module):
    """A head with which each actor sets K numbers, with means from its vector, shared deviations.

    Args:
        dim: Width D of an actor's vector.
        space: Action space with the bounds.
    """

    low: Tensor
    high: Tensor
    centre: Tensor
    unit: Tensor

    def __init__(
        self, dim: int, space: ContinuousActionSpace | GlobalContinuousActionSpace
    ) -> None:
        super().__init__()
        self.mean = orthogonal(check_whole("width of a head", dim), len(space), POLICY_GAIN)
        self.log_std = nn.Parameter(torch.full((len(space),), math.log(FIRST_STD)))
        low, high = (torch.tensor(bounds, dtype=torch.float32) for bounds in space.inner_bounds)
        scale = [_scale(*bounds) for bounds in zip(space.low, space.high, strict=True)]
        centre, unit = torch.tensor(scale, dtype=torch.float32).unbind(1)
        # They follow from the space, which is saved with the weights.
        for name, values in (("low", low), ("high", high), ("centre", centre), ("unit", unit)):
            self.register_buffer(name, values.clone(), persistent=False)

    def forward(self, actors: Tensor) -> ClippedNormal:
        """Return distributions over the numbers of actors with the vectors ``actors`` (A, D)."""
        check_rows("the vectors of the actors", actors)
        with full_precision(actors):
            mean = self.mean(actors.float())
            std = self.log_std.float().exp()
            return ClippedNormal(mean, std, self.low, self.high, self.centre, self.unit)


class ContinuousHeadKind(HeadKind):
    """The kind of actions in which each of several actors sets numbers."""

    space: type[Any] = ContinuousActionSpace
    actors = ContinuousActors
    dtype = torch.float32

    def shape(self, space: Any) -> tuple[int, ...]:
        """Return (K,)."""
        return (len(space),)

    def head(self, dim: int, space: Any) -> nn.Module:
        """Return a head of means and deviations."""
        return ContinuousHead(dim, space)

    def word(self, dim: int, space: Any) -> nn.Module:
        """Return the module that makes vectors of chosen numbers."""
        return orthogonal(len(space), dim, 1.0)

    def spell(
        self, word: nn.Module, head: Any, chosen: Tensor, pairs: Pairs | None, actees: Tensor | None
    ) -> Tensor:
        """Return vectors made of the numbers in units."""
        words: Tensor = word((chosen - head.centre) / head.unit)
        return words

    def ask(self, head: Any, rows: Sequence[Tensor], actors: Any, pairs: Pairs | None) -> Any:
        """Return the distributions of the numbers."""
        return head(rows[0])

    def act(self, name: str, dist: Any, actors: Any, draw: Draw) -> ActionOutput:
        """Return the numbers."""
        given = draw.of(name)
        if draw.is_changed:
            dist = dist.tempered(draw.temperature)
        values = dist.draw(draw.generator, draw.greedy) if given is None else given
        chosen = actors.actors.with_values(values)
        numbers = dist.log_prob(values), dist.entropy()
        return ActionOutput(chosen, *numbers, None, dist.means, dist.stds)

    def example(self, first: RaggedTensor, space: Any) -> tuple[ContinuousActors, Tensor]:
        """Return one actor, which sets zeros."""
        return ContinuousActors(first), torch.zeros(1, len(space))

    def graph_outputs(self, space: Any) -> Mapping[str, Sizes]:
        """Return means and standard deviations."""
        return {"mean": ("actors", len(space)), "std": ("actors", len(space))}

    def outputs(self, dist: Any) -> Sequence[Tensor]:
        """Return means and standard deviations before clipping."""
        return [dist.means, dist.stds]

    def nobody(self, actors: Any, space: Any) -> ActionOutput:
        """Return numbers (0, K), and means and deviations (0, K)."""
        none = super().nobody(actors, space)
        return replace(none, probs=None, mean=none.chosen.values, std=none.chosen.values)


class GlobalContinuousHeadKind(ContinuousHeadKind):
    """The kind of actions in which the global entity of a frame sets numbers."""

    space = GlobalContinuousActionSpace


def _scale(low: float, high: float) -> tuple[float, float]:
    """Return the centre and the unit of a range."""
    if math.isinf(low) and math.isinf(high):
        return 0.0, 1.0
    if math.isinf(low) or math.isinf(high):
        return (high - 1.0 if math.isinf(low) else low + 1.0), 1.0
    return low + (high - low) / 2, (high - low) / 2


def _phi(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x * x - _HALF_LOG_2_PI)


_FAR = 1e9
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
