"""Foraging: agents get hungry and thirsty, eat in forests, drink beside water, starve and heal.

Without ``foraging`` food, water and health change in fights only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_env.rows.compiled import random_float, random_int
from entity_env.rows.jit import called, inlined

from .body import (
    COLUMN,
    CONSTITUTION,
    FISHING,
    FOOD,
    HEALTH,
    HUNTING,
    LEVEL,
    ROW,
    SKILL_ORDER,
    WATER,
    gain_experience,
)
from .settings import setting
from .terrain import FOREST, LAKE, SCRUB

__all__ = ["SKILL_ORDERS", "Foraging", "forage", "regrow"]

SKILL_ORDERS = np.array([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
"""All orders of drinking, 0, eating, 1, and healing, 2. Shape: (6, 3)."""


@dataclass(frozen=True)
class Foraging:
    """The settings of this system.

    Args:
        foraging: True if agents eat, drink, heal and starve.
        thirst: Water lost in a tick.
        hunger: Food lost in a tick.
        gathered: The share of a skill's level that is drunk or eaten at once.
        healed: The share of the level of constitution that a tick heals.
        starved: The health that a tick without food, or without water, takes.
        regrowth: The probability that a harvested forest has grown again after a tick.
        forage_experience: Experience for each unit that is drunk or eaten.
        random_order: True if drinking, eating and healing come in a new random order each time, as
            in version 1.3; otherwise in this one.
    """

    foraging: bool = setting(True)
    thirst: int = setting(1)
    hunger: int = setting(1)
    gathered: float = setting(0.5, 0, 1)
    healed: float = setting(0.1, 0, 1)
    starved: int = setting(1)
    regrowth: float = setting(0.025, 0, 1)
    forage_experience: int = setting(10)
    random_order: bool = setting(False)


@inlined
def forage(g: Any, game: int, me: Any) -> None:
    """Drink, eat, and heal or starve."""
    points = g.forage_experience if g.progression else 0
    me[SKILL_ORDER] = random_int(g.random, game, 0, 5) if g.random_order else 0
    for i in range(3):
        skill = SKILL_ORDERS[me[SKILL_ORDER], i]
        if skill == 0:
            _drink(me, g.tiles[game], g.thirst, g.gathered, points)
        elif skill == 1:
            _eat(me, g.tiles[game], g.hunger, g.gathered, points)
        else:
            _heal(me, g.healed, g.starved)


@inlined
def _drink(me: Any, tiles: Any, thirst: int, gathered: float, points: int) -> None:
    y, x, most = me[ROW], me[COLUMN], me[LEVEL + FISHING]
    me[WATER] = max(me[WATER] - thirst, 0)
    beside = tiles[y - 1, x] == LAKE or tiles[y + 1, x] == LAKE
    if beside or tiles[y, x - 1] == LAKE or tiles[y, x + 1] == LAKE:
        drunk = min(most - me[WATER], int(gathered * most))
        me[WATER] += drunk
        gain_experience(me, FISHING, points * drunk)


@inlined
def _eat(me: Any, tiles: Any, hunger: int, gathered: float, points: int) -> None:
    y, x, most = me[ROW], me[COLUMN], me[LEVEL + HUNTING]
    me[FOOD] = max(me[FOOD] - hunger, 0)
    if tiles[y, x] == FOREST:
        tiles[y, x] = SCRUB
        eaten = min(most - me[FOOD], int(gathered * most))
        me[FOOD] += eaten
        gain_experience(me, HUNTING, points * eaten)


@inlined
def _heal(me: Any, healed: float, starved: int) -> None:
    health, most = me[HEALTH], me[LEVEL + CONSTITUTION]
    if me[FOOD] > me[LEVEL + HUNTING] // 2 and me[WATER] > me[LEVEL + FISHING] // 2:
        health += min(most - health, int(healed * most))
    if me[FOOD] == 0:
        health -= starved
    if me[WATER] == 0:
        health -= starved
    me[HEALTH] = max(health, 0)


@called
def regrow(tiles: Any, random: Any, game: int, regrowth: float) -> None:
    """Let forests grow again, each with its own luck."""
    for y in range(tiles.shape[0]):
        for x in range(tiles.shape[1]):
            if tiles[y, x] == SCRUB and random_float(random, game) < regrowth:
                tiles[y, x] = FOREST
