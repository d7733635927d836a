"""Continuous actions from a space to an environment: bounds, reading, checks, workers, records."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from support.continuous_envs import Aim

from entity_env import (
    ContinuousAction,
    ContinuousActionMask,
    ContinuousActionSpace,
    Entity,
    GlobalContinuousAction,
    GlobalContinuousActionMask,
    GlobalContinuousActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    RaggedBufferF32,
    RaggedBufferI64,
    batch_obs,
)
from entity_env.batching.row_reader import RowReader
from entity_env.checking.check_tools import difference, pack_obs
from entity_env.drawing import choices_of
from entity_env.errors import ActionError, MaskError, SpaceError
from entity_env.play import random_policy
from entity_env.storage.space_json import spaces_from_json, spaces_to_json
from entity_env.terminal.questions import questions, range_text, read_answer
from entity_env.workers.obs_format import ObsFormat
from entity_env.wrappers import VecFeatureFilter

OBS_SPACE = ObsSpace(["wind", "shift"], {"Gun": Entity(["goal"]), "Rock": Entity(["size"])})
ACTION_SPACE = {
    "Angle": ContinuousActionSpace(-2, 2),
    "Wind": GlobalContinuousActionSpace([0, None], [10, None]),
}


def shown(guns=2, rocks=1, **more):
    """A frame with so many guns, whose ids are letters."""
    actions = {
        "Angle": ContinuousActionMask(actor_types=["Gun"]),
        "Wind": GlobalContinuousActionMask(),
    }
    return Observation(
        entities={
            "Gun": (np.zeros((guns, 1)), [f"gun{i}" for i in range(guns)]),
            "Rock": np.zeros((rocks, 1)),
        },
        global_features=[0.0, 0.0],
        **{"actions": actions, **more},
    )


def test_one_bound_stands_for_one_number_and_none_for_no_bound():
    space = GlobalContinuousActionSpace([-1, None, 3], [np.float32(0.5), 2, math.inf])
    assert (space.low, space.high) == ((-1.0, -math.inf, 3.0), (0.5, 2.0, math.inf))
    assert len(space) == 3
    assert ContinuousActionSpace(np.float64(-1), 1) == ContinuousActionSpace([-1.0], [1.0])


def test_inner_bounds_are_the_outermost_float32_within():
    # float32(0.1) = 0.100000001490... lies above 0.1, and the float32 before it below.
    low, high = ContinuousActionSpace([0.1, -0.1, -1e300, 0.5], [0.2, 0.1, 1e-300, 1]).inner_bounds
    for bound, inner in zip([0.1, -0.1, -1e300, 0.5], low, strict=True):
        assert float(inner) >= bound
        with np.errstate(over="ignore"):
            assert float(np.nextafter(np.float32(inner), np.float32(-np.inf))) < bound
    for bound, inner in zip([0.2, 0.1, 1e-300, 1], high, strict=True):
        assert float(inner) <= bound
        assert float(np.nextafter(np.float32(inner), np.float32(np.inf))) > bound
    assert low[0] == float(np.float32(0.1))
    assert high[1] == float(np.nextafter(np.float32(0.1), np.float32(0)))


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1, 1, "bounds without numbers"),
        (1.0, 1.0 + 1e-12, "more than one float32"),
        ([0, 0], [1], "2 and 1"),
        (math.nan, 1, "cannot be nan"),
        ("a", 1, "not a number"),
        (np.zeros((2, 2)), np.ones((2, 2)), "not a number"),
    ],
)
def test_impossible_bounds_are_refused(low, high, words):
    with pytest.raises(SpaceError, match=words):
        ContinuousActionSpace(low, high)


def test_spaces_survive_json():
    saved = json.loads(json.dumps(spaces_to_json(OBS_SPACE, ACTION_SPACE), allow_nan=False))
    assert spaces_from_json(saved) == (OBS_SPACE, ACTION_SPACE)
    saved["actions"][0]["low"] = [5.0]
    with pytest.raises(SpaceError, match="bounds without numbers"):
        spaces_from_json(saved)


def test_frames_with_and_without_actors_become_a_batch():
    frames = [shown(2, 1), shown(0, 2), shown(1, 0, actions={}), shown(1, 1)]
    obs = batch_obs(frames, OBS_SPACE, ACTION_SPACE)
    angle, wind = obs.action_masks["Angle"], obs.action_masks["Wind"]
    assert angle.actors.size1().tolist() == [2, 0, 0, 1]
    assert angle.actors.as_array()[:, 0].tolist() == [0, 1, 0]
    # The player stands after all entities: 2 + 1, 0 + 2, and 1 + 1 of them.
    assert wind.actors.size1().tolist() == [1, 1, 0, 1]
    assert wind.actors.as_array()[:, 0].tolist() == [3, 2, 2]
    assert (angle.low.tolist(), angle.high.tolist()) == ([-2], [2])
    assert (wind.low.tolist(), wind.high.tolist()) == ([0, -math.inf], [10, math.inf])


def test_all_rows_at_once_read_as_single_frames_do():
    rng = np.random.default_rng(0)
    for _ in range(20):
        frames = []
        for guns, rocks in rng.integers(0, 4, (5, 2)):
            some = [f"gun{i}" for i in range(guns) if rng.random() < 0.5]
            mask = ContinuousActionMask(actor_ids=some) if rng.random() < 0.5 else None
            actions = {"Angle": mask or ContinuousActionMask(actor_types=["Gun"])}
            if rng.random() < 0.5:
                actions["Wind"] = GlobalContinuousActionMask()
            frames.append(shown(guns, rocks, actions=actions if rng.random() < 0.8 else {}))
        reader = RowReader(OBS_SPACE, ACTION_SPACE)
        quick = pack_obs(reader._read(frames).obs)
        slow = pack_obs(batch_obs(frames, OBS_SPACE, ACTION_SPACE))
        assert difference("", quick, slow) is None


@pytest.mark.parametrize(
    ("mask", "error", "words"),
    [
        (GlobalContinuousActionMask(), MaskError, "ContinuousActionMask"),
        (ContinuousActionMask(actor_ids=["nobody"]), MaskError, "nobody"),
        (ContinuousActionMask(actor_ids=["gun0", "gun0"]), MaskError, "twice"),
    ],
)
def test_wrong_masks_are_refused(mask, error, words):
    with pytest.raises(error, match=words):
        batch_obs([shown(actions={"Angle": mask})], OBS_SPACE, ACTION_SPACE)


def answers(angle=(0.5, -2.0), wind=((0.0, 123.0),)):
    count = np.array([len(angle)])
    return {
        "Angle": RaggedBufferF32.from_flattened(np.array(angle, np.float32)[:, None], count),
        "Wind": RaggedBufferF32.from_flattened(np.array(wind, np.float32), np.array([1])),
    }


class Still(Aim):
    """Shows two guns, and remembers what it was told."""

    def _observe(self, reward):
        return shown()

    def act(self, actions):
        self.told = actions
        return shown()


def played(actions):
    made = []
    with ListEnv(lambda: made.append(Still()) or made[-1], 1) as rows:
        rows.reset()
        rows.act(actions)
    return made[0].told


def test_an_environment_receives_its_numbers():
    told = played(answers())
    assert told["Angle"] == ContinuousAction(["gun0", "gun1"], np.array([[0.5], [-2]], np.float32))
    assert told["Wind"] == GlobalContinuousAction(np.array([0, 123], np.float32))
    assert told["Angle"].values.dtype == told["Wind"].values.dtype == np.float32


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        (answers(angle=(0.5, 2.5)), ActionError, "number 0 is out of bounds.*from -2 to 2"),
        (answers(angle=(0.5, math.nan)), ActionError, "environment 0"),
        (answers(wind=((-1, 0),)), ActionError, "from 0 to 10"),
        (answers(wind=((1, math.inf),)), ActionError, "number 1"),
        (answers(angle=(0.5,)), ActionError, "2 choices"),
        (answers(wind=((1.0,),)), ActionError, "2 numbers for each actor"),
        ({"Angle": answers()["Angle"]}, ActionError, "'Wind' is missing"),
        (
            answers()
            | {"Angle": RaggedBufferI64.from_flattened(np.zeros((2, 1), np.int64), np.array([2]))},
            ActionError,
            "RaggedBufferF32",
        ),
    ],
)
def test_wrong_numbers_are_refused(changed, error, words):
    with pytest.raises(error) as caught:
        played(changed)
    assert re.search(words, str(caught.value), re.DOTALL)


def test_random_numbers_fill_their_bounds():
    with ListEnv(Aim, 200, seed=3) as rows:
        obs = rows.reset()
        policy = random_policy(0)
        angles, winds = [], []
        for _ in range(20):
            actions = policy(obs)
            angles.append(actions["Angle"].as_array())
            winds.append(actions["Wind"].as_array())
            obs = rows.act(actions)
    angle, wind = np.concatenate(angles)[:, 0], np.concatenate(winds)
    # An even draw from -2 to 2 has mean 0 and deviation 4 / sqrt(12) = 1.155.
    assert np.abs(angle).max() <= 2
    assert abs(angle.mean()) < 0.08
    assert abs(angle.std() - 1.155) < 0.03
    assert 0 <= wind[:, 0].min() < 0.05
    assert 9.95 < wind[:, 0].max() <= 10
    assert abs(wind[:, 1].std() - 1) < 0.05


def test_messages_say_all_there_is():
    obs = batch_obs([shown(2), shown(0), shown(1, actions={})], OBS_SPACE, ACTION_SPACE)
    form = ObsFormat(OBS_SPACE, ACTION_SPACE)
    again = form.join([(form.pack(obs), 0)])
    assert difference("", pack_obs(again), pack_obs(obs)) is None
    assert again.action_masks["Wind"].low is obs.action_masks["Wind"].low


def test_who_is_left_out_sets_the_numbers_nearest_to_0():
    told = []

    class Listens(Aim):
        def act(self, actions):
            told.append(actions)
            return super().act(actions)

    less = ObsSpace(["wind", "shift"], {"Rock": Entity(["size"])})
    with VecFeatureFilter(ListEnv(Listens, 8), less) as rows:
        obs = rows.reset()
        assert obs.action_masks["Angle"].actors.items() == 0
        rows.act(random_policy(0)(obs))
    assert sum(len(own["Angle"].values) for own in told) > 0
    assert all((own["Angle"].values == 0).all() for own in told)


def test_numbers_are_typed_and_drawn():
    reader = RowReader(OBS_SPACE, ACTION_SPACE)
    (frame,) = reader._frames([shown()], str)
    first, _, whole = questions(frame, OBS_SPACE, ACTION_SPACE)
    assert range_text(ACTION_SPACE["Angle"]) == "a number from -2 to 2"
    assert range_text(ACTION_SPACE["Wind"]) == "2 numbers: from 0 to 10, of any size"
    assert read_answer(" 1.5", first) == [1.5]
    assert read_answer("3, -7", whole) == [3, -7]
    for text, question in [
        ("3", first),
        ("1 2", first),
        ("one", first),
        ("nan", first),
        ("3", whole),
    ]:
        with pytest.raises(ActionError):
            read_answer(text, question)
    numbers = {
        "Angle": np.array([[0.5], [-1]], np.float32),
        "Wind": np.array([[1, 2.25]], np.float32),
    }
    chosen = choices_of(frame, OBS_SPACE, ACTION_SPACE, numbers)
    assert [own.what for own in chosen] == ["0.5", "-1", "(1, 2.25)"]
