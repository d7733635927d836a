"""Conversion between recordings and data sets of Minari, Farama's format for offline data.

    export_minari("games.episodes", "orchard/script-v0")
    dataset = minari.load_dataset("orchard/script-v0")
    import_minari(dataset, "back.episodes")

Observations are a ``Dict`` with the columns of ``entity_env.recording.columns``, such as
``entities.Robot``, ``actors.Move`` and ``mask.Move``. Each is a ``Dict`` of ``count``, the number
of items of each frame (-1 without a list), and ``values``, padded with zeros to the longest list,
(N, W); without any value it has only ``count``. Slashes in names are quoted as ``%2F``. Actions are
a ``Dict``, too: the choices of each action's actors, padded with -1, (N, W). The observation after
the last step of an episode that the game ended is not known; its counts are 0. ``infos`` holds the
metrics of the episode at its last step, and the metadata hold the spaces under ``ragged_rl``.
Log-probabilities are not exported.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import minari
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from entity_env.batching.vec_obs import VecObs, batch_obs
from entity_env.errors import EntityEnvError, MissingPackageError, RecordingError, shorten
from entity_env.interop.observation_reader import Entities
from entity_env.interop.padding import places
from entity_env.interop.translation import SpaceTranslation
from entity_env.recording import EpisodeDataset, RecordedEpisode
from entity_env.recording.columns import Column, FrameFormat
from entity_env.recording.parquet import TableFormat
from entity_env.recording.parts import PartWriter
from entity_env.recording.records import Outcomes
from entity_env.storage.space_json import spaces_from_json, spaces_to_json

__all__ = ["export_minari", "import_minari"]

_KEY = "ragged_rl"
_STORED = {"float32": np.float32, "int64": np.int64, "bool": np.int8}
_PART = 16_384
"""Number of frames in a part of an imported recording."""


def export_minari(
    recordings: EpisodeDataset | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    dataset_id: str,
    **about: Any,
) -> Any:
    """Write recordings as a data set of Minari, episode by episode, and return it.

    Args:
        recordings: Paths of recordings, or a data set of them.
        dataset_id: The name of the data set, such as ``orchard/script-v0``.
        **about: Further arguments of ``minari.create_dataset_from_buffers``: ``author``,
            ``description``, ``data_format``, ...

    Raises:
        RecordingError: A recording cannot be read, or there are no episodes.
        MissingPackageError: A package that Minari needs is missing.
    """
    dataset = recordings if isinstance(recordings, EpisodeDataset) else EpisodeDataset(recordings)
    frames = FrameFormat(dataset.obs_space, dataset.action_space)
    room: dict[str, int] = {}
    for block in dataset.blocks(4096):
        for obs in (block.steps.obs, block.last):
            columns = frames.observations(obs) | frames.choices(block.steps.actions)
            for name, column in columns.items():
                room[name] = max(room.get(name, 0), int(column.counts.max(initial=0)))
    if not room:
        raise RecordingError("there is no episode to export")
    example = _buffer(next(dataset.episodes()), frames, room)
    with _explained_files():
        created = minari.create_dataset_from_buffers(
            dataset_id,
            (_buffer(episode, frames, room) for episode in dataset.episodes()),
            observation_space=_space_of(example.observations),
            action_space=_space_of(example.actions),
            **about,
        )
    known = spaces_to_json(dataset.obs_space, dataset.action_space)
    created.storage.update_metadata({_KEY: json.dumps(known)})
    return created


def import_minari(
    dataset: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    ignore: str | Iterable[str] = (),
    entities: Entities | None = None,
) -> Path:
    """Write a data set as a recording; return its path.

    A data set of ``export_minari`` is converted back to the same steps. Observations and actions of
    other data sets are read in the way of ``GymnasiumEnv``.

    Args:
        dataset: The data set, or the name of a data set on this machine.
        path: Path of the recording.
        overwrite: True to replace an existing recording.
        ignore: Parts of the observations to leave out, as in ``GymnasiumEnv``.
        entities: Tables that become entities, as in ``GymnasiumEnv``.

    Raises:
        RecordingError: Numbers of the data set contradict each other or its spaces.
        SpaceError: The spaces of another data set cannot be translated.
        MissingPackageError: A package that Minari needs is missing.
    """
    if isinstance(dataset, str):
        with _explained_files():
            dataset = minari.load_dataset(dataset)
    known, translation = dataset.storage.metadata.get(_KEY), None
    if known is None:
        there = dataset.observation_space, dataset.action_space
        translation = SpaceTranslation(*there, ignore, entities)
        frames = FrameFormat(translation.obs_space, translation.action_space)
    else:
        try:
            frames = FrameFormat(*spaces_from_json(json.loads(known)))
        except (KeyError, TypeError, ValueError, EntityEnvError) as error:
            raise RecordingError(
                f"the metadata of the data set do not describe its entities: {error}",
                expected=f"metadata {_KEY!r}, as written by export_minari",
                received=shorten(known),
            ) from error
    form, step, number = TableFormat(frames), 0, 0
    tables = [form.schema.empty_table()]
    writer = PartWriter(path, overwrite=overwrite)
    with contextlib.closing(writer):
        for data in dataset.iterate_episodes():
            try:
                outcomes = _outcomes(data, step, number)
                if translation is None:
                    columns = _columns(data, frames, outcomes.is_decision)
                else:
                    columns = _translated(data, frames, translation, outcomes.is_decision)
                tables.append(form.table(frames.join(columns, outcomes), outcomes))
            except (KeyError, TypeError, ValueError, IndexError, EntityEnvError) as error:
                raise RecordingError(
                    f"episode {data.id} of the data set cannot be read: {error}",
                    expected="arrays in the spaces of the data set",
                ) from error
            step, number = step + len(data.rewards), number + 1
            if sum(table.num_rows for table in tables) >= _PART:
                writer.write(tables, form)
                tables = []
        if tables:
            writer.write(tables, form)
    return Path(path)


@contextlib.contextmanager
def _explained_files() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            f"files of Minari need a package: {error}", hint='pip install "ragged-rl[data]"'
        ) from error


def _buffer(episode: RecordedEpisode, frames: FrameFormat, room: Mapping[str, int]) -> Any:
    """Return an episode as a buffer of Minari: L steps and L + 1 observations."""
    length = len(episode)
    shown = frames.observations(episode.steps.obs)
    last = None if episode.next_obs is None else frames.observations(episode.next_obs)
    observations: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for name, column in shown.items():
        after = _NOTHING if last is None else last[name].counts
        counts = np.append(column.counts, after)
        values = (
            column.values if last is None else np.concatenate([column.values, last[name].values])
        )
        part = observations[_quoted(name)] = {"count": counts}
        if room[name] and values.shape[1]:
            part["values"] = _padded(values, counts, room[name], frames.fields[name].dtype, 0)
    actions = {
        _quoted(name.partition(".")[2]): _padded(
            column.values, column.counts, room[name], frames.fields[name].dtype, -1
        )
        for name, column in frames.choices(episode.steps.actions).items()
        if room[name]
    }
    ends = np.zeros((2, length), np.bool_)
    ends[:, -1] = episode.done and not episode.truncated, episode.truncated
    metrics = {_quoted(n): np.full(length + 1, np.nan) for n in episode.metrics}
    for name, value in episode.metrics.items():
        metrics[_quoted(name)][-1] = value
    return EpisodeBuffer(
        observations=observations,
        actions=actions,
        rewards=list(episode.steps.reward),
        terminations=list(ends[0]),
        truncations=list(ends[1]),
        infos={"metrics": metrics} if metrics else None,
    )


def _columns(
    data: Any, frames: FrameFormat, is_decision: npt.NDArray[np.bool_]
) -> dict[str, Column]:
    """Return the frames of an episode of ``export_minari``."""
    columns: dict[str, Column] = {}
    count = len(is_decision)
    for name, field in frames.fields.items():
        part, _, action = name.partition(".")
        if part == "choices":
            dense = data.actions.get(_quoted(action))
            counts = np.where(is_decision, columns[f"actors.{action}"].counts, -1)
        else:
            found = data.observations[_quoted(name)]
            dense, counts = found.get("values"), np.asarray(found["count"], np.int64)[:count]
        room = counts.max(initial=0) if dense is None else np.asarray(dense).shape[1]
        if counts.shape != (count,) or (counts < -1).any() or (counts > room).any():
            raise ValueError(f"the counts of {name} are out of range")
        at = places(np.maximum(counts, 0))
        values = np.zeros((len(at[0]), field.width), field.dtype)
        if dense is not None and field.width:
            values = np.asarray(dense).reshape(-1, room, field.width)[at].astype(field.dtype)
        columns[name] = Column(values, counts)
    return columns


def _translated(
    data: Any,
    frames: FrameFormat,
    translation: SpaceTranslation,
    is_decision: npt.NDArray[np.bool_],
) -> dict[str, Column]:
    """Return the frames of an episode of another data set."""
    shown = [translation.observe(_at(data.observations, t), {}) for t in range(len(is_decision))]
    obs: VecObs = batch_obs(shown, frames.obs_space, frames.action_space)
    chosen = [translation.chosen(_at(data.actions, t)) for t in range(len(data.rewards))]
    columns = dict(frames.observations(obs))
    for name in frames.action_space:
        field = frames.fields[f"choices.{name}"]
        values = np.array([choice[name] for choice in chosen], field.dtype).reshape(-1, field.width)
        columns[f"choices.{name}"] = Column(values, np.where(is_decision, 1, -1))
    return columns


def _outcomes(data: Any, first_step: int, number: int) -> Outcomes:
    """Return the outcomes of the L decisions of an episode, and of a last observation."""
    length = len(data.rewards)
    ended = bool(data.terminations[-1])
    cut_off = bool(data.truncations[-1]) and not ended
    order, row = np.arange(length), np.zeros(length, np.int64)
    infos = data.infos if isinstance(data.infos, Mapping) else {}
    known = dict(infos.get("metrics", {})).items()
    metrics: dict[str, float] = {unquote(name): float(values[-1]) for name, values in known}
    reward = np.asarray(data.rewards, np.float32)
    if (ended or cut_off) and not metrics:
        metrics = {"episodic_reward": float(reward.sum()), "episodic_length": float(length)}
    outcomes = replace(
        Outcomes.of_rows(first_step, row, row + number, is_first=order == 0),
        step=first_step + order,
        reward=reward,
        done=(order == length - 1) & (ended or cut_off),
        truncated=(order == length - 1) & cut_off,
        metrics=[{}] * (length - 1) + [metrics if ended or cut_off else {}],
    )
    if ended:
        return outcomes
    last = Outcomes.of_rows(first_step + length, row[:1], row[:1] + number, is_decision=False)
    return Outcomes.cat([outcomes, last])


_NOTHING = np.zeros(1, np.int64)


def _padded(
    values: npt.NDArray[Any], counts: npt.NDArray[np.int64], room: int, dtype: str, fill: float
) -> npt.NDArray[Any]:
    """Return lists of items as an array (B, room, W)."""
    fill = 0.0 if dtype == "float32" else fill
    dense = np.full((len(counts), room, values.shape[1]), fill, _STORED[dtype])
    dense[places(np.maximum(counts, 0))] = values
    return dense


def _at(values: Any, step: int) -> Any:
    """Return the part of one step of nested dicts, tuples and arrays."""
    if isinstance(values, Mapping):
        return {name: _at(part, step) for name, part in values.items()}
    if isinstance(values, tuple):
        return tuple(_at(part, step) for part in values)
    return values[step]


def _quoted(name: str) -> str:
    """Quote the slashes of a name, which are separators in HDF5; ``unquote`` restores them."""
    return name.replace("%", "%25").replace("/", "%2F")


def _space_of(values: Any) -> spaces.Space[Any]:
    """Return the space of nested arrays whose first axis is time."""
    if isinstance(values, dict):
        return spaces.Dict({name: _space_of(part) for name, part in values.items()})
    if values.dtype == np.float32:
        return spaces.Box(-np.inf, np.inf, values.shape[1:], np.float32)
    least, most = (0, 1) if values.dtype == np.int8 else (-1, np.iinfo(np.int64).max)
    return spaces.Box(least, most, values.shape[1:], values.dtype.type)
