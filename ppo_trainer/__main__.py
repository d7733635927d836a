"""Train: ``python -m ppo_trainer env=minesweeper``; ``--help`` shows every setting."""

from __future__ import annotations

import re
import sys
from typing import Any

import hydra
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from entity_env import EntityEnvError
from entity_env.command_line import version_text
from entity_env.errors import SettingError
from ppo_trainer.command_line.overrides import (
    config_of_words,
    hydra_arguments,
    register_base,
    resumed_config,
)
from ppo_trainer.command_line.settings_help import settings_help
from ppo_trainer.command_line.sweep import SweptRun, settings_of, sweep_table
from ppo_trainer.machine.commands import INTERRUPTED, run_main
from ppo_trainer.machine.screen import complain, say
from ppo_trainer.reporting.settings_text import settings_text
from ppo_trainer.train import planned_settings, train


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def job(composed: DictConfig) -> None:
    """Train with the composed settings, as plain dataclasses."""

    def run() -> None:
        try:
            values = OmegaConf.to_container(composed, resolve=True)
        except OmegaConfBaseException as error:
            raise SettingError(
                f"a setting refers to something unknown: {str(error).splitlines()[0]}",
                expected="${name} with the name of another setting, such as ${seed}",
            ) from error
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            _run_of_sweep(values)
        elif train(resumed_config(values)).interrupted:
            sys.exit(INTERRUPTED)

    run_main(run)


_SWEEP: list[SweptRun] = []


def _run_of_sweep(values: Any) -> None:
    """Train one run of a sweep; if it fails, the others still run."""
    settings = settings_of(HydraConfig.get().overrides.task)
    try:
        result = train(resumed_config(values))
    except EntityEnvError as error:
        _SWEEP.append(SweptRun(settings, failure=type(error).__name__))
        complain(f"{type(error).__name__}: {error}")
        return
    _SWEEP.append(SweptRun(settings, result))
    if result.interrupted:
        sys.exit(INTERRUPTED)


def main() -> None:
    """Run the command line with Hydra."""
    if "--version" in sys.argv[1:]:  # Hydra would print its own version
        say(f"{version_text()}, torch {torch.__version__}", is_read=True)
        return
    if sys.argv[1:2] == ["--help"] and len(sys.argv) == 3 and re.fullmatch(r"[\w.]+", sys.argv[2]):
        say(settings_help(sys.argv[2]), is_read=True)
        return
    if "--show" in sys.argv[1:]:
        words = [word for word in sys.argv[1:] if word != "--show"]
        say(settings_text(planned_settings(config_of_words(words))), is_read=True)
        return
    sys.argv[1:] = hydra_arguments(sys.argv[1:])
    register_base()
    try:
        job()
    finally:
        if len(_SWEEP) > 1:
            say(f"\n{sweep_table(_SWEEP)}", is_read=True)
    if any(run.failure is not None for run in _SWEEP):
        sys.exit(1)


if __name__ == "__main__":
    run_main(main)
