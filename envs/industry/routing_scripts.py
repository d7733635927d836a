"""Players of vehicle routing without a network: the nearest customer, and the savings algorithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action, SelectEntityAction
from entity_env.observation import Observation

__all__ = ["nearest_customer", "savings"]

F64 = npt.NDArray[np.float64]


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


def savings(depot: F64, places: F64, demand: npt.NDArray[np.int64], capacity: int) -> float:
    """Return the cost of the tours that the parallel savings algorithm finds.

    Every customer begins with a tour of its own; of all pairs of tours' ends, the one that saves
    the most way is joined first, as long as the demand of both fits.

    Args:
        depot: Shape: (2,).
        places: Shape: (customers, 2).
        demand: Shape: (customers,).
        capacity: Of a vehicle.

    Returns:
        The length of all tours.

    Source:
        Clarke and Wright, "Scheduling of vehicles from a central depot to a number of delivery
        points", Operations Research 12, 1964.
    """
    home = np.hypot(*(places - depot).T)
    between = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    gain = home[:, None] + home[None] - between
    first, second = np.triu_indices(len(places), 1)
    tours = {i: [i] for i in range(len(places))}
    of = list(range(len(places)))
    load = {i: int(own) for i, own in enumerate(demand)}
    for pair in np.argsort(-gain[first, second], kind="stable"):
        i, j = int(first[pair]), int(second[pair])
        a, b = of[i], of[j]
        if gain[i, j] <= 0 or a == b or load[a] + load[b] > capacity:
            continue
        one, other = tours[a], tours[b]
        if i not in (one[0], one[-1]) or j not in (other[0], other[-1]):
            continue
        if one[-1] != i:
            one.reverse()
        if other[0] != j:
            other.reverse()
        tours[a], load[a] = one + other, load[a] + load.pop(b)
        for customer in tours.pop(b):
            of[customer] = a
    return float(
        sum(
            home[tour[0]] + home[tour[-1]] + between[tour[:-1], tour[1:]].sum()
            for tour in tours.values()
        )
    )
