"""Small environments for the tests of ``entity_env``."""

from __future__ import annotations

import itertools
import os
import signal
import sys

import numpy as np

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Environment,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    VecEnv,
)
from entity_env.checking.check_tools import pack_obs


class Farm(Environment):
    """Everything that an observation can hold, drawn at random at every step.

    Animals walk and select food; some food is hidden; the weather is a global action. An episode
    ends with probability 1/6 at each step, and is cut off after ``max_steps``.
    """

    def __init__(self, max_steps=6):
        self.max_steps = max_steps
        self.state = None

    def obs_space(self):
        return ObsSpace(
            global_features=["time", Discrete("season", 4)],
            entities={
                "Animal": Entity(["x", Discrete("kind", 3)]),
                "Food": Entity(["x"]),
                "Rock": Entity([]),
            },
        )

    def action_space(self):
        return {
            "Walk": CategoricalActionSpace(["left", "stay", "right"]),
            "Eat": SelectEntityActionSpace(),
            "Weather": GlobalCategoricalActionSpace(["sun", "rain"]),
        }

    def reset(self):
        self.state = {"time": 0, "eaten": 0.0}
        return self._draw(0.0, False)

    def act(self, actions):
        self.state["time"] += 1
        walk, eat = actions["Walk"], actions["Eat"]
        reward = float(np.sum(walk.indices)) + 0.25 * len(eat.actees) + float(self.rng.random())
        if "Weather" in actions:
            reward += 10.0 * actions["Weather"].index
        self.state["eaten"] += len(eat.actees)
        return self._draw(reward, bool(self.rng.random() < 1 / 6))

    def _draw(self, reward, over):
        animals, food, rocks = self.rng.integers(0, 4, size=3).tolist()
        self.state |= {
            "animals": [[float(self.rng.normal()), i % 3] for i in range(animals)],
            "food": [[float(self.rng.normal())] for _ in range(food)],
            "rocks": rocks,
            "hidden": (self.rng.random(food) < 0.3).tolist(),
            "walk": (self.rng.random((animals, 3)) < 0.5).tolist(),
            "pairs": self.rng.random((animals, food)).tolist(),
            "weather": bool(self.rng.random() < 0.5),
            "reward": reward,
            "over": over,
        }
        return self._observe()

    def _observe(self):
        s = self.state
        cut_off = s["time"] >= self.max_steps and not s["over"]
        shown = [i for i, hidden in enumerate(s["hidden"]) if not hidden]
        walk = np.array(s["walk"], np.bool_).reshape(-1, 3)
        walk[:, 1] |= ~walk.any(axis=1)
        actions = {"Walk": CategoricalActionMask(actor_types=["Animal"], mask=walk)}
        if shown and s["animals"]:
            pairs = np.array(s["pairs"])[:, shown] < 0.6
            pairs[:, 0] |= ~pairs.any(axis=1)
            everything = s["rocks"] == 0  # some frames allow all pairs without saying so
            actions["Eat"] = SelectEntityActionMask(
                actor_types=["Animal"],
                actee_ids=[("food", i) for i in shown],
                mask=None if everything else pairs,
            )
        if s["weather"]:
            actions["Weather"] = GlobalCategoricalActionMask([True, s["rocks"] % 2 == 0])
        features = {"Animal": s["animals"], "Rock": np.zeros((s["rocks"], 0))}
        ids = {"Animal": [f"animal{i}" for i in range(len(s["animals"]))]}
        visible = {}
        if s["food"]:
            features["Food"] = np.array(s["food"], np.float64)
            ids["Food"] = [("food", i) for i in range(len(s["food"]))]
            visible["Food"] = [not hidden for hidden in s["hidden"]]
        return Observation(
            features=features,
            ids=ids,
            visible=visible,
            actions=actions,
            reward=s["reward"],
            done=s["over"] or cut_off,
            truncated=cut_off,
            global_features=[s["time"], s["time"] % 4],
            metrics={"eaten": s["eaten"]} if s["time"] % 2 else {},
        )

    def get_state(self):
        return dict(self.state)

    def set_state(self, state):
        self.state = dict(state)
        return self._observe()

    def render(self, size=2):
        return np.full((size, size, 3), self.state["time"], np.uint8)


