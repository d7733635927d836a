"""Spaces survive a trip through JSON, and nothing else passes for them."""

from __future__ import annotations

import json

import pytest
from support.random_obs import ACTION_SPACE, OBS_SPACE

from entity_env import (
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    GlobalCategoricalActionSpace,
    ObsSpace,
    Position,
    SelectEntityActionSpace,
)
from entity_env.errors import SpaceError
from entity_env.storage.space_json import spaces_from_json, spaces_to_json

EVERYTHING = (
    ObsSpace(
        global_features=[Continuous("hour", 12, 3.5), "day"],
        entities={
            "Zebra": Entity(["x", Discrete("kind", 3), Continuous("hp", mean=50, std=20)]),
            "Ant": Entity([Continuous("y")]),
            "Rock": Entity(),
        },
    ),
    {
        "Walk": CategoricalActionSpace(["left", "right"]),
        "Eat": SelectEntityActionSpace(),
        "Pass": GlobalCategoricalActionSpace(["yes"]),
    },
)


@pytest.mark.parametrize(
    ("obs_space", "action_space"),
    [
        EVERYTHING,
        (OBS_SPACE, ACTION_SPACE),
        (ObsSpace(), {"Go": SelectEntityActionSpace()}),
        (
            ObsSpace(entities={"Ant": Entity(["hp", Position("x", "y")]), "Rock": Entity(["x"])}),
            {"Go": SelectEntityActionSpace()},
        ),
    ],
)
def test_a_round_trip_changes_nothing_not_even_the_order(obs_space, action_space):
    text = json.dumps(spaces_to_json(obs_space, action_space), sort_keys=True)
    again, actions = spaces_from_json(json.loads(text))
    assert (again, actions) == (obs_space, dict(action_space))
    assert list(again.entities) == list(obs_space.entities)
    assert list(actions) == list(action_space)


@pytest.mark.parametrize("vocabulary", [None, "sizes"])
def test_names_of_values_are_saved(vocabulary):
    size = Discrete("size", 2, vocabulary, names=("small", "large"))
    saved = spaces_to_json(ObsSpace(global_features=[size, Discrete("age", 2)]), ACTION_SPACE)
    obs_space, _ = spaces_from_json(json.loads(json.dumps(saved)))
    assert [feature.names for feature in obs_space.global_features] == [("small", "large"), ()]
    assert "names" not in saved["global_features"][1]
    for wrong in (["small"], "ab", [1, 2], {}):
        saved["global_features"][0]["names"] = wrong
        with pytest.raises(SpaceError):
            spaces_from_json(saved)


def test_what_is_written_is_this():
    assert spaces_to_json(*EVERYTHING) == {
        "global_features": [{"kind": "continuous", "name": "hour", "mean": 12, "std": 3.5}, "day"],
        "entities": [
            {
                "name": "Zebra",
                "features": [
                    "x",
                    {"kind": "discrete", "name": "kind", "n": 3},
                    {"kind": "continuous", "name": "hp", "mean": 50, "std": 20},
                ],
            },
            {
                "name": "Ant",
                "features": [{"kind": "continuous", "name": "y", "mean": None, "std": None}],
            },
            {"name": "Rock", "features": []},
        ],
        "actions": [
            {"kind": "categorical", "name": "Walk", "labels": ["left", "right"]},
            {"kind": "select_entity", "name": "Eat"},
            {"kind": "global_categorical", "name": "Pass", "labels": ["yes"]},
        ],
    }


def entity(**changes):
    return [{**{"name": "Ant", "features": ["x"]}, **changes}]


def action(**changes):
    return [{**{"kind": "categorical", "name": "Go", "labels": ["a"]}, **changes}]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (None, "dict with the keys global_features, entities, actions"),
        ({"actions": []}, "empty"),
        ({"entities": {"Ant": ["x"]}}, "expected: a list"),
        ({"global_features": "time"}, "expected: a list"),
        ({"entities": ["Ant"]}, "dict with the keys name, features"),
        ({"entities": entity(extra=1)}, "dict with the keys name, features"),
        ({"entities": entity(name=3)}, "name"),
        ({"entities": entity(position="x")}, "the position of 'Ant'"),
        ({"entities": entity(position=["nowhere"])}, "'nowhere' cannot be a coordinate"),
        ({"entities": entity() * 2}, "'Ant' is given twice"),
        ({"entities": entity(features="x")}, "'Ant'"),
        ({"entities": entity(features=["x", "x"])}, "given twice"),
        ({"entities": entity(features=[7])}, "unknown kind"),
        ({"entities": entity(features=[{"kind": "discret", "name": "k", "n": 2}])}, "'discrete'"),
        ({"entities": entity(features=[{"kind": "discrete", "name": "k"}])}, "kind, name, n"),
        (
            {"entities": entity(features=[{"kind": "discrete", "name": "k", "n": 2.0}])},
            "whole number >= 1",
        ),
        (
            {"global_features": [{"kind": "continuous", "name": "k", "mean": 1, "std": None}]},
            "only one of mean and std",
        ),
        (
            {"global_features": [{"kind": "continuous", "name": "k", "mean": "1", "std": 2}]},
            "finite number",
        ),
        ({"actions": action(kind="categorial")}, "did you mean 'categorical'?"),
        ({"actions": action(kind="select_entity")}, "kind, name"),
        ({"actions": action(labels="ab")}, "not a list"),
        ({"actions": action() * 2}, "'Go' is given twice"),
    ],
)
def test_what_is_no_space_is_refused(changes, words):
    valid = {"global_features": [], "entities": entity(), "actions": action()}
    spaces_from_json(valid)
    with pytest.raises(SpaceError) as caught:
        spaces_from_json(changes if changes is None else {**valid, **changes})
    assert words in str(caught.value)
    with pytest.raises(SpaceError):
        spaces_from_json([valid])
