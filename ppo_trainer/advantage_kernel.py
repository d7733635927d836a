"""The loop of ``advantage.gae`` in Numba: a torch loop takes 70 times as long."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragged_net.kernels.jit import kernel

__all__ = ["fill_advantages"]

Floats = npt.NDArray[np.float32]


@kernel
def fill_advantages(
    rewards: Floats,
    values: Floats,
    dones: npt.NDArray[np.bool_],
    last_value: Floats,
    gamma: float,
    gae_lambda: float,
    advantages: Floats,
) -> None:
    """Write ``advantages`` (T, R); arguments as in ``gae``."""
    steps, rows = rewards.shape
    discount = np.float32(gamma)
    decay = discount * np.float32(gae_lambda)
    following, next_value = np.zeros(rows, np.float32), last_value.copy()
    for t in range(steps - 1, -1, -1):
        for row in range(rows):
            goes_on = np.float32(0) if dones[t, row] else np.float32(1)
            delta = rewards[t, row] + discount * next_value[row] * goes_on - values[t, row]
            following[row] = delta + decay * goes_on * following[row]
            advantages[t, row] = following[row]
            next_value[row] = values[t, row]
