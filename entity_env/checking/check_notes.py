"""Notes of a check: things that are allowed but seldom meant."""

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
        count: How many there were.
        has_reward: Whether any of them was given a reward.
        idle: For each action in how many of them its actors had nothing to select.
    """

    def __init__(self) -> None:
        self.count, self.has_reward = 0, False
        self.idle = Counter[str]()

    def look(self, observation: Observation) -> None:
        """Look at a valid observation."""
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
            "TimeLimit of entity_env.wrappers cuts off games without an end"
        )
    if not seen.has_reward:
        notes.append(
            f"no reward was given in {steps:,} steps of random play, and without it is 0: "
            "Observation(reward=...) is missing"
        )
    if game[0].features and not any(own.items() for obs in game for own in obs.features.values()):
        notes.append(
            f"no entity was there in any of {len(game):,} observations: are features, by entity "
            "type, given to Observation?"
        )
    if not any(mask.actors.items() for obs in game for mask in obs.action_masks.values()):
        notes.append("nobody could act in any step: there is nothing to learn")
    for name, count in seen.idle.items():
        if count:
            notes.append(
                f"in {count:,} of {seen.count:,} observations the actors of {name!r} had nothing "
                "to select: there the action has no actors"
            )
    return notes


def _named(ids: Any, types: Iterable[str] | None, sizes: dict[str, int]) -> int:
    """Return the number of named entities; without ids and types, all are."""
    if ids is not None:
        return len(ids)
    return sum(sizes.values() if types is None else (sizes.get(name, 0) for name in types))
