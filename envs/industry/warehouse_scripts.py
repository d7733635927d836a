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
    names = ("Item", "Station", "Charger")
    way = {
        ident: row[2]
        for name in names
        for ident, row in zip(seen.ids[name], seen.features[name], strict=True)
    }
    kinds = [[one for one in mask.actee_ids if one[0] == name] for name in names]
    chosen = min(next(kind for kind in kinds if kind), key=way.__getitem__)
    return {"Task": SelectEntityAction(actors=list(mask.actor_ids), actees=[chosen])}
