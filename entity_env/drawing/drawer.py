"""Pictures of observations, for environments that do not draw themselves.

picture = draw_observation(observation, obs_space)

In an environment, with ``self.drawer = Drawer(self.obs_space())`` in its constructor:

def render(self, **kwargs):
    return self.drawer.draw(self.observe())

"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.drawing.plane import Extent, View, check_bounds, dot_radius, find_places
from entity_env.drawing.scene import Color, Panel, Shape, draw_plane
from entity_env.errors import EntityEnvError, SettingError, shorten
from entity_env.frame import Frame
from entity_env.observation import Observation
from entity_env.spaces import GlobalCategoricalActionSpace, ObsSpace
from entity_env.validate import FrameReader

__all__ = ["Canvas", "Drawer", "draw_observation"]

Picture = npt.NDArray[np.uint8]

_FINER = 2
"""Pixels are drawn this many times as fine and then averaged: smooth edges, smooth text."""


def draw_observation(
    observation: Observation,
    obs_space: ObsSpace,
    size: int = 400,
    bounds: tuple[float, float, float, float] | None = None,
) -> Picture:
    """One observation as a picture; see ``Drawer``, which draws several alike."""
    return Drawer(obs_space, size, bounds).draw(observation)


class Drawer:
    """Draws observations of one space, one after the other.

    Entities with features ``x`` and ``y`` (or ``position.x`` and ``position.y``) are dots in a
    plane, y up, coloured by type and labelled by id. Beside it stand the types, how many there are
    of each, entities without a place, and global features. Entities that the policy does not see
    are hollow. Where no type has a place, the picture is a table. All pictures have one size.

    Args:
        obs_space: What observations contain.
        size: Height of the pictures in pixels, at least 100.
        bounds: What part of the plane is shown: left, right, bottom, top. Entities outside are
            counted only. None shows all places that any observation so far had: pass them to
            ``include`` before drawing the first one, and the pictures do not move.

    Raises:
        SettingError: An impossible size or bounds.
        EntityEnvError: Pillow is not installed.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        size: int = 400,
        bounds: tuple[float, float, float, float] | None = None,
    ) -> None:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 100:
            raise SettingError(
                "impossible size of a picture",
                expected="a whole number of pixels, at least 100",
                received=shorten(size),
            )
        self.obs_space = obs_space
        self.size = int(size)
        self._bounds = None if bounds is None else check_bounds(bounds)
        # The reader wants an action; observations are read without theirs.
        self._reader = FrameReader(obs_space, {"none": GlobalCategoricalActionSpace(["none"])})
        self._places = find_places(obs_space)
        self._extent: Extent | None = None
        self._most = 0
        self._is_grid = True

    def draw(self, observation: Observation) -> Picture:
        """A picture of an observation. Shape: (size, W, 3), uint8.

        Raises:
            EntityEnvError: The observation does not fit the space.
        """
        return self.draw_frame(self._read(observation))

    def include(self, observation: Observation) -> None:
        """Make room for the places of an observation that is drawn later."""
        self.include_frame(self._read(observation))

    def draw_frame(self, frame: Frame) -> Picture:
        """As ``draw``, for an observation that has been read already."""
        self.include_frame(frame)
        unit = self.size / 400
        if not self._places:
            canvas = Canvas(round(580 * unit), self.size)
            Panel(canvas, unit, 16 * unit, 548 * unit).draw(frame, self.obs_space, ())
            return canvas.picture()
        left, top, side = 36 * unit, 12 * unit, self.size - 36 * unit
        canvas = Canvas(round(left + side + 180 * unit), self.size)
        extent = self._bounds or (self._extent or Extent(0.0, 1.0, 0.0, 1.0)).rounded()
        inset = side / 22 + 6 * unit  # for dots at the edge
        view = View(extent, left, top, side, inset, self._is_grid)
        radius = dot_radius(view, self._most)
        draw_plane(canvas, unit, view, radius, frame, self._places)
        panel = Panel(canvas, unit, left + side + 16 * unit, 152 * unit)
        panel.draw(frame, self.obs_space, tuple(self._places))
        return canvas.picture()

    def include_frame(self, frame: Frame) -> None:
        """As ``include``, for an observation that has been read already."""
        parts = [frame.features[name][:, place] for name, place in self._places.items()]
        points = np.concatenate([np.zeros((0, 2)), *parts])
        extent = Extent.of(points)
        if extent is not None:
            self._extent = extent.join(self._extent)
        self._most = max(self._most, len(np.unique(points @ (1, 1j))))
        self._is_grid = self._is_grid and bool((points == np.floor(points)).all())

    def _read(self, observation: Observation) -> Frame:
        if isinstance(observation, Observation):
            observation = replace(observation, actions={})
        return self._reader.read(observation)


