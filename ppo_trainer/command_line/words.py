"""Words of a command line, such as ``seed=3``, whose values have Hydra's grammar."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from hydra.errors import HydraException

from entity_env.errors import SettingError, nearest, shorten
from entity_env.nearby import meant_nearby
from ppo_trainer.command_line.composition import GROUPS, Setting
from ppo_trainer.config import TrainConfig
from ppo_trainer.settings.build import meant_setting, setting_names

__all__ = ["combinations", "env_changes", "parse_value", "read_word"]

_NAME = re.compile(r"[A-Za-z_][\w-]*(?:[./][\w-]+)*")
_QUOTED = re.compile(r"(['\"]).*\1", re.DOTALL)
_FLAGS = ("--help", "--multirun", "--show", "--version", "-h", "-m")


def read_word(word: str, paths: Collection[str] = ()) -> Setting:
    """Read a word of a command line.

    Args:
        word: Word such as ``seed=3``, ``+seed=3``, ``env=minesweeper`` or ``~experiment``.
        paths: Names of settings that are paths, whose values may contain any character.

    Raises:
        SettingError: The word is not a setting, has several values, or cannot be read.
    """
    if word.startswith("-") or not ("=" in word or word.startswith("~")):
        raise _not_a_setting(word)
    name, _, text = word.lstrip("+").partition("=")
    removed = word.startswith("~")
    if _NAME.fullmatch(name.removeprefix("~")) is None:
        raise _unreadable(word)
    if removed:
        return Setting(name.removeprefix("~"), removed=True)
    if name in GROUPS:
        _check_option(name, text)
        return Setting(name, text)
    if name in paths:
        text = os.path.expanduser(text) if name.startswith(("env.", "eval.env.")) else text
        return Setting(name, _path(text, lists=name.startswith(("env.", "eval.env.", "selfplay."))))
    return Setting(name, _single(parse_value(word), word))


def parse_value(word: str) -> Override:
    """Return the value of a word in Hydra's grammar, which may be several.

    Raises:
        SettingError: The value cannot be read.
    """
    try:
        return OverridesParser.create().parse_override(f"x={word.partition('=')[2]}")
    except HydraException:
        raise _unreadable(word) from None


def combinations(words: Sequence[str]) -> list[list[str]]:
    """Return the words of each run of a sweep: every combination of the values of all words.

    Raises:
        SettingError: A word names values that cannot be listed.
    """
    options = []
    for word in words:
        name, _, _ = word.partition("=")
        if "=" not in word or word.startswith("-"):
            raise _not_a_setting(word)
        override = parse_value(word)
        if not override.is_sweep_override():
            options.append([word])
            continue
        if not isinstance(override.value(), ChoiceSweep | RangeSweep):
            raise SettingError(
                f"{word} names more values than a sweep can run",
                hint=f"to search among them: python -m ppo_trainer.tune env=... '{word}'",
            )
        options.append([f"{name}={value}" for value in override.sweep_string_iterator()])
    return [list(chosen) for chosen in itertools.product(*options)]


def env_changes(words: Sequence[str]) -> dict[str, Any]:
    """Return the settings in words such as ``env.width=12``, read as in training.

    A value that is the name of a file stays as it is.

    Raises:
        SettingError: A word is not a setting of the environment, or has several values.
    """
    changes = {}
    for word in words:
        name, equals, text = word.lstrip("+").partition("=")
        first, *path = name.split(".")
        if first != "env" or not path or not equals or not all(path):
            raise SettingError(
                f"{word!r} is not a setting of the environment",
                expected="env.<setting>=<value>, such as env.width=8",
                hint=f"options are written --{name} ..." if equals else None,
            )
        file = os.path.expanduser(text)
        changes[name] = file if os.path.lexists(file) else read_word(word).value
    return changes


def _single(override: Override, word: str) -> Any:
    if override.is_sweep_override():
        raise SettingError(
            f"{word} names several values",
            expected="one value; a list is written as [4,10]",
            hint="add -m to run each of them",
        )
    return override.value()


def _path(text: str, *, lists: bool) -> Any:
    """Return the value of a setting that is a path, which may contain any character.

    It has Hydra's grammar if it is written in quotes or, with ``lists``, in brackets. ``${name}``
    refers to another setting, unless a file has this name.
    """
    if text in ("", "null") or _QUOTED.fullmatch(text):
        return _single(parse_value(f"x={text}"), text)
    if os.path.lexists(os.path.expanduser(text)):
        return text.replace("${", "\\${")
    if lists and text[0] + text[-1] in ("[]", "{}"):
        return _single(parse_value(f"x={text}"), text)
    return text


def _check_option(group: str, option: str) -> None:
    if option not in GROUPS[group]:
        hint = _own_environment(option) if group == "env" else None
        raise SettingError(
            f"{group}={option} does not exist",
            options=GROUPS[group],
            hint=hint or nearest(option, GROUPS[group]),
        )


def _unreadable(word: str) -> SettingError:
    return SettingError(
        f"{shorten(word.lstrip('+'))} cannot be read",
        expected="name=value, such as seed=3, with closed brackets and quotes",
        hint="put a value with special characters in quotes within quotes: \"name='a=b'\"",
    )


def _not_a_setting(word: str) -> SettingError:
    """Return the error for a setting that is written as a flag, or without a value."""
    name = word.lstrip("-").partition("=")[0]
    settings = get_type_hints(TrainConfig)
    if word.startswith("--") and name.partition(".")[0] in {"trust", *settings}:
        value = "true" if name == "trust" else "<value>"
        return SettingError(f"settings are not flags: {word}", hint=f"write {name}={value}")
    if word.startswith("-"):
        return SettingError(
            f"unknown option {word}",
            options=_FLAGS,
            hint=meant_setting(name, setting_names(TrainConfig)) or nearest(word, _FLAGS),
        )
    if word in settings:
        return SettingError(
            f"the setting {word!r} has no value", expected="name=value without spaces, as in seed=3"
        )
    return SettingError(
        f"{word!r} is not a setting",
        expected="name=value, such as seed=3",
        hint=next(_meant_by(word), None),
    )


def _meant_by(text: str) -> Iterator[str]:
    """Yield hints on a word without ``=``: a game, a run, or the user's own environment."""
    if text in GROUPS["env"]:
        yield f"did you mean env={text}?"
    if (Path(text) / "config.yaml").is_file():
        yield f"did you mean resume={text}?"
    if hint := _own_environment(text):
        yield hint
    for close in get_close_matches(text, GROUPS["env"], n=1, cutoff=0.6):
        yield f"did you mean env={close}?"


def _own_environment(text: str) -> str | None:
    """Return a hint on how to name an environment of a file, of Gymnasium, or of a module."""
    if path := meant_nearby(text):
        return f"to train on the environment in this file: env._target_={path}"
    if re.fullmatch(r"[\w./:-]+-v\d+", text):
        return f"to train on an environment of Gymnasium: env=gymnasium env.env={text}"
    return f"to train on your own class: env._target_={text}" if "." in text else None
