"""The folder of a run, with everything needed to watch, resume or evaluate it."""

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

from entity_env import ActionSpace, ObsSpace
from entity_env.errors import RunFolderError, SettingError, SpaceError, shorten
from entity_env.storage.bounded_json import count_values, parse_json
from entity_env.storage.files import (
    folder_lock,
    fresh_name,
    is_leftover,
    read_file,
    remove,
    remove_leftovers,
    write_file,
)
from entity_env.storage.space_json import spaces_from_json, spaces_to_json
from ppo_trainer.config import TrainConfig, config_from_dict, config_to_dict
from ppo_trainer.machine.screen import log
from ppo_trainer.runs.bounded_yaml import parse_yaml, write_yaml
from ppo_trainer.runs.signature import KeyUnavailableError, sign

__all__ = ["RunFolder", "named_policy", "newest_run", "reading", "refuse_link", "writing"]

_MOST_CONFIG, _MOST_SPACES = 1 << 20, 1 << 22  # bytes
_SIGNATURE_LENGTH = 64  # hexadecimal digits
_MOST_PARTS = 100_000  # values in the JSON of spaces
_DAY = 86_400.0  # seconds


class _Within:
    """A path within a run folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: RunFolder, kind: type[RunFolder]) -> Path:
        """Return the path."""
        return run.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """A run folder and the paths in it."""

    path: Path

    config_file = _Within("config.yaml")
    """All settings, as YAML."""
    signature_file = _Within("config.signature")
    """The signature of the settings, if this user made them on this machine."""
    spaces_file = _Within("spaces.json")
    """The spaces of the network, as JSON."""
    metrics_file = _Within("metrics.jsonl")
    """One JSON object for each update."""
    evaluation_file = _Within("evaluation.json")
    """The evaluation at the end."""
    curve_file = _Within("curve.png")
    """The learning curves."""
    checkpoints = _Within("checkpoints")
    """The folder with a folder for each checkpoint."""
    snapshots = _Within("snapshots")
    """The folder with a folder for each earlier version that the run plays against."""
    rated = _Within("rated")
    """The folder with a folder for each version that is being rated."""
    ratings_file = _Within("ratings.jsonl")
    """One JSON object for each version and reference player that has a rating."""
    clone = _Within("clone")
    """The network that the run began with, if ``ppo.clone_kl`` keeps the policy close to it."""
    best = _Within("best")
    """The best network by ``checkpoint.best``."""

    @classmethod
    def new(cls, config: TrainConfig) -> RunFolder:
        """Make a hidden folder with the settings; ``publish`` renames it to its final name.

        A folder with its final name therefore always contains a checkpoint.
        """
        path = fresh_name(Path(config.run_dir) / "run")
        _remove_unpublished(path.parent)
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
        """Rename a new folder; if the name is taken, append the next free number."""
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
                log(f"{self.path.with_name(name)} exists; the folder of this run is {path}")
            try:
                return RunFolder(self.path.rename(path))
            except OSError as error:
                if not os.path.lexists(path):  # otherwise another run has just taken the name
                    raise RunFolderError(
                        f"the run folder {str(path)!r} cannot be made: {error}"
                    ) from error

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open an existing run folder."""
        run = cls(Path(path).expanduser())
        with reading(run.config_file):
            found = _exists(run.config_file)
        if not found:
            raise RunFolderError(
                f"{str(path)!r} is not a run folder",
                expected="a folder that contains config.yaml and checkpoints/",
                received="no config.yaml" if os.path.exists(run.path) else "nothing there",
                hint=_meant(run.path),
            )
        return run

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run, so that no other process trains it; a killed process releases the lock.

        Unfinished files of killed processes in it are removed.

        Raises:
            RunFolderError: Another process trains the run.
        """
        with ExitStack() as stack, writing(self.path):
            try:
                is_alone = stack.enter_context(folder_lock(self.path))
            except BlockingIOError:
                raise RunFolderError(
                    f"the run {str(self.path)!r} is being trained by another process",
                    hint="wait until it has ended, or press Ctrl-C there, which saves the run",
                ) from None
            if is_alone:
                for place in (self.path, self.checkpoints):
                    remove_leftovers(place)
            stack = stack.pop_all()
        with stack:
            yield

    def read_values(self) -> dict[str, Any]:
        """Return the settings as nested dicts."""
        with reading(self.config_file):
            values = parse_yaml(read_file(self.config_file, _MOST_CONFIG))
        if not isinstance(values, dict):
            raise RunFolderError(f"{self.config_file} has no settings", received=shorten(values))
        return values

    def read_config(self) -> TrainConfig:
        """Return the settings."""
        values = self.read_values()
        try:
            return config_from_dict(values)
        except SettingError as error:
            raise error.located(str(self.config_file)) from error.__cause__

    def read_signature(self) -> str | None:
        """Return the signature of the settings, or None."""
        try:
            return read_file(self.signature_file, _SIGNATURE_LENGTH + 1).decode("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None

    def read_spaces(self) -> tuple[ObsSpace, dict[str, ActionSpace]]:
        """Return the spaces of the run's network."""
        with reading(self.spaces_file):
            text = read_file(self.spaces_file, _MOST_SPACES)
            return spaces_from_json(parse_json(text, _MOST_PARTS))

    def write_spaces(self, obs_space: ObsSpace, action_space: Mapping[str, ActionSpace]) -> None:
        """Write the spaces of the network."""
        text = (json.dumps(spaces_to_json(obs_space, action_space), indent=1) + "\n").encode()
        if len(text) > _MOST_SPACES or count_values(text) > _MOST_PARTS:
            raise RunFolderError(
                "the spaces are too large to be saved with a network",
                expected=f"at most {_MOST_PARTS:,} features, entity types, actions and labels",
                received=f"up to {count_values(text):,}, {len(text):,} bytes",
            )
        with writing(self.spaces_file):
            write_file(self.spaces_file, text)

    def write_config(self, config: TrainConfig) -> None:
        """Replace the settings in one step, and sign them if this user has a key."""
        try:
            text = write_yaml(config_to_dict(config))
        except ValueError as error:
            raise SettingError(f"the settings do not fit into config.yaml: {error}") from error
        with writing(self.config_file):
            write_file(self.config_file, text)
        with suppress(KeyUnavailableError), writing(self.signature_file):
            # A run can train without a signature.
            write_file(self.signature_file, f"{sign(config)}\n".encode())


