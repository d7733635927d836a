"""Data sets of several recordings, read as a stream."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.environment import check_seed
from entity_env.errors import RecordingError, SettingError, shorten
from entity_env.recording.recording import Recording
from entity_env.recording.records import RecordedBatch, RecordedEpisode, cat_batches
from entity_env.recording.shuffle import shuffled
from entity_env.recording.steps import StepFormat
from entity_env.rows.vec_env import check_count
from entity_env.storage.space_json import spaces_to_json

__all__ = ["EpisodeDataset", "EpisodeIndex"]

_AHEAD = 64
"""Number of episodes that a reader reads ahead at a time."""


@dataclass(frozen=True)
class EpisodeIndex:
    """The lengths and rewards of the episodes of a data set.

    Episodes are ordered by file, and within a file by their ends.

    Args:
        files: The number of the file of each episode. Shape: (E,), int64.
        places: The number of each episode within its file. Shape: (E,), int64.
        lengths: The number of decisions of each episode. Shape: (E,), int64.
        rewards: The sum of rewards of each episode. Shape: (E,), float64.
    """

    files: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of episodes E."""
        return len(self.files)

    def select(self, kept: npt.NDArray[np.bool_]) -> EpisodeIndex:
        """Return the episodes for which ``kept`` (E,) is True."""
        return EpisodeIndex(
            self.files[kept], self.places[kept], self.lengths[kept], self.rewards[kept]
        )


