"""``EpisodeDataset``: the episodes and frames of one recording or of several."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import check_seed
from entity_env.errors import EntityEnvError, RecordingError, SettingError, counted
from entity_env.recording.parquet import import_arrow
from entity_env.recording.parts import (
    DamageWarning,
    RecordedPart,
    check_same_spaces,
    find_parts,
    path_of,
)
from entity_env.recording.records import (
    Bools,
    Ints,
    Outcomes,
    RecordedBatch,
    RecordedEpisode,
    select_frames,
)
from entity_env.rows.vec_env import check_count
from entity_env.storage.space_json import spaces_to_json

__all__ = ["EpisodeBlock", "EpisodeDataset", "EpisodeIndex"]

_BLOCK = 4096
"""Number of frames that ``episodes`` reads at a time."""
_WINDOW = 1 << 28
"""Number of bytes of parts whose frames are shuffled together."""


@dataclass(frozen=True)
class EpisodeIndex:
    """The lengths and rewards of the episodes of a data set, in the order of their beginnings.

    Args:
        recordings: The number of the recording of each episode. Shape: (E,), int64.
        rows: The row that played it. Shape: (E,), int64.
        lengths: The number of decisions of each episode. Shape: (E,), int64.
        rewards: The sum of rewards of each episode. Shape: (E,), float64.
    """

    recordings: Ints
    rows: Ints
    lengths: Ints
    rewards: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of episodes E."""
        return len(self.lengths)

    def select(self, kept: Bools) -> EpisodeIndex:
        """Return the episodes for which ``kept`` (E,) is True."""
        return EpisodeIndex(
            self.recordings[kept], self.rows[kept], self.lengths[kept], self.rewards[kept]
        )


@dataclass(frozen=True)
class EpisodeBlock:
    """The decisions of E episodes, one episode after the other.

    Args:
        steps: The decisions of all episodes.
        lengths: The number of decisions of each episode. Shape: (E,), int64.
        rows: The row that played it. Shape: (E,), int64.
        metrics: The metrics of each episode; empty if it did not end.
        is_whole: True if the recording has its first and its last step. Shape: (E,).
        last: The observations after the last decision of some episodes, as frames.
        last_of: For each episode the number of its frame in ``last``, or -1. Shape: (E,), int64.
    """

    steps: RecordedBatch
    lengths: Ints
    rows: Ints
    metrics: Sequence[Mapping[str, float]]
    is_whole: Bools
    last: VecObs
    last_of: Ints

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.steps)

    def episodes(self) -> Iterator[RecordedEpisode]:
        """Yield the episodes."""
        ends = np.cumsum(self.lengths)
        for number, (end, length) in enumerate(zip(ends, self.lengths, strict=True)):
            last = self.last_of[number]
            yield RecordedEpisode(
                row=int(self.rows[number]),
                steps=self.steps.select(np.arange(end - length, end)),
                metrics=self.metrics[number],
                next_obs=None if last < 0 else select_frames(self.last, np.array([last])),
                is_whole=bool(self.is_whole[number]),
            )


