"""Parts of Gymnasium's observations that are left out, and tables whose rows are entities."""

from __future__ import annotations

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402

from entity_env import Discrete, Entity, GlobalCategoricalAction, ListEnv, check_env  # noqa: E402
from entity_env.batching.frame_reader import FrameReader  # noqa: E402
from entity_env.errors import ObservationError, SettingError, SpaceError  # noqa: E402
from entity_env.interop import GymnasiumEnv, Rows  # noqa: E402
from entity_env.interop.observation_reader import ObservationReader  # noqa: E402
from entity_env.registry import make  # noqa: E402

KINEMATICS = ["presence", "x", "y", "vx", "vy"]


class Shows(gymnasium.Env):
    """Shows what it is given, again and again, or samples of its space."""

    def __init__(self, space=None, shown=None, action_space=None, steps=4):
        self.observation_space = spaces.Box(-1, 1, (2,)) if space is None else space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.shown, self.steps = shown, steps

    def show(self):
        return self.observation_space.sample() if self.shown is None else self.shown

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self.show(), {}

    def step(self, action):
        self.time += 1
        return self.show(), 1.0, self.time == self.steps, False, {}


class Mission(spaces.Space):
    """MiniGrid's missions: a space of its own, whose samples are texts."""

    def sample(self, mask=None, probability=None):
        return "get to the green goal square"

    def contains(self, x):
        return isinstance(x, str)


class MiniGrid(Shows):
    """The spaces of MiniGrid and BabyAI."""

    def __init__(self):
        view = spaces.Box(0, 255, (7, 7, 3), np.uint8)
        parts = {"image": view, "direction": spaces.Discrete(4), "mission": Mission((), str)}
        super().__init__(spaces.Dict(parts), action_space=spaces.Discrete(7))


class Highway(Shows):
    """The spaces of highway-env's Kinematics."""

    TABLE = np.array(
        [
            [1, 0.9, 0.1, 0.3, 0.0],
            [1, 0.2, 0.0, -0.1, 0.0],
            [0, 0.0, 0.0, 0.0, 0.0],
            [1, 0.0, 0.0, 0.0, 0.0],
            [0, 0.0, 0.0, 0.0, 0.0],
        ],
        np.float32,
    )

    def __init__(self):
        super().__init__(spaces.Box(-np.inf, np.inf, (5, 5)), self.TABLE, spaces.Discrete(5))


def read(space, shown, **asked):
    """The checked frame of one observation, and its space."""
    env = GymnasiumEnv(Shows(space, shown), **asked)
    frame = FrameReader(env.obs_space(), env.action_space()).read(env.reset())
    rows = {name: values.tolist() for name, values in frame.features.items()}
    return env.obs_space(), frame.global_features.tolist(), rows


def refusal(error, space, **asked):
    with pytest.raises(error) as caught:
        GymnasiumEnv(Shows(space), **asked)
    return str(caught.value)


# Left out.


def test_the_refusal_of_a_text_says_how_to_leave_it_out_and_that_works():
    with pytest.raises(SpaceError) as caught:
        GymnasiumEnv(MiniGrid())
    for words in (
        "'mission' of the observation is a Mission",
        'ignore=["mission"]',
        "env.ignore=[mission]",
    ):
        assert words in str(caught.value)
    env = GymnasiumEnv(MiniGrid(), ignore=["mission"])
    names = env.obs_space().global_names
    assert names[0] == "direction"
    assert names[1:] == tuple(f"image[{x},{y},{z}]" for x, y, z in np.ndindex(7, 7, 3))
    check_env(lambda: GymnasiumEnv(MiniGrid(), ignore="mission"), episodes=1)


NESTED = spaces.Dict(
    {
        "arm": spaces.Dict({"speed": spaces.Box(-9, 9, ()), "label": spaces.Text(3)}),
        "pair": spaces.Tuple([spaces.Text(3), spaces.Discrete(4)]),
        "items": spaces.Sequence(spaces.Text(5)),
    }
)
SHOWN = {"arm": {"speed": 2.5, "label": "a"}, "pair": ("b", 3), "items": ("c", "d")}


