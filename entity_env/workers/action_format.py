"""Actions as bytes, to send them to another process."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer
from entity_env.kinds.answers import AnswerForm
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
        A message for each worker: its number of rows, the rows, the numbers of values (rows,
        actions), and the values row by row, all of eight bytes.
    """
    parts: dict[int, tuple[list[int], list[int], list[bytes]]] = {}
    dealt = [parts.setdefault(owner, ([], [], [])) for owner in owners.tolist()]
    cut = [_by_row(buffer) for buffer in actions.values()]
    for i, row in enumerate(rows.tolist()):
        numbers, lengths, values = dealt[i]
        numbers.append(row)
        lengths += [len(own[i]) // 8 for own in cut]
        values += [own[i] for own in cut]
    messages = {}
    for owner, (numbers, lengths, values) in parts.items():
        head = [len(numbers), *numbers, *lengths]
        messages[owner] = struct.pack(f"{len(head)}q", *head) + b"".join(values)
    return messages


def read_dealt_actions(
    message: bytes, forms: Mapping[ActionName, AnswerForm]
) -> list[tuple[int, dict[ActionName, ActionBuffer]]]:
    """Return the rows of one worker, each with the actions of its frame."""
    numbers = memoryview(message).cast("q")
    end_of_rows = 1 + numbers[0]
    rows = numbers[1:end_of_rows].tolist()
    start = end_of_rows + len(rows) * len(forms)
    lengths = iter(numbers[end_of_rows:start].tolist())
    values = np.frombuffer(message, np.int64)
    dealt = []
    for row in rows:
        actions = {}
        for name, form in forms.items():
            end = start + next(lengths)
            own = np.array([(end - start) // form.width], np.int64)
            actions[name] = _answers(form, values[start:end], own)
            start = end
        dealt.append((row, actions))
    return dealt


def _eight_bytes(buffer: ActionBuffer) -> npt.NDArray[Any]:
    """Return the values (A, K) as int64 or float64."""
    values: npt.NDArray[Any] = buffer.as_array()
    return values if values.dtype == np.int64 else values.astype(np.float64)


def _answers(
    form: AnswerForm, values: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> ActionBuffer:
    return form.buffer(values.view(np.float64) if form.is_real else values, lengths)


def _by_row(buffer: ActionBuffer) -> list[bytes]:
    """Return the values of each row."""
    values = _eight_bytes(buffer)
    ends = (8 * values.shape[1] * buffer.size1().cumsum()).tolist()
    written = values.tobytes()
    return [written[start:end] for start, end in zip([0, *ends], ends, strict=False)]
