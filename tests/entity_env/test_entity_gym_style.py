"""Environments written as for Entity Gym 0.9 run with nothing changed but their imports."""

from __future__ import annotations

import functools
import random
import warnings
from typing import Dict, List, Mapping, Tuple  # noqa: UP035  (as they were written then)

import numpy as np
import pytest
from support.tiny_envs import lists, row_seed

import entity_env
from entity_env import ListEnv, ParallelEnv, check_env, compat
from entity_env.checking.check_state import check_state
from entity_env.compat import *  # noqa: F403  (as they were written then)
from entity_env.compat import (
    Action,
    ActionName,
    ActionSpace,
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)
from entity_env.environment import seed_environment
from entity_env.errors import EntityEnvError, ObservationError
from entity_env.own_methods import OwnMethodWarning
from entity_env.play import play_episodes, play_scripted, random_policy
from entity_env.wrappers import TimeLimit


class Orchard(Environment):
    """Class attributes, ``entities=`` tuples, ``actor_types``, dicts; its own random numbers."""

    size: int = 3
    trees: List[Tuple[int, int]] = []  # noqa: RUF012, UP006
    seen_actions: List[Mapping[ActionName, Action]] = []  # noqa: RUF012, UP006

    def __init__(self, max_steps: int = 4) -> None:
        # No super().__init__().
        self.max_steps = max_steps
        self.step = 0

    def obs_space(cls) -> ObsSpace:
        return ObsSpace(
            global_features=["step"],
            entities={"Picker": Entity(features=["x", "y"]), "Tree": Entity(features=["x", "y"])},
        )

    def action_space(cls) -> Dict[ActionName, ActionSpace]:  # noqa: UP006
        return {
            "move": CategoricalActionSpace(index_to_label=["up", "down"]),
            "pick": SelectEntityActionSpace(),
            "weather": GlobalCategoricalActionSpace(index_to_label=["wait", "pray"]),
        }

    def reset(self) -> Observation:
        self.step = 0
        self.position = [0, 0]
        self.trees = [(random.randint(0, 9), i) for i in range(self.size)]
        return self.observe()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        self.step += 1
        reward = 0.0
        for action_name, action in actions.items():
            if action_name == "move":
                assert isinstance(action, CategoricalAction)
                for actor, index, label in zip(
                    action.actors, action.indices, action.labels, strict=True
                ):
                    assert actor == "Me"
                    self.position[1] += 1 if label == "up" else -1
                    assert label == ["up", "down"][index]
            elif action_name == "pick":
                assert isinstance(action, SelectEntityAction)
                for actor, actee in zip(action.actors, action.actees, strict=True):
                    assert actor == "Me"
                    assert actee in self.trees
                    self.trees.remove(actee)
                    reward += 1.0
            else:
                assert isinstance(action, GlobalCategoricalAction)
                assert action.label in ("wait", "pray")
        return self.observe(reward, done=self.step >= self.max_steps)

    def observe(self, reward: float = 0.0, done: bool = False) -> Observation:
        return Observation(
            global_features=[self.step],
            entities={
                "Picker": (np.array([self.position]), ["Me"]),
                "Tree": (self.trees, self.trees) if self.trees else None,
            },
            actions={
                "move": CategoricalActionMask(actor_types=["Picker"], mask=np.array([[1, 1]]) > 0),
                "pick": SelectEntityActionMask(actor_types=["Picker"], actee_types=["Tree"]),
                "weather": GlobalCategoricalActionMask(),
            },
            reward=reward,
            done=done,
            metrics={"trees": len(self.trees)},
        )


def test_an_environment_in_the_old_style_runs_in_a_list_and_in_processes():
    for make in (lambda: ListEnv(Orchard, 3), lambda: ParallelEnv(Orchard, 3, 2)):
        policy = random_policy(0)
        with make() as env:
            obs = env.reset()
            for step in range(1, 9):
                obs = env.act(policy(obs))
                assert obs.done.tolist() == [step % 4 == 0] * 3
                # One tree is picked in each of the first three steps of an episode.
                assert obs.reward.tolist() == [0.0 if step % 4 == 0 else 1.0] * 3
                assert lists(obs.features["Picker"])[0][0][0] == 0.0
            assert obs.metrics["trees"].tolist() == [0.0] * 3
            assert obs.metrics["episodic_reward"].tolist() == [3.0] * 3


def test_the_names_are_those_of_the_library():
    for name in compat.__all__:
        assert getattr(compat, name) is getattr(entity_env, name)


