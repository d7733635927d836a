"""Rows that wait, end and come back: each decision gets what is its own, and nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.trainer_envs import SavedForaging
from support.trainer_runs import collect_with, network, small_config
from support.turn_rows import TurnRows

from entity_env.errors import CheckpointError, SettingError
from entity_env.interop import EntityVectorEnv
from entity_env.wrappers import VecValidate, VecWrapper
from ppo_trainer import PPOConfig, RolloutConfig, train
from ppo_trainer.algorithms.advantage import estimate, vtrace
from ppo_trainer.experience.pending import pending_from_tensors, pending_to_tensors
from ppo_trainer.experience.rollout_buffer import Ledger, RolloutBuffer

# ------------------------------------------------------------------------------- by hand


def test_a_reward_that_arrives_while_a_row_waits_belongs_to_its_last_decision():
    # Two players take turns: 0, 1, 0. Row 0 is paid 1 at once and 5 when 1 has moved, row 1 gets
    # -2 at its own move and -5 at that of the other, which ends the game for both.
    ledger = Ledger(2)
    no, both = np.zeros(2, bool), np.ones(2, bool)
    ledger.decide(np.array([0]))
    ledger.observe(np.array([1, 0], np.float32), no)
    ledger.decide(np.array([1]))
    ledger.observe(np.array([5, -2], np.float32), no)
    ledger.decide(np.array([0]))
    assert ledger.waiting(np.array([], int)).tolist() == [1, 2]
    assert ledger.waiting(np.array([1])).tolist() == [2]
    assert ledger.observe(np.array([7, -5], np.float32), both).tolist() == [2, 1]
    assert ledger.rows.tolist() == [0, 1, 0]
    assert ledger.rewards.tolist() == [6, -7, 7]
    assert ledger.ends.tolist() == [False, True, True]
    assert ledger.waiting(np.array([], int)).tolist() == []


def test_a_row_that_dies_before_its_first_decision_and_comes_back():
    ledger = Ledger(2)
    ledger.decide(np.array([0]))
    # Row 1 is paid and dies before it was ever asked: nobody decided that.
    assert ledger.observe(np.array([0, 9], np.float32), np.array([False, True])).tolist() == [0, -1]
    ledger.decide(np.array([0, 1]))  # born again
    ledger.observe(np.array([1, 2], np.float32), np.array([False, True]))
    ledger.observe(
        np.array([1, 4], np.float32), np.array([False, False])
    )  # dead: its place is empty
    assert ledger.rewards.tolist() == [0, 2, 2]
    assert ledger.ends.tolist() == [False, False, True]


# ---------------------------------------------------------------- against a slow reference


def slow_reference(events, gamma, lam):
    """The advantages of one row from what happened to it, one event after the other, by definition.

    ``events``: ("decide", value), ("pay", reward), ("end", value of the final observation), and at
    last ("next", value of the frame that follows, or None if the row waits).
    """
    sequences, current = [], []
    for kind, number in events:
        if kind == "decide":
            current.append([number, 0.0, None])
        elif kind == "pay" and current:
            current[-1][1] += number
        elif kind == "end":
            if current:
                current[-1][2] = number
                sequences.append(current)
            current = []
        elif kind == "next" and current:
            if number is None:
                *current, waiting = current
                number = waiting[0]
            if current:
                sequences.append([*current[:-1], [*current[-1][:2], number]])
    advantages = []
    for sequence in sequences:
        following, own = 0.0, []
        for k in reversed(range(len(sequence))):
            value, paid, after = sequence[k]
            next_value = sequence[k + 1][0] if after is None else after
            following = paid + gamma * next_value - value + gamma * lam * following
            own.append(following)
        advantages += own[::-1]
    return advantages


@pytest.mark.parametrize("seed", range(8))
def test_random_patterns_of_asking_paying_and_ending(seed):
    """300 rows at once, each with a pattern of its own: 2,400 in all."""
    rng = np.random.default_rng(seed)
    rows, gamma, lam = 300, rng.uniform(0.5, 1), rng.uniform(0, 1)
    asks, ends, cuts = rng.uniform(0.1, 1), rng.uniform(0, 0.4), rng.uniform(0, 0.4)
    ledger, events = Ledger(rows), [[] for _ in range(rows)]
    values, final = [], {}
    for step in range(int(rng.integers(1, 12)) + 1):
        asked = np.flatnonzero(rng.random(rows) < asks)
        own = rng.integers(-9, 10, len(asked)).astype(float)
        if step == 0 or rng.random() < 0.9:  # else a step that asks nobody
            ledger.decide(asked)
            values += own.tolist()
            for row, value in zip(asked.tolist(), own.tolist(), strict=True):
                events[row].append(("decide", value))
        reward = rng.integers(-3, 4, rows).astype(np.float32)
        done = rng.random(rows) < ends
        cut = done & (rng.random(rows) < cuts)
        last = np.where(cut, rng.integers(-9, 10, rows), 0.0)
        decided = ledger.observe(reward, done)
        final.update(
            {d: v for d, v in zip(decided[cut].tolist(), last[cut], strict=True) if d >= 0}
        )
        for row in range(rows):
            events[row].append(("pay", float(reward[row])))
            if done[row]:
                events[row].append(("end", float(last[row])))
    asked = np.flatnonzero(rng.random(rows) < asks)
    next_values = np.zeros(rows)
    next_values[asked] = rng.integers(-9, 10, len(asked))
    waiting = ledger.waiting(asked)
    for row in range(rows):
        events[row].append(("next", None))
    for row in asked.tolist():
        events[row][-1] = ("next", float(next_values[row]))
    of_finals = np.zeros(len(ledger))
    of_finals[list(final)] = list(final.values())
    next_values[ledger.rows[waiting]] = np.array(values)[waiting]
    kept = np.delete(np.arange(len(ledger)), waiting)
    own_rows = ledger.rows[kept]
    rewards = (ledger.rewards + gamma * of_finals)[kept]
    _, result = vtrace(
        rewards, np.array(values)[kept], ledger.ends[kept], own_rows, next_values, gamma, lam
    )
    order = np.argsort(own_rows, kind="stable")
    expected = [a for row in range(rows) for a in slow_reference(events[row], gamma, lam)]
    assert len(expected) == len(kept)
    np.testing.assert_allclose(result[order], expected, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------ rows alone and together


def played(env, net, decisions, rollouts):
    """For each stream its decisions of some rollouts: time, reward, end, one-step return."""
    config = small_config(
        rollout=RolloutConfig(num_envs=len(env), steps=decisions // len(env)),
        ppo=PPOConfig(gae_lambda=0.0, minibatch_size=2),
    )
    buffer, obs = RolloutBuffer(len(env), 4), env.reset()
    generator, found, carried, pending = torch.Generator().manual_seed(0), {}, 0, None
    for _ in range(rollouts):
        result = collect_with(net, env, obs, config, generator, buffer, pending)
        rollout, decided = estimate(result.trajectories, config.ppo), result.trajectories.decisions
        assert len(rollout) >= decisions
        seats = rollout.batch.entities["Seat"].values.tolist()
        for k, (time, stream) in enumerate(seats):
            own = float(decided.rewards[k]), bool(result.trajectories.ends[k])
            found.setdefault(int(stream), []).append((time, *own, float(rollout.returns[k])))
        obs, pending = result.next_obs, result.pending
        carried += 0 if pending is None else len(pending)
    return found, carried


def test_any_interleaving_gives_each_row_what_it_would_get_alone():
    net = network(TurnRows(1), small_config())
    together, carried = played(TurnRows(4, seed=3, slow=0.4), net, 40, 5)
    assert carried > 4, "no decision was carried from one rollout into the next"
    for stream in range(4):
        alone, _ = played(TurnRows(1, seed=3, streams=[stream]), net, 60, 1)
        shared = min(len(alone[stream]), len(together[stream]))
        assert shared > 20
        a, b = np.array(alone[stream][:shared]), np.array(together[stream][:shared])
        assert a[:, :3].tolist() == b[:, :3].tolist()
        np.testing.assert_allclose(a[:, 3], b[:, 3], atol=1e-5)


def test_decisions_in_flight_are_carried_over_with_all_that_is_known_of_them():
    config = small_config(ppo=PPOConfig(minibatch_size=2))
    env = TurnRows(5, seed=1)
    net = network(env, config)
    buffer, obs = RolloutBuffer(5, 4), env.reset()
    generator = torch.Generator().manual_seed(0)
    config = replace(config, rollout=RolloutConfig(num_envs=5, steps=6))
    first = collect_with(net, env, obs, config, generator, buffer)
    kept = first.pending
    assert kept is not None
    assert set(kept.rows).isdisjoint(first.next_obs.rows)
    before = kept.batch.entities["Seat"].values.clone(), kept.values.clone(), kept.rewards.copy()
    second = collect_with(net, env, first.next_obs, config, generator, buffer, kept)
    decided = second.trajectories.decisions
    done = len(kept.rows)
    assert decided.rows[:done].tolist() == kept.rows.tolist()
    assert torch.equal(decided.batch.entities["Seat"].values[:done], before[0])
    assert torch.equal(decided.values[:done], before[1])
    # The same rows in one long rollout: what was paid before is part of what was paid in all.
    longer = replace(config, rollout=RolloutConfig(num_envs=5, steps=10))
    generator = torch.Generator().manual_seed(0)
    whole = collect_with(net, env, env.reset(), longer, generator).trajectories.decisions
    places = {tuple(seat): k for k, seat in enumerate(whole.batch.entities["Seat"].values.tolist())}
    there = [places[tuple(seat)] for seat in before[0].tolist()]
    assert decided.rewards[:done].tolist() == whole.rewards[there].tolist()
    assert (decided.rewards[:done] != before[2]).any()


def test_a_limit_bootstraps_the_last_decision_and_a_row_without_one_needs_none():
    config = small_config(ppo=PPOConfig(gamma=0.5, gae_lambda=0.0, minibatch_size=2))
    config = replace(config, rollout=RolloutConfig(num_envs=3, steps=40))
    env = TurnRows(3, seed=8)
    net = network(env, config)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        result = collect_with(net, env, env.reset(), config, generator)
    cut = np.flatnonzero(result.trajectories.final_values)
    assert len(cut) > 3
    assert result.trajectories.ends[cut].all()
    rollout = estimate(result.trajectories, config.ppo)
    paid = result.trajectories.decisions.rewards[cut]
    expected = paid + 0.5 * result.trajectories.final_values[cut]
    np.testing.assert_allclose(rollout.returns.numpy()[cut], expected, rtol=1e-6)


# -------------------------------------------------------------------------- around a VecEnv


def test_wrappers_of_rows_pass_on_who_is_asked():
    plain = TurnRows(4, seed=5)
    wrapped = VecValidate(VecWrapper(TurnRows(4, 5)))
    one, other = plain.reset(), wrapped.reset()
    for step in range(60):
        assert other.features["Seat"].size0() == other.num_frames == len(other.rows)
        if step % 2 == 0:
            assert len(one) == len(other) == 4
        one = plain.act(left(one))
        other = wrapped.act(left(other))
    assert 0 < one.num_frames <= 4 or one.num_frames == 0


def test_who_has_no_place_for_rows_that_wait_says_so():
    padded = EntityVectorEnv(TurnRows(4, 5), {"Seat": 1}, 1)
    padded.reset()
    with pytest.raises(SettingError, match="rows that act together"):
        padded.step(padded.action_space.sample())


def left(obs):
    mask = obs.action_masks["Go"]
    zeros = np.zeros((int(mask.actors.size1().sum()), 1), np.int64)
    return {"Go": type(mask.actors).from_flattened(zeros, mask.actors.size1())}


# ------------------------------------------------------------------------------- whole runs


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ('["rows"]', lambda rows: rows - rows.min() - 1),
        ('["rows"]', lambda rows: rows - rows.max() + 5),
        ('["rewards"]', lambda rewards: rewards[1:]),
        ('["values"]', lambda values: values * float("nan")),
        ('["entities", "Seat", "offsets"]', lambda offsets: offsets + 1),
        ('["actions", "Go", "actors", "values"]', lambda actors: actors + 10**9),
        ('["chosen", "Go", "values"]', lambda chosen: chosen + 2),
        ('["chosen", "Go", "offsets"]', lambda offsets: offsets.flip(0)),
        ('["log_probs", "Go"]', lambda log_probs: log_probs.double()),
        ('["actions", "Go", "mask"]', lambda mask: mask & False),
        ('["actions", "Go", "mask"]', lambda mask: mask.float()),
        ('["actions", "Go", "mask"]', None),
        ('["global_features"]', None),
        ("rows", lambda _: torch.ones(3)),
    ],
)
def test_damaged_decisions_are_an_error_and_no_crash(part, damage):
    env = TurnRows(5, seed=1)
    config = small_config(rollout=RolloutConfig(num_envs=5, steps=6))
    net = network(env, config)
    generator = torch.Generator().manual_seed(0)
    pending = collect_with(net, env, env.reset(), config, generator).pending
    tensors = pending_to_tensors(pending)
    assert pending_from_tensors(tensors, net, 5).rewards.tolist() == pending.rewards.tolist()
    if damage is None:
        del tensors[part]
    else:
        tensors[part] = damage(tensors.get(part))
    with pytest.raises(CheckpointError, match="damaged"):
        pending_from_tensors(tensors, net, 5)


def test_the_first_rows_that_are_ready_train(tmp_path):
    config = small_config(run_dir=str(tmp_path), total_timesteps=200)
    rollout = replace(config.rollout, processes=2, asynchronous=True)
    result = train(replace(config, rollout=rollout), env=SavedForaging)
    assert result.steps >= 200
