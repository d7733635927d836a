"""The player of vehicle routing without a network: the nearest customer."""

from __future__ import annotations

import math
from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.observation import Observation

__all__ = ["nearest_customer"]


def nearest_customer(observation: Observation) -> dict[str, Action]:
    """Each vehicle goes to the nearest customer that it can serve, else to the depot."""
    seen: Any = observation
    mask: Any = seen.actions["Go"]
    places = {
        ident: row[:2]
        for name in ("Vehicle", "Depot", "Customer")
        for ident, row in zip(seen.ids[name], seen.features[name], strict=True)
    }
    actors, actees, taken = list(mask.actor_ids), [], set[Any]()
    for actor, allowed in zip(actors, mask.mask, strict=True):
        options = [actee for actee, ok in zip(mask.actee_ids, allowed, strict=True) if ok]
        customers = [option for option in options if option[0] != "Depot"]
        # What another one goes to at the same time is left to it, where there is anything else.
        wanted = [own for own in customers if own not in taken] or customers or options
        chosen = min(wanted, key=lambda own: math.dist(places[actor], places[own]))
        taken.add(chosen)
        actees.append(chosen)
    return {"Go": SelectEntityAction(actors=actors, actees=actees)}
