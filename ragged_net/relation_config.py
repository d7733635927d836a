"""The setting ``net.relations``: features that contain the same kind of number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entity_env.errors import SettingError
from entity_env.spaces import ObsSpace
from ragged_net.position_config import check_feature

__all__ = ["checked_relations", "relations_in"]

_HINT = "net.relations: [[Job.machine, Machine.index]]"


def checked_relations(where: str, relations: Any) -> tuple[tuple[str, ...], ...]:
    """Return the relations as tuples of ``Type.feature``, checked without a space.

    Raises:
        SettingError: They are not lists of ``Type.feature``.
    """
    found: list[tuple[str, ...]] = []
    own: Any
    for own in relations if _is_list(relations) else [None]:
        types = [part.partition(".")[0] for part in own if isinstance(part, str)] if own else []
        if not _is_list(own) or len(types) < len(own) or not all(map(_is_dotted, own)):
            raise SettingError(
                f"{where} names no features",
                expected="lists of an entity type and a feature each",
                received=repr(relations),
                hint=_HINT,
            )
        if len(set(types)) < len(types):
            raise SettingError(
                f"{where} names an entity type twice in one relation",
                expected="each type once; put another feature of it into another relation",
                received=repr(own),
            )
        found.append(tuple(own))
    return tuple(found)


def relations_in(
    obs_space: ObsSpace, relations: tuple[tuple[str, ...], ...]
) -> list[dict[str, str]]:
    """Return the feature of each entity type in each relation.

    Raises:
        SettingError: The space lacks a name, or a feature is not a plain number.
    """
    found = [{part.partition(".")[0]: part.partition(".")[2] for part in own} for own in relations]
    for own in found:
        for name, feature in own.items():
            check_feature(obs_space, "net.relations", name, feature)
    return found


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and bool(value)


def _is_dotted(part: object) -> bool:
    return isinstance(part, str) and all(part.partition("."))
