"""Base classes of environments with one player."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.arguments import check_whole
from entity_env.batching.step_results import is_over
from entity_env.errors import (
    FAILURES,
    EntityEnvError,
    EnvironmentFailedError,
    ObservationError,
    SettingError,
    StateError,
    shorten,
)
from entity_env.habits import check_methods
from entity_env.hints import ViewerHints
from entity_env.observation import Observation
from entity_env.own_methods import can_save, takes_seed, warn_of_seed
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = [
    "MOST_RESETS",
    "Environment",
    "Playable",
    "begin_episode",
    "call_environment",
    "check_seed",
    "draw_or_none",
    "environment_failed",
    "hints_of",
    "never_begins",
    "seed_environment",
]

T = TypeVar("T")

MOST_RESETS = 100
"""The number of episodes without a step, one after the other, at which an error is raised."""


class Playable(ABC):
    """Base of games for one player and for several players.

    Draw all random numbers from ``self.rng``: then runs with the same seed are equal. If the game
    also has ``get_state`` and ``set_state``, a resumed run continues exactly where it stopped.
    """

    hides_state: ClassVar[bool] = False
    """True if players do not see the whole state; a search then needs ``resample``."""

    _rng: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a new object of a class that has all methods."""
        check_methods(cls)
        return super().__new__(cls)

    @abstractmethod
    def obs_space(self) -> ObsSpace:
        """Return the observation space, the same at every call."""

    @abstractmethod
    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""

    @property
    def rng(self) -> np.random.Generator:
        """The random generator of the environment, seeded by ``seed`` or by the system."""
        if self._rng is None:
            self._rng = np.random.default_rng()
        rng: np.random.Generator = self._rng
        return rng

    @rng.setter
    def rng(self, rng: Any) -> None:
        """Use another generator, such as ``random.Random()``, which ``seed`` also restarts."""
        self._rng = rng

    def seed(self, seed: int) -> None:
        """Restart ``self.rng`` from ``seed``, an integer of at least 0."""
        check_seed(seed)
        if self._rng is None or isinstance(self._rng, np.random.Generator):
            self._rng = np.random.default_rng(seed)
        elif hasattr(self._rng, "seed"):  # random.Random, numpy.random.RandomState
            self._rng.seed(seed)

    def get_state(self) -> dict[str, Any]:
        """Return everything that ``reset`` and ``act`` change, as JSON values.

        Leave out ``self.rng``: the rows save the state of the random generator.
        """
        raise StateError(f"{type(self).__name__} does not save its state", hint=_STATE_HINT)

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Restore a state of ``get_state``, and return its observation.

        An environment returns the observation at that step. A game of several players returns
        those of the seats that must act, ``{seat: Observation}``.
        """
        raise StateError(f"{type(self).__name__} does not restore its state", hint=_STATE_HINT)

    def has_state(self) -> bool:
        """Return True if ``get_state`` and ``set_state`` exist and ``rng`` can be saved."""
        return (
            isinstance(self.rng, np.random.Generator)
            and type(self).get_state is not Playable.get_state
            and type(self).set_state is not Playable.set_state
            and can_save(self)
        )

    def resample(self, seat: Any = None) -> None:
        """Draw anew, from ``self.rng``, what a seat cannot see, so that a search does not know it.

        Args:
            seat: A seat that must act; None in an environment for one player.
        """
        raise StateError(f"{type(self).__name__} does not draw anew what it hides")

    def can_resample(self) -> bool:
        """Return True if ``resample`` is defined."""
        return type(self).resample is not Playable.resample

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return a picture of the current state. Shape: (H, W, 3), uint8."""
        raise NotImplementedError(
            f"{type(self).__name__} has no render method; "
            "entity_env.Drawer(env.obs_space()).draw(observation) draws entities with x and y"
        )

    def viewer_hints(self) -> ViewerHints:
        """Return hints on how ``entity_env.viewer`` draws the game; none by default."""
        return ViewerHints()

    def render_text(self) -> str:
        """Return the current state as lines of text, for the terminal."""
        raise NotImplementedError(f"{type(self).__name__} has no render_text method")

    def close(self) -> None:  # noqa: B027  (most environments have nothing to release)
        """Release the resources of the environment; a second call does nothing."""


class Environment(Playable):
    """A game for one player, whose observations are lists of entities.

    Subclasses define ``obs_space``, ``action_space``, ``reset`` and ``act``.
    """

    @abstractmethod
    def reset(self) -> Observation:
        """Start an episode and return its first observation."""

    @abstractmethod
    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step.

        Args:
            actions: One entry for each action of the action space. An action that nobody can take
                in this step has no actors; a global action that is not available is left out.
        """


_STATE_HINT = "define get_state and set_state; see envs/minesweeper.py for an example"


def hints_of(game: Any) -> ViewerHints:
    """Return the checked hints of a game, which may be inside wrappers."""
    inner = getattr(game, "unwrapped", game)
    hints = call_environment("viewer_hints", inner.viewer_hints)
    if not isinstance(hints, ViewerHints):
        raise SettingError(
            "viewer_hints did not return ViewerHints",
            expected="entity_env.hints.ViewerHints(...)",
            received=shorten(hints),
        )
    hints.check(inner.obs_space())
    return hints


def seed_environment(env: Environment, seed: int) -> None:
    """Seed ``env``, even if its class uses the name ``seed`` for something else."""
    if callable(env.seed):
        try:
            env.seed(seed)
            return
        except Exception as error:
            if takes_seed(env.seed):
                raise
            warn_of_seed(env, error)
    Environment.seed(env, seed)


def begin_episode(reset: Callable[[], Observation]) -> Observation:
    """Call ``reset`` until its observation is not done, and return it.

    Raises:
        ObservationError: The observation is done ``MOST_RESETS`` times in a row.
    """
    for _ in range(MOST_RESETS):
        observation = reset()
        if not is_over(observation):
            return observation
    raise never_begins()


def never_begins() -> ObservationError:
    """Return the error for ``MOST_RESETS`` episodes in a row without a step."""
    return ObservationError(
        f"reset returned an observation that is done, {MOST_RESETS} times in a row",
        expected="done=False: a new episode has at least one step",
    )


def call_environment(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of an environment; raise its exceptions as errors with the traceback."""
    try:
        return function(*arguments)
    except EntityEnvError:
        raise
    except FAILURES as error:
        raise environment_failed(what, error) from error


def draw_or_none(draw: Callable[[], T]) -> T | None:
    """Return what ``render`` or ``render_text`` returns; None if the game does not define it."""

    def drawn() -> T | None:
        try:
            return draw()
        except NotImplementedError:
            return None

    return call_environment(draw.__name__, drawn)


def environment_failed(what: str, error: BaseException) -> EnvironmentFailedError:
    """Return the error for an exception that an environment's ``what`` raised."""
    looked_up_none = isinstance(error, KeyError) and error.args == (None,)
    return EnvironmentFailedError(
        f"the environment raised {type(error).__name__} in {what}: {error}",
        received="".join(traceback.format_exception(error)).rstrip(),
        hint=_NO_IDS if looked_up_none else None,
    )


_NO_IDS = (
    "actions name entities without ids as None; give them ids: "
    "Observation(..., ids={'Robot': [...]})"
)


def check_seed(seed: object) -> int:
    """Return ``seed`` as an int if it is a whole number of at least 0, else raise SettingError."""
    return check_whole("seed", seed, 0, error=SettingError)
