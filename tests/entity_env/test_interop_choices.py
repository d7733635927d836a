"""Gymnasium actions of several parts: what is chosen, what goes back, and masks of every shape."""

from __future__ import annotations

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402

from entity_env import GlobalCategoricalAction, ListEnv, check_env  # noqa: E402
from entity_env.errors import MaskError, SpaceError  # noqa: E402
from entity_env.interop import GymnasiumEnv  # noqa: E402
from entity_env.interop.action_writer import ActionWriter  # noqa: E402

TREE = spaces.Dict(
    {
        "arm": spaces.Tuple([spaces.Discrete(2, start=5), spaces.MultiBinary(2)]),
        "move": spaces.MultiDiscrete([2, 3], start=[0, -1]),
    }
)
TREE_NAMES = ["arm/0", "arm/1[0]", "arm/1[1]", "move[0]", "move[1]"]


def int8(*values):
    return np.array(values, np.int8)


def chosen(writer, *indices):
    return {
        name: GlobalCategoricalAction(index, str(index))
        for name, index in zip(writer.action_space, indices, strict=True)
    }


def leaves(space):
    """The first values of each part of a space."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return [leaf for part in inner for leaf in leaves(part)]
    return [np.ravel(getattr(space, "start", np.zeros(space.shape))).tolist()]


def allowed(space, mask):
    masks = ActionWriter(space).masks(mask)
    return [None if own.mask is None else np.asarray(own.mask).tolist() for own in masks.values()]


def same(left, right):
    """Equal in value, structure and type."""
    if isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in right)
    if isinstance(right, tuple):
        return type(left) is tuple and all(map(same, left, right))
    return type(left) is type(right) and left.dtype == right.dtype and np.array_equal(left, right)


@pytest.mark.parametrize(
    ("space", "names", "indices", "action"),
    [
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3, start=-1)]),
            ["action/0", "action/1"],
            [1, 0],
            (np.int64(1), np.int64(-1)),
        ),
        (
            spaces.Dict({"b": spaces.MultiBinary(2), "a": spaces.Discrete(4)}),
            ["a", "b[0]", "b[1]"],
            [3, 0, 1],
            {"a": np.int64(3), "b": int8(0, 1)},
        ),
        (
            TREE,
            TREE_NAMES,
            [1, 1, 0, 1, 2],
            {"arm": (np.int64(6), int8(1, 0)), "move": np.array([1, 1])},
        ),
        (
            spaces.Tuple(
                [spaces.Dict({"x": spaces.Discrete(2)}), spaces.MultiDiscrete([[2], [3]])]
            ),
            ["action/0/x", "action/1[0,0]", "action/1[1,0]"],
            [1, 0, 2],
            ({"x": np.int64(1)}, np.array([[0], [2]])),
        ),
        (spaces.Dict({1: spaces.Discrete(2)}), ["1"], [1], {1: np.int64(1)}),
    ],
)
def test_parts_go_back_in_the_structure_of_the_space(space, names, indices, action):
    writer = ActionWriter(space)
    assert list(writer.action_space) == names
    labels = [int(own.index_to_label[0]) for own in writer.action_space.values()]
    assert labels == [start for own in leaves(space) for start in own]  # values, not indices
    written = writer.write(chosen(writer, *indices))
    assert same(written, action)
    assert written in space


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Tuple([]), "no choices"),
        (spaces.Dict({}), "no choices"),
        (
            spaces.Dict({"a/b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(2)})}),
            "two parts with the name 'a/b'",
        ),
        (spaces.Tuple([spaces.Sequence(spaces.Discrete(2))]), "'action/0' is a Sequence"),
    ],
)
def test_spaces_without_choices_are_refused(space, words):
    with pytest.raises(SpaceError, match=words):
        ActionWriter(space)


@pytest.mark.parametrize(
    ("space", "mask", "expected"),
    [
        (spaces.Discrete(3), int8(1, 0, 1), [[1, 0, 1]]),
        (spaces.MultiDiscrete([2, 3]), (int8(0, 1), int8(1, 0, 1)), [[0, 1], [1, 0, 1]]),
        (spaces.MultiDiscrete([2, 2]), (int8(0, 1), int8(1, 0)), [[0, 1], [1, 0]]),
        (
            spaces.MultiDiscrete([[2, 3], [1, 2]]),
            ((int8(0, 1), int8(1, 0, 1)), (int8(1), int8(1, 0))),
            [[0, 1], [1, 0, 1], [1], [1, 0]],
        ),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
            (int8(0, 1), int8(1, 1, 0)),
            [[0, 1], [1, 1, 0]],
        ),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
            (None, int8(1, 1, 0)),
            [None, [1, 1, 0]],
        ),
    ],
)
def test_masks_are_what_sample_takes(space, mask, expected):
    assert allowed(space, mask) == expected
    space.seed(1)
    writer = ActionWriter(space)
    seen = {str(space.sample(mask=mask)) for _ in range(600)}
    # Whatever Gymnasium draws under the mask can be written with it, and nothing else.
    rng = np.random.default_rng(1)
    masks = writer.masks(mask)
    free = [
        np.arange(len(writer.action_space[name])) if own.mask is None else np.flatnonzero(own.mask)
        for name, own in masks.items()
    ]
    ours = [writer.write(chosen(writer, *map(rng.choice, free))) for _ in range(600)]
    assert {str(action) for action in ours} == seen


@pytest.mark.parametrize(
    ("space", "mask", "expected"),
    [
        (spaces.MultiDiscrete([2, 3]), int8(0, 1, 1, 0, 1), [[0, 1], [1, 0, 1]]),
        (spaces.MultiDiscrete([[2], [3]]), [0, 1, 1, 0, 1], [[0, 1], [1, 0, 1]]),
        (spaces.MultiBinary(2), int8(0, 1, 1, 1), [[0, 1], [1, 1]]),
        (spaces.MultiBinary(2), [[0, 1], [1, 1]], [[0, 1], [1, 1]]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(1)]), [1, 0, 1], [[1, 0], [1]]),
        (
            TREE,
            np.array([1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1], bool),
            [[1, 0], [1, 1], [0, 1], [1, 1], [1, 0, 1]],
        ),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
            np.array([[1, 0], [0, 1]]),
            [[1, 0], [0, 1]],
        ),
    ],
)
def test_masks_may_be_one_after_the_other(space, mask, expected):
    assert allowed(space, mask) == expected


@pytest.mark.parametrize(
    ("space", "mask", "words"),
    [
        (spaces.Discrete(3), int8(1, 0), r"\(3,\)"),
        (spaces.Discrete(3), {"action": [1, 0, 1]}, r"\(3,\)"),
        (spaces.Discrete(3), "101", r"\(3,\)"),
        (spaces.MultiDiscrete([2, 3]), (int8(1, 0, 1), int8(1, 1)), "does not fit"),
        (spaces.MultiDiscrete([2, 3]), (int8(1, 0),), "does not fit"),
        (spaces.MultiDiscrete([2, 3]), [[1, 0], 1], "does not fit"),
        (spaces.Discrete(3), [[1], [1, 0]], "does not fit"),
        (spaces.Discrete(3), 1, "does not fit"),
        (spaces.MultiDiscrete([2, 3]), int8(1, 0, 1), r"\(5,\)"),
        (spaces.MultiBinary(3), int8(1, 0, 2), r"\(6,\): a number for each choice"),
        (TREE, {"arm": None, "move": None}, r"\(11,\).*'arm/0', 'arm/1\[0\]'"),
        (TREE, 5, "does not fit"),
    ],
)
def test_masks_that_do_not_fit_are_refused(space, mask, words):
    with pytest.raises(MaskError, match=words):
        ActionWriter(space).masks(mask)


class Choosy(gymnasium.Env):
    """Pays what is chosen; the second number can only be chosen while the first one was 1."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 1, (1,))
        self.action_space = spaces.Dict({"go": spaces.Discrete(2), "far": spaces.Discrete(3)})
        self.time = 0
        self.played = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), self.info(False)

    def info(self, free):
        far = int8(1, 1, 1) if free else int8(0, 0, 0)
        return {"action_mask": (far, int8(1, 1))}

    def step(self, action):
        assert action in self.action_space
        self.played.append((int(action["go"]), int(action["far"])))
        self.time += 1
        over = self.time == 5
        return np.zeros(1, np.float32), 1.0, over, False, self.info(action["go"] == 1)


