"""Environments written as for Entity Gym 0.9 run with nothing changed but their imports."""

from __future__ import annotations

import random
from typing import Dict, List, Mapping, Tuple  # noqa: UP035  (as they were written then)

import numpy as np
from support.tiny_envs import lists, row_seed

from entity_env import *  # noqa: F403  (as they were written then)
from entity_env import (
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
    ListEnv,
    Observation,
    ObsSpace,
    ParallelEnv,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)
from entity_env.play import play_episodes, random_policy


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
            entities={
                "Picker": Entity(features=["x", "y"]),
                "Tree": Entity(features=["x", "y"]),
            },
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


def test_an_environment_in_the_old_style_can_be_played_and_has_no_state():
    with ListEnv(Orchard, 1) as env:
        assert not env.has_state()
    played = play_episodes(Orchard, random_policy(0), 5, seed=0)
    assert played["episodic_length"].tolist() == [4.0] * 5


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
