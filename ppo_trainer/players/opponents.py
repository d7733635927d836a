"""Opponents: scripts, runs, and earlier versions of a run in ``<run>/snapshots/<name>``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from entity_env import ActionSpace, ObsSpace
from entity_env.agent import RandomAgent, SpacedAgent
from entity_env.errors import (
    DAMAGES,
    CheckpointError,
    EntityEnvError,
    SettingError,
    SpaceError,
    nearest,
)
from entity_env.scripted_agent import ScriptedAgent, is_script, load_script
from entity_env.storage.files import remove
from entity_env.wrappers.selection import Selection, check_same_actions
from ppo_trainer.learner.optimizers import frozen_copy
from ppo_trainer.machine.device import default_torch_state
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.checkpoint import load_network, save_network
from ppo_trainer.runs.folder import RunFolder, named_policy
from ppo_trainer.runs.load_run import load_net
from ppo_trainer.runs.saved_files import SavedFiles
from ragged_net import RaggedNet

__all__ = [
    "make_opponent",
    "opponent_labels",
    "read_snapshot",
    "remove_others",
    "versions_named_in",
    "write_snapshot",
]

_EXPECTED = (
    "random, a run folder, or the dotted path of a function from Observation to actions, such as "
    "ragged_envs.multi_snake.crawl_to_food"
)


def make_opponent(
    name: str,
    obs_space: ObsSpace,
    action_space: Mapping[str, ActionSpace],
    *,
    seed: int = 0,
    greedy: bool = False,
    device: str = "auto",
) -> SpacedAgent:
    """Return the opponent with a name.

    Args:
        name: ``random``, a run folder, or the dotted path of a script, whose module is imported.
        obs_space: Observation space of the game.
        action_space: Action space of the game.
        seed: Seed of the random numbers.
        greedy: True to let a network take the most likely choices.
        device: Device of a network.

    Raises:
        SettingError: There is no such opponent, or it plays another game.
        RunFolderError: The folder is not a run.
        CheckpointError: The run has no checkpoint, or a damaged one.
    """
    made: SpacedAgent
    if name == "random":
        made = RandomAgent(obs_space, action_space, seed)
    elif os.path.lexists(named_policy(name).expanduser()):
        made = _of_run(name, obs_space, action_space, seed, greedy, device)
    elif is_script(name):
        script = load_script(name, "the opponent", SettingError)
        made = ScriptedAgent(script, obs_space, action_space)
    else:
        raise _unknown(name)
    made.name = name
    return made


def opponent_labels(names: Iterable[str]) -> dict[str, str]:
    """Return a short, unique label for each opponent, without slashes or dots."""
    labels: dict[str, str] = {}
    for name in names:
        last = Path(name).name if not is_script(name) else name.rpartition(".")[2]
        short = "".join(c if c.isalnum() or c in "_-" else "_" for c in last) or "opponent"
        label, number = short, 1
        while label in labels.values():
            number += 1
            label = f"{short}_{number}"
        labels[name] = label
    return labels


@default_torch_state()
def _of_run(
    name: str,
    obs_space: ObsSpace,
    action_space: Mapping[str, ActionSpace],
    seed: int,
    greedy: bool,
    device: str,
) -> NetworkAgent:
    loaded = load_net(name, device)
    agent = NetworkAgent(
        loaded.net, seed=seed, greedy=greedy, precision=loaded.config.precision, loaded=loaded
    )
    try:
        check_same_actions(agent.action_space, action_space)
        is_whole = Selection.of(obs_space, agent.obs_space).is_whole
    except SpaceError as error:
        raise SettingError.from_fields(
            {**error.fields(), "what": f"the opponent {name!r} plays another game: {error.what}"}
        ) from error
    if not is_whole:
        raise SettingError(
            f"the opponent {name!r} was trained on fewer entities or features than the game shows",
            expected=f"the entities {list(obs_space.entities)} with all their features",
            received=f"a network for {list(agent.obs_space.entities)}",
            hint="name an opponent that was trained on the same spaces",
        )
    return agent


def _unknown(name: str) -> EntityEnvError:
    beside = Path(name).expanduser().parent
    runs = [file.parent.name for file in beside.glob("*/config.yaml")] if "/" in name else []
    return SettingError(
        f"there is no opponent {name!r}",
        expected=_EXPECTED,
        hint="'scripted' exists in leagues only; elsewhere give the script that eval.scripted names"
        if name == "scripted"
        else nearest(Path(name).name, runs) or nearest(name, ["random"]),
    )


def write_snapshot(run: RunFolder, name: str, net: RaggedNet, update: int, steps: int) -> None:
    """Save a version; it replaces one with the same name.

    Args:
        run: Run folder.
        name: Name of the version.
        net: Present network.
        update: Number of updates done.
        steps: Number of frames trained on.
    """
    save_network(run.snapshots / name, net.state_dict(), {"update": update, "steps": steps})


def read_snapshot(run: RunFolder, name: str, net: RaggedNet) -> RaggedNet:
    """Load a saved version of a run whose network is ``net``.

    Raises:
        CheckpointError: The version does not exist any more, or is damaged.
    """
    folder = run.snapshots / name
    if not folder.is_dir():
        raise CheckpointError(
            f"the earlier version {name!r}, which the run plays against, does not exist any more",
            expected=f"the folder {folder}",
            hint="restore it from a backup, or resume from an older checkpoint, or with "
            "selfplay.mode=mirror",
        )
    copied = frozen_copy(net)
    load_network(folder, copied)
    return copied


def versions_named_in(checkpoint: Path) -> set[str]:
    """Return the versions that a run needs to resume from a checkpoint.

    Raises:
        CheckpointError: The checkpoint is damaged, or cannot be read.
    """
    state = SavedFiles.open(checkpoint).facts.get("players")
    try:
        return {*state["versions"], *state["playing"]} if state else set()
    except DAMAGES as error:
        raise CheckpointError(f"{checkpoint} does not list its versions: {error}") from error


def remove_others(run: RunFolder, kept: Collection[str]) -> None:
    """Remove all versions except those in ``kept``."""
    if not run.snapshots.is_dir() or run.snapshots.is_symlink():
        return
    for entry in list(os.scandir(run.snapshots)):
        if entry.name not in kept:
            remove(run.snapshots / entry.name)
