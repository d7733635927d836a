"""Observations: lists of entities, and the actors of each action."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from entity_env.arguments import quick_arguments, unknown_argument
from entity_env.errors import MaskError, ObservationError, shorten
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
"""The default reward: a separate object, so that a check can distinguish it from a given 0."""
BoolMask: TypeAlias = Union[npt.NDArray[np.bool_], Sequence[Any]]


@quick_arguments(MaskError, ("actor_ids", "actor_types"))
@dataclass(slots=True)
class CategoricalActionMask:
    """The entities that pick a choice, and the choices of each of them.

    Args:
        actor_ids: The actors by id; give either this or ``actor_types``.
        actor_types: The actors by entity type, in the order given; a type may be absent from the
            frame. With neither argument every entity is an actor.
        mask: Shape (actors, choices), True = allowed. None allows everything.
    """

    actor_ids: Sequence[EntityID] | None = None
    actor_types: Sequence[EntityName] | None = None
    mask: BoolMask | None = None


@quick_arguments(MaskError, ("actor_ids", "actor_types"), ("actee_ids", "actee_types"))
@dataclass(slots=True)
class SelectEntityActionMask:
    """The entities that select another one, and those that they can select.

    The action has no actors in frames without selectable entities.

    Args:
        actor_ids: The actors by id; give either this or ``actor_types``.
        actor_types: The actors by entity type. With neither argument every entity is an actor.
        actee_ids: The selectable entities by id; give either this or ``actee_types``.
        actee_types: The selectable entities by type. With neither argument all are selectable.
        mask: Shape (actors, actees), True = allowed. None allows all pairs.
    """

    actor_ids: Sequence[EntityID] | None = None
    actor_types: Sequence[EntityName] | None = None
    actee_types: Sequence[EntityName] | None = None
    actee_ids: Sequence[EntityID] | None = None
    mask: BoolMask | None = None


@quick_arguments(MaskError)
@dataclass(slots=True)
class GlobalCategoricalActionMask:
    """The choices of the player as a whole.

    Args:
        mask: Shape (choices,) or (1, choices), True = allowed. None allows everything.
    """

    mask: BoolMask | None = None


@quick_arguments(MaskError, ("actor_ids", "actor_types"))
@dataclass(slots=True)
class ContinuousActionMask:
    """The entities that set the numbers of a continuous action.

    Args:
        actor_ids: The actors by id; give either this or ``actor_types``.
        actor_types: The actors by entity type. With neither argument every entity is an actor.
    """

    actor_ids: Sequence[EntityID] | None = None
    actor_types: Sequence[EntityName] | None = None


@quick_arguments(MaskError)
@dataclass(slots=True)
class GlobalContinuousActionMask:
    """A mark that the player as a whole sets the numbers of a continuous action."""


ActionMask: TypeAlias = Union[
    CategoricalActionMask,
    SelectEntityActionMask,
    GlobalCategoricalActionMask,
    ContinuousActionMask,
    GlobalContinuousActionMask,
]


@dataclass(kw_only=True, slots=True)
class Observation:
    """The entities, masks and reward of one frame, returned by an environment.

    Give the entities either as ``features`` (and ``ids``) or as ``entities``. Setting any other
    attribute raises an AttributeError.

    Args:
        features: Rows of features for each entity type. A type that is left out has no entities.
        entities: For each entity type its rows, or a pair (rows, ids), or None.
        ids: Ids of the entities of each type, unique in the frame, in a list, a tuple, a set or the
            keys of a dict. May be left out for types that nothing refers to by id.
        actions: The mask of each action. An action that is left out cannot be taken in this step.
        reward: The reward of the last step.
        done: True at the end of the episode.
        truncated: True if a limit ended the episode, not the game; set ``done``, too. The value of
            this observation is then added to the return.
        global_features: The features that each frame has once. Shape: (G,).
        visible: For each entity type a mask of shape (N,). Entities marked False are hidden from
            the policy, but not from the value function. A type that is left out is visible.
        metrics: Named numbers to log. The last value of each episode is logged; for a metric that
            is given more than once, also its mean, min, max, sum and count, as ``energy.mean``.
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
                "the parts of an observation must be given by name",
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
        """Set the parts that the ``__init__`` of a subclass that is a dataclass has left out."""
        own: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(Observation)}
        Observation.__init__(self, **own, entities=entities)

    @classmethod
    def empty(cls) -> Observation:
        """Return an observation without entities and actors."""
        return cls()

    def num_entities(self, entity: EntityName) -> int:
        """Return the number of entities of a type, 0 if the type is absent."""
        return self._numbered([entity])[0]

    def index_to_id(self, obs_space: ObsSpace) -> list[EntityID | None]:
        """Return the id of each entity in the order of ``obs_space``, or None."""
        return self._numbered(obs_space.entities)[1]

    def id_to_index(self, obs_space: ObsSpace) -> dict[EntityID, int]:
        """Return the index of each id in ``index_to_id``."""
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
        except Exception as error:  # parts that are not dicts, ids that cannot be hashed
            raise ObservationError(
                f"the entities of an observation cannot be numbered: {shorten(error)}",
                expected="dicts from entity types to rows, and to ids",
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
    """Return the features and ids in ``entities``; check that they are not given twice."""
    if features is not None or ids is not None:
        raise ObservationError(
            "an observation gives its entities twice",
            expected="either entities, or features with ids",
            received="both",
        )
    if not isinstance(entities, Mapping):
        raise ObservationError(
            "Observation.entities is not a mapping",
            expected="a dict from entity types to rows, (rows, ids) or None",
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
                f"the value of entity type {shorten(name)} is a tuple of length {len(value)}",
                expected="rows, or a pair (rows, ids); write the rows as a list",
                received=shorten(value),
            )
    return features, ids
