"""``check_env`` has nothing to say of sound environments and finds each way of being broken."""

from __future__ import annotations

import dataclasses
import random
import threading
from typing import ClassVar

import numpy as np
import pytest
from support.mines import NEEDS_NUMBA, minesweeper
from support.tiny_envs import BrokenAtBirth, Chain, Farm

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    check_env,
    errors,
)
from entity_env.check import main


class Walk(Environment):
    """A sound environment: two walkers, some rng, arrays of its own, a state, a picture."""

    def obs_space(self):
        return ObsSpace(entities={"Walker": Entity(["x"])}, global_features=["time"])

    def action_space(self):
        return {"Go": CategoricalActionSpace(["left", "right"])}

    def reset(self):
        self.time = 0
        self.x = self.rng.normal(size=(2, 1))
        self.mask = np.ones((2, 2), np.bool_)
        self.glob = [0.0]
        self.metrics = {"far": 0.0}
        return self.observe()

    def act(self, actions):
        self.time += 1
        self.x = self.x + (2.0 * actions["Go"].indices[:, None] - 1)
        self.mask = np.stack([self.x[:, 0] > -3, self.x[:, 0] < 3], axis=1)
        self.glob = [float(self.time)]
        self.metrics = {"far": float(np.abs(self.x).max())}
        return self.observe()

    def observe(self):
        return Observation(
            features={"Walker": self.x.copy()},
            ids={"Walker": ["a", "b"]},
            global_features=list(self.glob),
            actions={"Go": CategoricalActionMask(actor_types=["Walker"], mask=self.mask.copy())},
            metrics=dict(self.metrics),
            done=self.time == 7,
            reward=float(self.time == 7),
        )

    def get_state(self):
        return {"time": self.time, "x": self.x.tolist()}

    def set_state(self, state):
        self.time = state["time"]
        self.x = np.array(state["x"])
        self.mask = np.stack([self.x[:, 0] > -3, self.x[:, 0] < 3], axis=1)
        self.glob = [float(self.time)]
        self.metrics = {}
        return self.observe()

    def render(self, **kwargs):
        return np.zeros((2, 3, 3), np.uint8)

    def render_text(self):
        return "walk"


class GlobalRandomness(Walk):
    def reset(self):
        observation = super().reset()
        observation.features["Walker"] += random.random()
        return observation


class LeftOver(Walk):
    """Counts its episodes, and shows it."""

    episodes = 0

    def reset(self):
        super().reset()
        self.episodes += 1
        self.glob = [float(self.episodes)]
        return self.observe()


class SharedByAll(Walk):
    """The first one made differs from the second."""

    made = 0

    def __init__(self):
        SharedByAll.made += 1
        self.number = SharedByAll.made

    def observe(self):
        observation = super().observe()
        observation.global_features[0] += self.number
        return observation


class SharedBuffers(Walk):
    """Writes a part of each observation into memory of all environments."""

    part = "features"
    numbers, flags = np.zeros((2, 1)), np.ones((2, 2), np.bool_)
    ids: ClassVar = ["a", "b"]
    noted: ClassVar = {}

    def observe(self):
        observation = super().observe()
        self.numbers[:], self.flags[:] = (
            self.x,
            self.x > -0.6,
        )  # at the start, True and False; True and True
        self.flags[:, 1] = True
        self.ids[:] = ["a", "b"] if self.x[0] < self.x[1] else ["b", "a"]
        self.noted["far"] = float(self.x[0, 0])
        if self.part == "features":
            observation.features = {"Walker": self.numbers}
        if self.part == "mask":
            observation.actions["Go"].mask = self.flags
        if self.part == "ids":
            observation.ids = {"Walker": self.ids}
        if self.part == "metrics":
            observation.metrics = self.noted
        return observation


class RandomReward(Walk):
    def act(self, actions):
        observation = super().act(actions)
        observation.reward = random.random()
        return observation


class GrowingSpace(Walk):
    time = 0

    def obs_space(self):
        return ObsSpace(
            entities={"Walker": Entity(["x"])},
            global_features=["time" if self.time == 0 else "later"],
        )


class Aliased(Walk):
    """Shows the array that it computes with."""

    def observe(self):
        observation = super().observe()
        observation.features["Walker"] = self.x
        return observation


