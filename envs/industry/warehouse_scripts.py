"""The warehouse player without a network: the nearest task."""

from __future__ import annotations

from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.observation import Observation

__all__ = ["nearest_task"]


def nearest_task(observation: Observation) -> dict[str, Action]:
    """Fetch the nearest item while there is room, then hand over at the nearest station."""
    seen: Any = observation
    mask: Any = seen.actions["Task"]
    column = {"Item": 2, "Station": 2, "Charger": 2}
    way = {
        ident: row[column[name]]
        for name in column
        for ident, row in zip(seen.ids[name], seen.features[name], strict=True)
    }
    options = list(mask.actee_ids)
    kinds = [[one for one in options if one[0] == kind] for kind in ("Item", "Station", "Charger")]
    chosen = min(next(kind for kind in kinds if kind), key=way.__getitem__)
    return {"Task": SelectEntityAction(actors=list(mask.actor_ids), actees=[chosen])}
