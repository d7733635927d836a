"""``Recording``, which reads files of ``RecordEpisodes``."""

from __future__ import annotations

import bisect
import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from entity_env.arguments import check_whole, named_arguments
from entity_env.errors import EntityEnvError, RecordingError, counted, shorten
from entity_env.recording.arrays import unpack_arrays
from entity_env.recording.chunk_file import (
    AFTER_RESET,
    CONTINUES,
    Chunk,
    is_cut,
    read_chunks,
    read_header,
    read_payload,
)
from entity_env.recording.episodes import EpisodeCutter
from entity_env.recording.outcomes import Outcomes
from entity_env.recording.outline import Outline
from entity_env.recording.records import RecordedBatch, RecordedEpisode, RecordedStep
from entity_env.recording.shuffle import shuffled
from entity_env.recording.steps import RecordedSteps, StepFormat
from entity_env.storage.files import open_file

__all__ = ["DamageWarning", "Recording"]

_MOST_KEPT = 4
"""Number of chunks that stay in memory for ``step``."""


class DamageWarning(UserWarning):
    """A warning that a part of a file is damaged, and only the rest is read."""


@named_arguments(RecordingError)
class Recording:
    """A file of recorded steps.

    The constructor reads the file once, to find the complete chunks; chunks that a recorder adds
    later are ignored. Steps are read from the disk when they are requested, one chunk at a time.
    The intact parts of a damaged file are read, with a ``DamageWarning``; episodes do not continue
    after the damage.

    for batch in Recording("games.episodes").minibatches(256, seed=1, epochs=3):
        output = net(to_batch(batch.obs, device), given=...)

    Args:
        path: Path of the file.

    Attributes:
        obs_space: The observation space.
        action_space: The action space.
        num_steps: The number of steps.
        num_frames: The number of steps times the number of rows; rows that wait have fewer frames.
        has_log_probs: True if log-probabilities were recorded.
        has_logits: True if logits were recorded.
        truncated_bytes: The number of bytes at the end that are not read, because they are damaged
            or incomplete.
        lost_bytes: The number of damaged bytes before other chunks.

    Raises:
        RecordingError: The file does not exist, is not a recording, has a damaged header, or has
            chunks that were moved.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.path = Path(path)
            with open_file(self.path) as file:
                header = read_header(file, self.path)
                self._chunks = read_chunks(file, header, self.path)
                size = os.fstat(file.fileno()).st_size
                ends = [header.end, *(chunk.end for chunk in self._chunks)]
                is_damaged = ends[-1] < size and not is_cut(file, ends[-1])
        except OSError as error:
            raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from error
        except TypeError as error:
            raise RecordingError("the path is not one", received=shorten(path)) from error
        self.obs_space, self.action_space = header.obs_space, header.action_space
        self.truncated_bytes = size - ends[-1]
        ends_of_steps = np.cumsum([0, *(chunk.steps for chunk in self._chunks)]).tolist()
        self._firsts, self.num_steps = ends_of_steps[:-1], ends_of_steps[-1]
        self._kept: dict[int, RecordedSteps] = {}
        self.num_frames = sum(chunk.frames for chunk in self._chunks)
        noted = {chunk.noted for chunk in self._chunks} or {(False, False)}
        if len(noted) > 1:
            raise RecordingError(f"{path}: some chunks have log_probs or logits, others have not")
        self.has_log_probs, self.has_logits = noted.pop()
        self._form = StepFormat(self.obs_space, self.action_space)
        gaps = [
            (end, own.begin) for end, own in zip(ends, self._chunks, strict=False) if own.after_gap
        ]
        self.lost_bytes = sum(end - begin for begin, end in gaps)
        if is_damaged:
            gaps.append((ends[-1], size))
        if gaps:
            places = ", ".join(f"{begin:,} to {end:,}" for begin, end in gaps[:5])
            warnings.warn(
                f"{self.path} is damaged: the chunks in its bytes {places}"
                f"{' and elsewhere' if len(gaps) > 5 else ''} are lost; "
                f"{self._read()} can be read",
                DamageWarning,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        lost = f", {self.truncated_bytes} bytes at its end unread" if self.truncated_bytes else ""
        lost += f", {self.lost_bytes} bytes before damaged" if self.lost_bytes else ""
        return f"Recording({str(self.path)!r}: {self._read()}{lost})"

    def _read(self) -> str:
        return f"{counted(self.num_frames, 'frame')} of {counted(self.num_steps, 'step')}"

    def steps(self) -> Iterator[RecordedStep]:
        """Yield the steps of all rows, in the order in which they were played."""
        for chunk in self._chunks:
            with self._reading(chunk):
                steps = self._load(chunk)
                shown = [self._form.observation(columns) for columns in steps.observations]
                decided = [
                    self._form.decided(obs, [columns], steps)
                    for obs, columns in zip(shown, steps.decisions, strict=False)
                ]
            for i, decision in enumerate(decided):
                yield RecordedStep(shown[i], *decision, next_obs=shown[i + 1])

    def step(self, number: int) -> RecordedStep:
        """Return the step with this number, and read only its chunk of the file.

        The chunk stays in memory, so that the steps around it are returned quickly.

        Raises:
            SettingError: The recording has fewer steps.
        """
        number = check_whole("number of a step", number, 0, self.num_steps - 1)
        place = bisect.bisect_right(self._firsts, number) - 1
        chunk, at = self._chunks[place], number - self._firsts[place]
        with self._reading(chunk):
            steps = self._load_again(chunk)
            obs, next_obs = map(self._form.observation, steps.observations[at : at + 2])
            decided = self._form.decided(obs, [steps.decisions[at]], steps)
        return RecordedStep(obs, *decided, next_obs=next_obs)

    def outlines(self) -> Iterator[Outline]:
        """Yield rewards and ends of all steps without their frames, which is much faster."""
        for first, chunk in zip(self._firsts, self._chunks, strict=True):
            with self._reading(chunk), open_file(self.path) as file:
                arrays = unpack_arrays(read_payload(file, chunk), chunk.arrays)
                flags = chunk.flags if chunk.continues else chunk.flags & ~CONTINUES
                outline = self._form.outline(arrays, chunk.steps, chunk.rows, first, flags)
            yield outline

    def episodes(self) -> Iterator[RecordedEpisode]:
        """Yield the episodes of all rows, in the order in which they end.

        Episodes that did not end are yielded at the reset of the rows or the end of the recording.
        """
        cutter: EpisodeCutter | None = None
        for chunk in self._chunks:
            with self._reading(chunk):
                steps = self._load(chunk)  # first, as it has as many rows as it says only then
            if cutter is None or not chunk.continues or chunk.rows != cutter.rows:
                if cutter is not None:
                    yield from cutter.unfinished()
                cutter = EpisodeCutter(self._form, chunk.rows, bool(chunk.flags & AFTER_RESET))
            with self._reading(chunk):
                episodes = cutter.cut(steps)
            yield from episodes
        if cutter is not None:
            yield from cutter.unfinished()

    def minibatches(
        self, size: int, seed: int, *, epochs: int = 1, window: int = 1 << 28
    ) -> Iterator[RecordedBatch]:
        """Yield random frames for supervised learning, each frame once in each epoch.

        If the recording fits into ``window``, it is read once and all orders are equally likely.
        Otherwise chunks are read in random order, as many at a time as fit, and their frames are
        shuffled; a minibatch then has frames of a part of the recording.

        Args:
            size: Number of frames in a minibatch; the last one of an epoch may have fewer.
            seed: Seed of the order.
            epochs: Number of times that each frame is yielded.
            window: Number of bytes of unpacked chunks in memory at a time. The program needs about
                three times as much memory.

        Raises:
            SettingError: A size, a number of epochs or a window is below 1.
        """
        return shuffled(self._form, self.frames, self.chunk_sizes, size, seed, epochs, window)

    @property
    def chunk_sizes(self) -> list[int]:
        """The number of bytes of each chunk in memory."""
        return [chunk.arrays for chunk in self._chunks]

    def frames(self, numbers: list[int]) -> RecordedBatch:
        """Return all frames of the chunks with these numbers, at least one."""
        parts = []
        for number in numbers:
            with self._reading(self._chunks[number]):
                parts.append(self._load(self._chunks[number]))
        outcomes = [self._outcomes(own, at) for own, at in zip(parts, numbers, strict=True)]
        with self._reading(self._chunks[numbers[0]]):
            return self._form.batch(parts, outcomes)

    def _outcomes(self, steps: RecordedSteps, number: int) -> Outcomes:
        """Return the outcomes of the decisions of a chunk, also those in later chunks."""
        with self._reading(self._chunks[number]):
            outcomes = self._form.outcomes(steps)
        rows = self._chunks[number].rows
        for chunk in self._chunks[number + 1 :]:
            if (outcomes.open < 0).all() or not chunk.continues or chunk.rows != rows:
                break
            with self._reading(chunk):
                outcomes = outcomes.complete(self._form.outcomes(self._load(chunk)))
        return outcomes

    def _load_again(self, chunk: Chunk) -> RecordedSteps:
        """Return the steps of a chunk, from memory if it is one of the last few chunks."""
        kept = self._kept.pop(chunk.begin, None)
        steps = self._kept[chunk.begin] = self._load(chunk) if kept is None else kept
        while len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return steps

    def _load(self, chunk: Chunk) -> RecordedSteps:
        with open_file(self.path) as file:
            payload = read_payload(file, chunk)
        arrays = unpack_arrays(payload, chunk.arrays)
        return self._form.unpack_steps(arrays, chunk.steps, chunk.rows, chunk.noted)

    @contextlib.contextmanager
    def _reading(self, chunk: Chunk) -> Iterator[None]:
        """Convert errors in a chunk with a valid checksum to errors of this package."""
        try:
            yield
        except EntityEnvError:
            raise
        except Exception as error:  # a forged file may contain anything
            raise RecordingError(
                f"{self.path}: the chunk at byte {chunk.start:,} cannot be read: {error}",
                hint="the file was changed, or written by another program",
            ) from error