class SameIds(Walk):
    names = ("a", "b")

    def reset(self):
        self.ids = list(self.names)
        return super().reset()

    def observe(self):
        return dataclasses.replace(super().observe(), ids={"Walker": self.ids})


class ReversesIds(SameIds):
    def act(self, actions):
        self.ids.reverse()
        return super().act(actions)


class ReusedBuffer(Walk):
    """Fills one array anew for each observation."""

    buffer = None

    def observe(self):
        if self.buffer is None:
            self.buffer = np.zeros((2, 1))
        self.buffer[:] = self.x
        observation = super().observe()
        observation.features["Walker"] = self.buffer
        return observation


class ChangesItsMask(Walk):
    def observe(self):
        observation = super().observe()
        observation.actions["Go"].mask[...] = True
        self.shown = observation.actions["Go"].mask
        return observation

    def act(self, actions):
        self.shown[0, 0] = False
        return super().act(actions)


class ForgetsTheTime(Walk):
    def set_state(self, state):
        return super().set_state({**state, "time": 0})


class ForgetsHiddenThings(Walk):
    """Its speed is part of no observation, nor of its state."""

    def reset(self):
        self.speed = 1.0
        return super().reset()

    def act(self, actions):
        self.speed *= 1.5
        self.x = self.x + self.speed
        return super().act(actions)

    def set_state(self, state):
        self.speed = 1.0
        return super().set_state(state)


class StateOfArrays(Walk):
    def get_state(self):
        return {"time": self.time, "x": self.x}


class LiveState(Walk):
    def reset(self):
        self.log = {"time": 0}
        return super().reset()

    def act(self, actions):
        observation = super().act(actions)
        self.log["time"] = self.time
        return observation

    def get_state(self):
        self.log["x"] = self.x.tolist()
        return self.log

    def set_state(self, state):
        self.log = dict(state)
        return super().set_state(state)


class NeedsResetBeforeState(Walk):
    def set_state(self, state):
        self.x[:] = state["x"]
        return super().set_state(state)


class GrayPicture(Walk):
    def render(self, **kwargs):
        return np.zeros((2, 3), np.uint8)


class DrawsByLot(Walk):
    def act(self, actions):
        observation = super().act(actions)
        self.x = self.x + self.rng.normal(size=(2, 1))
        return observation

    def render_text(self):
        return "*" * int(self.rng.integers(9))


class NoText(Walk):
    def render_text(self):
        return None


class ClosesOnce(Walk):
    def __init__(self):
        self.file = [1]

    def close(self):
        self.file.pop()


class NaNLater(Walk):
    def observe(self):
        observation = super().observe()
        if self.time == 5:
            observation.features["Walker"][1, 0] = np.nan
        return observation


class EmptyMask(Walk):
    def observe(self):
        observation = super().observe()
        if self.time == 2:
            observation.actions["Go"].mask[1] = False
        return observation


class RefusesTheSecondChoice(Walk):
    def act(self, actions):
        if actions["Go"].indices.any():
            raise KeyError("right")
        return super().act(actions)


def test_an_environment_itself_can_be_checked_and_is_left_alone():
    env = Walk()
    env.seed(3)
    env.reset()
    env.act({"Go": CategoricalAction(["a", "b"], np.array([1, 1]), ["left", "right"])})
    before = env.get_state(), env.rng.bit_generator.state
    check_env(env)
    assert (env.get_state(), env.rng.bit_generator.state) == before
    with pytest.raises(errors.ObservationError):
        check_env(GlobalRandomness())


def test_an_environment_that_cannot_be_copied_is_asked_for_as_a_class():
    class WithLock(Walk):
        def __init__(self):
            self.lock = threading.Lock()

    check_env(WithLock)
    with pytest.raises(errors.EnvironmentFailedError, match=r"check_env\(MyEnv\)"):
        check_env(WithLock())


