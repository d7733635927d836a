"""Settings with many values, such as ``optim.lr=interval(1e-4,1e-2)`` in Hydra's grammar."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, QuotedString, RangeSweep
from hydra.errors import HydraException

from entity_env.errors import SettingError, shorten

if TYPE_CHECKING:
    import optuna

__all__ = ["Choices", "Interval", "Space", "nearest_value", "spaces_of", "suggest"]

_WIDE = 100.0
"""Ratio of the ends of an interval from which on it is searched on a logarithmic scale."""

Choices: TypeAlias = Sequence[int | float | str | bool]


@dataclass(frozen=True)
class Interval:
    """All numbers from ``low`` to ``high``, or some of them.

    Args:
        low: Least number.
        high: Greatest number.
        step: Distance between two numbers, or None for all real numbers.
        is_whole: True for whole numbers.
        log: True for a logarithmic scale.
    """

    low: float
    high: float
    step: float | None = None
    is_whole: bool = False
    log: bool = False


Space: TypeAlias = Choices | Interval


def spaces_of(settings: Iterable[str]) -> tuple[list[str], dict[str, Space]]:
    """Return the settings with one value, and the values of the others by name.

    ``interval(a,b)`` has all real numbers, on a logarithmic scale if b is 100 times a or more, or
    within ``tag(log,...)``; ``range(a,b,step)`` the numbers below b; ``choice(a,b)`` or ``a,b``
    these.

    Args:
        settings: Settings as on the command line.

    Raises:
        SettingError: An interval is empty.
    """
    single, spaces, parser = [], dict[str, Space](), OverridesParser.create()
    for setting in settings:
        try:
            override = parser.parse_override(setting.lstrip("+"))
        except HydraException:
            single.append(setting)  # left to the reader of settings, which reports the mistake
            continue
        if override.is_sweep_override():
            spaces[override.key_or_group] = _space(setting, override.value())
        else:
            single.append(setting)
    return single, spaces


def nearest_value(space: Space, value: Any) -> Any:
    """Return the value of a space that is nearest to ``value``, or else its first one."""
    if not isinstance(space, Interval):
        return value if value in space else space[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return space.low
    inside = min(max(value, space.low), space.high)
    if space.step is not None:
        inside = space.low + round((inside - space.low) / space.step) * space.step
    return int(inside) if space.is_whole else inside


def suggest(trial: optuna.Trial, name: str, space: Space) -> Any:
    """Return the value of a setting that Optuna selects for a trial."""
    if not isinstance(space, Interval):
        return trial.suggest_categorical(name, space)
    if space.is_whole:
        return trial.suggest_int(name, int(space.low), int(space.high), step=int(space.step or 1))
    return trial.suggest_float(name, space.low, space.high, log=space.log, step=space.step)


def _space(setting: str, value: Any) -> Space:
    if isinstance(value, ChoiceSweep):
        named: list[Any] = list(value.list)
        return [own.text if isinstance(own, QuotedString) else own for own in named]
    if isinstance(value, RangeSweep):
        low, stop, step = (_number(own) for own in (value.start, value.stop, value.step))
        count = math.ceil((stop - low) / step) if step else 0
        is_whole = all(isinstance(own, int) for own in (low, stop, step))
        own = Interval(low, low + (count - 1) * step, step, is_whole)
    elif isinstance(value, IntervalSweep):
        low, high = float(_number(value.start)), float(_number(value.end))
        wide = low > 0 and high >= _WIDE * low and "linear" not in value.tags
        own = Interval(low, high, log=wide or "log" in value.tags)
    else:
        raise SettingError(f"{shorten(setting)} does not name values to search")
    if not own.low < own.high or (own.log and own.low <= 0):
        raise SettingError(
            f"{shorten(setting)} is an empty interval",
            expected="a smaller and a larger number, both above 0 for a logarithmic scale",
        )
    return own


def _number(value: int | float | None) -> int | float:
    return 0 if value is None else value  # Hydra's grammar requires all of them
