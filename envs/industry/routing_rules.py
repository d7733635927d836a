"""Spaces and limits of vehicle routing."""

from __future__ import annotations

import numpy as np

from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Entity,
    ObsSpace,
    Position,
    SelectEntityActionSpace,
)

__all__ = [
    "ACTION_SPACE",
    "CUSTOMER",
    "MISSED",
    "MOST_CUSTOMERS",
    "MOST_VEHICLES",
    "OBS_SPACE",
    "usual_capacity",
]

CUSTOMER = (
    "x", "y", "demand", "opens", "closes", "depot distance", "distance", "dx", "dy", "fits",
)  # fmt: skip
"""The features of a customer, in their order; see ``VehicleRouting``."""
OBS_SPACE = ObsSpace(
    entities={
        "Vehicle": Entity([Position("x", "y"), "load", "busy", "parked", "asked"]),
        "Depot": Entity([Position("x", "y"), "distance", "dx", "dy"]),
        "Customer": Entity([Position("x", "y"), *CUSTOMER[2:]]),
        "Day": Entity(["customers", "tours", "time", "to come"]),
    }
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {"Go": SelectEntityActionSpace()}

MISSED = 2.0
"""The cost of a customer who is not served within the window."""
MOST_CUSTOMERS, MOST_VEHICLES = 5000, 100
_CAPACITIES = {10: 20, 20: 30, 50: 40, 100: 50}
"""Kool, van Hoof and Welling, "Attention, learn to solve routing problems!", 2019."""


def usual_capacity(customers: int) -> int:
    """Return the capacity of Kool et al. for so many customers, interpolated."""
    return round(float(np.interp(customers, list(_CAPACITIES), list(_CAPACITIES.values()))))
