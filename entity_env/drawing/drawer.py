"""Pictures of observations, for environments without ``render``.

picture = draw_observation(observation, obs_space)

In an environment, with ``self.drawer = Drawer(self.obs_space())`` in its constructor:

def render(self, **kwargs):
    return self.drawer.draw(self.observe())

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from entity_env.arguments import check_whole, named_arguments
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.drawing.canvas import Canvas, Picture
from entity_env.drawing.chosen import Chosen
from entity_env.drawing.labels import check_labels, label_texts
from entity_env.drawing.plane import Extent, View, check_bounds, dot_radius, find_places
from entity_env.drawing.scene import Panel, draw_plane, find_owners
from entity_env.environment import YAxis
from entity_env.errors import SettingError, shorten
from entity_env.observation import Observation
from entity_env.spaces import GlobalCategoricalActionSpace, ObsSpace

__all__ = ["Drawer", "draw_observation"]


def draw_observation(
    observation: Observation,
    obs_space: ObsSpace,
    size: int = 400,
    bounds: tuple[float, float, float, float] | None = None,
    y_axis: YAxis = "up",
    labels: str | Sequence[str] = (),
) -> Picture:
    """Return one observation as a picture; use ``Drawer`` for several with the same scale."""
    return Drawer(obs_space, size, bounds, y_axis, labels).draw(observation)


@named_arguments(SettingError)
class Drawer:
    """A drawer of observations of one space.

    Entities with features ``x`` and ``y`` (or ``position.x`` and ``position.y``) are dots in a
    plane, coloured by type and labelled by id. The colour of their edges shows a discrete feature
    ``owner``, ``own``, ``player``, ``team`` or ``seat``. A panel lists the types and their numbers,
    entities without a place, and global features. Entities that are hidden from the policy are
    hollow. If no type has a place, the picture is a table. All pictures have the same size.

    Args:
        obs_space: The observation space.
        size: Height of the pictures in pixels, at least 100.
        bounds: The visible part of the plane: left, right, bottom, top. Entities outside are only
            counted. None shows the places of all observations so far; pass observations to
            ``include`` before drawing the first one to keep the scale of the pictures.
        y_axis: Direction of greater y, ``up`` or ``down``.
        labels: Features, such as ``hp``, whose values are written beside entities.

    Raises:
        SettingError: A size, bounds or y axis that are not valid, or a feature that no entity has.
        MissingPackageError: Pillow is not installed.
    """

    def __init__(
        self,
        obs_space: ObsSpace,
        size: int = 400,
        bounds: tuple[float, float, float, float] | None = None,
        y_axis: YAxis = "up",
        labels: str | Sequence[str] = (),
    ) -> None:
        self.obs_space = obs_space
        self.size = check_whole("size of a picture in pixels", size, 100)
        if y_axis not in ("up", "down"):
            raise SettingError(
                "unknown direction of y_axis", received=shorten(y_axis), options=("up", "down")
            )
        self._y_axis = y_axis
        self._bounds = None if bounds is None else check_bounds(bounds)
        # The reader needs an action space; actions of observations are not read.
        self._reader = FrameReader(obs_space, {"none": GlobalCategoricalActionSpace(["none"])})
        self._places = find_places(obs_space)
        self._owners = find_owners(obs_space, self._places)
        self.labels = check_labels(obs_space, labels)
        self._extent: Extent | None = None
        self._most = 0
        self._is_grid = True

    def draw(self, observation: Observation) -> Picture:
        """Return a picture of an observation. Shape: (size, W, 3), uint8.

        Raises:
            EntityEnvError: The observation does not fit the space.
        """
        return self.draw_frame(self._read(observation))

    def include(self, observation: Observation) -> None:
        """Extend the visible part of the plane to the places of an observation."""
        self.include_frame(self._read(observation))

    @property
    def has_places(self) -> bool:
        """True if some entity type has x and y."""
        return bool(self._places)

    def draw_frame(self, frame: Frame, chosen: Sequence[Chosen] = ()) -> Picture:
        """Draw a frame, an observation that has been read already; see ``draw``.

        The choices in ``chosen`` are written beside the actors; lines lead to selected entities.
        """
        self.include_frame(frame)
        unit = self.size / 400
        if not self._places:
            canvas = Canvas(round(580 * unit), self.size)
            panel = Panel(canvas, unit, 16 * unit, 548 * unit)
            panel.draw(frame, self.obs_space, (), chosen=chosen)
            return canvas.picture()
        left, top, side = 36 * unit, 12 * unit, self.size - 36 * unit
        canvas = Canvas(round(left + side + 180 * unit), self.size)
        extent = self._bounds or (self._extent or Extent(0.0, 1.0, 0.0, 1.0)).rounded()
        inset = side / 22 + 6 * unit  # for dots at the edge
        view = View(extent, left, top, side, inset, self._is_grid, self._y_axis)
        radius = dot_radius(view, self._most)
        texts = label_texts(frame, self.obs_space, self.labels)
        draw_plane(canvas, unit, view, radius, frame, self._places, self._owners, chosen, texts)
        panel = Panel(canvas, unit, left + side + 16 * unit, 152 * unit)
        placed = tuple(self._places)
        panel.draw(frame, self.obs_space, placed, self._owners, chosen, self.labels)
        return canvas.picture()

    def include_frame(self, frame: Frame) -> None:
        """Include a frame, an observation that has been read already; see ``include``."""
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
