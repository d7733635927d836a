"""Interface of the sources of episodes for the viewer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.errors import SettingError

__all__ = ["Source", "curve_json"]

_MOST_MOMENTS, _MOST_OF_A_TYPE = 150, 200
"""Largest numbers of frames, and of entities of a type, for the places visited in an episode."""
_MOST_POINTS = 1500
"""Largest number of points of a curve, about the width of a screen in pixels."""


class Source(ABC):
    """A source of episodes; its methods are called one at a time.

    Attributes:
        is_live: True if the source plays games, and ``advance`` makes the next frame.
    """

    is_live = False

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

    def visits(self, episode: int, seat: int) -> dict[str, Any]:
        """Return the places of the actors in an episode, with the value of each frame.

        Long episodes are sampled at even intervals. If no actor has a place, return the places of
        all entities. The points are x, y and value, NaN if it is not known. Shape: (N, 3).
        """
        types = {own["name"]: own for own in self.about()["types"] if own["x"] is not None}
        length = self.episode(episode)["length"]
        found: list[npt.NDArray[np.float64]] = [np.zeros((0, 3))]
        anything = list(found)
        for step in np.unique(np.linspace(0, max(length - 1, 0), _MOST_MOMENTS).astype(int)):
            try:
                frame = self.frame(episode, int(step), seat)
            except SettingError:  # no longer stored
                continue
            value = frame.get("value")
            acting = [own["actors"] for own in frame["actions"].values()]
            actors = np.unique(np.concatenate([np.zeros(0, int), *acting]))
            for name, own in frame["entities"].items():
                if name not in types:
                    continue
                rows = own["features"]
                x, y = types[name]["x"], types[name]["y"]
                points = np.full((len(rows), 3), np.nan if value is None else value)
                points[:, 0], points[:, 1] = rows[:, x], 0 if y is None else rows[:, y]
                anything.append(points[:_MOST_OF_A_TYPE])
                acts = np.isin(np.arange(len(rows)) + own["first"], actors)
                found.append(points[acts])
        points = np.concatenate(found)
        return {"points": points if len(points) else np.concatenate(anything)}

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
