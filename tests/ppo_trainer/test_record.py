"""Recording a trained agent, and learning from a recording."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.commands import run_here
from support.recorded import by_row
from support.trainer_envs import Foraging
from support.trainer_runs import small_config

from entity_env import EntityEnvError
from entity_env.errors import RunFolderError, SettingError
from entity_env.play import random_policy
from entity_env.recording import EpisodeDataset, RecordReplay
from entity_env.recording.replays import make_rows
from entity_env.registry import resolve
from ppo_trainer import EvalConfig, recipe, train
from ppo_trainer.record import main, record_agent, record_replay, record_run
from ppo_trainer.runs.load_run import load_policy
from ragged_net import EntityBatch


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a few updates."""
    return trained(tmp_path_factory.mktemp("runs"), Foraging)


def trained(folder, env, **changes):
    """The folder of a run of a few updates."""
    return train(small_config(run_dir=str(folder), **changes), env=env).run


def given(batch):
    """The recorded choices as the network takes them."""
    return {
        name: torch.from_numpy(own.as_array().reshape(-1)) for name, own in batch.actions.items()
    }


def log_probs_of(net, batch):
    """Return the network's log-probabilities of recorded choices, and of all choices."""
    with torch.no_grad():
        output = net(EntityBatch.from_obs(batch.obs), given=given(batch))
    return output.actions


@pytest.mark.parametrize("greedy", [False, True])
def test_a_recorded_agent_is_the_agent(run, tmp_path, greedy):
    made = record_run(run, tmp_path / "a", episodes=10, rows=4, logits=True, greedy=greedy)
    recording = EpisodeDataset(tmp_path / "a")
    assert (recording.has_log_probs, recording.has_logits) == (True, True)
    episodes = list(recording.episodes())
    ended = [episode for episode in episodes if episode.done]
    assert len(ended) == made.rewards.count == 12  # 3 each: episodes have 5 steps
    assert all(episode.is_whole for episode in ended)
    rewards = [float(episode.steps.reward.sum(dtype=np.float64)) for episode in ended]
    assert made.rewards.mean == pytest.approx(np.mean(rewards))
    assert made.frames == recording.num_frames == 60
    assert made.size == sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    net = load_policy(run).net
    for batch in recording.minibatches(16, seed=1):
        for name, own in log_probs_of(net, batch).items():
            log_probs = batch.log_probs[name].as_array().reshape(-1)
            np.testing.assert_allclose(log_probs, own.log_prob, atol=1e-5)
            logits = batch.logits[name].as_array()
            probs = own.probs if isinstance(own.probs, torch.Tensor) else own.probs.values
            np.testing.assert_allclose(np.exp(logits).ravel(), probs.ravel(), atol=1e-5)
            if greedy and name == "Move" and len(logits):
                # Others may be alike, and then take other choices than the most likely one.
                lengths = np.asarray(batch.log_probs[name].size1())
                alone = np.repeat(lengths == 1, lengths)
                assert alone.any()
                best = logits.max(axis=1)[alone]
                np.testing.assert_allclose(log_probs[alone], best, atol=1e-6)


class Narrow(Foraging):
    """Foraging whose robots must not go right, and must not pick the last piece of food."""

    def _observe(self, reward):
        seen = super()._observe(reward)
        robots, food = self.counts
        moves, picks = seen.actions["Move"], seen.actions["Pick"]
        allowed = np.tile([True, True, False], (robots, 1))
        pairs = np.tile(np.arange(food) < max(food - 1, 1), (robots, 1))
        object.__setattr__(moves, "mask", allowed)
        if robots and food:
            object.__setattr__(picks, "mask", pairs)
        return seen


def test_forbidden_choices_have_logit_minus_infinity(tmp_path):
    run = trained(tmp_path, Narrow)
    record_run(run, tmp_path / "a", Narrow, episodes=8, rows=8, logits=True)
    seen = set()
    for step in EpisodeDataset(tmp_path / "a").minibatches(16, seed=1):
        for name, mask in step.obs.action_masks.items():
            logits = step.logits[name].as_array()
            allowed = np.ones_like(logits, np.bool_) if mask.mask is None else mask.mask.as_array()
            assert (np.isneginf(logits) == ~allowed).all()
            seen |= {(name, bool(one)) for one in allowed.ravel()}
    assert len(seen) == 4


