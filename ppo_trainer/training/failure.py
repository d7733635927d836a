"""Errors in a training, before which its state is saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from entity_env.errors import CheckpointError, DivergedError, EntityEnvError, NonFiniteError
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.runs.checkpoint import latest_checkpoint
from ppo_trainer.training.session import Session

__all__ = ["saved_on_error"]


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
        if session.ranks.is_first and session.run.config_file.exists():
            hint = _after_error(session, error)
            if hasattr(error, "hint"):
                error.hint = f"{error.hint}; {hint}" if error.hint else hint
            else:
                error.add_note(hint)
        raise


def _after_error(session: Session, error: Exception) -> str:
    """Save a run that has failed, and return a text on how to resume it."""
    change = "optim.lr=..." if isinstance(error, NonFiniteError) else ""
    command = session.resume_command(change)
    if change:
        command += ", with smaller steps; also scale rewards that are far from 1 in the environment"
    if not isinstance(error, DivergedError):
        try:
            folder = session.save()
            return (
                f"nothing is lost: the state before it is saved in {folder}; to resume: {command}"
            )
        except Exception as failure:
            warn(f"the state before the error cannot be saved: {failure}")
    return f"to resume from the last checkpoint, {latest_checkpoint(session.run)}: {command}"
