"""Settings that are numbers within a range, declared beside the default of each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ppo_trainer.errors import ConfigError

__all__ = ["above_0", "at_least", "check_ranges", "fraction", "path_field", "within"]

_LARGEST, _SMALLEST = 2.0**127, 2.0**-149  # powers of two in the range of float32


@dataclass(frozen=True)
class _Range:
    least: float
    most: float
    words: str

    def check(self, path: str, value: float) -> None:
        if not self.least <= value <= self.most:  # False for NaN, too
            beyond = value > self.most == _LARGEST or 0 < value < self.least == _SMALLEST
            raise ConfigError(
                f"{path} is out of range",
                expected=self.words + (", finite in float32" if beyond else ""),
                received=value,
            )


def at_least(least: float, *, default: float) -> Any:
    """Return the field of a setting that is at least ``least``."""
    return _field(_Range(least, _LARGEST, f">= {least}"), default)


def above_0(*, default: float, most: float = _LARGEST) -> Any:
    """Return the field of a setting above 0; ``most`` may be infinite."""
    return _field(_Range(_SMALLEST, most, "> 0"), default)


def within(least: float, most: float, *, default: float | None) -> Any:
    """Return the field of a setting from ``least`` to ``most``."""
    return _field(_Range(least, most, f"from {least} to {most}"), default)


def fraction(*, default: float | None) -> Any:
    """Return the field of a setting from 0 to 1, or None."""
    return within(0, 1, default=default)


def path_field(default: Any) -> Any:
    """Return the field of a setting that is a path; any text on the command line is one."""
    return dataclasses.field(default=default, metadata={"path": True})


def check_ranges(config: Any, path: str = "") -> None:
    """Raise ConfigError for a number out of its range, also in nested dataclasses."""
    for own in dataclasses.fields(config):
        value, where = getattr(config, own.name), f"{path}{own.name}"
        if dataclasses.is_dataclass(value):
            check_ranges(value, f"{where}.")
        elif value is not None and "range" in own.metadata:
            own.metadata["range"].check(where, value)


def _field(allowed: _Range, default: float | None) -> Any:
    return dataclasses.field(default=default, metadata={"range": allowed})
