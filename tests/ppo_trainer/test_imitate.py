"""Learning from recorded games, and the penalty on leaving what was learned from them."""

from __future__ import annotations

import json
import math
import shutil
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.commands import run_here
from support.trainer_envs import Foraging, Truncated
from support.trainer_runs import assert_same, metrics, network, small_config

from entity_env import CategoricalAction, ListEnv, SelectEntityAction
from entity_env.errors import RecordingError, SettingError
from entity_env.play import random_policy
from entity_env.recording import DamageWarning, EpisodeDataset, RecordEpisodes
from entity_env.scripted_agent import ScriptedAgent
from ppo_trainer import PPOConfig, TrainConfig, train
from ppo_trainer.agent import load_agent
from ppo_trainer.algorithms.algorithm import Scale
from ppo_trainer.algorithms.clone import clone_divergence, clone_weight
from ppo_trainer.algorithms.cloning import Cloning, right_choices
from ppo_trainer.config import ImitationConfig
from ppo_trainer.experience.recorded import episode_weight, examples_of
from ppo_trainer.experience.rollout import Rollout
from ppo_trainer.imitate import _Cloner, imitate
from ppo_trainer.reporting.progress import RunProgress
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.training.curve import draw_curve, panels
from ragged_net import EntityBatch, NetConfig, NetOutput, RaggedNet, RaggedTensor
from ragged_net.network import ActionOutput


def ragged(values, lengths):
    return RaggedTensor.from_lengths(torch.tensor(values), torch.tensor(lengths))


def output_of(log_probs, entropies, chosen, value):
    """Return an output with one choice in the first frame, two in the other."""
    action = ActionOutput(
        ragged(chosen, [1, 2]), torch.tensor(log_probs), torch.tensor(entropies), None
    )
    return NetOutput({"go": action}, torch.tensor(value))


def part_of(weights, returns, chosen=(0, 0, 0), clone=None):
    return Rollout(
        EntityBatch({}, torch.zeros(2, 0)),
        {"go": ragged(list(chosen), [1, 2])},
        {"go": ragged([0.0, 0.0, 0.0], [1, 2])},
        torch.zeros(2),
        torch.tensor(weights),
        torch.tensor(returns),
        clone_log_probs=None if clone is None else {"go": ragged(clone, [1, 2])},
    )


def test_the_loss_is_the_weighted_surprise_at_the_choices():
    part = part_of([3.0, 1.0], [1.0, 0.0])
    output = output_of([-0.5, -1.0, -2.0], [0.1, 0.2, 0.3], [0, 0, 0], [0.0, 2.0])
    cloning = Cloning(PPOConfig(value_coef=0.5))
    scale = cloning.scale(part)
    assert (scale.frames, scale.policy) == (2, 5.0)  # 3 * 1 + 1 * 2
    losses = cloning.losses(output, part, scale, None)
    assert losses["loss/cloning"].item() == pytest.approx((3 * 0.5 + 1 + 2) / 5)
    assert losses["policy/entropy"].item() == pytest.approx((3 * 0.1 + 0.2 + 0.3) / 5)
    assert losses["loss/value"].item() == pytest.approx((1 + 4) / 4)
    # In units of a deviation of 2, errors are halves.
    losses = cloning.losses(output, part, scale, torch.tensor(2.0))
    assert losses["loss/value"].item() == pytest.approx((0.25 + 1) / 4)
    assert cloning.coefficients(0.3) == {
        "loss/cloning": 1.0,
        "loss/value": 0.5,
        "policy/entropy": 0.0,
    }


def test_right_choices_are_those_of_the_recording():
    output = output_of([0.0] * 3, [0.0] * 3, [1, 2, 0], [0.0, 0.0])
    part = part_of([1.0, 1.0], [0.0, 0.0], chosen=(1, 0, 0))
    assert right_choices(output, part)["go"].tolist() == [True, False, True]


def test_episodes_weigh_by_what_they_earned():
    # Of rewards with mean 1 and deviation 2: z = (5 - 1) / 2 = 2, at temperature 4 exp(0.5).
    assert episode_weight(5.0, 1.0, 2.0, 4.0) == pytest.approx(math.exp(0.5))
    assert episode_weight(-3.0, 1.0, 2.0, 1.0) == pytest.approx(math.exp(-2))
    assert episode_weight(500.0, 1.0, 2.0, 0.1) == 20.0
    assert episode_weight(5.0, 1.0, 2.0, 0.0) == episode_weight(5.0, 5.0, 0.0, 1.0) == 1.0


