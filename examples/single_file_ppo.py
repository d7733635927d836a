"""PPO in one file around RaggedNet: ``python examples/single_file_ppo.py``, half a minute.

Nothing of ppo_trainer is used: an environment's rows, a network, and this loop. Copy and change it.
Schulman et al. 2017, "Proximal policy optimization algorithms"; advantages by Schulman et al. 2016.
Left out, as in most such files: episodes that a time limit cuts off count as ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from ragged_envs.minesweeper import MineSweeperRows
from torch import Tensor

from entity_env import VecEnv
from ragged_net import EntityBatch, NetConfig, NetOutput, RaggedNet


@dataclass
class Settings:
    total_steps: int = 150_000
    rollout_steps: int = 8
    epochs: int = 3
    minibatch: int = 512
    lr: float = 3e-3
    gamma: float = 0.95
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_coef: float = 0.01
    value_coef: float = 1.0
    seed: int = 0


def per_frame(batch: EntityBatch, output: NetOutput, what: str) -> Tensor:
    """Return the sum over a frame's actors of their ``log_prob`` or ``entropy``. Shape: (B,)."""
    total = torch.zeros(batch.num_frames)
    for name, own in output.actions.items():
        total = total.index_add(0, batch.actions[name].actors.frame_ids(), getattr(own, what))
    return total


def train(rows: VecEnv, settings: Settings) -> tuple[RaggedNet, list[float]]:
    """Learn to play ``rows``: the network, and the returns of all episodes in their order."""
    torch.manual_seed(settings.seed)
    net = RaggedNet(rows.obs_space(), rows.action_space(), NetConfig(dim=32, layers=1, heads=2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.lr, eps=1e-5)
    obs, count = rows.reset(), len(rows)
    running, returns = np.zeros(count), []
    updates = settings.total_steps // (settings.rollout_steps * count)
    for update in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * (1 - update / updates)
        # Act.
        batches, outputs, rewards, dones = [], [], [], []
        for _ in range(settings.rollout_steps):
            batch = EntityBatch.from_obs(obs)
            with torch.no_grad():
                output = net(batch)
            obs = rows.act(output.actions_for(obs))
            batches.append(batch)
            outputs.append(output)
            rewards.append(torch.from_numpy(obs.reward.copy()))
            dones.append(torch.from_numpy(obs.done.copy()))
            running += obs.reward
            returns += running[obs.done].tolist()
            running[obs.done] = 0.0
        # Estimate, backwards: A_t = delta_t + gamma * lambda * A_{t + 1} within an episode.
        with torch.no_grad():
            values = [out.value for out in outputs] + [net.value(EntityBatch.from_obs(obs))]
        advantages, following = [], torch.zeros(count)
        for t in reversed(range(settings.rollout_steps)):
            goes_on = (~dones[t]).float()
            delta = rewards[t] + settings.gamma * goes_on * values[t + 1] - values[t]
            following = delta + settings.gamma * settings.gae_lambda * goes_on * following
            advantages.insert(0, following)
        advantage = torch.cat(advantages)
        target = advantage + torch.cat(values[:-1])
        batch, output = EntityBatch.cat(batches), NetOutput.cat(outputs)
        old = per_frame(batch, output, "log_prob")
        chosen = {name: own.chosen for name, own in output.actions.items()}
        # Update.
        for _ in range(settings.epochs):
            for part in torch.randperm(batch.num_frames).split(settings.minibatch):
                here = batch.select(part)
                given = {name: own.select(part).values for name, own in chosen.items()}
                out = net(here, given=given)
                ratio = (per_frame(here, out, "log_prob") - old[part]).exp()
                gain = advantage[part]
                deviation = gain.std().clamp_min(0.15)  # rewards are rare at first
                gain = (gain - gain.mean()) / deviation
                clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
                policy_loss = -torch.minimum(ratio * gain, clipped * gain).mean()
                value_loss = (out.value - target[part]).square().mean()
                loss = policy_loss + settings.value_coef * value_loss
                loss -= settings.entropy_coef * per_frame(here, out, "entropy").mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optimizer.step()
        net.update_statistics(batch)  # only now, so that the first ratios of an update are 1
        if update % 10 == 0 or update == updates - 1:
            steps = (update + 1) * settings.rollout_steps * count
            print(f"{steps:>9,} steps  mean return {np.mean(returns[-200:] or [0]):.3f}")
    return net, returns


if __name__ == "__main__":
    games = MineSweeperRows(128, seed=0, width=4, height=4, nmines=3, nrobots=2, max_steps=50)
    with games:
        train(games, Settings())
