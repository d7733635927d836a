"""The Numba kernels of categorical choices and of selections as operations of autograd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from entity_env.errors import BatchError
from ragged_net import kernels
from ragged_net.actors import Pairs
from ragged_net.compiled.autograd import HEAD, flat, run, save, saved
from ragged_net.kernels.first_order import once_differentiable

__all__ = ["Choices", "can_run", "can_select", "choose", "select"]


def can_run(x: Tensor) -> bool:
    """Return True if the kernels accept rows ``x`` (N, ...)."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and kernels.available()
        and not torch.compiler.is_compiling()
    )


def can_select(query: Tensor, key: Tensor) -> bool:
    """Return True if ``select`` accepts queries (A, D) and keys (E, D)."""
    return can_run(query) and can_run(key) and query.shape[1] % HEAD == 0


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices of A actors, with their probabilities.

    Args:
        chosen: (A,) int64.
        log_prob: (A,) float32 of what was chosen.
        entropy: (A,) float32, in nats.
        probs: (A, C) float32, 0 where forbidden.
    """

    chosen: Tensor
    log_prob: Tensor
    entropy: Tensor
    probs: Tensor


def choose(
    logits: Tensor,
    mask: Tensor,
    given: Tensor | None,
    generator: torch.Generator | None,
    greedy: bool,
) -> Choices:
    """Return choices from logits (A, C), C >= 1, that ``can_run`` accepts.

    Args:
        logits: float32; those of forbidden choices are ignored.
        mask: (A, C) bool.
        given: Choices to evaluate, (A,) int64; None draws choices.
        generator: Random number generator; None for torch's global one.
        greedy: True to take the most likely choices instead of drawing.

    Raises:
        BatchError: Mask or choices do not fit the logits.
        ActionError: A choice does not exist.
    """
    if mask.shape != logits.shape or (given is not None and given.shape != logits.shape[:1]):
        raise BatchError(
            "mask or choices do not fit the logits",
            expected=f"{tuple(logits.shape)} and ({logits.shape[0]},)",
            received=f"{tuple(mask.shape)} and {None if given is None else tuple(given.shape)}",
        )
    noise = logits.new_empty(0, logits.shape[1])
    chosen = mask.new_empty(mask.shape[0], dtype=torch.int64) if given is None else given
    if given is None and not greedy:
        noise = torch.empty_like(logits).exponential_(generator=generator)
    return Choices(chosen, *run(_Choose, logits, mask, noise, greedy and given is None, chosen))


class _Choose(torch.autograd.Function):
    """The operation behind ``choose``, with log-probabilities, entropies and probabilities.

    Unless the choices are given, it writes them into ``chosen``.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, mask: Tensor, noise: Tensor, greedy: bool, chosen: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        mask, chosen = mask.contiguous(), chosen.contiguous()
        actors = logits.shape[0]
        log_prob, entropy = logits.new_empty(actors), logits.new_empty(actors)
        probs = logits.new_empty(logits.shape)
        kernels.load("choose").choose(
            logits.contiguous().numpy(force=True), mask.numpy(), noise.numpy(), greedy,
            chosen.numpy(), log_prob.numpy(), entropy.numpy(), probs.numpy(),
        )  # fmt: skip
        save(ctx, mask, chosen, probs)
        return log_prob, entropy, probs

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_log_prob: Tensor, d_entropy: Tensor, d_probs: Tensor
    ) -> tuple[Tensor | None, ...]:
        mask, chosen, probs = saved(ctx)
        d_logits = torch.empty_like(probs)
        gradients = [d.contiguous().numpy() for d in (d_log_prob, d_entropy, d_probs)]
        kernels.load("choose").choose_backward(
            mask.numpy(), chosen.numpy(), probs.numpy(), *gradients, d_logits.numpy()
        )
        return d_logits, None, None, None, None


def select(query: Tensor, key: Tensor, pairs: Pairs) -> Tensor:
    """Return log-probabilities (P,) of queries (A, D) and keys (E, D) accepted by ``can_select``.

    Those of an actor are a log-softmax of query times key / sqrt(D), -inf where the mask forbids.

    Raises:
        BatchError: Queries or keys do not fit the pairs.
    """
    width, actees = query.shape[1], int(pairs.actee_offsets[-1])
    if query.shape[0] != pairs.num_actors or key.shape != (actees, width):
        raise BatchError(
            "queries or keys do not fit the pairs",
            expected=f"({pairs.num_actors}, {width}) and ({actees}, {width})",
            received=f"{tuple(query.shape)} and {tuple(key.shape)}",
        )
    if pairs.mask is not None and pairs.mask.shape != (pairs.num_pairs,):
        raise BatchError(
            "the mask does not fit the pairs",
            expected=f"({pairs.num_pairs},)",
            received=tuple(pairs.mask.shape),
        )
    log_probs: Tensor = run(_Select, query, key, pairs)
    return log_probs


class _Select(torch.autograd.Function):
    """The operation behind ``select``."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, pairs: Pairs) -> Tensor:
        query, key = query.contiguous(), key.contiguous()
        log_probs = query.new_empty(pairs.num_pairs)
        mask = query.new_empty(0, dtype=torch.bool) if pairs.mask is None else pairs.mask
        offsets = pairs.actor_offsets, pairs.actee_offsets
        kernels.load("select").select_forward(
            flat(query), flat(key), *(ends.numpy() for ends in offsets), query.shape[1],
            mask.contiguous().numpy(), flat(log_probs),
        )  # fmt: skip
        # As tensors, so that autograd detects in-place changes.
        save(ctx, query, key, log_probs, *offsets)
        return log_probs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_log_probs: Tensor) -> tuple[Tensor | None, ...]:
        query, key, log_probs, *offsets = saved(ctx)
        d_query, d_key = torch.empty_like(query), torch.empty_like(key)
        kernels.load("select").select_backward(
            flat(d_log_probs.contiguous()), flat(log_probs), flat(query), flat(key),
            *(ends.numpy() for ends in offsets), query.shape[1], flat(d_query), flat(d_key),
        )  # fmt: skip
        return d_query, d_key, None