def test_the_divergence_from_a_clone():
    output = output_of([-0.3, -0.9, -0.4], [0.0] * 3, [0] * 3, [0.0, 0.0])
    part = part_of([1.0, 1.0], [0.0, 0.0], clone=[-0.5, -0.5, -1.0])
    # Differences 0.2, -0.4 and 0.6: half their squares are 0.02, 0.08 and 0.18.
    expected = (0.02 + (0.08 + 0.18) / 2) / 2
    assert clone_divergence(output, part, Scale(2, 2.0)).item() == pytest.approx(expected)


def test_the_penalty_fades():
    config = PPOConfig(clone_kl=0.4, clone_kl_fade=0.5)
    weights = [clone_weight(config, progress) for progress in (0.0, 0.25, 0.5, 0.9)]
    assert weights == pytest.approx([0.4, 0.2, 0.0, 0.0])
    assert clone_weight(PPOConfig(clone_kl=0.4, clone_kl_fade=0.0), 1.0) == 0.4
    with pytest.raises(SettingError, match="begins with random weights"):
        TrainConfig(ppo=PPOConfig(clone_kl=0.4))


def right_or_left(observation):
    """Robots go where they are: right of 0 to the right; each picks the first piece of food."""
    robots = observation.features.get("Robot", ())
    masks = observation.actions or {}
    actors = list(observation.ids["Robot"]) if len(robots) else []
    food = list(observation.ids.get("Food", ()))
    move = [2 if robot[0] > 0 else 0 for robot in robots]
    actions = {"Move": CategoricalAction(actors, np.array(move, np.int64), [])}
    picking = list(masks["Pick"].actor_ids) if food and "Pick" in masks else []
    return {**actions, "Pick": SelectEntityAction(picking, [food[0] for _ in picking])}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording of the script in four parts: 16 episodes in each of 8 rows."""
    path = tmp_path_factory.mktemp("recorded") / "games.episodes"
    with RecordEpisodes(ListEnv(Foraging, 8, seed=3), path, part_frames=160) as rows:
        agent = ScriptedAgent(right_or_left, rows.obs_space(), rows.action_space())
        obs = rows.reset()
        for _ in range(80):
            obs = rows.act(agent.act_rows(obs))
    return path


SETTINGS = {
    "imitation": ImitationConfig(epochs=12, minibatch_size=32, patience=3),
    "net": NetConfig(dim=16, layers=1, heads=2),
    "total_timesteps": 48,
}


@pytest.fixture(scope="module")
def clone(recorded, tmp_path_factory):
    """A run that has learned from it, and its results."""
    folder = tmp_path_factory.mktemp("runs")
    return imitate([recorded], small_config(run_dir=str(folder), **SETTINGS), env=Foraging)


def test_a_clone_chooses_as_the_script_and_is_a_run(recorded, clone):
    lines = metrics(clone.run)
    assert lines[0]["policy/accuracy/Move"] < 0.9 < lines[-1]["policy/accuracy/Move"]
    assert min(line["loss/held_out"] for line in lines) < 0.5 * lines[0]["loss/held_out"]
    # 115 of 128 episodes have 5 frames each, and count in each pass.
    assert [line["steps"] for line in lines[:2]] == [575, 1150]
    assert {"loss/held_out", "policy/accuracy"} <= {panel.name for panel in panels(lines, 4)}
    agent = load_agent(clone.run, greedy=True)
    right = total = 0
    for step in EpisodeDataset(recorded).minibatches(64, seed=1):
        own = agent.act_rows(step.obs)["Move"].as_array()
        right, total = right + int((own == step.actions["Move"].as_array()).sum()), total + len(own)
    assert right / total > 0.9


def test_evaluations_of_a_clone_are_drawn(clone, tmp_path):
    records = [{**line, "eval/win": 0.1 * line["update"]} for line in metrics(clone.run)]
    (win,) = [panel for panel in panels(records, 4) if panel.name == "win"]
    assert win.points == []
    assert win.evaluated[0] == (575, pytest.approx(0.1))
    folder = RunFolder(tmp_path)
    folder.config_file.write_bytes(RunFolder(clone.run).config_file.read_bytes())
    folder.metrics_file.write_text("".join(json.dumps(own) + "\n" for own in records))
    assert draw_curve(folder) == tmp_path / "curve.png"


def test_passes_are_shuffled_and_the_best_one_is_kept(recorded, tmp_path, monkeypatch):
    """Of four passes the second one is the best; each reads the blocks in another order."""
    losses, weights, blocks, known, totals = iter([3.0, 1.0, 2.0, 2.5]), {}, [], [], []
    monkeypatch.setattr(_Cloner, "measure", lambda *_: {"loss/held_out": next(losses)})

    def spied(block, *rest):
        blocks.append(block.steps.obs.features["Robot"].as_array().tobytes())
        return examples_of(block, *rest)

    monkeypatch.setattr("ppo_trainer.imitate.examples_of", spied)
    update = RaggedNet.update_statistics
    monkeypatch.setattr(
        RaggedNet,
        "update_statistics",
        lambda net, batch, *ranks: (
            known.append(0 if ranks else batch.num_frames) or update(net, batch, *ranks)
        ),
    )
    monkeypatch.setattr(
        "ppo_trainer.training.output.RunProgress",
        lambda done, total, *rest: totals.append(total) or RunProgress(done, total, *rest),
    )

    def note(session):
        if "loss/held_out" in session.metrics:
            own = session.net.state_dict()
            weights[session.metrics["loss/held_out"]] = {n: v.clone() for n, v in own.items()}

    own = ImitationConfig(epochs=4, minibatch_size=64, patience=0, frames=200)
    config = small_config(run_dir=str(tmp_path), **{**SETTINGS, "imitation": own})
    result = imitate([recorded], config, env=Foraging, callbacks=[note])
    assert_same(RaggedNet.from_run(result.run).state_dict(), weights[1.0])
    passes = [tuple(blocks[start : start + 3]) for start in range(0, 12, 3)]
    assert len(blocks) == 12
    assert len(set(passes)) == 4
    assert sum(known) == 575  # input statistics are those of the first pass
    assert totals == [4 * 575] == [result.steps]


def test_damage_is_said_before_the_training(recorded, tmp_path, capsys):
    damaged = tmp_path / "damaged.episodes"
    shutil.copytree(recorded, damaged)
    file = sorted(damaged.iterdir())[1]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    own = ImitationConfig(epochs=1, minibatch_size=64)
    config = small_config(run_dir=str(tmp_path), **{**SETTINGS, "imitation": own})
    with warnings.catch_warnings():
        warnings.simplefilter("error", DamageWarning)  # said once
        imitate([damaged], config, env=Foraging)
    words = capsys.readouterr()
    assert "1 of 4 parts cannot be read; 480 frames can be read" in words.err
    for file in damaged.iterdir():
        file.write_bytes(b"")
    with pytest.raises(RecordingError, match="4 of 4 parts cannot be read"):
        imitate([damaged], config, env=Foraging)


def test_a_run_begins_with_the_clone_and_stays_near_it(clone, tmp_path):
    begun = []

    def look(session):
        begun.append(session.metrics.get("loss/clone_kl"))
        return len(begun) < 4

    config = small_config(
        run_dir=str(tmp_path), init=str(clone.run), ppo=PPOConfig(
            epochs=1, minibatch_size=24, clone_kl=0.5, clone_kl_fade=0.5
        ),
    )  # fmt: skip
    result = train(config, env=Foraging, callbacks=[look])
    assert config.net != SETTINGS["net"]  # the network's settings are those of the clone
    # At the first gradient step the network is the clone; from half of 6 updates on nothing counts.
    assert begun[0] == pytest.approx(0.0, abs=1e-5)
    assert begun[1] > 1e-5
    assert begun[3] is None
    saved = RaggedNet.from_run(clone.run).state_dict()
    assert_same(load_file(result.run / "clone" / "model.safetensors"), saved)


def test_what_a_recording_cuts_off_is_worth_what_the_network_says(tmp_path):
    with RecordEpisodes(ListEnv(Truncated, 1), tmp_path / "a") as rows:
        policy, obs = random_policy(seed=0), rows.reset()
        for _ in range(4):  # an episode of rewards 1, 2, 3 that a limit ends, and a step more
            obs = rows.act(policy(obs))
    dataset = EpisodeDataset([tmp_path / "a"])
    net = network(Truncated(), small_config())
    (block,) = dataset.blocks(100)
    examples = examples_of(block, lambda reward: reward, 0.5, net)
    # 1 + 2 / 2 + 3 / 4, 2 + 3 / 2, 3; then 1.
    assert examples.rollout.returns.tolist() == [2.75, 3.5, 3.0, 1.0]
    assert examples.final_discounts.tolist() == [0.125, 0.25, 0.5, 0.5]
    assert examples.final_of.tolist() == [0, 0, 0, 1]
    assert examples.rollout.advantages.tolist() == [6.0, 6.0, 6.0, 1.0]
    with torch.no_grad():
        first, second = net.value(examples.finals).tolist()
    expected = [2.75 + first / 8, 3.5 + first / 4, 3.0 + first / 2, 1.0 + second / 2]
    assert examples.valued(net).returns.tolist() == pytest.approx(expected)


def test_a_decision_whose_outcome_is_not_known_is_worth_its_own_value(tmp_path):
    """Before a lost part, a decision has no end and no observation after it."""
    with RecordEpisodes(ListEnv(Truncated, 1), tmp_path / "a", part_frames=2) as rows:
        policy, obs = random_policy(seed=0), rows.reset()
        for _ in range(4):
            obs = rows.act(policy(obs))
    sorted((tmp_path / "a").iterdir())[1].unlink()
    with pytest.warns(DamageWarning):
        dataset = EpisodeDataset(tmp_path / "a")
    net = network(Truncated(), small_config())
    first, *_ = dataset.blocks(1)
    examples = examples_of(first, lambda reward: reward, 0.5, net)
    # Rewards 1 and 2, of which the last one is not used: its value replaces it.
    assert examples.rollout.returns.tolist() == [1.0, 0.0]
    assert examples.final_discounts.tolist() == [0.5, 1.0]
    with torch.no_grad():
        (value,) = net.value(examples.finals).tolist()
    assert examples.valued(net).returns.tolist() == pytest.approx([1.0 + value / 2, value])


def test_a_network_with_a_memory_learns_from_whole_episodes(recorded, tmp_path):
    settings = {
        **SETTINGS,
        "net": NetConfig(dim=16, layers=1, heads=2, memory="gru", memory_size=8),
    }
    settings["imitation"] = ImitationConfig(epochs=4, minibatch_size=64)
    config = small_config(run_dir=str(tmp_path), **settings)
    lines = metrics(imitate([recorded], config, env=Foraging).run)
    assert lines[-1]["loss/held_out"] < 0.8 * lines[0]["loss/held_out"]


def test_blocks_of_a_larger_data_set_teach_as_well(recorded, tmp_path):
    """In blocks of 300 frames, which are read anew in each pass."""
    own = ImitationConfig(epochs=4, minibatch_size=16, frames=300, temperature=2.0)
    config = small_config(run_dir=str(tmp_path), **{**SETTINGS, "imitation": own})
    lines = metrics(imitate([recorded, recorded], config, env=Foraging).run)
    measured = [line for line in lines if "loss/held_out" in line]
    assert (len(measured), len(lines)) == (4, 16)  # 1,150 frames are 4 blocks
    assert measured[-1]["policy/accuracy/Move"] > 0.9


def test_recordings_that_teach_nothing_are_refused(recorded, tmp_path):
    with pytest.raises(SettingError, match="does not have the spaces of Truncated"):
        imitate([recorded], small_config(run_dir=str(tmp_path)), env=Truncated)
    with RecordEpisodes(ListEnv(Foraging, 1), tmp_path / "empty") as rows:
        rows.reset()
    with pytest.raises(SettingError, match="nothing to train on"):
        imitate([tmp_path / "empty"], small_config(run_dir=str(tmp_path)), env=Foraging)
    assert not list(tmp_path.glob("*/config.yaml"))


def test_a_script_is_recorded_and_imitated_in_the_terminal(tmp_path):
    done = run_here(
        "ppo_trainer.record", "env=xor", "games.episodes", "--agent", "script", "--episodes", "40",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mean reward 1.000" in done.stdout
    done = run_here(
        "ppo_trainer.imitate", "games.episodes", "env=xor", "imitation.epochs=30",
        "eval.episodes=50", "run_name=clone", "net.dim=16", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "48 episodes of mean reward 1.000" in done.stdout
    assert "-m ppo_trainer env=xor init=runs/clone ppo.clone_kl=0.1" in done.stdout
