"""``RowReader``, which reads the observations of all rows of a step into one batch.

It reads common shapes for all rows at once, and leaves everything else, including mistakes, to
``FrameReader``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from entity_env.actions import Action
from entity_env.batching.actor_columns import RowLayout
from entity_env.batching.feature_columns import (
    Ids,
    Outcome,
    all_dicts,
    feature_column,
    global_column,
    visible_column,
)
from entity_env.batching.feature_tables import Bools, Floats, Ints, UnusualError
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.grids import add_cells, grid_column, with_silent_cells
from entity_env.batching.kinds.kind import Asked
from entity_env.batching.kinds.table import kind_of
from entity_env.batching.ragged import ActionBuffer, RaggedBufferBool, RaggedBufferF32
from entity_env.batching.step_results import is_over, is_true
from entity_env.batching.vec_obs import VecObs, batch_frames
from entity_env.errors import EntityEnvError
from entity_env.observation import EntityID, Observation
from entity_env.spaces import ActionName, ActionSpace, EntityName, Grid, ObsSpace

__all__ = ["ReadRows", "RowReader", "ended_rows"]


@dataclass(slots=True)
class ReadRows:
    """The checked observations of R rows.

    Args:
        obs: The observations as one batch, without metrics and final observations.
        outcome: The rewards and ends of their steps.
        ids: The id of each entity, row by row; None for types without ids.
        first: Index in ``ids`` of the first entity of each row. Shape: (R,).
        frames: The frame of each row, if they were read one by one.
    """

    obs: VecObs
    outcome: Outcome
    ids: Sequence[EntityID]
    first: Ints
    frames: Sequence[Frame] = ()

    def typed_actions(
        self,
        chosen: Mapping[ActionName, ActionBuffer],
        action_space: Mapping[ActionName, ActionSpace],
    ) -> list[dict[ActionName, Action]]:
        """Return the actions of each row in the format of ``Environment.act``.

        Args:
            chosen: For each action one number for each actor: the index of the choice, or for a
                select-entity action the index of the entity; or the numbers of a continuous one.
                Already checked.
            action_space: The environments' action space.
        """
        rows: list[dict[ActionName, Action]] = [{} for _ in range(len(self.obs))]
        for name, space in action_space.items():
            actors = self.obs.action_masks[name].actors
            kind, lengths = kind_of(space), actors.size1()
            indices = actors.as_array()[:, 0]
            asked = Asked.of(indices, lengths, self.ids, self.first, kind.is_global)
            kind.act(rows, name, space, chosen[name].as_array(), asked)
        return rows


class RowReader:
    """A fast reader of the observations of several rows.

    Args:
        obs_space: The observation space.
        action_space: The action space.
    """

    def __init__(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        self._reader = FrameReader(obs_space, action_space)
        self.obs_space = self._reader.obs_space
        self.action_space = self._reader.action_space
        self._types = frozenset(self.obs_space.entities)
        self._actions = frozenset(self.action_space)

    def read(self, observations: Sequence[Observation], where: Callable[[int], str]) -> ReadRows:
        """Return the checked rows.

        Args:
            observations: One for each row. Only their ids are kept.
            where: Function that returns the place of observation i, for errors.
        """
        if len(observations) > 1:  # ``FrameReader`` is faster for one
            try:
                return self._read(observations)
            except Exception:  # an object may raise anything
                pass
        return self.read_each(observations, where)

    def read_each(
        self, observations: Sequence[Observation], where: Callable[[int], str]
    ) -> ReadRows:
        """Return the checked rows with their frames, read one by one."""
        frames = self._frames(observations, where)
        totals = np.array([len(frame.ids) for frame in frames], np.int64)
        return ReadRows(
            obs=batch_frames(frames, self.obs_space, self.action_space),
            outcome=_outcome(frames),
            ids=list(chain.from_iterable(frame.ids for frame in frames)),
            first=totals.cumsum() - totals,
            frames=frames,
        )

    def outcome(self, observations: Sequence[Observation], where: Callable[[int], str]) -> Outcome:
        """Return the rewards and ends of steps, with all checks of ``read``."""
        try:
            return _Parts.of(observations, self.obs_space, self._types).outcome
        except Exception:
            return _outcome(self._frames(observations, where))

    def _read(self, observations: Sequence[Observation]) -> ReadRows:
        parts = _Parts.of(observations, self.obs_space, self._types)
        grids = self._reader.grids
        shown = with_silent_cells(parts.visible, parts.lengths, grids) if grids else parts.visible
        layout = RowLayout(parts.lengths, shown, parts.ids)
        outcome = parts.outcome
        given: list[Any] = [observation.actions for observation in observations]
        if outcome.done.any():  # a finished episode has no actions
            given = [{} if done else own for own, done in zip(given, outcome.done, strict=True)]
        all_dicts(given, self._actions)
        obs = VecObs(
            features={
                name: RaggedBufferF32.from_flattened(values, parts.lengths[name])
                for name, values in parts.features.items()
            },
            action_masks={
                name: kind_of(space).read_rows(given, name, space, layout)
                for name, space in self.action_space.items()
            },
            reward=outcome.rewards.astype(np.float32),
            done=outcome.done,
            truncated=outcome.truncated,
            global_features=parts.global_features,
            visible={
                name: RaggedBufferBool.from_flattened(shown[:, None], parts.lengths[name])
                for name, shown in parts.visible.items()
            },
        )
        ids = list(chain.from_iterable(parts.ids.frames))
        return ReadRows(obs, outcome, ids, layout.first)

    def _frames(
        self, observations: Sequence[Observation], where: Callable[[int], str]
    ) -> list[Frame]:
        frames = []
        for row, observation in enumerate(observations):
            try:
                frames.append(self._reader.read(observation))
            except EntityEnvError as error:
                raise error.located(where(row)) from error.__cause__
        return frames


def ended_rows(observations: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return the done and the truncated rows, unchecked."""
    over: list[int] = []
    cut_off: list[int] = []
    for row, observation in enumerate(observations):
        if is_over(observation):
            (cut_off if is_true(observation.truncated) else over).append(row)
    return over, cut_off


