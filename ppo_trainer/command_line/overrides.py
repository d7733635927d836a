"""The translation between the command line, Hydra and ``TrainConfig``.

Hydra composes YAML files and sweeps. It does not know which settings exist, so that the schema in
``config.py`` alone reports a misspelt name with the nearest valid one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from entity_env.errors import SettingError, nearest, shorten
from entity_env.nearby import meant_nearby
from entity_env.registry import path_settings, resolve
from entity_env.storage.files import write_file
from ppo_trainer.command_line.composition import (
    CONF,
    GROUPS,
    composed,
    leaves,
    put,
    read_recipe,
    read_settings,
)
from ppo_trainer.config import TrainConfig, config_from_dict, config_to_dict
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.trust import require_trust
from ppo_trainer.settings.build import meant_setting, path_names, setting_names
from ppo_trainer.settings.changes import in_quotes, path_text

__all__ = [
    "config_of",
    "config_of_words",
    "hydra_arguments",
    "recipe",
    "register_base",
    "resumed_config",
    "write_recipe",
]

_FLAGS = (
    *("help", "h", "version", "multirun", "m", "cfg", "c", "info", "i", "resolve", "package", "p"),
    *("hydra-help", "run", "r", "shell-completion", "sc", "experimental-rerun"),
    *("config-path", "cp", "config-name", "cn", "config-dir", "cd"),
)
_SETTING = re.compile(r"^\+{0,2}(?P<name>[A-Za-z_][\w.]*)=")


def register_base() -> None:
    """Give Hydra the defaults of ``TrainConfig``; ``env`` comes from its own group."""
    values = config_to_dict(TrainConfig())
    del values["env"]
    ConfigStore.instance().store(name="base", node=values)


def recipe(name: str, *settings: str) -> TrainConfig:
    """Return the config of ``python -m ppo_trainer env=<name> <settings>``.

    For example ``train(recipe("xor", "seed=3"))``.

    Raises:
        SettingError: A name or a setting that does not exist.
    """
    return config_from_dict(composed(hydra_arguments([f"env={name}", *settings])))


def config_of_words(words: Sequence[str]) -> TrainConfig:
    """Return the config of ``python -m ppo_trainer <words>``, of a new or of a resumed run."""
    arguments = hydra_arguments(list(words))
    if flags := [word for word in arguments if word.startswith("-")]:
        raise SettingError(f"--show shows the settings of one run, without {' '.join(flags)}")
    return resumed_config(composed(arguments), arguments)


def config_of(settings: Sequence[str], purpose: str) -> TrainConfig:
    """Return the config of ``python -m ppo_trainer <settings>``, for another command.

    Args:
        settings: Settings such as ``env=minesweeper`` and ``seed=3``.
        purpose: Purpose of the environment, for errors, such as "tune for".

    Raises:
        SettingError: No environment is named, or a setting does not exist.
    """
    names = [s.partition("=")[2] for s in settings if s.startswith("env=")]
    if not names and not any(s.lstrip("+").startswith("env._target_=") for s in settings):
        raise SettingError(
            f"no environment to {purpose}",
            expected="env=minesweeper, or env._target_=my_pkg.MyEnv",
            received=shorten(list(settings)),
        )
    others = [s for s in settings if not s.startswith("env=")]
    return recipe(names[-1] if names else "custom", *others)


def hydra_arguments(arguments: list[str]) -> list[str]:
    """Rewrite command-line arguments for Hydra.

    Settings become ``++name=value``, so that unknown names reach this package's own check. A target
    without ``env=`` starts from an environment without settings. Paths may contain any character.

    Raises:
        SettingError: ``env=`` or ``experiment=`` with an option that does not exist, several values
            without ``-m``, or a setting that is written as a flag or without a value.
    """
    arguments = list(_with_own_recipe(arguments))
    names = [match["name"] for text in arguments if (match := _SETTING.match(text))]
    own = "env._target_" in names and not {"env", "resume"} & set(names)
    sweep = bool({"-m", "--multirun"} & set(arguments))
    flags, rewritten = [], []
    if sweep and (wide := [text for text in arguments if "interval(" in text]):
        raise SettingError(
            f"{wide[0]} names more values than a sweep can run",
            hint=f"to search among them: python -m ppo_trainer.tune env=... '{wide[0]}'",
        )
    for previous, text in zip(["", *arguments], arguments, strict=False):
        match = _SETTING.match(text)
        if text.startswith("-") or not ("=" in text or text.startswith("~")):
            # Hydra takes all settings in one piece, so that flags must come before them.
            _check_flag(previous, text)
            flags.append(text)
            continue
        if match is not None and not sweep:
            text = match[0] + _as_text(match["name"], text[match.end() :], arguments)
            _check_single(text, text[match.end() :])
        is_setting = match is not None and match["name"].split(".")[0] != "hydra"
        if match is not None and match["name"] in GROUPS:
            _check_options(match["name"], text[match.end() :])
            text = text.lstrip("+")
        elif match is not None and is_setting:
            text = f"++{text.lstrip('+')}"
        _check_grammar(text)
        rewritten.append(text)
    return flags + (["env=custom"] if own else []) + rewritten


def _as_text(name: str, value: str, arguments: Sequence[str]) -> str:
    """Return the value of a setting as one text if the setting is a path."""
    group, _, setting = name.rpartition(".")
    if group in ("env", "eval.env"):
        if setting != "_target_" and setting in _paths_of_environment(arguments):
            value = os.path.expanduser(value) if value.startswith("~") else value
            return path_text(value, lists=True)
    elif name in path_names(TrainConfig):
        return path_text(value, lists=name == "selfplay.opponents")
    return value


def _paths_of_environment(arguments: Sequence[str]) -> set[str]:
    """Return the settings of the environment that are paths."""
    words = [word.lstrip("+") for word in arguments]
    target = next((w.partition("=")[2] for w in words if w.startswith("env._target_=")), None)
    named = next((w.partition("=")[2] for w in words if w.startswith("env=")), "minesweeper")
    if target is None and named in GROUPS["env"]:
        target = read_recipe(CONF / "env" / f"{named}.yaml").get("_target_")
    try:
        return set() if target is None else path_settings(resolve(target))
    except Exception:  # the reader of the settings names the mistake
        return set()


def _with_own_recipe(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments with the settings of FILE.yaml in the place of ``experiment=FILE.yaml``.

    Settings that follow on the command line override those of the file.

    Raises:
        SettingError: The file cannot be read, or does not contain settings.
    """
    for text in arguments:
        name, _, path = text.lstrip("+").partition("=")
        if name != "experiment" or not path.endswith((".yaml", ".yml")):
            yield text
            continue
        yield from _words_of(read_settings(Path(path)))


