"""Recorded frames as columns: a list of values for each frame, under the name of each part.

A column is named after a part of ``VecObs``, a dot, and the entity type or action:

==========================  ======================================================  ===============
``global_features``         the global features                                     float32
``entities.<type>``         the features of each entity                             float32
``visible.<type>``          True for entities that the policy sees; without a       bool
                            value, it sees all
``actors.<action>``         the index of each actor in the frame                    int64
``actees.<action>``         the index of each actee of a selection                  int64
``mask.<action>``           True for choices that are allowed; for a selection, of  bool
                            all pairs of actors and actees, actor by actor; without
                            a value, all are allowed
``choices.<action>``        the choice of each actor, not in frames without a       int64, float32
                            decision
``log_probs.<action>``      the log-probability of each choice, if recorded         float32
``logits.<action>``         the logits of each actor's choices, if recorded         float32
==========================  ======================================================  ===============

Entities of a frame are numbered in the order of the entity types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.kinds.table import answer_forms, kind_of
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64, lengths
from entity_env.batching.vec_obs import VecObs, all_rows
from entity_env.recording.records import Bools, Ints, Outcomes, RecordedBatch
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["Column", "ColumnType", "Columns", "FrameFormat"]


@dataclass(frozen=True)
class ColumnType:
    """The description of a column.

    Args:
        dtype: Type of the values: ``float32``, ``int64`` or ``bool``.
        width: W, the number of values of each item, or None if ``names`` lists them.
        names: The names of the values of each item, or None without names.
        is_optional: True if frames may have no list.
    """

    dtype: str
    width: int = 1
    names: tuple[str, ...] | None = None
    is_optional: bool = False


@dataclass(frozen=True)
class Column:
    """The lists of B frames.

    Args:
        values: The items of all frames. Shape: (N, W).
        counts: The number of items of each frame, -1 for a frame without a list. Shape: (B,).
    """

    values: npt.NDArray[Any]
    counts: Ints


Columns = Mapping[str, Column]


class FrameFormat:
    """The columns of frames with given spaces, and conversions in both directions.

    Attributes:
        fields: The descriptions of all columns, by name.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        action_space: Mapping[ActionName, ActionSpace],
        *,
        has_log_probs: bool = False,
        has_logits: bool = False,
    ) -> None:
        self.obs_space, self.action_space = obs_space, dict(action_space)
        self.has_log_probs, self.has_logits = has_log_probs, has_logits
        self._forms = answer_forms(action_space)
        names = obs_space.global_names
        fields = self.fields = {"global_features": ColumnType("float32", len(names), names)}
        for name, entity in obs_space.entities.items():
            fields[f"entities.{name}"] = ColumnType("float32", len(entity.names), entity.names)
            fields[f"visible.{name}"] = ColumnType("bool", is_optional=True)
        for name, space in action_space.items():
            form, kind = self._forms[name], kind_of(space)
            choices = len(space) if not kind.selects else 1  # type: ignore[arg-type]
            fields[f"actors.{name}"] = ColumnType("int64")
            if kind.selects:
                fields[f"actees.{name}"] = ColumnType("int64")
            if not form.is_real:
                fields[f"mask.{name}"] = ColumnType("bool", choices, is_optional=kind.selects)
            dtype = "float32" if form.is_real else "int64"
            fields[f"choices.{name}"] = ColumnType(dtype, form.width, is_optional=True)
            if has_log_probs:
                fields[f"log_probs.{name}"] = ColumnType("float32", is_optional=True)
            if has_logits:
                width = 2 * form.width if form.is_real else choices
                fields[f"logits.{name}"] = ColumnType("float32", width, is_optional=True)

    def split(self, batch: RecordedBatch, is_decision: Bools) -> dict[str, Column]:
        """Return the columns of frames; those without a decision have no choices."""
        obs, size = batch.obs, len(batch)
        found = {"global_features": Column(obs.global_features, np.ones(size, np.int64))}
        for name, features in obs.features.items():
            found[f"entities.{name}"] = _column(features)
            if name in obs.visible:
                found[f"visible.{name}"] = _column(obs.visible[name])
        for name, mask in obs.action_masks.items():
            for part in ("actors", "actees", "mask"):
                if getattr(mask, part, None) is not None:
                    found[f"{part}.{name}"] = _column(getattr(mask, part))
        noted = {"choices": batch.actions, "log_probs": batch.log_probs, "logits": batch.logits}
        for part, buffers in noted.items():
            for name, buffer in (buffers or {}).items():
                column = _column(buffer)
                counts = np.where(is_decision, column.counts, -1)
                found[f"{part}.{name}"] = Column(column.values, counts)
        for name, field in self.fields.items():  # without values, all are allowed or visible
            if name.partition(".")[0] in ("visible", "mask") and name not in found:
                found[name] = Column(np.zeros((0, field.width), np.bool_), np.full(size, -1))
        return {name: found[name] for name in self.fields}

    def join(self, columns: Columns, outcomes: Outcomes) -> RecordedBatch:
        """Return the frames in columns of ``split``, after checking them.

        Raises:
            ValueError: The columns contradict each other.
            EntityEnvError: A choice does not exist, or is not allowed.
        """
        size = len(outcomes)
        for name, field in self.fields.items():
            values, counts = columns[name].values, columns[name].counts
            if len(counts) != size or values.shape != (np.maximum(counts, 0).sum(), field.width):
                raise ValueError(f"column {name!r} does not have a list for each frame")
            if not field.is_optional and (counts < 0).any():
                raise ValueError(f"column {name!r} has a frame without a list")
        features = {n: _buffer(columns[f"entities.{n}"]) for n in self.obs_space.entities}
        visible = {n: self._visible(n, columns, lengths(features[n])) for n in features}
        total = sum((lengths(buffer) for buffer in features.values()), np.zeros(size, np.int64))
        none = np.zeros(size, np.bool_)
        obs = VecObs(
            features=features,
            action_masks={name: self._mask(name, columns, total) for name in self.action_space},
            reward=none.astype(np.float32),
            done=none,
            truncated=none,
            global_features=columns["global_features"].values,
            visible={name: shown for name, shown in visible.items() if shown is not None},
            rows=all_rows(size),
        )
        noted = {
            part: {
                name: self._noted(part, name, columns, obs, outcomes.is_decision)
                for name in self.action_space
            }
            for part in ("choices", "log_probs", "logits")
            if part == "choices" or getattr(self, f"has_{part}")
        }
        return RecordedBatch(
            obs,
            noted["choices"],
            noted.get("log_probs"),
            noted.get("logits"),
            reward=outcomes.reward,
            done=outcomes.done,
            truncated=outcomes.truncated,
        )

    def _visible(self, name: str, columns: Columns, counts: Ints) -> RaggedBufferBool | None:
        return _filled(f"visible.{name}", columns[f"visible.{name}"], counts)

    def _mask(self, name: str, columns: Columns, total: Ints) -> Any:
        """Return the mask of an action, whose indices are those of ``total`` entities (B,)."""
        space = self.action_space[name]
        kind, actors = kind_of(space), columns[f"actors.{name}"]
        _check_indices(f"actors.{name}", actors, total + kind.is_global)
        if kind.selects:
            actees = columns[f"actees.{name}"]
            _check_indices(f"actees.{name}", actees, total)
            pairs = actors.counts * actees.counts
            mask = _filled(f"mask.{name}", columns[f"mask.{name}"], pairs)
            return kind.build(space, _buffer(actors), mask, _buffer(actees))
        mask = None
        if f"mask.{name}" in self.fields:
            if (columns[f"mask.{name}"].counts != actors.counts).any():
                raise ValueError(f"column 'mask.{name}' does not have the choices of each actor")
            mask = _buffer(columns[f"mask.{name}"])
        return kind.build(space, _buffer(actors), mask)

    def _noted(
        self, part: str, name: str, columns: Columns, obs: VecObs, is_decision: Bools
    ) -> Any:
        """Return the choices of an action, or the numbers recorded with them."""
        mask: Any = obs.action_masks[name]
        column = columns[f"{part}.{name}"]
        expected = lengths(mask.actors)
        if part == "logits" and len(mask.logits_shape) == 1:
            expected = expected * lengths(mask.actees)
        if (column.counts != np.where(is_decision, expected, -1)).any():
            raise ValueError(f"column '{part}.{name}' does not have the actors of each decision")
        if part == "choices" and len(column.values):
            deciding = mask if is_decision.all() else mask.select(np.flatnonzero(is_decision))
            space = self.action_space[name]
            deciding.check(name, space, column.values, lambda actor: f"actor {actor} of a part")
        return _buffer(column)


def _column(buffer: Any) -> Column:
    return Column(buffer.as_array(), lengths(buffer))


_BUFFERS = {"f": RaggedBufferF32, "i": RaggedBufferI64, "b": RaggedBufferBool}


def _buffer(column: Column) -> Any:
    kind: Any = _BUFFERS[column.values.dtype.kind]
    return kind.from_flattened(column.values, np.maximum(column.counts, 0))


def _filled(name: str, column: Column, counts: Ints) -> RaggedBufferBool | None:
    """Return an optional column with True in frames without a list; None if all is True."""
    there = column.counts >= 0
    if (column.counts[there] != counts[there]).any():
        raise ValueError(f"column {name!r} has a list of the wrong length")
    if column.values.all():
        return None
    values = np.ones((int(counts.sum()), 1), np.bool_)
    values[np.repeat(there, counts)] = column.values
    return RaggedBufferBool.from_flattened(values, counts)


def _check_indices(name: str, column: Column, total: Ints) -> None:
    """Raise ValueError for an index that is not one of ``total`` (B,) in its frame."""
    indices = column.values[:, 0]
    if ((indices < 0) | (indices >= np.repeat(total, column.counts))).any():
        raise ValueError(f"column {name!r} has an index out of range")
