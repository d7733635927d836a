"""``FeatureFilter``, which keeps a part of the entity types and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.environment import Environment
from entity_env.errors import SettingError
from entity_env.kinds.categorical import FrameCategoricalActors
from entity_env.kinds.select_entity import FrameSelectActors
from entity_env.observation import (
    ActionMask,
    CategoricalActionMask,
    ContinuousActionMask,
    EntityID,
    GlobalCategoricalActionMask,
    GlobalContinuousActionMask,
    Observation,
    SelectEntityActionMask,
)
from entity_env.spaces import ActionName, ActionSpace, EntityName, ObsSpace
from entity_env.wrappers.quick_filter import QuickFilter
from entity_env.wrappers.selection import Selection
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["FeatureFilter", "ObservationFilter", "filtered"]


@named_arguments(SettingError)
class FeatureFilter(Wrapper):
    """A wrapper that keeps the entity types and features of a smaller space, in its order.

    Ids do not change. Entities of a type that is left out cannot act or be selected: they are
    removed from masks, and ``act`` of the environment gets no actions for them; an environment that
    needs their actions must check this itself. An actor that can select such entities only has
    nothing to do in that frame. The action space does not change.

    Args:
        env: The environment.
        obs_space: The smaller space; see ``subspace``.

    Raises:
        SpaceError: The environment lacks a type or a feature of ``obs_space``, or has it of
            another kind, such as ``Discrete("terrain", 4)`` instead of ``Discrete("terrain", 5)``.
    """

    def __init__(self, env: Environment, obs_space: ObsSpace) -> None:
        super().__init__(env)
        self._filter = ObservationFilter(env.obs_space(), env.action_space(), obs_space)

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._filter.obs_space

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        return super().act(self._filter.own_actions(actions))

    def _show(self, observation: Observation) -> Observation:
        return self._filter.show(observation)


class ObservationFilter:
    """The filter of observations and actions in ``FeatureFilter``.

    Args:
        whole: Space of the observations.
        action_space: The action space.
        part: Space of the filtered observations.

    Raises:
        SpaceError: See ``FeatureFilter``.
    """

    def __init__(
        self, whole: ObsSpace, action_space: Mapping[ActionName, ActionSpace], part: ObsSpace
    ) -> None:
        self._reader = FrameReader(whole, action_space)
        self._selection = Selection.of(self._reader.obs_space, part)
        self._quick = QuickFilter(self._selection)
        self._has_new_ids = False

    @property
    def obs_space(self) -> ObsSpace:
        """The observation space."""
        return self._selection.part

    def show(self, observation: Observation) -> Observation:
        """Return the observation with the kept features."""
        quick = self._quick.filter(observation)
        return self._read(observation) if quick is None else quick

    def own_actions(self, actions: Mapping[ActionName, Action]) -> dict[ActionName, Action]:
        """Convert actions for a filtered observation to those of its environment."""
        if not self._has_new_ids:
            return dict(actions)
        return {name: _with_own_ids(action) for name, action in actions.items()}

    def _read(self, observation: Observation) -> Observation:
        """Return the kept part of any observation; raise errors for all mistakes."""
        frame, kept = self._reader.read(observation), self._selection
        part = _Part(frame, observation, list(kept.columns))
        given: Mapping[ActionName, Any] = observation.actions or {}
        masks = {name: part.mask(given[name], actors) for name, actors in frame.actions.items()}
        self._has_new_ids |= part.has_new_ids
        return Observation(
            features={
                name: frame.features[name][:, columns] for name, columns in kept.columns.items()
            },
            ids=part.given_ids,
            actions={name: mask for name, mask in masks.items() if mask is not None},
            reward=frame.reward,
            done=frame.done,
            truncated=frame.truncated,
            global_features=frame.global_features[kept.global_columns],
            visible={name: shown for name, shown in frame.visible.items() if name in kept.columns},
            metrics=frame.metrics,
        )


def filtered(create_env: Callable[[], Environment], obs_space: ObsSpace) -> FeatureFilter:
    """Return a ``FeatureFilter`` around a new environment, for workers."""
    return FeatureFilter(create_env(), obs_space)


class _Part:
    """The part of one frame with entities of the types ``kept`` only."""

    def __init__(self, frame: Frame, observation: Observation, kept: list[EntityName]) -> None:
        given: Mapping[EntityName, Any] = observation.ids or {}
        self.given_ids = {name: list(given[name]) for name in kept if given.get(name) is not None}
        self.has_new_ids = False
        self._left = [name for name in frame.features if name in kept]
        self._types = [name for name, rows in frame.features.items() for _ in range(len(rows))]
        self._stays = np.array([name in kept for name in self._types], np.bool_)

    def mask(self, given: Any, read: Any) -> ActionMask | None:
        """Return the mask without the entities that are left out; None without actors.

        Args:
            given: The mask in the observation.
            read: The actors that were read from it.
        """
        if isinstance(given, GlobalContinuousActionMask):
            return given
        if isinstance(given, GlobalCategoricalActionMask):
            return GlobalCategoricalActionMask(read.mask[0])
        acts = self._stays[read.actors]
        if isinstance(read, FrameSelectActors):
            return self._select(given, read, acts)
        if not acts.any():
            return None
        ids, types = self._named(given.actor_ids, given.actor_types, read.actors, acts)
        if isinstance(read, FrameCategoricalActors):
            return CategoricalActionMask(actor_ids=ids, actor_types=types, mask=read.mask[acts])
        return ContinuousActionMask(ids, types)

    def _select(
        self, given: Any, read: FrameSelectActors, acts: npt.NDArray[np.bool_]
    ) -> SelectEntityActionMask | None:
        selectable, mask = self._stays[read.actees], read.mask
        if mask is not None:
            acts = acts & mask[:, selectable].any(axis=1)
        if not acts.any() or not selectable.any():
            return None
        actors = self._named(given.actor_ids, given.actor_types, read.actors, acts)
        actees = self._named(given.actee_ids, given.actee_types, read.actees, selectable)
        return SelectEntityActionMask(
            actor_ids=actors[0],
            actor_types=actors[1],
            actee_ids=actees[0],
            actee_types=actees[1],
            mask=None if mask is None else mask[np.ix_(acts, selectable)],
        )

    def _named(
        self,
        ids: Sequence[EntityID] | None,
        types: Sequence[EntityName] | None,
        entities: npt.NDArray[np.int64],
        remain: npt.NDArray[np.bool_],
    ) -> tuple[Sequence[EntityID] | None, Sequence[EntityName] | None]:
        """Return the remaining ids or types of ``entities``, in the given form."""
        if ids is not None:
            return [one for one, remains in zip(ids, remain, strict=True) if remains], None
        if np.array_equal(remain, self._stays[entities]):
            named = self._left if types is None else types
            return None, [name for name in named if name in self._left]
        return [self._id(entity) for entity in entities[remain].tolist()], None

    def _id(self, entity: int) -> EntityID:
        """Return the id of an entity, or a new one if its type has no ids."""
        name = self._types[entity]
        if name not in self.given_ids:
            self.given_ids[name] = [_Nameless(name, i) for i in range(self._types.count(name))]
            self.has_new_ids = True
        entity_id: EntityID = self.given_ids[name][entity - self._types.index(name)]
        return entity_id


@dataclass(frozen=True)
class _Nameless:
    """A new id for an entity without one, if only some entities of its type can act."""

    type: EntityName
    index: int


def _with_own_ids(action: Action) -> Action:
    """Return the action with None for entities that have no id in the environment."""
    parts = [part for part in ("actors", "actees") if hasattr(action, part)]
    changes: dict[str, Any] = {part: _given(getattr(action, part)) for part in parts}
    return replace(action, **changes)


def _given(ids: Any) -> list[Any]:
    """Return ids, or lists of ids for each actor, with None in the place of new ids."""
    return [
        _given(one) if type(one) is list else None if isinstance(one, _Nameless) else one
        for one in ids
    ]
