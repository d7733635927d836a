"""Earlier versions of a run's network, each in its own folder ``<run>/snapshots/<name>``."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from entity_env.errors import DAMAGES, CheckpointError
from entity_env.storage.files import remove
from ppo_trainer.learner.average import frozen_copy
from ppo_trainer.runs.checkpoint import load_network, save_network
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.saved_files import SavedFiles
from ragged_net import RaggedNet

__all__ = ["read_snapshot", "remove_others", "versions_named_in", "write_snapshot"]


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
