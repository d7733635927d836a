"""The folder of a run: everything needed to watch, resume or evaluate it."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from entity_env import ActionSpace, ObsSpace
from entity_env.errors import SpaceError
from entity_env.space_json import spaces_from_json, spaces_to_json
from ppo_trainer.config import TrainConfig, config_from_dict, config_to_dict
from ppo_trainer.errors import ConfigError, RunFolderError
from ppo_trainer.screen import say
from ppo_trainer.signature import SIGNATURE_LENGTH, KeyUnavailableError, sign

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["RunFolder", "writing"]


@dataclass(frozen=True)
class RunFolder:
    """Paths within a run folder."""

    path: Path

    @property
    def config_file(self) -> Path:
        """All settings, as YAML."""
        return self.path / "config.yaml"

    @property
    def signature_file(self) -> Path:
        """Says that this user made these settings on this machine: ``ppo_trainer.signature``."""
        return self.path / "config.signature"

    @property
    def spaces_file(self) -> Path:
        """The spaces that the network was made for, as JSON; runs of old may lack it."""
        return self.path / "spaces.json"

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

    @property
    def best(self) -> Path:
        """The best network, where ``checkpoint.best`` says what is good."""
        return self.path / "best"

    @classmethod
    def draft(cls, config: TrainConfig) -> RunFolder:
        """A new hidden folder that holds the settings; ``publish`` gives it its name.

        What stands under its final name has a checkpoint, however early it is killed.
        """
        path = Path(config.run_dir) / f".draft-{os.getpid()}-{time.time_ns()}"
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise RunFolderError(
                f"no run folder can be made in {config.run_dir!r}: {error}"
            ) from error
        run = cls(path)
        try:
            run.write_config(config)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return run

    def publish(self, config: TrainConfig) -> RunFolder:
        """Rename a draft; where the name is taken, the next free number goes behind it."""
        target = re.sub(
            r"[^a-z0-9_]+", "-", config.env["_target_"].rpartition(".")[2].lower()
        ).strip("-")
        moment = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        name = config.run_name or f"{target}-{moment}-seed{config.seed}"
        number = 1
        path = self.path.with_name(name)
        while True:
            if os.path.lexists(path):
                number += 1
                path = self.path.with_name(f"{name}-{number}")
                continue
            if config.run_name and number > 1:
                say(f"{self.path.with_name(name)} exists: this run is {path}")
            try:
                return RunFolder(self.path.rename(path))
            except OSError as error:
                if not os.path.lexists(path):  # else another run was quicker
                    raise RunFolderError(
                        f"the run folder {str(path)!r} cannot be made: {error}"
                    ) from error

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run folder."""
        run = cls(Path(path).expanduser())
        if not run.config_file.is_file():
            raise RunFolderError(
                f"{str(path)!r} is not a run folder",
                expected="a folder that holds config.yaml and checkpoints/",
                received="nothing there" if not run.path.exists() else "no config.yaml",
                hint=_meant(run.path),
            )
        return run

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training this run; one that is killed lets go of it, too.

        Raises:
            RunFolderError: Another one trains it.
        """
        with ExitStack() as stack:
            if fcntl is not None:
                try:
                    folder = os.open(self.path, os.O_RDONLY)
                    stack.callback(os.close, folder)
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise RunFolderError(
                        f"the run {str(self.path)!r} is being trained by another process",
                        hint="wait until it has ended, or stop it: Ctrl-C there saves the run",
                    ) from None
                except OSError:
                    pass  # some file systems cannot tell
            yield

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
        try:
            return config_from_dict(self.read_values())
        except ConfigError as error:
            raise error.located(str(self.config_file)) from error.__cause__

    def read_signature(self) -> str | None:
        """What stands beside the settings to say who made them, if anything does."""
        try:
            if not self.signature_file.is_file():  # a pipe would never end
                return None
            with self.signature_file.open(encoding="ascii") as file:
                return file.read(SIGNATURE_LENGTH + 1).strip()
        except (OSError, UnicodeDecodeError):
            return None

    def read_spaces(self) -> tuple[ObsSpace, dict[str, ActionSpace]] | None:
        """The spaces that the network was made for; None where the run does not know them."""
        if not self.spaces_file.exists():
            return None
        try:
            return spaces_from_json(json.loads(self.spaces_file.read_text()))
        except (OSError, ValueError, RecursionError) as error:
            what = error.what if isinstance(error, SpaceError) else str(error)
            raise RunFolderError(
                f"{self.spaces_file} cannot be read: {what}",
                hint="without this file, the network is made for the spaces of the environment",
            ) from error

    def write_spaces(self, obs_space: ObsSpace, action_space: Mapping[str, ActionSpace]) -> None:
        """Keep the spaces that the network is made for."""
        text = json.dumps(spaces_to_json(obs_space, action_space), indent=1)
        with writing(self.spaces_file):
            self.spaces_file.write_text(text + "\n")

    def write_config(self, config: TrainConfig) -> None:
        """Replace the settings in one step, and sign them where this user has a key."""
        self._replace(self.config_file, yaml.safe_dump(config_to_dict(config), sort_keys=False))
        with suppress(KeyUnavailableError):  # a run without a signature trains all the same
            self._replace(self.signature_file, sign(config) + "\n")

    def _replace(self, file: Path, text: str) -> None:
        temporary = file.with_suffix(".tmp")
        with writing(file):
            temporary.write_text(text)
            temporary.replace(file)


def _meant(path: Path) -> str | None:
    """Which run somebody may have had in mind, and else the newest ones beside it."""
    if path.parent.name == "checkpoints" and (path.parent.parent / "config.yaml").is_file():
        return f"that is a checkpoint of the run {str(path.parent.parent)!r}"
    if (path.parent / "config.yaml").is_file() and (path / "model.safetensors").is_file():
        return f"that is a network to play with; what goes on is the run {str(path.parent)!r}"
    if (path.parent / "config.yaml").is_file() and path.name == "best":
        best = "checkpoint.best=<metric>"
        return f"the run {str(path.parent)!r} has kept no best network: train it with {best}"
    if (path.parent / "config.yaml").is_file() and path.is_file():
        return f"that is a file of the run {str(path.parent)!r}"
    beside, usual = (p.glob("*/config.yaml") for p in (path.parent, Path(TrainConfig.run_dir)))
    found = [file.parent for file in beside] or [file.parent for file in usual]
    found.sort(key=lambda run: run.stat().st_mtime, reverse=True)
    runs = {run.name: str(run) for run in found}
    close = [name for name in runs if path.name and name.startswith(path.name)]
    close += get_close_matches(path.name, runs, n=1, cutoff=0.6)
    if close:
        return f"did you mean {runs[close[0]]!r}?"
    newest = ", ".join(map(repr, islice(runs.values(), 5)))
    return f"the newest runs are {newest}" if runs else None


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Turn what a full disk, or one that cannot be written to, raises into a RunFolderError."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"{file} cannot be written: {error}") from error
