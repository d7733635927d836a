"""``FrameReader``, which converts an observation to a checked ``Frame`` or raises an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.features import check_values, feature_rows, is_listed, numbers
from entity_env.batching.frame import Frame, FrameActors
from entity_env.batching.grids import cell_ids, grid_rows, with_ids, with_mask, with_silent_cells
from entity_env.batching.kinds.table import kind_of
from entity_env.batching.masks import ONCE_ONLY, MaskReader, bool_array
from entity_env.batching.step_results import read_end, read_metrics, read_reward
from entity_env.errors import (
    ActionError,
    EntityEnvError,
    FeatureError,
    MaskError,
    ObservationError,
    counted,
    shorten,
    unknown_name,
)
from entity_env.habits import returned_hint
from entity_env.observation import EntityID, Observation
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    EntityName,
    Grid,
    ObsSpace,
    check_action_space,
    check_obs_space,
    feature_name,
)

__all__ = ["FrameReader"]


class FrameReader:
    """A reader of observations for an observation space and an action space.

    Args:
        obs_space: The observation space.
        action_space: The action space.
    """

    def __init__(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        self.obs_space = check_obs_space(obs_space)
        self.grids = obs_space.grids
        self.action_space = check_action_space(action_space)

    def read(self, observation: Observation, where: str | None = None) -> Frame:
        """Return the checked frame.

        Masks of a finished episode (``done``) are not read, because nobody can act.

        Args:
            observation: The observation.
            where: The place for errors.

        Raises:
            EntityEnvError: The mistake, as an error of a subclass.
        """
        try:
            return self._read(observation)
        except EntityEnvError as error:
            if where is None:
                raise
            raise error.located(where) from error.__cause__
        except Exception as error:  # an object may raise anything
            raise ObservationError(
                f"the observation cannot be read: {shorten(error)}", received=shorten(observation)
            ) from error

    def _read(self, observation: Observation) -> Frame:
        if not isinstance(observation, Observation):
            raise ObservationError(
                "the observation, as reset, act or set_state returns it, is not an Observation",
                expected="entity_env.Observation",
                received=shorten(observation),
                hint=returned_hint(observation, "the Observation"),
            )
        features = self._features(observation)
        ids, index_of = self._ids(observation, features)
        visible = self._visible(observation, features)
        done, truncated = read_end(observation)
        return Frame(
            features=features,
            global_features=self._global_features(observation),
            visible=visible,
            ids=ids,
            actions={} if done else self._actions(observation, features, visible, ids, index_of),
            reward=read_reward(observation.reward),
            done=done,
            truncated=truncated,
            metrics=read_metrics(_mapping("metrics", observation.metrics)),
        )

    def _features(self, observation: Observation) -> dict[EntityName, npt.NDArray[np.float32]]:
        given = _mapping("features", observation.features)
        self._check_types("features", given)
        return {
            name: grid_rows(f"entity type {name!r}", given.get(name), entity)
            if isinstance(entity, Grid)
            else feature_rows(f"entity type {name!r}", given.get(name), entity.features)
            for name, entity in self.obs_space.entities.items()
        }

    def _global_features(self, observation: Observation) -> npt.NDArray[np.float32]:
        expected, given = self.obs_space.global_features, observation.global_features
        if not expected and type(given) is list and not given:
            return np.zeros(0, np.float32)  # the usual case, ten times as fast
        values = numbers("global_features", given)
        if values.shape != (len(expected),):
            names = ", ".join(map(feature_name, expected))
            raise FeatureError(
                "global_features has the wrong shape",
                expected=f"({len(expected)},) for {names or 'a space without global features'}",
                received=f"shape {values.shape}: {shorten(given)}",
            )
        check_values("global_features", values[None], expected)
        return values

    def _ids(
        self, observation: Observation, features: Mapping[EntityName, npt.NDArray[np.float32]]
    ) -> tuple[list[EntityID], dict[EntityID, int]]:
        given = _mapping("ids", observation.ids)
        self._check_types("ids", given)
        ids: list[EntityID] = []
        index_of: dict[EntityID, int] = {}
        taken: list[EntityID] = []
        for name, rows in features.items():
            own = given.get(name)
            if name in self.grids:
                if own is not None:
                    raise with_ids(name, own)
                if self.grids[name].cells and len(rows):
                    own = cell_ids(name, self.grids[name])
            if own is None:
                ids.extend([None] * len(rows))
                continue
            own = _id_list(name, own, len(rows))
            try:
                index_of.update(zip(own, range(len(ids), len(ids) + len(own)), strict=True))
            except TypeError as error:
                raise _unhashable(name, own) from error
            ids.extend(own)
            taken.extend(own)
            if len(index_of) != len(taken):
                raise _duplicate(name, taken)
        return ids, index_of

    def _visible(
        self, observation: Observation, features: Mapping[EntityName, npt.NDArray[np.float32]]
    ) -> dict[EntityName, npt.NDArray[np.bool_]]:
        given = _mapping("visible", observation.visible)
        self._check_types("visible", given)
        masks = {}
        for name, mask in given.items():
            if mask is None:
                continue
            if name in self.grids:
                raise with_mask(name, mask)
            masks[name] = bool_array(f"visible[{name!r}]", mask, ObservationError)
            expected = (len(features[name]),)
            if masks[name].shape != expected:
                raise ObservationError(
                    f"visible[{name!r}] has the wrong shape",
                    expected=f"{expected}, one value for each entity",
                    received=f"shape {masks[name].shape}",
                )
        return masks

    def _actions(
        self,
        observation: Observation,
        features: Mapping[EntityName, npt.NDArray[np.float32]],
        visible: Mapping[EntityName, npt.NDArray[np.bool_]],
        ids: list[EntityID],
        index_of: dict[EntityID, int],
    ) -> dict[ActionName, FrameActors]:
        given = _mapping("actions", observation.actions)
        counts = {name: len(rows) for name, rows in features.items()}
        reader = MaskReader(
            counts=counts,
            visible=with_silent_cells(visible, counts, self.grids) if self.grids else visible,
            ids=ids,
            index_of=index_of,
        )
        actions = {}
        for name, mask in given.items():
            if name not in self.action_space:
                raise unknown_name(ActionError, f"unknown action {name!r}", name, self.action_space)
            space = self.action_space[name]
            kind = kind_of(space)
            if not isinstance(mask, kind.mask):
                raise MaskError(
                    f"action {name!r} has a mask of the wrong class",
                    expected=kind.mask.__name__,
                    received=shorten(mask),
                )
            actors = kind.read(reader, name, mask, space)
            if actors is not None:
                actions[name] = actors
        return actions

    def _check_types(self, part: str, given: Mapping[Any, Any]) -> None:
        for name in given:
            if name not in self.obs_space.entities:
                raise unknown_name(
                    ObservationError,
                    f"unknown entity type {name!r} in {part}",
                    name,
                    self.obs_space.entities,
                )


def _mapping(part: str, value: object) -> Mapping[Any, Any]:
    # Check for dict first, because a check against an abstract class takes ten times as long.
    if type(value) is not dict and not isinstance(value, Mapping):
        raise ObservationError(
            f"Observation.{part} is not a mapping", expected="a dict", received=shorten(value)
        )
    return value


def _id_list(name: str, ids: object, count: int) -> list[EntityID]:
    if not is_listed(ids):
        raise ObservationError(
            f"the ids of entity type {name!r} are not a list",
            expected=f"a list of {counted(count, 'id')}",
            received=shorten(ids),
            hint=ONCE_ONLY if isinstance(ids, Iterator) else None,
        )
    if len(ids) != count:
        raise ObservationError(
            f"entity type {name!r} has {counted(count, 'entity')} and {counted(len(ids), 'id')}",
            expected=f"{counted(count, 'id')}, one for each row of features",
            received=shorten(list(ids)),
        )
    return list(ids)


def _unhashable(name: str, ids: list[EntityID]) -> ObservationError:
    for entity_id in ids:
        try:
            hash(entity_id)
        except TypeError:
            break
    return ObservationError(
        f"entity type {name!r} has an id that cannot be hashed",
        expected="hashable values, such as numbers, strings or tuples of them",
        received=shorten(entity_id),
    )


def _duplicate(name: str, taken: list[EntityID]) -> ObservationError:
    """Return the error for the first id that occurred before."""
    seen: set[EntityID] = set()
    for entity_id in taken:
        if entity_id in seen:
            break
        seen.add(entity_id)
    return ObservationError(
        f"entity type {name!r}: id {shorten(entity_id)} is already taken in this frame",
        expected="ids that are unique over all entity types of a frame",
        # None is a valid id; it does not mean that an entity has no id.
        hint="leave out the ids of a type that nothing refers to" if entity_id is None else None,
    )