class Chain(Environment):
    """Episodes of exactly ``length`` steps without randomness; step t has reward t.

    The only feature is the step, so that first observations show 0. The one walker may go left
    or right, which changes nothing.
    """

    def __init__(self, length=3, truncates=False):
        self.length = length
        self.truncates = truncates
        self.time = 0

    def obs_space(self):
        return ObsSpace(entities={"Walker": Entity(["time"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["left", "right"])}

    def reset(self):
        self.time = 0
        return self._observe()

    def act(self, actions):
        self.time += 1
        return self._observe()

    def _observe(self):
        done = self.time == self.length
        return Observation(
            features={"Walker": [[self.time]]},
            ids={"Walker": ["w"]},
            actions={"Go": CategoricalActionMask(actor_ids=["w"])},
            reward=float(self.time),
            done=done,
            truncated=done and self.truncates,
            metrics={"twice": 2.0 * self.time},
        )


def chain_metrics(length):
    """The metrics of an episode of ``Chain``, which shows 0, 2, ... 2 * length as ``twice``."""
    return {
        "episodic_length": float(length),
        "episodic_reward": length * (length + 1) / 2,
        "twice": 2.0 * length,
        "twice.count": length + 1.0,
        "twice.max": 2.0 * length,
        "twice.mean": float(length),
        "twice.min": 0.0,
        "twice.sum": float(length * (length + 1)),
    }


class Replay(Environment):
    """Shows given observations one after the other, and notes the actions that it receives."""

    def __init__(self, observations, obs_space, action_space):
        self.observations = list(observations)
        self.spaces = obs_space, action_space
        self.received = []

    def obs_space(self):
        return self.spaces[0]

    def action_space(self):
        return self.spaces[1]

    def reset(self):
        return self.observations.pop(0)

    def act(self, actions):
        self.received.append(actions)
        return self.observations.pop(0)


class Compiled(ListEnv):
    """Rows that play a game of their own, as far as anybody outside can tell."""

    environment = Chain
    _check_wrappable = VecEnv._check_wrappable

    def __init__(self, num_envs):
        super().__init__(Chain, num_envs)


class Failing(Chain):
    """A ``Chain`` in which one row does something bad in one step.

    Args:
        how: ``raise``, ``exit``, ``kill``, ``bad`` (an observation with NaN) or ``object`` (none).
        row: The row that fails, of a VecEnv with ``seed=0``.
        at: The step in which it fails; 0 is the reset.
    """

    def __init__(self, how, row=1, at=2, length=10):
        super().__init__(length)
        self.how, self.fails_with, self.at = how, row_seed(0, row), at
        self.fails = False

    def seed(self, seed):
        self.fails = seed == self.fails_with

    def _observe(self):
        if self.fails and self.time == self.at:
            if self.how == "raise":
                raise RuntimeError("the tiny motor broke")
            if self.how == "exit":
                os._exit(7)
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "system-exit":
                sys.exit(5)
            if self.how == "bad":
                return Observation(features={"Walker": [[float("nan")]]})
            return {"Walker": [[1.0]]}
        return super()._observe()


class BrokenAtBirth(Chain):
    """Its constructor raises."""

    def __init__(self):
        raise RuntimeError("no parts left")


def row_seed(seed, row):
    """The number with which a VecEnv of ``seed`` seeds its ``row``."""
    return int(np.random.SeedSequence(seed, spawn_key=(row,)).generate_state(1)[0])


def assert_same_obs(left, right):
    """Equal names, values, lengths, shapes and dtypes in two ``VecObs``."""
    _assert_same("obs", pack_obs(left), pack_obs(right))


def obs_differ(left, right):
    """Return True if two ``VecObs`` differ."""
    try:
        assert_same_obs(left, right)
    except AssertionError:
        return True
    return False


def _assert_same(where, left, right):
    assert type(left) is type(right), where
    if isinstance(left, dict):
        assert list(left) == list(right), where
        for name in left:
            _assert_same(f"{where}.{name}", left[name], right[name])
    elif isinstance(left, tuple):
        for part, a, b in zip(("values", "lengths"), left, right, strict=True):
            _assert_same(f"{where}.{part}", a, b)
    elif left is not None:
        assert left.dtype == right.dtype, where
        np.testing.assert_array_equal(left, right, err_msg=where)


def lists(buffer):
    """A ragged buffer as nested lists, frame by frame."""
    ends = np.cumsum([0, *buffer.size1().tolist()])
    flat = buffer.as_array().tolist()
    return [flat[a:b] for a, b in itertools.pairwise(ends)]
