"""Observations: lists of entities, and the actors of each action."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.arguments import quick_arguments, unknown_argument
from entity_env.errors import ActionMaskError, ObservationError, shorten
from entity_env.spaces import ActionName, EntityName, ObsSpace

__all__ = [
    "NO_REWARD",
    "ActionMask",
    "CategoricalActionMask",
    "ContinuousActionMask",
    "EntityID",
    "Features",
    "GlobalCategoricalActionMask",
    "GlobalContinuousActionMask",
    "Observation",
    "SelectEntityActionMask",
]

EntityID: TypeAlias = Hashable
Features: TypeAlias = Union[npt.NDArray[Any], Sequence[Sequence[float]]]
"""Rows of numbers, one row for each entity. Shape: (N, F)."""
NO_REWARD = float("0")
"""The reward where none is given: an object of its own, so that a check can tell it from others."""
BoolMask: TypeAlias = Union[npt.NDArray[np.bool_], Sequence[Any]]


@quick_arguments(ActionMaskError, ("actor_ids", "actor_types"))
@dataclass(slots=True)
class CategoricalActionMask:
    """The entities that pick a choice, and the choices of each of them.

    Args:
        actor_ids: The actors by id; excludes ``actor_types``.
        actor_types: The actors by entity type, in the order given. A type that is absent from the
            frame adds nobody. With neither argument every entity is an actor.
        mask: Shape (actors, choices), True = allowed. None allows everything.
    """

    actor_ids: Sequence[EntityID] | None = None
    actor_types: Sequence[EntityName] | None = None
    mask: BoolMask | None = None


@quick_arguments(ActionMaskError, ("actor_ids", "actor_types"), ("actee_ids", "actee_types"))
@dataclass(slots=True)
class SelectEntityActionMask:
    """The entities that select another one, and those that they can select.

    Where a frame holds nothing to select, its actors have nothing to do: the action then has no
    actors in that frame.

    Args:
        actor_ids: The actors by id; excludes ``actor_types``.
        actor_types: The actors by entity type. With neither argument every entity is an actor.
        actee_ids: The selectable entities by id; excludes ``actee_types``.
        actee_types: The selectable entities by type. With neither argument all are selectable.
        mask: Shape (actors, actees), True = this actor can select this actee. None allows all.
    """

    actor_ids: Sequence[EntityID] | None = None
    actor_types: Sequence[EntityName] | None = None
    actee_types: Sequence[EntityName] | None = None
    actee_ids: Sequence[EntityID] | None = None
    mask: BoolMask | None = None


@quick_arguments(ActionMaskError)
@dataclass(slots=True)
class GlobalCategoricalActionMask:
    """The choices that the player as a whole has.

    Args:
        mask: Shape (choices,) or (1, choices), True = allowed. None allows everything.
    """

    mask: BoolMask | None = None


@quick_arguments(ActionMaskError, ("actor_ids", "actor_types"))
@dataclass(slots=True)
class ContinuousActionMask:
    """The entities that set the numbers of a continuous action.

    Args:
        actor_ids: The actors by id; excludes ``actor_types``.
        actor_types: The actors by entity type. With neither argument every entity is an actor.
    """

    actor_ids: Sequence[EntityID] | None = None
    actor_types: Sequence[EntityName] | None = None


@quick_arguments(ActionMaskError)
@dataclass(slots=True)
class GlobalContinuousActionMask:
    """Says that the player as a whole sets the numbers of a continuous action."""


ActionMask: TypeAlias = Union[
    CategoricalActionMask,
    SelectEntityActionMask,
    GlobalCategoricalActionMask,
    ContinuousActionMask,
    GlobalContinuousActionMask,
]


@dataclass(kw_only=True, slots=True)
class Observation:
    """One frame as an environment shows it.

    Give the entities either as ``features`` (and ``ids``) or as ``entities``. To set anything that
    is not named here is an AttributeError.

    Args:
        features: Rows of features for each entity type. An absent type has no entities.
        entities: For each entity type its rows, or a pair (rows, ids), or None.
        ids: Ids of the entities of each type, unique in the frame, in a list, a tuple, a set or the
            keys of a dict. May be left out for types that nothing refers to by id.
        actions: For each action who may take it. An action left out cannot be taken this step.
        reward: The reward of the step that led here.
        done: The episode is over.
        truncated: With ``done``: a limit ended the episode, not the game, so the value of this
            last observation still counts.
        global_features: Shape (G,), the features that each frame has once.
        visible: For each entity type a mask of shape (N,). Entities marked False are seen by the
            value function only. A type left out is visible.
        metrics: Named numbers to log. Of each its last value in an episode is kept, and of one that
            is given more than once also mean, min, max, sum and count, as ``energy.mean``.
    """

    features: Mapping[EntityName, Features | None] | None = None
    ids: Mapping[EntityName, Sequence[EntityID]] | None = None
    actions: Mapping[ActionName, ActionMask] | None = None
    reward: float = NO_REWARD
    done: bool = False
    truncated: bool = False
    global_features: npt.NDArray[Any] | Sequence[float] | None = None
    visible: Mapping[EntityName, BoolMask] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    entities: InitVar[Mapping[EntityName, Any] | None] = None

    def __init__(
        self,
        *unnamed: Any,
        features: Mapping[EntityName, Features | None] | None = None,
        ids: Mapping[EntityName, Sequence[EntityID]] | None = None,
        actions: Mapping[ActionName, ActionMask] | None = None,
        reward: float = NO_REWARD,
        done: bool = False,
        truncated: bool = False,
        global_features: npt.NDArray[Any] | Sequence[float] | None = None,
        visible: Mapping[EntityName, BoolMask] | None = None,
        metrics: Mapping[str, float] | None = None,
        entities: Mapping[EntityName, Any] | None = None,
        **unknown: Any,
    ) -> None:
        if unnamed:
            raise ObservationError(
                "the parts of an observation are given by name",
                expected="Observation(features={...}, ...)",
                received=shorten(unnamed[0]),
            )
        if unknown:
            names = [part.name for part in fields(Observation)]
            raise unknown_argument(ObservationError, "Observation", unknown, [*names, "entities"])
        if entities is not None:
            features, ids = _from_entities(entities, features, ids)
        self.features = {} if features is None else features
        self.ids = {} if ids is None else ids
        self.actions = {} if actions is None else actions
        self.reward = reward
        self.done = done
        self.truncated = truncated
        self.global_features = [] if global_features is None else global_features
        self.visible = {} if visible is None else visible
        self.metrics = {} if metrics is None else metrics

    def __post_init__(self, entities: Mapping[EntityName, Any] | None) -> None:
        """Fill in absent parts where a dataclass adds some to these, whose own ``__init__`` ran."""
        own: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(Observation)}
        Observation.__init__(self, **own, entities=entities)

    @classmethod
    def empty(cls) -> Observation:
        """Return an observation without entities, in which nobody acts."""
        return cls()

    def num_entities(self, entity: EntityName) -> int:
        """Return the number of entities of a type; 0 for a type that is absent."""
        return self._numbered([entity])[0]

    def index_to_id(self, obs_space: ObsSpace) -> list[EntityID | None]:
        """Return the id of each entity in the order of ``obs_space``, or None."""
        return self._numbered(obs_space.entities)[1]

    def id_to_index(self, obs_space: ObsSpace) -> dict[EntityID, int]:
        """Return the index that each id has in ``index_to_id``."""
        return self._numbered(obs_space.entities)[2]

    def _numbered(
        self, types: Iterable[EntityName]
    ) -> tuple[int, list[EntityID | None], dict[EntityID, int]]:
        """Return the number of entities of these types, their ids, and indices by id."""
        count, all_ids = 0, list[EntityID | None]()
        index_of: dict[EntityID, int] = {}
        try:
            for name in types:
                rows, ids = (self.features or {}).get(name), (self.ids or {}).get(name)
                there = 0 if rows is None else _number_of(rows)
                own = [None] * there if ids is None else list(ids)
                if ids is not None:
                    index_of |= {one: len(all_ids) + place for place, one in enumerate(own)}
                count, all_ids = count + there, all_ids + own
        except Exception as error:  # parts that are no dicts, ids that cannot be hashed
            raise ObservationError(
                f"the entities of an observation cannot be numbered: {shorten(error)}",
                expected="dicts from entity type to rows, and to ids",
                received=shorten(self),
            ) from error
        return count, all_ids, index_of


def _number_of(rows: Any) -> int:
    """Return the number of entities of rows (N, F), or of a grid's cells."""
    shape: tuple[int, ...] = getattr(rows, "shape", ())
    if len(shape) == 3:
        return int(shape[0] * shape[1])
    try:
        nested = not shape and len(rows[0][0]) >= 0  # lists of lists of features
    except (IndexError, KeyError, TypeError):
        nested = False
    return sum(map(len, rows)) if nested else len(rows)


