"""Base class of rows, the interface between environments and trainers."""

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
    ResetNeededError,
    SettingError,
    StateError,
    counted,
    shorten,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["LIVE", "VecEnv", "check_count", "check_saved_rows", "damaged_state"]


class VecEnv(ABC):
    """R rows, each of which is an environment, or one seat of a game of several players.

    ``VecObs.rows`` lists the rows that must act, usually all. A row whose episode ends is reset
    within the same step. Subclasses define the methods with a leading underscore; the actions
    passed to ``_act`` have been checked.

    A subclass that plays a particular game can be trained on like an environment
    (``env._target_=my_pkg.MyRows``) if its constructor takes ``num_envs``, ``seed`` and the game's
    settings.
    """

    environment: ClassVar[Callable[..., Playable] | None] = None
    """A class of the same game for a single row, with the same settings, to watch and draw it."""

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
        """Start a new episode in each row; with a seed, restart the random numbers first."""
        self._check_open()
        self._last = None
        self._last = self._called("reset", self._reset, seed)
        return self._last

    def act(self, actions: Mapping[ActionName, ActionBuffer]) -> VecObs:
        """Play one step in each row that must act.

        Args:
            actions: For each action one number for each actor of the last observation, in its
                order: the index of the choice or, for a select-entity action, the index of the
                selected entity in its frame. Shape: (B, A, 1), int64, with one frame for each row
                that must act. An action without actors may be left out.
        """
        self._check_open()
        if self._last is None:
            raise ResetNeededError("act was called before reset", hint="call reset() first")
        chosen = self._checked_actions(actions, self._last)
        # After an error the rows are at different steps and need a reset.
        self._last = None
        self._last = self._called("act", self._act, chosen)
        return self._last

    def has_state(self) -> bool:
        """Return True if ``get_state`` works, because each environment saves its state."""
        return False

    def get_state(self) -> list[Any]:
        """Return a JSON value for each row: its environment, random numbers and episode."""
        self._check_open()
        return self._get_state()

    def set_state(self, state: list[Any]) -> VecObs:
        """Restore a state of ``get_state``; return its observation, with rewards of 0."""
        self._check_open()
        self._last = None
        self._last = self._called("set_state", self._set_state, state)
        return self._last

    def _called(self, what: str, function: Callable[..., VecObs], argument: Any) -> VecObs:
        """Call a function of the rows, and convert a ``sys.exit()`` in it to an error."""
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
        """Return the running calls as pairs of a key and a place; called by another thread.

        The key differs for each call.
        """
        if self._doing is None:
            return []
        return [(self._calls, f"{self._doing} of {type(self).__name__}")]

    def wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        """Wrap the environment of each row; call ``reset`` next.

        The new wrapper is inside existing wrappers of rows. Random numbers restart from the last
        seed, as if the rows had been made of wrapped environments. If the wrapper raises an error,
        a ``ListEnv`` is not changed; worker processes and joined rows are closed.

        Args:
            wrapper: Function that returns the wrapped environment, with the same spaces.

        Raises:
            SettingError: The rows are not made of single environments; nothing has changed.
            ObservationError: The wrapper did not return an environment.
            SpaceError: A wrapped environment has other spaces.
            EnvironmentFailedError: The wrapper raised an error, or cannot be sent to a worker.
        """
        self._check_open()
        self._check_wrappable()
        self._last = None
        self._wrap_each(wrapper)

    def share_draws(self, copies: int) -> None:
        """Let rows in groups of ``copies`` draw the same random numbers; call ``reset`` next.

        The generators of a group are set to the same state before each step and each reset. So what
        happens anyway, such as arrivals, happens in all rows of a group, whatever they choose.

        Raises:
            SettingError: The rows are not whole groups, or do not step together.
        """
        self._check_open()
        check_count("number of copies", copies)
        if self.num_seats > 1:
            raise SettingError(
                "seats of a game cannot share random numbers", expected="a game for one player"
            )
        if len(self) % copies:
            raise SettingError(
                f"{counted(len(self), 'row')} cannot share random numbers in groups of {copies}",
                expected=f"a multiple of {copies}",
            )
        self._last = None
        self._share_draws(copies)

    def render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        """Return a picture of each row. Shape of each: (H, W, 3)."""
        self._check_open()
        return self._render(**kwargs)

    def close(self) -> None:
        """Release all resources; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close()

    def __enter__(self) -> VecEnv:
        """Return the rows, to be closed at the end of a ``with`` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the vector environment is closed", hint="make a new one")

    def _checked_actions(
        self, actions: Mapping[ActionName, ActionBuffer], obs: VecObs
    ) -> Mapping[ActionName, ActionBuffer]:
        """Return the checked actions for ``_act``, in the order of the space, or raise an error.

        Subclasses may override this with a faster check that calls it for all other cases.
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
            f"{type(self).__name__} is not made of single environments that can be wrapped",
            expected="a ListEnv or a ParallelEnv, possibly joined or wrapped",
            hint=f"use a setting of the game, or ListEnv({alone}, num_envs)",
        )

    def _wrap_each(self, wrapper: Callable[[Environment], Environment]) -> None:
        """Wrap each environment, after ``_check_wrappable``."""
        raise NotImplementedError

    def _share_draws(self, copies: int) -> None:
        """Share random numbers, after the checks of ``share_draws``."""
        raise SettingError(
            f"rows of {type(self).__name__} cannot share random numbers",
            expected="a ListEnv, a ParallelEnv or a compiled game",
        )

    @abstractmethod
    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]: ...

    @abstractmethod
    def _close(self) -> None: ...


LIVE: weakref.WeakSet[VecEnv] = weakref.WeakSet()
"""All rows that exist; ``slow_calls`` watches them."""


def check_saved_rows(state: object, rows: int) -> None:
    """Raise StateError unless ``state`` is a list with one entry for each row."""
    if not isinstance(state, list) or len(state) != rows:
        raise StateError(
            "the saved state does not fit",
            expected=f"a list of {counted(rows, 'row')}",
            received=counted(len(state), "row") if isinstance(state, list) else shorten(state),
        )


def damaged_state(saved: object, error: Exception) -> StateError:
    """Return the error for a saved row with missing or wrong parts."""
    return StateError(
        f"the saved state is damaged: {type(error).__name__}: {error}", received=shorten(saved)
    )


def check_count(
    what: str, count: object, most: int | None = None, error: type[EntityEnvError] = SettingError
) -> int:
    """Return ``count`` as an int of at least 1 (and at most ``most``), or raise ``error``."""
    return check_whole(what, count, 1, most, error)
