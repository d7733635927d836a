"""What the tests of games with a player that selects entities share."""

from __future__ import annotations

import numpy as np
import pytest

from entity_env import CategoricalAction, SelectEntityAction
from entity_env.errors import ActionIndexError, ActionMaskError, ActorError, UnknownActionError

__all__ = ["assert_bad_selections_are_refused", "select"]


def select(name, actee):
    """Actions of a player that selects ``actee``."""
    return {name: SelectEntityAction(["Player"], [actee])}


def assert_bad_selections_are_refused(env, good, name, others):
    """``env`` would accept ``good``; all that is near is refused, and so is each of ``others``."""
    (actee,) = good[name].actees
    before = env.get_state()
    for bad, error in (
        ({}, UnknownActionError),
        ({name: CategoricalAction(["Player"], np.array([0]), ["a"])}, ActionMaskError),
        ({name: SelectEntityAction(["Player"], [])}, ActionIndexError),
        ({name: SelectEntityAction(["Player"], [actee, actee])}, ActionIndexError),
        ({name: SelectEntityAction([], [actee])}, ActorError),
        ({name: SelectEntityAction(["nobody"], [actee])}, ActorError),
        ({name: SelectEntityAction([None], [actee])}, ActorError),
        *((select(name, other), ActorError) for other in [*others, None, [actee]]),
    ):
        with pytest.raises(error) as caught:
            env.act(bad)
        assert name in str(caught.value)
        assert env.get_state() == before
