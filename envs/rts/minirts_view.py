"""Observations and actions of a player of Mini-RTS."""

from __future__ import annotations

from entity_env.observation import GlobalCategoricalActionMask, Observation
from entity_env.spaces import Discrete, Entity, GlobalCategoricalActionSpace, ObsSpace

from .minirts import ACTIONS, MINI_RTS, possible
from .rules import COMMANDS
from .world import World

__all__ = ["ACTION_SPACE", "OBS_SPACE", "observe"]

_KIND = Discrete("kind", len(MINI_RTS.kinds), names=[own.name for own in MINI_RTS.kinds])

OBS_SPACE = ObsSpace(
    global_features=["money", "tick"],
    entities={
        "Own": Entity([_KIND, "x", "y", "hp", Discrete("command", 5, names=COMMANDS)]),
        "Enemy": Entity([_KIND, "x", "y", "hp"]),
        "Resource": Entity(["x", "y", "hp", Discrete("own", 2)]),
        "Remembered": Entity([_KIND, "x", "y"]),
    },
)
ACTION_SPACE = {"Order": GlobalCategoricalActionSpace(list(ACTIONS))}


def observe(world: World, player: int, reward: float, fog: bool) -> Observation:
    """Return the observation of a player.

    Own units and the own resource are always seen, of the enemy's what is in sight, and all without
    fog. Buildings that have been in sight are remembered while they are out of it, and so is the
    enemy's base from the beginning, as in the original games.
    """
    shown: dict[str, list[list[float]]] = {name: [] for name in OBS_SPACE.entities}
    for unit in world.of(player):
        share = unit.hp / world.kind(unit).hp
        if world.kind(unit).name == "Resource":
            shown["Resource"].append([unit.x, unit.y, share, 1.0])
        else:
            does = 0 if unit.command is None else unit.command.kind
            shown["Own"].append([unit.kind, unit.x, unit.y, share, does])
    for unit in world.of(1 - player):
        name, share = world.kind(unit).name, unit.hp / world.kind(unit).hp
        is_seen = not fog or world.sees(player, unit.x, unit.y)
        if name == "Resource":
            if is_seen or unit.seen:
                shown["Resource"].append([unit.x, unit.y, share if is_seen else 1.0, 0.0])
        elif is_seen:
            shown["Enemy"].append([unit.kind, unit.x, unit.y, share])
        elif unit.seen or name == "Base":
            shown["Remembered"].append([unit.kind, unit.x, unit.y])
    over = world.is_over
    return Observation(
        features={name: rows for name, rows in shown.items() if rows},
        global_features=[world.resource[player], world.tick],
        actions={"Order": GlobalCategoricalActionMask([possible(world, player)])}
        if not over
        else {},
        reward=reward,
        done=over,
        metrics={"win": float(world.winner == player), "ticks": float(world.tick)} if over else {},
    )
