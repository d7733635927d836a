"""Settings of tiny runs, rollouts to update on, and what a run folder holds."""

import hashlib
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from entity_env import Environment, ListEnv, VecEnv, VecObs
from ppo_trainer import (
    CheckpointConfig,
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    TrainConfig,
)
from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.command_line.configs import config_of_words
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.collect import Collected, Collector, collect
from ppo_trainer.experience.rollout import Decisions, Rollout
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.machine.stopwatch import Stopwatch
from ragged_net import EntityBatch, NetConfig, RaggedNet

SMALL_NET = NetConfig(dim=16, layers=1, heads=2, value_norm="none")


def small_config(**changes: Any) -> TrainConfig:
    """Settings for a run of 6 updates of 24 frames; ``changes`` replace some of them.

    Positions are not looked for, so that tests can count the steps of their environments.
    """
    values: dict[str, Any] = {
        "total_timesteps": 144,
        "device": "cpu",
        "rollout": RolloutConfig(num_envs=4, steps=6, stagger=False),
        "net": SMALL_NET,
        "find_positions": False,
        "ppo": PPOConfig(epochs=2, minibatch_size=12),
        "optim": OptimConfig(lr=3e-3),
        "eval": EvalConfig(episodes=0),
        "checkpoint": CheckpointConfig(every=2, keep=2),
    }
    return TrainConfig(**{**values, **changes})


def run_named(config: TrainConfig, name: str) -> tuple[TrainConfig, Path]:
    """The settings of a run whose folder is known before it ends, and that folder."""
    return replace(config, run_name=name), Path(config.run_dir) / name


def resuming(config: TrainConfig, run: Path, **changes: Any) -> TrainConfig:
    """The settings that go on with ``run``; ``changes`` replace some of them."""
    return replace(config, resume=str(run), **changes)


def network(env: Environment, config: TrainConfig, seed: int = 0) -> RaggedNet:
    """A fresh network for an environment."""
    torch.manual_seed(seed)
    return RaggedNet(env.obs_space(), env.action_space(), config.net, config.value_config)


def collect_with(
    net: RaggedNet,
    env: VecEnv,
    obs: VecObs,
    config: TrainConfig,
    generator: torch.Generator,
    buffer: RolloutBuffer | None = None,
    pending: Decisions | None = None,
    memory: RowMemory | None = None,
) -> Collected:
    """Return the decisions that a network collects from ``obs`` on, by default in a new buffer."""
    buffer = RolloutBuffer(len(env), config.rollout.steps) if buffer is None else buffer
    memory = RowMemory(net, len(env)) if memory is None else memory
    own = Collector(net, generator, buffer, memory, pending)
    (collected,) = collect([own], env, obs, config, Stopwatch())
    return collected


def rollout_of(create_env: Any, config: TrainConfig, net: RaggedNet, seed: int = 0) -> Rollout:
    """One rollout on ``ListEnv``, from a network that has seen the first observation."""
    with ListEnv(create_env, config.rollout.num_envs, seed=seed) as env:
        obs = env.reset()
        net.update_statistics(EntityBatch.from_obs(obs))
        generator = torch.Generator().manual_seed(seed)
        collected = collect_with(net, env, obs, config, generator)
        return estimate(collected.trajectories, config.ppo)


def parameters(net: RaggedNet) -> dict[str, Tensor]:
    """A copy of everything that a network learns or counts."""
    return deepcopy(net.state_dict())


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    """Bit for bit; NaN equals NaN."""
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(torch.nan_to_num(a[name]), torch.nan_to_num(b[name])), name
        assert torch.equal(a[name].isnan(), b[name].isnan()), name


def checkpoints(run: Path) -> list[Path]:
    """The folders that a run can resume from, oldest first."""
    return sorted((run / "checkpoints").glob("step_*"))


def saved(run: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """The newest checkpoint: the network, the optimizers and generators, the rest."""
    folder = checkpoints(run)[-1]
    return (
        load_file(folder / "model.safetensors"),
        load_file(folder / "optimizers.safetensors"),
        json.loads((folder / "state.json").read_text()),
    )


def assert_same_checkpoint(a: Path, b: Path) -> None:
    """Two runs ended with the same parameters, Adam moments, random numbers and environments."""
    model_a, optimizers_a, state_a = saved(a)
    model_b, optimizers_b, state_b = saved(b)
    assert_same(model_a, model_b)
    assert_same(optimizers_a, optimizers_b)
    assert state_a == state_b


def metrics(run: Path) -> list[dict[str, float]]:
    """The records of a run without its times."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if not name.startswith("time/")}
        for line in lines
    ]


def from_command_line(*words: str) -> TrainConfig:
    """Return the settings that ``python -m ppo_trainer`` would train with."""
    return config_of_words(words)


def reseal(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what ``state.json`` of a checkpoint says, and make its digests right again."""
    facts = json.loads((folder / "state.json").read_text())
    change(facts)
    del facts["sha256"]
    for name in facts["files"]:
        data = (folder / name).read_bytes()
        facts["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    rest = json.dumps(facts)[1:]
    first = f'{{"sha256": "{hashlib.sha256(rest.encode()).hexdigest()}",\n'
    (folder / "state.json").write_text(first + rest)
