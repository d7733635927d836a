"""Settings of the world: each system declares its own, with their defaults and ranges."""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import Any

from entity_env.arguments import check_flag, check_number, check_whole

__all__ = ["check_settings", "numbers", "setting"]


def setting(default: float, least: float = 0, most: float = 10_000) -> Any:
    """Return the field of a dataclass for a number, or a flag, with its range."""
    return field(default=default, metadata={"range": (least, most)})


def check_settings(settings: Any) -> None:
    """Raise SettingError unless all numbers of a dataclass are of their type and range."""
    for own in fields(settings):
        if "range" in own.metadata:
            object.__setattr__(settings, own.name, _checked(own, getattr(settings, own.name)))


def numbers(settings: Any) -> dict[str, float]:
    """Return the settings that ``setting`` declared, by name."""
    return {o.name: getattr(settings, o.name) for o in fields(settings) if "range" in o.metadata}


def _checked(own: Field[Any], value: Any) -> float:
    if isinstance(own.default, bool):
        return check_flag(own.name, value)
    least, most = own.metadata["range"]
    if isinstance(own.default, int):
        return check_whole(own.name, value, least, most)
    return check_number(own.name, value, least, most)
