"""The built-in players as scripts that read observations.

As opponents of ``minirts`` and ``capture_the_flag`` the built-in players see everything and give
several orders at once. These read observations and give one order in a turn, so that they can play
any seat: ``evaluate --against``, leagues, ``selfplay=fixed``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from entity_env.actions import Action, GlobalCategoricalAction
from entity_env.observation import Observation

from .capture_the_flag import ACTIONS as FLAG_ORDERS
from .capture_the_flag import ATTACK_CARRIER, ESCORT_FLAG, GET, LYING, NOTHING, OURS, PROTECT
from .minirts import (
    ACTIONS,
    ATTACK_BASE,
    ATTACK_IN_RANGE,
    BUILD_BARRACKS,
    BUILD_MELEE,
    BUILD_RANGE,
    BUILD_WORKER,
    DEFEND,
    HIT_AND_RUN,
    IDLE,
    MINI_RTS,
)

__all__ = ["bring_the_flag_home", "hit_n_run", "simple"]

_KINDS = [kind.name for kind in MINI_RTS.kinds]


def simple(observation: Observation) -> dict[str, Action]:
    """Play SIMPLE by sight: defend, build workers, barracks and melee units, then attack."""
    own, orders = _own(observation), [DEFEND, ATTACK_IN_RANGE]
    orders += [ATTACK_BASE] if own["Melee"] >= 5 else []
    return _first(observation, [*orders, *_economy(own), BUILD_MELEE, IDLE], ACTIONS)


def hit_n_run(observation: Observation) -> dict[str, Action]:
    """Play HIT_N_RUN by sight: defend, build units that shoot, of which two hunt and flee."""
    own, orders = _own(observation), [DEFEND]
    if own["Range"] >= 2:
        is_seen = len(_rows(observation, "Enemy")) > 0
        orders += [HIT_AND_RUN] if is_seen else [ATTACK_BASE]
    return _first(observation, [*orders, *_economy(own), BUILD_RANGE, IDLE], ACTIONS)


def bring_the_flag_home(observation: Observation) -> dict[str, Action]:
    """Play Capture the Flag: get the flag, bring it home, or stop its carrier."""
    held = int(_rows(observation, "Flag")[0][2])
    orders = {LYING: [GET], OURS: [ESCORT_FLAG, PROTECT]}.get(held, [ATTACK_CARRIER])
    return _first(observation, [*orders, NOTHING], FLAG_ORDERS)


def _rows(observation: Observation, kind: str) -> Any:
    return (observation.features or {}).get(kind, [])


def _own(observation: Observation) -> Counter[str]:
    """Return the number of a player's units of each kind."""
    return Counter(_KINDS[int(row[0])] for row in _rows(observation, "Own"))


def _economy(own: Counter[str]) -> list[int]:
    if own["Worker"] < 3:
        return [BUILD_WORKER]
    return [] if own["Barracks"] else [BUILD_BARRACKS]


def _first(
    observation: Observation, orders: Sequence[int], names: Sequence[str]
) -> dict[str, Action]:
    """Return the first of these orders that the mask allows; the last one always is."""
    asked: Any = observation.actions
    allowed = np.ravel(asked["Order"].mask)
    order = next(order for order in orders if allowed[order])
    return {"Order": GlobalCategoricalAction(order, names[order])}
