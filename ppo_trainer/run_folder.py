"""The folder of a run: everything needed to watch, resume or evaluate it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ppo_trainer.config import TrainConfig, config_from_dict, config_to_dict
from ppo_trainer.errors import RunFolderError

__all__ = ["RunFolder"]


@dataclass(frozen=True)
class RunFolder:
    """Paths within a run folder."""

    path: Path

    @property
    def config_file(self) -> Path:
        """All settings, as YAML."""
        return self.path / "config.yaml"

    @property
    def metrics_file(self) -> Path:
        """One JSON object for each update."""
        return self.path / "metrics.jsonl"

    @property
    def evaluation_file(self) -> Path:
        """The evaluation at the end."""
        return self.path / "evaluation.json"

    @property
    def curve_file(self) -> Path:
        """The learning curves."""
        return self.path / "curve.png"

    @property
    def checkpoints(self) -> Path:
        """One folder for each checkpoint."""
        return self.path / "checkpoints"

    @classmethod
    def create(cls, config: TrainConfig) -> RunFolder:
        """Make a new folder and write the settings into it."""
        run = cls(_unused(config))
        run.write_config(config)
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run folder."""
        run = cls(Path(path))
        if not run.config_file.is_file():
            raise RunFolderError(
                f"{str(path)!r} is not a run folder",
                expected="a folder that holds config.yaml and checkpoints/",
                received="nothing there" if not run.path.exists() else "no config.yaml",
                options=[str(p.parent) for p in sorted(run.path.parent.glob("*/config.yaml"))[-5:]]
                or None,
            )
        return run

    def read_values(self) -> dict[str, Any]:
        """The settings as nested dicts."""
        try:
            values = yaml.safe_load(self.config_file.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RunFolderError(f"{self.config_file} cannot be read: {error}") from error
        if not isinstance(values, dict):
            raise RunFolderError(f"{self.config_file} holds no settings", received=repr(values))
        return values

    def read_config(self) -> TrainConfig:
        """The settings."""
        return config_from_dict(self.read_values())

    def write_config(self, config: TrainConfig) -> None:
        """Replace the settings in one step."""
        temporary = self.config_file.with_suffix(".tmp")
        temporary.write_text(yaml.safe_dump(config_to_dict(config), sort_keys=False))
        temporary.replace(self.config_file)


def _unused(config: TrainConfig) -> Path:
    """A new folder; where the name is taken, with the next free number behind it."""
    target = str(config.env["_target_"]).rpartition(".")[2].lower()
    moment = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = config.run_name or f"{target}-{moment}-seed{config.seed}"
    for number in range(1, 10_000):
        path = Path(config.run_dir) / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFolderError(f"the run folder {str(path)!r} cannot be made: {error}") from error
        return path
    raise RunFolderError(f"no free name for a run folder like {name!r}", hint="set run_name")
