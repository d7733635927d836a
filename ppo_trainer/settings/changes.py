"""Words of a command line that change settings: ``evaluate runs/x env.width=12``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ppo_trainer.errors import ConfigError

__all__ = ["env_changes"]


def env_changes(words: Sequence[str]) -> dict[str, Any]:
    """Return the settings in words such as ``env.width=12``, read as in training.

    Raises:
        ConfigError: A word is not a setting of the environment, or has several values.
    """
    return {_name(word): _value(word) for word in words}


def _name(word: str) -> str:
    name, equals, _ = word.lstrip("+").partition("=")
    first, *path = name.split(".")
    if first != "env" or not path or not equals or not all(path):
        raise ConfigError(
            f"{word!r} is not a setting of the environment",
            expected="env.<setting>=<value>, such as env.width=8",
            hint=f"options are written --{name} ..." if equals else None,
        )
    return name


def _value(word: str) -> Any:
    # Imported here because it takes a part of a second, and most commands do not need it.
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise ConfigError(f"{word!r} cannot be read: {error}") from error
    if override.is_sweep_override():
        raise ConfigError(
            f"{word} names several values", expected="one value; a list is written as [4,10]"
        )
    return override.value()
