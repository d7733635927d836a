"""Dispatching rules in all rows at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ragged_envs.industry.job_shop_scripts import Rule, columns

from entity_env import VecObs
from entity_env.batching.ragged import RaggedBufferI64

__all__ = ["by_rule"]


def by_rule(rule: Rule) -> Callable[[VecObs], dict[str, RaggedBufferI64]]:
    """A rule that dispatches in all rows at once."""

    def policy(obs: VecObs) -> dict[str, RaggedBufferI64]:
        features = obs.features["Job"]
        counts = np.asarray(features.size1(), np.int64)
        shop = np.repeat(np.arange(len(counts)), counts)
        jobs = columns(features.as_array(), np.asarray(obs.features["Machine"].size1()), shop)
        numbers = np.where(jobs["ready"] > 0, rule.priority(jobs), np.inf)
        begins = np.cumsum(counts) - counts
        least = np.repeat(np.minimum.reduceat(numbers, begins), counts)
        places = np.arange(len(shop)) - begins[shop]
        first = np.minimum.reduceat(np.where(numbers == least, places, len(shop)), begins)
        ones = np.ones(len(counts), np.int64)
        return {"Dispatch": RaggedBufferI64.from_flattened(first.reshape(-1, 1), ones)}

    return policy
