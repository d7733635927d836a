"""Settings of the world: each system declares its own, with their defaults and ranges."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from entity_env.arguments import check_flag, check_number, check_whole, checked

__all__ = ["numbers", "setting"]


def setting(default: float, least: float = 0, most: float = 10_000) -> Any:
    """Return the field of a dataclass for a number, or a flag, with its range."""
    if isinstance(default, bool):
        return checked(check_flag, default)
    check: Any = check_whole if isinstance(default, int) else check_number
    return checked(lambda name, value: check(name, value, least, most), default)


def numbers(settings: Any) -> dict[str, float]:
    """Return the settings that ``setting`` declared, by name."""
    return {f.name: getattr(settings, f.name) for f in fields(settings) if "check" in f.metadata}