def _outcome(frames: Sequence[Frame]) -> Outcome:
    return Outcome(
        np.array([frame.reward for frame in frames], np.float64),
        np.array([frame.done for frame in frames], np.bool_),
        np.array([frame.truncated for frame in frames], np.bool_),
        [frame.metrics for frame in frames],
    )


@dataclass(slots=True)
class _Parts:
    """All parts of the observations except action masks."""

    features: Mapping[EntityName, Floats]
    lengths: Mapping[EntityName, Ints]
    global_features: Floats
    visible: Mapping[EntityName, Bools]
    ids: Ids
    outcome: Outcome

    @classmethod
    def of(
        cls, observations: Sequence[Observation], space: ObsSpace, types: frozenset[EntityName]
    ) -> _Parts:
        if set(map(type, observations)) != {Observation}:
            raise UnusualError
        given: list[Any] = [observation.features for observation in observations]
        ids: list[Any] = [observation.ids for observation in observations]
        shown: list[Any] = [observation.visible for observation in observations]
        for part in (given, ids, shown):
            all_dicts(part, types)
        with np.errstate(over="ignore"):  # once, not for each type
            columns = {
                name: grid_column(given, name, entity)
                if isinstance(entity, Grid)
                else feature_column(given, name, entity.features)
                for name, entity in space.entities.items()
            }
        lengths = {name: own for name, (_, own) in columns.items()}
        grids = space.grids
        if grids:
            ids = add_cells(ids, lengths, grids)
        visible = {}
        if any(shown):
            if grids and not set().union(*shown).isdisjoint(grids):
                raise UnusualError
            for name, own in lengths.items():
                column = visible_column(shown, name, own)
                if column is not None:
                    visible[name] = column
        return cls(
            features={name: values for name, (values, _) in columns.items()},
            lengths=lengths,
            global_features=global_column(
                [observation.global_features for observation in observations], space.global_features
            ),
            visible=visible,
            ids=Ids.of(ids, lengths),
            outcome=Outcome.of(observations),
        )
