"""Observations of agents: themselves, other agents in a crop of the map, targets, and tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_env.rows.compiled import Actors, Entities, Field
from entity_env.rows.jit import called, inlined
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Grid,
    ObsSpace,
    SelectEntityActionSpace,
)

from .body import (
    AGE,
    COLUMN,
    CONSTITUTION,
    DAMAGE,
    FISHING,
    FOOD,
    FROZEN,
    HEALTH,
    HUNTING,
    IMMUNE,
    LEVEL,
    MOVE,
    NEXT,
    ROW,
    SKILLS,
    STYLE,
    STYLES,
    TARGET,
    WATER,
    WILD,
    agents_field,
    combat_level,
)
from .combat import chance, may_fight
from .settings import setting
from .terrain import TILES

__all__ = ["MOVES", "Observing", "choose", "choose_move", "show_agent", "show_self"]

_SKILLS, _STYLES = len(SKILLS), len(STYLES)
MOVES = ("North", "South", "East", "West", "Stay")
_BODY = (*("damage", "age", "food", "water", "health", "frozen", "immune", "wilderness", "level"),)


@dataclass(frozen=True)
class Observing:
    """The settings of observations.

    Args:
        radius: Number of tiles that agents see in each direction.
        death_reward: Reward of an agent for its death.
    """

    radius: int = setting(7, 1, 64)
    death_reward: float = setting(-1.0, -1000, 1000)

    def observing_fields(self, agents: int, shape: tuple[int, ...]) -> dict[str, Field]:
        """Return the state of agents on the map, and lists of agents near an observer.

        ``first`` is the oldest agent on each tile, -1 for none. The first ``seen`` of ``near`` and
        the first ``reached`` of ``strikes`` are those of the last observer.
        """
        strikes = len(STYLES) * agents
        return {
            "agents": agents_field(agents, shape, len(MOVES)),
            "first": Field(shape, np.int16, fixed=True),
            "seen": Field(fixed=True),
            "near": Field((agents,), fixed=True),
            "reached": Field(fixed=True),
            "strikes": Field((strikes,), fixed=True),
        }

    def spaces(
        self, populations: int, combat: bool
    ) -> tuple[ObsSpace, dict[ActionName, ActionSpace]]:
        """Return the observation space and the action space."""
        side = 2 * self.radius + 1
        place = [Discrete("row", side), Discrete("column", side)]
        who = Discrete("population", populations)
        entities = {
            "Self": Entity([who, *_BODY, *SKILLS]),
            "Agent": Entity([*place, who, *_BODY]),
            "Strike": Entity(
                [*place, Discrete("style", len(STYLES), names=STYLES), who, *_BODY, "chance"]
            ),
            "Tile": Grid((side, side), [Discrete("kind", len(TILES), names=TILES)]),
        }
        actions: dict[ActionName, ActionSpace] = {
            "Move": CategoricalActionSpace(list(MOVES)),
            "Attack": SelectEntityActionSpace(),
        }
        if not combat:
            del entities["Strike"], actions["Attack"]
        return ObsSpace(entities=entities), actions

    def sources(self, agents: int, combat: bool) -> tuple[dict[str, Entities], dict[str, Actors]]:
        """Return the sources of entities, and the actors."""
        entities = {
            "Self": Entities(show_self, count=1, most=1),
            "Agent": Entities(show_agent, count=list_agents, most=agents),
            "Strike": Entities(_strike, count=list_strikes, most=len(STYLES) * agents),
            "Tile": Entities("tiles", window=_corner),
        }
        actions = {
            "Move": Actors("Self"),
            "Attack": Actors("Self", when=_reaches, targets=("Self", "Strike")),
        }
        if not combat:
            del entities["Strike"], actions["Attack"]
        return entities, actions


@inlined
def list_agents(g: Any, game: int, seat: int) -> int:
    """Store the other agents in the crop of an agent, and return their number."""
    g.seen[game] = _list_near(g.agents[game], g.first[game], g.near[game], seat, g.radius)
    return int(g.seen[game])


@called
def _list_near(agents: Any, first: Any, near: Any, seat: int, radius: int) -> int:
    """Note the others, row by row, on a tile the oldest first."""
    count, y, x = 0, agents[seat, ROW], agents[seat, COLUMN]
    for i in range(y - radius, y + radius + 1):
        line = first[i, x - radius : x + radius + 1]
        for j in range(len(line)):
            other = line[j]
            while other >= 0:
                if other != seat:
                    near[count] = other
                    count += 1
                other = agents[other, NEXT]
    return count


@inlined
def list_strikes(g: Any, game: int, seat: int) -> int:
    """Note the styles and targets that an agent can choose from; ``list_agents`` comes before."""
    near, strikes, reaches = (
        g.near[game],
        g.strikes[game],
        (g.melee_reach, g.range_reach, g.mage_reach),
    )
    g.reached[game] = _list_targets(
        g.agents[game], near[: g.seen[game]], strikes, seat, reaches, g.wilderness
    )
    return int(g.reached[game])


@called
def _list_targets(
    agents: Any, near: Any, strikes: Any, seat: int, reaches: Any, is_wild: bool
) -> int:
    count, me = 0, agents[seat]
    for k in range(len(near)):
        other = agents[near[k]]
        far = max(abs(other[ROW] - me[ROW]), abs(other[COLUMN] - me[COLUMN]))
        for style in range(_STYLES):
            if far <= reaches[style] and (not is_wild or may_fight(me, other)):
                strikes[count] = near[k] * _STYLES + style
                count += 1
    return count


def _reaches(g: Any, game: int, seat: int, i: int) -> bool:
    return bool(g.reached[game] > 0)


@inlined
def choose_move(g: Any, game: int, seat: int, moves: Any) -> None:
    """Store the choices of an agent, in a world without attacks."""
    g.agents[game, seat, MOVE] = moves[0]


@inlined
def choose(g: Any, game: int, seat: int, moves: Any, attacks: Any) -> None:
    """Store the choices of an agent."""
    me = g.agents[game, seat]
    me[MOVE], me[TARGET] = moves[0], -1
    if len(attacks) > 0 and attacks[0] > 0:  # the first entity is the agent itself: no attack
        others = list_agents(g, game, seat)
        list_strikes(g, game, seat)
        strike = g.strikes[game, attacks[0] - 1 - others]
        me[TARGET], me[STYLE] = strike // _STYLES, strike % _STYLES


def _corner(g: Any, game: int, seat: int) -> tuple[int, int]:
    return g.agents[game, seat, ROW] - g.radius, g.agents[game, seat, COLUMN] - g.radius


@called
def _show(me: Any, other: Any, radius: int, out: Any) -> None:
    """Write the place of another agent in the crop of one."""
    out[0] = other[ROW] - me[ROW] + radius
    out[1] = other[COLUMN] - me[COLUMN] + radius


@called
def _show_body(me: Any, out: Any) -> None:
    out[0] = 0.01 * me[DAMAGE]
    out[1] = 0.01 * me[AGE]
    out[2] = me[FOOD] / me[LEVEL + HUNTING] - 0.5
    out[3] = me[WATER] / me[LEVEL + FISHING] - 0.5
    out[4] = me[HEALTH] / me[LEVEL + CONSTITUTION] - 0.5
    out[5] = me[FROZEN] / 3 - 0.5
    out[6] = me[IMMUNE] / 10 - 0.5
    out[7] = me[WILD]
    out[8] = combat_level(me)


@inlined
def show_self(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    """Write the features of an agent as it sees itself."""
    out[0] = seat % g.populations
    _show_body(g.agents[game, seat], out[1:])
    for skill in range(_SKILLS):
        out[10 + skill] = g.agents[game, seat, LEVEL + skill]


@inlined
def show_agent(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    """Write the features of the ``i``-th of the others in the crop, ``g.near[game, i]``."""
    other = g.near[game, i]
    _show(g.agents[game, seat], g.agents[game, other], g.radius, out)
    out[2] = other % g.populations
    _show_body(g.agents[game, other], out[3:])


def _strike(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    other, style = g.strikes[game, i] // _STYLES, g.strikes[game, i] % _STYLES
    _show(g.agents[game, seat], g.agents[game, other], g.radius, out)
    out[2] = style
    out[3] = other % g.populations
    _show_body(g.agents[game, other], out[4:])
    out[13] = chance(g, g.agents[game, seat], g.agents[game, other], style)
