"""Whoever misspells an argument is told which ones there are."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest
from support.tiny_envs import Chain, Farm

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    ListEnv,
    Observation,
    ParallelEnv,
    SelectEntityAction,
    SelectEntityActionSpace,
    VecObs,
    errors,
)
from entity_env.arguments import named_arguments, named_settings
from entity_env.wrappers import TimeLimit

MISSPELT = [
    (lambda: Observation(feature={}), errors.ObservationError, "features"),
    (lambda: CategoricalActionMask(actor_id=["a"]), errors.MaskError, "actor_ids"),
    (lambda: CategoricalAction(["a"], index=[0]), errors.ActionError, "indices"),
    (lambda: Continuous("x", means=0.0, std=1.0), errors.SpaceError, "mean"),
    (lambda: CategoricalActionSpace(index_to_labels=["a"]), errors.SpaceError, "index_to_label"),
    (lambda: SelectEntityActionSpace(labels=["a"]), errors.SpaceError, None),
    (lambda: ListEnv(Chain, num_env=2), errors.SettingError, "num_envs"),
    (lambda: ParallelEnv(Chain, 2, num_process=2), errors.SettingError, "num_processes"),
    (lambda: VecObs({}, {}, *[np.zeros(1)] * 4, metric={}), errors.ObservationError, "metrics"),
    (lambda: TimeLimit(Farm(), max_step=3), errors.SettingError, "max_steps"),
]


@pytest.mark.parametrize(("make", "error", "nearest"), MISSPELT)
def test_a_misspelt_argument_is_named_with_the_nearest_that_there_is(make, error, nearest):
    with pytest.raises(error, match="has no argument") as caught:
        make()
    assert caught.value.hint == (nearest and f"did you mean {nearest!r}?")
    assert (
        nearest is None
        or nearest in caught.value.options.split(", ")[0:20]
        or (f"'{nearest}'" in caught.value.options)
    )


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Discrete("x"), errors.SpaceError),
        (lambda: Entity(["x"], ["y"]), errors.SpaceError),
        (lambda: Observation({}), errors.ObservationError),
        (lambda: SelectEntityAction(["a"]), errors.ActionError),
    ],
)
def test_too_few_or_too_many_arguments_are_an_error_of_ours(make, error):
    with pytest.raises(error):
        make()


def test_a_type_error_from_within_stays_what_it_is():
    @named_arguments(errors.SettingError)
    class Adds:
        def __init__(self, number):
            self.number = number + 1

    assert Adds(2).number == 3
    assert list(inspect.signature(Adds).parameters) == ["number"]
    with pytest.raises(TypeError, match="concatenate"):
        Adds("2")
    with pytest.raises(errors.SettingError, match="Adds has no argument 'numbr'"):
        Adds(numbr=2)


def test_a_dataclass_may_add_parts_to_an_observation():
    @dataclasses.dataclass(kw_only=True)
    class Noted(Observation):
        note: str = ""

    noted = Noted(entities={"A": ([[1.0]], ["a"])}, note="here")
    assert (noted.features, noted.ids, noted.note) == ({"A": [[1.0]]}, {"A": ["a"]}, "here")
    assert dataclasses.replace(Observation(reward=1.0), done=True) == Observation(
        reward=1.0, done=True
    )


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (1, "entity", "1 entity"),
        (np.int64(2), "entity", "2 entities"),
        (1000, "process", "1,000 processes"),
        (3, "batch", "3 batches"),
    ],
)
def test_nouns_agree_with_their_numbers(count, noun, text):
    assert errors.counted(count, noun) == text


def test_errors_name_the_settings_that_gave_an_argument():
    typed = {"env.width": 3, "env.mines": 9, "eval.env.mines": 8, "env.depth": 1}
    with pytest.raises(errors.SettingError) as caught, named_settings(typed):
        raise errors.SettingError("too many mines", where="environment 3", about="mines width size")
    assert str(caught.value) == "eval.env.mines=8 env.width=3: too many mines"
    with pytest.raises(errors.SettingError, match=r"^environment 3: lost"), named_settings(typed):
        raise errors.SettingError("lost", where="environment 3")
