"""Spaces and features from dataclasses."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, make_dataclass
from enum import Enum, Flag, IntEnum, auto
from types import SimpleNamespace
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest

from entity_env import (
    Continuous,
    Discrete,
    Entity,
    ObsSpace,
    errors,
    extract_features,
    extract_global_features,
    obs_space_from_dataclasses,
)


class Team(Enum):
    RED = "r"
    BLUE = "b"


class Gear(IntEnum):
    """Its values are not the places of its members."""

    LOW = 10
    HIGH = 20
    TOP = 10  # an alias of LOW, and no member of its own


@dataclass
class Point:
    x: float
    y: float
    _secret: object = None


@dataclass
class Pose:
    point: Point
    heading: Annotated[float, Continuous("heading", mean=0.0, std=1.8)] = 0.0


@dataclass
class Thing:
    size: float
    count: ClassVar[int] = 0
    _name: str = "hidden"
    note: str = field(default="not seen either", metadata={"feature": False})
    given: InitVar[int] = 0


@dataclass
class Robot(Thing):
    alive: bool = True
    lives: int = 3
    weight: np.float32 = 1.5
    terrain: Annotated[int, range(4)] = 0
    level: Annotated[int, Discrete("_", 7), "a remark"] = 0
    health: Annotated[float, Continuous("_", mean=50.0, std=20.0)] = 50.0
    team: Team = Team.RED
    gear: Gear = Gear.LOW
    mood: Literal["calm", "angry"] = "calm"
    pose: Pose = field(default_factory=lambda: Pose(Point(0.0, 0.0)))


@dataclass
class Mine:
    x: int
    y: int


@dataclass
class Clock:
    time: float
    season: Team


ROBOT = [
    "size",
    "alive",
    "lives",
    "weight",
    Discrete("terrain", 4),
    Discrete("level", 7),
    Continuous("health", mean=50.0, std=20.0),
    Discrete("team", 2),
    Discrete("gear", 2),
    Discrete("mood", 2),
    "pose.point.x",
    "pose.point.y",
    Continuous("pose.heading", mean=0.0, std=1.8),
]


def test_members_and_texts_are_the_names_of_values():
    features = {
        f.name: f
        for f in obs_space_from_dataclasses(Robot).entities["Robot"].features
        if isinstance(f, Discrete)
    }
    assert features["team"].names == tuple(team.name for team in Team)
    assert features["mood"].names == ("calm", "angry")
    assert features["terrain"].names == ()


def test_every_kind_of_field_becomes_its_feature():
    space = obs_space_from_dataclasses(Mine, Robot, global_features=Clock)
    assert space == ObsSpace(
        global_features=["time", Discrete("season", 2)],
        entities={"Mine": Entity(["x", "y"]), "Robot": Entity(ROBOT)},
    )
    assert list(space.entities) == ["Mine", "Robot"]
    assert obs_space_from_dataclasses() == ObsSpace()


def test_features_are_read_by_name():
    space = obs_space_from_dataclasses(Robot, Mine, global_features=Clock)
    robots = [
        Robot(1.0),
        Robot(
            2.5,
            alive=False,
            lives=-1,
            terrain=3,
            level=6,
            team=Team.BLUE,
            gear=Gear.HIGH,
            mood="angry",
            pose=Pose(Point(7.0, 8.0), 9.0),
        ),
    ]
    features = extract_features({"Mine": [], "Robot": robots}, space)
    assert list(features) == ["Mine", "Robot"]
    assert features["Mine"].shape == (0, 2)
    assert features["Robot"].dtype == features["Mine"].dtype == np.float32
    np.testing.assert_array_equal(
        features["Robot"],
        [
            [1.0, 1, 3, 1.5, 0, 0, 50, 0, 0, 0, 0, 0, 0],
            [2.5, 0, -1, 1.5, 3, 6, 50, 1, 1, 1, 7, 8, 9],
        ],
    )
    clock = extract_global_features(Clock(5.0, Team.BLUE), space)
    np.testing.assert_array_equal(clock, np.array([5, 1], np.float32))
    assert clock.dtype == np.float32


def test_any_object_with_the_attributes_will_do():
    space = ObsSpace(
        entities={
            "Ball": Entity(["at.x", Discrete("team", 2)]),
            "Dot": Entity(["x"]),
            "Rock": Entity([]),
        }
    )
    balls = (SimpleNamespace(at=SimpleNamespace(x=x), team=t) for x, t in [(1, 1), (2, Team.RED)])
    features = extract_features(
        {"Ball": balls, "Dot": {1: SimpleNamespace(x=np.float64(4))}.values(), "Rock": [1, 2]},
        space,
    )
    assert features["Ball"].tolist() == [[1, 1], [2, 0]]
    assert features["Dot"].tolist() == [[4]]
    assert features["Rock"].shape == (2, 0)
    assert extract_features({}, space) == {}
    assert extract_global_features(object(), space).shape == (0,)


def test_an_alias_of_an_enum_member_counts_as_that_member():
    space = obs_space_from_dataclasses(Robot)
    (row,) = extract_features({"Robot": [Robot(0.0, gear=Gear.TOP)]}, space)["Robot"]
    assert row[8] == 0


def one_field(annotation, **options):
    return make_dataclass("Odd", [("part", annotation, field(**options))])


@dataclass
class Loop:
    inner: Loop


class Rights(Flag):
    READ = auto()


class NoMembers(Enum):
    pass


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        list[float],
        float | None,
        Literal[1, 2],
        Rights,
        NoMembers,
        Annotated[str, range(3)],
        Annotated[int, range(3), Discrete("_", 3)],
        Annotated[Point, Discrete("_", 3)],
        Annotated[Team, Discrete("_", 2)],
        3,
    ],
    ids=str,
)
def test_what_is_no_feature_is_named_with_what_is_allowed(annotation):
    with pytest.raises(errors.SpaceError) as caught:
        obs_space_from_dataclasses(one_field(annotation))
    message = str(caught.value)
    assert "field 'part' of dataclass Odd" in message
    assert "float, int, bool, an Enum" in message
    assert "received: part: " in message
    assert 'metadata={"feature": False}' in message
    left_out = one_field(annotation, metadata={"feature": False})
    assert obs_space_from_dataclasses(left_out).entities["Odd"].names == ()


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ([Loop], ("field 'inner' of dataclass Loop", "inner: Loop")),
        (
            [one_field(Annotated[int, range(1, 4)])],
            ("a range that cannot", "range(n)", "range(1, 4)"),
        ),
        (
            [one_field(Annotated[int, Discrete("prat", 3)])],
            ("field 'part'", "another name", "Discrete('part', ...)", "prat"),
        ),
        ([Mine, Mine], ("two dataclasses have the name 'Mine'",)),
        ([int], ("not a dataclass", "<class 'int'>")),
        (["Mine"], ("not a dataclass", "@dataclass")),
        ([make_dataclass("Late", [("x", "NoSuchName")])], ("of dataclass Late", "NoSuchName")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_broken_classes_are_explained(classes, words):
    with pytest.raises(errors.SpaceError) as caught:
        obs_space_from_dataclasses(*classes)
    for word in words:
        assert word in str(caught.value)


@dataclass
class NoValues:
    kind: Annotated[int, Discrete("_", 0)]


def test_a_mistake_inside_an_annotation_names_the_dataclass():
    with pytest.raises(errors.SpaceError, match=r"dataclass NoValues: .* number of values"):
        obs_space_from_dataclasses(NoValues)


def test_global_features_need_a_dataclass():
    with pytest.raises(errors.SpaceError, match="not a dataclass"):
        obs_space_from_dataclasses(global_features=float)


SPACE = obs_space_from_dataclasses(Robot, Mine)


class Raises:
    y = 1

    @property
    def x(self):
        return self.engine


@pytest.mark.parametrize(
    ("entities", "error", "words"),
    [
        (
            {"Mine": {"a": Mine(1, 1)}},
            errors.ObservationError,
            ("'Mine' are not a list", "a list of objects", "dict: {'a'", "pass the values()"),
        ),
        ([Mine(1, 1)], errors.ObservationError, ("a dict from entity type",)),
        ({"Mime": []}, errors.ObservationError, ("'Mime'", "did you mean 'Mine'?")),
        (
            {"Mine": [Mine(1, 1), Point(1, 1), SimpleNamespace(x=1, y_=2)]},
            errors.FeatureError,
            ("entity type 'Mine', row 2: feature 'y' is missing", "did you mean 'y_'?"),
        ),
        (
            {"Robot": [Robot(1.0), Robot(1.0, pose=Pose(Mine))]},
            errors.FeatureError,
            ("row 1: feature 'pose.point.x' is missing",),
        ),
        ({"Mine": [Raises()]}, errors.FeatureError, ("row 0", "'x'", "engine")),
        (
            {"Mine": [Mine(1, 2), Mine(1, "3")]},
            errors.FeatureError,
            ("entity type 'Mine', row 1: feature 'y' is not a number", "str: '3'"),
        ),
        (
            {"Mine": [Mine(1, 2), Mine(1, float("nan"))]},
            errors.FeatureError,
            ("entity type 'Mine', row 1", "'y' is not finite"),
        ),
        (
            {"Robot": [Robot(1.0), Robot(1.0, terrain=4)]},
            errors.FeatureError,
            ("entity type 'Robot', row 1", "'terrain'", "0 to 3"),
        ),
        (
            {"Robot": [Robot(1.0, mood="angri")]},
            errors.FeatureError,
            ("row 0", "'mood' has an unknown value", "'calm', 'angry'", "did you mean 'angry'?"),
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_broken_objects_are_named_by_type_row_and_feature(entities, error, words):
    with pytest.raises(errors.EntityEnvError) as caught:
        extract_features(entities, SPACE)
    assert type(caught.value) is error, str(caught.value)
    for word in words:
        assert word in str(caught.value)
