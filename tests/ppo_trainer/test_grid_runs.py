"""Maps in a whole run: it resumes bit for bit, its agent chooses cells."""

from dataclasses import replace

import numpy as np
import pytest
from support.input_envs import CoinOnAMap, PickTheCoin
from support.trainer_runs import assert_same, parameters, small_config

from entity_env import Environment
from ppo_trainer import train
from ppo_trainer.agent import load_agent


@pytest.fixture
def config(tmp_path):
    return small_config(run_dir=str(tmp_path))


@pytest.mark.parametrize("game", [CoinOnAMap, PickTheCoin])
def test_a_run_with_a_map_resumes_and_goes_into_play(config, game):
    whole = train(config, env=game)
    part = train(config, env=game, stop=lambda update: update == 3)
    part = train(replace(config, resume=str(part.run)), env=game)
    assert_same(parameters(part.net), parameters(whole.net))

    agent = load_agent(part.run, greedy=True)
    env: Environment = game()
    env.rng = np.random.default_rng(0)
    frames = [env.reset() for _ in range(3)]
    for frame, together in zip(frames, agent.act_many(frames), strict=True):
        alone = agent.act(frame)["Answer"]
        assert_same_choice(alone, together["Answer"])
        env.act({"Answer": alone})


def assert_same_choice(left, right):
    names = ("indices",) if hasattr(left, "indices") else ("actees",)
    for name in (*names, "actors"):
        assert list(getattr(left, name)) == list(getattr(right, name))
    np.testing.assert_allclose(left.probs, right.probs, atol=1e-6)
