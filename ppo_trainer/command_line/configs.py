"""The settings of a command line, of a new or of a resumed run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from entity_env.errors import SettingError, shorten
from entity_env.registry import path_settings, resolve
from entity_env.storage.files import write_file
from ppo_trainer.command_line.composition import (
    CONF,
    GROUPS,
    Setting,
    composed,
    put,
    read_recipe,
    read_settings,
)
from ppo_trainer.command_line.words import read_word
from ppo_trainer.config import TrainConfig, config_from_dict, config_to_dict
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.trust import require_trust
from ppo_trainer.settings.build import leaves, path_names

__all__ = ["config_of", "config_of_words", "recipe", "write_recipe"]


def config_of_words(words: Sequence[str]) -> TrainConfig:
    """Return the config of ``python -m ppo_trainer <words>``, of a new or of a resumed run.

    Raises:
        SettingError: A name or a setting does not exist.
        UntrustedRunError: The resumed run names code and was made by somebody else, and there is
            neither ``trust=true`` nor another environment.
    """
    settings = list(_read(words))
    values = composed(settings)
    trust = values.pop("trust", None)
    if values.get("resume") is not None:
        return _resumed(values, settings, trust=False if trust is None else trust)
    if trust is not None:
        raise SettingError("trust= applies to a resumed run only", hint="add resume=<run>")
    return config_from_dict(values)


def recipe(name: str, *settings: str) -> TrainConfig:
    """Return the config of ``python -m ppo_trainer env=<name> <settings>``.

    For example ``train(recipe("xor", "seed=3"))``.

    Raises:
        SettingError: A name or a setting that does not exist.
    """
    return config_of_words([f"env={name}", *settings])


def config_of(settings: Sequence[str], purpose: str) -> TrainConfig:
    """Return the config of ``python -m ppo_trainer <settings>``, for another command.

    Args:
        settings: Settings such as ``env=minesweeper`` and ``seed=3``.
        purpose: Purpose of the environment, for errors, such as "tune for".

    Raises:
        SettingError: No environment is named, or a setting does not exist.
    """
    if not any(s.lstrip("+").startswith(("env=", "env._target_=")) for s in settings):
        raise SettingError(
            f"no environment to {purpose}",
            expected="env=minesweeper, or env._target_=my_pkg.MyEnv",
            received=shorten(list(settings)),
        )
    return config_of_words(settings)


def write_recipe(path: Path, changes: Mapping[str, Any]) -> None:
    """Write settings, given by their dotted names, as a file for ``experiment=FILE.yaml``."""
    values: dict[str, Any] = {}
    for name, value in changes.items():
        put(values, name.split("."), value)
    write_file(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True).encode())


def _read(words: Sequence[str]) -> Iterator[Setting]:
    """Yield the settings in words; ``experiment=FILE.yaml`` stands for those in the file.

    A target without ``env=`` has an environment without settings of its own.
    """
    names = {word.lstrip("+").partition("=")[0] for word in words}
    if "env._target_" in names and not {"env", "resume"} & names:
        yield Setting("env", "custom")
    paths = {*path_names(TrainConfig), *_paths_of_environment(words)}
    for word in words:
        name, _, text = word.lstrip("+").partition("=")
        if name == "experiment" and text.endswith((".yaml", ".yml")):
            for path, value in leaves(read_settings(Path(text))):
                yield Setting(path, value)
        else:
            yield read_word(word, paths)


def _paths_of_environment(words: Sequence[str]) -> list[str]:
    """Return the settings of the environment that are paths."""
    given = dict(word.lstrip("+").partition("=")[::2] for word in words)
    target, named = given.get("env._target_"), given.get("env", "minesweeper")
    if target is None and named in GROUPS["env"]:
        target = read_recipe(CONF / "env" / f"{named}.yaml").get("_target_")
    try:
        names = set() if target is None else path_settings(resolve(target)) - {"_target_"}
    except Exception:  # the reader of the settings names the mistake
        return []
    return [f"{group}.{name}" for group in ("env", "eval.env") for name in names]


def _resumed(values: Mapping[str, Any], settings: Sequence[Setting], *, trust: bool) -> TrainConfig:
    """Return the settings of a run that is resumed, changed by those of the command line."""
    run = RunFolder.open(values["resume"])
    saved = run.read_config()
    changes = {}
    for setting in settings:
        _check_change(setting.name)
        if setting.name != "trust" and not setting.removed:
            changes[setting.name] = _lookup(values, setting.name)
    named = dict(leaves(changes))  # a group of settings is merged with that of the run
    require_trust(run, saved, trust=trust, named=named, scripted=True, trains=True)
    # Texts of the run may contain ${...}, which stays as it is.
    merged = config_to_dict(saved)
    for name, value in changes.items():
        put(merged, name.split("."), value)
    return config_from_dict(merged)


def _check_change(name: str) -> None:
    """Raise SettingError for a setting that cannot be changed in a resumed run."""
    if name in GROUPS:
        raise SettingError(
            f"{name}= cannot be combined with resume=: a run keeps its environment and recipe",
            hint="change single settings, such as env.width=8 or "
            + ("selfplay.mode=stages" if name == "selfplay" else "optim.lr=1e-4"),
        )
    if name == "init":
        raise SettingError(
            "init= cannot be combined with resume=: a resumed run keeps its own network",
            hint="leave out resume= to begin another run with that network",
        )
    if name in ("run_name", "run_dir"):
        raise SettingError(
            f"{name}= cannot be combined with resume=: a run keeps its folder",
            hint="rename or move the folder itself, and then resume it",
        )


def _lookup(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values
