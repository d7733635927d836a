"""Games that are recorded in the tests, and what was seen of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from support.random_obs import ACTION_SPACE, OBS_SPACE, random_observation

from entity_env import Environment, VecSelectEntityActionMask
from entity_env.batching.ragged import lengths
from entity_env.play import random_policy
from entity_env.recording import EpisodeDataset, RecordEpisodes


class RandomFrames(Environment):
    """Observations that have nothing to do with each other, in every shape."""

    def __init__(self, ends=0.2):
        self.ends = ends

    def obs_space(self):
        return OBS_SPACE

    def action_space(self):
        return ACTION_SPACE

    def reset(self):
        return random_observation(self.rng)

    def act(self, actions):
        return random_observation(self.rng, ends=self.ends)


@dataclass
class Seen:
    """Observations and actions of a player, step by step."""

    shown: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    logits: list = field(default_factory=list)


def random_notes(obs, rng):
    """Random log-probabilities and logits of all actions, flat."""
    log_probs, logits = {}, {}
    for name, mask in obs.action_masks.items():
        actors = int(lengths(mask.actors).sum())
        log_probs[name] = -rng.random(actors).astype(np.float32)
        if isinstance(mask, VecSelectEntityActionMask):
            pairs = int((lengths(mask.actors) * lengths(mask.actees)).sum())
            logits[name] = rng.normal(size=pairs).astype(np.float32)
        else:
            allowed = mask.mask.as_array()
            logits[name] = np.where(allowed, rng.normal(size=allowed.shape), -np.inf)
            logits[name] = logits[name].astype(np.float32)
    return {"log_probs": log_probs, "logits": logits}


def record(env, path, steps, seed=0, noted=(), **options):
    """Play ``steps`` random steps into a folder, and return what was seen."""
    with RecordEpisodes(env, path, **options) as recorder:
        return play(recorder, steps, seed, noted)


def play(recorder, steps, seed=0, noted=()):
    """Reset a recorder and play random steps; ``noted`` names what is given besides actions."""
    policy, rng, seen = random_policy(seed), np.random.default_rng(seed), Seen()
    seen.shown.append(recorder.reset())
    for _ in range(steps):
        actions = policy(seen.shown[-1])
        notes = random_notes(seen.shown[-1], rng)
        seen.actions.append(actions)
        seen.log_probs.append(notes["log_probs"])
        seen.logits.append(notes["logits"])
        seen.shown.append(recorder.act(actions, **{name: notes[name] for name in noted}))
    return seen


def by_row(paths):
    """Return the recorded episodes, row by row and in the order of time."""
    return sorted(EpisodeDataset(paths).episodes(), key=lambda own: own.row)