@named_arguments(RecordingError)
class EpisodeDataset:
    """A data set of several recordings with the same spaces.

    Only the parts that are being read are in memory. Damaged parts are left out with a
    ``DamageWarning``. Episodes without a decision are left out, too.

    dataset = EpisodeDataset(["monday.episodes", "tuesday.episodes"], readers=2)
    training, held_out = dataset.split(0.1, seed=1)
    for episode in training.episodes(seed=1): ...

    Args:
        paths: Paths of the files.
        readers: Number of threads that read ahead; each reads a share of the files.

    Attributes:
        recordings: The recordings.
        obs_space: The observation space.
        action_space: The action space.
        form: The format of their steps.

    Raises:
        RecordingError: There are no files, or a file cannot be read or has other spaces.
        SettingError: ``readers`` is below 1.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], *, readers: int = 1) -> None:
        self.recordings = [Recording(path) for path in _checked(paths)]
        self._readers = check_count("number of readers", readers, error=SettingError)
        first = self.recordings[0]
        self.obs_space, self.action_space = first.obs_space, first.action_space
        own = spaces_to_json(self.obs_space, self.action_space)
        for other in self.recordings[1:]:
            theirs = spaces_to_json(other.obs_space, other.action_space)
            for kind in own:
                if own[kind] != theirs[kind]:
                    raise RecordingError(
                        f"{other.path} has other spaces than {first.path}: the {kind} differ",
                        expected=shorten(own[kind], 400),
                        received=shorten(theirs[kind], 400),
                    )
        self.form = StepFormat(self.obs_space, self.action_space)
        self._kept: Mapping[int, set[int]] | None = None  # the places of each file; None: all

    @property
    def num_frames(self) -> int:
        """The number of decisions in all episodes."""
        return int(self.index.lengths.sum())

    @cached_property
    def index(self) -> EpisodeIndex:
        """The index of the episodes; the first access reads all files."""
        found = [
            (file, place, len(episode), episode.steps.reward.sum(dtype=np.float64))
            for file in range(len(self.recordings))
            for place, episode in enumerate(self._of_file(file))
        ]
        table = np.array(found, np.float64).reshape(len(found), 4).T
        files, places, lengths = table[:3].astype(np.int64)
        return EpisodeIndex(files, places, lengths, table[3])

    def select(self, kept: npt.NDArray[np.bool_]) -> EpisodeDataset:
        """Return a data set of the episodes of the ``index`` for which ``kept`` (E,) is True."""
        index = self.index.select(kept)
        own = copy.copy(self)
        own.__dict__["index"] = index
        own._kept = {
            int(file): set(index.places[index.files == file].tolist())
            for file in np.unique(index.files)
        }
        return own

    def split(self, part: float, seed: int) -> tuple[EpisodeDataset, EpisodeDataset]:
        """Split off a random ``part`` of the episodes, 0 to 1, and return the rest and this part.

        Each has at least one episode if there are two or more, unless ``part`` is 0.
        """
        if not 0 <= part <= 1:
            raise SettingError("part is out of range", expected="0 to 1", received=part)
        total = len(self.index)
        count = round(part * total)
        if part and total > 1:
            count = min(max(count, 1), total - 1)
        chosen = np.zeros(total, np.bool_)
        chosen[np.random.default_rng(check_seed(seed)).permutation(total)[:count]] = True
        return self.select(~chosen), self.select(chosen)

    def episodes(self, seed: int | None = None) -> Iterator[RecordedEpisode]:
        """Yield the episodes, file after file; with a seed, in random order of the files.

        With several readers, episodes of as many files alternate. The order depends on the seed
        only, not on the timing of threads.
        """
        order = np.arange(len(self.recordings))
        if seed is not None:
            order = np.random.default_rng(check_seed(seed)).permutation(order)
        count = min(self._readers, len(order))
        shares = [self._share(order[reader::count].tolist()) for reader in range(count)]
        yield from shares[0] if self._readers == 1 else _in_turns(shares)

    def minibatches(
        self, size: int, seed: int, *, epochs: int = 1, window: int = 1 << 28
    ) -> Iterator[RecordedBatch]:
        """Yield random frames of all files; see ``Recording.minibatches``.

        Raises:
            SettingError: A size, a number of epochs or a window is below 1; or ``select`` or
                ``split`` has left out episodes of the data set.
        """
        if self._kept is not None:
            raise SettingError(
                "minibatches cannot be made of selected episodes",
                expected="a data set with all episodes of its files",
                hint="use episodes(), which yields the selected episodes",
            )
        places = [(own, n) for own in self.recordings for n in range(len(own.chunk_sizes))]
        sizes = [own.chunk_sizes[number] for own, number in places]

        def load(numbers: list[int]) -> RecordedBatch:
            parts = []
            for recording in self.recordings:
                own = [places[n][1] for n in numbers if places[n][0] is recording]
                parts += [recording.frames(own)] if own else []
            return cat_batches(self.form, parts)

        return shuffled(self.form, load, sizes, size, seed, epochs, window)

    def _share(self, files: Sequence[int]) -> Iterator[RecordedEpisode]:
        """Yield the selected episodes of some files, one file after the other."""
        for file in files:
            if self._kept is None:
                yield from self._of_file(file)
            elif kept := self._kept.get(file):
                every = enumerate(self._of_file(file))
                yield from (episode for place, episode in every if place in kept)

    def _of_file(self, file: int) -> Iterator[RecordedEpisode]:
        return (episode for episode in self.recordings[file].episodes() if len(episode))


def _checked(paths: Iterable[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable):
        raise RecordingError("the paths are not a list", expected="[path, ...]", received=paths)
    every = list(paths)
    if not every:
        raise RecordingError("the data set has no files", expected="at least one recording")
    return every


def _in_turns(shares: Sequence[Iterator[RecordedEpisode]]) -> Iterator[RecordedEpisode]:
    """Yield from all iterators in turns; a thread for each reads ahead."""

    def read(share: Iterator[RecordedEpisode]) -> list[RecordedEpisode]:
        return list(islice(share, _AHEAD))

    pool = ThreadPoolExecutor(len(shares), "reader")
    try:
        waiting = [(share, pool.submit(read, share)) for share in shares]
        while waiting:
            following = []
            for share, future in waiting:
                episodes = future.result()
                if episodes:
                    following.append((share, pool.submit(read, share)))
                    yield from episodes
            waiting = following
    finally:
        pool.shutdown(cancel_futures=True)
