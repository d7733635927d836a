"""Spaces: frozen, self-checking, with what they were made from copied."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from entity_env import (
    CategoricalActionSpace,
    Continuous,
    ContinuousActionSpace,
    Discrete,
    Entity,
    Flags,
    GlobalCategoricalActionSpace,
    Grid,
    ObsSpace,
    Position,
    SelectEntitiesActionSpace,
    SelectEntityActionSpace,
)
from entity_env.errors import EntityEnvError, SpaceError
from entity_env.spaces import check_action_space, check_same_spaces, feature_name


def test_features_keep_their_order_and_names():
    entity = Entity(["x", Continuous("hp", mean=5, std=2.5), Discrete("terrain", 4)])
    assert entity.names == ("x", "hp", "terrain")
    assert [feature_name(feature) for feature in entity.features] == list(entity.names)
    assert ObsSpace(global_features=("t", Discrete("phase", 2))).global_names == ("t", "phase")


def test_changes_to_what_a_space_was_made_from_do_not_reach_it():
    features, entities, labels = ["x"], {"A": Entity(["x"])}, ["up"]
    entity, space, action = Entity(features), ObsSpace((), entities), CategoricalActionSpace(labels)
    features.append("y")
    entities["B"] = Entity()
    labels.append("down")
    assert entity.names == ("x",)
    assert list(space.entities) == ["A"]
    assert action.index_to_label == ("up",)


@pytest.mark.parametrize(
    "space",
    [
        Entity(["x"]),
        Discrete("kind", 3),
        Continuous("hp"),
        ObsSpace(),
        CategoricalActionSpace(["up"]),
        GlobalCategoricalActionSpace(["up"]),
    ],
)
def test_a_space_is_frozen_equal_to_its_copy_and_survives_a_pickle(space):
    name = dataclasses.fields(space)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(space, name, None)
    assert pickle.loads(pickle.dumps(space)) == space
    assert dataclasses.replace(space) == space


def test_spaces_that_differ_are_not_equal():
    assert Entity(["x", "y"]) != Entity(["y", "x"])
    assert ObsSpace(entities={"A": Entity(["x"])}) != ObsSpace(entities={"A": Entity(["y"])})
    assert CategoricalActionSpace(["up"]) != GlobalCategoricalActionSpace(["up"])
    assert Entity(["x"]) == Entity(("x",))


def test_a_checked_action_space_is_a_copy():
    given = {"go": SelectEntityActionSpace()}
    checked = check_action_space(given)
    given.clear()
    assert checked == {"go": SelectEntityActionSpace()}


@pytest.mark.parametrize(
    "n", [np.int64(4), np.uint8(4), np.array(4)], ids=["int64", "uint8", "0-d"]
)
def test_the_number_of_values_may_be_a_whole_number_of_any_type(n):
    feature = Discrete("kind", n)
    assert feature == Discrete("kind", 4)
    assert type(feature.n) is int


@pytest.mark.parametrize("n", [np.int64(0), np.float64(4), np.True_, True, "4", None])
def test_what_is_no_number_of_values_is_refused(n):
    with pytest.raises(SpaceError, match="a whole number >= 1"):
        Discrete("kind", n)


def test_values_may_have_names_which_make_no_other_feature():
    plain, named = Discrete("size", 2), Discrete("size", 2, names=["small", "large"])
    assert named.names == ("small", "large")
    assert (plain, hash(plain)) == (named, hash(named))
    assert "names" not in repr(plain)
    assert "names=('small', 'large')" in repr(named)


@pytest.mark.parametrize("names", [["small"], ["a", "a"], ["a", ""], "ab", ["a", 1], {"a", "b"}, 7])
def test_what_are_no_names_of_values_is_refused(names):
    with pytest.raises(SpaceError):
        Discrete("size", 2, names=names)


def test_a_discrete_feature_has_no_more_values_than_float32_tells_apart():
    most = 2**24
    assert Discrete("kind", most).n == most
    # All values up to most - 1 differ in float32; from 2**24 on, every second one does not.
    assert np.float32(most - 1) != np.float32(most - 2)
    assert np.float32(most + 1) == np.float32(most)
    with pytest.raises(SpaceError, match=rf"<= {most}\n(.*\n)*.*features are float32"):
        Discrete("kind", most + 1)


@pytest.mark.parametrize("make", [Entity, ObsSpace, CategoricalActionSpace])
@pytest.mark.parametrize("items", [("x", "y"), {"x": 1, "y": 2}.keys(), np.array(["x", "y"])])
def test_features_and_labels_may_come_in_whatever_keeps_its_order(make, items):
    assert make(items) == make(["x", "y"])


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (Entity, "the features of an entity type"),
        (ObsSpace, "global_features"),
        (CategoricalActionSpace, "the labels of an action"),
        (GlobalCategoricalActionSpace, "the labels of an action"),
    ],
)
@pytest.mark.parametrize("items", [{"x", "y"}, frozenset("xy"), {"x": 1, "y": 2}])
def test_features_and_labels_without_an_order_are_refused(make, what, items):
    with pytest.raises(SpaceError, match=f"{what} are not a list") as caught:
        make(items)
    assert caught.value.expected.startswith("a list of ")
    if not isinstance(items, dict):
        assert "a set has no fixed order" in caught.value.hint


def test_entity_types_in_the_place_of_global_features_are_sent_to_theirs():
    with pytest.raises(SpaceError, match=r"ObsSpace\(entities="):
        ObsSpace({"A": Entity(["x"])})


class Odd:
    """Whatever looks at it fails."""

    def __repr__(self):
        raise RuntimeError("odd")

    __len__ = __iter__ = __index__ = __float__ = __repr__


class Uneven:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("uneven")


ODD = [
    None, True, -1, 10**400, 1e300, float("nan"), 1j, "", "x", b"x", "\ud800", {}, {"x": 1}, {1},
    Odd(), [Odd()], Uneven(), [Uneven()], iter("ab"), range(3), object, Entity, [[]], [None],
    np.float32(2), np.int64(2), np.bool_(True), np.str_("x"), np.float64("nan"), np.array(3),
    np.array(["a", "b"]), np.array(["a", None], object), np.array([1.0, np.nan]), np.zeros((2, 2)),
    np.zeros(0), np.ma.masked, np.datetime64("2020-01-01"), np.array([(1, 2)], "i4,f4"),
    Decimal("sNaN"), Fraction(1, 3), ObsSpace(), Discrete("x", 2), Position("x"), Grid((2, 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        Continuous,
        lambda odd: Continuous("x", odd, odd),
        lambda odd: Continuous("x", mean=odd),
        Entity,
        lambda odd: Entity([odd]),
        lambda odd: Entity(["x"], odd),
        lambda odd: Discrete("x", odd),
        lambda odd: Discrete("x", 2, odd),
        lambda odd: Flags("x", odd),
        lambda odd: Position("x", odd),
        Grid,
        lambda odd: Grid((odd, 2), odd, odd),
        ObsSpace,
        lambda odd: ObsSpace((), odd),
        lambda odd: ObsSpace((), {"A": odd}),
        CategoricalActionSpace,
        lambda odd: CategoricalActionSpace(["a", odd]),
        SelectEntitiesActionSpace,
        lambda odd: ContinuousActionSpace(odd, 1.0),
        lambda odd: ContinuousActionSpace([0.0, odd], [1.0, odd]),
        check_action_space,
        lambda odd: check_action_space({"A": odd}),
        lambda odd: check_same_spaces([{"obs_space": odd, "action_space": odd}] * 2, str),
    ],
)
def test_odd_values_lead_to_errors_of_this_package_alone(make):
    for odd in ODD:
        with contextlib.suppress(EntityEnvError):
            made = make(odd)
            assert made == made
            assert repr(made)


def test_scales_may_be_numbers_of_numpy_and_are_saved_as_numbers():
    feature = Continuous("hp", mean=np.float32(0.5), std=np.int64(2))
    assert repr(feature) == "Continuous(name='hp', mean=0.5, std=2.0)"
    with pytest.raises(SpaceError, match=r"mean that is not a finite number(?s:.*)float32"):
        Continuous("hp", mean=1e300, std=1)
