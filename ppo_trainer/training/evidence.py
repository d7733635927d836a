"""Properties of a run and its game from which its report suggests causes of missing progress."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from entity_env import Environment
from entity_env.agent import RandomAgent
from entity_env.batching.frame_reader import FrameReader
from entity_env.environment import begin_episode, seed_environment
from entity_env.spaces import CategoricalActionSpace, EntityName
from ppo_trainer.environments import Game
from ragged_net import RaggedNet

__all__ = ["is_zero_sum", "lacks_positions", "out_of_sight"]

_OPPOSITE = ({"left", "right"}, {"up", "down"}, {"north", "south"}, {"east", "west"}, {"n", "s"})
"""Labels of choices among directions."""
_STEPS = 100
"""Number of steps of random play."""


def lacks_positions(net: RaggedNet) -> bool:
    """Return True if actors choose directions, and the network reads no position."""
    labels = {
        label.casefold()
        for space in net.action_space.values()
        if isinstance(space, CategoricalActionSpace)
        for label in space.index_to_label
    }
    used = net.config.translation, net.config.relations, net.config.positions(net.obs_space)
    return not any(used) and any(labels >= pair for pair in _OPPOSITE)


def out_of_sight(game: Game) -> list[EntityName]:
    """Return the types of entities that vanish and come back within an episode of random play.

    Entities are recognised by their ids, so that types without ids are not found.
    """
    if game.is_native or game.has_seats:
        return []
    with contextlib.closing(game()) as env:
        seed_environment(env, 0)
        return sorted(_returned(env))


def _returned(env: Environment) -> set[EntityName]:
    reader = FrameReader(env.obs_space(), env.action_space())
    agent = RandomAgent(env.obs_space(), env.action_space())
    found, seen, gone = set[EntityName](), set[object](), set[object]()
    observation = begin_episode(env.reset)
    for _ in range(_STEPS):
        frame = reader.read(observation)
        kinds = [name for name, rows in frame.features.items() for _ in rows]
        now = {one: kind for one, kind in zip(frame.ids, kinds, strict=False) if one is not None}
        found |= {kind for one, kind in now.items() if one in gone}
        gone |= seen - set(now)
        seen |= set(now)
        if frame.done:
            observation = begin_episode(env.reset)
            seen, gone = set(), set()
        else:
            observation = env.act(agent.act(observation))
    return found


def is_zero_sum(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the mean return of all seats is 0, except for chance and rounding.

    Args:
        records: Records of a run that plays all seats itself. The seats of one game may end in two
            updates, so that the mean of a single update need not be 0.
    """
    ended = [r for r in records if r.get("episodes") and "episodic_reward" in r]
    if not ended:
        return True
    rewards = np.array([record["episodic_reward"] for record in ended])
    mean = np.average(rewards, weights=[record["episodes"] for record in ended])
    return bool(abs(mean) <= 3 * rewards.std() / math.sqrt(len(rewards)) + 1e-6)
