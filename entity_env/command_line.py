"""Common parts of the programs of this package."""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from entity_env.arguments import named_settings
from entity_env.environment import Environment
from entity_env.errors import EntityEnvError, SettingError
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.registry import alone, check_settings, resolve, seated

__all__ = [
    "INTERRUPTED",
    "environment_from_words",
    "environment_parser",
    "game_from_words",
    "game_words",
    "parse_setting",
    "run_program",
    "version_text",
]

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended."""

T = TypeVar("T", bound=Environment | MultiPlayerEnvironment)


def environment_parser(program: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of a program that takes an environment and its settings."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("env", help="a name such as minesweeper, or my_pkg.my_env.MyEnv")
    parser.add_argument(
        "settings",
        nargs="*",
        default=[],  # else argparse calls them required
        metavar="name=value",
        help="arguments of its constructor",
    )
    parser.add_argument("--version", action="version", version=version_text())
    return parser


def run_program(program: Callable[[], None]) -> int:
    """Run a command and return its exit status; print a mistake of the user on stderr.

    The status is 0, 1 after a mistake or if nobody reads the output, or ``INTERRUPTED``. Status 2
    stays with flags that the parser of a command does not know.

    Args:
        program: The command.
    """
    _open_standard_streams()
    try:
        program()
    except EntityEnvError as error:
        _complain(f"{type(error).__name__}: {error}")
        return 1
    except KeyboardInterrupt:
        _complain("stopped")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        return 1
    finally:
        _drop_unread()
    return 0


def _complain(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a closed terminal
        print(text, file=sys.stderr, flush=True)


def _drop_unread() -> None:
    """Drop output that nobody reads, so that Python reports no error when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """Open closed standard streams, so that no other file gets their descriptors and output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def version_text() -> str:
    """Return the text of ``--version``: this library and the packages that it runs on."""
    try:
        own = importlib.metadata.version("ragged-rl")
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        own = "(not installed)"
    return f"ragged-rl {own}, Python {platform.python_version()}, NumPy {np.__version__}"


def environment_from_words(name: str, words: Sequence[str]) -> Callable[[], Environment]:
    """Return a function that makes the environment of a name or dotted path.

    Args:
        name: Short name or dotted path, such as ``minesweeper`` or ``my_pkg.my_env.MyEnv``.
        words: Arguments of its constructor, each ``name=value``.

    Raises:
        EntityEnvError: The environment or a setting does not exist.
    """
    return _with_settings(alone(resolve(name)), words)


def game_from_words(
    name: str, words: Sequence[str]
) -> Callable[[], Environment | MultiPlayerEnvironment]:
    """Return a function that makes an environment, or a game with all its seats.

    For compiled rows, the function makes the same game in Python.

    Raises:
        EntityEnvError: The environment or a setting does not exist.
    """
    factory = seated(resolve(name))
    if factory is None:
        return environment_from_words(name, words)
    return _with_settings(factory, words)


def _with_settings(factory: Callable[..., T], words: Sequence[str]) -> Callable[[], T]:
    settings = dict(map(parse_setting, words))
    with named_settings(settings):
        check_settings(factory, settings)
    return functools.partial(_made, factory, settings)


def _made(factory: Callable[..., T], settings: Mapping[str, Any]) -> T:
    with named_settings(settings):
        return factory(**settings)


def game_words(env: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the arguments of ``environment_from_words`` for an environment.

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
    """Return the name and the value of a setting: a Python literal, or else the text itself."""
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"{text!r} is not a setting", expected="name=value, such as width=8")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, {"true": True, "false": False, "null": None}.get(value, value)
