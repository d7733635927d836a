"""Mistakes in actions that are written by hand, and in rows of users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.random_obs import ACTION_SPACE, OBS_SPACE, random_observation
from support.tiny_envs import Chain, Farm, Replay

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    ListEnv,
    Observation,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityAction,
    SelectEntityActionMask,
    VecCategoricalActionMask,
    VecEnv,
    VecObs,
    VecSelectEntityActionMask,
    batch_obs,
    errors,
)
from entity_env.batching.frame_reader import FrameReader
from entity_env.errors import EntityEnvError
from entity_env.kinds.table import typed_actions
from entity_env.player.episodes import random_policy
from entity_env.wrappers import Validate, VecValidate

# ----------------------------------------------------------------------- one environment

LABELS = ["left", "right", "stay"]


def observation(**changes):
    """Mines m and n, robots r and s; r may go left or stay, s right; s may fire at m only."""
    parts = {
        "features": {"Mine": [[1, 2], [3, 4]], "Robot": [[5, 1, 6], [7, 2, 8]]},
        "ids": {"Mine": ["m", "n"], "Robot": ["r", "s"]},
        "global_features": [0.5, 2],
        "actions": {
            "Move": CategoricalActionMask(actor_types=["Robot"], mask=[[1, 0, 1], [0, 1, 0]]),
            "Fire": SelectEntityActionMask(
                actor_ids=["s", "r"], actee_ids=["m", "n"], mask=[[1, 0], [1, 1]]
            ),
            "Mode": GlobalCategoricalActionMask([False, True]),
        },
    }
    return Observation(**{**parts, **changes})


def actions(**changes):
    """What is right; ``changes`` replace some of it, None leaves it out."""
    valid = {
        "Move": CategoricalAction(["r", "s"], np.array([2, 1]), LABELS),
        "Fire": SelectEntityAction(["s", "r"], ["m", "n"]),
        "Mode": GlobalCategoricalAction(1, "bold"),
    }
    return {name: action for name, action in {**valid, **changes}.items() if action is not None}


def validated(*observations):
    env = Validate(Replay(list(observations), OBS_SPACE, ACTION_SPACE))
    env.reset()
    return env


def move(actors, indices):
    return {"Move": CategoricalAction(actors, indices, LABELS)}


def fire(actors, actees):
    return {"Fire": SelectEntityAction(actors, actees)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        move(("r", "s"), [2, 1]),
        move(["r", "s"], np.array([0, 1], np.uint8)),
        fire(["s", "r"], ("m", "m")),
        {"Mode": GlobalCategoricalAction(np.int64(1), "bold")},
    ],
)
def test_right_actions_pass(changes):
    env = validated(observation(), observation())
    env.act(actions(**changes))
    assert len(env.env.received) == 1


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"Mvoe": 1}, "UnknownActionError", "did you mean 'Move'?"),
        ({"Move": None}, "UnknownActionError", "action 'Move' is missing"),
        ({"Fire": None}, "UnknownActionError", "action 'Fire' is missing"),
        ({"Mode": None}, "UnknownActionError", "action 'Mode' is missing"),
        ({"Move": [2, 1]}, "ActionShapeError", "expected: CategoricalAction"),
        ({"Fire": actions()["Move"]}, "ActionShapeError", "expected: SelectEntityAction"),
        ({"Mode": 1}, "ActionShapeError", "expected: GlobalCategoricalAction"),
        (move(["s", "r"], [1, 2]), "ActorError", "['r', 's'], in this order"),
        (move(["r"], [2]), "ActorError", "received: ['r']"),
        (move(["r", "s", "m"], [2, 1, 0]), "ActorError", "wrong actors"),
        (move(None, [2, 1]), "ActorError", "received: None"),
        (move(["r", "s"], [2]), "ActionShapeError", "shape (2,)"),
        (move(["r", "s"], [[2], [1]]), "ActionShapeError", "shape (2,)"),
        (move(["r", "s"], [[2], [1, 0]]), "ActionShapeError", "shape (2,)"),
        (move(["r", "s"], [2.0, 1.0]), "ActionShapeError", "whole numbers"),
        (move(["r", "s"], [True, False]), "ActionShapeError", "whole numbers"),
        (move(["r", "s"], None), "ActionShapeError", "received: None"),
        (move(["r", "s"], [3, 1]), "ActionIndexError", "from 0 to 2"),
        (move(["r", "s"], [-1, 1]), "ActionIndexError", "choice -1 of actor 'r'"),
        (move(["r", "s"], [1, 1]), "MaskedActionError", "one of 0 (left), 2 (stay)"),
        (fire(["s", "r"], ["m"]), "ActionShapeError", "2 ids"),
        (fire(["s", "r"], None), "ActionShapeError", "2 ids"),
        (fire(["s", "r"], ["n", "n"]), "MaskedActionError", "actor 's' cannot select 'n'"),
        (fire(["s", "r"], ["m", "r"]), "ActionIndexError", "one of ['m', 'n']"),
        ({"Mode": GlobalCategoricalAction(0, "calm")}, "MaskedActionError", "1 (bold)"),
        ({"Mode": GlobalCategoricalAction(2, "bold")}, "ActionIndexError", "from 0 to 1"),
        ({"Mode": GlobalCategoricalAction("bold", "bold")}, "ActionShapeError", "'bold'"),
    ],
)
def test_wrong_actions_are_named(changes, error, words):
    env = validated(observation(), observation())
    with pytest.raises(EntityEnvError) as caught:
        env.act(actions(**changes))
    assert type(caught.value).__name__ == error
    assert words in " ".join(str(caught.value).split())
    assert env.env.received == []
    env.act(actions())  # nothing has happened


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (move([None, None], [2, 5]), "choice 5 of entity 1 of type 'Robot' does not exist"),
        (move([None, None], [2, 0]), "choice 0 of entity 1 of type 'Robot' is masked"),
        (fire([None, None], ["n", "n"]), "entity 1 of type 'Robot' cannot select 'n'"),
        ({"Mode": GlobalCategoricalAction(0, "calm")}, "choice 0 of the player is masked"),
    ],
)
def test_actors_without_ids_are_called_by_type_and_row(changes, words):
    shown = observation(
        ids={"Mine": ["m", "n"]},
        actions={
            "Move": CategoricalActionMask(actor_types=["Robot"], mask=[[1, 0, 1], [0, 1, 0]]),
            "Fire": SelectEntityActionMask(
                actor_types=["Robot"], actee_ids=["m", "n"], mask=[[1, 1], [1, 0]]
            ),
            "Mode": GlobalCategoricalActionMask([False, True]),
        },
    )
    right = {**move([None, None], [2, 1]), **fire([None, None], ["n", "m"])}
    env = validated(shown, shown)
    with pytest.raises(EntityEnvError) as caught:
        env.act({**right, "Mode": GlobalCategoricalAction(1, "bold"), **changes})
    assert words in str(caught.value)


def test_actions_that_nobody_can_take_have_no_actors():
    env = validated(observation(actions={}), observation())
    with pytest.raises(errors.ActorError):
        env.act(actions(Fire=SelectEntityAction([], []), Mode=None))
    with pytest.raises(errors.UnknownActionError, match="cannot be taken"):
        env.act({**move([], []), **fire([], []), "Mode": GlobalCategoricalAction(1, "bold")})
    env.act({**move([], np.zeros(0, int)), **fire([], [])})


def test_wrong_observations_are_named():
    with pytest.raises(errors.FeatureShapeError, match="'Mine'"):
        validated(observation(features={"Mine": [[1]]}))
    with pytest.raises(errors.ObservationError, match="reset returned an observation that is done"):
        validated(*[observation(done=True)] * 100)
    with pytest.raises(errors.ObservationError, match="is not an Observation"):
        validated({"Mine": [[1, 2]]})
    env = validated(observation(), observation(reward=np.nan))
    with pytest.raises(errors.RewardError):
        env.act(actions())
    with pytest.raises(errors.ResetNeededError):
        env.act(actions())


def test_an_episode_has_to_run():
    env = Validate(Chain(1))
    go = {"Go": CategoricalAction(["w"], np.array([0]), ["left", "right"])}
    with pytest.raises(errors.ResetNeededError, match="before reset"):
        env.act(go)
    env.reset()
    assert env.act(go).done
    with pytest.raises(errors.ResetNeededError, match="after the end"):
        env.act(go)
    env.reset()
    with pytest.raises(errors.ActionShapeError):
        env.act([0])


def test_what_rows_hand_out_is_valid():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shown = random_observation(rng)
        env = validated(shown, shown)
        frame = FrameReader(OBS_SPACE, ACTION_SPACE).read(shown)
        chosen = random_policy(seed)(batch_obs([shown], OBS_SPACE, ACTION_SPACE))
        flat = {name: buffer.as_array()[:, 0] for name, buffer in chosen.items()}
        env.act(typed_actions(frame, flat, ACTION_SPACE))


# ------------------------------------------------------------------------------------ rows


def valid_obs():
    """Two rows: two mines, a robot, a cannon; and a robot alone, whose episode was cut off."""
    frames = [
        Observation(
            features={"Mine": [[1, 2], [3, 4]], "Robot": [[5, 1, 6]], "Cannon": [[0]]},
            global_features=[0, 0],
            actions={
                "Move": CategoricalActionMask(actor_types=["Robot"], mask=[[1, 0, 1]]),
                "Fire": SelectEntityActionMask(
                    actor_types=["Cannon"], actee_types=["Robot", "Mine"], mask=[[0, 1, 1]]
                ),
            },
            visible={"Mine": [True, True], "Cannon": [True]},
        ),
        Observation(
            features={"Robot": [[7, 3, 8]]},
            global_features=[0.5, 2],
            actions={
                "Move": CategoricalActionMask(actor_types=["Robot"]),
                "Mode": GlobalCategoricalActionMask(),
            },
        ),
    ]
    obs = batch_obs(frames, OBS_SPACE, ACTION_SPACE)
    nan = np.nan
    return replace(
        obs,
        visible={"Mine": ragged(RaggedBufferBool, [[[True], [True]], []])},
        reward=np.array([1, 2], np.float32),
        done=np.array([False, True]),
        truncated=np.array([False, True]),
        metrics={
            "episodic_length": np.array([nan, 9.0]),
            "episodic_reward": np.array([nan, 4.0]),
            "score": np.array([nan, nan]),
        },
        final=batch_obs([frames[1]], OBS_SPACE, ACTION_SPACE),
    )


def ragged(kind, frames, width=1):
    dtype = {RaggedBufferF32: np.float32, RaggedBufferI64: np.int64}.get(kind, np.bool_)
    flat = [row for frame in frames for row in frame]
    values = np.array(flat, dtype).reshape(len(flat), width)
    return kind.from_flattened(values, np.array([len(frame) for frame in frames], np.int64))


class Given(VecEnv):
    """Shows ``first`` after a reset, then ``second``."""

    def __init__(self, first, second):
        self.shown = [first, second]

    def obs_space(self):
        return OBS_SPACE

    def action_space(self):
        return ACTION_SPACE

    def __len__(self):
        return 2

    def _check(self, actions, obs):
        return actions

    def _reset(self, seed):
        return self.shown[0]

    def _act(self, chosen):
        return self.shown[1]

    def _get_state(self):
        return []

    def _set_state(self, state):
        return self.shown[0]

    def _render(self):
        return []

    def _close(self):
        pass


def started(obs):
    """``obs`` as it could follow a reset."""
    nothing = np.zeros(2, np.bool_)
    reward = np.zeros(2, np.float32)
    return replace(obs, reward=reward, done=nothing, truncated=nothing, metrics={}, final=None)


def change_features(name, frames, width):
    return lambda obs: replace(
        obs, features={**obs.features, name: ragged(RaggedBufferF32, frames, width)}
    )


def change_mask(name, **parts):
    def change(obs):
        mask = replace(obs.action_masks[name], **parts)
        return replace(obs, action_masks={**obs.action_masks, name: mask})

    return change


def change_metric(name, *column):
    values = np.array(column)
    return lambda obs: replace(obs, metrics={**obs.metrics, name: values})


def set_to(**parts):
    return lambda obs: replace(obs, **parts)


def without(part, name):
    return lambda obs: replace(
        obs, **{part: {n: v for n, v in getattr(obs, part).items() if n != name}}
    )


def indices(*frames):
    return ragged(RaggedBufferI64, [[[i] for i in frame] for frame in frames])


def bools(*frames):
    return ragged(RaggedBufferBool, [[[i] for i in frame] for frame in frames])


def floats(*values):
    return np.array(values, np.float32)


TWO_ONE = [[[1, 1, 1], [1, 1, 1]], [[1, 1, 1]]]
NOT_A_MASK = VecSelectEntityActionMask(indices([], []), indices([], []))
MISTAKES = [
    (lambda obs: {"Mine": 1}, "ObservationError", "did not return a VecObs"),
    (without("features", "Rock"), "ObservationError", "features has wrong names"),
    (
        lambda obs: replace(obs, features=dict(reversed(obs.features.items()))),
        "ObservationError",
        "or names in the wrong order",
    ),
    (set_to(features=None), "ObservationError", "received: None"),
    (change_features("Mine", [[[1, 2]]], 2), "ObservationError", "(1 row, any number, 2)"),
    (change_features("Mine", [[[1]], []], 1), "ObservationError", "(2 rows, any number, 1)"),
    (
        lambda obs: replace(obs, features={**obs.features, "Mine": np.zeros((2, 1, 2))}),
        "ObservationError",
        "is not a RaggedBufferF32",
    ),
    (
        change_features("Robot", [[[5, 1, 6]], [[np.nan, 0, 0]]], 3),
        "FeatureValueError",
        "environment 1, step 1, act: entity type 'Robot', row 0: feature 'x' is not finite",
    ),
    (
        change_features("Robot", [[[5, 4, 6]], [[0, 0, 0]]], 3),
        "FeatureValueError",
        "environment 0, step 1, act: entity type 'Robot'",
    ),
    (set_to(global_features=np.zeros((2, 2))), "ObservationError", "dtype float32"),
    (set_to(global_features=floats([1])), "ObservationError", "shape (2, 2)"),
    (set_to(global_features=floats([0, 0], [0, 3])), "FeatureValueError", "environment 1"),
    (set_to(visible={"Mines": bools([1], [])}), "UnknownEntityTypeError", "'Mines'"),
    (set_to(visible=None), "VisibilityError", "not a mapping"),
    (set_to(visible={"Mine": bools([True], [])}), "MaskShapeError", "environment 0"),
    (set_to(visible={"Mine": indices([1, 1], [])}), "ObservationError", "not a RaggedBufferBool"),
    (
        set_to(visible={"Robot": bools([True], [False])}),
        "VisibilityError",
        "environment 1, step 1, act: action 'Move': actor ('Robot', 0) is hidden",
    ),
    (
        set_to(visible={"Mine": bools([True, False], [])}),
        "VisibilityError",
        "actee ('Mine', 1) is hidden",
    ),
    (without("action_masks", "Mode"), "ObservationError", "action_masks has wrong names"),
    (
        lambda obs: replace(obs, action_masks={**obs.action_masks, "Move": NOT_A_MASK}),
        "ActionMaskError",
        "VecCategoricalActionMask",
    ),
    (change_mask("Move", actors=indices([4], [0])), "ActorError", "an index from 0 to 3"),
    (change_mask("Move", actors=indices([-1], [0])), "ActorError", "received: -1"),
    (change_mask("Move", actors=indices([2])), "ObservationError", "(2 rows, any number, 1)"),
    (
        change_mask("Move", actors=indices([2, 2], [0]), mask=ragged(RaggedBufferBool, TWO_ONE, 3)),
        "ActorError",
        "names an actor twice",
    ),
    (change_mask("Move", mask=bools([1], [1])), "ObservationError", "(2 rows, any number, 3)"),
    (change_mask("Move", actors=indices([2, 1], [0])), "MaskShapeError", "expected: 2"),
    (
        change_mask("Move", mask=ragged(RaggedBufferBool, [[[1, 0, 0]], [[0, 0, 0]]], 3)),
        "EmptyMaskError",
        "environment 1, step 1, act: action 'Move'",
    ),
    (change_mask("Mode", actors=indices([], [0])), "ActorError", "expected: [1] received: [0]"),
    (change_mask("Mode", actors=indices([], [2])), "ActorError", "received: [2]"),
    (
        change_mask("Mode", mask=ragged(RaggedBufferBool, [[], [[0, 0]]], 2)),
        "EmptyMaskError",
        "the mask leaves the player without a choice expected: at least one True among 2 choices, "
        "or leave the action out",
    ),
    (change_mask("Fire", actees=indices([2, 0, 0], [])), "ActorError", "names an actee twice"),
    (change_mask("Fire", actees=indices([2, 0, 4], [])), "ActorError", "from 0 to 3"),
    (change_mask("Fire", actees=indices([], []), mask=None), "ActorError", "nothing to select"),
    (change_mask("Fire", mask=bools([1, 1], [])), "MaskShapeError", "received: 2"),
    (change_mask("Fire", mask=bools([0, 0, 0], [])), "ActorError", "nothing to select"),
    (change_mask("Fire", mask=indices([1, 1, 1], [])), "ObservationError", "RaggedBufferBool"),
    (set_to(reward=np.zeros(2)), "ObservationError", "reward"),
    (set_to(reward=floats(0)), "ObservationError", "shape (2,)"),
    (set_to(reward=[0.0, 0.0]), "ObservationError", "received: [0.0, 0.0]"),
    (set_to(reward=floats(0, np.inf)), "RewardError", "environment 1"),
    (set_to(done=np.array([0, 1])), "ObservationError", "done"),
    (set_to(done=np.array([True, False])), "ObservationError", "truncated but not done"),
    (set_to(truncated=np.zeros(3, bool)), "ObservationError", "truncated"),
    (set_to(metrics=None), "MetricError", "received: None"),
    (without("metrics", "episodic_length"), "MetricError", "'episodic_length' is missing"),
    (change_metric("score", 1.0), "ObservationError", "metric 'score'"),
    (change_metric("score", 1, 2), "ObservationError", "dtype float64"),
    (change_metric("score", 1.0, 2.0), "MetricError", "environment 0, step 1, act: metric"),
    (change_metric("score", np.nan, np.inf), "MetricError", "is inf"),
    (change_metric("episodic_reward", np.nan, np.nan), "MetricError", "environment 1"),
    (
        set_to(done=np.zeros(2, bool), truncated=np.zeros(2, bool), final=None),
        "MetricError",
        "no episode ended",
    ),
    (set_to(final=None), "ObservationError", "final does not match truncated"),
    (set_to(truncated=np.zeros(2, bool)), "ObservationError", "final does not match truncated"),
    (
        lambda obs: replace(obs, final=change_features("Robot", [[], []], 3)(obs.final)),
        "ObservationError",
        "final, step 1, act: entity type 'Robot'",
    ),
    (
        lambda obs: replace(obs, final=set_to(global_features=floats([0, 9]))(obs.final)),
        "FeatureValueError",
        "final, environment 1",
    ),
]


@pytest.mark.parametrize(("change", "error", "words"), MISTAKES)
def test_mistakes_of_rows_are_named(change, error, words):
    good = valid_obs()
    env = VecValidate(Given(started(good), change(good)))
    env.reset()
    with pytest.raises(EntityEnvError) as caught:
        env.act({})
    assert type(caught.value).__name__ == error
    assert words in " ".join(str(caught.value).split())


def test_what_the_mistakes_are_made_from_is_valid():
    good = valid_obs()
    env = VecValidate(Given(started(good), good))
    assert isinstance(env.reset(), VecObs)
    assert env.act({}) is good
    assert isinstance(good.action_masks["Move"], VecCategoricalActionMask)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (set_to(reward=floats(0, 2)), "environment 1, reset: reward is not 0.0"),
        (lambda obs: replace(valid_obs(), reward=floats(0, 0)), "environment 1, reset: done"),
    ],
)
def test_a_start_has_no_rewards_and_no_ends(first, words):
    env = VecValidate(Given(first(started(valid_obs())), None))
    with pytest.raises(errors.ObservationError) as caught:
        env.reset()
    assert words in str(caught.value)
    with pytest.raises(errors.ObservationError):
        env.set_state([])


def test_an_error_names_the_step_of_the_game():
    bad = replace(valid_obs(), final=None)
    inner = Given(started(valid_obs()), valid_obs())
    env = VecValidate(inner)
    for _ in range(2):
        env.reset()
        env.act({})
    inner.shown[1] = bad
    with pytest.raises(errors.ObservationError, match="step 2, act"):
        env.act({})


def native_rows():
    native = pytest.importorskip("ragged_envs.minesweeper_native")
    return native.MineSweeperVec(7, seed=2, max_steps=5, orbital_cannon=True)


@pytest.mark.parametrize("make", [lambda: ListEnv(Farm, 5, seed=1), native_rows])
def test_sound_rows_pass(make):
    env, policy, ends = VecValidate(make()), random_policy(0), 0
    obs = env.reset()
    for _ in range(40):
        obs = env.act(policy(obs))
        ends += int(obs.truncated.sum())
    assert ends > 3
    env.set_state(env.get_state())
