"""Populations: who learns from which row, and that every policy goes on, and can be played with."""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np
import pytest
import torch
from ragged_envs.connect_four import ConnectFourRows
from ragged_envs.tic_tac_toe import TicTacToe
from support.trainer_runs import assert_same, metrics, saved, small_config

from entity_env import SeatRows
from entity_env.agent import RandomAgent
from entity_env.errors import CheckpointError, RunFolderError, SettingError
from ppo_trainer import resume, train
from ppo_trainer.agent import load_agent
from ppo_trainer.config import EvalConfig, PPOConfig, RolloutConfig, SelfPlayConfig
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.collect import Collector, collect
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.league import play_league
from ppo_trainer.learner.step_metrics import of_policies
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.players.population_rows import PopulationRows
from ppo_trainer.reporting.recent_episodes import is_per_episode
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.watch import watch
from ragged_net import NetConfig, RaggedNet

SIDES = [[0], [1]]


def config(tmp_path, name, *, game="tic_tac_toe", memory="none", **selfplay):
    return small_config(
        total_timesteps=160,
        rollout=RolloutConfig(num_envs=8, steps=4),
        ppo=PPOConfig(epochs=1, minibatch_size=16),
        net=NetConfig(dim=16, layers=1, heads=2, memory=memory),
        run_dir=str(tmp_path),
        run_name=name,
        env={"_target_": game},
        eval=EvalConfig(episodes=0),
        selfplay=SelfPlayConfig(mode="population", **{"size": 2, **selfplay}),
    )


def test_a_row_keeps_its_policy_until_its_game_is_over():
    rows = PopulationRows(SeatRows(TicTacToe, 8, seed=1), SIDES, size=3, seed=2)
    player = RandomAgent(rows.obs_space(), rows.action_space(), seed=3)
    obs = rows.reset()
    pairs, wins, losses = set(), [0] * 3, [0] * 3
    for _ in range(400):
        before = rows.owner
        obs = rows.act(player.act_rows(obs))
        ended = obs.done.reshape(-1, 2).all(axis=1)  # both seats of a game end together
        for game in range(4):
            own = slice(2 * game, 2 * game + 2)
            if ended[game]:
                pairs.add(tuple(before[own]))
                continue
            assert (before[own] == rows.owner[own]).all()
        for row in np.flatnonzero(obs.done):
            column = obs.metrics[f"policy_{before[row]}/win"]
            assert column[row] == obs.metrics["win"][row]
            wins[before[row]] += column[row] == 1.0
            losses[before[row]] += column[row] == 0.0
            for policy in {0, 1, 2} - {before[row]}:
                assert np.isnan(obs.metrics.get(f"policy_{policy}/win", np.full(8, np.nan))[row])
    assert len(pairs) == 9  # each meets each, itself too, from both seats
    assert sum(wins) == sum(losses) > 50


@pytest.mark.parametrize("rows", [partial(SeatRows, TicTacToe), ConnectFourRows])
def test_each_policy_is_given_its_own_decisions_and_nobody_elses(rows):
    env = PopulationRows(rows(8, seed=1), SIDES, size=2, seed=5)
    settings = small_config(rollout=RolloutConfig(num_envs=8, steps=12))
    torch.manual_seed(0)
    nets = [RaggedNet(env.obs_space(), env.action_space(), settings.net) for _ in range(2)]
    playing = [
        Collector(net, torch.Generator().manual_seed(i), RolloutBuffer(8, 12), RowMemory(net, 8))
        for i, net in enumerate(nets)
    ]
    # What truly happened: the rewards of each policy's rows, whoever learns.
    told, act = [0.0, 0.0], env.act

    def noting(actions):
        owner = env.owner
        shown = act(actions)
        for policy in range(2):
            told[policy] += float(shown.reward[owner == policy].sum())
        return shown

    env.act = noting
    obs = env.reset()
    results = collect(playing, env, obs, settings, Stopwatch())
    for policy, (own, net) in enumerate(zip(results, nets, strict=True)):
        decisions = own.trajectories.decisions
        assert len(decisions) >= 8 * 12 / 2
        rewards = decisions.rewards.sum() + (
            0.0 if own.pending is None else own.pending.rewards.sum()
        )
        assert rewards == pytest.approx(told[policy])
        # The values are those of this policy: the other one says something else.
        theirs = nets[1 - policy].value(decisions.batch).detach()
        assert torch.allclose(net.value(decisions.batch).detach(), decisions.values, atol=1e-5)
        assert not torch.allclose(theirs, decisions.values, atol=1e-3)


