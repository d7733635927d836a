"""Ratings of a run while it trains: this process saves versions, and another one rates them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from entity_env.storage.files import open_to_append, write_file
from entity_env.workers.pickles import pickled
from ppo_trainer.errors import ConfigError, RunFolderError
from ppo_trainer.machine.helper_process import start_helper
from ppo_trainer.machine.screen import complain, say
from ppo_trainer.play.rating_process import RatingTask, version_steps
from ppo_trainer.runs.checkpoint import save_network
from ppo_trainer.runs.folder import refuse_link, writing
from ppo_trainer.runs.ratings_file import read_ratings
from ppo_trainer.training.session import Session

__all__ = ["RatingProcess", "RunRatings", "StartRatings", "open_ratings", "start_here"]

_START = "from ppo_trainer.play.rating_process import main; main()"
_LAST_WAIT = 60.0
"""Seconds that the end of a run waits for the rating of its last version."""


class RatingProcess(Protocol):
    """A process that rates, with these members of ``subprocess.Popen``."""

    returncode: Any

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""

    def kill(self) -> None:
        """End the process."""

    def communicate(self) -> Any:
        """Wait for the end of the process."""


StartRatings: TypeAlias = Callable[[RatingTask, Path], RatingProcess]
"""Function that starts a process with a task and a file for its errors."""


def start_here(task: RatingTask, log: Path) -> RatingProcess:
    """Start a process of this machine that rates."""
    with open_to_append(log) as errors:
        return start_helper(_START, pickled("the game to be rated", task), errors)


class RunRatings:
    """The ratings of a run; errors of the rating process are printed and do not stop the training.

    Args:
        session: The run.
        start: Function that starts the process.
    """

    def __init__(self, session: Session, start: StartRatings = start_here) -> None:
        self._session, self._run = session, session.run
        self._process: RatingProcess | None = None
        self._log = self._run.path / "ratings.log"
        self._seen = 0.0
        if session.config.selfplay.ratings:
            self._start(start)

    def after_update(self) -> dict[str, float]:
        """Save a version if it is time; return the newest rating as numbers to log."""
        if self._process is None:
            return {}
        own = self._session
        if own.updates % own.config.selfplay.every == 0:
            self._put_down()
        if self._process.poll() is not None:
            self._complain()
            return {}
        return self._known()

    def close(self, *, finished: bool) -> None:
        """End the process; if the run is over, wait until it has rated the last version.

        The time is limited; a message names the versions without a rating, and the reason.
        """
        if self._process is None:
            return
        reason = "the training ended before"
        try:
            if finished:
                self._put_down()
                self._wait()
                reason = f"{_LAST_WAIT:g} s after the end of the training were not enough"
                if self._process.poll() is not None:
                    self._complain()
                    return
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
        if unrated := self._unrated():
            games = self._session.config.selfplay.rating_games
            complain(
                f"{len(unrated)} versions in {self._run.rated} have no rating, the newest is "
                f"{unrated[-1]}: {reason}. A resumed run rates the newest version. Fewer games "
                f"(selfplay.rating_games, now {games}) take less time."
            )

    def _wait(self) -> None:
        """Wait a limited time for the versions that are not rated yet."""
        assert self._process is not None
        end, is_said = time.monotonic() + _LAST_WAIT, False
        while time.monotonic() < end and self._process.poll() is None and self._unrated():
            if not is_said:
                say(f"The last version is being rated, for {_LAST_WAIT:g} s at most.")
                is_said = True
            time.sleep(0.1)

    def _start(self, start: StartRatings) -> None:
        own = self._session
        refuse_link(self._run.rated)
        task = RatingTask(
            self._run.path.absolute(), own.game, own.config, own.net.obs_space, own.net.action_space
        )
        with writing(self._log):
            write_file(self._log, b"")  # replaces a link, if there is one
            self._process = start(task, self._log)

    def _put_down(self) -> None:
        for number, learner in enumerate(self._session.learners):
            name = f"step_{self._session.steps:012d}" + (f"_policy_{number}" if number else "")
            if not (self._run.rated / name).exists():
                facts = {"steps": self._session.steps}
                save_network(self._run.rated / name, learner.state.acting.state_dict(), facts)

    def _unrated(self) -> list[str]:
        """Return the names of versions that are not rated yet."""
        with contextlib.suppress(RunFolderError):
            rated = {own.player for own in read_ratings(self._run)}
            return sorted({own.name for own in self._run.rated.glob("step_*")} - rated)
        return []

    def _known(self) -> dict[str, float]:
        with contextlib.suppress(OSError, RunFolderError):
            changed = os.stat(self._run.ratings_file).st_mtime
            if changed == self._seen:
                return {}
            self._seen = changed
            versions = [own for own in read_ratings(self._run) if own.steps is not None]
            newest = max(versions, key=lambda own: version_steps(own.player), default=None)
            if newest is not None:
                return {
                    "rating/newest": newest.rating,
                    "rating/deviation": newest.deviation,
                    "rating/steps": float(version_steps(newest.player)),
                }
        return {}

    def _complain(self) -> None:
        """Print the error that ended the process, once."""
        assert self._process is not None
        status = self._process.returncode
        self._process.communicate()
        self._process = None
        text = self._log.read_text(errors="replace").strip() if self._log.is_file() else ""
        last = "\n".join(text.splitlines()[-6:])
        complain(
            f"the rating process failed (exit status {status}); the training continues without it. "
            f"{self._log} contains:\n{last}"
        )


@contextlib.contextmanager
def open_ratings(session: Session, start: StartRatings | None = None) -> Iterator[RunRatings]:
    """Start the rating process of a run, on this machine by default; it ends with the block.

    Raises:
        ConfigError: The game is for one player.
    """
    if session.config.selfplay.ratings and not session.game.has_seats:
        raise ConfigError(
            f"selfplay.ratings is set, and {session.game.name} is not a game for several players",
            expected="selfplay.ratings=false, or a game with seats",
        )
    ratings, finished = RunRatings(session, start or start_here), False
    try:
        yield ratings
        finished = session.steps >= session.config.total_timesteps
    finally:
        ratings.close(finished=finished)
