"""The garbage collector around rows."""

import gc

import pytest

from entity_env import CategoricalActionSpace, Entity, Environment, ListEnv, Observation, ObsSpace
from entity_env.errors import EnvironmentFailedError
from entity_env.garbage import uncollected
from entity_env.play import random_policy


class Busy(Environment):
    """Shows a thousand entities; fails where it is told to."""

    fails = False

    def obs_space(self):
        return ObsSpace(entities={"Ant": Entity(["x"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["on"])}

    def reset(self):
        return Observation(features={"Ant": [[float(i)] for i in range(1000)]})

    def act(self, actions):
        if self.fails:
            raise RuntimeError("no more")
        return self.reset()


@pytest.fixture
def collections():
    """The generations that were collected, in order."""
    seen, usual = [], gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # each version of Python has its own

    def note(phase, info):
        if phase == "stop":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.set_threshold(*usual)


def test_nothing_is_collected_while_observations_of_all_rows_exist(collections):
    env, policy = ListEnv(Busy, 20), random_policy(0)
    obs = env.reset()
    actions = policy(obs)
    collections.clear()
    env.act(actions)
    assert len(collections) <= 1  # 20,000 lists: one each 700 without it
    kept = [[] for _ in range(20_000)]
    assert len(collections) > 5  # it is on again
    assert len(kept) == 20_000


def test_the_collector_is_what_it_was_after_an_error():
    env, policy = ListEnv(Busy, 2), random_policy(0)
    obs = env.reset()
    env._envs._envs[1].fails = True
    with pytest.raises(EnvironmentFailedError):
        env.act(policy(obs))
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        assert uncollected(gc.isenabled)() is False
        assert not gc.isenabled()
    finally:
        gc.enable()
