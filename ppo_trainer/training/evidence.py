"""Properties of a run and its game from which its report suggests causes of missing progress."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
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

    Entities without ids are recognised by their features. Those that move may have the features of
    others, so that such a type must differ in number, and half of what vanishes must come back.
    """
    if game.is_native or game.has_seats:
        return []
    with contextlib.closing(game()) as env:
        seed_environment(env, 0)
        return sorted(_returned(env))


def _returned(env: Environment) -> set[EntityName]:
    reader = FrameReader(env.obs_space(), env.action_space())
    agent = RandomAgent(env.obs_space(), env.action_space())
    numbers = defaultdict[EntityName, set[int]](set)
    vanished, returned = Counter[EntityName](), Counter[EntityName]()
    seen, gone, named = dict[object, EntityName](), set[object](), set[EntityName]()
    observation = begin_episode(env.reset)
    for _ in range(_STEPS):
        frame = reader.read(observation)
        kinds = [(name, row) for name, rows in frame.features.items() for row in rows]
        now = dict[object, EntityName]()
        for (name, row), one in zip_longest(kinds, frame.ids):
            if one is not None:
                named.add(name)
            if one is not None or row.size:
                now[(name, row.tobytes()) if one is None else one] = name
        for name, rows in frame.features.items():
            numbers[name].add(len(rows))
        returned.update(now[one] for one in now.keys() & gone)
        vanished.update(seen[one] for one in seen.keys() - now.keys() - gone)
        gone = (gone | seen.keys()) - now.keys()
        seen |= now
        if frame.done:
            observation = begin_episode(env.reset)
            seen, gone = {}, set()
        else:
            observation = env.act(agent.act(observation))
    return {
        name
        for name, times in returned.items()
        if name in named or (len(numbers[name]) > 1 and times >= vanished[name] / 2)
    }


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