def test_observations_count_and_number_their_entities():
    space = ObsSpace(entities={"A": Entity(["x"]), "B": Entity(["x", "y"]), "C": Entity([])})
    observation = Observation(
        features={"A": [[1.0], [2.0]], "B": np.zeros((1, 2))}, ids={"B": ["b"]}
    )
    assert [observation.num_entities(name) for name in "ABC"] == [2, 1, 0]
    assert observation.index_to_id(space) == [None, None, "b"]
    assert observation.id_to_index(space) == {"b": 2}
    empty = Observation.empty()
    assert (empty.actions, empty.done, empty.reward, empty.index_to_id(space)) == (
        {},
        False,
        0.0,
        [],
    )


class Flags(Environment):
    """A global mask with a row for its one actor, numbers as ends, sets as ids; some resets end.

    Args:
        done: What says that an episode is over, and that it is not.
        over_at_first: So many episodes in a row are over when they begin.
    """

    def __init__(self, done=(True, False), over_at_first=0) -> None:
        self.done, self.over_at_first = done, over_at_first
        self.resets = 0

    def seed(self, seed: int) -> None:
        self.resets = 0

    def obs_space(self) -> ObsSpace:
        return ObsSpace(["resets"], {"Flag": Entity(["x"])})

    def action_space(self) -> Dict[str, ActionSpace]:  # noqa: UP006
        return {
            "raise": GlobalCategoricalActionSpace(["a", "b", "c"]),
            "wave": CategoricalActionSpace(["once", "twice"]),
        }

    def reset(self) -> Observation:
        self.step = 0
        self.resets += 1
        return self.observe(over=self.resets % (self.over_at_first + 1) != 0)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        assert actions["raise"].label == "b"
        assert actions["wave"].actors == [4, 7]
        self.step += 1
        return self.observe(over=self.step == 3)

    def observe(self, over: bool) -> Observation:
        flags = {4: (0.5,), 7: (0.25,)}
        return Observation(
            global_features=[self.resets],
            features={"Flag": tuple(flags.values())},
            ids={"Flag": flags.keys()},
            actions={
                "raise": GlobalCategoricalActionMask(mask=np.array([[False, True, False]])),
                "wave": CategoricalActionMask(actor_ids=flags.keys()),
            },
            reward=np.array(1.0),
            done=self.done[0] if over else self.done[1],
        )


KINDS_OF_ENDS = [(True, False), (1, 0), (np.True_, np.False_), (np.array(True), np.array(False))]


@pytest.mark.parametrize("done", KINDS_OF_ENDS)
def test_masks_ends_and_ids_of_any_kind_that_was_valid_then(done):
    rows, policy = 3, random_policy(0)
    with ListEnv(lambda: Flags(done), rows) as env:
        obs = env.reset()
        for step in range(1, 8):
            obs = env.act(policy(obs))
            assert obs.done.tolist() == [step % 3 == 0] * rows
            assert obs.reward.tolist() == [1.0] * rows
    played = play_episodes(lambda: Flags(done), policy, 4, seed=0)
    assert played["episodic_reward"].tolist() == [3.0] * 4


def play_three(observation):
    wave = CategoricalAction([4, 7], np.zeros(2, np.int64), ["once", "twice"])
    return {"raise": GlobalCategoricalAction(1, "b"), "wave": wave}


@pytest.mark.parametrize("done", KINDS_OF_ENDS[1:2])
def test_a_reset_that_is_over_is_played_again(done):
    # Two of three resets are over at once: the third, sixth, ... one begins an episode.
    make = lambda: Flags(done, over_at_first=2)  # noqa: E731
    policy = random_policy(0)
    with ListEnv(make, 2) as env:
        obs = env.reset()
        resets = [float(obs.global_features[0, 0])]
        for _ in range(6):
            obs = env.act(policy(obs))
            resets.append(float(obs.global_features[1, 0]))
    assert resets == [3.0, 3.0, 3.0, 6.0, 6.0, 6.0, 9.0]
    for played in (
        play_episodes(make, policy, 4, seed=0),
        play_scripted(make, play_three, 4, seed=0),
    ):
        assert played["episodic_length"].tolist() == [3.0] * 4
        assert played["episodic_reward"].tolist() == [3.0] * 4
    check_env(make)


def test_resets_that_are_all_over_are_an_error_at_some_time():
    made = []
    with ListEnv(lambda: made.append(Flags(over_at_first=10**9)) or made[-1], 1) as env:
        with pytest.raises(ObservationError, match="done, 100 times in a row") as caught:
            env.reset()
        assert caught.value.where == "environment 0, step 0"
    assert made[0].resets == 100


