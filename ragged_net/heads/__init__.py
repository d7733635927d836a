"""The heads: one file for each kind of action, and the value; ``head_kind`` finds the kind."""

from __future__ import annotations

from entity_env.spaces import ActionSpace
from ragged_net.heads.categorical import CategoricalHeadKind, GlobalCategoricalHeadKind
from ragged_net.heads.continuous import ContinuousHeadKind, GlobalContinuousHeadKind
from ragged_net.heads.kind import HeadKind
from ragged_net.heads.select_entities import SelectEntitiesHeadKind
from ragged_net.heads.select_entity import SelectEntityHeadKind

__all__ = ["HEADS", "head_kind"]

HEADS: dict[type[ActionSpace], HeadKind] = {
    kind.space: kind
    for kind in (
        CategoricalHeadKind(),
        GlobalCategoricalHeadKind(),
        SelectEntityHeadKind(),
        SelectEntitiesHeadKind(),
        ContinuousHeadKind(),
        GlobalContinuousHeadKind(),
    )
}


def head_kind(space: ActionSpace) -> HeadKind:
    """Return the kind of head for an action space."""
    return HEADS[type(space)]
