"""Numbers of several policies as those of one update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["of_policies"]


def of_policies(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return each policy's numbers as ``policy_<i>/<name>``, and their means by name.

    Of a single policy they are its own.
    """
    if len(measured) == 1:
        return dict(measured[0])
    metrics = {}
    for name in sorted({name for own in measured for name in own}):
        values = {number: own[name] for number, own in enumerate(measured) if name in own}
        metrics[name] = sum(values.values()) / len(values)
        metrics |= {f"policy_{number}/{name}": value for number, value in values.items()}
    return metrics
