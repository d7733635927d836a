"""Forms of an actor's choice: integers or real numbers, and their number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer, RaggedBufferF32, RaggedBufferI64

__all__ = ["INDEX", "AnswerForm", "answers_of_frames", "flat_answers"]


@dataclass(frozen=True)
class AnswerForm:
    """The form of an actor's choice.

    Args:
        is_real: True for real numbers, float32; False for int64.
        width: Number of numbers.
    """

    is_real: bool = False
    width: int = 1

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return np.float32 if self.is_real else np.int64

    def buffer(self, values: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> ActionBuffer:
        """Return choices in the format of ``VecEnv.act``.

        Args:
            values: The numbers of all actors, (A * width,) or (A, width), of any numeric type.
            lengths: The number of actors of each frame. Shape: (B,).
        """
        flat = values.reshape(int(lengths.sum()), self.width).astype(self.dtype, copy=False)
        kind = RaggedBufferF32 if self.is_real else RaggedBufferI64
        return kind.from_flattened(flat, lengths)

    def answers(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return choices of any numeric type, (A * width,) or (A, width), as in ``Decision``.

        Their shape is (A,) if each is one integer, else (A, width).
        """
        shape = (-1, self.width) if self.is_real or self.width != 1 else (-1,)
        return values.reshape(shape).astype(self.dtype, copy=False)


def flat_answers(buffer: ActionBuffer, form: AnswerForm) -> npt.NDArray[Any]:
    """Return the choices (A,) if each is one integer, else (A, width)."""
    return form.answers(buffer.as_array())


def answers_of_frames(
    actions: Mapping[str, ActionBuffer], masks: Mapping[str, Any], forms: Mapping[str, AnswerForm]
) -> list[dict[str, npt.NDArray[Any]]]:
    """Return the choices of each frame: for each action one for each of its actors.

    Args:
        actions: For each action the choices in all frames.
        masks: For each action its actors in each frame.
        forms: The forms of the choices.
    """
    parts = {}
    for name, form in forms.items():
        ends = np.cumsum(masks[name].actors.size1()).tolist()
        values = flat_answers(actions[name], form)
        parts[name] = [values[i:k] for i, k in zip([0, *ends], ends, strict=False)]
    return [dict(zip(parts, own, strict=True)) for own in zip(*parts.values(), strict=True)]


INDEX = AnswerForm()
"""The index of a choice, or of a selected entity."""
