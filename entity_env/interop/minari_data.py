"""Conversion between recordings and data sets of Minari, Farama's format for offline data.

    export_minari("games.episodes", "orchard/script-v0")
    dataset = minari.load_dataset("orchard/script-v0")
    import_minari("D4RL/door/human-v2", "door.episodes")

An exported data set has the observations and actions of ``EntityGymnasiumEnv``, padded to a fixed
size. The names of its arrays have a dot in place of the last slash, such as ``Robot.features``,
because a slash separates groups in HDF5. An imported one is read in the way of ``GymnasiumEnv``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import minari
import numpy as np
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from entity_env.actions import Action
from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.ragged import ActionBuffer, lengths
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment
from entity_env.errors import EntityEnvError, MissingPackageError, RecordingError, shorten
from entity_env.interop.observation_reader import Entities
from entity_env.interop.padded_spaces import PaddedSpaces, Room
from entity_env.interop.padding import numbers_of, pad
from entity_env.interop.room import largest_counts
from entity_env.interop.translation import SpaceTranslation
from entity_env.observation import Observation
from entity_env.recording import EpisodeDataset, RecordedEpisode, RecordEpisodes
from entity_env.rows.list_env import ListEnv
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["export_minari", "import_minari"]

_NOT_FITTING = KeyError, TypeError, ValueError, IndexError, EntityEnvError


def export_minari(
    recordings: EpisodeDataset | str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    dataset_id: str,
    max_entities: Room | None = None,
    max_actors: Room | None = None,
    **about: Any,
) -> Any:
    """Write recordings as a data set of Minari, episode by episode, and return it.

    The observation after the last step of an episode that the game ended is not known; it has no
    entities. ``infos`` holds the metrics of the episode at its last step. Log-probabilities are not
    exported.

    Args:
        recordings: Paths of recordings, or a data set of them.
        dataset_id: The name of the data set, such as ``orchard/script-v0``.
        max_entities: Largest number of entities of each type, or one number for all. None is the
            largest one in the recordings.
        max_actors: Likewise the largest number of actors of each action.
        **about: Further arguments of ``minari.create_dataset_from_buffers``: ``author``,
            ``description``, ``data_format``, ...

    Raises:
        RecordingError: A recording cannot be read, or there are no episodes.
        SettingError: A size is not valid, or an action is not categorical or the
            selection of one entity.
        MissingPackageError: A package that Minari needs is missing.
    """
    dataset = recordings if isinstance(recordings, EpisodeDataset) else EpisodeDataset(recordings)
    if not len(dataset.index):
        raise RecordingError("there is no episode to export")
    shown = (obs for block in dataset.blocks(4096) for obs in (block.steps.obs, block.last))
    entities, actors = largest_counts(shown, dataset.action_space)
    padded = PaddedSpaces(
        dataset.obs_space,
        dataset.action_space,
        entities if max_entities is None else max_entities,
        actors if max_actors is None else max_actors,
    )
    boxes = padded.observation_space.spaces
    with _explained_files():
        return minari.create_dataset_from_buffers(
            dataset_id,
            (_buffer(episode, padded) for episode in dataset.episodes()),
            observation_space=spaces.Dict({_key(name): box for name, box in boxes.items()}),
            action_space=padded.action_space,
            **about,
        )


def import_minari(
    dataset: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    ignore: str | Iterable[str] = (),
    entities: Entities | None = None,
) -> Path:
    """Write a data set as a recording; return its path.

    Args:
        dataset: The data set, or the name of a data set on this machine.
        path: Path of the recording.
        overwrite: True to replace an existing recording.
        ignore: Parts of the observations to leave out, as in ``GymnasiumEnv``.
        entities: Tables that become entities, as in ``GymnasiumEnv``.

    Raises:
        RecordingError: Numbers of the data set do not fit its spaces.
        SpaceError: The spaces cannot be translated.
        MissingPackageError: A package that Minari needs is missing.
    """
    if isinstance(dataset, str):
        with _explained_files():
            dataset = minari.load_dataset(dataset)
    if not hasattr(dataset, "iterate_episodes"):
        raise RecordingError(
            "not a data set of Minari",
            expected="a MinariDataset, or the name of one on this machine",
            received=shorten(dataset),
        )
    if not dataset.total_episodes:
        raise RecordingError("the data set has no episodes")
    there = dataset.observation_space, dataset.action_space
    env = _DataSet(dataset.iterate_episodes(), SpaceTranslation(*there, ignore, entities))
    with RecordEpisodes(ListEnv(lambda: env, 1), path, overwrite=overwrite) as rows:
        try:
            obs = rows.reset()
            while not env.is_over:
                obs = rows.act(env.choices(obs))
                if env.is_cut_off:
                    obs = rows.reset()
        except RecordingError:
            raise
        except _NOT_FITTING as error:
            raise RecordingError(
                f"episode {env.number} of the data set cannot be read: {error}",
                expected="arrays in the spaces of the data set",
            ) from error
    return Path(path)


class _DataSet(Environment):
    """The episodes of a data set, whatever actions are played.

    Attributes:
        number: The number of the current episode.
        is_over: True after the last episode, whose first observation is then returned again.
    """

    def __init__(self, episodes: Iterator[Any], translation: SpaceTranslation) -> None:
        self._episodes, self._translation = episodes, translation
        self._forms = answer_forms(translation.action_space)
        self._data: Any = None
        self.number, self._step, self.is_over = -1, 0, False

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._translation.obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        return self._translation.action_space

    @property
    def is_cut_off(self) -> bool:
        """True if the data end before the episode does."""
        return self._step == len(self._data.rewards)

    def reset(self) -> Observation:
        """Begin the next episode."""
        data = next(self._episodes, None)
        self.is_over = data is None
        self._data = data or self._data
        self.number, self._step = self.number + 1, 0
        return self._translation.observe(_at(self._data.observations, 0), {})

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Return the next observation."""
        self._step += 1
        data, is_last = self._data, self.is_cut_off
        return self._translation.observe(
            _at(data.observations, self._step),
            {},
            data.rewards[self._step - 1],
            is_last and data.terminations[-1],
            is_last and data.truncations[-1],
        )

    def choices(self, obs: VecObs) -> dict[ActionName, ActionBuffer]:
        """Return the actions of the current step in the format of ``VecEnv.act``."""
        chosen = self._translation.chosen(_at(self._data.actions, self._step))
        counts = {name: lengths(mask.actors) for name, mask in obs.action_masks.items()}
        return {
            name: form.buffer(np.ravel(chosen[name])[: counts[name][0] * form.width], counts[name])
            for name, form in self._forms.items()
        }


