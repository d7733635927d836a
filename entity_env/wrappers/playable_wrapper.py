"""The common part of wrappers of environments and of games of several players."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.environment import Playable, YAxis
from entity_env.errors import DAMAGES, StateError, shorten
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["PlayableWrapper"]


class PlayableWrapper(Playable):
    """Passes on to what is inside all that does not depend on who plays: spaces, state, pictures.

    ``Wrapper`` and ``SeatWrapper`` add how episodes and games are played. A subclass that has a
    state of its own writes ``_own_state`` and ``_set_own_state``.
    """

    _attribute: ClassVar[str]
    """The attribute that holds what is inside, and its key in saved states."""
    _closed = False

    @property
    def _inner(self) -> Any:
        return getattr(self, self._attribute)

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        space: ObsSpace = self._inner.obs_space()
        return space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        space: Mapping[ActionName, ActionSpace] = self._inner.action_space()
        return space

    @property
    def y_axis(self) -> YAxis:  # type: ignore[override]
        """The direction of greater y in the wrapped environment."""
        axis: YAxis = self._inner.y_axis
        return axis

    @property
    def rng(self) -> np.random.Generator:
        """The random numbers of what is inside."""
        rng: np.random.Generator = self._inner.rng
        return rng

    @rng.setter
    def rng(self, rng: Any) -> None:
        """Give what is inside other random numbers."""
        self._inner.rng = rng

    def get_state(self) -> dict[str, Any]:
        """Return the state of what is inside and, where there is one, that of the wrapper."""
        inner, own = self._inner.get_state(), self._own_state()
        return inner if own is None else {self._attribute: inner, type(self).__name__: own}

    def set_state(self, state: Mapping[str, Any]) -> Any:
        """Go back to what ``get_state`` returned, and return what is seen at that moment.

        Raises:
            StateError: ``state`` is not one of this wrapper, or is damaged.
        """
        if self._own_state() is None:
            return self._shown(self._inner.set_state(state))
        name = type(self).__name__
        if not isinstance(state, Mapping) or set(state) != {self._attribute, name}:
            raise StateError(
                f"the saved state is not one of {name}",
                expected=f"a dict with the keys {self._attribute} and {name}",
                received=shorten(state),
            )
        seen = self._inner.set_state(state[self._attribute])
        try:
            self._set_own_state(state[name])
        except DAMAGES as error:
            raise StateError(
                f"the saved state of {name} is damaged: {type(error).__name__}: {error}",
                received=shorten(state[name]),
            ) from error
        return self._shown(seen)

    def has_state(self) -> bool:
        """Return True if what is inside saves and restores its state."""
        return bool(self._inner.has_state())

    def render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        """Return the picture of what is inside. Shape: (H, W, 3), uint8."""
        picture: npt.NDArray[np.uint8] = self._inner.render(**kwargs)
        return picture

    def render_text(self) -> str:
        """Return the text of what is inside."""
        text: str = self._inner.render_text()
        return text

    def close(self) -> None:
        """Close what is inside, once."""
        if not self._closed:
            self._closed = True
            self._inner.close()

    def _own_state(self) -> dict[str, Any] | None:
        """Return the wrapper's own state as JSON values, or None."""
        return None

    def _set_own_state(self, own: Mapping[str, Any]) -> None:
        """Go back to what ``_own_state`` returned; whatever is wrong with it may raise."""

    def _shown(self, seen: Any) -> Any:
        """Return what to show in place of what the wrapped environment shows."""
        return seen