def _words_of(settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield settings as on the command line."""
    for name, value in settings.items():
        if isinstance(value, dict) and value and all(key.isidentifier() for key in value):
            yield from _words_of(value, f"{above}{name}.")
        else:
            yield f"{above}{name}={_value_text(value)}"


def write_recipe(path: Path, changes: Mapping[str, Any]) -> None:
    """Write settings, given by their dotted names, as a file for ``experiment=FILE.yaml``."""
    values: dict[str, Any] = {}
    for name, value in changes.items():
        put(values, name.split("."), value)
    write_file(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True).encode())


def _value_text(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if isinstance(value, str):
        return in_quotes(value)
    if isinstance(value, list):
        return f"[{','.join(map(_value_text, value))}]"
    if isinstance(value, dict):
        parts = (f"{name}:{_value_text(own)}" for name, own in value.items())
        return "{" + ",".join(parts) + "}"
    return json.dumps(value)


def _check_flag(previous: str, text: str) -> None:
    """Raise SettingError for a setting that is written as a flag, or without a value."""
    name = text.lstrip("-").partition("=")[0]
    if text.startswith("--") and name.partition(".")[0] in {"trust", *get_type_hints(TrainConfig)}:
        value = "true" if name == "trust" else "<value>"
        raise SettingError(f"settings are not flags: {text}", hint=f"write {name}={value}")
    if text.startswith("-") and not any(flag.startswith(name) for flag in _FLAGS):
        flags = [f"-{flag}" if len(flag) < 3 else f"--{flag}" for flag in _FLAGS]
        raise SettingError(
            f"unknown option {text}",
            options=flags,
            hint=meant_setting(name, setting_names(TrainConfig)) or nearest(text, flags),
        )
    value_of_flag = previous.startswith("-") and previous not in ("-m", "--multirun")
    if text in get_type_hints(TrainConfig):
        raise SettingError(
            f"the setting {text!r} has no value", expected="name=value without spaces, as in seed=3"
        )
    if not text.startswith("-") and not value_of_flag:
        raise SettingError(
            f"{text!r} is not a setting",
            expected="name=value, such as seed=3",
            hint=_meant_by_word(text),
        )


def _meant_by_word(text: str) -> str | None:
    """Return a hint on a word without ``=``: a game, a run, or the user's own environment."""
    if text in GROUPS["env"]:
        return f"did you mean env={text}?"
    if (Path(text) / "config.yaml").is_file():
        return f"did you mean resume={text}?"
    if own := _own_environment(text):
        return own
    close = get_close_matches(text, GROUPS["env"], n=1, cutoff=0.6)
    return f"did you mean env={close[0]}?" if close else None


def _own_environment(text: str) -> str | None:
    """Return a hint on how to name an environment of a file, of Gymnasium, or of a module."""
    if path := meant_nearby(text):
        return f"to train on the environment in this file: env._target_={path}"
    if re.fullmatch(r"[\w./:-]+-v\d+", text):
        return f"to train on an environment of Gymnasium: env=gymnasium env.env={text}"
    return f"to train on your own class: env._target_={text}" if "." in text else None


def _check_grammar(text: str) -> None:
    """Raise SettingError if Hydra cannot read a setting."""
    if re.match(r"[~+]{0,2}[A-Za-z_]", text):
        try:
            OverridesParser.create().parse_override(text)
            return
        except HydraException:
            pass
    raise SettingError(
        f"{shorten(text.lstrip('+'))} cannot be read",
        expected="name=value, such as seed=3, with closed brackets and quotes",
        hint="put a value with special characters in quotes within quotes: \"name='a=b'\"",
    )


def _check_single(text: str, value: str) -> None:
    if "," in value and not set("[]{}()\"'") & set(value):
        raise SettingError(f"{text} names several values", hint="add -m to run each of them")


def _check_options(group: str, options: str) -> None:
    for option in options.split(","):  # a sweep names several
        if option.strip() not in GROUPS[group]:
            own = _own_environment(option) if group == "env" else None
            raise SettingError(
                f"{group}={option} does not exist",
                options=GROUPS[group],
                hint=own or nearest(option, GROUPS[group]),
            )


def resumed_config(settings: Any, overrides: Sequence[str] | None = None) -> TrainConfig:
    """Return the settings of this run.

    With ``resume`` they are those of the resumed run, changed by the command line.

    Args:
        settings: All settings.
        overrides: The words of the command line; None for those that Hydra has received.

    Raises:
        UntrustedRunError: The resumed run names code and was made by somebody else, and the command
            line contains neither ``trust=true`` nor another environment.
    """
    settings = dict(settings)
    trust = settings.pop("trust", None)
    if settings.get("resume") is None:
        if trust is not None:
            raise SettingError("trust= applies to a resumed run only", hint="add resume=<run>")
        return config_from_dict(settings)
    run = RunFolder.open(settings["resume"])
    saved = run.read_config()
    words = HydraConfig.get().overrides.task if overrides is None else overrides
    changes = _changes(settings, words)
    named = dict(leaves(changes))  # a group of settings is merged with that of the run
    require_trust(run, saved, trust=trust or False, named=named, scripted=True, trains=True)
    # Plain dicts, so that Hydra does not expand ${...} in texts of the run.
    values = config_to_dict(saved)
    for name, value in changes.items():
        put(values, name.split("."), value)
    return config_from_dict(values)


def _changes(settings: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return the settings beside ``resume`` on the command line, by dotted name."""
    changes = {}
    for override in words:
        name, _, _ = override.lstrip("+").partition("=")
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
        if name != "trust" and not name.startswith("~"):
            changes[name] = _lookup(settings, name)
    return changes


def _lookup(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values
