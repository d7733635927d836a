"""A compiled game whose map is a Grid: the same frames as those of the game in Python."""

from __future__ import annotations

import numpy as np
import pytest
from support.tiny_envs import assert_same_obs

pytest.importorskip("numba")

from entity_env import (
    Discrete,
    Entity,
    Environment,
    Grid,
    ListEnv,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)
from entity_env.play import random_policy
from entity_env.rows.compiled import Actors, CompiledGame, CompiledRows, Entities, Field, random_int

HEIGHT, WIDTH = 2, 3
SPACE = ObsSpace(
    entities={
        "Robot": Entity(["fuel"]),
        "Tile": Grid((HEIGHT, WIDTH), [Discrete("kind", 3), "height"], cells=True),
    }
)
ACTIONS = {"Dig": SelectEntityActionSpace()}
# A robot digs on one of six tiles, where a coin (2) may be; dug tiles are holes (1) for good.


def reset(g, game):
    for cell in range(HEIGHT * WIDTH):
        g.tiles[game, cell, 0] = 0
        g.tiles[game, cell, 1] = 10 * cell
    g.tiles[game, random_int(g.random, game, 0, HEIGHT * WIDTH - 1), 0] = 2


def step(g, game, dig):
    cell = dig[0] - 1  # the robot is the first entity of a frame
    found = g.tiles[game, cell, 0] == 2
    g.tiles[game, cell, 0] = 1
    return 1.0 if found else 0.0, found


def fuel(g, game, i, out):
    out[0] = g.steps[game]


def not_a_hole(g, game, i, allowed):
    for cell in range(HEIGHT * WIDTH):
        allowed[cell] = g.tiles[game, cell, 0] != 1


GAME = CompiledGame(
    obs_space=SPACE,
    action_space=ACTIONS,
    state={"tiles": Field((HEIGHT * WIDTH, 2), np.float32)},
    reset=reset,
    step=step,
    entities={"Robot": Entities(fuel, count=1, most=1), "Tile": Entities("tiles")},
    actions={"Dig": Actors("Robot", mask=not_a_hole, targets=("Tile",))},
)


class Digging(Environment):
    """The same game in Python, whose coin lies where it is told."""

    def __init__(self, coin):
        self.coin = coin

    def obs_space(self):
        return SPACE

    def action_space(self):
        return ACTIONS

    def reset(self):
        self.map = np.zeros((HEIGHT, WIDTH, 2))
        self.map[..., 1] = 10 * np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
        self.map[divmod(self.coin, WIDTH)][0] = 2
        self.steps = 0
        return self.observe()

    def act(self, actions):
        _, row, column = actions["Dig"].actees[0]
        found = self.map[row, column, 0] == 2
        self.map[row, column, 0] = 1
        self.steps += 1
        return self.observe(float(found), bool(found))

    def observe(self, reward=0.0, done=False):
        solid = self.map[..., 0].reshape(1, -1) != 1
        return Observation(
            features={"Robot": [[self.steps]], "Tile": self.map.copy()},
            ids={"Robot": ["robot"]},
            actions={
                "Dig": SelectEntityActionMask(
                    actor_types=["Robot"], actee_types=["Tile"], mask=solid
                )
            },
            reward=reward,
            done=done,
        )


def test_the_same_frames_as_in_python():
    rows = CompiledRows(GAME, 5, seed=3)
    obs = rows.reset()
    tiles = obs.features["Tile"]
    coins = [int(np.flatnonzero(tiles[row].as_array()[:, 0] == 2)[0]) for row in range(5)]
    left = iter(coins)
    python = ListEnv(lambda: Digging(next(left)), 5)
    expected = python.reset()
    policy = random_policy(0)
    for _ in range(HEIGHT * WIDTH):
        assert_same_obs(obs, expected)
        actions = policy(obs)
        obs, expected = rows.act(actions), python.act(actions)
        if expected.done.any():
            break
    np.testing.assert_array_equal(obs.done, expected.done)
    np.testing.assert_array_equal(obs.reward, expected.reward)
    python.close()
