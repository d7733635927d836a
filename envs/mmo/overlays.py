"""Overlays over a map: the places of agents, and the values of places for a policy.

worth = values_over_map(rows, value)           # value(obs): the value of each frame
picture = with_heat(draw_map(tiles), worth)    # (H, W, 3) uint8
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecObs
from entity_env.hints import EntityHints, ViewerHints
from entity_env.rows.compiled import CompiledRows
from entity_env.rows.jit import interpreted

from .body import COLUMN, IMMUNE, LIVING, ROW
from .combat import protect
from .settings import numbers
from .terrain import FOREST, GRASS, SCRUB

__all__ = [
    "draw_map",
    "hints_of_world",
    "population_colours",
    "values_over_map",
    "with_heat",
    "with_populations",
    "with_visits",
]

Picture = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
_LAKE = ((207, 82, 46), (66, 117, 201))
_LAND = ((150, 190, 110), (190, 178, 120), (56, 122, 62), (128, 128, 128))
_COLOURS = np.array([*_LAKE, *_LAND], np.uint8)  # of TILES
# From cold to hot by way of a red that no terrain has: a mixture of blue and yellow would be the
# grey of stone.
_HEAT = np.array([(49, 54, 149), (190, 40, 110), (255, 221, 51)])
_LEAST_TINT, _MOST_TINT = 0.5, 0.8


def draw_map(tiles: npt.ArrayLike, cell: int = 8) -> Picture:
    """Return a picture of tiles (height, width), each of ``cell`` x ``cell`` pixels."""
    return _larger(_COLOURS[np.asarray(tiles)], cell)


def hints_of_world(radius: int, populations: int) -> ViewerHints:
    """Return hints for the view of an agent: the map around it, itself, and the others there.

    Args:
        radius: Number of tiles that agents see in each direction.
        populations: Number of populations, each of which has a colour.
    """
    colours = [_css(own) for own in population_colours(populations)]
    agent = EntityHints(color="population", colors=colours, bar="")
    return ViewerHints(
        {
            "Tile": EntityHints(tile="square", ground="kind", grounds=[_css(c) for c in _COLOURS]),
            "Self": replace(agent, x=radius, y=radius, shape="diamond"),
            "Agent": replace(agent, x="column", y="row"),
        },
        y_axis="down",
    )


def population_colours(count: int) -> Picture:
    """Return a colour for each of so many populations. Shape: (count, 3)."""
    hues = [colorsys.hsv_to_rgb(number / count, 0.85, 0.95) for number in range(count)]
    return np.array(np.rint(np.array(hues) * 255), np.uint8)


def with_heat(picture: Picture, amounts: npt.ArrayLike) -> Picture:
    """Return the picture with a colour for the amount of each tile, from the least to the greatest.

    Args:
        picture: Of a map, as ``draw_map`` makes it.
        amounts: Of each tile; NaN leaves a tile as it is. Shape: (height, width).
    """
    own = np.asarray(amounts, np.float64)
    known = np.isfinite(own)
    least, most = (own[known].min(), own[known].max()) if known.any() else (0.0, 0.0)
    shares = np.where(known, (own - least) / max(most - least, 1e-12), 0.0)
    places = np.linspace(0, 1, len(_HEAT))
    colours = np.stack([np.interp(shares, places, part) for part in _HEAT.T], axis=-1)
    return _blended(picture, colours, np.where(known, _MOST_TINT, 0.0))


def with_visits(picture: Picture, visits: npt.ArrayLike) -> Picture:
    """Return the picture with the number of visits of each tile, on a scale of logarithms.

    Args:
        picture: Of a map, as ``draw_map`` makes it.
        visits: Visits of each population to each tile. Shape: (populations, height, width).
    """
    total = np.asarray(visits, np.float64).sum(0)
    return with_heat(picture, np.where(total > 0, np.log1p(total), np.nan))


def with_populations(picture: Picture, visits: npt.ArrayLike) -> Picture:
    """Return the picture with the colour of who visits a tile most, stronger where many do.

    A mean of several colours would often be the grey of stone.

    Args:
        picture: Of a map, as ``draw_map`` makes it.
        visits: Visits of each population to each tile. Shape: (populations, height, width).
    """
    own = np.asarray(visits, np.float64)
    total = own.sum(0)
    colours = population_colours(len(own))[own.argmax(0)].astype(np.float64)
    strength = np.sqrt(total / max(total.max(), 1))
    shares = _LEAST_TINT + (_MOST_TINT - _LEAST_TINT) * strength
    return _blended(picture, colours, np.where(total > 0, shares, 0.0))


def values_over_map(
    rows: CompiledRows, value: Callable[[VecObs], npt.ArrayLike], seat: int = 0
) -> Floats:
    """Return the value of each tile for a newcomer that is alone in the world.

    Args:
        rows: ``MmoRows``; the map is that of its first world as it is. All worlds are changed.
        value: Returns the value of each frame.
        seat: Seat whose view is drawn, which determines the population.

    Returns:
        The values, NaN on tiles where no agent can stand. Shape: (height, width).
    """
    rows.reset()
    saved = rows.copy_games([0] * (len(rows) // rows.num_seats))
    fields, game = saved.fields, SimpleNamespace(**numbers(rows.settings))  # type: ignore[attr-defined]
    newcomer = int(fields["newcomer"][0])
    me = fields["agents"][:, newcomer].copy()
    fields["agents"][..., LIVING] = 0
    fields["alive"][:], fields["order"][:, 0], fields["newcomer"][:] = 1, seat, seat
    tiles = fields["tiles"][0].copy()
    game.tiles = fields["tiles"]
    found = np.full(tiles.shape, np.nan)
    places = np.argwhere(np.isin(tiles, (GRASS, SCRUB, FOREST)))
    for start in range(0, len(places), len(me)):
        part = places[start : start + len(me)]
        fields["first"][:] = -1
        for world, (row, column) in enumerate(part):
            own = me[world]
            own[ROW], own[COLUMN] = row, column
            interpreted(protect)(game, own, own[IMMUNE])
            fields["agents"][world, seat] = own
            fields["first"][world, row, column] = seat
        obs = rows.put_games(range(len(me)), saved)
        found[tuple(part.T)] = np.asarray(value(obs), np.float64)[: len(part)]
    return found


def _css(colour: Picture) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour.tolist())


def _larger(cells: npt.NDArray[Any], cell: int) -> npt.NDArray[Any]:
    return cells.repeat(cell, axis=0).repeat(cell, axis=1)


def _blended(picture: Picture, colours: Floats, shares: Floats) -> Picture:
    cell = picture.shape[0] // shares.shape[0]
    tint, share = _larger(colours, cell), _larger(shares, cell)[..., np.newaxis]
    return np.array(np.rint(picture * (1 - share) + tint * share), np.uint8)