def test_one_seed_is_one_recording(run, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4), ("d", None), ("e", None)):
        record_run(run, tmp_path / name, episodes=4, rows=2, seed=seed)
    a, b, c, d, e = (
        b"".join(path.read_bytes() for path in sorted((tmp_path / name).iterdir()))
        for name in "abcde"
    )
    assert a == b
    assert d == e
    assert len({a, c, d}) == 3


def test_endless_games_end(tmp_path):
    class Endless(Foraging):
        def _observe(self, reward):
            self.length = self.step + 2
            return super()._observe(reward)

    run = trained(tmp_path, Endless, eval=EvalConfig(episodes=0, max_steps=7))
    made = record_run(run, tmp_path / "a", Endless, episodes=6, rows=3)
    assert (made.rewards.count, made.frames) == (0, 2 * 7 * 3)
    assert "0 episodes, 42 frames" in str(made)


def test_the_command_says_what_it_wrote(run, tmp_path, capsys):
    path = str(tmp_path / "a")
    main([str(run), path, "--episodes", "6", "--rows", "3", "--logits", "--greedy", "--seed", "5"])
    printed = capsys.readouterr().out
    assert "6 episodes of mean reward" in printed
    assert "30 frames" in printed
    with pytest.raises(EntityEnvError, match="--overwrite in the terminal"):
        main([str(run), path])
    main([str(run), path, "--episodes", "1", "--overwrite"])
    assert (EpisodeDataset(path).num_frames, EpisodeDataset(path).has_logits) == (5, False)


@pytest.mark.parametrize("wrong", [{"episodes": 0}, {"rows": 0}, {"rows": 2.5}, {"seed": -1}])
def test_what_cannot_be_recorded_is_refused(wrong, run, tmp_path):
    with pytest.raises(EntityEnvError):
        record_run(run, tmp_path / "a", **wrong)
    with pytest.raises(RunFolderError):
        record_run(tmp_path, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_the_games_of_a_replay_are_recorded(tmp_path):
    """Those of several rows, and those of one game after the other, as people play them."""
    rows = make_rows(resolve("xor"), {}, 3, seed=1)
    with RecordReplay(rows, tmp_path / "a.replay", "xor", {}, seed=1) as replayed:
        obs, policy, rewards = replayed.reset(), random_policy(seed=0), []
        for _ in range(4):
            obs = replayed.act(policy(obs))
            rewards += obs.reward.tolist()
    main([str(tmp_path / "a.replay"), str(tmp_path / "a.episodes")])
    recorded = [own.steps.reward.tolist() for own in by_row(tmp_path / "a.episodes")]
    assert np.concatenate(recorded).tolist() == np.reshape(rewards, (4, 3)).T.ravel().tolist()
    command = [
        "entity_env.runner", "xor", "--agent", "random", "--auto", "--episodes", "3",
        "--replay", "b.replay",
    ]  # fmt: skip
    done = run_here(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = record_replay(tmp_path / "b.replay", tmp_path / "b.episodes")
    episodes = by_row(tmp_path / "b.episodes")
    assert made.rewards.count == len([own for own in episodes if own.done]) == 3


def test_a_script_sees_the_ids_of_the_environment(tmp_path):
    """The script of xor names its player by the id that the environment gives."""
    config = recipe("xor", "seed=5")
    made = record_agent(config, tmp_path / "a", episodes=12, rows=4)
    assert (made.rewards.mean, made.rewards.count) == (1.0, 12)
    others = record_agent(config, tmp_path / "b", agent="random", episodes=12, rows=4)
    assert others.rewards.mean < 1.0
    with pytest.raises(SettingError, match="no scripted player"):
        record_agent(recipe("custom", "env._target_=xor"), tmp_path / "c")


def test_all_seats_of_a_game_share_the_episodes(tmp_path):
    """One row stands for two seats here, which play six games, and not six for each seat asked."""
    config = recipe("rock_paper_scissors", "selfplay=mirror", "seed=5")
    made = record_agent(config, tmp_path / "a", agent="random", episodes=12, rows=1)
    assert made.rewards.count == 12
