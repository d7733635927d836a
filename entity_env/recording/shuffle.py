"""Frames of a recording in random order, with a limited part of it in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from entity_env.environment import check_seed
from entity_env.errors import SettingError
from entity_env.recording.records import RecordedBatch, cat_batches
from entity_env.rows.vec_env import check_count
from entity_env.workers.obs_format import ObsFormat

__all__ = ["shuffled"]


def shuffled(
    form: ObsFormat,
    load: Callable[[list[int]], RecordedBatch],
    sizes: Sequence[int],
    size: int,
    seed: int,
    epochs: int,
    window: int,
) -> Iterator[RecordedBatch]:
    """Return minibatches of ``size`` frames; the last one of an epoch may have fewer.

    Args:
        form: Format of the recording's steps.
        load: Function that returns all frames of the chunks with these numbers.
        sizes: Number of bytes of each chunk.
        size: Number of frames in a minibatch.
        seed: Seed of the order.
        epochs: Number of times that each frame is yielded.
        window: Number of bytes of chunks that are loaded together; a single chunk may have more.

    Raises:
        SettingError: A size, a number of epochs or a window is below 1.
    """
    check_count("size of a minibatch", size, error=SettingError)
    check_count("number of epochs", epochs, error=SettingError)
    check_count("window", window, error=SettingError)
    rng = np.random.default_rng(check_seed(seed))
    return _shuffled(form, load, sizes, size, epochs, window, rng)


def _shuffled(
    form: ObsFormat,
    load: Callable[[list[int]], RecordedBatch],
    sizes: Sequence[int],
    size: int,
    epochs: int,
    window: int,
    rng: np.random.Generator,
) -> Iterator[RecordedBatch]:
    if not sizes:
        return
    every = list(range(len(sizes)))
    whole = load(every) if sum(sizes) <= window else None
    for _ in range(epochs):
        rest: RecordedBatch | None = None
        for group in (
            [every] if whole is not None else _groups(rng.permutation(every), sizes, window)
        ):
            batch = load(group) if whole is None else whole
            order = rng.permutation(len(batch))
            start = 0
            if rest is not None:  # complete the last minibatch of the window before
                start = size - len(rest)
                rest = cat_batches(form, [rest, batch.select(order[:start])])
                if len(rest) < size:
                    continue
                yield rest
            end = start + (len(order) - start) // size * size
            for first in range(start, end, size):
                yield batch.select(order[first : first + size])
            rest = batch.select(order[end:]) if end < len(order) else None
        if rest is not None:
            yield rest


def _groups(order: npt.NDArray[np.int64], sizes: Sequence[int], window: int) -> Iterator[list[int]]:
    """Yield the numbers in ``order``, as many at a time as fit into the window, at least one."""
    group: list[int] = []
    total = 0
    for number in order.tolist():
        if group and total + sizes[number] > window:
            yield group
            group, total = [], 0
        group.append(number)
        total += sizes[number]
    if group:
        yield group
