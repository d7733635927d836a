"""Methods of environments with the names of ``Environment``'s methods and another meaning.

Environments that were written for another library may have a ``get_state`` that returns the board.
They can be played, but their state is not saved, and a warning says so.
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
    """A warning that a method with a name of ``Environment`` has another meaning."""


def takes_seed(seed: Callable[..., Any]) -> bool:
    """Return True if the signature of a method ``seed`` has one number as its argument."""
    try:
        parameters = list(signature(seed).parameters.values())
        signature(seed).bind(0)
    except (TypeError, ValueError):  # another number of arguments, or no signature
        return False
    first = parameters[0]
    return first.kind is Parameter.VAR_POSITIONAL or "seed" in first.name


def warn_of_seed(env: object, error: Exception) -> None:
    """Warn that the method ``seed`` does not seed."""
    _warn(
        f"{type(env).__name__}.seed cannot be used ({shorten(error)}): only self.rng is seeded. "
        "seed(self, seed) takes a whole number"
    )


def can_save(env: Any) -> bool:
    """Return True if ``get_state`` and ``set_state`` have the expected signatures."""
    arguments: dict[str, tuple[Any, ...]] = {"get_state": (), "set_state": ({},)}
    for name, values in arguments.items():
        try:
            signature(getattr(env, name)).bind(*values)
        except (TypeError, ValueError):  # another number of arguments, or no method at all
            _warn_of_state(env, name, "means something else")
            return False
    return True


def returns_state(env: Any) -> bool:
    """Return True if ``get_state`` returns a state, for an environment after reset."""
    env = getattr(env, "unwrapped", env)
    try:
        state = env.get_state()
    except Exception:  # saving the environment raises the error
        return True
    if isinstance(state, Mapping) or _is_json(state):
        return True
    warn_of_return(env, "get_state", state)
    return False


def warn_of_return(env: Any, name: str, returned: object) -> None:
    """Warn that the result of ``get_state`` or ``set_state`` has the wrong type."""
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
