"""The numbers that gradient steps measure: check for NaN, and their means over an update.

Of names that end with ``.min`` or ``.max`` the least or the greatest number is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from entity_env.errors import NonFiniteError

__all__ = ["StepMetrics", "joined", "means", "of_policies", "reads_are_free"]


def reads_are_free(device: torch.device) -> bool:
    """Return True if reading a number is free; a GPU must finish its work first."""
    return device.type == "cpu"


class StepMetrics:
    """The measurements of each gradient step.

    Where reading is free, numbers are checked at once. Elsewhere all are read at the end of the
    update; until then ``bad`` makes the optimizers skip their steps.

    Args:
        device: Device of the numbers.

    Attributes:
        at_once: True if numbers are checked at once.
        bad: float32 scalar on the device: 1 after the first number that is not finite, else 0.
    """

    def __init__(self, device: torch.device) -> None:
        self.at_once = reads_are_free(device)
        self.bad = torch.zeros((), device=device)
        self._steps: list[dict[str, float]] = []
        self._unread: list[list[tuple[list[str], Tensor]]] = []

    def begin(self) -> None:
        """Begin another gradient step."""
        self._steps.append({})
        self._unread.append([])

    def add(self, names: Iterable[str], values: Tensor) -> None:
        """Add numbers of the present step: ``values`` (K,) and their ``names``.

        Raises:
            NonFiniteError: A number is NaN or infinite; where reading is not free, ``read`` raises
                it.
        """
        if self.at_once:
            # Stored as Python numbers: many small tensors between large ones would fragment the
            # memory.
            read = dict(zip(names, values.tolist(), strict=True))
            self._steps[-1] |= read
            _check(read)
        else:
            self._unread[-1].append((list(names), values))
            self.bad = torch.maximum(self.bad, (~values.isfinite()).any().to(self.bad.dtype))

    def read(self) -> list[dict[str, float]]:
        """Return the numbers of all steps.

        Raises:
            NonFiniteError: A number is NaN or infinite.
        """
        unread = [values for step in self._unread for _, values in step]
        numbers = iter(torch.cat(unread).tolist() if unread else [])
        for step, parts in zip(self._steps, self._unread, strict=True):
            step |= {name: next(numbers) for names, _ in parts for name in names}
            _check(step)
        return self._steps


def joined(name: str, one: Tensor, other: Tensor) -> Tensor:
    """Return a number of two micro-batches together: sum, or least, or greatest, by its name."""
    if name.endswith((".min", ".max")):
        return torch.minimum(one, other) if name.endswith(".min") else torch.maximum(one, other)
    return one + other


def means(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each name over the measurements that contain it."""
    names = sorted({name for numbers in measured for name in numbers})
    return {
        name: _mean(name, [numbers[name] for numbers in measured if name in numbers])
        for name in names
    }


def of_policies(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return each policy's numbers as ``policy_<i>/<name>``, and the means over all by name.

    A single policy's numbers are returned as they are.
    """
    if len(measured) == 1:
        return dict(measured[0])
    metrics = means(measured)
    for number, numbers in enumerate(measured):
        metrics |= {f"policy_{number}/{name}": value for name, value in numbers.items()}
    return metrics


def _mean(name: str, values: Sequence[float]) -> float:
    if name.endswith((".min", ".max")):
        return min(values) if name.endswith(".min") else max(values)
    return sum(values) / len(values)


def _check(numbers: Mapping[str, float]) -> None:
    wrong = {name: value for name, value in numbers.items() if not math.isfinite(value)}
    if wrong:
        losses = any(name.startswith(("loss/", "policy/")) for name in wrong)
        raise NonFiniteError(
            "a loss is not finite" if losses else "a gradient is not finite",
            expected="finite losses and gradients",
            received=wrong,
        )
