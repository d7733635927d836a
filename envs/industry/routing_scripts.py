"""The players of vehicle routing without a network: the nearest customer, and savings."""

from __future__ import annotations

import math
from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.observation import Observation

__all__ = ["nearest_customer", "savings"]


def nearest_customer(observation: Observation) -> dict[str, Action]:
    """Send each vehicle to the nearest customer that it can serve, else to the depot."""
    return _go(observation, by_turn=False)


def savings(observation: Observation) -> dict[str, Action]:
    """Send the first vehicle to the nearest place with ``turn``, others by ``nearest_customer``."""
    return _go(observation, by_turn=True)


def _go(observation: Observation, by_turn: bool) -> dict[str, Action]:
    seen: Any = observation
    mask: Any = seen.actions["Go"]
    rows = {
        ident: row
        for name in ("Vehicle", "Depot", "Customer")
        for ident, row in zip(seen.ids[name], seen.features[name], strict=True)
    }
    actors, actees, taken = list(mask.actor_ids), [], set[Any]()
    for actor, allowed in zip(actors, mask.mask, strict=True):
        options = [actee for actee, ok in zip(mask.actee_ids, allowed, strict=True) if ok]
        customers = [option for option in options if option[0] != "Depot"]
        # What another one goes to at the same time is left to it, where there is anything else.
        wanted = [own for own in customers if own not in taken] or customers or options
        if by_turn and not taken:
            wanted = [own for own in options if rows[own][-1]] or wanted
        chosen = min(wanted, key=lambda own: math.dist(rows[actor][:2], rows[own][:2]))
        taken.add(chosen)
        actees.append(chosen)
    return {"Go": SelectEntityAction(actors=actors, actees=actees)}
