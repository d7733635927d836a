"""Conversion between recordings and data sets of Minari, Farama's format for offline data.

    export_minari(["games.episodes"], "orchard/script-v0")
    dataset = minari.load_dataset("orchard/script-v0")
    import_minari(dataset, "back.episodes")

Entities, actors and so on are padded to the sizes of the largest frame. Observations are a ``Dict``
of arrays, padded with zeros; parts without numbers are left out:

===================================  ====================================================  =========
``global``                           the global features                                   (G,)
``entities/<type>/count``            the number of entities, n                             ()
``entities/<type>/features``         the features of each entity                           (N, F)
``entities/<type>/visible``          1 if the policy sees the entity, else 0               (N, 1)
``actions/<action>/actor_count``     the number of actors, k                               ()
``actions/<action>/actors``          the index of each actor in the frame                  (K, 1)
``actions/<action>/mask_count``      k, or the number of pairs for a selection             ()
``actions/<action>/mask``            1 for allowed choices; for a selection for allowed    (K, C),
                                     pairs of actors and actees, actor by actor            (P, 1)
``actions/<action>/actee_count``     the number of actees of a selection                   ()
``actions/<action>/actees``          the index of each actee in the frame                  (E, 1)
===================================  ====================================================  =========

Entities of a frame are numbered in the order of the types in ``ragged_rl`` in the metadata, which
holds the spaces. Actions are a ``Dict``, too: for each action the choice of each actor, padded with
-1, (K, W). The observation after the last step of an episode that the game ended is not known; its
counts are 0. ``infos`` holds the metrics of the episode at its last step. Log-probabilities are not
exported.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import minari
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from entity_env.batching.ragged import (
    ActionBuffer,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
    lengths,
)
from entity_env.batching.vec_obs import VecObs, batch_obs
from entity_env.errors import EntityEnvError, MissingPackageError, RecordingError, shorten
from entity_env.interop.padding import places
from entity_env.interop.translated.rows import Entities
from entity_env.interop.translated.translation import SpaceTranslation
from entity_env.kinds.table import answer_forms
from entity_env.recording import EpisodeDataset, RecordedEpisode, RecordEpisodes
from entity_env.recording.records import select_frames
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.storage.space_json import spaces_from_json, spaces_to_json

__all__ = ["export_minari", "import_minari"]

_KEY = "ragged_rl"
_KINDS: dict[str, Any] = {"f": RaggedBufferF32, "i": RaggedBufferI64, "b": RaggedBufferBool}
_STORED = {"f": np.float32, "i": np.int64, "b": np.int8}
Path_: TypeAlias = tuple[str, ...]
Arrays: TypeAlias = dict[Path_, npt.NDArray[Any]]


def export_minari(
    recordings: EpisodeDataset | Iterable[str | os.PathLike[str]], dataset_id: str, **about: Any
) -> Any:
    """Write recordings as a data set of Minari, episode by episode, and return it.

    Args:
        recordings: Files, or a data set of them.
        dataset_id: The name of the data set, such as ``orchard/script-v0``.
        **about: Further arguments of ``minari.create_dataset_from_buffers``: ``author``,
            ``description``, ``data_format``, ...

    Raises:
        RecordingError: A recording cannot be read, or there are no episodes.
        MissingPackageError: A package that Minari needs is missing.
    """
    dataset = recordings if isinstance(recordings, EpisodeDataset) else EpisodeDataset(recordings)
    form = _Form(dataset.obs_space, dataset.action_space)
    room: dict[Path_, int] = {}
    for episode in dataset.episodes():
        for obs in (episode.steps.obs, episode.next_obs):
            for path, buffer in () if obs is None else form.parts(obs):
                most = int(lengths(buffer).max(initial=0))
                room[path] = max(room.get(path, 0), most)
        for name, buffer in episode.steps.actions.items():
            most = int(lengths(buffer).max(initial=0))
            room["choices", name] = max(room.get(("choices", name), 0), most)
    if not room:
        raise RecordingError("there is no episode to export")
    form.room = room
    example = form.buffer(next(iter(dataset.episodes())))
    with _files_explained():
        created = minari.create_dataset_from_buffers(
            dataset_id,
            (form.buffer(episode) for episode in dataset.episodes()),
            observation_space=_space_of(example.observations),
            action_space=_space_of(example.actions),
            **about,
        )
    known = spaces_to_json(dataset.obs_space, dataset.action_space)
    created.storage.update_metadata({_KEY: json.dumps({"format": 1, "spaces": known})})
    return created


def import_minari(
    dataset: Any,
    path: str | os.PathLike[str],
    *,
    append: bool = False,
    overwrite: bool = False,
    ignore: str | Iterable[str] = (),
    entities: Entities | None = None,
) -> Path:
    """Write a data set as a recording; return its path.

    A data set of ``export_minari`` is converted back to the same steps. Observations and actions of
    other data sets are read in the way of ``GymnasiumEnv``.

    Args:
        dataset: The data set, or the name of a data set on this machine.
        path: Path of the file.
        append: True to continue a recording with the same spaces.
        overwrite: True to replace an existing file.
        ignore: Parts of the observations to leave out, as in ``GymnasiumEnv``.
        entities: Tables that become entities, as in ``GymnasiumEnv``.

    Raises:
        RecordingError: Numbers of the data set contradict each other or its spaces.
        SpaceError: The spaces of another data set cannot be translated.
        MissingPackageError: A package that Minari needs is missing.
    """
    if isinstance(dataset, str):
        with _files_explained():
            dataset = minari.load_dataset(dataset)
    known = dataset.storage.metadata.get(_KEY)
    decoded: Callable[[Any], _Decoded]
    if known is None:
        spaces_there = dataset.observation_space, dataset.action_space
        translation = SpaceTranslation(*spaces_there, ignore, entities)
        form = _Form(translation.obs_space, translation.action_space)
        decoded = partial(form.translated, translation=translation)
    else:
        try:
            form = _Form(*spaces_from_json(json.loads(known)["spaces"]))
        except (KeyError, TypeError, ValueError, EntityEnvError) as error:
            raise RecordingError(
                f"the metadata of the data set do not describe its entities: {error}",
                expected=f"metadata {_KEY!r}, as written by export_minari",
                received=shorten(known),
            ) from error
        decoded = form.decoded
    rows = _PlayedAgain(form, map(_explained(decoded), dataset.iterate_episodes()))
    with rows, RecordEpisodes(rows, path, append=append, overwrite=overwrite) as recorder:
        while not rows.is_over:
            obs = recorder.reset()
            while obs.num_frames and not rows.is_cut:
                obs = recorder.act(rows.actions)
    return Path(path)


@contextlib.contextmanager
def _files_explained() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            f"files of Minari need a package: {error}", hint='pip install "ragged-rl[data]"'
        ) from error


class _Form:
    """The form of the arrays of given spaces.

    Attributes:
        room: Largest number of values of each part in a frame.
    """

    def __init__(self, obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace]) -> None:
        self.obs_space, self.action_space = obs_space, dict(action_space)
        self.room: dict[Path_, int] = {}
        self._none = batch_obs([], obs_space, action_space)
        self._answers = answer_forms(action_space)

    def parts(self, obs: VecObs) -> Iterator[tuple[Path_, Any]]:
        """Yield the ragged parts of frames, each with its path."""
        for name, features in obs.features.items():
            yield ("entities", name, "features"), features
            visible = obs.visible.get(name)
            if visible is None:
                shown = np.ones((features.items(), 1), np.bool_)
                visible = RaggedBufferBool.from_flattened(shown, lengths(features))
            yield ("entities", name, "visible"), visible
        for name, mask in obs.action_masks.items():
            for part in ("actors", "actees", "mask"):
                buffer = getattr(mask, part, None)
                if part == "mask" and buffer is None and hasattr(mask, "actees"):
                    pairs = lengths(mask.actors) * lengths(mask.actees)
                    every = np.ones((int(pairs.sum()), 1), np.bool_)
                    buffer = RaggedBufferBool.from_flattened(every, pairs)
                if buffer is not None:
                    yield ("actions", name, part), buffer

    def buffer(self, episode: RecordedEpisode) -> Any:
        """Return an episode as a buffer of Minari: L steps and L + 1 observations."""
        length = len(episode)
        shown = self._arrays(episode.steps.obs)
        last = {} if episode.next_obs is None else self._arrays(episode.next_obs)
        observations: dict[str, Any] = {}
        for path, own in shown.items():
            after = last[path] if path in last else np.zeros_like(own[:1])
            _put(observations, path, np.concatenate([own, after]))
        actions: dict[str, Any] = {}
        for name, buffer in episode.steps.actions.items():
            fill = 0.0 if self._answers[name].is_real else -1
            kind = "f" if self._answers[name].is_real else "i"
            own = _dense(buffer, self.room["choices", name], _STORED[kind], fill)
            if own.size:
                actions[_key(name)] = own
        ended = np.zeros(length, np.bool_)
        ended[-1] = episode.done and not episode.truncated
        cut = np.zeros(length, np.bool_)
        cut[-1] = episode.truncated
        metrics = {_key(n): _at_end(v, length + 1) for n, v in episode.metrics.items()}
        return EpisodeBuffer(
            observations=observations,
            actions=actions,
            rewards=list(episode.steps.reward),
            terminations=list(ended),
            truncations=list(cut),
            infos={"metrics": metrics} if metrics else None,
        )

    def _arrays(self, obs: VecObs) -> Arrays:
        """Return frames as arrays (B, ...), without empty arrays."""
        arrays: Arrays = {("global",): obs.global_features}
        for path, buffer in self.parts(obs):
            arrays[path] = _dense(buffer, self.room[path], _STORED[_kind(buffer)])
            if path[-1] != "visible":
                arrays[*path[:-1], _COUNTS[path[-1]]] = lengths(buffer)
        return {path: own for path, own in arrays.items() if own[:1].size or not len(own)}

    def translated(self, data: Any, translation: SpaceTranslation) -> _Decoded:
        """Return an episode of another data set as frames and actions."""
        length = len(data.rewards)
        shown = [translation.observe(_at(data.observations, t), {}) for t in range(length + 1)]
        obs = batch_obs(shown, self.obs_space, self.action_space)
        actions = []
        for step in range(length):
            chosen = translation.chosen(_at(data.actions, step))
            actions.append(
                {
                    name: form.buffer(np.reshape(chosen[name], (1, form.width)), np.ones(1, int))
                    for name, form in self._answers.items()
                }
            )
        rewards = np.asarray(data.rewards, np.float32)
        ended = bool(data.terminations[-1])
        cut_off = bool(data.truncations[-1]) and not ended
        metrics = {"episodic_reward": float(rewards.sum()), "episodic_length": float(length)}
        return _Decoded(obs, actions, rewards, ended, cut_off, metrics if ended or cut_off else {})

    def decoded(self, data: Any) -> _Decoded:
        """Return an episode of Minari as frames and actions."""
        length = len(data.rewards)
        found = data.observations
        count = length + 1

        def ragged(path: Path_, kind: str, width: int) -> Any:
            counts = _found(found, (*path[:-1], _COUNTS[path[-1]]))
            counts = np.zeros(count, np.int64) if counts is None else np.asarray(counts, np.int64)
            dense = _found(found, path)
            room = counts.max(initial=0) if dense is None or not width else dense.shape[1]
            if counts.shape != (count,) or (counts < 0).any() or (counts > room).any():
                raise ValueError(f"the counts of {'/'.join(path)} are out of range")
            values = np.zeros((int(counts.sum()), width), _STORED[kind])
            if dense is not None and len(values) and width:
                values = np.asarray(dense).reshape(count, room, width)[places(counts)]
            own = values.astype({"b": np.bool_}.get(kind, _STORED[kind]))
            return _KINDS[kind].from_flattened(own, counts)

        features, visible, masks = {}, {}, {}
        total = np.zeros(count, np.int64)
        for name, entity in self.obs_space.entities.items():
            where = ("entities", name)
            features[name] = ragged((*where, "features"), "f", len(entity.names))
            total += lengths(features[name])
            shown = ragged((*where, "visible"), "b", 1)
            if not shown.as_array().all():
                visible[name] = shown
        for name, mask in self._none.action_masks.items():
            where = ("actions", name)
            parts = {"actors": ragged((*where, "actors"), "i", 1)}
            own: Any = getattr(mask, "mask", None)
            if hasattr(mask, "actees"):
                parts["actees"] = ragged((*where, "actees"), "i", 1)
                pairs = ragged((*where, "mask"), "b", 1)
                parts["mask"] = None if pairs.as_array().all() else pairs
                own = None
            if own is not None:
                parts["mask"] = ragged((*where, "mask"), "b", own.as_array().shape[1])
            for part in ("actors", "actees"):
                if part in parts:
                    _check_indices(parts[part], total, f"{name}/{part}")
            masks[name] = replace(mask, **parts)
        none = np.zeros(count, np.bool_)
        known = _found(found, ("global",))
        width = len(self.obs_space.global_names)
        obs = VecObs(
            features, masks, none.astype(np.float32), none, none,
            np.zeros((count, width), np.float32) if known is None
            else np.asarray(known, np.float32).reshape(count, width),
            visible,
        )  # fmt: skip
        infos = data.infos if isinstance(data.infos, Mapping) else {}
        metrics = {unquote(n): float(v[-1]) for n, v in dict(infos.get("metrics", {})).items()}
        return _Decoded(
            obs,
            [self._answers_of(data.actions, obs, step) for step in range(length)],
            np.asarray(data.rewards, np.float32),
            bool(data.terminations[-1]),
            bool(data.truncations[-1]) and not bool(data.terminations[-1]),
            metrics,
        )

    def _answers_of(self, actions: Any, obs: VecObs, step: int) -> dict[ActionName, ActionBuffer]:
        """Return the choices of one step."""
        chosen = {}
        for name, form in self._answers.items():
            counts = lengths(obs.action_masks[name].actors)[step : step + 1]
            taken = _found(actions, (name,))
            values = np.zeros((0, form.width)) if taken is None else np.asarray(taken)[step]
            chosen[name] = form.buffer(values.reshape(-1, form.width)[: int(counts[0])], counts)
        return chosen


class _Decoded:
    """An episode: L + 1 frames, L actions, and their outcomes."""

    def __init__(
        self,
        obs: VecObs,
        actions: Sequence[Mapping[ActionName, ActionBuffer]],
        rewards: npt.NDArray[np.float32],
        ended: bool,
        cut_off: bool,
        metrics: Mapping[str, float],
    ) -> None:
        self.obs, self.actions, self.rewards = obs, actions, rewards
        self.ended, self.cut_off, self.metrics = ended, cut_off, metrics


def _explained(decode: Callable[[Any], _Decoded]) -> Callable[[Any], _Decoded]:
    """Return a function whose errors name the episode."""

    def explained(data: Any) -> _Decoded:
        try:
            return decode(data)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise RecordingError(
                f"episode {data.id} of the data set cannot be read: {error}",
                expected="arrays in the spaces of the data set",
            ) from error

    return explained


def _at(values: Any, step: int) -> Any:
    """Return the part of one step of nested dicts, tuples and arrays."""
    if isinstance(values, Mapping):
        return {name: _at(own, step) for name, own in values.items()}
    if isinstance(values, tuple):
        return tuple(_at(own, step) for own in values)
    return values[step]


class _PlayedAgain(VecEnv):
    """One row that plays recorded episodes, ignoring its actions.

    Attributes:
        is_over: True if there is no further episode.
        is_cut: True at the last step of an episode that neither the game nor a limit has ended.
    """

    def __init__(self, form: _Form, episodes: Iterator[_Decoded]) -> None:
        self._form, self._episodes = form, episodes
        self._following = next(episodes, None)
        self._now: _Decoded | None = None
        self._step, self.is_cut = 0, False

    @property
    def is_over(self) -> bool:
        """True if there is no further episode."""
        return self._following is None

    @property
    def actions(self) -> Mapping[ActionName, ActionBuffer]:
        """The recorded actions of the current step."""
        assert self._now is not None
        return self._now.actions[self._step]

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._form.obs_space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""
        return self._form.action_space

    def __len__(self) -> int:
        """Return the number of rows."""
        return 1

    def _reset(self, seed: int | None) -> VecObs:
        self._now, self._following = self._following, next(self._episodes, None)
        self._step, self.is_cut = 0, False
        assert self._now is not None
        return self._frame(self._now.obs, 0)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        now = self._now
        assert now is not None
        reward = now.rewards[self._step]
        self._step += 1
        if self._step < len(now.rewards):
            return self._told(self._frame(now.obs, self._step), reward)
        self.is_cut = not (now.ended or now.cut_off)
        if self.is_cut:
            return self._told(self._frame(now.obs, self._step), reward)
        final = self._frame(now.obs, self._step) if now.cut_off else None
        if self._following is None:
            told = self._told(select_frames(now.obs, np.zeros(0, np.int64)), reward)
        else:
            told = self._told(self._reset(None), reward)
        done, metrics = np.ones(1, np.bool_), now.metrics
        return replace(
            told,
            done=done,
            truncated=done & now.cut_off,
            metrics={name: np.array([value]) for name, value in metrics.items()},
            final=final,
        )

    def _frame(self, obs: VecObs, number: int) -> VecObs:
        return select_frames(obs, np.array([number], np.int64))

    def _told(self, obs: VecObs, reward: np.float32) -> VecObs:
        none = np.zeros(1, np.bool_)
        rows = np.arange(obs.num_frames)
        told = np.array([reward], np.float32)
        return replace(obs, reward=told, done=none, truncated=none, rows=rows)

    def _get_state(self) -> list[Any]:
        raise NotImplementedError

    def _set_state(self, state: list[Any]) -> VecObs:
        raise NotImplementedError

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        raise NotImplementedError

    def _close(self) -> None:
        pass


_COUNTS = {
    "features": "count",
    "visible": "count",
    "actors": "actor_count",
    "actees": "actee_count",
    "mask": "mask_count",
}


def _kind(buffer: Any) -> str:
    return next(kind for kind, own in _KINDS.items() if isinstance(buffer, own))


def _dense(buffer: Any, room: int, dtype: Any, fill: float = 0) -> npt.NDArray[Any]:
    """Return a ragged buffer as an array (B, room, W), padded with ``fill``."""
    values, counts = buffer.as_array(), lengths(buffer)
    dense = np.full((len(counts), room, values.shape[1]), fill, dtype)
    dense[places(counts)] = values
    return dense


def _key(name: str) -> str:
    """Quote the slashes of a name, which are separators in HDF5; ``unquote`` restores them."""
    return name.replace("%", "%25").replace("/", "%2F")


def _put(into: dict[str, Any], path: Path_, value: Any) -> None:
    """Set a value in nested dicts."""
    *outer, last = map(_key, path)
    for part in outer:
        into = into.setdefault(part, {})
    into[last] = value


def _found(within: Any, path: Path_) -> Any:
    """Return the value at a path in nested dicts, or None."""
    for part in path:
        key = _key(part)
        if not isinstance(within, Mapping) or key not in within:
            return None
        within = within[key]
    return within


def _space_of(values: Any) -> spaces.Space[Any]:
    """Return the space of nested arrays whose first axis is time."""
    if isinstance(values, dict):
        return spaces.Dict({name: _space_of(own) for name, own in values.items()})
    if values.dtype == np.float32:
        return spaces.Box(-np.inf, np.inf, values.shape[1:], np.float32)
    most = 1 if values.dtype == np.int8 else np.iinfo(np.int64).max
    least = 0 if values.dtype == np.int8 else -1
    return spaces.Box(least, most, values.shape[1:], values.dtype.type)


def _at_end(value: float, length: int) -> npt.NDArray[np.float64]:
    numbers = np.full(length, np.nan)
    numbers[-1] = value
    return numbers


def _check_indices(buffer: Any, total: npt.NDArray[np.int64], what: str) -> None:
    """Raise ValueError for an index that is neither an entity of its frame nor the player."""
    indices = buffer.as_array()[:, 0]
    if ((indices < 0) | (indices > np.repeat(total, lengths(buffer)))).any():
        raise ValueError(f"an index of {what} is out of range")
