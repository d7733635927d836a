"""The agent of a run that is the average of its networks."""

from __future__ import annotations

import pytest
import torch
from ragged_envs.tic_tac_toe import TicTacToe
from support.trainer_runs import small_config
from torch.testing import assert_close

from ppo_trainer import train
from ppo_trainer.config import EvalConfig, RolloutConfig
from ppo_trainer.learner.optimizers import follow, frozen_copy
from ppo_trainer.runs.load_run import network_of_run
from ppo_trainer.settings.self_play_config import SelfPlayConfig
from ragged_net import NetConfig, RaggedNet


def test_late_networks_count_most():
    env = TicTacToe()
    net = RaggedNet(env.obs_space(), env.action_space(), NetConfig(dim=32, layers=1, heads=1))
    average = frozen_copy(net)
    (ours, *_), (theirs, *_) = average.parameters(), net.parameters()
    for update, expected in ((1, 1.0), (2, 1 + 8 / 9), (3, (1 + 8 / 9) * 0.2 + 3 * 0.8)):
        with torch.no_grad():
            theirs.fill_(update)  # weights of the newest: 8 / 8, 8 / 9, 8 / 10
        follow(average, net, update)
        assert ours.flatten()[0].item() == pytest.approx(expected)


def test_the_agent_of_a_run_is_its_average(tmp_path):
    config = small_config(
        total_timesteps=96,
        rollout=RolloutConfig(num_envs=4, steps=6),
        selfplay=SelfPlayConfig(average=True),
        eval=EvalConfig(episodes=0),
        run_dir=str(tmp_path),
    )
    newest: list[RaggedNet] = []
    run = train(
        config, env=TicTacToe, callbacks=lambda session: newest.append(frozen_copy(session.net))
    ).run
    average = frozen_copy(newest[0])
    for update, net in enumerate(newest, start=1):
        follow(average, net, update)
    expected, last = average.state_dict(), newest[-1].state_dict()
    loaded = network_of_run(run, device="cpu").state_dict()
    for name, weights in loaded.items():
        assert_close(weights, expected[name])
    assert not all(torch.equal(weights, last[name]) for name, weights in loaded.items())
