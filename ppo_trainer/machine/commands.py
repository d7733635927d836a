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
"""Exit code of a program that Ctrl-C ended."""


def python_command() -> str:
    """Return a command that starts this interpreter: ``python``, or its path."""
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
        name: Name of the module.
        description: Docstring of the module.
        trusts: True for a command that may import code that a run names; it gets the flag
            ``--trust``.
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
            help="import the code that the run names, also if somebody else made the run",
        )
    return parser


def run_main(main: Callable[[], None]) -> None:
    """Run a command; report a mistake of the user on stderr, with exit code 1.

    Exit code 2 stays with flags that the parser of a command does not know.
    """
    _open_standard_streams()
    try:
        main()
    except (EntityEnvError, RaggedNetError) as error:
        complain(f"{type(error).__name__}: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        complain("stopped")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        sys.exit(1)
    finally:
        _drop_unread()


def _drop_unread() -> None:
    """Drop output that nobody reads, so that Python reports no error when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """Open closed standard streams, so that no other file gets their descriptors and output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
