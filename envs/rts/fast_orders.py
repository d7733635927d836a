"""Orders to units of compiled games, noted before they are sent."""

from __future__ import annotations

from typing import Any

from .fast_layout import (
    IS_TOLD,
    OWN_BUILDS,
    OWN_COMMAND,
    OWN_TARGET,
    OWN_X,
    OWN_Y,
    TOLD,
    TOLD_LIST,
    called,
)
from .fast_world import send

__all__ = ["forget", "send_told", "tell"]


@called
def tell(w: Any, i: int, command: int, target: int, builds: int, x: float, y: float) -> None:
    """Note what a unit shall be told; the last word counts, in the place of the first."""
    u = w.units
    if not u[i, IS_TOLD]:
        u[i, IS_TOLD] = 1
        w.numbers[TOLD_LIST + w.numbers[TOLD]] = i
        w.numbers[TOLD] += 1
    u[i, OWN_COMMAND], u[i, OWN_TARGET], u[i, OWN_BUILDS] = command, target, builds
    w.places[i, OWN_X], w.places[i, OWN_Y] = x, y


@called
def forget(w: Any) -> None:
    """Tell nobody anything."""
    for k in range(w.numbers[TOLD]):
        w.units[w.numbers[TOLD_LIST + k], IS_TOLD] = 0
    w.numbers[TOLD] = 0


@called
def send_told(w: Any, kinds: Any, player: int) -> None:
    """Tell all units what has been noted for them, in the order of noting."""
    u = w.units
    for k in range(w.numbers[TOLD]):
        i = w.numbers[TOLD_LIST + k]
        x, y = w.places[i, OWN_X], w.places[i, OWN_Y]
        send(w, kinds, player, i, u[i, OWN_COMMAND], x, y, u[i, OWN_TARGET], -1, u[i, OWN_BUILDS])
