"""Inputs of an algorithm, and the use of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch
from support.trainer_envs import Foraging
from support.trainer_runs import small_config

from ppo_trainer import train
from ppo_trainer.algorithms import ALGORITHMS, make_algorithm
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.experience.acting import values_of
from ppo_trainer.learner.step_metrics import joined, means, of_policies
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.results import read_metrics


@dataclass(frozen=True)
class Corrected(PPO):
    """PPO whose advantages are weighed by ``min(1, pi / mu)``, as V-trace weighs them."""

    ratios: list[torch.Tensor] = field(default_factory=list)

    def estimate(self, trajectories, net):
        rollout = super().estimate(trajectories, net)
        with torch.no_grad():
            now = net(rollout.batch, given=values_of(rollout.chosen), trusted=True)
        ratio = torch.zeros(len(rollout))
        for name, old in rollout.log_probs.items():
            moved = now.actions[name].log_prob - old.values
            ratio = ratio.index_add(0, old.frame_ids(), moved)
        self.ratios.append(ratio.exp())
        return replace(rollout, advantages=rollout.advantages * ratio.exp().clamp_max(1.0))

    def coefficients(self, progress):
        return super().coefficients(progress) | {"actors.min": 0.0, "actors.max": 0.0}

    def losses(self, output, part, scale, value_std):
        counts = part.actors_per_frame.float()
        own = {"actors.min": counts.min(), "actors.max": counts.max()}
        return super().losses(output, part, scale, value_std) | own


def test_an_algorithm_by_name_asks_the_network_that_will_be_improved(tmp_path, monkeypatch):
    """No decision is carried, so that each was made by the very network that is asked."""
    made = []

    def corrected(config):
        made.append(Corrected(config.ppo))
        return made[-1]

    config = small_config(run_dir=str(tmp_path), total_timesteps=72)
    usual = train(config, Foraging)
    monkeypatch.setitem(ALGORITHMS, "ppo", corrected)
    ppo = replace(config.ppo, microbatch_size=5)
    result = train(replace(config, ppo=ppo), Foraging)
    ratios = torch.cat([ratio for own in made for ratio in own.ratios])
    assert len(ratios) == result.steps == 72
    torch.testing.assert_close(ratios, torch.ones(72), atol=1e-5, rtol=0)
    records, before = (read_metrics(RunFolder(run.run)) for run in (result, usual))
    for record, own in zip(records, before, strict=True):
        assert record["loss/value"] == pytest.approx(own["loss/value"], rel=1e-3)
        # Frames have no to several actors: a mean or a sum of parts would be no whole number.
        least, most = record["actors.min"], record["actors.max"]
        assert least < most
        assert (least, most) == (round(least), round(most))


def test_the_algorithm_of_a_run_is_that_of_its_settings():
    config = small_config()
    assert config.algorithm == "ppo"
    assert make_algorithm(config) == PPO(config.ppo)


def test_micro_batches_add_up_or_are_least_and_most():
    one, other = torch.tensor(2.0), torch.tensor(-3.0)
    assert joined("loss/policy", one, other) == -1
    assert joined("policy/ratio.min", one, other) == -3
    assert joined("policy/ratio.max", one, other) == 2


def test_gradient_steps_and_policies_have_means_or_are_least_and_most():
    steps = [{"a": 1.0, "r.min": 4.0, "r.max": 5.0}, {"a": 4.0, "r.min": 3.0, "r.max": 4.0, "b": 7}]
    assert means(steps) == {"a": 2.5, "b": 7, "r.min": 3.0, "r.max": 5.0}
    own = of_policies(steps)
    assert (own["r.min"], own["policy_0/r.min"], own["policy_1/r.min"]) == (3.0, 4.0, 3.0)
