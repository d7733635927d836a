"""Common parts of the commands of this package."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from entity_env.command_line import INTERRUPTED, run_program, version_text

__all__ = ["INTERRUPTED", "command_parser", "python_command", "run_main", "training_command"]


def python_command() -> str:
    """Return a command that starts this interpreter: ``python``, or its path."""
    if shutil.which("python") == sys.executable:
        return "python"
    path = Path(sys.executable)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))


def training_command() -> str:
    """Return a command that trains as this process does: alone, or with others of ``torchrun``."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return f"{python_command()} -m ppo_trainer"
    machines, processes = os.environ["GROUP_WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]
    # The other flags, such as the address at which machines meet, are not known here.
    flags = f"--nproc-per-node={processes}" + (f" --nnodes={machines} ..." * (machines != "1"))
    return f"{python_command()} -m torch.distributed.run {flags} -m ppo_trainer"


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
    """Run a command, and exit with the status of ``run_program`` if it is not 0."""
    if status := run_program(main):
        sys.exit(status)
