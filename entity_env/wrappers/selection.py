"""Selections of entity types and features of a space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from entity_env.errors import SpaceError, check_known, shorten, unknown_name
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Continuous,
    Entity,
    EntityName,
    Feature,
    Grid,
    ObsSpace,
    feature_name,
)

__all__ = ["Selection", "check_same_actions"]


@dataclass(frozen=True)
class Selection:
    """The places of the types and features of a smaller space in a larger one.

    Args:
        whole: The larger space.
        part: The smaller space.
        columns: For each entity type of ``part`` the columns of its features in ``whole``.
            Shape: (F,), int64.
        global_columns: The columns of the global features. Shape: (G,), int64.
    """

    whole: ObsSpace
    part: ObsSpace
    columns: Mapping[EntityName, npt.NDArray[np.int64]]
    global_columns: npt.NDArray[np.int64]

    @classmethod
    def of(cls, whole: ObsSpace, part: ObsSpace) -> Selection:
        """Find ``part`` in ``whole``, by the names of types and features.

        Raises:
            SpaceError: A type or a feature of ``part`` is missing in ``whole``, or is of another
                kind.
        """
        for space in (whole, part):
            _check_space(space)
        columns = {}
        for name, entity in part.entities.items():
            if name not in whole.entities:
                raise unknown_name(
                    SpaceError, f"the environment has no entity type {name!r}", name, whole.entities
                )
            _check_same_grid(name, whole.entities[name], entity)
            owner = f"entity type {name!r}"
            columns[name] = _columns(owner, whole.entities[name].features, entity.features)
        return cls(
            whole=whole,
            part=part,
            columns=columns,
            global_columns=_columns(
                "the environment", whole.global_features, part.global_features, "global feature"
            ),
        )

    @property
    def is_whole(self) -> bool:
        """True if ``part`` is all of ``whole``, in its order."""
        return (
            self.keeps_types
            and all(
                _is_all(own, self.whole.entities[name].features)
                for name, own in self.columns.items()
            )
            and _is_all(self.global_columns, self.whole.global_features)
        )

    @property
    def keeps_types(self) -> bool:
        """True if no entity type is left out, and their order is the same."""
        return list(self.part.entities) == list(self.whole.entities)

    def left_out(self) -> list[str]:
        """Return the parts of ``whole`` that are not in ``part``, as text."""
        names = [
            f"entity type {name!r}" for name in self.whole.entities if name not in self.columns
        ]
        for name, entity in self.part.entities.items():
            every = self.whole.entities[name].names
            names += [f"feature {own!r} of {name!r}" for own in every if own not in entity.names]
        own_globals = self.part.global_names
        every = self.whole.global_names
        return names + [f"global feature {own!r}" for own in every if own not in own_globals]


def check_same_actions(
    known: Mapping[ActionName, ActionSpace], own: Mapping[ActionName, ActionSpace]
) -> None:
    """Check that the ``own`` actions of an environment are those of a network or agent.

    Raises:
        SpaceError: An action is missing on either side, or differs.
    """
    check_known(SpaceError, "the environment has no action {}", known, own)
    check_known(SpaceError, "the agent has no action {}", own, known)
    for name, space in own.items():
        if known[name] != space:
            raise SpaceError(
                f"action {name!r} differs",
                expected=f"{shorten(space)}, as in the environment",
                received=shorten(known[name]),
            )


def _check_same_grid(name: EntityName, whole: Entity, part: Entity) -> None:
    shapes = [(own.shape, own.cells) if isinstance(own, Grid) else None for own in (whole, part)]
    if shapes[0] != shapes[1]:
        raise SpaceError(
            f"entity type {name!r} differs: it is another grid, or only one of the two is a grid",
            expected=shorten(whole),
            received=shorten(part),
        )


def _check_space(space: object) -> None:
    if not isinstance(space, ObsSpace):
        raise SpaceError(
            "not an observation space", expected="an ObsSpace", received=shorten(space)
        )


def _columns(
    owner: str, whole: Sequence[Feature], part: Sequence[Feature], what: str = "feature"
) -> npt.NDArray[np.int64]:
    names = [feature_name(feature) for feature in whole]
    columns = []
    for feature in part:
        name = feature_name(feature)
        if name not in names:
            raise unknown_name(SpaceError, f"{owner} has no {what} {name!r}", name, names)
        columns.append(names.index(name))
        if _kind(whole[columns[-1]]) != _kind(feature):
            raise SpaceError(
                f"{what} {name!r} of {owner} is of another kind",
                expected=f"{shorten(whole[columns[-1]])}, as in the environment",
                received=shorten(feature),
            )
    return np.array(columns, np.int64)


def _kind(feature: Feature) -> Feature:
    """Return a plain name as ``Continuous`` without a scale, which is the same feature."""
    return Continuous(feature) if isinstance(feature, str) else feature


def _is_all(columns: npt.NDArray[np.int64], features: Sequence[Feature]) -> bool:
    return bool(np.array_equal(columns, np.arange(len(features))))
