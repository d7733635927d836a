"""Immunity of newcomers, and the wilderness, which limits fights to agents of similar levels.

``immunity=0`` gives none; ``wilderness=False`` lets all levels fight each other everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from entity_env.rows.jit import inlined

from .body import COLUMN, IMMUNE, ROW, WILD
from .progression import combat_level
from .settings import setting

__all__ = ["Safety", "may_fight", "protect"]


@dataclass(frozen=True)
class Safety:
    """The settings of this system.

    Args:
        immunity: Number of updates for which a newcomer cannot be attacked.
        wilderness: True if attacks need levels that differ at most by the smaller wilderness of
            the two, as on the large map.
        safe_distance: Distance from its centre within which the wilderness is -1.
        wilderness_step: Number of tiles in which the wilderness grows by 1.
        wilderness_centre: The row and column of its centre; -1: the middle of the map.
    """

    immunity: int = setting(10)
    wilderness: bool = setting(False)
    safe_distance: int = setting(7)
    wilderness_step: int = setting(3, 1)
    wilderness_centre: int = setting(35, -1)


@inlined
def protect(g: Any, me: Any, updates: int) -> None:
    """Let so many more updates protect an agent, and note how deep in the wilderness it is."""
    me[IMMUNE] = max(updates, 0)
    centre = g.wilderness_centre if g.wilderness_centre >= 0 else g.tiles.shape[1] // 2
    far = max(abs(me[ROW] - centre), abs(me[COLUMN] - centre))
    me[WILD] = max((far - g.safe_distance) // g.wilderness_step, -1)


@inlined
def may_fight(me: Any, other: Any) -> bool:
    """Return True if the wilderness lets two agents fight."""
    apart = abs(combat_level(me) - combat_level(other))
    return bool(apart <= min(me[WILD], other[WILD]))
