"""Nested dicts, as YAML gives them, to dataclasses: unknown names and wrong types stop here."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from entity_env.errors import nearest, shorten
from ppo_trainer.errors import ConfigError

__all__ = ["build", "check_plain", "check_types"]

ConfigT = TypeVar("ConfigT")


def build(kind: type[ConfigT], values: Any) -> ConfigT:
    """An instance of the dataclass ``kind`` from nested dicts.

    Args:
        kind: Its annotations are the schema.
        values: One entry for each setting that is not left at its default.

    Raises:
        ConfigError: A value of the wrong type, or an unknown key, with the group that has it or the
            nearest key that exists.
    """
    return _build(kind, values, "", list(_names(kind, values, "")))


_ALIASES = {"gpu": "did you mean 'cuda'?"}
"""Hints for what is no misspelling."""


def _names(kind: type, values: Any, path: str) -> Iterator[str]:
    """The dotted names of all settings, and of what stands in free groups such as ``env``."""
    values = values if isinstance(values, Mapping) else {}
    for name, hint in get_type_hints(kind).items():
        within, where = values.get(name), _join(path, name)
        yield where
        group = next((k for k in (hint, *get_args(hint)) if dataclasses.is_dataclass(k)), None)
        if group is not None:
            yield from _names(group, within, where)  # type: ignore[arg-type]
        elif isinstance(within, Mapping):
            yield from (_join(where, key) for key in within)


def _build(kind: type[ConfigT], values: Any, path: str, names: Sequence[str]) -> ConfigT:
    """``build`` for what stands at ``path``; ``names`` are those of all settings."""
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{path or 'the configuration'} is not a group of settings",
            expected=f"keys of {kind.__name__}",
            received=shorten(values),
        )
    hints = get_type_hints(kind)
    for key in values:
        if key not in hints:
            same = [repr(name) for name in names if name.rpartition(".")[2] == key]
            raise ConfigError(
                f"unknown setting {_join(path, key)!r}",
                options=hints,
                hint=f"did you mean {' or '.join(same)}?" if same else nearest(key, hints),
            )
    return kind(
        **{key: _value(hints[key], value, _join(path, key), names) for key, value in values.items()}
    )


def check_types(config: Any, path: str = "") -> None:
    """Raise ConfigError unless the fields of a dataclass, and of those within, fit their types.

    What ``build`` makes fits; what Python code makes need not.
    """
    for name, hint in get_type_hints(type(config)).items():
        value, where = getattr(config, name), _join(path, name)
        kinds: tuple[type[Any], ...] = tuple(
            kind
            for kind in get_args(hint) or (hint,)
            if isinstance(kind, type) and dataclasses.is_dataclass(kind)
        )
        if isinstance(value, kinds):
            check_types(value, where)
        elif kinds and value is not None:
            raise ConfigError(
                f"{where} has the wrong type",
                expected=kinds[0].__name__,
                received=f"{shorten(value)} ({type(value).__name__})",
            )
        elif hint is int and isinstance(value, float):
            raise ConfigError(
                f"{where} has the wrong type", expected="int", received=f"{value!r} (float)"
            )
        else:
            _value(hint, value, where)


def check_plain(value: Any, path: str) -> None:
    """Raise ConfigError unless ``value`` can be written to YAML and read back as it is."""
    if type(value) is dict:
        for key, part in value.items():
            check_plain(key, path)
            check_plain(part, _join(path, key))
    elif type(value) in (list, tuple):
        for part in value:
            check_plain(part, path)
    elif value is not None and type(value) not in (bool, int, float, str):
        raise ConfigError(
            f"{path} cannot be written to config.yaml",
            expected="plain values: None, bool, int, float, str, lists and dicts of them",
            received=f"{shorten(value)} ({type(value).__name__})",
        )


def _value(hint: Any, value: Any, path: str, names: Sequence[str] = ()) -> Any:
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        return _value(next(c for c in choices if c is not type(None)), value, path, names)
    if dataclasses.is_dataclass(hint):
        kind: Any = hint
        return value if isinstance(value, kind) else _build(kind, value, path, names)
    if origin is Literal:
        if value not in choices:
            raise ConfigError(
                f"{path} does not know this value",
                received=shorten(value),
                options=choices,
                hint=_ALIASES.get(str(value)) or nearest(value, choices),
            )
        return value
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e6 is a float to YAML and a whole number to people
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    expected = Mapping if origin is not None else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(
            f"{path} has the wrong type",
            expected=getattr(expected, "__name__", str(expected)),
            received=f"{shorten(value)} ({type(value).__name__})",
        )
    return value


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
