"""Functions that a training run calls: ``train(..., callbacks=[...])``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from entity_env.errors import CallbackError, SettingError, nearest, shorten

if TYPE_CHECKING:
    from ppo_trainer.training.session import Session

__all__ = ["Callback", "CallbackLike", "Callbacks"]


class Callback:
    """The base class of callbacks, whose methods are called with the session.

    A session has ``steps`` and ``updates`` done, ``net``, ``config``, ``run.path``
    (the run folder), ``metrics`` (numbers of the last update, as in ``metrics.jsonl``), ``means``
    (over the last episodes, as on the screen) and ``evaluations`` (players of the last evaluation).
    If a method returns False, the training ends, and the run is saved and evaluated as at its end.
    """

    def on_start(self, session: Session) -> bool | None:
        """Run before the first update, also of a resumed run."""

    def on_update(self, session: Session) -> bool | None:
        """Run after each update, when its numbers have been written."""

    def on_evaluation(self, session: Session) -> bool | None:
        """Run after each evaluation: before ``on_update``, and at the end of the run."""

    def on_checkpoint(self, session: Session) -> bool | None:
        """Run after each checkpoint, also the last one."""

    def on_end(self, session: Session) -> bool | None:
        """Run after the last save and evaluation, also after Ctrl-C; not after an error."""


CallbackLike: TypeAlias = "Callback | Callable[[Session], Any]"
"""A callback; a function stands for one with this function as ``on_update``."""

_EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class Callbacks:
    """The callbacks of a training.

    Args:
        callbacks: Callbacks, in the order in which they are called.

    Attributes:
        ended: True if a callback has ended the training.

    Raises:
        SettingError: An entry is neither a ``Callback`` with a method of its own nor a function.
    """

    def __init__(self, callbacks: Iterable[CallbackLike] | CallbackLike | None) -> None:
        self.ended = False
        self._called: dict[str, list[Callable[[Session], Any]]] = {name: [] for name in _EVENTS}
        if callbacks is None:
            callbacks = []
        elif isinstance(callbacks, Callback) or callable(callbacks):
            callbacks = [callbacks]
        elif not isinstance(callbacks, Iterable):
            raise _no_callback("callbacks", callbacks)
        for index, callback in enumerate(callbacks):
            self._add(callback, f"callbacks[{index}]")

    def call(self, event: str, session: Session) -> None:
        """Call all callbacks that have a method for this event.

        Raises:
            CallbackError: A callback raised an exception.
        """
        for method in self._called[event]:
            try:
                goes_on = method(session)
            except Exception as error:
                raise CallbackError(
                    f"callback {_name(method)} failed: {type(error).__name__}: {error}"
                ) from error
            # Comparisons of NumPy return np.bool_.
            self.ended |= isinstance(goes_on, bool | np.bool_) and not goes_on

    def _add(self, callback: Any, where: str) -> None:
        if isinstance(callback, type) or not (isinstance(callback, Callback) or callable(callback)):
            raise _no_callback(where, callback)
        if not isinstance(callback, Callback):
            self._called["on_update"].append(callback)
            return
        kind = type(callback)
        for name in dir(kind):
            if name.startswith("on_") and name not in _EVENTS:
                raise SettingError(
                    f"{where}: {kind.__name__}.{name} would never be called",
                    options=_EVENTS,
                    hint=nearest(name, _EVENTS),
                )
        methods = [name for name in _EVENTS if getattr(kind, name) is not getattr(Callback, name)]
        if not methods:
            raise SettingError(f"{where}: {kind.__name__} has no method to call", options=_EVENTS)
        for name in methods:
            self._called[name].append(getattr(callback, name))


def _no_callback(where: str, received: Any) -> SettingError:
    made = isinstance(received, type) and issubclass(received, Callback)
    return SettingError(
        f"{where} cannot be called",
        expected="objects of a subclass of Callback, or functions of the session",
        received=shorten(received),
        hint=f"an object of the class: {received.__name__}(...)" if made else None,
    )


def _name(method: Callable[..., Any]) -> str:
    return getattr(method, "__qualname__", None) or type(method).__name__