def test_parts_at_any_depth_can_be_left_out():
    obs_space, values, rows = read(NESTED, SHOWN, ignore=["arm/label", "pair/0", "items"])
    assert obs_space.global_features == ("arm/speed", Discrete("pair/1", 4))
    assert (values, rows) == ([2.5, 3], {})


def test_a_whole_branch_can_be_left_out():
    obs_space, values, rows = read(NESTED, SHOWN, ignore=("arm", "items", "pair/0"))
    assert (obs_space.global_names, values, rows) == (("pair/1",), [3], {})


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (spaces.Dict({"arm": NESTED["arm"]}), "arm/label"),
        (spaces.Dict({"items": NESTED["items"]}), "items"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Text(2)]), "obs/1"),
        (spaces.Sequence(spaces.Tuple([spaces.Discrete(2), spaces.Text(2)])), "obs"),
        (
            spaces.Dict(
                {"a": spaces.Discrete(2), "cam": spaces.Box(0, 255, (96, 96, 3), np.uint8)}
            ),
            "cam",
        ),
        (
            spaces.Dict(
                {
                    "bags": spaces.Sequence(
                        spaces.Dict(
                            {"n": spaces.Discrete(2), "in": spaces.Sequence(spaces.Discrete(2))}
                        )
                    )
                }
            ),
            "bags",
        ),
    ],
)
def test_every_refusal_names_the_part_as_ignore_wants_it(space, name):
    assert f'ignore=["{name}"]' in refusal(SpaceError, space)
    GymnasiumEnv(Shows(space), ignore=[name])


def test_a_refusal_names_all_parts_that_cannot_be_read():
    message = refusal(SpaceError, NESTED, ignore=["pair"])
    assert 'ignore=["arm/label", "items"] leaves out' in message
    assert "(env.ignore=[arm/label,items] on the command line)" in message
    GymnasiumEnv(Shows(NESTED), ignore=["pair", "arm/label", "items"])


@pytest.mark.parametrize(
    ("ignore", "words"),
    [
        (["misson"], ["'misson', which is not a part", "did you mean 'mission'?", "direction"]),
        (["image[0]"], ["not a part"]),
        ([3], ["not a list of names", 'ignore=["mission"]']),
        (3, ["not a list of names"]),
        ({"mission": True}, ["not a list of names"]),
    ],
)
def test_what_cannot_be_ignored(ignore, words):
    message = refusal(SettingError, MiniGrid().observation_space, ignore=ignore)
    for word in words:
        assert word in message


# Large boards.


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (19, 19, 17), bool),  # Go
        spaces.Box(0, 1, (8, 8, 111), bool),  # chess
        spaces.Box(0, 3, (90, 90), np.uint8),
        spaces.Box(0, 255, (50, 50, 3), np.uint8),  # a large world of MiniGrid
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
    ],
)
def test_boards_of_every_size_are_features(space):
    space.seed(1)
    shown = space.sample()
    obs_space, values, _ = read(space, shown)
    assert len(obs_space.global_features) == shown.size
    assert values == shown.ravel().tolist()


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), ["a Box of 21,168 numbers"]),
        (spaces.Box(0, 1, (100, 100)), ["at most 8,192", "ObservationWrapper"]),
    ],
)
def test_pictures_are_not(space, words):
    message = refusal(SpaceError, space)
    for word in [*words, 'ignore=["obs"]']:
        assert word in message


# Tables.


