"""Actions as bytes, to send them to another process."""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.kinds.answers import AnswerForm
from entity_env.batching.ragged import ActionBuffer
from entity_env.spaces import ActionName

__all__ = ["deal_actions", "read_actions", "read_dealt_actions", "split_actions"]

Actions: TypeAlias = Mapping[ActionName, ActionBuffer]
"""One entry for each action of the space, in its order. Shape of each: (R, A, 1), or (R, A, K).

Numbers are sent as eight bytes each: int64, and float32 as float64."""


def split_actions(actions: Actions, counts: Sequence[int]) -> list[bytes]:
    """Return the actions of consecutive parts of ``counts`` rows, for ``read_actions``."""
    parts: list[list[bytes]] = [[] for _ in counts]
    rows = np.cumsum([0, *counts])
    for buffer in actions.values():
        values, lengths = _eight_bytes(buffer), buffer.size1()
        ends = np.concatenate([[0], np.cumsum(lengths)])[rows]
        for i, part in enumerate(parts):
            part.append(lengths[rows[i] : rows[i + 1]].tobytes())
            part.append(values[ends[i] : ends[i + 1]].tobytes())
    return [b"".join(part) for part in parts]


def read_actions(
    message: bytes, forms: Mapping[ActionName, AnswerForm], num_rows: int
) -> dict[ActionName, ActionBuffer]:
    """Return the actions of one part of ``num_rows`` rows."""
    numbers = np.frombuffer(message, np.int64)
    actions = {}
    for name, form in forms.items():
        lengths = numbers[:num_rows]
        values = numbers[num_rows : num_rows + lengths.sum() * form.width]
        actions[name] = _answers(form, values, lengths)
        numbers = numbers[num_rows + len(values) :]
    return actions


def deal_actions(
    actions: Actions, rows: npt.NDArray[np.int64], owners: npt.NDArray[np.int64]
) -> dict[int, bytes]:
    """Return the actions of some rows as a message for each worker, for ``read_dealt_actions``.

    Args:
        actions: The actions of the M rows, in the order of ``rows``.
        rows: The number of each row. Shape: (M,).
        owners: The worker of each row. Shape: (M,).

    Returns:
        A message for each worker: its number of rows, the rows, and their actions.
    """
    places: dict[int, list[int]] = {}
    for place, owner in enumerate(owners.tolist()):
        places.setdefault(owner, []).append(place)
    numbers, cut = rows.tolist(), [_by_row(buffer) for buffer in actions.values()]
    messages = {}
    for owner, mine in places.items():
        parts = [_packed([len(mine), *(numbers[place] for place in mine)])]
        for lengths, values in cut:
            parts.append(_packed([lengths[place] for place in mine]))
            parts += [values[place] for place in mine]
        messages[owner] = b"".join(parts)
    return messages


def read_dealt_actions(
    message: bytes, forms: Mapping[ActionName, AnswerForm]
) -> list[tuple[int, dict[ActionName, ActionBuffer]]]:
    """Return the rows of one worker, each with the actions of its frame."""
    count = int.from_bytes(message[:8], sys.byteorder)
    rows = np.frombuffer(message, np.int64, count, 8).tolist()
    actions = read_actions(message[8 * (count + 1) :], forms, count)
    if count == 1:
        return [(rows[0], actions)]
    return [
        (row, {name: buffer[i] for name, buffer in actions.items()}) for i, row in enumerate(rows)
    ]


def _eight_bytes(buffer: ActionBuffer) -> npt.NDArray[Any]:
    """Return the values (A, K) as int64 or float64."""
    values: npt.NDArray[Any] = buffer.as_array()
    return values if values.dtype == np.int64 else values.astype(np.float64)


def _answers(
    form: AnswerForm, values: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> ActionBuffer:
    return form.buffer(values.view(np.float64) if form.is_real else values, lengths)


def _by_row(buffer: ActionBuffer) -> tuple[list[int], list[bytes]]:
    """Return the number of actors of each row, and their values."""
    values, lengths = _eight_bytes(buffer), buffer.size1()
    ends = (8 * values.shape[1] * lengths.cumsum()).tolist()
    written = values.tobytes()
    cut = [written[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return lengths.tolist(), cut


def _packed(numbers: list[int]) -> bytes:
    return struct.pack(f"{len(numbers)}q", *numbers)
