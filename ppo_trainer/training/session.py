"""A run in progress: its parts, its checkpoints, and what an error leaves."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from entity_env import VecEnv
from entity_env.errors import (
    CheckpointError,
    DivergedError,
    EntityEnvError,
    NonFiniteError,
    RunFolderError,
)
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import UNIMPORTABLE, Game, name_in_script
from ppo_trainer.experience.row_history import RowHistory
from ppo_trainer.machine.commands import training_command
from ppo_trainer.machine.ranks import LONE, Ranks
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.players.game_rows import GameRows
from ppo_trainer.players.self_play import SelfPlay
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.recent_episodes import RecentEpisodes
from ppo_trainer.reporting.shown_metrics import with_screen_names
from ppo_trainer.runs.checkpoint import (
    Content,
    TrainState,
    latest_checkpoint,
    save_state,
    saved_at,
    with_all_rows,
)
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.training.goals import BestNetwork, check_metrics, goals_reached
from ppo_trainer.training.population import Learner, save_others
from ragged_net import RaggedNet

__all__ = ["Session", "saved_on_error"]


@dataclass(frozen=True)
class Session:
    """The parts of a training, which callbacks get.

    Args:
        config: The settings.
        game: Game, for evaluations.
        vec_env: Rows to train on.
        device: Device of the network.
        learners: All networks that are trained: one, or those of a population.
        run: Run folder.
        recent: Means over the last episodes.
        best: Best network, if ``checkpoint.best`` is set.
        players: Self-play, if there is any.
        ranks: Processes that train together; the first one writes the run folder.
        unfinished: The beginning of the update in progress.
    """

    config: TrainConfig
    game: Game
    vec_env: VecEnv
    device: torch.device
    learners: tuple[Learner, ...]
    run: RunFolder
    recent: RecentEpisodes
    best: BestNetwork | None = None
    players: SelfPlay | None = None
    ranks: Ranks = LONE
    unfinished: Unfinished = field(default_factory=lambda: Unfinished())

    @property
    def state(self) -> TrainState:
        """Everything that the training of the network, or of policy 0, changes."""
        return self.learners[0].state

    @property
    def others_at_seats(self) -> list[RaggedNet]:
        """The networks of the policies from 1 on that play, if each policy has its own seats."""
        others = self.learners[1:] if self.config.selfplay.seats_have_policies else ()
        return [learner.state.acting for learner in others]

    @property
    def net(self) -> RaggedNet:
        """The network that is trained."""
        return self.state.net

    @property
    def updates(self) -> int:
        """The number of updates done."""
        return self.state.update

    @property
    def steps(self) -> int:
        """The number of frames trained on."""
        return self.state.steps

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers of the last update, as in ``metrics.jsonl``."""
        return self.state.metrics

    @property
    def means(self) -> dict[str, float]:
        """Means over the last episodes, and those of the last evaluation as ``eval/<metric>``.

        Metrics that have another name on the screen have both names here.
        """
        return with_screen_names(self.recent.means | self.state.evaluated)

    @property
    def evaluations(self) -> list[Evaluation]:
        """The players of the last evaluation."""
        return self.state.evaluations

    def goals_reached(self) -> str | None:
        """Return a text on the goals that end the training, or None."""
        return goals_reached(self.config, self.means, self.recent.is_full)

    def note(self, metrics: dict[str, float]) -> None:
        """Store the numbers of an update, and its network if it is the best.

        Raises:
            SettingError: The settings name an unknown metric.
        """
        self.state.metrics = metrics
        check_metrics(self.config, self.means, self.recent.is_full)
        if self.best is not None:
            self.best.compare(self.state, self.means, self.recent.is_full)

    def resume_command(self, change: str = "") -> str:
        """Return the command that resumes the run, with a changed setting if given."""
        path = str(self.run.path)
        if self.config.env["_target_"].startswith(UNIMPORTABLE):
            # A command cannot import a class that lives in a script or notebook.
            changed = f", {change.partition('.')[0]}=..." if change else ""
            env = name_in_script(self.config)
            return f"from ppo_trainer import resume; resume({path!r}, env={env}{changed})"
        return f"{training_command()} resume={shlex.quote(path)} {change}".rstrip()

    def final_steps(self) -> int:
        """Return the steps of the whole run: ``total_timesteps``, rounded up to whole rollouts."""
        left = max(self.config.total_timesteps - self.state.steps, 0)
        return self.state.steps + math.ceil(left / self.config.frames_per_update) * (
            self.config.frames_per_update
        )

    def begin_update(self) -> None:
        """Keep a copy of the present state, which ``save`` writes until the update has ended."""
        contents = tuple(content.copied() for content in self._contents())
        rows, own_states = self.vec_env, []
        while isinstance(rows, GameRows):
            own_states.append((rows, json.dumps(rows.own_state())))
            rows = rows.env
        history = rows if isinstance(rows, RowHistory) else None
        if history is not None:
            history.mark()
        self.unfinished.begun = Begun(contents, history, tuple(own_states))

    def end_update(self) -> None:
        """Drop the copy of ``begin_update``."""
        self.unfinished.begun = None

    def save(self) -> Path | None:
        """Write a checkpoint of the state between the last two updates, and return its folder.

        Of several processes the first one writes, or another one if the first has ended, and a
        resume starts fresh episodes (see ``save_together``). Returns None if another one writes.
        """
        if self.ranks.is_first:
            return self._save()
        try:
            with self.run.held():  # a first process that has not ended holds it
                return self._save()
        except RunFolderError:
            return None

    def _save(self) -> Path:
        begun = self.unfinished.begun
        contents = self._contents() if begun is None else list(begun.contents)
        if (folder := saved_at(self.run, contents[0].steps)) is not None:
            return folder
        envs = None
        if self.ranks.is_alone and begun is not None:
            envs = begun.envs()
        elif self.ranks.is_alone and self.vec_env.has_state():
            envs = self.vec_env.get_state()
        return self._write(contents, envs)

    def save_together(self) -> None:
        """Write a checkpoint with the rows of all processes; all must call this together."""
        if self.ranks.is_alone:
            self.save()
            return
        state, envs = with_all_rows(self.ranks, self.state, self.vec_env)
        if self.ranks.is_first and saved_at(self.run, self.steps) is None:
            self._write([Content.of(state)], envs)

    def _contents(self) -> list[Content]:
        """Return the contents of checkpoints of all networks that are trained."""
        if self.players is not None:
            self.state.players = self.players.get_state()
        for other in self.learners[1:]:
            other.state.update, other.state.steps = self.state.update, self.state.steps
        return [Content.of(learner.state) for learner in self.learners]

    def _write(self, contents: Sequence[Content], envs: list[Any] | None) -> Path:
        if self.best is not None:
            self.best.write(self.run)
        keep = self.config.checkpoint.keep
        save_others(self.run, contents[1:], keep, goes_on=envs is not None)
        folder = save_state(self.run, contents[0], envs, keep)
        if self.players is not None:
            self.players.remove_unneeded(self.run)
        return folder


