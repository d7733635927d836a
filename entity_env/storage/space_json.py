"""Spaces as JSON values, which recordings and runs save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entity_env.batching.kinds.table import KINDS, kind_of
from entity_env.errors import SpaceError, nearest, shorten
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Continuous,
    Discrete,
    Entity,
    EntityName,
    Feature,
    Flags,
    Grid,
    ObsSpace,
    Position,
    check_action_space,
)

__all__ = ["spaces_from_json", "spaces_to_json"]


def spaces_to_json(
    obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]
) -> dict[str, Any]:
    """Return the spaces as dicts, lists, strings and numbers.

    Entity types and actions become lists, because their order matters, and JSON objects have no
    order.

    Raises:
        SpaceError: One of the two is not a space.
    """
    if not isinstance(obs_space, ObsSpace):
        raise SpaceError("not an ObsSpace", received=shorten(obs_space))
    return {
        "global_features": [_feature_to_json(feature) for feature in obs_space.global_features],
        "entities": [
            {"name": name, "features": [_feature_to_json(feature) for feature in entity.features]}
            | ({} if entity.position is None else {"position": list(entity.position.names)})
            | (
                {"shape": list(entity.shape), "cells": entity.cells}
                if isinstance(entity, Grid)
                else {}
            )
            for name, entity in obs_space.entities.items()
        ],
        "actions": [
            _action_to_json(name, space) for name, space in check_action_space(action_space).items()
        ],
    }


def spaces_from_json(value: Any) -> tuple[ObsSpace, dict[ActionName, ActionSpace]]:
    """Return the spaces in a value of ``spaces_to_json``.

    Raises:
        SpaceError: The value is damaged, or does not describe valid spaces.
    """
    parts = _record("the spaces", value, ("global_features", "entities", "actions"))
    entities: dict[EntityName, Entity] = {}
    for entry in _entries("entities", parts["entities"]):
        has_position = isinstance(entry, Mapping) and "position" in entry
        is_grid = isinstance(entry, Mapping) and "shape" in entry
        keys: tuple[str, ...] = ("name", "features")
        keys += ("position",) * has_position + ("shape", "cells") * is_grid
        entity = _record("an entity type", entry, keys)
        where = shorten(entity["name"])
        features = list(map(_feature, _entries(f"the features of {where}", entity["features"])))
        position = (
            Position(*_entries(f"the position of {where}", entity["position"]))
            if has_position
            else None
        )
        if is_grid and has_position:
            raise SpaceError(f"the grid {where} in saved spaces has a position")
        made = (
            Grid(entity["shape"], features, entity["cells"])
            if is_grid
            else Entity(features, position)
        )
        _add("entity type", entities, entity["name"], made)
    actions: dict[ActionName, ActionSpace] = {}
    for entry in _entries("actions", parts["actions"]):
        action = _kind_of("an action", entry, _ACTION_KEYS)
        kind = _KINDS[action["kind"]]
        space = kind.space(*[action[key] for key in kind.keys])
        _add("action", actions, action["name"], space)
    entries = _entries("global_features", parts["global_features"])
    obs_space = ObsSpace(global_features=list(map(_feature, entries)), entities=entities)
    return obs_space, check_action_space(actions)


_FEATURE_KEYS = {
    "continuous": ("kind", "name", "mean", "std"),
    "discrete": ("kind", "name", "n"),
    "word": ("kind", "name", "n", "vocabulary"),
    "flags": ("kind", "name", "count"),
}
"""Keys of each kind of feature; a ``word`` is a discrete feature with a vocabulary."""
_DISCRETE_KINDS: dict[str, type[Discrete]] = {
    "discrete": Discrete,
    "word": Discrete,
    "flags": Flags,
}
_KINDS = {kind.name: kind for kind in KINDS.values()}
_ACTION_KEYS = {name: ("kind", "name", *kind.keys) for name, kind in _KINDS.items()}


def _feature_to_json(feature: Feature) -> str | dict[str, Any]:
    if isinstance(feature, str):
        return feature
    if isinstance(feature, Flags):
        return {"kind": "flags", "name": feature.name, "count": feature.count}
    if isinstance(feature, Discrete):
        entry: dict[str, Any] = {"kind": "discrete", "name": feature.name, "n": feature.n}
        if feature.vocabulary is not None:
            entry |= {"kind": "word", "vocabulary": feature.vocabulary}
        return entry | ({"names": list(feature.names)} if feature.names else {})
    return {"kind": "continuous", "name": feature.name, "mean": feature.mean, "std": feature.std}


def _action_to_json(name: ActionName, space: ActionSpace) -> dict[str, Any]:
    kind = kind_of(space)
    return {"kind": kind.name, "name": name, **kind.to_json(space)}


def _feature(value: Any) -> Feature:
    if isinstance(value, str):
        return value
    names: dict[str, Any] = {}
    if isinstance(value, Mapping) and value.get("kind") in ("discrete", "word"):
        names = {key: part for key, part in value.items() if key == "names"}
        value = {key: part for key, part in value.items() if key != "names"}
    parts = _kind_of("a feature", value, _FEATURE_KEYS)
    if parts["kind"] in _DISCRETE_KINDS:
        kind = _DISCRETE_KINDS[parts["kind"]]
        return kind(*[parts[key] for key in _FEATURE_KEYS[parts["kind"]][1:]], **names)
    return Continuous(parts["name"], parts["mean"], parts["std"])


def _kind_of(what: str, value: Any, keys: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    """Return ``value`` if it has a known ``kind`` and the keys of that kind, or raise an error."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind not in keys if isinstance(kind, str) else True:
        raise SpaceError(
            f"{what} in saved spaces is of an unknown kind",
            received=shorten(value),
            options=keys,
            hint=nearest(kind, keys),
        )
    return _record(what, value, keys[str(kind)])


def _record(what: str, value: Any, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping with exactly these keys, or raise an error."""
    if not isinstance(value, Mapping) or set(value) != set(keys):
        raise SpaceError(
            f"{what} in saved spaces cannot be read",
            expected="a dict with the keys " + ", ".join(keys),
            received=shorten(value),
        )
    return value


def _entries(what: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise SpaceError(
            f"{what} in saved spaces cannot be read", expected="a list", received=shorten(value)
        )
    return value


def _add(kind: str, known: dict[str, Any], name: Any, space: Any) -> None:
    """Add ``space`` under its name, or raise an error if the name is taken."""
    if not isinstance(name, str):
        raise SpaceError(f"{kind} name is not a string", received=shorten(name))
    if name in known:
        raise SpaceError(f"{kind} {name!r} is given twice in saved spaces", options=known)
    known[name] = space
