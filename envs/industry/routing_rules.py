"""Settings and spaces of vehicle routing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Entity,
    ObsSpace,
    Position,
    SelectEntityActionSpace,
)

from ..errors import EnvConfigError, check_flag, check_number, check_span, check_whole

__all__ = [
    "ACTION_SPACE",
    "CUSTOMER",
    "MISSED",
    "MOST_CUSTOMERS",
    "OBS_SPACE",
    "RoutingSettings",
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


@dataclass(frozen=True)
class RoutingSettings:
    """The settings of vehicle routing; ``check`` makes them.

    Args:
        customers: How many, from and to.
        vehicles: How many, from and to.
        capacity: Of a vehicle; 0: ``usual_capacity``.
        windows: Whether customers must be served within a time window.
        requests: The share of the customers that become known during the day.
        day: How long it is, in travel times of one unit of distance.
    """

    customers: tuple[int, int]
    vehicles: tuple[int, int]
    capacity: int
    windows: bool
    requests: float
    day: float

    @classmethod
    def check(
        cls,
        customers: Any,
        vehicles: Any,
        capacity: Any,
        windows: Any,
        requests: Any,
        day: Any,
        instance: Any = None,
    ) -> RoutingSettings:
        """Return the settings, or raise EnvConfigError.

        The arguments are those of ``VehicleRouting``; an ``instance`` has demands of its own.
        """
        capacity = 0 if capacity is None else check_whole("capacity", capacity, 1, 1_000_000)
        if 0 < capacity < 9 and instance is None:
            raise EnvConfigError(
                "a vehicle is too small for a customer",
                expected="capacity >= 9, the largest demand",
                received=capacity,
            )
        return cls(
            customers=check_span("customers", customers, 1, MOST_CUSTOMERS),
            vehicles=check_span("vehicles", vehicles, 1, MOST_VEHICLES),
            capacity=capacity,
            windows=check_flag("windows", windows),
            requests=check_number("requests", requests, 0.0, 1.0),
            day=check_number("day", day, 1e-3, 1e9),
        )
