"""V-trace: the paper's formulas in plain loops, by hand, and nothing but PPO without staleness."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.trainer_envs import Foraging, SavedForaging
from support.trainer_runs import (
    SMALL_NET,
    assert_same_checkpoint,
    collect_with,
    metrics,
    network,
    resuming,
    small_config,
)
from support.turn_rows import TurnRows

from entity_env import ListEnv
from ppo_trainer import PPOConfig, RolloutConfig, VTraceConfig, train
from ppo_trainer.algorithms.advantage import vtrace
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.algorithms.vtrace import VTrace, mean_weights
from ppo_trainer.experience.acting import RowMemory, evaluated
from ppo_trainer.machine.ranks import LONE
from ppo_trainer.training.experience_metrics import importance

GAMMA = 0.9


def test_by_hand():
    # One row, two decisions, then a value of 2; gamma 0.5, lambda 1, rho and c clipped at 1.
    # Ratios 2 and 0.5. delta_1 = 3 + 0.5 * 2 - 1 = 3, v_1 - V_1 = 0.5 * 3 = 1.5 = A_1.
    # delta_0 = 1 + 0.5 * 1 - 2 = -0.5, v_0 - V_0 = 1 * -0.5 + 1 * 0.5 * 1.5 = 0.25 = A_0.
    clipped = np.minimum([2.0, 0.5], 1.0)
    errors, advantages = vtrace(
        np.array([1.0, 3.0]),
        np.array([2.0, 1.0]),
        np.array([False, False]),
        np.array([0, 0]),
        np.array([2.0]),
        0.5,
        1.0,
        (clipped, clipped),
    )
    assert errors.tolist() == advantages.tolist() == [0.25, 1.5]


def paper(rewards, values, ends, next_value, ratios, rho_clip, trace_clip):
    """Return v_s - V(x_s) and the advantage of each decision of a row, as the paper writes them.

    v_s = V(x_s) + sum_t gamma^(t - s) (prod_i c_i) rho_t (r_t + gamma V(x_t+1) - V(x_t)), and
    A_s = rho_s (r_s + gamma v_s+1 - V(x_s)).
    """
    steps = len(rewards)
    following = [*values[1:], next_value]
    rho = [min(rho_clip, ratio) for ratio in ratios]
    trace = [min(trace_clip, ratio) for ratio in ratios]
    targets = []
    for s in range(steps):
        total, product = values[s], 1.0
        for t in range(s, steps):
            bootstrap = 0.0 if ends[t] else following[t]
            delta = rho[t] * (rewards[t] + GAMMA * bootstrap - values[t])
            total += GAMMA ** (t - s) * product * delta
            if ends[t]:
                break
            product *= trace[t]
        targets.append(total)
    after = [*targets[1:], next_value]
    advantages = [
        rho[s] * (rewards[s] + GAMMA * (0.0 if ends[s] else after[s]) - values[s])
        for s in range(steps)
    ]
    return [target - value for target, value in zip(targets, values, strict=True)], advantages


@pytest.mark.parametrize("clips", [(1.0, 1.0), (2.0, 0.7), (np.inf, np.inf)])
def test_the_formulas_of_the_paper(clips):
    rng, rows = np.random.default_rng(0), np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0])
    count = len(rows)
    rewards, values = rng.normal(size=(2, count))
    ends, ratios = np.isin(np.arange(count), (2, 6, 8)), np.exp(rng.normal(size=count))
    next_values = rng.normal(size=2)
    weights = np.minimum(ratios, clips[0]), np.minimum(ratios, clips[1])
    found = vtrace(rewards, values, ends, rows, next_values, GAMMA, 1.0, weights)
    for row in (0, 1):
        own = rows == row
        columns = rewards[own], values[own], ends[own], next_values[row], ratios[own]
        expected = paper(*columns, *clips)
        np.testing.assert_allclose([part[own] for part in found], expected, atol=1e-12)


def test_weights_of_1_are_no_weights():
    rng, rows = np.random.default_rng(1), np.repeat([0, 1, 0], 4)
    rewards, values = rng.normal(size=(2, 12))
    arguments = rewards, values, rng.random(12) < 0.3, rows, rng.normal(size=2), 0.95, 0.8
    errors, advantages = vtrace(*arguments)
    assert errors.tolist() == advantages.tolist()
    for own in vtrace(*arguments, (np.ones(12), np.ones(12))):
        assert own.tolist() == advantages.tolist()


# --------------------------------------------------------------------------------- in a run


def collected(config, rows, net):
    """Two rollouts, between which the network becomes another one: some decisions are carried."""
    obs, generator = rows.reset(), torch.Generator().manual_seed(0)
    memory = RowMemory(net, len(rows))
    first = collect_with(net, rows, obs, config, generator, memory=memory)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    second = collect_with(net, rows, first.next_obs, config, generator, None, first.pending, memory)
    return second.trajectories


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_decisions_of_earlier_networks_count_as_those_of_the_present_one(memory):
    config = small_config(
        net=replace(SMALL_NET, memory=memory, memory_size=8),
        rollout=RolloutConfig(num_envs=8, steps=6),
        ppo=PPOConfig(minibatch_size=20, gamma=GAMMA, gae_lambda=1.0),
    )
    rows = TurnRows(8, seed=3, slow=0.5)
    net = network(rows, config)
    trajectories = collected(config, rows, net)
    stale = trajectories.decisions.staleness > 0
    assert 1 < stale.sum() < len(stale)
    usual = PPO(config.ppo).estimate(trajectories, net)
    clips = VTraceConfig(rho_clip=1.5, trace_clip=0.9)
    found = VTrace(config.ppo, vtrace=clips).estimate(trajectories, net)
    with torch.no_grad():
        whole, order = usual, torch.arange(len(usual))
        if memory == "gru":
            whole = usual.part(torch.arange(len(usual.sequences)))
            order = usual.sequences.frames.values
        output = evaluated(net, whole)
    values, now = usual.values.clone(), usual.log_probs["Go"].values.clone()  # an actor a frame
    values[order], now[order] = output.value, output.actions["Go"].log_prob
    kept, moved = torch.from_numpy(~stale), torch.from_numpy(stale)
    for new, old, present in (
        (found.values, usual.values, values),
        (found.log_probs["Go"].values, usual.log_probs["Go"].values, now),
    ):
        assert torch.equal(new[kept], old[kept])
        torch.testing.assert_close(new[moved], present[moved], atol=1e-5, rtol=1e-5)
        assert (new - old)[moved].abs().max() > 1e-3
    ratios = (found.log_probs["Go"].values - usual.log_probs["Go"].values).double().exp().numpy()
    for row in range(8):
        own = trajectories.decisions.rows == row
        rewards = trajectories.decisions.rewards + GAMMA * trajectories.final_values
        columns = rewards[own], found.values.numpy()[own], trajectories.ends[own]
        following = trajectories.next_values[row]
        errors, advantages = paper(*columns, following, ratios[own], 1.5, 0.9)
        np.testing.assert_allclose(found.advantages[own], advantages, atol=1e-5)
        np.testing.assert_allclose((found.returns - found.values)[own], errors, atol=1e-5)


def test_without_staleness_it_is_ppo_number_for_number(tmp_path):
    config = small_config(run_dir=str(tmp_path))
    runs = [
        train(replace(config, algorithm=name, run_name=name), SavedForaging)
        for name in ("ppo", "vtrace")
    ]
    assert_same_checkpoint(runs[0].run, runs[1].run)
    ratios = {"policy/rho": 1.0, "policy/effective_sample_size": 1.0}
    assert [own | ratios for own in metrics(runs[0].run)] == metrics(runs[1].run)
    assert {record["policy/staleness.max"] for record in metrics(runs[1].run)} == {0.0}


def test_the_weights_of_a_frame_with_several_actors_by_hand():
    # Frame 0 has the ratios 4 and 0.25, frame 1 no actor, frame 2 the ratio 3; the clip is 1.5.
    ratios, frame_of = np.array([4.0, 0.25, 3.0]), np.array([0, 0, 2])
    weights = mean_weights(np.log(ratios), frame_of, 3, 1.5)
    np.testing.assert_allclose(weights, [(1.5 + 0.25) / 2, 1.0, 1.5])
    # Ratios of frames are products of those of their actors: 4 * 0.25 = 1.
    weights = mean_weights(np.log([1.0, 1.0, 3.0]), np.arange(3), 3, 0.5)
    assert weights.tolist() == [0.5, 0.5, 0.5]
    assert mean_weights(np.array([1000.0]), np.array([0]), 1, 2.0).tolist() == [2.0]


@pytest.mark.parametrize("ratio", ["per_actor", "per_frame"])
def test_the_ratio_is_that_of_ppo(ratio):
    """Frames of several actors of two actions, all of an earlier network."""
    config = small_config(
        rollout=RolloutConfig(num_envs=4, steps=8),
        ppo=PPOConfig(minibatch_size=8, gamma=GAMMA, gae_lambda=1.0, ratio=ratio),
    )
    rows = ListEnv(Foraging, 4, seed=1)
    net = network(rows, config)
    trajectories = collected(config, rows, net)
    stale = replace(trajectories, decisions=trajectories.decisions.later(1))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.2
    usual = PPO(config.ppo).estimate(stale, net)
    found = VTrace(config.ppo).estimate(stale, net)
    with torch.no_grad():
        output = evaluated(net, usual)
    weights = []
    for frame in range(len(usual)):
        ratios = []
        for name, old in usual.log_probs.items():
            own = slice(*old.offsets[frame : frame + 2].tolist())
            now = output.actions[name].log_prob[own].double() - old.values[own].double()
            ratios += now.exp().tolist()
        clipped = [min(own, 1.0) for own in ratios]
        mean = sum(clipped) / len(clipped) if clipped else 1.0
        weights.append(mean if ratio == "per_actor" else min(float(np.prod(ratios)), 1.0))
    weights = np.array(weights)
    assert 0 < weights.min() < 0.95
    for row in range(4):
        own = trajectories.decisions.rows == row
        rewards = (stale.decisions.rewards + GAMMA * stale.final_values)[own]
        columns = rewards, found.values.numpy()[own], stale.ends[own], stale.next_values[row]
        _, advantages = paper(*columns, weights[own], 1.0, 1.0)
        np.testing.assert_allclose(found.advantages[own], advantages, atol=1e-5)
    logged = importance(LONE, found, 1.0)
    every = np.exp(found.log_ratios)
    assert len(every) == (len(usual) if ratio == "per_frame" else usual.actors_per_frame.sum())
    assert logged == {
        "policy/rho": pytest.approx(np.minimum(every, 1).mean()),
        "policy/effective_sample_size": pytest.approx(
            every.sum() ** 2 / (every**2).sum() / len(every)
        ),
    }
    assert importance(LONE, usual, 1.0) == {}


def test_staleness_is_counted_logged_and_saved(tmp_path):
    """A row that waits for several updates keeps its decision, which grows older."""
    settings = {"_target_": "x", "slow": 0.9}
    config = small_config(
        run_dir=str(tmp_path), algorithm="vtrace", env=settings, total_timesteps=60
    )
    rollout, ppo = RolloutConfig(num_envs=6, steps=1), PPOConfig(minibatch_size=6)
    config = replace(config, rollout=rollout, ppo=ppo)
    whole = train(replace(config, run_name="whole"), TurnRows)
    oldest = [record["policy/staleness.max"] for record in metrics(whole.run)]
    assert oldest[0] == 0
    assert max(oldest) >= 2
    means = [record["policy/staleness"] for record in metrics(whole.run)]
    assert all(mean <= most for mean, most in zip(means, oldest, strict=True))
    broken = train(replace(config, run_name="broken"), TurnRows, stop=lambda updates: updates == 3)
    train(resuming(config, broken.run), TurnRows)
    assert metrics(broken.run) == metrics(whole.run)