class OwnNames(Environment):
    """Calls its own things ``rng``, ``seed`` or ``step``, as nothing spoke against it then."""

    def __init__(self, rng) -> None:
        self.rng = rng
        self.step = 0

    def obs_space(self) -> ObsSpace:
        return ObsSpace(entities={"Die": Entity(["eyes"])})

    def action_space(self) -> Dict[str, ActionSpace]:  # noqa: UP006
        return {"roll": GlobalCategoricalActionSpace(["roll"])}

    def reset(self) -> Observation:
        return self.act({})

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        self.step += 1
        return Observation(
            features={"Die": [[self.rng.randint(1, 6)]]},
            actions={"roll": GlobalCategoricalActionMask()},
            reward=0.0,
            done=False,
        )


def test_an_environment_may_have_an_rng_of_its_own_which_is_seeded_too():
    expected = random.Random(row_seed(7, 0))
    policy = random_policy(0)
    with ListEnv(lambda: OwnNames(random.Random()), 1, seed=7) as env:
        obs = env.reset()
        for _ in range(5):
            assert lists(obs.features["Die"]) == [[[expected.randint(1, 6)]]]
            obs = env.act(policy(obs))


def test_an_rng_of_numpy_is_replaced_by_a_seeded_one():
    env = OwnNames(np.random.default_rng(3))
    env.seed(5)
    assert env.rng.random() == np.random.default_rng(5).random()
    env.rng = np.random.RandomState(3)
    env.seed(5)
    assert env.rng.random_sample() == np.random.RandomState(5).random_sample()


class Garden(Flags):
    """Its ``seed``, ``get_state`` and ``set_state`` are of the game."""

    def reset(self) -> Observation:
        self.resets = 0
        return super().reset()

    def seed(self, row, column, plant="rose") -> None:
        raise AssertionError

    def get_state(self, row):
        raise AssertionError

    def set_state(self, row, column, state) -> None:
        raise AssertionError


class Farmer(Garden):
    """The same with one argument or none, and with what is no state."""

    def seed(self, plant) -> None:
        self.plants[plant] += 1

    def get_state(self):
        return np.zeros((3, 3))

    def set_state(self, state) -> None:
        self.state = state


class Nothing(Farmer):
    seed = None
    get_state = 3
    set_state = "wilted"


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        *((kind, ListEnv) for kind in (Garden, Farmer, Nothing)),
        (Farmer, functools.partial(ParallelEnv, num_processes=2)),
    ],
)
def test_methods_of_these_names_may_mean_something_else(kind, rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy = random_policy(0)
        with rows(kind, 2) as env:
            obs = env.act(policy(env.reset(3)))
            assert not env.has_state()
            assert obs.reward.tolist() == [1.0, 1.0]
        assert not TimeLimit(kind(), 5).has_state() or kind is Farmer
    if rows is ListEnv:
        assert "do not save the environment" in " ".join(check_env(kind).notes)
        assert {warning.category for warning in caught} == {OwnMethodWarning}
        assert any("its state is not saved" in str(warning.message) for warning in caught)


def test_a_seed_that_means_something_else_leaves_the_random_numbers_seeded():
    env = Farmer()
    with pytest.warns(OwnMethodWarning, match=r"Farmer\.seed cannot be used .*AttributeError"):
        seed_environment(env, 5)
    assert env.rng.random() == np.random.default_rng(5).random()


def test_what_a_seed_raises_that_seeds_is_an_error():
    class Broken(Flags):
        def seed(self, seed) -> None:
            raise KeyError("no")

    with pytest.raises(EntityEnvError, match="raised KeyError in seed"):
        ListEnv(Broken, 1)


class Forgetful(Orchard):
    """Its ``set_state`` forgets to return what is seen then."""

    def get_state(self):
        return {"step": self.step}

    def set_state(self, state) -> None:
        self.step = state["step"]


def test_a_state_that_brings_back_no_observation_begins_a_new_episode():
    policy = random_policy(0)
    with ListEnv(Forgetful, 2) as env:
        env.act(policy(env.reset()))
        state = env.get_state()
    with ListEnv(Forgetful, 2) as env:
        with pytest.warns(OwnMethodWarning, match=r"Forgetful\.set_state returned None"):
            obs = env.set_state(state)
        for step in range(1, 5):
            obs = env.act(policy(obs))
            assert obs.done.tolist() == [step == 4] * 2
        assert obs.metrics["episodic_length"].tolist() == [4.0, 4.0]
    with pytest.raises(EntityEnvError, match="set_state does not return an observation"):
        check_state(Forgetful, 1, 0)