class Canvas:
    """What is drawn on: positions and lengths in pixels of the picture, from its upper left corner.

    Args:
        width: Of the picture.
        height: Of the picture.
    """

    def __init__(self, width: int, height: int) -> None:
        self._pillow = _pillow()
        self.width, self.height = width, height
        self._image = self._pillow.Image.new("RGB", (width * _FINER, height * _FINER), "white")
        self._draw = self._pillow.ImageDraw.Draw(self._image)

    def picture(self) -> Picture:
        """What has been drawn. Shape: (height, width, 3)."""
        return np.array(self._image.reduce(_FINER), np.uint8)

    def box(self, left: float, top: float, right: float, bottom: float, fill: Color) -> None:
        """A filled rectangle; lines are thin ones."""
        corners = [round(v * _FINER) for v in (left, top, right, bottom)]
        corners[2:] = max(corners[0], corners[2] - 1), max(corners[1], corners[3] - 1)
        self._draw.rectangle(corners, fill=fill)

    def dot(
        self,
        x: float,
        y: float,
        radius: float,
        color: Color,
        shape: Shape,
        *,
        edge: Color,
        hollow: bool = False,
    ) -> None:
        """A filled shape with an edge; a ``hollow`` one is white inside and coloured around."""
        x, y, radius = x * _FINER, y * _FINER, radius * _FINER
        fill: Color = (255, 255, 255) if hollow else color
        outline, width = (color if hollow else edge), max(1, round(radius * 0.14 + 0.4))
        if shape == "circle":
            box = (x - radius, y - radius, x + radius, y + radius)
            self._draw.ellipse(box, fill=fill, outline=outline, width=width)
            return
        turn = {"square": (0.86, 0.86), "diamond": (0.0, 1.15)}[shape]
        corners = [complex(*turn) * 1j**quarter * radius + complex(x, y) for quarter in range(4)]
        points = [(corner.real, corner.imag) for corner in corners]
        self._draw.polygon(points, fill=fill, outline=outline, width=width)

    def text(
        self, x: float, y: float, text: str, size: float, color: Color, anchor: str = "lm"
    ) -> None:
        """One line of text; the anchor is Pillow's: l, m, r across and t, m, b down."""
        font = _font(round(size * _FINER))
        self._draw.text((x * _FINER, y * _FINER), text, fill=color, font=font, anchor=anchor)

    def text_width(self, text: str, size: float) -> float:
        """How wide a line of text is."""
        return float(_font(round(size * _FINER)).getlength(text)) / _FINER

    def shortened(self, text: str, size: float, width: float) -> str:
        """The text, cut to a width."""
        if self.text_width(text, size) <= width:
            return text
        while text and self.text_width(text + "...", size) > width:
            text = text[:-1]
        return text + "..."


@functools.cache
def _pillow() -> Any:
    try:
        import PIL
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise EntityEnvError(
            "pictures need Pillow, which is not installed", hint="pip install pillow"
        ) from error
    return PIL


@functools.lru_cache(maxsize=64)
def _font(size: int) -> Any:
    return _pillow().ImageFont.load_default(max(size, 6))
