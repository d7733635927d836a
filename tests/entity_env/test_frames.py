"""Observations with missing, hidden, nameless and idle entities, through batches and back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from support.broken import ragged
from support.tiny_envs import Replay, lists

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    batch_obs,
)
from entity_env.batching.frame_reader import FrameReader
from entity_env.errors import EntityEnvError

OBS_SPACE = ObsSpace(
    global_features=["time", Discrete("phase", 3)],
    entities={"A": Entity(["x"]), "B": Entity(["x", "y"]), "C": Entity([])},
)
ACTION_SPACE = {
    "Move": CategoricalActionSpace(["left", "right", "stay"]),
    "Grab": SelectEntityActionSpace(),
    "Mode": GlobalCategoricalActionSpace(["calm", "bold"]),
}
LABELS = ("left", "right", "stay")


def seen(**kwargs):
    return Observation(**{"global_features": [0.5, 1], **kwargs})


def batch(*observations):
    return batch_obs(observations, OBS_SPACE, ACTION_SPACE)


def frame_of(observation):
    return FrameReader(OBS_SPACE, ACTION_SPACE).read(observation)


def answer(observation, last=None, **chosen):
    """Return the actions that the environment of the only row gets for flat numbers."""
    env = Replay([observation, last or seen()], OBS_SPACE, ACTION_SPACE)
    with ListEnv(lambda: env, 1) as vec:
        vec.reset()
        vec.act({name: ragged(values, [len(values)]) for name, values in chosen.items()})
    return env.received[0]


# Features.


def test_an_observation_survives_pickling():
    observation = seen(features={"A": [[1.0]]}, reward=2.0)
    assert pickle.loads(pickle.dumps(observation)) == observation != seen()


def test_types_that_are_absent_are_skipped_in_the_entity_order():
    # Frame 0 has only B: its index starts at 0. Frame 1 has A, A, B, C, C: B is 2, C is 3 and 4.
    obs = batch(
        seen(features={"B": [[1, 2]]}, actions={"Move": CategoricalActionMask()}),
        seen(
            features={"C": np.zeros((2, 0)), "B": [[3, 4]], "A": [[5], [6]]},
            actions={"Move": CategoricalActionMask(actor_types=["C", "B"])},
        ),
    )
    assert lists(obs.features["A"]) == [[], [[5.0], [6.0]]]
    assert lists(obs.features["B"]) == [[[1.0, 2.0]], [[3.0, 4.0]]]
    assert obs.features["C"].size1().tolist() == [0, 2]
    assert lists(obs.action_masks["Move"].actors) == [[[0]], [[3], [4], [2]]]


def test_frames_without_entities_are_normal():
    obs = batch(seen(), seen(features={"A": None, "B": [], "C": np.zeros((0, 0))}))
    for rows in obs.features.values():
        assert rows.size1().tolist() == [0, 0]
    for mask in obs.action_masks.values():
        assert mask.actors.size1().tolist() == [0, 0]
    assert obs.global_features.tolist() == [[0.5, 1.0], [0.5, 1.0]]
    assert obs.visible == {}


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        [(1.0, 2.0), np.array([3, 4])],
        np.array([[1, 2], [3, 4]], np.int8),
        np.array([[1, 2], [3, 4]], np.float64),
        np.asfortranarray(np.array([[1, 2], [3, 4]], np.float32)),
        np.array([[1, 9, 2], [3, 9, 4]])[:, ::2],
    ],
)
def test_features_may_be_any_nesting_of_numbers(rows):
    obs = batch(seen(features={"B": rows}))
    assert lists(obs.features["B"]) == [[[1.0, 2.0], [3.0, 4.0]]]
    assert obs.features["B"].as_array().dtype == np.float32


def test_what_the_environment_does_to_its_arrays_later_does_not_reach_the_frame():
    rows = np.ones((2, 2), np.float32)
    mask = np.ones((2, 3), np.bool_)
    shown = np.array([True, True])
    glob = np.array([0.5, 1.0], np.float32)
    ids = ["b0", "b1"]
    metrics = {"score": 1.0}
    frame = frame_of(
        Observation(
            features={"B": rows},
            ids={"B": ids},
            visible={"B": shown},
            global_features=glob,
            actions={"Move": CategoricalActionMask(actor_types=["B"], mask=mask)},
            metrics=metrics,
        )
    )
    rows[:], mask[:], shown[:], glob[:], ids[0] = 7, False, False, 2, "other"
    metrics["score"] = 5.0
    assert frame.features["B"].tolist() == [[1, 1], [1, 1]]
    assert frame.actions["Move"].mask.all()
    assert frame.visible["B"].tolist() == [True, True]
    assert frame.global_features.tolist() == [0.5, 1.0]
    assert list(frame.ids) == ["b0", "b1"]
    assert frame.metrics == {"score": 1.0}


def test_entities_are_rows_or_pairs_of_rows_and_ids_or_none():
    observation = seen(entities={"A": [[1]], "B": ([[2, 3]], ["b"]), "C": None})
    assert dict(observation.features) == {"A": [[1]], "B": [[2, 3]], "C": None}
    assert dict(observation.ids) == {"B": ["b"]}
    assert list(frame_of(observation).ids) == [None, "b"]


@pytest.mark.parametrize("reward", [1, 1.0, True, np.float32(1), np.int8(1), np.array(1.0)])
def test_a_reward_may_be_any_number(reward):
    frame = frame_of(seen(reward=reward))
    assert frame.reward == 1.0
    assert type(frame.reward) is float


# Hidden entities.


def test_only_types_with_a_hidden_entity_have_a_visible_mask():
    obs = batch(
        seen(features={"A": [[1], [2]], "B": [[1, 1]]}, visible={"A": [True, False], "B": [True]}),
        seen(features={"A": [[3]]}),
    )
    assert list(obs.visible) == ["A"]
    # Frame 1 says nothing about A: it is shown.
    assert lists(obs.visible["A"]) == [[[True], [False]], [[True]]]


def test_hidden_entities_keep_their_index_and_others_may_act():
    obs = batch(
        seen(
            features={"A": [[1], [2], [3]]},
            ids={"A": ["a", "b", "c"]},
            visible={"A": [False, True, True]},
            actions={"Move": CategoricalActionMask(actor_ids=["c", "b"])},
        )
    )
    assert lists(obs.action_masks["Move"].actors) == [[[2], [1]]]


# Actors.


def test_without_actors_named_every_entity_acts():
    obs = batch(
        seen(features={"A": [[1]], "B": [[1, 2]]}, actions={"Move": CategoricalActionMask()})
    )
    assert lists(obs.action_masks["Move"].actors) == [[[0], [1]]]
    assert lists(obs.action_masks["Move"].mask) == [[[True] * 3] * 2]


def test_actors_and_their_mask_rows_keep_the_order_given():
    mask = [[True, False, False], [False, True, False], [False, False, True]]
    obs = batch(
        seen(
            features={"A": [[1], [2]], "B": [[1, 2]]},
            ids={"A": ["a0", "a1"], "B": ["b0"]},
            actions={"Move": CategoricalActionMask(actor_ids=["b0", "a1", "a0"], mask=mask)},
        )
    )
    assert lists(obs.action_masks["Move"].actors) == [[[2], [1], [0]]]
    assert lists(obs.action_masks["Move"].mask) == [mask]


@pytest.mark.parametrize(
    "actions",
    [
        {},
        {"Move": CategoricalActionMask(actor_ids=[])},
        {"Move": CategoricalActionMask(actor_types=[])},
        {"Move": CategoricalActionMask(actor_types=["B"])},
        {"Move": CategoricalActionMask(actor_types=["B"], mask=np.zeros((0, 3), np.bool_))},
        {"Move": CategoricalActionMask(actor_types=["B"], mask=[])},
        {"Grab": SelectEntityActionMask(actor_types=["A"], actee_types=["B"])},
        {"Grab": SelectEntityActionMask(actor_types=["A"], actee_ids=[])},
        {"Grab": SelectEntityActionMask(actor_types=["B"], actee_types=["A"])},
    ],
)
def test_an_action_that_nobody_can_take_has_no_actors_and_reaches_the_environment_empty(actions):
    observation = seen(features={"A": [[1]]}, ids={"A": ["a"]}, actions=actions)
    obs = batch(observation)
    assert all(mask.actors.size1().tolist() == [0] for mask in obs.action_masks.values())
    assert answer(observation) == {
        "Move": CategoricalAction([], np.zeros(0, np.int64), LABELS),
        "Grab": SelectEntityAction([], []),
    }


# Selecting.


def test_pair_masks_are_flat_actor_by_actor_and_all_true_where_a_frame_has_none():
    space = {"A": [[1], [2]], "B": [[1, 1], [2, 2], [3, 3]]}
    pairs = [[True, False, True], [False, True, False]]
    obs = batch(
        seen(
            features=space,
            actions={
                "Grab": SelectEntityActionMask(actor_types=["A"], actee_types=["B"], mask=pairs)
            },
        ),
        seen(features={"A": [[1]]}),
        seen(
            features=space,
            actions={"Grab": SelectEntityActionMask(actor_types=["B"], actee_types=["A"])},
        ),
    )
    grab = obs.action_masks["Grab"]
    assert lists(grab.actors) == [[[0], [1]], [], [[2], [3], [4]]]
    assert lists(grab.actees) == [[[2], [3], [4]], [], [[0], [1]]]
    # 2 * 3 pairs, none, 3 * 2 pairs.
    assert lists(grab.mask) == [
        [[True], [False], [True], [False], [True], [False]],
        [],
        [[True]] * 6,
    ]


def test_an_entity_may_select_itself_and_may_be_selected_twice():
    observation = seen(
        features={"A": [[1], [2]]},
        ids={"A": ["a", "b"]},
        actions={"Grab": SelectEntityActionMask()},
    )
    assert answer(observation, Grab=[1, 1])["Grab"] == SelectEntityAction(["a", "b"], ["b", "b"])


def test_selected_entities_arrive_by_id_in_the_order_of_the_actors():
    observation = seen(
        features={"A": [[1], [2]], "B": [[1, 1]]},
        ids={"A": ["a0", "a1"], "B": ["b0"]},
        actions={
            "Grab": SelectEntityActionMask(
                actor_ids=["b0", "a0"], actee_ids=["a1", "b0"], mask=[[True, False], [True, True]]
            )
        },
    )
    # Entity indices: a0 = 0, a1 = 1, b0 = 2.
    received = answer(observation, Grab=[1, 2])
    assert received["Grab"] == SelectEntityAction(["b0", "a0"], ["a1", "b0"])
    with pytest.raises(EntityEnvError, match="entity 2 cannot be selected"):
        answer(observation, Grab=[2, 2])


# Global actions.


def test_the_actor_of_a_global_action_is_the_index_after_the_last_entity():
    mode = {"Mode": GlobalCategoricalActionMask([False, True])}
    obs = batch(
        seen(features={"A": [[1], [2]], "B": [[1, 1]]}, actions=mode),
        seen(actions={"Mode": GlobalCategoricalActionMask()}),
        seen(features={"A": [[1]]}),
    )
    # 3 entities; none, but the action is there; one, but the action is not.
    assert lists(obs.action_masks["Mode"].actors) == [[[3]], [[0]], []]
    assert lists(obs.action_masks["Mode"].mask) == [[[False, True]], [[True, True]], []]


def test_a_global_action_arrives_with_its_index_and_label():
    observation = seen(actions={"Mode": GlobalCategoricalActionMask()})
    received = answer(observation, Mode=[1])
    assert received["Mode"] == GlobalCategoricalAction(1, "bold")
    assert type(received["Mode"].index) is int


# Ids.


class Token:
    """Hashable by identity only."""


TOKEN = Token()


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "b"],
        [0, 1],
        [("A", 0), ("A", 1)],
        [frozenset({1}), b"bytes"],
        [None, 2.5],
        [np.int64(4), np.str_("x")],
        [TOKEN, Token],
        np.array([7, 9]),
        ("t", "u"),
        range(5, 7),
    ],
)
def test_any_hashable_ids_come_back_as_they_were(ids):
    observation = seen(
        features={"A": [[1], [2]]},
        ids={"A": ids},
        actions={
            "Move": CategoricalActionMask(actor_ids=list(ids)),
            "Grab": SelectEntityActionMask(actor_ids=[ids[1]], actee_ids=[ids[0]]),
        },
    )
    received = answer(observation, Move=[2, 0], Grab=[0])
    assert received["Move"] == CategoricalAction(list(ids), np.array([2, 0]), LABELS)
    assert received["Move"].labels == ["stay", "left"]
    assert received["Grab"] == SelectEntityAction([ids[1]], [ids[0]])


@pytest.mark.parametrize(
    "ids", [{"a": 1, "b": 2}.keys(), {1: "a", 2: "b"}.values(), {"a", "b"}, frozenset("ab")]
)
def test_ids_may_be_a_set_or_a_part_of_a_dict_and_count_in_their_order(ids):
    observation = seen(
        features={"A": {"a": (1,), "b": (2,)}.values()},
        ids={"A": ids},
        actions={
            "Move": CategoricalActionMask(actor_ids=ids),
            "Grab": SelectEntityActionMask(actor_ids=ids, actee_ids=ids),
        },
    )
    first, second = ids
    received = answer(observation, Move=[2, 0], Grab=[0, 0])
    assert received["Move"] == CategoricalAction([first, second], np.array([2, 0]), LABELS)
    assert received["Grab"] == SelectEntityAction([first, second], [first, first])
    assert frame_of(observation).features["A"].tolist() == [[1.0], [2.0]]


def test_types_may_be_the_keys_of_a_dict():
    mask = CategoricalActionMask(actor_types={"B": 0, "A": 0}.keys())
    observation = seen(features={"A": [[1], [2]], "B": [[3, 4]]}, actions={"Move": mask})
    assert frame_of(observation).actions["Move"].actors.tolist() == [2, 0, 1]


@pytest.mark.parametrize("mask", [[True, False], [[True, False]], ((1, 0),), np.array([[1, 0]])])
def test_a_global_mask_may_have_a_row_for_its_only_actor(mask):
    observation = seen(actions={"Mode": GlobalCategoricalActionMask(mask)})
    assert frame_of(observation).actions["Mode"].mask.tolist() == [[True, False]]
    assert (
        batch(observation, observation).action_masks["Mode"].mask.as_array().tolist()
        == [[True, False]] * 2
    )


class Tensor:
    """Holds one number, as tensors of other libraries do."""

    def __init__(self, value):
        self.value = value

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value, dtype)


@pytest.mark.parametrize(
    "kind", [bool, int, float, np.bool_, np.int64, np.uint8, np.float32, np.array, Tensor]
)
def test_ends_and_rewards_may_be_any_kind_of_number(kind):
    for done, truncated in [(True, False), (True, True), (False, False)]:
        frame = frame_of(seen(done=kind(done), truncated=kind(truncated), reward=kind(True)))
        assert (frame.done, frame.truncated, frame.reward) == (done, truncated, 1.0)
        assert type(frame.done) is bool


def test_entities_without_ids_act_by_type_and_appear_as_none():
    observation = seen(
        features={"A": [[1], [2]], "B": [[1, 1]]},
        ids={"B": ["b"]},
        actions={
            "Move": CategoricalActionMask(actor_types=["A", "B"]),
            "Grab": SelectEntityActionMask(actor_types=["B"], actee_types=["A"]),
        },
    )
    received = answer(observation, Move=[0, 1, 2], Grab=[1])
    assert received["Move"] == CategoricalAction([None, None, "b"], np.array([0, 1, 2]), LABELS)
    assert received["Grab"] == SelectEntityAction(["b"], [None])


def test_the_actions_of_a_finished_episode_are_not_read():
    frame = frame_of(seen(done=True, actions={"Move": "nonsense"}))
    assert frame.actions == {}


def test_actions_of_different_kinds_are_not_equal():
    assert CategoricalAction([], np.zeros(0, np.int64), LABELS) != SelectEntityAction([], [])
    assert CategoricalAction(["a"], np.array([1]), LABELS) != CategoricalAction(
        ["a"], np.array([2]), LABELS
    )
    assert CategoricalAction(["a"], np.array([1]), LABELS) != CategoricalAction(
        ["b"], np.array([1]), LABELS
    )
    assert SelectEntityAction(["a"], ["b"]) != SelectEntityAction(["a"], ["c"])
    assert SelectEntityAction(["a"], ["b"], np.ones(1)) == SelectEntityAction(["a"], ["b"])
    assert GlobalCategoricalAction(1, "bold") != GlobalCategoricalAction(0, "calm")
