"""Interface of the sources of episodes for the viewer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.drawing.scene import shape_json
from entity_env.drawing.scene_maker import SceneMaker
from entity_env.environment import YAxis
from entity_env.errors import SettingError
from entity_env.hints import ViewerHints
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.viewer.frames import read_frame

__all__ = ["Source", "curve_json"]

_MOST_MOMENTS, _MOST_OF_A_TYPE = 150, 200
"""Largest numbers of frames, and of entities of a type, for the places visited in an episode."""
_MOST_POINTS = 1500
"""Largest number of points of a curve, about the width of a screen in pixels."""


class Source(ABC):
    """A source of episodes; its methods are called one at a time.

    Args:
        obs_space: The observation space.
        action_space: The action space.
        y_axis: Direction of greater y.
        hints: Hints for drawing the game.

    Attributes:
        is_live: True if the source plays games, and ``advance`` makes the next frame.
    """

    is_live = False

    def __init__(
        self,
        obs_space: ObsSpace,
        action_space: Mapping[ActionName, ActionSpace],
        y_axis: YAxis,
        hints: ViewerHints,
    ) -> None:
        self._obs_space, self._action_space = obs_space, action_space
        self.scenes = SceneMaker(obs_space, y_axis, hints)

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return the constant parts: the title, the spaces, the seats."""

    @abstractmethod
    def episode(self, number: int) -> dict[str, Any]:
        """Return the length of an episode, and the number of episodes.

        Args:
            number: The number of the episode, from 0; -1 is the newest one.
        """

    @abstractmethod
    def frame(self, episode: int, step: int, seat: int) -> dict[str, Any]:
        """Return the frame of a step.

        Args:
            episode: The number of the episode.
            step: The number of the step, from 0; larger numbers mean the last step.
            seat: The number of the seat whose view is shown.
        """

    @abstractmethod
    def curve(self, episode: int, seat: int) -> dict[str, Any]:
        """Return reward, return so far and value along an episode."""

    def drawn_frame(self, episode: int, step: int, seat: int, zoom: float = 1.0) -> dict[str, Any]:
        """Return the frame of a step with its scene, to be magnified by ``zoom``."""
        given = self.frame(episode, step, seat)
        own = read_frame(given, self._obs_space, self._action_space)
        return {**given, "scene": self.scenes.scene(*own, zoom).to_json()}

    def visits(self, episode: int, seat: int, kind: str = "visits") -> dict[str, Any]:
        """Return the cells that the actors visited in an episode, as shapes of a scene.

        Long episodes are sampled at even intervals. If no actor has a place, the cells are those of
        all entities.

        Args:
            episode: The number of the episode.
            seat: The seat whose view is shown.
            kind: ``visits`` for colours by the number of visits, ``value`` for colours by the mean
                value of the frames with an actor in the cell.
        """
        length = self.episode(episode)["length"]
        points, every = list[npt.NDArray[Any]](), list[npt.NDArray[Any]]()
        for step in np.unique(np.linspace(0, max(length - 1, 0), _MOST_MOMENTS).astype(int)):
            try:
                given = self.frame(episode, int(step), seat)
            except SettingError:  # no longer stored
                continue
            frame, _ = read_frame(given, self._obs_space, self._action_space)
            value = given.get("value")
            acting = [own["actors"] for own in given["actions"].values()]
            actors = np.unique(np.concatenate([np.zeros(0, int), *acting]))
            for index, places in self.scenes.places(frame):
                own = np.column_stack([places, np.full(len(places), value, np.float64)])
                every.append(own[:_MOST_OF_A_TYPE])
                points.append(own[np.isin(index, actors)])
        found = np.concatenate([np.zeros((0, 3)), *points])
        if not len(found):
            found = np.concatenate([np.zeros((0, 3)), *every])
        return {"shapes": [shape_json(own) for own in self.scenes.heat(found, kind == "value")]}

    def picture(self, episode: int, step: int, layer: str = "", seat: int = 0) -> dict[str, Any]:
        """Return the game's own ``picture`` of a step, or None. Shape: (H, W, 3), bytes."""
        return {"picture": None}

    def advance(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Play one step of the newest episode; at its end, begin another one.

        Args:
            chosen: The choices of people by the number of the seat: for each action a list with
                the choice of each actor.
        """
        raise NotImplementedError

    def restart(self) -> dict[str, Any]:
        """Begin another episode."""
        raise NotImplementedError

    def training(self) -> dict[str, Any]:
        """Return the curves of a training: ``steps``, and the values of each metric by its name."""
        return {"steps": np.zeros(0), "metrics": {}}

    def close(self) -> None:  # noqa: B027  (most sources hold nothing)
        """Release the resources of the source."""


def curve_json(
    reward: npt.NDArray[Any], total: npt.NDArray[Any], value: Sequence[float | None]
) -> dict[str, Any]:
    """Return the curves of an episode, with fewer points if it has many steps.

    Args:
        reward: The reward before each frame. Shape: (L,).
        total: The return until each frame. Shape: (L,).
        value: The value of each frame, NaN or None if it is not known. Shape: (L,).
    """
    length = len(reward)
    places = np.unique(np.linspace(0, max(length - 1, 0), min(length, _MOST_POINTS)).astype(int))
    known = np.array([np.nan if own is None else own for own in value], np.float64)
    return {
        "length": length,
        "steps": places,
        "reward": _largest(np.asarray(reward, np.float64), places),
        "total": np.asarray(total, np.float64)[places],
        "value": known[places] if np.isfinite(known).any() else None,
    }


def _largest(values: npt.NDArray[np.float64], places: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the value of largest size up to each place, so that no reward is lost."""
    if not len(places):
        return values
    starts = np.concatenate([[0], places[:-1] + 1])
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return np.where(-low > high, low, high)