@dataclass(frozen=True)
class Begun:
    """The state at the beginning of an update.

    Args:
        contents: Contents of the checkpoints of all networks, which training does not change.
        history: Rows that restore their state; None if they cannot.
        own_states: Rows around these with additional states, as JSON; the outermost is the first.
    """

    contents: tuple[Content, ...]
    history: RowHistory | None
    own_states: tuple[tuple[GameRows, str], ...]

    def envs(self) -> list[Any] | None:
        """Return the state of the rows; None if it cannot be restored."""
        try:
            state = None if self.history is None else self.history.marked_state()
        except Exception as error:  # the environment may be the cause of the failure
            warn(f"the episodes cannot be restored: {type(error).__name__}: {error}")
            state = None
        for rows, row_state in reversed(self.own_states):
            state = None if state is None else rows.around(state, json.loads(row_state))
        return state


@dataclass
class Unfinished:
    """The beginning of the update in progress; None between two updates."""

    begun: Begun | None = None


@contextmanager
def saved_on_error(session: Session) -> Iterator[None]:
    """Save the state between the last two updates if an error occurs; name the resume command."""
    try:
        yield
    except BrokenPipeError:  # raised between two updates, by this package's own output
        session.save()
        raise EntityEnvError(
            "the training stops, because nobody reads its output; it is saved",
            hint=f"to resume: {session.resume_command()}; to need no reader, append > log.txt",
        ) from None
    except KeyboardInterrupt:
        with suppress(CheckpointError):  # there is no checkpoint to resume from
            folder = latest_checkpoint(session.run)
            log(f"\nnot saved: what came after {folder}; to resume: {session.resume_command()}")
        raise
    except Exception as error:
        if session.run.config_file.exists() and (hint := _after_error(session, error)):
            if hasattr(error, "hint"):
                error.hint = f"{error.hint}; {hint}" if error.hint else hint
            else:
                error.add_note(hint)
        raise


def _after_error(session: Session, error: Exception) -> str | None:
    """Save a run that has failed, and return a text on how to resume it.

    Returns None in a process of several that has not saved it.
    """
    change = "optim.lr=..." if isinstance(error, NonFiniteError) else ""
    command = session.resume_command(change)
    if change:
        command += ", with smaller steps; also scale rewards that are far from 1 in the environment"
    if not isinstance(error, DivergedError):
        try:
            if (folder := session.save()) is None:
                return None
            return (
                f"nothing is lost: the state before it is saved in {folder}; to resume: {command}"
            )
        except Exception as failure:
            warn(f"the state before the error cannot be saved: {failure}")
    return f"to resume from the last checkpoint, {latest_checkpoint(session.run)}: {command}"
