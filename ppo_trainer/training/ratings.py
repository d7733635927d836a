"""Ratings beside a training: ``selfplay.ratings=true`` starts a process that follows the run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from entity_env.errors import RunFolderError
from entity_env.workers.pickles import pickled
from ppo_trainer.evaluation.ratings import steps_of_version
from ppo_trainer.machine.commands import python_command
from ppo_trainer.machine.helper_process import start_helper
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.runs.results import RatedPlayer, read_ratings
from ppo_trainer.training.session import Session

__all__ = ["RunRatings", "open_ratings"]

_START = "from ppo_trainer.evaluation.ratings import main; main()"
_LAST_WAIT = 60.0
"""Seconds that the end of a run waits for the rating of its last version."""


class RunRatings:
    """The process that rates the versions of a run; the training continues without it if it fails.

    Args:
        session: The run.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._run = session, session.run
        self._process: subprocess.Popen[bytes] | None = None
        self._seen = 0.0
        if session.config.selfplay.ratings:
            task = self._run.path.absolute(), session.game.factory
            sent = pickled("the game to be rated", task)
            self._process = start_helper(_START, sent, errors=None)

    def after_update(self) -> dict[str, float]:
        """Return the newest rating, if it is new, as numbers to log."""
        if not self._is_running():
            return {}
        with suppress(OSError):
            changed = os.stat(self._run.ratings_file).st_mtime
            if changed != self._seen:
                self._seen = changed
                versions = [player for player in self._rated() if player.steps is not None]
                newest = max(
                    versions, key=lambda player: steps_of_version(player.player), default=None
                )
                if newest is not None:
                    return {
                        "rating/newest": newest.rating,
                        "rating/deviation": newest.deviation,
                        "rating/steps": float(steps_of_version(newest.player)),
                    }
        return {}

    def close(self, *, finished: bool) -> None:
        """End the process; if the run is over, wait a limited time for its last version."""
        if self._process is None:
            return
        end = time.monotonic() + _LAST_WAIT
        try:
            if finished and self._is_waiting():
                log(f"The last version is being rated, for {_LAST_WAIT:g} s at most.")
                while self._is_running() and self._is_waiting() and time.monotonic() < end:
                    time.sleep(0.1)
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
        if self._process is not None and self._is_waiting():
            warn(
                "the last version has no rating yet; to rate it: "
                f"{python_command()} -m ppo_trainer.league {self._run.path} --follow"
            )

    def _is_running(self) -> bool:
        """Return True if the process runs; print once that it has ended."""
        if self._process is not None and (status := self._process.poll()) is not None:
            self._process = None
            warn(
                f"the rating process has ended (exit status {status}); the training continues "
                "without it"
            )
        return self._process is not None

    def _is_waiting(self) -> bool:
        """Return True if the present version has no rating."""
        return self._session.steps not in {player.steps for player in self._rated()}

    def _rated(self) -> list[RatedPlayer]:
        with suppress(RunFolderError):
            return read_ratings(self._run)
        return []


@contextmanager
def open_ratings(session: Session) -> Iterator[RunRatings]:
    """Start the rating process of a run, which ends with the block."""
    ratings, finished = RunRatings(session), False
    try:
        yield ratings
        finished = session.steps >= session.config.total_timesteps
    finally:
        ratings.close(finished=finished)
