"""Bases of small games: spaces, steps, ends of episodes, and saved states."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from entity_env.actions import Action
from entity_env.environment import Environment, Playable
from entity_env.multi_player import MultiPlayerEnvironment, SeatObservations
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from .checks import check_running, check_started, reading_state, refuse_state

__all__ = ["OneStepGame", "SavedGame", "SeatGame", "SmallGame", "as_it_is", "maybe"]


class SavedGame(Playable):
    """A game that names its spaces and the attributes that a saved state holds.

    ``_saved`` has the form of each attribute in JSON: a function that reads a value, a list with
    the form of its items, a tuple of forms, or a dict of forms. Sets are saved as sorted lists.

    Attributes:
        steps: The number of steps of the episode; -1 before the first reset.
    """

    _obs_space: ObsSpace
    _action_space: Mapping[ActionName, ActionSpace]
    _saved: Mapping[str, Any]
    steps: int = -1

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        return self._action_space

    def get_state(self) -> dict[str, Any]:
        """Return the state of the episode as JSON values."""
        check_started(self.steps)
        return {name: _plain(getattr(self, name)) for name in self._saved}

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Go to a state of such a game and return what ``reset`` would; else StateError."""
        game = type(self).__name__
        with reading_state(game, state):
            saved = {name: _read(form, state[name]) for name, form in self._saved.items()}
        refuse_state(game, state, self._problems(**saved))
        self._restore(**saved)
        return self._shown()

    @abstractmethod
    def _begin(self) -> None:
        """Draw what an episode starts with."""

    @abstractmethod
    def _shown(self) -> Any:
        """Return the result of ``reset`` in the current state."""

    @abstractmethod
    def _problems(self, *args: Any, **saved: Any) -> dict[str, bool]:
        """Return the mistakes that a saved state can have, True for those that it has."""

    def _restore(self, **saved: Any) -> None:
        """Go to a state without mistakes."""
        vars(self).update(saved)


class SmallGame(SavedGame, Environment):
    """A game for one player.

    Attributes:
        done: True if the episode is over.
        max_steps: The number of steps after which an episode is truncated.
    """

    done = False
    max_steps: float = math.inf
    _prize = 1.0
    """The reward for winning, where ``_play`` returns no reward."""

    @property
    def over(self) -> bool:
        """True if the rules have ended the episode."""
        return False

    @property
    def won(self) -> bool | None:
        """True if an episode that is over is won; None if the game cannot be won."""
        return None

    def reset(self) -> Observation:
        """Start an episode."""
        self._begin()
        self.steps = 0
        return self.observe()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        check_running(self.steps, self.done)
        reward = self._play(actions)
        self.steps += 1
        return self.observe(reward)

    def observe(self, reward: float | None = None) -> Observation:
        """Return the observation of the current state, after a step that paid ``reward``."""
        check_started(self.steps)
        over = self.over
        self.done = done = over or self.steps >= self.max_steps
        seen = self._show()
        seen.done, seen.truncated = done, done and not over
        won = self.won if done else None
        if won is not None:
            seen.metrics = {"win": float(won)}
        seen.reward = self._prize * bool(won) if reward is None else reward
        return seen

    def _shown(self) -> Observation:
        return self.observe()

    @abstractmethod
    def _play(self, actions: Mapping[ActionName, Action]) -> float | None:
        """Check the actions before anything changes, play the step and return its reward."""

    @abstractmethod
    def _show(self) -> Observation:
        """Return an observation of entities and actions."""


class OneStepGame(SmallGame):
    """A game of one step, after which the attribute that ``_answer`` names is not None."""

    _answer = "answer"

    @property
    def over(self) -> bool:
        """True after the answer."""
        return getattr(self, self._answer) is not None

    def _restore(self, **saved: Any) -> None:
        super()._restore(**saved, steps=int(saved[self._answer] is not None))


class SeatGame(SavedGame, MultiPlayerEnvironment):
    """A game for several players."""

    _seats: Sequence[str]

    def seats(self) -> Sequence[str]:
        """Return the seats."""
        return self._seats

    def reset(self) -> SeatObservations:
        """Start a game."""
        self._begin()
        self.steps = 0
        return self._shown()

    @abstractmethod
    def _shown(self) -> SeatObservations:
        """Return the observations of the seats that must act, or of all at the end of the game."""


def maybe(form: Any) -> Any:
    """Return the form of a value that may be None."""
    return lambda value: None if value is None else _read(form, value)


def as_it_is(value: Any) -> Any:
    """Return a value, which ``_problems`` then checks."""
    return value


def _read(form: Any, value: Any) -> Any:
    if isinstance(form, list):
        return [_read(form[0], item) for item in value]
    if isinstance(form, tuple):
        return tuple(_read(*pair) for pair in zip(form, value, strict=True))
    if isinstance(form, dict):
        return {name: _read(own, value[name]) for name, own in form.items()}
    return form(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in (sorted(value) if isinstance(value, set) else value)]
    return dict(value) if isinstance(value, dict) else value
