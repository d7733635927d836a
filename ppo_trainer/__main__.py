"""``python -m ppo_trainer env=minesweeper``; ``--help`` shows every setting."""

from __future__ import annotations

import sys

import hydra
import torch
from omegaconf import DictConfig, OmegaConf

from entity_env.command_line import version_text
from ppo_trainer.cli import INTERRUPTED, run_main
from ppo_trainer.overrides import hydra_arguments, register_base, resumed_config
from ppo_trainer.screen import say
from ppo_trainer.train import train


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def job(composed: DictConfig) -> None:
    """Train with the composed settings; everything below knows plain dataclasses only."""
    values = OmegaConf.to_container(composed, resolve=True)

    def run() -> None:
        if train(resumed_config(values)).interrupted:
            sys.exit(INTERRUPTED)

    run_main(run)


def main() -> None:
    """Hand the command line to Hydra."""
    if "--version" in sys.argv[1:]:  # Hydra would tell its own
        say(f"{version_text()}, torch {torch.__version__}", is_read=True)
        return
    sys.argv[1:] = hydra_arguments(sys.argv[1:])
    register_base()
    job()


if __name__ == "__main__":
    run_main(main)
