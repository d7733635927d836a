"""Construction of dataclasses from nested dicts, with errors for unknown names and wrong types."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from entity_env.arguments import named_settings
from entity_env.errors import nearest, shorten
from ppo_trainer.errors import ConfigError

__all__ = [
    "KINDS",
    "build",
    "fitted",
    "meant_setting",
    "names_its_settings",
    "path_names",
    "plain",
    "setting_names",
]

ConfigT = TypeVar("ConfigT")

KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Mapping: "names and values",
}
"""The types of settings, in words."""

_OTHER_NAMES = {
    "algo": "algorithm",
    "anneal_lr": "optim.schedule",
    "clip_eps": "ppo.clip_coef",
    "clip_param": "ppo.clip_coef",
    "clip_range": "ppo.clip_coef",
    "d_model": "net.dim",
    "discount": "ppo.gamma",
    "discount_factor": "ppo.gamma",
    "ent_coef": "ppo.entropy_coef",
    "eval_freq": "eval.every",
    "exp_name": "run_name",
    "hidden_dim": "net.dim",
    "hidden_size": "net.dim",
    "lambda": "ppo.gae_lambda",
    "learning_rate": "optim.lr",
    "log_dir": "run_dir",
    "n_envs": "rollout.num_envs",
    "n_epochs": "ppo.epochs",
    "n_eval_episodes": "eval.every_episodes",
    "n_heads": "net.heads",
    "n_layers": "net.layers",
    "n_steps": "rollout.steps",
    "num_epochs": "ppo.epochs",
    "num_heads": "net.heads",
    "num_layers": "net.layers",
    "num_minibatches": "ppo.minibatch_size",
    "num_steps": "rollout.steps",
    "num_workers": "rollout.processes",
    "save_freq": "checkpoint.every",
    "tensorboard_log": "run_dir",
    "timesteps": "total_timesteps",
    "total_steps": "total_timesteps",
    "update_epochs": "ppo.epochs",
    "vf_coef": "ppo.value_coef",
}
"""The settings that have these names in other libraries."""
_ALSO = {"batch_size": "ppo.minibatch_size", "max_steps": "total_timesteps"}
"""Other names that are the names of other settings, too."""


def meant_setting(key: object, names: Iterable[str], group: Collection[str] = ()) -> str | None:
    """Return a hint on the setting that a user meant by an unknown name, or None.

    Args:
        key: The unknown name, without its group.
        names: The dotted names of all settings.
        group: The names of the settings in the group in which it was looked for.
    """
    names = list(names)
    same = [name for name in names if name.rpartition(".")[2] == key]
    other = _OTHER_NAMES.get(str(key)), _ALSO.get(str(key))
    meant = [*(name for name in other if name in names), *same]
    if meant:
        return f"did you mean {' or '.join(map(repr, dict.fromkeys(meant)))}?"
    return nearest(key, group)


def build(kind: type[ConfigT], values: Any) -> ConfigT:
    """Return an instance of the dataclass ``kind`` from nested dicts.

    Args:
        kind: Dataclass whose annotations are the schema.
        values: Settings that differ from their defaults.

    Raises:
        ConfigError: A value has the wrong type, or a key is unknown; the message names the group
            that has the key, or the nearest key.
    """
    return _build(kind, values, "", list(setting_names(kind, values, "")))


def names_its_settings(kind: type[ConfigT]) -> type[ConfigT]:
    """Return a dataclass whose unknown arguments raise ConfigError with the nearest name.

    Python's own TypeError contains neither the nearest setting nor the group that has it.
    """
    original = kind.__init__

    @functools.wraps(original)
    def initialize(self: ConfigT, *values: Any, **settings: Any) -> None:
        fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
        for key in settings.keys() - set(fields):
            every = list(setting_names(kind))
            names = [name for name in every if name.rpartition(".")[2] == key]
            group = names[0].rpartition(".")[0] if names else ""
            raise ConfigError(
                f"{kind.__name__} has no setting {key!r}",
                options=fields,
                hint=f"did you mean {names[0]!r}? {kind.__name__}({group}={{{key!r}: ...}})"
                if names
                else meant_setting(key, every, fields),
            )
        original(self, *values, **settings)

    kind.__init__ = initialize  # type: ignore[method-assign,assignment]
    return kind


def path_names(kind: type, path: str = "") -> Iterator[str]:
    """Yield the dotted names of the settings that are paths."""
    hints = get_type_hints(kind)
    for own in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[own.name]):
            yield from path_names(hints[own.name], _join(path, own.name))  # type: ignore[arg-type]
        elif own.metadata.get("path"):
            yield _join(path, own.name)


def setting_names(kind: type, values: Any = None, path: str = "") -> Iterator[str]:
    """Yield the dotted names of all settings, including those in free groups like ``env``."""
    values = values if isinstance(values, Mapping) else {}
    for name, hint in get_type_hints(kind).items():
        within, where = values.get(name), _join(path, name)
        yield where
        group = next((k for k in (hint, *get_args(hint)) if dataclasses.is_dataclass(k)), None)
        if group is not None:
            yield from setting_names(group, within, where)  # type: ignore[arg-type]
        elif isinstance(within, Mapping):
            yield from (_join(where, key) for key in within)


def _build(kind: type[ConfigT], values: Any, path: str, names: Sequence[str]) -> ConfigT:
    """Return the dataclass for the values at ``path``."""
    hints = get_type_hints(kind)
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{path or 'the configuration'} is not a group of settings",
            expected=f"its settings one by one, as in {_join(path, next(iter(hints)))}=...; "
            f"in Python {kind.__name__}, or a dict",
            received=f"{shorten(values)} ({type(values).__name__})",
        )
    for key in values:
        if key not in hints:
            raise ConfigError(
                f"unknown setting {_join(path, key)!r}",
                options=hints,
                hint=meant_setting(key, names, hints),
            )
    missing = [
        field.name
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if field.default is field.default_factory is dataclasses.MISSING
        and field.name not in values
    ]
    if missing:
        raise ConfigError(
            f"{path or kind.__name__} lacks {', '.join(missing)}",
            expected=f"{_join(path, missing[0])}=...",
            received=shorten(dict(values)),
            options=hints,
        )
    own = {key: _value(hints[key], value, _join(path, key), names) for key, value in values.items()}
    with named_settings({_join(path, key): value for key, value in values.items()}):
        return kind(**own)


def fitted(config: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, converted to their types.

    Dicts become the dataclasses that they describe. NumPy's numbers, paths and members of enums
    become plain values, and a float such as 1e6 becomes an int if a whole number is expected.

    Raises:
        ConfigError: A value has the wrong type, here or in a nested dataclass.
    """
    return _fitted(config, "", ())


