"""Random numbers of compiled games: a stream for each game, 64 bits of state each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.environment import check_seed
from entity_env.rows.jit import compiled

__all__ = ["random_float", "random_int", "seeded_streams"]

# SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_B11, _B27, _B30, _B31, _B32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))


def seeded_streams(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Return the streams of ``count`` games; a stream does not depend on the number of games.

    Shape: (count,). Raises SettingError unless ``seed`` is a whole number of at least 0.
    """
    # The words of a longer state begin with those of a shorter one.
    words = np.random.SeedSequence(check_seed(seed)).generate_state(count, np.uint64)
    return words.astype(np.uint64, copy=False)


@compiled
def _bits(streams: npt.NDArray[np.uint64], game: int) -> Any:
    """Return the next 64 random bits of a game."""
    streams[game] += _WEYL
    bits = streams[game]
    bits = (bits ^ (bits >> _B30)) * _MIX1
    bits = (bits ^ (bits >> _B27)) * _MIX2
    return bits ^ (bits >> _B31)


@compiled
def random_int(streams: npt.NDArray[np.uint64], game: int, least: int, most: int) -> int:
    """Return a whole number from ``least`` to ``most``, uniformly distributed.

    Multiply 32 random bits by the number of choices (Lemire 2019, arXiv:1805.10941).

    Args:
        streams: ``g.random`` of a game's functions. Shape: (G,).
        game: The number of the game.
        least: The smallest number.
        most: The largest number, less than ``least`` + 2^32.
    """
    if least >= most:
        return least
    count = np.uint64(most - least + 1)
    while True:
        product = (_bits(streams, game) >> _B32) * count
        low = product & _LOW
        # Reject values below 2 ** 32 modulo count, for which ``low`` is below ``count``.
        if low >= count or low >= ((_LOW - count) + np.uint64(1)) % count:
            return least + int(product >> _B32)


@compiled
def random_float(streams: npt.NDArray[np.uint64], game: int) -> float:
    """Return a number from 0 (included) to 1 (excluded); see ``random_int`` for the arguments."""
    return float(_bits(streams, game) >> _B11) * (1.0 / (1 << 53))
