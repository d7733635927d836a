"""The room that padded arrays need, found by random play where it is not given."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.agent import random_policy
from entity_env.batching.ragged import lengths
from entity_env.batching.vec_obs import VecObs, check_all_asked
from entity_env.environment import Environment
from entity_env.interop.padded_spaces import Room
from entity_env.rows.list_env import ListEnv
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName, ActionSpace, EntityName

__all__ = ["find_room", "largest_counts", "room_of_env", "room_of_rows"]

Ints: TypeAlias = npt.NDArray[np.int64]

_EPISODES, _STEPS = 3, 1000
"""Number of episodes that each row ends at least, and the greatest number of steps."""


def find_room(rows: VecEnv) -> tuple[dict[str, int], dict[str, int]]:
    """Return sizes for the entities of each type and for the actors of each action.

    They are the largest numbers that some episodes of random play show, and half as many again
    where episodes differ in them. The rows are reset and played, and need a reset afterwards.

    Args:
        rows: The rows to play, all of which act in each step.
    """
    policy, ended = random_policy(0), np.zeros(len(rows), np.int64)
    obs = rows.reset()
    actions = _actions_of_entities(rows.action_space())
    most = _counts(obs, actions)
    episodes: list[Ints] = []
    for _ in range(_STEPS):
        obs = rows.act(policy(obs))
        now = _counts(obs, actions)
        if obs.done.any():
            episodes.append(most[:, obs.done])
        most = np.where(obs.done, now, np.maximum(most, now))
        ended += obs.done
        if ended.min() >= _EPISODES:
            break
    seen = np.concatenate([*episodes, most[:, ended == 0]], 1)
    largest = seen.max(1)
    room = np.where(seen.min(1) < largest, largest * 3 // 2, largest)
    return _by_name([*obs.features], actions, room)


def largest_counts(
    observations: Iterable[VecObs], action_space: Mapping[ActionName, ActionSpace]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the largest number of entities of each type and of actors of each action.

    Args:
        observations: At least one observation, of rows that all act.
        action_space: Their action space.
    """
    actions = _actions_of_entities(action_space)
    most, types = np.zeros(1, np.int64), list[EntityName]()
    for obs in observations:
        most, types = np.maximum(most, _counts(obs, actions).max(1, initial=0)), [*obs.features]
    return _by_name(types, actions, most)


def room_of_rows(
    rows: VecEnv, max_entities: Room | None, max_actors: Room | None
) -> tuple[Room, Room]:
    """Return the given sizes, or else those of ``find_room``, which a warning names."""
    if max_entities is not None and max_actors is not None:
        return max_entities, max_actors
    entities, actors = find_room(rows)
    given = {"max_entities": max_entities, "max_actors": max_actors}
    found = {"max_entities": entities, "max_actors": actors}
    told = ", ".join(f"{name}={found[name]}" for name, value in given.items() if value is None)
    warnings.warn(f"sizes that random play needs: {told}; give them for others", stacklevel=4)
    return (
        entities if max_entities is None else max_entities,
        actors if max_actors is None else max_actors,
    )


def room_of_env(
    env: Environment, max_entities: Room | None, max_actors: Room | None
) -> tuple[Room, Room]:
    """Return the given sizes, or else those that random play of an environment needs.

    Its random numbers stay as they are.
    """
    if max_entities is not None and max_actors is not None:
        return max_entities, max_actors
    rng = copy.deepcopy(env.rng)
    room = room_of_rows(ListEnv(lambda: env, 1), max_entities, max_actors)
    env.rng = rng
    return room


def _actions_of_entities(action_space: Mapping[ActionName, ActionSpace]) -> list[ActionName]:
    return [name for name, space in action_space.items() if not space.is_global]


def _counts(obs: VecObs, actions: Sequence[ActionName]) -> Ints:
    """Return the numbers of entities of each type, and of actors of each action. Shape: (., R)."""
    check_all_asked("padding", obs)
    entities = [lengths(buffer) for buffer in obs.features.values()]
    actors = [lengths(obs.action_masks[name].actors) for name in actions]
    return np.array([*entities, *actors], np.int64).reshape(-1, len(obs))


def _by_name(
    types: Sequence[EntityName], actions: Sequence[ActionName], counts: Ints
) -> tuple[dict[str, int], dict[str, int]]:
    """Return numbers in the order of ``_counts``, by types and by actions."""
    numbers = counts.tolist()
    return dict(zip(types, numbers[: len(types)], strict=True)), dict(
        zip(actions, numbers[len(types) :], strict=True)
    )