def _fitted(config: Any, path: str, names: Sequence[str]) -> dict[str, Any]:
    return {
        name: _value(hint, getattr(config, name), _join(path, name), names)
        for name, hint in get_type_hints(type(config)).items()
    }


def plain(value: Any, path: str) -> Any:
    """Return ``value`` as plain values that YAML can write and read.

    Raises:
        ConfigError: It contains other values than plain ones.
    """
    value = _plain(value)
    if isinstance(value, Mapping):
        return {plain(key, path): plain(part, _join(path, key)) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(part, path) for part in value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(part, path) for part in value]
    if value is not None and type(value) not in (bool, int, float, str):
        raise ConfigError(
            f"{path} cannot be written to config.yaml",
            expected="plain values: None, bool, int, float, str, lists and dicts of them",
            received=f"{shorten(value)} ({type(value).__name__})",
        )
    return value


def _plain(value: Any) -> Any:
    """Return scalars of NumPy and torch, enums, paths and subclasses as Python's own types."""
    if isinstance(value, enum.Enum):
        value = value.value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return str.__str__(value)
    kinds = (kind for kind in (bool, int, float) if isinstance(value, kind))
    return next((kind(value) for kind in kinds), value)


def _value(hint: Any, value: Any, path: str, names: Sequence[str] = ()) -> Any:
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        return _value(next(c for c in choices if c is not type(None)), value, path, names)
    if dataclasses.is_dataclass(hint):
        kind: Any = hint
        if isinstance(value, kind):
            return dataclasses.replace(value, **_fitted(value, path, names))
        return _build(kind, value, path, names)
    value = _plain(value)
    if origin is Literal:
        if not isinstance(value, str) or value not in choices:
            raise ConfigError(
                f"{path} has an unknown value",
                received=shorten(value),
                options=choices,
                hint=nearest(value, choices),
            )
        return value
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)  # YAML reads 1e6 as a float
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is Sequence:  # a single value needs no brackets
        is_nested = get_origin(choices[0]) is Sequence
        parts = [value] if not is_nested and isinstance(value, choices[0]) else value
        if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
            kind = "a list" if is_nested else KINDS[choices[0]]
            raise _wrong_type(path, f"a list, each item {kind}", value)
        return tuple(_value(choices[0], part, path) for part in parts)
    expected = Mapping if origin is not None else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        raise _wrong_type(path, KINDS.get(expected, str(expected)), value)
    return value


def _wrong_type(path: str, expected: str, value: Any) -> ConfigError:
    return ConfigError(
        f"{path} has the wrong type",
        expected=expected,
        received=f"{shorten(value)} ({type(value).__name__})",
    )


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
