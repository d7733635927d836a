"""The policies that are trained: one, or those of a population.

Each has a network, optimizers and random numbers.

Policy 0 is the run itself. Policy i is saved in ``<run>/policy_<i>``, a run folder for playing
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from entity_env import ActionSpace, ObsSpace, VecEnv
from entity_env.errors import CheckpointError, RunFolderError
from entity_env.storage.files import remove
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.collect import Collector, Searcher
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.learner.optimizers import frozen_copy, make_optimizers
from ppo_trainer.machine.seeding import derived_seed, make_generators
from ppo_trainer.players.search import make_search
from ppo_trainer.runs.checkpoint import (
    Content,
    TrainState,
    load_rows,
    load_state,
    own_checkpoints,
    save_state,
    steps_of,
)
from ppo_trainer.runs.folder import RunFolder, is_one_policy, refuse_link
from ragged_net import RaggedNet

__all__ = [
    "Learner",
    "load_others",
    "make_learners",
    "policy_folder",
    "refuse_single_policy",
    "save_others",
    "write_settings",
]


@dataclass(frozen=True)
class Learner:
    """One of the networks that are trained.

    Args:
        state: The network, and everything else that its training changes.
        buffer: Rollout buffer.
        search: Search for its decisions; None without one.
    """

    state: TrainState
    buffer: RolloutBuffer
    search: Searcher | None = None

    def collector(self) -> Collector:
        """Return the collector of this network."""
        state = self.state
        assert state.memory is not None
        return Collector(
            state.net,
            state.generators.actions,
            self.buffer,
            state.memory,
            state.pending,
            state.acting_graphs,
            self.search,
        )


def policy_folder(run: RunFolder, number: int) -> RunFolder:
    """Return the folder of policy ``number``; that of policy 0 is the run folder.

    Raises:
        RunFolderError: The folder is a link.
    """
    if not number:
        return run
    folder = RunFolder(run.path / f"policy_{number}")
    refuse_link(folder.path)
    return folder


def make_learners(
    net: RaggedNet, config: TrainConfig, vec_env: VecEnv, device: torch.device, rank: int = 0
) -> tuple[Learner, ...]:
    """Return the policies that are trained, of which the first one has the network ``net``.

    Args:
        net: Network on its device, whose embedding all policies may share.
        config: Settings of the run.
        vec_env: Rows on which they train.
        device: Device of the networks.
        rank: Number of this process, which draws random numbers of its own.
    """
    learners: list[Learner] = []
    for number in range(config.selfplay.policies):
        seed, trained = config.seed, net
        if number:
            seed = derived_seed(seed, "policy", number)
            trained = RaggedNet(net.obs_space, net.action_space, config.net, config.value_config)
            if config.selfplay.shared_embeddings:
                trained.encoder.embedding = net.encoder.embedding
            trained = trained.to(device)
        generators = make_generators(seed, device, rank)
        state = TrainState(trained, make_optimizers(trained, config), generators)
        state.memory = RowMemory(trained, len(vec_env))
        state.average = frozen_copy(trained) if config.selfplay.average else None
        search = None
        if config.algorithm == "search":
            search = make_search(vec_env, trained, config)
        elif config.cuda_graphs:
            state.use_graphs(len(vec_env), config.precision)
        buffer = RolloutBuffer(len(vec_env), config.rollout.steps)
        learners.append(Learner(state, buffer, search))
    return tuple(learners)


def write_settings(
    run: RunFolder, config: TrainConfig, spaces: tuple[ObsSpace, Mapping[str, ActionSpace]]
) -> None:
    """Write the settings of all policies, so that they can be watched, evaluated and loaded."""
    for number in range(1, config.selfplay.policies):
        folder = policy_folder(run, number)
        folder.path.mkdir(exist_ok=True)
        folder.write_config(replace(config, resume=None))
        folder.write_spaces(*spaces)


def save_others(run: RunFolder, others: Sequence[Content], keep: int, *, goes_on: bool) -> None:
    """Save all policies except the first, whose checkpoint is written after theirs.

    Each keeps ``keep + 1`` checkpoints, so that a kill before the first one's leaves the older set.
    """
    for number, content in enumerate(others, start=1):
        save_state(policy_folder(run, number), content, [] if goes_on else None, keep + 1)


def load_others(run: RunFolder, others: Sequence[Learner], steps: int, *, goes_on: bool) -> None:
    """Load all policies except the first, as they were at ``steps``.

    Args:
        run: Run folder.
        others: Changed in place.
        steps: Steps of the checkpoint of policy 0. Later checkpoints of the others are removed.
        goes_on: True if the rows continue, with decisions whose outcome is open.

    Raises:
        CheckpointError: A checkpoint is missing or damaged.
    """
    for number, learner in enumerate(others, start=1):
        other = policy_folder(run, number)
        found = {steps_of(folder): folder for folder in own_checkpoints(other)}
        if steps not in found:
            raise CheckpointError(
                f"policy {number} of the run {str(run.path)!r} has no checkpoint at step {steps:,}",
                expected=f"a folder step_{steps:012d} in {other.checkpoints}",
                received=", ".join(folder.name for folder in found.values()) or "none",
                hint="a run keeps its population: selfplay.size cannot change",
            )
        for saved, folder in found.items():
            if saved is not None and saved > steps:
                remove(folder)
        load_state(found[steps], learner.state)
        if goes_on:
            load_rows(found[steps], learner.state, learner.buffer.num_rows)


def refuse_single_policy(run: RunFolder) -> None:
    """Raise RunFolderError for the folder of one policy, which cannot be resumed alone."""
    if is_one_policy(run.path):
        raise RunFolderError(
            f"{str(run.path)!r} is one policy of a population, which cannot be trained alone",
            expected="the run of the population",
            hint=f"resume={run.path.parent}",
        )
