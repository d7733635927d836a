"""Checks of the log-probabilities and logits passed to ``RecordEpisodes.act``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.vec_obs import VecObs
from entity_env.errors import RecordingError, check_known, shorten

__all__ = ["check_noted", "read_notes"]

Notes = list[npt.NDArray[np.float32]]


def check_noted(given: tuple[bool, bool], always: tuple[bool, bool] | None) -> None:
    """Raise RecordingError unless a step has the same parts as all steps before it."""
    if always is None or given == always:
        return
    for what, now, before in zip(("log_probs", "logits"), given, always, strict=True):
        if now != before:
            raise RecordingError(
                f"{what} are given for some steps only",
                expected=f"{what} {'in every step' if before else 'in no step'}, as in the first",
                received=f"a step {'with' if now else 'without'} {what}",
            )


def read_notes(log_probs: object, logits: object, obs: VecObs) -> Notes:
    """Return the log-probabilities, then the logits of all actions, as flat arrays."""
    notes: Notes = []
    if log_probs is not None:
        shapes = {name: (_actors(mask),) for name, mask in obs.action_masks.items()}
        notes += _read("log_probs", log_probs, shapes)
    if logits is not None:
        sizes = {name: mask.logits_shape for name, mask in obs.action_masks.items()}
        notes += _read("logits", logits, sizes)
    return notes


def _read(what: str, given: object, shapes: Mapping[str, tuple[int, ...]]) -> Notes:
    if not isinstance(given, Mapping):
        raise RecordingError(
            f"{what} are not a mapping",
            expected="a dict from action names to arrays",
            received=shorten(given),
        )
    check_known(RecordingError, f"{what} of an unknown action {{}}", given, shapes)
    return [_flat(f"{what} of action {name!r}", given.get(name), s) for name, s in shapes.items()]


def _flat(what: str, given: object, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    try:
        # A copy, because the caller may change its array.
        values = np.array([] if given is None else given, np.float32)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor with a gradient
        is_tensor = hasattr(given, "detach")
        raise RecordingError(
            f"{what} cannot be converted to a NumPy array of numbers",
            expected=f"an array of numbers, shape {shape}",
            received=shorten(given),
            hint="convert tensors by tensor.detach().float().cpu()" if is_tensor else None,
        ) from error
    nobody = shape[0] == 0 and values.size == 0
    if values.shape != shape and not nobody:
        raise RecordingError(
            f"{what} have the wrong shape",
            expected=shape,
            received="nothing" if given is None else values.shape,
        )
    return values.ravel()


def _actors(mask: Any) -> int:
    return int(mask.actors.items())
