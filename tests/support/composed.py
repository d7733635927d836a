"""Command lines of the trainer without a process for each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

import ppo_trainer
from ppo_trainer import TrainConfig
from ppo_trainer.command_line.overrides import hydra_arguments, register_base, resumed_config

CONF = Path(ppo_trainer.__file__).parent / "conf"


@contextmanager
def composed(*arguments: str) -> Iterator[Any]:
    """Return the settings that Hydra composes from command-line arguments of ``ppo_trainer``."""
    register_base()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        whole = compose("config", hydra_arguments(list(arguments)), return_hydra_config=True)
        HydraConfig.instance().set_config(whole)
        values = OmegaConf.to_container(
            OmegaConf.masked_copy(whole, [k for k in whole if k != "hydra"]), resolve=True
        )
        yield values


def from_command_line(*arguments: str) -> TrainConfig:
    """The settings that ``python -m ppo_trainer`` would train with."""
    with composed(*arguments) as values:
        return resumed_config(values)
