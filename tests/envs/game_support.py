"""What the tests of the small games share."""

from __future__ import annotations

import json

import numpy as np
import pytest

from entity_env import CategoricalAction, GlobalCategoricalAction, SelectEntityAction
from entity_env.errors import (
    ActionIndexError,
    ActionMaskError,
    ActorError,
    ResetNeededError,
    StateError,
    UnknownActionError,
)

__all__ = [
    "assert_bad_choices_are_refused",
    "assert_bad_global_choices_are_refused",
    "assert_bad_states_are_refused",
    "assert_needs_reset",
    "assert_same_observation",
    "choose",
    "plain",
]


def choose(name, actors, indices, labels):
    """Actions with one categorical choice for each actor."""
    return {name: CategoricalAction(actors, np.array(indices, np.int64), labels)}


def plain(observation):
    """What an observation says, as values that compare."""
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


def assert_bad_choices_are_refused(env, good, name):
    """``good`` are actions of one actor that ``env`` would accept; all that is near is refused."""
    actors, labels = list(good[name].actors), good[name].index_to_label
    others = {key: action for key, action in good.items() if key != name}
    before = env.get_state()
    for bad, error in (
        ({}, UnknownActionError),
        ({name: SelectEntityAction(actors, actors)}, ActionMaskError),
        ({name: None}, ActionMaskError),
        (choose(name, actors, [0, 0], labels), ActionIndexError),
        (choose(name, actors, [], labels), ActionIndexError),
        (choose(name, actors, [len(labels)], labels), ActionIndexError),
        (choose(name, actors, [-1], labels), ActionIndexError),
        ({name: CategoricalAction(actors, np.array([0.5]), labels)}, ActionIndexError),
        ({name: CategoricalAction(actors, 0, labels)}, ActionIndexError),
        (choose(name, ["nobody"], [0], labels), ActorError),
        (choose(name, [None], [0], labels), ActorError),
        (choose(name, [], [], labels), ActorError),
        (choose(name, actors * 2, [0, 0], labels), ActorError),
    ):
        with pytest.raises(error) as caught:
            env.act({**others, **bad})
        assert name in str(caught.value)
        assert env.get_state() == before


def assert_bad_global_choices_are_refused(env, name, labels):
    before = env.get_state()
    for bad, error in (
        ({}, UnknownActionError),
        ({name: CategoricalAction([], np.zeros(0, np.int64), labels)}, ActionMaskError),
        ({name: GlobalCategoricalAction(len(labels), "")}, ActionIndexError),
        ({name: GlobalCategoricalAction(-1, "")}, ActionIndexError),
        ({name: GlobalCategoricalAction(True, "")}, ActionIndexError),
        ({name: GlobalCategoricalAction(None, "")}, ActionIndexError),
    ):
        with pytest.raises(error) as caught:
            env.act(bad)
        assert name in str(caught.value)
        assert env.get_state() == before


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


def assert_needs_reset(create_env, actions, end):
    """No step before the first reset, and none after the last one.

    Args:
        create_env: Makes the environment.
        actions: What would be fine.
        end: Brings an environment to its end.
    """
    env = create_env()
    for call in (lambda: env.act(actions), env.observe, env.get_state):
        with pytest.raises(ResetNeededError, match="no episode"):
            call()
    env = create_env()
    env.reset()
    end(env)
    with pytest.raises(ResetNeededError, match="over"):
        env.act(actions)
    assert not env.reset().done
