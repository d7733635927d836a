"""Parts of this package's programs: environments and their settings as words."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from entity_env.environment import Environment
from entity_env.errors import SettingError
from entity_env.registry import alone, check_settings, resolve, seated
from entity_env.seats.multi_player import MultiPlayerEnvironment

__all__ = [
    "environment_from_words",
    "game_from_words",
    "game_words",
    "parse_setting",
    "version_text",
]


def version_text() -> str:
    """Return the text of ``--version``: this library and the packages that it runs on."""
    try:
        own = importlib.metadata.version("ragged-rl")
    except importlib.metadata.PackageNotFoundError:  # a checkout that nobody installed
        own = "(not installed)"
    return f"ragged-rl {own}, Python {platform.python_version()}, NumPy {np.__version__}"


def environment_from_words(name: str, words: Sequence[str]) -> Callable[[], Environment]:
    """Return a function that makes the environment of a name or dotted path.

    Args:
        name: As ``minesweeper``, or ``my_pkg.my_env.MyEnv``.
        words: Arguments of its constructor, each ``name=value``.

    Raises:
        EntityEnvError: There is no such environment, or it has no such setting.
    """
    factory, settings = alone(resolve(name)), dict(map(parse_setting, words))
    check_settings(factory, settings)
    return functools.partial(factory, **settings)


def game_from_words(
    name: str, words: Sequence[str]
) -> Callable[[], Environment | MultiPlayerEnvironment]:
    """Return a function like ``environment_from_words``, or a game with all its seats.

    Of compiled rows that is their readable form.

    Raises:
        EntityEnvError: There is no such environment, or it has no such setting.
    """
    factory = seated(resolve(name))
    if factory is None:
        return environment_from_words(name, words)
    settings = dict(map(parse_setting, words))
    check_settings(factory, settings)
    return functools.partial(factory, **settings)


def game_words(env: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the name and the words from which ``environment_from_words`` makes an environment.

    Args:
        env: ``_target_``, its name, and its settings.
    """
    words = []
    for name, value in env.items():
        if name != "_target_":
            plain = f"{name}={value}"
            words.append(plain if parse_setting(plain) == (name, value) else f"{name}={value!r}")
    return env["_target_"], words


def parse_setting(text: str) -> tuple[str, Any]:
    """Return a name and its value: a Python literal, or else the text itself."""
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"{text!r} is not a setting", expected="name=value, such as width=8")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, {"true": True, "false": False, "null": None}.get(value, value)
