"""Processes beside a training: the viewer and the ratings, of low priority; they end with it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from entity_env.errors import EntityEnvError
from entity_env.viewer.server import Viewer
from entity_env.viewer.sources import run_source
from entity_env.workers.messages import pickled
from ppo_trainer.environments import Game
from ppo_trainer.evaluation.ratings import follow
from ppo_trainer.machine.commands import run_main
from ppo_trainer.machine.helper_process import read_task, start_helper
from ppo_trainer.machine.screen import warn
from ppo_trainer.training.session import Session

__all__ = ["open_background", "rate_versions", "serve_viewer"]

_START = "from ppo_trainer.training import background; background.{}()"


@contextlib.contextmanager
def open_background(session: Session) -> Iterator[None]:
    """Start the processes that the settings ask for; their errors are printed, not raised."""
    config = session.config
    wanted = {
        "serve_viewer": ("the viewer", config.viewer),
        "rate_versions": ("the ratings", config.selfplay.ratings),
    }
    with contextlib.ExitStack() as stack:
        for name, (what, is_wanted) in wanted.items():
            if not is_wanted:
                continue
            try:
                task = pickled("the game", (str(session.run.path.absolute()), session.game))
                process = start_helper(_START.format(name), task, errors=None, output=None)
            except Exception as error:  # the game cannot be sent, or the process cannot be started
                warn(f"{what} cannot be started: {error}")
                continue
            stack.callback(process.communicate)
            stack.callback(process.kill)
        yield


def serve_viewer() -> None:
    """Print the address of the viewer, and serve until this process is ended."""
    run, game = _begin(priority=10)
    try:
        viewer = Viewer(run_source(run, make_game=game.played))
    except EntityEnvError as error:
        sys.exit(f"the viewer cannot be opened: {error}")
    print(f"viewer: {viewer.address}", flush=True)
    threading.Event().wait()


def rate_versions() -> None:
    """Rate the versions of a run as ``ppo_trainer.league <run> --follow`` does."""
    run, game = _begin(priority=19)
    run_main(lambda: follow(run, game.factory, trust=True))


def _begin(priority: int) -> tuple[str, Game]:
    """Return the path of the run and its game, which the training has sent."""
    run, game = read_task()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the GPU belongs to the training
    if hasattr(os, "nice"):  # not on Windows
        os.nice(priority)
    return run, game
