"""Train: ``python -m ppo_trainer env=minesweeper``; ``--help`` shows every setting."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from entity_env.command_line import version_text
from entity_env.errors import EntityEnvError, SettingError
from ppo_trainer.command_line.configs import config_of_words
from ppo_trainer.command_line.settings_help import general_help, settings_help
from ppo_trainer.command_line.sweep import SweptRun, sweep_table
from ppo_trainer.command_line.words import combinations
from ppo_trainer.loop import train
from ppo_trainer.machine.commands import INTERRUPTED, run_main
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.preparation import planned_settings
from ppo_trainer.reporting.settings_text import settings_text

_FLAGS = {"-h": "--help", "-m": "--multirun"}


def main() -> None:
    """Run the command line."""
    words = [_FLAGS.get(word, word) for word in sys.argv[1:]]
    flags = {word for word in words if word in ("--help", "--multirun", "--show", "--version")}
    words = [word for word in words if word not in flags]
    if "--version" in flags:
        log(f"{version_text()}, torch {torch.__version__}", is_read=True)
    elif "--help" in flags:
        log(settings_help(words[0]) if len(words) == 1 else general_help(), is_read=True)
    elif "--show" in flags:
        if "--multirun" in flags:
            raise SettingError("--show shows the settings of one run, without -m")
        log(settings_text(planned_settings(config_of_words(words))), is_read=True)
    elif "--multirun" in flags:
        _sweep(combinations(words))
    elif train(config_of_words(words)).interrupted:
        sys.exit(INTERRUPTED)


def _sweep(runs: Sequence[Sequence[str]]) -> None:
    """Train one run after the other; if one fails, the others still run."""
    swept: list[SweptRun] = []
    try:
        for words in runs:
            swept.append(_run_of_sweep(words))
            result = swept[-1].result
            if result is not None and result.interrupted:
                sys.exit(INTERRUPTED)
    finally:
        if len(swept) > 1:
            log(f"\n{sweep_table(swept)}", is_read=True)
    if any(run.failure is not None for run in swept):
        sys.exit(1)


def _run_of_sweep(words: Sequence[str]) -> SweptRun:
    settings = dict(word.lstrip("+").partition("=")[::2] for word in words)
    try:
        return SweptRun(settings, train(config_of_words(words)))
    except EntityEnvError as error:
        warn(f"{type(error).__name__}: {error}")
        return SweptRun(settings, failure=type(error).__name__)


if __name__ == "__main__":
    run_main(main)