BROKEN = [
    (GlobalRandomness, errors.ObservationError, ("features.Walker differs", "self.rng", "step 0")),
    (RandomReward, errors.ObservationError, ("reward differs", "step 1")),
    (LeftOver, errors.ObservationError, ("reset with the same seed", "global_features")),
    (SharedByAll, errors.ObservationError, ("made again with the same seed", "global_features")),
    (GrowingSpace, errors.SpaceError, ("obs_space", "same at every call", "later")),
    (Aliased, errors.ObservationError, ("memory that it has returned", "features.Walker")),
    (SameIds, errors.ObservationError, ("memory that it has returned", "copies")),
    (ReversesIds, errors.ObservationError, ("changes ids", "has returned", "copies")),
    (ReusedBuffer, errors.ObservationError, ("changes features.Walker", "has returned", "copies")),
    (ChangesItsMask, errors.ObservationError, ("changes masks.Go.mask", "copies")),
    (ForgetsTheTime, errors.StateError, ("global_features differs", "saved after step 1")),
    (ForgetsHiddenThings, errors.StateError, ("continues differently", "features.Walker")),
    (StateOfArrays, errors.StateError, ("not JSON", "ndarray")),
    (LiveState, errors.StateError, ("changes when the game continues", "copies")),
    (NeedsResetBeforeState, errors.EnvironmentFailedError, ("set_state", "AttributeError")),
    (GrayPicture, errors.ObservationError, ("render", "(H, W, 3)", "uint8 (2, 3)")),
    (DrawsByLot, errors.ObservationError, ("drawn now and then", "features.Walker")),
    (NoText, errors.ObservationError, ("render_text", "a string", "None")),
    (ClosesOnce, errors.EnvironmentFailedError, ("a second close", "IndexError")),
    (NaNLater, errors.FeatureError, ("'Walker', row 1", "step 5")),
    (EmptyMask, errors.MaskError, ("'Go'", "step 2")),
    (RefusesTheSecondChoice, errors.EnvironmentFailedError, ("KeyError", "in act")),
    (BrokenAtBirth, errors.EnvironmentFailedError, ("no parts left",)),
    (dict, errors.ObservationError, ("create_env",)),
]


@pytest.mark.parametrize(
    "create_env",
    [
        Walk,
        Farm,
        lambda: Chain(2, truncates=True),
        pytest.param(
            lambda: minesweeper(4, 4, 3, 2, orbital_cannon=2, cooldown_period=1, max_steps=9),
            marks=NEEDS_NUMBA,
        ),
    ],
)
def test_a_sound_environment_passes(create_env):
    checked = check_env(create_env)
    assert checked.episodes >= 3
    assert checked.steps >= 200
    assert checked.notes == ()


