"""Hints for those who come from other libraries."""

from __future__ import annotations

import numpy as np
import pytest
from support.tiny_envs import Chain

from entity_env import (
    CategoricalActionSpace,
    Entity,
    Environment,
    ListEnv,
    MultiPlayerEnvironment,
    Observation,
    ObsSpace,
    ParallelEnv,
    VecObs,
    check_env,
)
from entity_env.errors import EntityEnvError, ObservationError, UnknownEnvironmentError
from entity_env.play import random_policy
from entity_env.seats.seat_rows import SeatRows
from entity_env.wrappers import TimeLimit


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("terminated termination terminate terminal is_terminal Terminated finished dones", "done"),
        ("truncation truncate is_truncated timeout time_limit Truncated", "truncated"),
        ("info infos metric", "metrics"),
        ("obs observation feature", "features"),
        ("mask masks action_mask action_masks legal_actions action", "actions"),
        ("rewards rew", "reward"),
        ("hidden visibility", "visible"),
        ("globals global_feature", "global_features"),
        ("entity", "entities"),
        ("id", "ids"),
    ],
)
def test_words_for_parts_of_an_observation(words, meant):
    for word in words.split():
        with pytest.raises(ObservationError) as caught:
            Observation(**{word: 1})
        assert caught.value.hint.startswith(f"did you mean {meant!r}?"), word


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: VecObs({}, {}, *[np.zeros(1)] * 4, terminated=1), "done"),
        (lambda: ListEnv(Chain, n_envs=2), "num_envs"),
        (lambda: ParallelEnv(Chain, 2, num_workers=2), "num_processes"),
        (lambda: TimeLimit(Chain(), max_episode_steps=2), "max_steps"),
        (lambda: CategoricalActionSpace(n=2), "index_to_label"),
    ],
)
def test_words_for_other_arguments(make, meant):
    with pytest.raises(EntityEnvError) as caught:
        make()
    assert caught.value.hint.startswith(f"did you mean {meant!r}?")


SPACE = ObsSpace(entities={"A": Entity(["x"])})
ACTIONS = {"Go": CategoricalActionSpace(["left", "right"])}


class Spaces:
    def obs_space(self):
        return SPACE

    def action_space(self):
        return ACTIONS

    def reset(self):
        return Observation(features={"A": [[1.0]]})


class WithStep(Spaces, Environment):
    def step(self, actions):
        return self.reset()


class WithObservationSpace(Chain):
    obs_space = Environment.obs_space
    observation_space = SPACE


class WithAgents(Spaces, MultiPlayerEnvironment):
    possible_agents = ("a", "b")

    def act(self, actions):
        return {}


class WithAttribute(Chain):
    action_space = ACTIONS


@pytest.mark.parametrize(
    ("kind", "what", "hint"),
    [
        (WithStep, "WithStep has no method 'act'", "rename 'step' to 'act'"),
        (
            WithObservationSpace,
            "WithObservationSpace has no method 'obs_space'",
            "rename 'observation_space' to 'obs_space'",
        ),
        (WithAgents, "WithAgents has no method 'seats'", "rename 'possible_agents' to 'seats'"),
        (WithAttribute, "action_space of WithAttribute is not a method", None),
    ],
)
@pytest.mark.parametrize("make", [lambda kind: kind(), lambda kind: ListEnv(kind, 2), check_env])
def test_methods_of_other_names(make, kind, what, hint):
    with pytest.raises(UnknownEnvironmentError) as caught:
        make(kind)
    assert (caught.value.what, caught.value.hint) == (what, hint)


def returning(reset, act):
    class Returning(Chain):
        def reset(self):
            return reset(super().reset())

        def act(self, actions):
            return act(super().act(actions))

    return Returning


def same(observation):
    return observation


@pytest.mark.parametrize(
    ("reset", "act", "hint"),
    [
        (lambda obs: (obs, {}), same, "return the Observation alone; numbers to log"),
        (same, lambda obs: (obs, 0.0, False, False, {}), "done=terminated or truncated"),
        (same, lambda obs: (obs, 0.0, False, {}), "done=terminated or truncated"),
        (same, lambda obs: None, "without a return statement"),
    ],
)
def test_results_of_other_forms(reset, act, hint):
    rows = ListEnv(returning(reset, act), 2)
    with pytest.raises(ObservationError) as caught:
        rows.act(random_policy(0)(rows.reset()))
    assert hint in caught.value.hint


def test_results_of_games_of_another_form():
    class Pair(Spaces, MultiPlayerEnvironment):
        def seats(self):
            return ["a"]

        def act(self, actions):
            return {}

        def reset(self):
            return {"a": super().reset()}, {"a": {}}

    with pytest.raises(EntityEnvError) as caught:
        SeatRows(Pair, 1).reset()
    assert "return {seat: Observation} alone" in caught.value.hint


def test_environments_of_gymnasium_are_wrapped():
    class Foreign:
        observation_space = action_space = None

        def step(self, action):
            return 1

    with pytest.raises(ObservationError, match="did not make an environment") as caught:
        ListEnv(Foreign, 1)
    assert "entity_env.interop.GymnasiumEnv" in caught.value.hint
