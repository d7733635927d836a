"""Spawning: one newcomer for each tick at most, while there is a free seat in its population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from entity_env.rows.compiled import Field, random_int
from entity_env.rows.jit import called

from .body import (
    COLUMN,
    CONSTITUTION,
    FISHING,
    FOOD,
    HEALTH,
    HUNTING,
    LEVEL,
    LIVING,
    LUCK,
    MARKED,
    ROW,
    TARGET,
    WATER,
    start_skills,
)
from .combat import protect
from .settings import setting

__all__ = ["Spawning", "remove_marked", "spawn"]


@dataclass(frozen=True)
class Spawning:
    """The settings of this system.

    Args:
        agents: Largest number of agents that live at once, the seats of the world.
        populations: Number of populations; seat i belongs to population i modulo this number.
    """

    agents: int = setting(128, 1, 16_384)
    populations: int = setting(8, 1)

    def spawning_fields(self, agents: int) -> dict[str, Field]:
        """Return the state of this system.

        ``alive`` seats live, in ``order`` of their age. ``newcomer`` is the seat of this tick's, -1
        if there is none, of population ``drawn``.
        """
        return {
            "alive": Field(least=0, most=agents),
            "order": Field((agents,), least=0, most=agents - 1),
            "drawn": Field(least=0, most=self.populations - 1),
            "newcomer": Field(least=-1, most=agents - 1),
        }


@called
def spawn(g: Any, game: int) -> None:
    """Try to create an agent of a random population at a random place."""
    cell = random_int(g.random, game, 0, g.spawns.shape[1] - 1)
    seat = random_int(g.random, game, 0, g.populations - 1)
    g.drawn[game] = seat
    while seat < len(g.agents[game]) and g.agents[game, seat, LIVING]:
        seat += g.populations
    if seat >= len(g.agents[game]):
        g.newcomer[game] = -1
        return
    me = g.agents[game, seat]
    for column in range(len(me)):
        me[column] = 0
    me[LIVING], me[TARGET], me[LUCK] = 1, -1, -1
    me[ROW], me[COLUMN] = g.spawns[game, cell, 0], g.spawns[game, cell, 1]
    start_skills(g, me)
    me[WATER], me[FOOD] = me[LEVEL + FISHING], me[LEVEL + HUNTING]
    me[HEALTH] = me[LEVEL + CONSTITUTION]
    protect(g, me, g.immunity)
    g.newcomer[game] = seat
    g.order[game, g.alive[game]] = seat
    g.alive[game] += 1


@called
def remove_marked(agents: Any, order: Any, alive: int, reward: Any, left: Any, paid: float) -> int:
    """Remove the agents that die in this tick, and return the number of all others."""
    kept = 0
    for k in range(alive):
        seat = order[k]
        if agents[seat, MARKED]:
            agents[seat, LIVING], left[seat] = 0, True
            reward[seat] += paid
        else:
            order[kept] = seat
            kept += 1
    return kept
