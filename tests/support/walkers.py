"""A game for the tests of the viewer: walkers on a line, in a frame that says its own step."""

from __future__ import annotations

import numpy as np

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

EVIL = "<img src=x onerror=\"document.body.dataset.evil='yes'\">"


class Walkers(Environment):
    """Walkers step right or stay, and look at a tree; the reward of each step is its number.

    Entities:
        ``walkers`` Walker [x, y, owner], which begin at x = 0, and ``trees`` Tree [x, y] at x = 5;
        and one without a place whose name is HTML.
    """

    def __init__(self, walkers=2, trees=3, length=10):
        self.count, self.trees, self.length = walkers, trees, length

    def obs_space(self):
        owner = Discrete("owner", 2, names=("mine", "<i>yours</i>"))
        return ObsSpace(
            global_features=["step"],
            entities={
                "Walker": Entity(["x", "y", owner]),
                "Tree": Entity(["x", "y"]),
                EVIL: Entity(["size"]),
            },
        )

    def action_space(self):
        labels = ["stay", "<b>right</b>"]
        return {"Go": CategoricalActionSpace(labels), "Look": SelectEntityActionSpace()}

    def reset(self):
        self.step, self.at = 0, np.zeros(self.count)
        return self.observe(0.0)

    def act(self, actions):
        self.step += 1
        self.at[: len(actions["Go"].indices)] += actions["Go"].indices
        self.looked = list(actions["Look"].actees)
        return self.observe(float(self.step))

    def observe(self, reward):
        rows = np.arange(self.count)
        trees = np.arange(self.trees)
        mask = np.ones((self.count, 2), bool)
        mask[0, 1] = self.step % 2 == 0  # the first walker rests in every other step
        return Observation(
            features={
                "Walker": np.stack([self.at, rows, rows % 2], axis=1),
                "Tree": np.stack([np.full(self.trees, 5), trees], axis=1),
                EVIL: [[1.5]],
            },
            ids={
                "Walker": [("Walker", i) for i in rows],
                "Tree": [("Tree", i) for i in trees],
                EVIL: [EVIL],
            },
            global_features=[self.step],
            actions={
                "Go": CategoricalActionMask(actor_types=["Walker"], mask=mask),
                "Look": SelectEntityActionMask(actor_ids=[("Walker", 0)], actee_types=["Tree"]),
            },
            reward=reward,
            done=self.step == self.length,
            metrics={EVIL: 7.0} if self.step == self.length else {},
        )
