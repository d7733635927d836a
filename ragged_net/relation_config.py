"""The setting ``net.relations``: which features name the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entity_env.spaces import Discrete, Grid, ObsSpace, feature_name
from ragged_net.errors import NetConfigError, nearest

__all__ = ["checked_relations", "relations_in"]

_HINT = "net.relations: [[Job.machine, Machine.index]]"


def checked_relations(relations: Any) -> tuple[tuple[str, ...], ...]:
    """Return the relations as tuples of ``Type.feature``, checked as far as no space is needed.

    Raises:
        NetConfigError: They are something else.
    """
    found: list[tuple[str, ...]] = []
    own: Any
    for own in relations if _is_list(relations) else [None]:
        types = [part.partition(".")[0] for part in own if isinstance(part, str)] if own else []
        if not _is_list(own) or len(types) < len(own) or not all(map(_is_dotted, own)):
            raise NetConfigError(
                "NetConfig.relations names no features",
                expected="lists of an entity type and a feature each",
                received=repr(relations),
                hint=_HINT,
            )
        if len(set(types)) < len(types):
            raise NetConfigError(
                "NetConfig.relations names an entity type twice in one relation",
                expected="each type once; another feature of it belongs to another relation",
                received=repr(own),
            )
        found.append(tuple(own))
    return tuple(found)


def relations_in(
    obs_space: ObsSpace, relations: tuple[tuple[str, ...], ...]
) -> list[dict[str, str]]:
    """For each relation, the feature of each entity type that is in it.

    Raises:
        NetConfigError: Names that the space does not have, or features that are no plain numbers.
    """
    return [dict(_found(obs_space, part) for part in own) for own in relations]


def _found(obs_space: ObsSpace, part: str) -> tuple[str, str]:
    name, _, feature = part.partition(".")
    if name not in obs_space.entities:
        raise NetConfigError(
            f"net.relations has an unknown entity type {name!r}",
            options=obs_space.entities,
            hint=nearest(name, obs_space.entities),
        )
    entity = obs_space.entities[name]
    if isinstance(entity, Grid):
        raise NetConfigError(
            f"net.relations names the Grid {name!r}", expected="entity types with features"
        )
    if feature not in entity.names:
        raise NetConfigError(
            f"net.relations: entity type {name!r} has no feature {feature!r}",
            options=entity.names,
            hint=nearest(feature, entity.names),
        )
    kinds = {feature_name(own): own for own in entity.features}
    if isinstance(kinds.get(feature), Discrete):
        raise NetConfigError(
            f"net.relations: {feature!r} of {name!r} is a discrete feature, which is embedded",
            expected="a continuous one that holds whole numbers, -1 for none",
        )
    return name, feature


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and bool(value)


def _is_dotted(part: object) -> bool:
    return isinstance(part, str) and all(part.partition("."))
