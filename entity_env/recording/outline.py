"""The outlines of a recording: decisions, rewards and ends without frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Outline"]


@dataclass(frozen=True)
class Outline:
    """The outcomes of T steps of R rows that were written together, without their frames.

    Args:
        first: The number of the first step in the recording.
        continues: True if the steps continue those before them.
        after_reset: True if each row begins an episode with the first step.
        reward: The rewards of each step. Shape: (T, R), float32.
        done: True for episodes that ended with the step. Shape: (T, R).
        truncated: True for episodes that a limit ended. Shape: (T, R).
        asked: True for rows that acted in a step; None if all did. Shape: (T, R).
        metrics: For each step with an end the metrics of each row, as in ``VecObs``. Shape of
            each: (R,).
    """

    first: int
    continues: bool
    after_reset: bool
    reward: npt.NDArray[np.float32]
    done: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    asked: npt.NDArray[np.bool_] | None
    metrics: Mapping[int, Mapping[str, npt.NDArray[np.float64]]]
