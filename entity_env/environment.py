"""The class that people subclass: one environment, one player."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

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
    SeedError,
    StateError,
)
from entity_env.hints import ViewerHints
from entity_env.observation import Observation
from entity_env.own_methods import can_save, takes_seed, warn_of_seed
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = [
    "MOST_RESETS",
    "Environment",
    "Playable",
    "YAxis",
    "begin_episode",
    "call_environment",
    "check_seed",
    "environment_failed",
    "never_begins",
    "seed_environment",
    "y_axis_of",
]

T = TypeVar("T")
YAxis: TypeAlias = Literal["up", "down"]
"""The direction of greater y in a picture: up as in mathematics, or down as on a screen."""

MOST_RESETS = 100
"""So many episodes without a step may not follow each other."""


class Playable(ABC):
    """The common part of games for one player and for several.

    All randomness should come from ``self.rng``: then one seed gives one run, and a resumed run
    goes on exactly where it stopped if ``get_state`` and ``set_state`` are there too.

    Attributes:
        y_axis: Where greater values of y are when ``entity_env.drawing`` draws the game; a subclass
            whose first row is on top writes ``y_axis = "down"``.
    """

    y_axis: YAxis = "up"

    _rng: Any = None

    @abstractmethod
    def obs_space(self) -> ObsSpace:
        """Return the observation space, the same at every call."""

    @abstractmethod
    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""

    @property
    def rng(self) -> np.random.Generator:
        """The environment's own random numbers; seeded by ``seed``, else from the system."""
        if self._rng is None:
            self._rng = np.random.default_rng()
        rng: np.random.Generator = self._rng
        return rng

    @rng.setter
    def rng(self, rng: Any) -> None:
        """Use other random numbers, such as ``random.Random()``: ``seed`` restarts them too."""
        self._rng = rng

    def seed(self, seed: int) -> None:
        """Restart ``self.rng`` from a whole number of at least 0."""
        check_seed(seed)
        if self._rng is None or isinstance(self._rng, np.random.Generator):
            self._rng = np.random.default_rng(seed)
        elif hasattr(self._rng, "seed"):  # random.Random, numpy.random.RandomState
            self._rng.seed(seed)

    def get_state(self) -> dict[str, Any]:
        """Return everything that ``reset`` and ``act`` change, as JSON values.

        ``self.rng`` is not part of it: the rows save the random numbers themselves.
        """
        raise StateError(f"{type(self).__name__} does not save its state", hint=_STATE_HINT)

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Go back to what ``get_state`` returned, and return what is seen then.

        An environment returns the observation of that moment; a game of several players those of
        the seats that are asked, ``{seat: Observation}``.
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

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return a picture of the current state. Shape: (H, W, 3), uint8."""
        raise NotImplementedError(
            f"{type(self).__name__} does not draw itself; "
            "entity_env.draw_observation(observation, env.obs_space()) draws what has x and y"
        )

    def viewer_hints(self) -> ViewerHints:
        """Return hints on how ``entity_env.viewer`` draws the game; none by default."""
        return ViewerHints()

    def render_text(self) -> str:
        """Return the current state as lines of text, for the terminal."""
        raise NotImplementedError(f"{type(self).__name__} does not draw itself as text")

    def close(self) -> None:  # noqa: B027  (most environments have nothing to release)
        """Release what the environment holds; a second call does nothing."""


class Environment(Playable):
    """One game, seen and played through lists of entities.

    A subclass writes ``obs_space``, ``action_space``, ``reset`` and ``act``.
    """

    @abstractmethod
    def reset(self) -> Observation:
        """Start an episode and return its first observation."""

    @abstractmethod
    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step.

        Args:
            actions: One entry for each action of the action space. Actions that nobody can take
                this step have no actors; a global action that is not available is left out.
        """


_STATE_HINT = "write get_state and set_state, as envs/minesweeper.py does"


def y_axis_of(env: Environment) -> YAxis:
    """Return the direction of greater y in ``env``: its ``y_axis``, or up."""
    return env.y_axis if isinstance(env.y_axis, str) else "up"


def seed_environment(env: Environment, seed: int) -> None:
    """Seed ``env``, also where its class uses the name ``seed`` for something else."""
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
    """Return the result of ``reset``, called again while episodes are over at once.

    Raises:
        ObservationError: It is over again and again.
    """
    for _ in range(MOST_RESETS):
        observation = reset()
        if not is_over(observation):
            return observation
    raise never_begins()


def never_begins() -> ObservationError:
    """Return the error for ``MOST_RESETS`` episodes that are over before their first step."""
    return ObservationError(
        f"reset returned an observation that is done, {MOST_RESETS} times in a row",
        expected="done=False: a new episode has at least one step",
    )


def call_environment(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Run an environment's own code; what it raises arrives with its traceback."""
    try:
        return function(*arguments)
    except EntityEnvError:
        raise
    except FAILURES as error:
        raise environment_failed(what, error) from error


def environment_failed(what: str, error: BaseException) -> EnvironmentFailedError:
    """Return the error for an exception of an environment's code in ``what``."""
    return EnvironmentFailedError(
        f"the environment raised {type(error).__name__} in {what}: {error}",
        received="".join(traceback.format_exception(error)).rstrip(),
    )


def check_seed(seed: object) -> int:
    """Return ``seed`` as an int if it is a whole number of at least 0, else raise SeedError."""
    return check_whole("seed", seed, 0, error=SeedError)
