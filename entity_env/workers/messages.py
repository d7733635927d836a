"""Values that processes send each other: actions as bytes, and pickles."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import cloudpickle
import numpy as np
import numpy.typing as npt

from entity_env.batching.kinds.answers import AnswerForm
from entity_env.batching.ragged import ActionBuffer
from entity_env.errors import EnvironmentFailedError, shorten
from entity_env.spaces import ActionName

__all__ = ["loaded", "pickled", "read_actions", "split_actions"]

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


def pickled(what: str, value: Any) -> bytes:
    """Pickle ``value`` for another process, or raise an EnvironmentFailedError about ``what``."""
    try:
        content: bytes = cloudpickle.dumps(value)
    except Exception as error:  # objects may raise anything
        raise EnvironmentFailedError(
            f"{what} cannot be sent to another process: {shorten(error)}",
            expected="a class or function that can be imported or pickled",
            received=shorten(value),
        ) from error
    return content


def loaded(what: str, content: bytes) -> Any:
    """Return the object that another process pickled; errors name ``what``."""
    try:
        return pickle.loads(content)
    except Exception as error:
        raise EnvironmentFailedError(
            f"{what} cannot be loaded in a worker: {type(error).__name__}: {error}",
            expected="a class or function that can be imported or pickled",
        ) from error


def _eight_bytes(buffer: ActionBuffer) -> npt.NDArray[Any]:
    """Return the values (A, K) as int64 or float64."""
    values: npt.NDArray[Any] = buffer.as_array()
    return values if values.dtype == np.int64 else values.astype(np.float64)


def _answers(
    form: AnswerForm, values: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> ActionBuffer:
    return form.buffer(values.view(np.float64) if form.is_real else values, lengths)
