"""Training in a massively multiplayer world: agents live through many rollouts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from mmo_support import SMALL_WORLD
from PIL import Image
from ragged_envs.mmo.terrain import GRASS
from ragged_envs.mmo.world import Mmo, MmoRows
from support.broken import ragged
from support.rows import interpret_all
from support.trainer_runs import assert_same_checkpoint, metrics, saved, small_config

import ppo_trainer
from entity_env.batching.ragged import frame
from entity_env.errors import SettingError
from entity_env.fitting import at_each_seat
from entity_env.play import play_lives, random_policy
from entity_env.recording import EpisodeDataset
from ppo_trainer import resume, train
from ppo_trainer.agent import load_agent
from ppo_trainer.config import EvalConfig, PPOConfig, RolloutConfig, SelfPlayConfig
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.experience.acting import take_frames
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.population_rows import PopulationRows
from ppo_trainer.record import record_run
from ppo_trainer.runs.load_run import load_policy
from ppo_trainer.watch import film, watch
from ragged_net import EntityBatch, NetConfig, RaggedNet

CONF = Path(ppo_trainer.__file__).parent / "conf"


@pytest.fixture(autouse=True)
def _in_python(monkeypatch):
    interpret_all(monkeypatch, MmoRows)


def config(tmp_path, name, **changes):
    return small_config(
        total_timesteps=144,
        rollout=RolloutConfig(num_envs=12, steps=3),
        ppo=PPOConfig(epochs=1, minibatch_size=18),
        net=NetConfig(dim=16, layers=1, heads=2, tile_channels=8),
        run_dir=str(tmp_path),
        run_name=name,
        env={"_target_": "mmo", **SMALL_WORLD},
        eval=EvalConfig(episodes=0),
        **changes,
    )


@pytest.fixture(scope="module")
def run_of_four(tmp_path_factory):
    """A run of four policies, each of which has seats of its own."""
    settings = config(
        tmp_path_factory.mktemp("four"), "run", selfplay=SelfPlayConfig(mode="populations", size=4)
    )
    with pytest.MonkeyPatch.context() as patch:
        interpret_all(patch, MmoRows)
        return train(settings).run


@pytest.mark.parametrize(("most", "length"), [(0, 15), (10, 10)])
def test_lives_are_counted_from_birth(most, length):
    field = np.pad([[GRASS] * 3], 9)

    def stay(obs):
        return {"Move": ragged([4] * obs.num_frames, [1] * obs.num_frames)}

    def make_rows(count, seed):
        return MmoRows(count, seed, tiles=field, agents=4, populations=1, combat=False)

    played = play_lives(make_rows, stay, 9, 0, rows=8, max_steps=most)
    # Who never moves dies in its 15th decision: benchmarks and rules' tests say why.
    assert played["episodic_length"].tolist() == [length] * 9
    assert played["episodic_reward"].tolist() == [0.0 if most else -1.0] * 9


def test_an_evaluation_ends_and_nobody_is_an_opponent(tmp_path):
    run = train(config(tmp_path, "run")).run
    results = evaluate_run(run, episodes=2)
    assert [len(own.metrics["episodic_length"]) for own in results] == [2, 2, 2]
    with pytest.raises(SettingError, match="never end"):
        evaluate_run(run, episodes=2, against=["random"])


@pytest.mark.parametrize("populations", [0, 2])
def test_a_run_goes_on_in_the_middle_of_lives_bit_for_bit(tmp_path, populations):
    own = {"mode": "populations", "size": populations} if populations else {}
    changes = {"selfplay": SelfPlayConfig(**own)}
    train(config(tmp_path, "whole", **changes))
    part = train(config(tmp_path, "part", **changes), stop=lambda updates: updates == 2)
    assert part.interrupted
    alive = re.findall(r'"alive": (\d+)', json.dumps(saved(part.run)[2]["envs"]))
    assert len(alive) == 2
    assert min(map(int, alive)) >= 2
    resume(part.run)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")
    for policy in ["", "policy_1"][: max(populations, 1)]:
        assert_same_checkpoint(tmp_path / "whole" / policy, tmp_path / "part" / policy)


def test_each_population_keeps_its_seats_through_all_lives():
    rows = PopulationRows(MmoRows(12, 0, **SMALL_WORLD), [[i] for i in range(6)], size=2, seed=None)
    obs, policy, ended = rows.reset(), random_policy(0), 0
    for _ in range(60):
        assert rows.owner.tolist() == [0, 1] * 6
        shown = obs.features["Self"].as_array()[:, 0]
        assert np.array_equal(rows.owner[obs.rows], shown)
        before = rows.owner
        obs = rows.act(policy(obs))
        for row in np.flatnonzero(obs.done):
            ended += 1
            assert obs.metrics[f"policy_{before[row]}/episodic_reward"][row] == -1.0
    assert ended > 5


def test_each_policy_plays_its_own_seats(run_of_four, tmp_path, monkeypatch):
    run = run_of_four
    loaded = load_policy(run)
    assert [len(own.nets) for own in (loaded, load_policy(f"{run}:0"))] == [4, 1]
    assert len(load_policy(run / "policy_1").nets) == 1
    # Who is asked plays for seats 0 to 5 of two worlds: 4 and 5 belong to policies 0 and 1.
    asked, forward = {}, NetworkAgent._pass

    def noting(self, number, obs, memory, **choosing):
        policy = next(i for i, net in enumerate(loaded.nets) if same(net, self.nets[number]))
        asked.setdefault(policy, set()).update(obs.rows.tolist())
        return forward(self, number, obs, memory, **choosing)

    monkeypatch.setattr(NetworkAgent, "_pass", noting)
    evaluate_run(run, episodes=20)
    assert asked == {0: {0, 4, 6, 10}, 1: {1, 5, 7, 11}, 2: {2, 8}, 3: {3, 9}}
    asked.clear()
    evaluate_run(f"{run}:1", episodes=20, greedy=True)
    assert asked == {1: set(range(12))}
    asked.clear()
    with Image.open(film(run, tmp_path / "world.gif", steps=9)) as video:
        assert (video.n_frames, video.size) == (9, (14 * 8, 12 * 8))
    assert len(asked) > 1, "all seats play"
    asked.clear()
    watch(run, episodes=1)
    assert len(asked) > 1, "all seats play"
    agents, game = load_agent(run), Mmo(**SMALL_WORLD)
    seated = at_each_seat(agents, game, (game.obs_space(), game.action_space()), seed=0)
    nets = [agent.net for agent in seated]
    assert all(same(net, loaded.nets[i % 4]) for i, net in enumerate(nets))


def test_each_policy_is_recorded_at_its_own_seats(run_of_four, tmp_path):
    nets, cpu = load_policy(run_of_four).nets, torch.device("cpu")
    record_run(run_of_four, tmp_path / "a.episodes", episodes=4, rows=6, logits=True)
    decided = set()
    for episode in EpisodeDataset(tmp_path / "a.episodes").episodes():
        row, step = episode.row, episode.steps
        for place in range(len(step)):
            seen = EntityBatch.from_obs(take_frames(step.obs, np.array([place])), cpu)
            chosen = {
                name: torch.from_numpy(frame(own, place)[:, 0])
                for name, own in step.actions.items()
            }
            with torch.no_grad():
                output = nets[row % 4](seen, given=chosen)
            for name, own in output.actions.items():
                probs = own.probs if isinstance(own.probs, torch.Tensor) else own.probs.values
                for noted, ours in ((step.log_probs, own.log_prob), (step.logits, probs.log())):
                    noted = frame(noted[name], place).reshape(ours.shape)
                    np.testing.assert_allclose(noted, ours, atol=1e-5)
            decided.add(row)
    assert decided == set(range(6)), "all seats"


def same(net, other):
    pairs = zip(net.parameters(), other.parameters(), strict=True)
    return all(a.equal(b) for a, b in pairs)


def test_the_network_of_the_paper():
    settings = yaml.safe_load((CONF / "net" / "neural_mmo.yaml").read_text())
    field = np.pad(np.full((4, 4), GRASS), 9)
    rows = MmoRows(8, 0, tiles=field, agents=8, immunity=0)
    obs, policy = rows.reset(), random_policy(0)
    while obs.num_frames < 4 or not obs.action_masks["Attack"].actors.size1().any():
        obs = rows.act(policy(obs))
    torch.manual_seed(0)
    net = RaggedNet(rows.obs_space(), rows.action_space(), NetConfig(**settings))
    assert sum(own.numel() for own in net.parameters()) == 98_662
    out = net(EntityBatch.from_obs(obs))
    assert out.value.shape == (obs.num_frames,)
    assert [len(out.actions[name].log_prob) for name in ("Move", "Attack")] == [
        int(obs.action_masks[name].actors.size1().sum()) for name in ("Move", "Attack")
    ]
    losses = [own.log_prob.sum() + own.entropy.sum() for own in out.actions.values()]
    (out.value.square().sum() + sum(losses)).backward()
    for name, own in net.named_parameters():
        assert own.grad is not None, name
        assert own.grad.isfinite().all(), name
        assert own.grad.any() or not own.numel(), name
