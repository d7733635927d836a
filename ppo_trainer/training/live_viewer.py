"""The viewer of a run that trains, in a process of low priority that ends with the training."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from entity_env.errors import EntityEnvError
from entity_env.viewer.server import Viewer
from entity_env.viewer.sources import run_source
from entity_env.workers.pickles import pickled
from ppo_trainer.machine.helper_process import read_task, start_helper
from ppo_trainer.machine.screen import warn
from ppo_trainer.training.session import Session

__all__ = ["main", "open_viewer"]

_START = "from ppo_trainer.training.live_viewer import main; main()"


@contextlib.contextmanager
def open_viewer(session: Session) -> Iterator[None]:
    """Start the viewer if the settings ask for it; errors of it are printed, not raised."""
    if not session.config.viewer:
        yield
        return
    try:
        task = session.run.path.absolute(), session.game
        sent = pickled("the game to be shown", task)
        process = start_helper(_START, sent, errors=None, output=None)
    except Exception as error:  # the game cannot be sent, or the process cannot be started
        warn(f"the viewer cannot be started: {error}")
        yield
        return
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Read a run folder and its game, print an address, and serve until the process is ended."""
    run, game = read_task()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the GPU belongs to the training
    if hasattr(os, "nice"):  # not on Windows
        os.nice(10)
    try:
        viewer = Viewer(run_source(str(run), make_game=game.played))
    except EntityEnvError as error:
        sys.exit(f"the viewer cannot be opened: {error}")
    print(f"viewer: {viewer.address}", flush=True)
    threading.Event().wait()
