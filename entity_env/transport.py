"""Actions as bytes, to cross a process boundary, and ``VecObs`` as plain arrays, to be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batch import VecActionMask, VecObs, VecSelectEntityActionMask
from entity_env.ragged import RaggedBufferI64
from entity_env.spaces import ActionName

__all__ = ["deal_actions", "pack_obs", "read_actions", "read_dealt_actions", "split_actions"]

Actions: TypeAlias = Mapping[ActionName, RaggedBufferI64]
"""One entry for each action of the space, in its order. Shape of each: (R, A, 1)."""
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


def split_actions(actions: Actions, counts: Sequence[int]) -> list[bytes]:
    """Actions of all rows, cut into consecutive parts of ``counts`` rows, for ``read_actions``."""
    parts: list[list[bytes]] = [[] for _ in counts]
    rows = np.cumsum([0, *counts])
    for buffer in actions.values():
        values, lengths = buffer.as_array(), buffer.size1()
        ends = np.concatenate([[0], np.cumsum(lengths)])[rows]
        for i, part in enumerate(parts):
            part.append(lengths[rows[i] : rows[i + 1]].tobytes())
            part.append(values[ends[i] : ends[i + 1]].tobytes())
    return [b"".join(part) for part in parts]


def read_actions(
    message: bytes, names: Sequence[ActionName], num_rows: int
) -> dict[ActionName, RaggedBufferI64]:
    """The actions of one part of ``num_rows`` rows; ``names`` are those of the action space."""
    numbers = np.frombuffer(message, np.int64)
    actions = {}
    for name in names:
        lengths = numbers[:num_rows]
        values = numbers[num_rows : num_rows + lengths.sum()]
        actions[name] = RaggedBufferI64.from_flattened(values[:, None], lengths)
        numbers = numbers[num_rows + len(values) :]
    return actions


def deal_actions(
    actions: Actions, rows: npt.NDArray[np.int64], owners: npt.NDArray[np.int64]
) -> dict[int, bytes]:
    """Actions of some rows, sorted out by who gets them, for ``read_dealt_actions``.

    Args:
        actions: Those of the M rows, in the order of ``rows``.
        rows: The number of each row. Shape: (M,).
        owners: Who gets the actions of each row. Shape: (M,).

    Returns:
        A message for each of the owners: its number of rows, the rows, the lengths (rows, actions),
        the values row by row, all int64.
    """
    lengths = np.zeros((len(rows), len(actions)), np.int64)
    for i, buffer in enumerate(actions.values()):
        lengths[:, i] = buffer.size1()
    values = np.concatenate(
        [np.zeros(0, np.int64), *(b.as_array()[:, 0] for b in actions.values())]
    )
    order = np.argsort(owners, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    # The values come action by action; within a row they keep the order of the actions.
    place_of_value = np.repeat(np.tile(place, len(actions)), lengths.T.ravel())
    values = values[np.argsort(place_of_value, kind="stable")]
    rows, lengths = rows[order], lengths[order]
    ends = np.concatenate([[0], np.cumsum(lengths.sum(axis=1))])
    dealt: dict[int, bytes] = {}
    owner_ids, firsts = np.unique(owners[order], return_index=True)
    for owner, first, last in zip(owner_ids, firsts, [*firsts[1:], len(rows)], strict=True):
        own = values[ends[first] : ends[last]]
        parts = (rows[first:last], lengths[first:last], own)
        head = np.array([last - first], np.int64)
        dealt[int(owner)] = b"".join(part.tobytes() for part in (head, *parts))
    return dealt


def read_dealt_actions(
    message: bytes, names: Sequence[ActionName]
) -> list[tuple[int, dict[ActionName, RaggedBufferI64]]]:
    """Each row of one owner with its actions, all of shape (1, A, 1)."""
    numbers = np.frombuffer(message, np.int64)
    count = int(numbers[0])
    rows, numbers = numbers[1 : 1 + count].tolist(), numbers[1 + count :]
    lengths = numbers[: count * len(names)].reshape(count, len(names), 1)
    values = numbers[count * len(names) :, None]
    ends = np.cumsum(lengths).tolist()
    starts = iter([0, *ends])
    stops = iter(ends)
    return [
        (
            row,
            {
                name: RaggedBufferI64.from_flattened(
                    values[next(starts) : next(stops)], lengths[i, k]
                )
                for k, name in enumerate(names)
            },
        )
        for i, row in enumerate(rows)
    ]


def _pack(buffer: Any) -> PackedRagged:
    return buffer.as_array(), buffer.size1()


def _pack_mask(mask: VecActionMask) -> Packed:
    packed: Packed = {"actors": _pack(mask.actors)}
    if isinstance(mask, VecSelectEntityActionMask):
        packed["actees"] = _pack(mask.actees)
    packed["mask"] = None if mask.mask is None else _pack(mask.mask)
    return packed