def _remove_unpublished(folder: Path) -> None:
    """Remove the hidden folders of starts that were killed a day ago or more.

    A process locks its folder soon after it has made it, but other computers may not see its lock.
    """
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            age = time.time() - entry.stat(follow_symlinks=False).st_mtime
            if age > _DAY and is_leftover(entry.name) and entry.is_dir(follow_symlinks=False):
                with suppress(BlockingIOError), folder_lock(entry.path):
                    remove(Path(entry.path))


def refuse_link(folder: Path) -> None:
    """Raise RunFolderError for a link in a run folder, which may lead to files of others."""
    if folder.is_symlink():
        raise RunFolderError(
            f"{folder} is a link; nothing is written through links within a run folder",
            hint="link the run's folder itself, or remove the link",
        )


def newest_run(folder: Path = Path("runs")) -> Path:
    """Return the run in ``folder`` that was begun or resumed last, and print its path.

    Raises:
        RunFolderError: There is no run.
    """
    begun = {file.parent: file.stat().st_mtime for file in folder.glob("[!.]*/config.yaml")}
    if not begun:
        raise RunFolderError(
            f"there is no run in {folder.absolute()}",
            expected="a run folder, or a folder 'runs' in this folder with runs in it",
        )
    newest = max(begun, key=lambda run: begun[run])
    log(f"run folder: {newest}")
    return newest


def named_policy(path: str | Path) -> Path:
    """Return the folder of a policy for a path such as ``<run>:1``, policy 1 of a population.

    Policy 0 is the run itself. Any other path is returned as it is.
    """
    found = re.fullmatch(r"(.+):(\d+)", str(path))
    if found is None or os.path.lexists(path):
        return Path(path)
    return Path(found[1]) / f"policy_{found[2]}" if int(found[2]) else Path(found[1])


def is_one_policy(path: str | Path) -> bool:
    """Return True if a path names one policy of a population, and not the run with all of them."""
    folder = Path(path).absolute()
    in_run = RunFolder(folder.parent).checkpoints.is_dir()
    return named_policy(path) != Path(path) or bool(
        in_run and re.fullmatch(r"policy_\d+", folder.name)
    )


def _meant(path: Path) -> str | None:
    """Return a hint: the run with a similar name, or the newest runs in the same folder."""
    with suppress(OSError):  # no hint if the folder cannot be read
        return _guess(path)
    return None


def _guess(path: Path) -> str | None:
    if re.fullmatch(r"policy_\d+", path.name) and (path.parent / "config.yaml").is_file():
        others = len(list(path.parent.glob("policy_*/config.yaml")))
        return f"the run {str(path.parent)!r} has the policies 0 to {others}"
    if path.parent.name == "checkpoints" and (path.parent.parent / "config.yaml").is_file():
        return f"that is a checkpoint of the run {str(path.parent.parent)!r}"
    if (path.parent / "config.yaml").is_file() and (path / "model.safetensors").is_file():
        return f"that is a network without training state; resume the run {str(path.parent)!r}"
    if (path.parent / "config.yaml").is_file() and path.name == "best":
        best = "checkpoint.best=<metric>"
        return f"the run {str(path.parent)!r} has no best network: train it with {best}"
    if (path.parent / "config.yaml").is_file() and path.is_file():
        return f"that is a file of the run {str(path.parent)!r}"
    beside, usual = (p.glob("*/config.yaml") for p in (path.parent, Path(TrainConfig.run_dir)))
    found = [file.parent for file in beside] or [file.parent for file in usual]
    found = [run for run in found if not run.name.startswith(".")]
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
    """Turn errors of writing a file into RunFolderError."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"{file} cannot be written: {error}") from error


@contextmanager
def reading(file: Path, hint: str | None = None) -> Iterator[None]:
    """Turn errors of reading a file, or of its content, into RunFolderError."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        what = error.what if isinstance(error, SpaceError) else str(error)
        raise RunFolderError(f"{file} cannot be read: {what}", hint=hint) from error


def _exists(path: Path) -> bool:
    """Return True if the path exists; raise OSError if access to it is denied."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
