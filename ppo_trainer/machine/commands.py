"""Parts of all commands: errors as text without a traceback, and exit codes."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from entity_env import EntityEnvError
from entity_env.command_line import version_text
from ppo_trainer.machine.screen import complain
from ragged_net import RaggedNetError

__all__ = ["INTERRUPTED", "command_parser", "python_command", "run_main"]

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended."""


def python_command() -> str:
    """Return the command for this interpreter, ``python`` only if it is that."""
    if shutil.which("python") == sys.executable:
        return "python"
    path = Path(sys.executable)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))


def command_parser(
    name: str, description: str | None, *, trusts: bool = True
) -> argparse.ArgumentParser:
    """Return the parser of ``python -m ppo_trainer.<name>``, with the flags of all commands.

    Args:
        name: The name of the module.
        description: Its docstring.
        trusts: True if it may import what a run names, and has the flag ``--trust``.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m ppo_trainer.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version_text())
    if trusts:
        parser.add_argument(
            "--trust",
            action="store_true",
            help="import the code that the run names, whoever made it",
        )
    return parser


def run_main(main: Callable[[], None]) -> None:
    """Run a command; a mistake of the user is explained on stderr, with the exit code 2."""
    _open_standard_streams()
    try:
        main()
    except (EntityEnvError, RaggedNetError) as error:
        complain(f"{type(error).__name__}: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        complain("stopped")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        sys.exit(1)
    finally:
        _drop_unread()


def _drop_unread() -> None:
    """Drop output that nobody reads, so that Python does not complain about it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """Open closed standard streams, so that no other file gets their numbers and output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