@pytest.mark.parametrize(
    "changes", [{"shared_embeddings": True, "memory": "gru"}, {"game": "connect_four"}]
)
def test_all_policies_go_on_bit_for_bit(tmp_path, changes):
    train(config(tmp_path, "whole", **changes))
    part = train(config(tmp_path, "part", **changes), stop=lambda updates: updates == 2)
    assert part.interrupted
    resume(part.run)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")
    tensors = []
    for policy in ("", "policy_1"):
        ours, theirs = (saved(tmp_path / name / policy) for name in ("whole", "part"))
        for a, b in zip(ours[:2], theirs[:2], strict=True):
            assert_same(a, b)
        tensors.append(ours[0])
    embeddings = [{n: t for n, t in own.items() if ".embedding." in n} for own in tensors]
    heads = [{n: t for n, t in own.items() if n.startswith("heads.")} for own in tensors]
    same = [
        all(a.equal(b) for a, b in zip(x.values(), y.values(), strict=True))
        for x, y in ((embeddings[0], embeddings[1]), (heads[0], heads[1]))
    ]
    assert same == [changes.get("shared_embeddings", False), False]
    assert heads[0]
    assert embeddings[0]


def test_each_policy_can_be_loaded_evaluated_watched_and_rated(tmp_path, capsys):
    run = train(config(tmp_path, "run")).run
    first, second = load_agent(run), load_agent(run, policy=1)
    pairs = zip(first.loaded.net.parameters(), second.loaded.net.parameters(), strict=True)
    assert not all(a.equal(b) for a, b in pairs)
    named = load_agent(f"{run}:1").loaded.net
    assert all(
        a.equal(b) for a, b in zip(named.parameters(), second.loaded.net.parameters(), strict=True)
    )
    (result,) = evaluate_run(f"{run}:0", against=[f"{run}:1"], episodes=4)
    assert (result.player, result.episodes) == ("against run_1", 4)
    watch(f"{run}:1", episodes=1, against=str(run))
    assert "the learner" in capsys.readouterr().out
    watch(run, episodes=1, against="random")  # the first policy at the first seat
    assert "the learner" in capsys.readouterr().out
    league = play_league(load_policy(run), [str(run), f"{run}:1"], games=2)
    assert league.players == ("run", "run_1")
    last = metrics(run)[-1]
    assert {f"policy_{i}/value/explained_variance" for i in range(2)} <= last.keys()
    assert any(0.0 <= own.get("policy_1/win", -1.0) <= 1.0 for own in metrics(run))
    with pytest.raises(RunFolderError, match="one policy of a population"):
        resume(run / "policy_1")
    with pytest.raises(RunFolderError, match="is not a run folder"):
        load_agent(run, policy=7)


def test_a_run_keeps_its_population(tmp_path):
    run = train(config(tmp_path, "run"), stop=lambda updates: updates == 2).run
    for other in (
        SelfPlayConfig(mode="population", size=3),
        SelfPlayConfig(),
        SelfPlayConfig(mode="pool"),
    ):
        with pytest.raises(CheckpointError, match=r"keeps its population\n.* selfplay.size=2\n"):
            resume(run, selfplay=other)
    shutil.rmtree(run / "policy_1")
    with pytest.raises(CheckpointError, match="policy 1 of the run"):
        resume(run)
    with pytest.raises(SettingError, match=r"selfplay.size is out of range"):
        config(tmp_path, "one", size=1)
    with pytest.raises(SettingError, match="has no opponents"):
        SelfPlayConfig(mode="population", opponents=("random",))


def test_numbers_of_policies():
    own = of_policies([{"a": 1.0, "b": 2.0}, {"a": 3.0}])
    assert own == {"a": 2.0, "policy_0/a": 1.0, "policy_1/a": 3.0, "b": 2.0, "policy_0/b": 2.0}
    assert of_policies([{"a": 1.0}]) == {"a": 1.0}
    assert is_per_episode("policy_1/win")
    assert not is_per_episode("policy_1/policy/entropy")
    assert not is_per_episode("policy_1/entities_per_frame")
