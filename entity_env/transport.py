"""``VecObs`` as plain arrays, to cross a process boundary in one message, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batch import (
    VecActionMask,
    VecCategoricalActionMask,
    VecObs,
    VecSelectEntityActionMask,
)
from entity_env.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from entity_env.spaces import ActionName

__all__ = ["cat_obs", "pack_actions", "pack_obs", "split_actions", "unpack_actions", "unpack_obs"]

Packed: TypeAlias = dict[str, Any]
"""Names to arrays, or to further such dicts: nothing but flat memory and names."""
PackedRagged: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]
"""Flat values (N, D) and lengths (B,)."""


def pack_obs(obs: VecObs) -> Packed:
    """Everything in ``obs`` as arrays."""
    return {
        "features": {name: _pack(buffer) for name, buffer in obs.features.items()},
        "visible": {name: _pack(buffer) for name, buffer in obs.visible.items()},
        "masks": {name: _pack_mask(mask) for name, mask in obs.action_masks.items()},
        "global_features": obs.global_features,
        "reward": obs.reward,
        "done": obs.done,
        "truncated": obs.truncated,
        "metrics": dict(obs.metrics),
        "final": None if obs.final is None else pack_obs(obs.final),
    }


def unpack_obs(packed: Packed) -> VecObs:
    """The observation that ``pack_obs`` took apart."""
    return cat_obs([packed])


def cat_obs(parts: Sequence[Packed]) -> VecObs:
    """The rows of several packed observations of one pair of spaces, in order, as one."""
    finals = [part["final"] for part in parts if part["final"] is not None]
    counts = [len(part["reward"]) for part in parts]
    return VecObs(
        features={
            name: _cat(RaggedBufferF32, [part["features"][name] for part in parts])
            for name in parts[0]["features"]
        },
        action_masks={
            name: _cat_masks([part["masks"][name] for part in parts]) for name in parts[0]["masks"]
        },
        reward=np.concatenate([part["reward"] for part in parts]),
        done=np.concatenate([part["done"] for part in parts]),
        truncated=np.concatenate([part["truncated"] for part in parts]),
        global_features=np.concatenate([part["global_features"] for part in parts]),
        visible=_cat_visible(parts),
        metrics=_cat_metrics([part["metrics"] for part in parts], counts),
        final=cat_obs(finals) if finals else None,
    )


def pack_actions(actions: Mapping[ActionName, RaggedBufferI64]) -> dict[ActionName, PackedRagged]:
    """Actions of all rows as arrays."""
    return {name: _pack(buffer) for name, buffer in actions.items()}


def unpack_actions(packed: Mapping[ActionName, PackedRagged]) -> dict[ActionName, RaggedBufferI64]:
    """The actions that ``pack_actions`` took apart."""
    return {name: RaggedBufferI64.from_flattened(*pair) for name, pair in packed.items()}


def split_actions(
    packed: Mapping[ActionName, PackedRagged], counts: Sequence[int]
) -> list[dict[ActionName, PackedRagged]]:
    """Packed actions of all rows, cut into consecutive parts of ``counts`` rows."""
    parts: list[dict[ActionName, PackedRagged]] = [{} for _ in counts]
    rows = np.cumsum([0, *counts])
    for name, (values, lengths) in packed.items():
        ends = np.concatenate([[0], np.cumsum(lengths)])
        for part, first, last in zip(parts, rows[:-1], rows[1:], strict=True):
            part[name] = (values[ends[first] : ends[last]], lengths[first:last])
    return parts


def _pack(buffer: Any) -> PackedRagged:
    return buffer.as_array(), buffer.size1()


def _cat(kind: Callable[..., Any], parts: Sequence[PackedRagged]) -> Any:
    values = np.concatenate([values for values, _ in parts])
    lengths = np.concatenate([lengths for _, lengths in parts])
    return kind.from_flattened(values, lengths)  # type: ignore[attr-defined]


def _pack_mask(mask: VecActionMask) -> Packed:
    packed: Packed = {"actors": _pack(mask.actors)}
    if isinstance(mask, VecSelectEntityActionMask):
        packed["actees"] = _pack(mask.actees)
    packed["mask"] = None if mask.mask is None else _pack(mask.mask)
    return packed


def _cat_masks(parts: Sequence[Packed]) -> VecActionMask:
    actors = _cat(RaggedBufferI64, [part["actors"] for part in parts])
    if "actees" not in parts[0]:
        masks = [part["mask"] for part in parts]
        return VecCategoricalActionMask(actors, _cat(RaggedBufferBool, masks))
    actees = _cat(RaggedBufferI64, [part["actees"] for part in parts])
    if all(part["mask"] is None for part in parts):
        return VecSelectEntityActionMask(actors, actees)
    masks = [part["mask"] or _all_pairs(part) for part in parts]
    return VecSelectEntityActionMask(actors, actees, _cat(RaggedBufferBool, masks))


def _all_pairs(part: Packed) -> PackedRagged:
    pairs = part["actors"][1] * part["actees"][1]
    return np.ones((int(pairs.sum()), 1), dtype=np.bool_), pairs


def _cat_visible(parts: Sequence[Packed]) -> dict[str, Any]:
    """A part without a mask for a type shows all its entities."""
    names = [name for name in parts[0]["features"] if any(name in p["visible"] for p in parts)]
    return {
        name: _cat(
            RaggedBufferBool,
            [p["visible"].get(name) or _all_shown(p["features"][name]) for p in parts],
        )
        for name in names
    }


def _all_shown(features: PackedRagged) -> PackedRagged:
    values, lengths = features
    return np.ones((len(values), 1), dtype=np.bool_), lengths


def _cat_metrics(
    parts: Sequence[Mapping[str, npt.NDArray[np.float64]]], counts: Sequence[int]
) -> dict[str, npt.NDArray[np.float64]]:
    """A part without a metric has NaN in its rows."""
    names = sorted({name for part in parts for name in part})
    return {
        name: np.concatenate(
            [
                part.get(name, np.full(count, np.nan))
                for part, count in zip(parts, counts, strict=True)
            ]
        )
        for name in names
    }