@named_arguments(RecordingError)
class EpisodeDataset:
    """The episodes of one recording, or of several with the same spaces.

    The constructor reads all parts once, to find damaged ones; parts that a recorder adds later are
    ignored. Damaged and missing parts are left out with a ``DamageWarning``, and an episode does
    not continue after them. Only the parts that are being read are in memory.

    dataset = EpisodeDataset(["monday.episodes", "tuesday.episodes"])
    training, held_out = dataset.split(0.1, seed=1)
    for episode in training.episodes(seed=1): ...
    for minibatch in training.minibatches(256, seed=1):
        output = net(EntityBatch.from_obs(minibatch.obs))

    Args:
        paths: The path of a recording, or a list of paths.

    Attributes:
        obs_space: The observation space.
        action_space: The action space.
        has_log_probs: True if log-probabilities were recorded.
        has_logits: True if logits were recorded.
        lost_parts: The number of parts that are damaged or missing.
        problems: A sentence about each recording that is damaged.
        parts: The parts that can be read.

    Raises:
        RecordingError: A folder is not a recording, no part can be read, or the recordings have
            different spaces.
        MissingPackageError: pyarrow is not installed.
    """

    def __init__(self, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> None:
        self._arrow = import_arrow()
        found = [find_parts(path) for path in _checked(paths)]
        self.problems = [str(recording) for recording in found if recording.problems]
        for problem in self.problems:
            warnings.warn(problem, DamageWarning, stacklevel=3)
        self.lost_parts = sum(recording.lost_parts for recording in found)
        self.parts: list[RecordedPart] = [part for recording in found for part in recording.parts]
        if not self.parts:
            raise RecordingError(f"nothing can be read: {'; '.join(self.problems)}")
        frames = self.parts[0].form.frames
        self.obs_space, self.action_space = frames.obs_space, frames.action_space
        self.has_log_probs, self.has_logits = frames.has_log_probs, frames.has_logits
        known = spaces_to_json(self.obs_space, self.action_space)
        for part in self.parts:
            theirs = part.form.frames
            where, first = part.path.parent, self.parts[0].path.parent
            spaces = spaces_to_json(theirs.obs_space, theirs.action_space)
            check_same_spaces(f"{where} has other spaces than {first}", known, spaces)
            if (theirs.has_log_probs, theirs.has_logits) != (self.has_log_probs, self.has_logits):
                raise RecordingError(f"only one of {first} and {where} has log_probs or logits")
        counts = [len(recording.parts) for recording in found]
        self._recordings = np.repeat(np.arange(len(found)), counts)
        # An episode is identified by its number and the stretch of parts without a gap.
        gaps = np.array([part.after_gap for part in self.parts])
        self._stretches = np.cumsum(gaps | (np.diff(self._recordings, prepend=-1) != 0))
        self._selected: Bools | None = None  # of all episodes; None: all
        self._keys, self._last_parts, self._every = self._join()

    def __repr__(self) -> str:
        lost = f", {counted(self.lost_parts, 'part')} lost" if self.lost_parts else ""
        count = len({part.path.parent for part in self.parts})
        frames = counted(self.num_frames, "frame")
        return f"EpisodeDataset({counted(count, 'recording')}, {frames}{lost})"

    @property
    def num_frames(self) -> int:
        """The number of decisions in all episodes."""
        if self._selected is None:
            return sum(part.frames for part in self.parts)
        return int(self.index.lengths.sum())

    @property
    def index(self) -> EpisodeIndex:
        """The index of the episodes."""
        return self._every if self._selected is None else self._every.select(self._selected)

    def select(self, kept: Bools) -> EpisodeDataset:
        """Return a data set of the episodes of the ``index`` for which ``kept`` (E,) is True."""
        selected = copy.copy(self)
        selected._selected = np.ones(len(self._keys), np.bool_)
        if self._selected is not None:
            selected._selected = self._selected.copy()
        selected._selected[selected._selected] = kept
        return selected

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
        """Yield the episodes; with a seed, in random order of recordings and neighbouring episodes.

        Episodes that did not end are yielded up to the reset of the rows, or the end of the
        recording.
        """
        for block in self.blocks(_BLOCK, seed):
            yield from block.episodes()

    def blocks(self, most_frames: int, seed: int | None = None) -> Iterator[EpisodeBlock]:
        """Yield whole episodes, together ``most_frames`` and the rest of the last episode.

        With a seed, the recordings are read in random order, and the episodes that are in memory at
        a time are yielded in random order.
        """
        check_count("number of frames of a block", most_frames, error=SettingError)
        rng = None if seed is None else np.random.default_rng(check_seed(seed))
        order = np.arange(self._recordings[-1] + 1)
        if rng is not None:
            order = rng.permutation(order)
        numbers = np.concatenate([np.flatnonzero(self._recordings == n) for n in order]).tolist()
        is_over = np.zeros(len(self._keys), np.bool_)
        table, entries = None, np.zeros(0, np.int64)  # episodes that are not yielded
        for place, number in enumerate(numbers):
            more, added = self._load(number)
            table = more if table is None else self._arrow.concat_tables([table, more])
            entries = np.append(entries, added)
            is_over |= self._last_parts == number
            is_end = place + 1 == len(numbers)
            while True:
                ready = np.unique(entries[is_over[entries]])
                ready = ready if rng is None else rng.permutation(ready)
                total = np.cumsum(self._every.lengths[ready])
                if not len(ready) or (total[-1] < most_frames and not is_end):
                    break
                ready = ready[: np.searchsorted(total, most_frames) + 1]
                ranks = np.full(len(is_over), -1)
                ranks[ready] = np.arange(len(ready))
                yield self._block(table, ranks[entries], len(ready))
                rest = np.flatnonzero(ranks[entries] < 0)
                table, entries = table.take(self._arrow.array(rest)), entries[rest]

    def minibatches(self, size: int, seed: int) -> Iterator[RecordedBatch]:
        """Return all frames in random order, for supervised learning.

        In a small data set all orders are equally likely. Of a larger one, parts are read in random
        order, as many at a time as have 256 MB, and their frames are shuffled; a minibatch then has
        frames of a part of the data set. The program needs about three times as much memory.

        Args:
            size: Number of frames in a minibatch; the last one may have fewer.
            seed: Seed of the order.

        Raises:
            SettingError: The size is below 1.
        """
        check_count("size of a minibatch", size, error=SettingError)
        return self._minibatches(size, np.random.default_rng(check_seed(seed)))

    def outcomes(self) -> Iterator[Outcomes]:
        """Yield the outcomes of all frames, part by part, which are read without the frames."""
        for number, part in enumerate(self.parts):
            outcomes = part.outcomes()
            yield replace(outcomes, episode=self._keys_of(number, outcomes.episode))

    def frames(self, number: int) -> RecordedBatch:
        """Return all frames of a part, also those without a decision."""
        return self._frames(self.parts[number].read())[0]

    def _join(self) -> tuple[Ints, Ints, EpisodeIndex]:
        """Return the keys of all episodes, ascending, the part in which each ends, and the index.

        Without a decision, a frame after a gap is no episode.
        """
        keys, first, place = np.unique(
            np.concatenate([self._keys_of(n, part.episodes) for n, part in enumerate(self.parts)]),
            return_index=True,
            return_inverse=True,
        )
        numbers = np.repeat(np.arange(len(self.parts)), [len(part.episodes) for part in self.parts])
        rows, lengths, rewards = (
            np.concatenate([getattr(part, name) for part in self.parts])
            for name in ("rows", "lengths", "rewards")
        )
        last = np.zeros(len(keys), np.int64)
        np.maximum.at(last, place, numbers)
        counts = np.bincount(place, lengths, len(keys)).astype(np.int64)
        sums = np.bincount(place, rewards, len(keys)).astype(np.float64)
        index = EpisodeIndex(self._recordings[numbers[first]], rows[first], counts, sums)
        return keys[counts > 0], last[counts > 0], index.select(counts > 0)

    def _minibatches(self, size: int, rng: np.random.Generator) -> Iterator[RecordedBatch]:
        columns = [name for name in self.parts[0].form.schema.names if name != "metrics"]
        groups = _groups(rng.permutation(len(self.parts)), self.parts)
        rest: list[Any] = []  # frames that do not fill a minibatch
        for place, group in enumerate(groups):
            tables = [self._load(number, columns)[0] for number in sorted(group)]
            table = self._arrow.concat_tables([*rest, *tables])
            batch, outcomes = self._frames(table)
            order = rng.permutation(np.flatnonzero(outcomes.is_decision))
            end = len(order) if place == len(groups) - 1 else len(order) // size * size
            for start in range(0, end, size):
                yield batch.select(order[start : min(start + size, end)])
            rest = [table.take(self._arrow.array(order[end:]))]

    def _keys_of(self, number: int, episodes: Ints) -> Ints:
        """Return the keys of episodes in a part, by their numbers in the recording."""
        keys: Ints = (self._stretches[number] << 40) + episodes
        return keys

    def _load(self, number: int, columns: Sequence[str] | None = None) -> tuple[Any, Ints]:
        """Return the table of a part with the selected episodes, and the entry of each frame."""
        table = self.parts[number].read(columns)
        keys = self._keys_of(number, table.column("episode").to_numpy())
        kept = np.isin(keys, self._keys if self._selected is None else self._keys[self._selected])
        table = table if kept.all() else table.filter(self._arrow.array(kept))
        return table, np.searchsorted(self._keys, keys[kept])

    def _frames(self, table: Any) -> tuple[RecordedBatch, Outcomes]:
        """Return the frames of a table, which may come from several parts."""
        try:
            return self.parts[0].form.frames_of(table)
        except (EntityEnvError, ValueError) as error:
            folders = dict.fromkeys(str(part.path.parent) for part in self.parts)
            raise RecordingError(f"{', '.join(folders)} cannot be read: {error}") from error

    def _block(self, table: Any, ranks: Ints, count: int) -> EpisodeBlock:
        """Return the frames of ``count`` episodes with a rank (B,) of 0 or more, ordered by it."""
        is_decision = table.column("reward").is_valid().to_numpy()
        order = np.argsort(ranks, kind="stable")
        order = order[np.searchsorted(ranks[order], 0) :]
        decisions, others = order[is_decision[order]], order[~is_decision[order]]
        steps, outcomes = self._frames(table.take(self._arrow.array(decisions)))
        lengths = np.bincount(ranks[decisions], minlength=count)
        ends = np.cumsum(lengths)
        last_of = np.full(count, -1)
        last_of[ranks[others]] = np.arange(len(others))
        return EpisodeBlock(
            steps=steps,
            lengths=lengths,
            rows=outcomes.row[ends - lengths],
            metrics=[outcomes.metrics[end - 1] for end in ends.tolist()],
            is_whole=outcomes.is_first[ends - lengths] & outcomes.done[ends - 1],
            last=self._frames(table.take(self._arrow.array(others)))[0].obs,
            last_of=last_of,
        )


def _groups(order: Ints, parts: Sequence[RecordedPart]) -> list[list[int]]:
    """Return the numbers in ``order``, as many together as fit into the window, at least one."""
    groups: list[list[int]] = [[]]
    total = 0
    for number in order.tolist():
        if groups[-1] and total + parts[number].size > _WINDOW:
            groups.append([])
            total = 0
        groups[-1].append(number)
        total += parts[number].size
    return groups


def _checked(paths: Any) -> list[Path]:
    if isinstance(paths, str | os.PathLike):
        return [path_of(paths)]
    if not isinstance(paths, Iterable):
        raise RecordingError("the paths are not a list", expected="[path, ...]", received=paths)
    every = [path_of(path) for path in paths]
    if not every:
        raise RecordingError("the data set has no recordings", expected="at least one path")
    return every
