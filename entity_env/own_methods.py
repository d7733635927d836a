"""Methods that have the names of ``Environment``'s own, and mean something else.

Environments that were written for another library may have a ``seed`` that plants, or a
``get_state`` that returns the board. They are played all the same: without their state, and with
a warning that says so.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from entity_env.errors import shorten

__all__ = [
    "OwnMethodWarning",
    "can_save",
    "returns_state",
    "takes_seed",
    "warn_of_return",
    "warn_of_seed",
]

_EXPECTED = {
    "get_state": "get_state() returns a dict",
    "set_state": "set_state(state) returns an Observation",
}


class OwnMethodWarning(UserWarning):
    """A method has the name of one of ``Environment``'s, and is none."""


def takes_seed(seed: Callable[..., Any]) -> bool:
    """Return True if a method called ``seed`` has one number as its argument, by the name of it."""
    try:
        parameters = list(signature(seed).parameters.values())
        signature(seed).bind(0)
    except (TypeError, ValueError):  # another number of arguments, or none that is known
        return False
    first = parameters[0]
    return first.kind is Parameter.VAR_POSITIONAL or "seed" in first.name


def warn_of_seed(env: object, error: Exception) -> None:
    """Say that ``seed`` was no method that seeds."""
    _warn(
        f"{type(env).__name__}.seed seeds nothing ({shorten(error)}): only self.rng is seeded. "
        "seed(self, seed) takes a whole number"
    )


def can_save(env: Any) -> bool:
    """Return True if ``get_state`` and ``set_state`` have the expected signatures."""
    arguments: dict[str, tuple[Any, ...]] = {"get_state": (), "set_state": ({},)}
    for name, own in arguments.items():
        try:
            signature(getattr(env, name)).bind(*own)
        except (TypeError, ValueError):  # another number of arguments, or no method at all
            _warn_of_state(env, name, "means something else")
            return False
    return True


def returns_state(env: Any) -> bool:
    """Return True if ``get_state`` returns a state, in an environment that is being played."""
    env = getattr(env, "unwrapped", env)
    try:
        state = env.get_state()
    except Exception:  # whoever saves the environment is told
        return True
    if isinstance(state, Mapping) or _is_json(state):
        return True
    warn_of_return(env, "get_state", state)
    return False


def warn_of_return(env: Any, name: str, returned: object) -> None:
    """Say that what ``get_state`` or ``set_state`` has returned is no state or no observation."""
    _warn_of_state(getattr(env, "unwrapped", env), name, f"returned {shorten(returned)}")


def _is_json(state: object) -> bool:
    try:
        return state is not None and bool(json.dumps(state))
    except (TypeError, ValueError):
        return False


def _warn_of_state(env: object, name: str, what: str) -> None:
    _warn(
        f"{type(env).__name__}.{name} {what}: its state is not saved, and a resumed run begins "
        f"new episodes. {_EXPECTED[name]}"
    )


def _warn(message: str) -> None:
    warnings.warn(message, OwnMethodWarning, stacklevel=4)
