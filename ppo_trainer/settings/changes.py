"""Words of a command line that change settings: ``evaluate runs/x env.width=12``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from entity_env.errors import SettingError

__all__ = ["env_changes", "in_quotes", "path_text"]

_QUOTED = re.compile(r"(['\"]).*\1", re.DOTALL)


def env_changes(words: Sequence[str]) -> dict[str, Any]:
    """Return the settings in words such as ``env.width=12``, read as in training.

    Raises:
        SettingError: A word is not a setting of the environment, or has several values.
    """
    return {_name(word): _value(word) for word in words}


def path_text(value: str, *, lists: bool = False) -> str:
    """Return the value of a setting that is a path as one text in Hydra's grammar.

    Args:
        value: Value on the command line, which may contain any character. It stays as it is if it
            is written in quotes or refers to another setting.
        lists: True if a list or a mapping is valid, too; a file with such a name takes precedence.
    """
    if value in ("", "null") or _QUOTED.fullmatch(value):
        return value
    if os.path.lexists(os.path.expanduser(value)):
        return in_quotes(value.replace("${", "\\${"))
    is_list = lists and value[0] + value[-1] in ("[]", "{}")
    return value if is_list or "${" in value else in_quotes(value)


def in_quotes(text: str) -> str:
    """Return a text in quotes of Hydra's grammar."""
    # Backslashes have a meaning only before a quote.
    text = re.sub(r"(\\*)'", r"\1\1\\'", text)
    return "'" + re.sub(r"(\\+)$", r"\1\1", text) + "'"


def _name(word: str) -> str:
    name, equals, _ = word.lstrip("+").partition("=")
    first, *path = name.split(".")
    if first != "env" or not path or not equals or not all(path):
        raise SettingError(
            f"{word!r} is not a setting of the environment",
            expected="env.<setting>=<value>, such as env.width=8",
            hint=f"options are written --{name} ..." if equals else None,
        )
    return name


def _value(word: str) -> Any:
    # Imported here because it takes a part of a second, and most commands do not need it.
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    value = word.partition("=")[2]
    if os.path.lexists(os.path.expanduser(value)):
        return os.path.expanduser(value)
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise SettingError(f"{word!r} cannot be read: {error}") from error
    if override.is_sweep_override():
        raise SettingError(
            f"{word} names several values", expected="one value; a list is written as [4,10]"
        )
    return override.value()