@pytest.mark.parametrize(
    ("create_env", "error", "words"), BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_each_way_of_being_broken_is_found(create_env, error, words):
    with pytest.raises(errors.EntityEnvError) as caught:
        check_env(create_env)
    assert type(caught.value) is error, str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("part", ["features", "mask", "ids", "metrics"])
def test_environments_that_write_into_each_other_are_found(part):
    with pytest.raises(errors.ObservationError, match=part) as caught:
        check_env(type("Sharing", (SharedBuffers,), {"part": part}))
    assert "of an observation that another environment has returned" in caught.value.what
    assert "copies" in caught.value.hint


def test_what_nobody_can_change_may_be_shared():
    mask = np.ones((2, 2), np.bool_)
    mask.setflags(write=False)

    class Constant(Walk):
        def observe(self):
            observation = super().observe()
            observation.actions["Go"] = CategoricalActionMask(actor_types=("Walker",), mask=mask)
            observation.ids["Walker"] = ("a", "b")
            return observation

    check_env(Constant)


def test_what_was_damaged_is_repaired():
    mask = np.ones((2, 2), np.bool_)

    class Constant(Walk):
        def observe(self):
            observation = super().observe()
            observation.actions["Go"] = CategoricalActionMask(actor_types=["Walker"], mask=mask)
            return observation

    with pytest.raises(errors.ObservationError, match="has returned"):
        check_env(Constant)
    assert mask.all()


class Endless(Chain):
    """Forgets ``done``."""

    def act(self, actions):
        return dataclasses.replace(super().act(actions), done=False)


def test_a_game_without_an_end_is_noted(capsys):
    checked = check_env(lambda: Endless(3), episodes=1)
    assert (checked.episodes, checked.steps) == (0, 300)
    (note,) = checked.notes
    assert "no episode ended within 300 steps of random play" in note
    assert main(["test_check_env.Endless", "length=3", "--episodes", "1"]) == 0
    assert f"note: {note}" in capsys.readouterr().out


def test_a_game_in_which_nobody_acts_is_noted():
    class Film(Walk):
        def observe(self):
            return dataclasses.replace(super().observe(), actions={}, metrics={})

        def act(self, actions):
            self.time += 1
            self.glob = [float(self.time)]
            return self.observe()

    (note,) = check_env(Film).notes
    assert "no actor in any step" in note


def test_a_forgotten_reward_is_noted_and_one_of_0_is_not():
    class Forgetful(Chain):
        def reset(self):
            return self.unpaid(super().reset())

        def act(self, actions):
            return self.unpaid(super().act(actions))

        def unpaid(self, seen):
            return Observation(
                features=seen.features, ids=seen.ids, actions=seen.actions, done=seen.done
            )

    class Sparse(Forgetful):
        def unpaid(self, seen):
            return dataclasses.replace(seen, reward=0.0)

    (note,) = check_env(Forgetful).notes
    assert "had a reward" in note
    assert check_env(Sparse).notes == ()


def test_observations_without_entities_are_noted():
    class Blank(Chain):
        """Its features are None, as those of a method that forgets to return them are."""

        def reset(self):
            return self.without(super().reset())

        def act(self, actions):
            return self.without(super().act(actions))

        def without(self, seen):
            return Observation(features=None, reward=seen.reward, done=seen.done, actions={})

    entities, actors = check_env(Blank).notes
    assert "had an entity" in entities
    assert "no actor in any step" in actors


def test_actors_with_nothing_to_select_are_noted():
    class Picker(Environment):
        """Picks three fruits, and then has none for two steps more."""

        def obs_space(self):
            return ObsSpace(entities={"Hand": Entity([]), "Fruit": Entity([])})

        def action_space(self):
            return {"Pick": SelectEntityActionSpace()}

        def reset(self):
            self.step = 0
            return self.observe()

        def act(self, actions):
            assert len(actions["Pick"].actors) == (self.step < 3)
            self.step += 1
            return self.observe()

        def observe(self):
            return Observation(
                features={"Hand": [[]], "Fruit": [[]] * (3 - self.step)},
                actions={
                    "Pick": SelectEntityActionMask(actor_types=["Hand"], actee_types=["Fruit"])
                },
                reward=1.0,
                done=self.step == 5,
            )

    # Two environments side by side; 200 steps of each are 40 episodes, with two observations
    # without fruits and the first one.
    (note,) = check_env(Picker).notes
    assert note.startswith("in 160 of 482 observations the actors of 'Pick' had nothing to select")


def test_wrong_arguments_are_refused():
    with pytest.raises(errors.SettingError, match="episodes"):
        check_env(Walk, episodes=0)
    with pytest.raises(errors.SettingError):
        check_env(Walk, seed=-1)
    with pytest.raises(errors.SettingError, match="BrokenSize needs the setting 'size'"):
        check_env(BrokenSize)


MINES = "ragged_envs.minesweeper.MineSweeper"
OWN = f"{__name__}.Broken"


class BrokenSize(Walk):
    def __init__(self, size):
        raise AssertionError("never made")


class BrokenWithoutAct(Environment):
    obs_space = action_space = reset = acts = Walk.reset


class BrokenWithoutIds(Walk):
    def act(self, actions):
        return {"robot": 0}[None]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        pytest.param([MINES], 0, "no mistakes found", marks=NEEDS_NUMBA),
        pytest.param([MINES, "widht=4"], 1, "did you mean 'width'?", marks=NEEDS_NUMBA),
        pytest.param([MINES, "width"], 1, "name=value", marks=NEEDS_NUMBA),
        (["support.tiny_envs.BrokenAtBirth"], 1, "EnvironmentFailedError: environment 0"),
        ([f"{OWN}Size"], 1, "BrokenSize needs the setting 'size'"),
        ([f"{OWN}WithoutAct"], 1, "BrokenWithoutAct has no method 'act'\n  expected: def act(self"),
        ([f"{OWN}WithoutIds"], 1, "KeyError: None\n  hint:     actions name entities without ids"),
    ],
)
def test_the_command_line_says_what_is_wrong(capsys, arguments, status, said):
    assert main([*arguments, "--episodes", "1"]) == status
    printed = capsys.readouterr()
    assert said in (printed.err if status else printed.out)
