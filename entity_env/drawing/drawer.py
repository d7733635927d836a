"""Pictures of observations: entities in a plane, or as a table if they have no places.

drawer = Drawer(env.obs_space())
picture = drawer.draw(env.reset())
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
from entity_env.drawing.scene_maker import SceneMaker
from entity_env.errors import SettingError
from entity_env.hints import ViewerHints
from entity_env.observation import Observation
from entity_env.spaces import GlobalCategoricalActionSpace, ObsSpace

__all__ = ["Drawer"]


@named_arguments(SettingError)
class Drawer:
    """A drawer of observations of one space.

    Entities with features ``x`` and ``y`` (or ``position.x`` and ``position.y``) are dots in a
    plane, coloured by type and labelled by id. The colour of their edges shows a discrete feature
    ``owner``, ``own``, ``player``, ``team`` or ``seat``. A panel lists the types and their numbers,
    entities without a place, and global features. Entities that are hidden from the policy are
    hollow. If no type has a place, the picture is a table. All pictures have the same size, and
    show the places of all observations so far: pass observations to ``include`` before drawing the
    first one to keep the scale of the pictures.

    Args:
        obs_space: The observation space.
        size: Height of the pictures in pixels, at least 100.
        hints: Hints for drawing, such as ``env.viewer_hints()``.

    Raises:
        SettingError: A size or hints that are not valid.
        MissingPackageError: Pillow is not installed.
    """

    def __init__(
        self, obs_space: ObsSpace, size: int = 400, hints: ViewerHints | None = None
    ) -> None:
        self.obs_space = obs_space
        self.size = check_whole("size of a picture in pixels", size, 100)
        # The reader needs an action space; actions of observations are not read.
        self._reader = FrameReader(obs_space, {"none": GlobalCategoricalActionSpace(["none"])})
        self._scenes = SceneMaker(obs_space, hints or ViewerHints())

    @property
    def has_places(self) -> bool:
        """True if some entity type has places."""
        return self._scenes.has_places

    def include(self, seen: Observation | Frame) -> None:
        """Extend the visible part of the plane to the places of an observation or frame."""
        self._scenes.include(self._read(seen))

    def draw(self, seen: Observation | Frame, chosen: Sequence[Chosen] = ()) -> Picture:
        """Return a picture of an observation or frame. Shape: (size, W, 3), uint8.

        The choices in ``chosen`` are written beside the actors; arrows lead to selected entities.

        Raises:
            EntityEnvError: The observation does not fit the space.
        """
        frame, unit = self._read(seen), self.size / 400
        scene = self._scenes.scene(frame, chosen)
        side = self.size if self.has_places else 0
        canvas = Canvas(side + round((180 if side else 580) * unit), self.size)
        if side:
            scale = side / max(scene.width, scene.height)
            left, top = (side - scene.width * scale) / 2, (side - scene.height * scale) / 2
            canvas.scene(scene, left, top, scale)
        panel = Panel(canvas, unit, side + 16 * unit, (152 if side else 548) * unit)
        panel.draw(scene, frame, self.obs_space, chosen)
        return canvas.picture()

    def _read(self, seen: Observation | Frame) -> Frame:
        if isinstance(seen, Frame):
            return seen
        if isinstance(seen, Observation):
            seen = replace(seen, actions={})
        return self._reader.read(seen)
