"""The process that shows a run in the browser while it trains.

It runs at the lowest priority, on the CPU, and ends with the training.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from entity_env.errors import EntityEnvError
from entity_env.viewer.server import Viewer
from entity_env.viewer.sources import run_source
from ppo_trainer.environments import Game
from ppo_trainer.machine.helper_process import read_task

__all__ = ["ViewerTask", "main"]


@dataclass(frozen=True)
class ViewerTask:
    """The task of the process.

    Args:
        run: Run folder.
        game: The game.
    """

    run: Path
    game: Game


def main() -> None:
    """Read a pickled ``ViewerTask``, print an address, and serve until the process is ended."""
    task: ViewerTask = read_task()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the GPU belongs to the training
    if hasattr(os, "nice"):  # not on Windows
        os.nice(10)
    try:
        viewer = Viewer(run_source(str(task.run), make_game=task.game.played))
    except EntityEnvError as error:
        sys.exit(f"the viewer cannot be opened: {error}")
    print(f"viewer: {viewer.address}", flush=True)
    threading.Event().wait()
