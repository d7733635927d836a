"""Pictures of observations, for environments without ``render``.

picture = draw_observation(observation, obs_space)

In an environment, with ``self.drawer = Drawer(self.obs_space())`` in its constructor:

def render(self, **kwargs):
    return self.drawer.draw(self.observe())

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entity_env.arguments import check_whole, named_arguments
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.drawing.canvas import Canvas, Picture
from entity_env.drawing.chosen import Chosen
from entity_env.drawing.panel import Panel
from entity_env.drawing.plane import check_bounds
from entity_env.drawing.scene_maker import SceneMaker
from entity_env.environment import YAxis
from entity_env.errors import SettingError, shorten
from entity_env.hints import ViewerHints
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
    hints: ViewerHints | None = None,
) -> Picture:
    """Return one observation as a picture; use ``Drawer`` for several with the same scale."""
    return Drawer(obs_space, size, bounds, y_axis, labels, hints).draw(observation)


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
        hints: Hints for drawing, such as ``env.viewer_hints()``.

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
        hints: ViewerHints | None = None,
    ) -> None:
        self.obs_space = obs_space
        self.size = check_whole("size of a picture in pixels", size, 100)
        if y_axis not in ("up", "down"):
            raise SettingError(
                "unknown direction of y_axis", received=shorten(y_axis), options=("up", "down")
            )
        # The reader needs an action space; actions of observations are not read.
        self._reader = FrameReader(obs_space, {"none": GlobalCategoricalActionSpace(["none"])})
        extent = None if bounds is None else check_bounds(bounds)
        self._scenes = SceneMaker(obs_space, y_axis, hints or ViewerHints(), labels, extent)

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
        return self._scenes.has_places

    def draw_frame(self, frame: Frame, chosen: Sequence[Chosen] = ()) -> Picture:
        """Draw a frame, an observation that has been read already; see ``draw``.

        The choices in ``chosen`` are written beside the actors; lines lead to selected entities.
        """
        scene, unit = self._scenes.scene(frame, chosen), self.size / 400
        side = self.size if self.has_places else 0
        canvas = Canvas(side + round((180 if side else 580) * unit), self.size)
        if side:
            canvas.place(scene, side, side)
        panel = Panel(canvas, unit, side + 16 * unit, (152 if side else 548) * unit)
        panel.draw(scene, frame, self.obs_space, chosen, self._scenes.labels)
        return canvas.picture()

    def include_frame(self, frame: Frame) -> None:
        """Include a frame, an observation that has been read already; see ``include``."""
        self._scenes.include(frame)

    def _read(self, observation: Observation) -> Frame:
        if isinstance(observation, Observation):
            observation = replace(observation, actions={})
        return self._reader.read(observation)
