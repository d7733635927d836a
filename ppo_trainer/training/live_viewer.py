"""The viewer of a run that trains, in a separate process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from entity_env.workers.pickles import pickled
from ppo_trainer.machine.helper_process import start_helper
from ppo_trainer.machine.screen import complain
from ppo_trainer.play.viewer_process import ViewerTask
from ppo_trainer.training.session import Session

__all__ = ["open_viewer"]

_START = "from ppo_trainer.play.viewer_process import main; main()"


@contextlib.contextmanager
def open_viewer(session: Session) -> Iterator[None]:
    """Start the viewer if the settings ask for it; errors of it are printed, not raised."""
    if not session.config.viewer:
        yield
        return
    try:
        task = pickled(
            "the game to be shown", ViewerTask(session.run.path.absolute(), session.game)
        )
        process = start_helper(_START, task, errors=None, output=None)
    except Exception as error:  # the game cannot be sent, or the process cannot be started
        complain(f"the viewer cannot be started: {error}")
        yield
        return
    try:
        yield
    finally:
        process.kill()
        process.communicate()