def _from_entities(
    entities: Mapping[EntityName, Any], features: object, ids: object
) -> tuple[dict[EntityName, Features | None], dict[EntityName, Sequence[EntityID]]]:
    """Return the features and ids in ``entities``, beside which there must be none."""
    if features is not None or ids is not None:
        raise ObservationError(
            "an observation gives its entities twice",
            expected="entities, or features with ids",
            received="both",
        )
    if not isinstance(entities, Mapping):
        raise ObservationError(
            "Observation.entities is not a mapping",
            expected="a dict from entity type to rows, (rows, ids) or None",
            received=shorten(entities),
        )
    return _split_entities(entities)


def _split_entities(
    entities: Mapping[EntityName, Any],
) -> tuple[dict[EntityName, Features | None], dict[EntityName, Sequence[EntityID]]]:
    features: dict[EntityName, Features | None] = {}
    ids: dict[EntityName, Sequence[EntityID]] = {}
    for name, value in entities.items():
        if not isinstance(value, tuple):
            features[name] = value
        elif len(value) == 2:
            features[name], ids[name] = value
        else:
            raise ObservationError(
                f"entity type {shorten(name)} is a tuple of {len(value)}",
                expected="rows, or a pair (rows, ids); write the rows as a list",
                received=shorten(value),
            )
    return features, ids