@contextlib.contextmanager
def _explained_files() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            f"files of Minari need a package: {error}", hint='pip install "ragged-rl[data]"'
        ) from error


def _buffer(episode: RecordedEpisode, padded: PaddedSpaces) -> EpisodeBuffer:
    """Return an episode as a buffer of Minari: L steps and L + 1 observations."""
    frames, length = pad(episode.steps.obs, padded), len(episode)
    if episode.next_obs is None:
        last = {name: array[None] for name, array in padded.nothing().items()}
    else:
        last = pad(episode.next_obs, padded).arrays
    ends = np.zeros((2, length), np.bool_)
    ends[:, -1] = episode.done and not episode.truncated, episode.truncated
    metrics = {_escaped(name): np.full(length + 1, np.nan) for name in episode.metrics}
    for name, value in episode.metrics.items():
        metrics[_escaped(name)][-1] = value
    return EpisodeBuffer(
        observations={
            _key(name): np.concatenate([array, last[name]]) for name, array in frames.arrays.items()
        },
        actions=numbers_of(episode.steps.actions, frames, padded),
        rewards=list(episode.steps.reward),
        terminations=list(ends[0]),
        truncations=list(ends[1]),
        infos={"metrics": metrics} if metrics else None,
    )


def _key(name: str) -> str:
    """Return the name of an array without slashes, which separate groups in HDF5."""
    head, _, part = name.rpartition("/")
    return f"{_escaped(head)}.{part}" if head else part


def _escaped(name: str) -> str:
    """Return a name without slashes, different from that of any other name."""
    return name.replace("%", "%25").replace("/", "%2F")


def _at(values: Any, step: int) -> Any:
    """Return the part of one step of nested dicts, tuples and arrays."""
    if isinstance(values, Mapping):
        return {name: _at(part, step) for name, part in values.items()}
    if isinstance(values, tuple):
        return tuple(_at(part, step) for part in values)
    return values[step]
