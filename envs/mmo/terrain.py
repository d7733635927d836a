"""Maps: tiles made of ridged noise, within lava that nobody leaves alive.

To use another map generator, pass its array of tiles as ``tiles=``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.errors import SettingError, counted, nearest, shorten

from .settings import setting

__all__ = [
    "FOREST",
    "GRASS",
    "LAKE",
    "LAVA",
    "MAPS",
    "SCRUB",
    "STONE",
    "TILES",
    "Terrain",
    "make_map",
    "ring",
]

TILES = ("lava", "water", "grass", "scrub", "forest", "stone")
LAVA, LAKE, GRASS, SCRUB, FOREST, STONE = range(len(TILES))
MAPS = ("small", "large")
Tiles = npt.NDArray[np.int8]
Cells = npt.NDArray[np.int32]
_SEEDS = np.linspace(0, 2**32, 24)
_WATER, _GRASS, _FOREST = 0.3, 0.57, 0.715  # of the small map: less is this, more is stone
_OCTAVES = 8


@dataclass(frozen=True)
class Terrain:
    """The settings of maps.

    Args:
        map: ``small``: agents come in at the edge and forage inwards; ``large``: they come in at
            the centre, and outwards there is more to find.
        first_map: The first map of those that worlds draw theirs from, 0 to 23.
        maps: Number of maps.
        size: The side of a map with its lava; 0: 80 of a small one, 144 of a large one.
        border: The lava on each side.
        tiles: Another map to use. Shape: (height, width), of the numbers of ``TILES``; at
            least ``radius`` + 1 tiles of lava, water or stone on each side.
        spawns: Places of newcomers, as (row, column) pairs. None: on the ring just within the
            lava, or at the centre of the large map.
    """

    map: str = "small"
    first_map: int = setting(0, 0, 23)
    maps: int = setting(24, 1, 24)
    size: int = setting(0)
    border: int = setting(9, 1)
    tiles: Any = None
    spawns: Any = None

    def make_maps(self, margin: int) -> tuple[Tiles, Cells]:
        """Return all maps (M, height, width), and the cells where newcomers come in (S, 2).

        Args:
            margin: Nobody can be nearer to the edge than this.

        Raises:
            SettingError: Settings that do not fit together, or leave no room for newcomers.
        """
        if self.map not in MAPS:
            raise SettingError(
                f"there is no map {shorten(self.map)}",
                options=MAPS,
                hint=nearest(self.map, MAPS),
                about="map",
            )
        if self.tiles is not None:
            maps = _given_map(self.tiles, margin)[np.newaxis]
            border = int(np.argmax((maps[0] != LAVA).any(axis=1)))
            spawns = ring(maps.shape[1:], border)
        else:
            is_large = self.map == "large"
            size = self.size or (144 if is_large else 80)
            check_whole("size", size, 2 * max(self.border, margin) + 16, 4096)
            check_whole("border", self.border, margin)
            check_whole("first_map + maps", self.first_map + self.maps, 1, len(_SEEDS))
            numbers = range(self.first_map, self.first_map + self.maps)
            maps = np.stack([make_map(number, size, self.border, is_large) for number in numbers])
            spawns = _centre(size) if is_large else ring((size, size), self.border)
        if self.spawns is not None:
            spawns = _given_spawns(self.spawns, maps.shape[1:])
        open_ = np.isin(maps[:, spawns[:, 0], spawns[:, 1]], (GRASS, SCRUB, FOREST))
        spawns = spawns if self.spawns is not None else spawns[open_.all(axis=0)]
        if not len(spawns) or (self.spawns is not None and not open_.all()):
            raise SettingError(
                "the map has no room for newcomers",
                expected="grass, scrub or forest where they come in, one cell at least",
                received=counted(len(spawns), "cell"),
                about="spawns tiles map",
            )
        return maps, spawns


@lru_cache(maxsize=64)
def make_map(number: int, size: int = 80, border: int = 9, is_large: bool = False) -> Tiles:
    """Return one of the 24 maps. Shape: (size, size).

    Args:
        number: 0 to 23.
        size: The side, with the lava.
        border: The lava on each side.
        is_large: True if there is more to find further out.

    Raises:
        SettingError: The package opensimplex is missing.
    """
    scale = (28 if is_large else 16) * size / (144 if is_large else 80)
    ridged = _ridged_noise(_SEEDS[number] + np.arange(size) / size - 0.5, scale)
    far = np.abs(np.arange(size) - (size - 1) / 2)
    far = np.maximum(far[:, np.newaxis], far)  # Chebyshev distance from the centre
    water, grass, forest = _WATER, np.full_like(far, _GRASS), np.full_like(far, _FOREST)
    if is_large:
        ease = 0.325 * far / (size / 2)
        grass, forest = 0.675 - ease, 0.75 - ease / 2
    tiles = np.select(
        [ridged < water, ridged < grass, ridged < forest], [LAKE, GRASS, FOREST], STONE
    )
    if is_large:
        squares = (np.arange(size) - (size - 1) / 2) ** 2
        tiles[far < 6] = GRASS
        tiles[squares[:, np.newaxis] + squares < 2.5**2] = LAKE
    from_edge = np.minimum(np.arange(size), np.arange(size)[::-1])
    from_edge = np.minimum(from_edge[:, np.newaxis], from_edge)
    tiles[from_edge == border] = GRASS
    tiles[from_edge < border] = LAVA
    made = tiles.astype(np.int8)
    made.flags.writeable = False
    return made


def ring(shape: tuple[int, ...], border: int) -> Cells:
    """Return the cells just within the lava. Shape: (S, 2)."""
    rows, columns = np.indices(shape)
    inner = np.minimum(
        np.minimum(rows, shape[0] - 1 - rows), np.minimum(columns, shape[1] - 1 - columns)
    )
    return np.argwhere(inner == border).astype(np.int32)


def _centre(size: int) -> Cells:
    far = np.abs(np.arange(size) - (size - 1) / 2)
    return np.argwhere(np.maximum(far[:, np.newaxis], far) < 6).astype(np.int32)


def _ridged_noise(places: npt.NDArray[np.float64], scale: float) -> npt.NDArray[np.float64]:
    """Return ridged OpenSimplex noise, each octave weighted by the sum of those before; at most 1.

    Args:
        places: The coordinates of rows, and of columns. Shape: (S,).
        scale: The frequency of the first octave.
    """
    try:
        from opensimplex import OpenSimplex
    except ImportError as error:
        raise SettingError(
            "maps are made with the package opensimplex, which is not installed",
            expected="pip install opensimplex, or a map of your own: tiles=...",
        ) from error
    noise = OpenSimplex(0).noise2
    total = np.zeros((len(places), len(places)))
    for octave in range(_OCTAVES):
        own = places * scale * 2**octave
        values = np.array([[noise(y, x) for x in own] for y in own])
        sharp = 0.5**octave * 2 * (0.5 - np.abs(0.5 - (0.5 * values + 0.5)))
        total += sharp * total if octave else sharp
    return total / total.max()


def _given_map(given: Any, margin: int) -> Tiles:
    tiles = np.asarray(given)
    if tiles.ndim != 2 or tiles.dtype.kind not in "iu" or min(tiles.shape) <= 2 * margin:
        raise SettingError(
            "tiles are no map",
            expected=f"whole numbers (height, width), both greater than {2 * margin}",
            received=f"shape {tiles.shape}, {tiles.dtype}",
            about="tiles",
        )
    if tiles.min() < 0 or tiles.max() >= len(TILES):
        raise SettingError(
            "tiles have an unknown number",
            received=f"{tiles.min()} to {tiles.max()}",
            options=[f"{i}: {name}" for i, name in enumerate(TILES)],
            about="tiles",
        )
    edge = np.ones(tiles.shape, bool)
    edge[margin:-margin, margin:-margin] = False
    if not np.isin(tiles[edge], (LAVA, LAKE, STONE)).all():
        raise SettingError(
            "agents could walk too near to the edge of the map",
            expected=f"lava, water or stone on the {margin} outer rows and columns",
            about="tiles",
        )
    return tiles.astype(np.int8)


def _given_spawns(given: Any, shape: tuple[int, ...]) -> Cells:
    spawns = np.asarray(given)
    if (
        spawns.ndim != 2
        or spawns.shape[1] != 2
        or spawns.dtype.kind not in "iu"
        or ((spawns < 0) | (spawns >= shape)).any()
    ):
        raise SettingError(
            "spawns are no cells of the map",
            expected=f"(row, column) pairs below {shape}",
            received=shorten(given),
            about="spawns",
        )
    return spawns.astype(np.int32)
