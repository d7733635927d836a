"""Sources of the viewer: episodes with the frames of their seats."""

from __future__ import annotations

import bisect
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.table import answer_forms
from entity_env.drawing.chosen import choices_of
from entity_env.drawing.scene_maker import SceneMaker
from entity_env.errors import EntityEnvError, SettingError
from entity_env.hints import ViewerHints
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.viewer.frames import frame_json, number, spaces_json

__all__ = ["Episode", "Line", "Source"]

_MOST_POINTS = 1500
"""Largest number of points of a curve, about the width of a screen in pixels."""


@dataclass
class Line:
    """The frames of one seat in an episode.

    Args:
        steps: The step of each frame.
        stored: The data from which ``Source._load`` makes each frame; None if it was dropped.
        acts: False for frames that are shown again after the last decision.
        rewards: The reward before each frame.
        values: The value of each frame, if it is known.
        totals: The return until each frame.
    """

    steps: list[int] = field(default_factory=list)
    stored: list[Any] = field(default_factory=list)
    acts: list[bool] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)

    def add(
        self, step: int, stored: Any, reward: float, value: float | None = None, acts: bool = True
    ) -> None:
        """Add a frame."""
        self.steps.append(step)
        self.stored.append(stored)
        self.acts.append(acts)
        self.rewards.append(reward)
        self.values.append(value)
        self.totals.append(reward + (self.totals[-1] if self.totals else 0.0))

    def end(self, step: int, reward: float) -> None:
        """Add the last frame again, without its choices, for a reward after it."""
        self.add(step, self.stored[-1], reward, acts=False)


@dataclass
class Episode:
    """An episode: the frames of each seat, the number of steps, and its end.

    Args:
        lines: The frames of each seat.
        who: Names of the agents, or the row.
        length: The number of steps so far.
        done: True if the episode is over.
        truncated: True if a limit ended it.
        metrics: Its metrics at the end.
        reward: The reward after the last frame of a recording.
    """

    lines: Sequence[Line]
    who: str = ""
    length: int = 0
    done: bool = False
    truncated: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    reward: float = 0.0