def test_rows_with_an_object_become_entities():
    env = GymnasiumEnv(Highway(), entities={"Vehicle": Rows(0, KINEMATICS)})
    obs_space = env.obs_space()
    assert obs_space.global_features == ()
    assert obs_space.entities == {"Vehicle": Entity(["x", "y", "vx", "vy"])}
    frame = FrameReader(obs_space, env.action_space()).read(env.reset())
    # A vehicle may well stand still in the middle: it is there.
    expected = [[0.9, 0.1, 0.3, 0], [0.2, 0, -0.1, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(frame.features["Vehicle"], np.array(expected, np.float32))
    # The player as a whole acts.
    assert frame.actions["action"].actors.tolist() == [3]
    check_env(lambda: GymnasiumEnv(Highway(), entities={"Vehicle": 0}), episodes=1)


TABLE = spaces.Box(-9, 9, (4, 3))
FILLED = np.array([[1, 2, 1], [0, 0, 0], [0, 3, 0], [0, 0, 5]], np.float32)
NAMES = ["here", "x", "y"]
ALL = ["value[0]", "value[1]", "value[2]"]


@pytest.mark.parametrize(
    ("rows", "features", "values"),
    [
        (Rows(), ALL, FILLED.tolist()),
        (None, ALL, FILLED.tolist()),
        (Rows(0), ["value[1]", "value[2]"], [[2, 1]]),
        (2, ["value[0]", "value[1]"], [[1, 2], [0, 0]]),
        (-1, ["value[0]", "value[1]"], [[1, 2], [0, 0]]),
        (Rows(0, NAMES), ["x", "y"], [[2, 1]]),
        ({"presence": 2, "features": NAMES}, ["here", "x"], [[1, 2], [0, 0]]),
        (Rows(features=NAMES), NAMES, FILLED.tolist()),
        (Rows(part="obs"), ALL, FILLED.tolist()),
    ],
)
def test_which_rows_and_which_columns(rows, features, values):
    obs_space, _, seen = read(TABLE, FILLED, entities={"Thing": rows})
    assert obs_space.entities == {"Thing": Entity(features)}
    assert seen == {"Thing": values}


def test_tables_stand_beside_other_parts():
    space = spaces.Dict(
        {
            "goal": spaces.Box(-9, 9, (2,)),
            "cars": TABLE,
            "map": spaces.Box(0, 9, (2, 2)),
            "more": spaces.Tuple([TABLE]),
        }
    )
    shown = {"goal": [1, 2], "cars": FILLED, "map": [[3, 4], [5, 6]], "more": (FILLED + 1,)}
    asked = {"cars": 0, "Other": Rows(0, part="more/0")}
    obs_space, values, rows = read(space, shown, entities=asked)
    assert values == [1, 2, 3, 4, 5, 6]
    assert obs_space.global_names[2:] == ("map[0,0]", "map[0,1]", "map[1,0]", "map[1,1]")
    assert rows == {"cars": [[2, 1]], "Other": [[3, 2], [1, 1], [4, 1], [1, 6]]}


def test_a_table_may_have_fewer_rows_than_its_space():
    assert read(TABLE, FILLED[:1], entities={"Thing": None})[2] == {"Thing": [[1, 2, 1]]}
    assert read(TABLE, FILLED[:0], entities={"Thing": 0})[2] == {"Thing": []}


def test_large_tables_need_no_features_of_their_own():
    space = spaces.Box(-1, 1, (50_000, 2))
    shown = np.zeros(space.shape, np.float32)
    shown[7] = 1, 0.5
    assert read(space, shown, entities={"Point": 0})[2] == {"Point": [[0.5]]}


def test_entities_are_copies():
    shown = FILLED.copy()
    env = GymnasiumEnv(Shows(TABLE, shown), entities={"Thing": None})
    seen = env.reset()
    shown += 5
    np.testing.assert_array_equal(seen.features["Thing"], FILLED)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (np.zeros((4, 2)), "table of 3 columns has the shape \\(4, 2\\)"),
        (np.zeros(3), "has the shape \\(3,\\)"),
        (np.full((4, 3), np.nan), "presence column 0 holds NaN"),
        (None, "table of 3 columns"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(shown, words):
    with pytest.raises(ObservationError, match=words):
        ObservationReader(TABLE, entities={"Thing": 0}).read(shown)


TWO = spaces.Dict({"a": TABLE, "b": TABLE, "c": spaces.Box(0, 1, (2,))})


@pytest.mark.parametrize(
    ("space", "entities", "words"),
    [
        (TABLE, ["Thing"], ["not a mapping", "Rows(presence=0)", "env.entities="]),
        (TABLE, {3: Rows()}, ["not a mapping"]),
        (TABLE, {"Thing": [0]}, ["'Thing' have a wrong value"]),
        (TABLE, {"Thing": 1.5}, ["'Thing' have a wrong value"]),
        (TABLE, {"Thing": "presence"}, ["wrong value", "the index of the presence column"]),
        (TABLE, {"Thing": True}, ["wrong value"]),
        (TABLE, {"Thing": {"presense": 0}}, ["'presense'", "did you mean 'presence'?"]),
        (TABLE, {"Thing": {"features": "abc"}}, ["wrong features", "a list of names"]),
        (TABLE, {"Thing": {"features": [1, 2, 3]}}, ["wrong features", "a list of names"]),
        (TABLE, {"Thing": {"features": 3}}, ["wrong features", "a list of names"]),
        (TABLE, {"Thing": {"part": 3}}, ["there is no table", "received: 3"]),
        (TABLE, {"Thing": {"presence": "here"}}, ["wrong presence", "from 0 to 2"]),
        (TABLE, {"Thing": 3}, ["wrong presence", "from 0 to 2"]),
        (TABLE, {"Thing": -4}, ["wrong presence"]),
        (TABLE, {"Thing": Rows(features=["x", "y"])}, ["wrong features", "3 names"]),
        (TABLE, {"Thing": 0, "Other": Rows(part="obs")}, ["rows of two entity types"]),
        (TWO, {"Thing": 0}, ["there is no table", "'a', 'b'", "part=..."]),
        (TWO, {"Thing": Rows(part="d")}, ["there is no table", "'d'"]),
        (TWO, {"c": 0}, ["'c' is not a table", "Box(0.0, 1.0, (2,)"]),
        (spaces.MultiBinary((2, 2)), {"Thing": 0}, ["not a table", "MultiBinary"]),
    ],
)
def test_wrong_rows_are_named(space, entities, words):
    message = refusal(SettingError, space, entities=entities)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("space", "ignore", "part"),
    [
        (spaces.Dict({"a": spaces.Dict({"b": TABLE}), "c": TABLE}), "a", "a/b"),
        (TABLE, "obs", "obs"),
    ],
)
def test_a_table_within_what_is_ignored_is_none_either(space, ignore, part):
    entities = {"Thing": Rows(part=part)}
    assert "there is no table" in refusal(SettingError, space, ignore=ignore, entities=entities)


def test_names_that_are_taken_are_refused():
    space = spaces.Dict({"units": spaces.Sequence(spaces.Discrete(2)), "cars": TABLE})
    message = refusal(SpaceError, space, entities={"units": Rows(part="cars")})
    assert "two parts with the name 'units'" in message


def test_settings_come_from_a_command_line():
    pytest.importorskip("torch")
    from ppo_trainer import recipe

    typed = ["env.env=Own-v0", "env.ignore=[goal/text,mission]"]
    rows = "env.entities={Vehicle: {presence: 0, part: obs}}"
    settings = dict(recipe("gymnasium", *typed, rows).env)
    assert settings.pop("_target_") == "entity_env.interop.GymnasiumEnv"
    assert settings == {
        "env": "Own-v0",
        "ignore": ["goal/text", "mission"],
        "entities": {"Vehicle": {"presence": 0, "part": "obs"}},
    }
    # All of it is known by the environment.
    made = make("entity_env.interop.GymnasiumEnv", env=Highway, entities=settings["entities"])
    assert len(made.reset().features["Vehicle"]) == 3


def test_rows_of_environments_with_entities():
    with ListEnv(lambda: GymnasiumEnv(Highway(), entities={"Vehicle": 0}), 3) as rows:
        obs = rows.reset(0)
        assert obs.features["Vehicle"].size1().tolist() == [3, 3, 3]
    env = GymnasiumEnv(Highway(), entities={"Vehicle": 0})
    env.reset()
    assert env.act({"action": GlobalCategoricalAction(4, "4")}).reward == 1
