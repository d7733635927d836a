"""The choices among which a search selects: joint choices of all actors of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecObs
from entity_env.errors import SettingError
from entity_env.spaces import ActionName, ActionSpace

__all__ = ["ActorTable", "Candidates", "check_searchable", "uniforms"]

F64 = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_DRAWS = 4
"""Number of draws for each joint candidate, of which some are the same."""


def check_searchable(action_space: Mapping[ActionName, ActionSpace]) -> None:
    """Raise SettingError unless every action has a finite list of choices."""
    for name, space in action_space.items():
        if not space.picks_one:
            raise SettingError(
                f"action {name!r} cannot be searched",
                expected="choices from a list, or selections of one entity",
                received=type(space).__name__,
            )


def uniforms(keys: Keys, *shape: int) -> F64:
    """Return numbers between 0 and 1 that depend on the keys only. Shape: (N, *shape).

    Args:
        keys: Key of each stream of random numbers. Shape: (N,).
        shape: Shape of the numbers of one key.

    Source:
        Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
    """
    count = np.arange(1, 1 + int(np.prod(shape, dtype=np.int64)), dtype=np.uint64)
    bits = keys[:, None] + count * _WEYL
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    numbers: F64 = ((bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return numbers.reshape(len(keys), *shape)


def gumbels(keys: Keys, *shape: int) -> F64:
    """Return numbers of a standard Gumbel distribution. Shape: (N, *shape)."""
    noise: F64 = -np.log(-np.log(uniforms(keys, *shape)))
    return noise


@dataclass(frozen=True)
class Candidates:
    """C candidates for the joint choice of the actors in each of B frames.

    Args:
        choices: The choice of each actor as the game takes it. Shape: (B, C, A), int64.
        places: The place of each choice among the choices of its actor. Shape: (B, C, A), int64.
        log_prior: Log-probabilities, -inf for none. Shape: (B, C).
    """

    choices: Ints
    places: Ints
    log_prior: F64


class ActorTable:
    """The T actors of B frames, frame by frame and within a frame by action.

    Args:
        obs: The frames.

    Attributes:
        frame, column: Frame of each actor, and its number in the frame. Shape: (T,).
        width: Number of choices of each actor, allowed or not. Shape: (T,).
        most: Maximum number of actors of a frame.
    """

    def __init__(self, obs: VecObs) -> None:
        self.num_frames, self._names = obs.num_frames, list(obs.action_masks)
        parts, actees, known = [], [np.zeros(0, np.int64)], 0
        for number, own in enumerate(obs.action_masks.values()):
            mask: Any = own
            counts = np.asarray(mask.actors.size1(), np.int64)
            frame = np.repeat(np.arange(len(counts)), counts)
            if hasattr(mask, "actees"):
                lengths = np.asarray(mask.actees.size1(), np.int64)
                first = known + (np.cumsum(lengths) - lengths)[frame]
                width = lengths[frame]
                actees.append(mask.actees.as_array()[:, 0])
                known += len(actees[-1])
            else:
                width = np.full(len(frame), mask.mask.size2(), np.int64)
                first = np.full(len(frame), -1)
            parts.append((frame, np.full(len(frame), number), first, width))
        frame, action, first, width = (np.concatenate(own) for own in zip(*parts, strict=True))
        self._order = np.argsort(frame, kind="stable")
        self.frame, self._action = frame[self._order], action[self._order]
        self._first, self.width = first[self._order], width[self._order]
        self._actees = np.concatenate(actees)
        counts = np.bincount(self.frame, minlength=self.num_frames)
        self.column = np.arange(len(self.frame)) - (np.cumsum(counts) - counts)[self.frame]
        self.most = int(counts.max(initial=0))

    def padded(self, probs: Mapping[ActionName, npt.NDArray[np.float32]]) -> F64:
        """Return the probabilities of each actor's choices, with zeros behind. Shape: (T, W).

        Args:
            probs: Flat probabilities of the choices of all actors of each action, actor by actor.
        """
        flat = np.concatenate([probs[name].ravel() for name in self._names])
        width = np.empty_like(self.width)
        width[self._order] = self.width
        rows = np.zeros((len(width), int(width.max(initial=1))))
        rows[np.arange(rows.shape[1]) < width[:, None]] = flat
        return rows[self._order]

    def even(self, obs: VecObs) -> F64:
        """Return equal probabilities of the choices that masks allow. Shape: (T, W)."""
        allowed = {}
        for name, own in obs.action_masks.items():
            mask: Any = own
            if not hasattr(mask, "actees") or mask.mask is not None:
                allowed[name] = mask.mask.as_array()
            else:
                pairs = np.asarray(mask.actors.size1()) @ np.asarray(mask.actees.size1())
                allowed[name] = np.ones(int(pairs), np.float32)
        probs = self.padded(allowed)
        even: F64 = probs / np.maximum(probs.sum(axis=1, keepdims=True), 1)
        return even

    def places(self, choices: Ints) -> Ints:
        """Return the place of each actor's choice among its choices. Shape: (T,)."""
        width = np.arange(int(self.width.max(initial=1)))
        inside = np.clip(self._first[:, None] + width, 0, max(len(self._actees) - 1, 0))
        actees = np.append(self._actees, 0)[inside]
        found: Ints = ((actees == choices[:, None]) & (width < self.width[:, None])).argmax(axis=1)
        return np.where(self._first < 0, choices, found)

    def joined(self, flat: Mapping[ActionName, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return numbers of all actors in the order of this table, from those of each action."""
        joined: npt.NDArray[Any] = np.concatenate([flat[name] for name in self._names])
        return joined[self._order]

    def split(self, numbers: npt.NDArray[Any]) -> dict[ActionName, npt.NDArray[Any]]:
        """Return numbers (T,) of all actors by action, as ``joined`` takes them."""
        return {name: numbers[self._action == i] for i, name in enumerate(self._names)}

    def spread(self, found: Candidates, frames: Ints, weights: F64) -> dict[ActionName, Any]:
        """Return the total weight of each choice of each actor, flat as in ``padded``.

        Args:
            found: Candidates of some of the frames.
            frames: Numbers of these frames. Shape: (K,).
            weights: Weights of their candidates. Shape: (K, C).
        """
        row_of = np.full((self.num_frames, max(self.most, 1)), -1)
        row_of[self.frame, self.column] = np.arange(len(self.frame))
        rows = np.zeros((len(self.frame), int(self.width.max(initial=1))))
        actors = row_of[frames][:, None, : found.places.shape[2]]
        actors = np.broadcast_to(actors, found.places.shape)
        real = (actors >= 0) & (weights > 0)[:, :, None]
        weighted = np.broadcast_to(weights[:, :, None], found.places.shape)
        np.add.at(rows, (actors[real], found.places[real]), weighted[real])
        inside = np.arange(rows.shape[1]) < self.width[:, None]
        return {
            name: rows[self._action == i][inside[self._action == i]].astype(np.float32)
            for i, name in enumerate(self._names)
        }

    def lengths(self) -> dict[ActionName, Ints]:
        """Return the number of choices of all actors in each frame, for each action. (B,)."""
        return {
            name: np.bincount(
                self.frame, self.width * (self._action == i), minlength=self.num_frames
            ).astype(np.int64)
            for i, name in enumerate(self._names)
        }

    def candidates(self, probs: F64, most: int, keys: Keys) -> Candidates:
        """Return the candidates of each frame.

        A single actor has all its choices, if they are at most ``most``, or else the most likely
        ones. Joint choices of several actors are drawn without replacement, and contain the most
        likely one.

        Args:
            probs: Result of ``padded``.
            most: Maximum number of candidates of a frame.
            keys: Key of the random numbers of each frame. Shape: (B,).
        """
        with np.errstate(divide="ignore"):
            logs = np.log(probs)
        places, log_prior = self._joint(logs, most, keys)
        firsts = np.full((self.num_frames, max(self.most, 1)), -1)
        firsts[self.frame, self.column] = self._first
        firsts = np.broadcast_to(firsts[:, None], places.shape)
        # Places behind the last choice of an actor have no probability.
        inside = np.clip(firsts + places, 0, max(len(self._actees) - 1, 0))
        actees = np.append(self._actees, 0)[inside]
        return Candidates(np.where(firsts < 0, places, actees), places, log_prior)

    def _joint(self, logs: F64, most: int, keys: Keys) -> tuple[Ints, F64]:
        """Return the places (B, C, A) and the log-probabilities (B, C) of candidates."""
        frames, width = self.num_frames, logs.shape[1]
        if self.most <= 1:
            of_frames = np.full((frames, width), -np.inf)
            of_frames[:, 0] = 0.0  # the only choice of a frame without actors
            of_frames[self.frame] = logs
            order = np.broadcast_to(np.arange(width), of_frames.shape)
            if width > most:
                order = np.argsort(-of_frames, axis=1, kind="stable")[:, :most]
            return order[:, :, None], np.take_along_axis(of_frames, order, 1)
        draws = _DRAWS * most
        noise = gumbels(keys, self.most, draws, width)[self.frame, self.column]
        noise[:, 0] = 0.0  # the first draw is the most likely choice
        drawn = np.argmax(logs[:, None, :] + noise, axis=2)  # (T, draws)
        places = np.zeros((frames, draws, self.most), np.int64)
        places[self.frame, :, self.column] = drawn
        log_prior = np.zeros((frames, draws))
        np.add.at(log_prior, self.frame, np.take_along_axis(logs, drawn, 1))
        repeated = np.zeros((frames, draws), np.bool_)
        for later in range(1, draws):
            same = (places[:, :later] == places[:, later : later + 1]).all(axis=2)
            repeated[:, later] = same.any(axis=1)
        order = np.argsort(repeated, axis=1, kind="stable")[:, :most]
        log_prior = np.where(repeated, -np.inf, log_prior)
        places = np.take_along_axis(places, order[:, :, None], 1)
        return places, np.take_along_axis(log_prior, order, 1)