class Source(ABC):
    """Episodes that are found one after the other; its methods are called one at a time.

    A thread reads the items of ``feed``, while the first episodes can be viewed already.

    Args:
        about: The constant parts of the page: ``kind``, ``title``, ``seats`` and others.
        obs_space: The observation space.
        action_space: The action space.
        hints: Hints for drawing the game.
        feed: The items from which ``_add`` makes episodes; None without any.
        notice: Message about damage.

    Attributes:
        is_live: True if the source plays games, and ``advance`` makes the next frame.
    """

    is_live = False

    def __init__(
        self,
        about: Mapping[str, Any],
        obs_space: ObsSpace,
        action_space: Mapping[ActionName, ActionSpace],
        hints: ViewerHints,
        feed: Iterable[Any] | None = None,
        notice: str = "",
    ) -> None:
        self._spaces = obs_space, action_space
        self._forms = answer_forms(action_space)
        self.scenes = SceneMaker(obs_space, hints)
        self._about = {"people": [], **about, **spaces_json(*self._spaces, self.scenes)}
        self._notice = notice
        # In the order in which they begin, so that their numbers do not change during reading.
        self._episodes: list[Episode] = []
        self._dropped = 0
        self._changed = threading.Condition()
        self._is_read = feed is None
        if feed is not None:
            threading.Thread(target=self._read, args=(feed,), daemon=True).start()

    @abstractmethod
    def _load(self, stored: Any) -> tuple[Frame, Decision | None]:
        """Return a stored frame, and the decision in it."""

    def _add(self, item: Any) -> None:
        """Add what an item of the feed has to the episodes."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """Return the constant parts: the title, the spaces, the seats; a message about damage."""
        return {**self._about, "notice": self._notice}

    def episode(self, number: int) -> dict[str, Any]:
        """Return the length of an episode, and the number of episodes found so far.

        Args:
            number: The number of the episode, from 0; -1 is the newest one.
        """
        with self._changed:
            number, episode = self._find(number)
            return {
                "number": number,
                "count": self._dropped + len(self._episodes),
                "is_growing": not self._is_read,
                "notice": self._notice,
                "who": episode.who,
                "length": episode.length,
                "done": episode.done,
                "truncated": episode.truncated,
                "metrics": _numbers(episode.metrics),
            }

    def frame(
        self, episode: int, step: int, seat: int, zoom: float = 1.0, layer: str | None = None
    ) -> dict[str, Any]:
        """Return the frame of a seat at a step, or its last frame before it, with its scene.

        Args:
            episode: The number of the episode.
            step: The number of the step, from 0; larger numbers mean the last step.
            seat: The number of the seat whose view is shown.
            zoom: The magnification of the scene.
            layer: The overlay of the game's own picture of the step, or an empty string; None for
                no picture.
        """
        with self._changed:
            _, game = self._find(episode)
            step, line = max(0, min(step, game.length - 1)), game.lines[seat]
            place = bisect.bisect_right(line.steps, step) - 1
        frame, decision, reward, total = self._nothing(), None, 0.0, 0.0
        if place >= 0:
            if line.stored[place] is None:
                raise SettingError(f"step {step} is no longer stored; only later steps are")
            frame, decision = self._load(line.stored[place])
            reward, total = line.rewards[place], line.totals[place]
        if place < 0 or not line.acts[place] or line.steps[place] < step:
            frame, decision = replace(frame, actions={}), None
        chosen = {} if decision is None else decision.chosen
        scene = self.scenes.scene(frame, choices_of(frame, *self._spaces, chosen), zoom)
        return {
            **frame_json(frame, decision),
            "step": step,
            "reward": number(reward),
            "total": number(total),
            "metrics": _numbers(frame.metrics),
            "scene": scene.to_json(),
        }

    def curve(self, episode: int, seat: int) -> dict[str, Any]:
        """Return reward, return and value along an episode, at fewer points if it is long.

        While a seat waits, its last return and value are repeated.
        """
        with self._changed:
            _, game = self._find(episode)
            length, line = game.length, game.lines[seat]
        reward = np.zeros(length)
        reward[line.steps] = line.rewards
        last = np.searchsorted(line.steps, np.arange(length), "right") - 1
        total = np.array([*line.totals, 0.0])[last]
        value = np.array([*line.values, np.nan], np.float64)[last]
        points = np.unique(
            np.linspace(0, max(length - 1, 0), min(length, _MOST_POINTS)).astype(int)
        )
        return {
            "length": length,
            "steps": points,
            "reward": _largest(reward, points),
            "total": total[points],
            "value": value[points] if np.isfinite(value[points]).any() else None,
        }

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

    def close(self) -> None:  # noqa: B027  (most sources hold nothing)
        """Release the resources of the source."""

    def _read(self, feed: Iterable[Any]) -> None:
        """Add all items of the feed."""
        try:
            for item in feed:
                with self._changed:
                    self._add(item)
                    self._changed.notify_all()
        except EntityEnvError as error:
            self._notice = f"{self._notice}; {error}".removeprefix("; ")
        with self._changed:
            self._is_read = True
            self._changed.notify_all()

    def _find(self, number: int) -> tuple[int, Episode]:
        """Return an episode and its number; wait for it while the feed is read."""
        while True:
            count = self._dropped + len(self._episodes)
            place = number + count if number < 0 else number
            if self._dropped <= place < count:
                return place, self._episodes[place - self._dropped]
            if self._is_read:
                raise SettingError(
                    "the episode does not exist",
                    expected=f"{self._dropped} to {count - 1}",
                    received=number,
                )
            self._changed.wait(1.0)

    def _nothing(self) -> Frame:
        """Return a frame without entities, that of a seat before its first turn."""
        obs_space = self._spaces[0]
        features = {
            name: np.zeros((0, len(entity.names)), np.float32)
            for name, entity in obs_space.entities.items()
        }
        unknown = np.full(len(obs_space.global_names), np.nan, np.float32)
        return Frame(features, unknown, {}, [], {}, 0.0, False, False, {})


def _numbers(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: number(value) for name, value in metrics.items()}


def _largest(values: npt.NDArray[np.float64], places: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the value of largest size up to each place, so that no reward is lost."""
    if not len(places):
        return values
    starts = np.concatenate([[0], places[:-1] + 1])
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return np.where(-low > high, low, high)
