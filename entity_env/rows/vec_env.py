"""The contract between environments and trainers: R rows, and which of them must decide."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_whole
from entity_env.batching.action_checks import check_actions
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, Playable, environment_failed
from entity_env.errors import (
    ClosedError,
    EntityEnvError,
    NumEnvsError,
    ResetNeededError,
    SettingError,
    StateError,
    shorten,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["LIVE", "VecEnv", "check_count", "check_saved_rows", "damaged_state"]


class VecEnv(ABC):
    """R rows; a row is a stream of decisions: an environment, or one seat of a game with several.

    ``VecObs.rows`` says which of them must decide now, usually all. Rows whose episode ends reset
    themselves within the same step. Subclasses write the methods with a leading underscore; actions
    reach ``_act`` checked.

    A class that plays a game of its own, not environments that it is given, can be trained on like
    an environment (``env._target_=my_pkg.MyRows``) if its constructor takes ``num_envs``, ``seed``
    and the game's settings.
    """

    environment: ClassVar[Callable[..., Playable] | None] = None
    """The same game alone, with the same settings: what is watched, drawn and played by scripts."""

    _last: VecObs | None = None
    _closed: bool = False
    _calls: int = 0
    _doing: str | None = None

    @abstractmethod
    def obs_space(self) -> ObsSpace:
        """Return the observation space."""

    @abstractmethod
    def action_space(self) -> dict[ActionName, ActionSpace]:
        """Return the action space."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows R."""

    @property
    def num_seats(self) -> int:
        """The number of rows of one game."""
        return 1

    def reset(self, seed: int | None = None) -> VecObs:
        """Start a new episode in each row; with a seed, restart the rows' random numbers first."""
        self._check_open()
        self._last = None
        self._last = self._called("reset", self._reset, seed)
        return self._last

    def act(self, actions: Mapping[ActionName, ActionBuffer]) -> VecObs:
        """Play one step in each row that must decide.

        Args:
            actions: For each action one number for each actor of the last observation, in its
                order: the index of the choice or, for a select-entity action, the index of the
                selected entity in its frame. Shape: (B, A, 1), int64, one frame for each row that
                the last observation asked. An action without actors may be left out.
        """
        self._check_open()
        if self._last is None:
            raise ResetNeededError("act was called before reset", hint="call reset() first")
        chosen = self._check(actions, self._last)
        # A step that fails leaves rows at different steps: only a reset helps then.
        self._last = None
        self._last = self._called("act", self._act, chosen)
        return self._last

    def has_state(self) -> bool:
        """Return True if ``get_state`` works: every environment saves and restores its state."""
        return False

    def get_state(self) -> list[Any]:
        """One JSON value a row: its environment, random numbers and running episode."""
        self._check_open()
        return self._get_state()

    def set_state(self, state: list[Any]) -> VecObs:
        """Go back to what ``get_state`` returned; the rewards of the observation are 0."""
        self._check_open()
        self._last = None
        self._last = self._called("set_state", self._set_state, state)
        return self._last

    def _called(self, what: str, function: Callable[..., VecObs], argument: Any) -> VecObs:
        """Run the rows; a ``sys.exit()`` in them is an error, not the silent end of a program."""
        if what != "act":
            LIVE.add(self)
        self._calls, self._doing = self._calls + 1, what
        try:
            return function(argument)
        except SystemExit as error:
            raise environment_failed(what, error) from error
        finally:
            self._doing = None

    def _running(self) -> list[tuple[Hashable, str]]:
        """Return the calls that run now, each with where it is; another thread asks for them.

        Each has a key, which is another one when the call is made again.
        """
        if self._doing is None:
            return []
        return [(self._calls, f"{self._doing} of {type(self).__name__}")]

    def wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        """Put a wrapper around the environment of each row; ``reset`` comes next.

        Args:
            wrapper: Makes the wrapped environment, with the same spaces, of the one inside.

        It goes inside wrappers of rows that are already there. Random numbers start again, from the
        last seed: all is as if the environments had been made that way. After an error of the
        wrapper a ``ListEnv`` is what it was, worker processes and joined rows are closed.

        Raises:
            SettingError: The rows are not made of single environments; nothing has changed.
            ObservationError: The wrapper made something else than an environment.
            SpaceError: A wrapped environment has other spaces.
            EnvironmentFailedError: The wrapper raised, or cannot be sent to a worker.
        """
        self._check_open()
        self._check_wrappable()
        self._last = None
        self._wrap_each(wrapper)

    def render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        """Return a picture of each row. Shape of each: (H, W, 3)."""
        self._check_open()
        return self._render(**kwargs)

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close()

    def __enter__(self) -> VecEnv:
        """Use as a context manager that closes at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this vector environment is closed", hint="make a new one")

    def _check(
        self, actions: Mapping[ActionName, ActionBuffer], obs: VecObs
    ) -> Mapping[ActionName, ActionBuffer]:
        """Return the actions for ``_act``, all that the space has, in its order; or an error.

        Those that know their rows better may say yes more quickly and leave the rest to this one.
        """
        return check_actions(actions, obs, self.action_space())

    @abstractmethod
    def _reset(self, seed: int | None) -> VecObs: ...

    @abstractmethod
    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs: ...

    @abstractmethod
    def _get_state(self) -> list[Any]: ...

    @abstractmethod
    def _set_state(self, state: list[Any]) -> VecObs: ...

    def _check_wrappable(self) -> None:
        """Raise SettingError unless ``_wrap_each`` works."""
        alone = getattr(self.environment, "__name__", "create_env")
        raise SettingError(
            f"{type(self).__name__} is not made of single environments to put a wrapper around",
            expected="a ListEnv or a ParallelEnv, joined and wrapped or not",
            hint=f"the game may have a setting for it; ListEnv({alone}, num_envs) is made of them",
        )

    def _wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        """``wrap_each`` of rows that pass ``_check_wrappable``."""
        raise NotImplementedError

    @abstractmethod
    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]: ...

    @abstractmethod
    def _close(self) -> None: ...


LIVE: weakref.WeakSet[VecEnv] = weakref.WeakSet()
"""All rows that are played; ``slow_calls`` looks at them."""


def check_saved_rows(state: object, rows: int) -> None:
    """Raise StateError unless ``state`` is a list of as many saved rows."""
    if not isinstance(state, list) or len(state) != rows:
        raise StateError(
            "the saved state does not fit",
            expected=f"a list of {rows} rows",
            received=f"{len(state)} rows" if isinstance(state, list) else shorten(state),
        )


def damaged_state(saved: object, error: Exception) -> StateError:
    """Return the error for a saved row with missing or wrong parts."""
    return StateError(
        f"the saved state is damaged: {type(error).__name__}: {error}", received=shorten(saved)
    )


def check_count(
    what: str,
    count: object,
    most: int | None = None,
    error: type[EntityEnvError] = NumEnvsError,
) -> int:
    """Return ``count`` as an int of at least 1 (and at most ``most``), or raise ``error``."""
    return check_whole(what, count, 1, most, error)
