"""Combat: three styles with their reach and damage; a hit takes food and water, a spell freezes.

Without ``combat`` there is no action ``Attack``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from entity_env.rows.compiled import random_float
from entity_env.rows.jit import called, inlined

from .body import (
    COLUMN,
    CONSTITUTION,
    DAMAGE,
    DEFENCE,
    FISHING,
    FOOD,
    FROZEN,
    HEALTH,
    HUNTING,
    IMMUNE,
    LEVEL,
    LUCK,
    MAGE,
    MELEE,
    ROW,
    STYLE,
    TARGET,
    WATER,
    WILD,
    combat_level,
    gain_experience,
)
from .settings import setting

__all__ = ["Combat", "Safety", "chance", "fight", "may_fight", "protect"]


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


@dataclass(frozen=True)
class Combat:
    """The settings of this system.

    Damage is ``least + gain * level / top_gain``, rounded down.

    Args:
        combat: True if agents attack.
        melee_reach: The greatest Chebyshev distance of a target.
        range_reach: The same for range.
        mage_reach: The same for mage.
        melee_least: The damage of a hit before levels.
        range_least: The same for range.
        mage_least: The same for mage.
        melee_gain: Damage of melee added by levels.
        range_gain: Damage of range added by levels.
        mage_gain: Damage of mage added by levels.
        top_gain: The level that adds the complete gain.
        hit_chance: The probability of a hit between equals.
        hit_levels: Number of levels of the attacker's style above the target's defence that add 1
            to the probability.
        pilfering: True if a hit takes food and water.
        freezing: The freeze that a hit of mage sets; all but the last tick of it lose a move.
        style_experience: The attacker's experience of the style for each point of damage.
        defence_experience: The target's experience of defence.
        constitution_experience: The experience of constitution of both.
    """

    combat: bool = setting(True)
    melee_reach: int = setting(1)
    range_reach: int = setting(2)
    mage_reach: int = setting(3)
    melee_least: int = setting(5)
    range_least: int = setting(3)
    mage_least: int = setting(1)
    melee_gain: int = setting(45)
    range_gain: int = setting(32)
    mage_gain: int = setting(24)
    top_gain: int = setting(99, 1)
    hit_chance: float = setting(0.5, 0, 1)
    hit_levels: int = setting(200, 1)
    pilfering: bool = setting(True)
    freezing: int = setting(3)
    style_experience: int = setting(40)
    defence_experience: int = setting(40)
    constitution_experience: int = setting(20)


@inlined
def chance(g: Any, me: Any, other: Any, style: int) -> float:
    """Return the probability of a hit."""
    ahead = me[LEVEL + MELEE + style] - other[LEVEL + DEFENCE]
    return float(g.hit_chance + ahead / g.hit_levels)


@inlined
def _damage(g: Any, style: int, level: int) -> int:
    if style == 0:
        return int(g.melee_least + g.melee_gain * level / g.top_gain)
    if style == 1:
        return int(g.range_least + g.range_gain * level / g.top_gain)
    return int(g.mage_least + g.mage_gain * level / g.top_gain)


@called
def fight(g: Any, game: int, count: int) -> None:
    """Play the attacks of the ``count`` oldest agents, the oldest first."""
    for k in range(count):
        me = g.agents[game, g.order[game, k]]
        me[LUCK] = -1
        if me[TARGET] < 0 or g.agents[game, me[TARGET], IMMUNE] > 0:
            continue
        other, style = g.agents[game, me[TARGET]], me[STYLE]
        me[LUCK] = random_float(g.random, game) < chance(g, me, other, style)
        if me[LUCK]:
            _hit(g, me, other, style, _damage(g, style, me[LEVEL + MELEE + style]))


@inlined
def _hit(g: Any, me: Any, other: Any, style: int, damage: int) -> None:
    other[HEALTH] = max(other[HEALTH] - damage, 0)
    other[DAMAGE] += damage
    if g.pilfering:
        other[FOOD] = max(other[FOOD] - damage, 0)
        other[WATER] = max(other[WATER] - damage, 0)
        me[FOOD] = min(me[FOOD] + damage, me[LEVEL + HUNTING])
        me[WATER] = min(me[WATER] + damage, me[LEVEL + FISHING])
    if style == MAGE - MELEE:
        other[FROZEN] = g.freezing
    if g.progression:
        gain_experience(me, MELEE + style, g.style_experience * damage)
        gain_experience(me, CONSTITUTION, g.constitution_experience * damage)
        gain_experience(other, DEFENCE, g.defence_experience * damage)
        gain_experience(other, CONSTITUTION, g.constitution_experience * damage)
