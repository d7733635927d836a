"""Mistakes in the observations of rows that users write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.random_obs import ACTION_SPACE, OBS_SPACE
from support.tiny_envs import Farm

from entity_env import (
    CategoricalActionMask,
    GlobalCategoricalActionMask,
    ListEnv,
    Observation,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityActionMask,
    VecCategoricalActionMask,
    VecEnv,
    VecObs,
    VecSelectEntityActionMask,
    batch_obs,
    errors,
)
from entity_env.errors import EntityEnvError
from entity_env.play import random_policy
from entity_env.wrappers import VecValidate


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

    def _checked_actions(self, actions, obs):
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
    (lambda obs: {"Mine": 1}, "ObservationError", "wrong class of the observation"),
    (without("features", "Rock"), "ObservationError", "wrong names of features"),
    (
        lambda obs: replace(obs, features=dict(reversed(obs.features.items()))),
        "ObservationError",
        "expected: ['Mine', 'Robot', 'Rock', 'Cannon']",
    ),
    (set_to(features=None), "ObservationError", "wrong features"),
    (change_features("Mine", [[[1, 2]]], 2), "ObservationError", "(1, any number, 2)"),
    (change_features("Mine", [[[1]], []], 1), "ObservationError", "(2, any number, 1)"),
    (
        lambda obs: replace(obs, features={**obs.features, "Mine": np.zeros((2, 1, 2))}),
        "ObservationError",
        "wrong features['Mine'] expected: RaggedBufferF32",
    ),
    (
        change_features("Robot", [[[5, 1, 6]], [[np.nan, 0, 0]]], 3),
        "FeatureError",
        "environment 1, step 1, act: entity type 'Robot', row 0: feature 'x' is not finite",
    ),
    (set_to(global_features=np.zeros((2, 2))), "ObservationError", "expected: float32"),
    (set_to(global_features=floats([1])), "ObservationError", "shape (2, 2)"),
    (set_to(global_features=floats([0, 0], [0, 3])), "FeatureError", "environment 1"),
    (set_to(visible={"Mines": bools([1], [])}), "ObservationError", "wrong names of visible"),
    (set_to(visible=None), "ObservationError", "wrong visible"),
    (set_to(visible={"Mine": bools([True], [])}), "ObservationError", "environment 0"),
    (set_to(visible={"Mine": indices([1, 1], [])}), "ObservationError", "RaggedBufferBool"),
    (
        set_to(visible={"Robot": bools([True], [False])}),
        "ObservationError",
        "environment 1, step 1, act: action 'Move': actor ('Robot', 0) is hidden",
    ),
    (without("action_masks", "Mode"), "ObservationError", "wrong names of action_masks"),
    (
        lambda obs: replace(obs, action_masks={**obs.action_masks, "Move": NOT_A_MASK}),
        "ObservationError",
        "wrong action_masks['Move']",
    ),
    (change_mask("Move", actors=indices([4], [0])), "ObservationError", "do not fit"),
    (change_mask("Move", actors=indices([-1], [0])), "ObservationError", "do not fit"),
    (change_mask("Move", actors=indices([2])), "ObservationError", "(2, any number, 1)"),
    (
        change_mask("Move", actors=indices([2, 2], [0]), mask=ragged(RaggedBufferBool, TWO_ONE, 3)),
        "MaskError",
        "names an actor twice",
    ),
    (change_mask("Move", mask=bools([1], [1])), "ObservationError", "(2, any number, 3)"),
    (change_mask("Move", actors=indices([2, 1], [0])), "MaskError", "environment 0"),
    (change_mask("Mode", actors=indices([], [0])), "ObservationError", "[1] received: [0]"),
    (
        change_mask("Mode", mask=ragged(RaggedBufferBool, [[], [[0, 0]]], 2)),
        "MaskError",
        "the mask leaves the player without a choice expected: at least one True among 2 choices, "
        "or leave the action out",
    ),
    (change_mask("Fire", actees=indices([2, 0, 4], [])), "ObservationError", "do not fit"),
    (change_mask("Fire", actees=indices([2, 0, -1], [])), "ObservationError", "negative"),
    (change_mask("Fire", actees=indices([], []), mask=None), "ObservationError", "expected: []"),
    (change_mask("Fire", mask=bools([1, 1], [])), "ObservationError", "do not fit"),
    (change_mask("Fire", mask=bools([0, 0, 0], [])), "ObservationError", "expected: []"),
    (change_mask("Fire", mask=indices([1, 1, 1], [])), "ObservationError", "RaggedBufferBool"),
    (set_to(reward=np.zeros(2)), "ObservationError", "wrong reward expected: float32"),
    (set_to(reward=floats(0)), "ObservationError", "shape (2,)"),
    (set_to(reward=[0.0, 0.0]), "ObservationError", "received: [0.0, 0.0]"),
    (
        set_to(reward=floats(0, np.inf)),
        "ObservationError",
        "environment 1, step 1, act: wrong reward",
    ),
    (set_to(done=np.array([0, 1])), "ObservationError", "wrong done"),
    (set_to(done=np.array([True, False])), "ObservationError", "True, as truncated is True"),
    (set_to(truncated=np.zeros(3, bool)), "ObservationError", "wrong truncated"),
    (set_to(rows=np.array([0, 0])), "ObservationError", "wrong rows expected: [0]"),
    (set_to(rows=np.array([1, 0])), "ObservationError", "wrong rows expected: [0, 1]"),
    (set_to(rows=np.array([0, 2])), "ObservationError", "wrong rows expected: [0]"),
    (set_to(metrics=None), "ObservationError", "received: None"),
    (without("metrics", "episodic_length"), "ObservationError", "received: ['episodic_reward']"),
    (change_metric("score", 1.0), "ObservationError", "wrong metrics['score']"),
    (change_metric("score", 1, 2), "ObservationError", "expected: float64"),
    (change_metric("score", 1.0, 2.0), "ObservationError", "environment 0, step 1, act: wrong"),
    (change_metric("score", np.nan, np.inf), "ObservationError", "received: inf"),
    (change_metric("episodic_reward", np.nan, np.nan), "ObservationError", "environment 1"),
    (
        set_to(done=np.zeros(2, bool), truncated=np.zeros(2, bool), final=None),
        "ObservationError",
        "wrong metrics expected: False",
    ),
    (set_to(final=None), "ObservationError", "wrong final"),
    (set_to(truncated=np.zeros(2, bool)), "ObservationError", "wrong final"),
    (
        lambda obs: replace(obs, final=change_features("Robot", [[], []], 3)(obs.final)),
        "ObservationError",
        "wrong final features['Robot']",
    ),
    (
        lambda obs: replace(obs, final=set_to(global_features=floats([0, 9]))(obs.final)),
        "FeatureError",
        "final environment 1",
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
        (set_to(reward=floats(0, 2)), "environment 1, step 0, reset: wrong reward"),
        (
            lambda obs: replace(valid_obs(), reward=floats(0, 0)),
            "environment 1, step 0, reset: wrong done",
        ),
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
    native = pytest.importorskip("ragged_envs.minesweeper")
    return native.MineSweeperRows(7, seed=2, max_steps=5, orbital_cannon=True)


@pytest.mark.parametrize("make", [lambda: ListEnv(Farm, 5, seed=1), native_rows])
def test_sound_rows_pass(make):
    env, policy, ends = VecValidate(make()), random_policy(0), 0
    obs = env.reset()
    for _ in range(40):
        obs = env.act(policy(obs))
        ends += int(obs.truncated.sum())
    assert ends > 3
    env.set_state(env.get_state())