def test_a_part_without_a_choice_is_not_asked():
    inner = Choosy()
    env = GymnasiumEnv(inner)
    assert list(env.reset().actions) == ["go"]
    seen = env.act({"go": GlobalCategoricalAction(1, "1")})
    assert list(seen.actions) == ["far", "go"]
    seen = env.act({"go": GlobalCategoricalAction(0, "0"), "far": GlobalCategoricalAction(2, "2")})
    assert list(seen.actions) == ["go"]
    assert inner.played == [(1, 0), (0, 2)]  # nothing to choose: the first value
    check_env(lambda: GymnasiumEnv(Choosy()), episodes=2)


def test_rows_of_several_parts_can_be_played():
    with ListEnv(lambda: GymnasiumEnv(Choosy()), 2) as rows:
        obs = rows.reset(1)
        assert {name: mask.actors.items() for name, mask in obs.action_masks.items()} == {
            "far": 0,
            "go": 2,
        }


class Told(gymnasium.Wrapper):
    """Masks as ``sb3_contrib`` asks for them: by a method, and not while nobody plays."""

    def action_masks(self):
        assert self.env.unwrapped.time < 5
        return np.array([1, 0, 0, 1, 1], bool)


def test_masks_may_come_from_a_method():
    class Silent(Choosy):
        def info(self, free):
            return {}

    env = GymnasiumEnv(gymnasium.wrappers.RecordEpisodeStatistics(Told(Silent())))
    seen = env.reset()
    for _ in range(5):
        masks = {name: mask.mask.tolist() for name, mask in seen.actions.items()}
        assert masks == {"far": [1, 0, 0], "go": [1, 1]}
        seen = env.act({name: GlobalCategoricalAction(0, "0") for name in seen.actions})
    assert seen.done
    # What the info says comes first.
    assert list(GymnasiumEnv(Told(Choosy())).reset().actions) == ["go"]
