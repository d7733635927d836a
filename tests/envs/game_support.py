"""Functions that the tests of the small games share."""

from __future__ import annotations

import json

import numpy as np
import pytest

from entity_env import CategoricalAction, SelectEntityAction
from entity_env.errors import StateError

__all__ = ["assert_bad_states_are_refused", "assert_same_observation", "choose", "plain", "select"]


def select(name, actee):
    """Actions of a player that selects ``actee``."""
    return {name: SelectEntityAction(["Player"], [actee])}


def choose(name, actors, indices, labels):
    """Actions with one categorical choice for each actor."""
    return {name: CategoricalAction(actors, np.array(indices, np.int64), labels)}


def plain(observation):
    """Return the content of an observation as values that can be compared."""
    masks = {name: mask.mask for name, mask in observation.actions.items()}
    return {
        "features": {k: np.asarray(v).tolist() for k, v in observation.features.items()},
        "global_features": list(observation.global_features),
        "masks": {k: None if m is None else np.asarray(m).tolist() for k, m in masks.items()},
        "reward": observation.reward,
        "done": observation.done,
        "truncated": observation.truncated,
        "metrics": dict(observation.metrics),
    }


def assert_same_observation(left, right):
    assert plain(left) == plain(right)


def assert_bad_states_are_refused(env, changes):
    """Each of ``changes`` spoils a good state, and the one that ``env`` is in then stays.

    Args:
        env: It has been reset.
        changes: Pairs of what to change in its state, and what the error says.
    """
    good = json.loads(json.dumps(env.get_state()))
    shape = "this is not a state"
    missing = [({name: ...}, shape) for name in good]
    for change, said in [*missing, *changes]:
        state = {k: v for k, v in {**good, **change}.items() if v is not ...}
        with pytest.raises(StateError, match=said):
            env.set_state(state)
        assert json.loads(json.dumps(env.get_state())) == good
    with pytest.raises(StateError, match=shape):
        env.set_state(None)
