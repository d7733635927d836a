"""Notes of a check on things that are allowed but rarely intended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from entity_env.batching.step_results import is_over
from entity_env.batching.vec_obs import VecObs
from entity_env.observation import NO_REWARD, Observation, SelectEntityActionMask

__all__ = ["Seen", "notes_of"]


class Seen:
    """The raw observations of a game.

    Attributes:
        count: Number of observations.
        has_reward: True if any observation was given a reward.
        idle: For each action the number of observations in which its actors could select nothing.
    """

    def __init__(self) -> None:
        self.count, self.has_reward = 0, False
        self.idle = Counter[str]()

    def look(self, observation: Observation) -> None:
        """Count a valid observation."""
        self.count += 1
        self.has_reward |= observation.reward is not NO_REWARD
        if is_over(observation):
            return
        sizes = {name: observation.num_entities(name) for name in observation.features or {}}
        for name, mask in (observation.actions or {}).items():
            if isinstance(mask, SelectEntityActionMask):
                actors = _named(mask.actor_ids, mask.actor_types, sizes)
                actees = _named(mask.actee_ids, mask.actee_types, sizes)
                self.idle[name] += actors > 0 and actees == 0


def notes_of(game: list[VecObs], seen: Seen) -> list[str]:
    """Return the notes on one game of random play."""
    steps = len(game) - 1
    notes = []
    if not any(obs.done.any() for obs in game):
        notes.append(
            f"no episode ended within {steps:,} steps of random play: is done ever True? "
            "entity_env.wrappers.TimeLimit ends games after a number of steps"
        )
    if not seen.has_reward:
        notes.append(
            f"no observation in {steps:,} steps of random play had a reward, so that all rewards "
            "are 0: pass Observation(reward=...)"
        )
    if game[0].features and not any(
        buffer.items() for obs in game for buffer in obs.features.values()
    ):
        notes.append(
            f"none of {len(game):,} observations had an entity: pass the features of each entity "
            "type to Observation"
        )
    if not any(mask.actors.items() for obs in game for mask in obs.action_masks.values()):
        notes.append("there was no actor in any step: there is nothing to learn")
    for name, count in seen.idle.items():
        if count:
            notes.append(
                f"in {count:,} of {seen.count:,} observations the actors of {name!r} had nothing "
                "to select, so that the action had no actors"
            )
    return notes


def _named(ids: Any, types: Iterable[str] | None, sizes: dict[str, int]) -> int:
    """Return the number of entities named by ids or types; without these, of all."""
    if ids is not None:
        return len(ids)
    return sum(sizes.values() if types is None else (sizes.get(name, 0) for name in types))
