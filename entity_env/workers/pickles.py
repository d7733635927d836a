"""Pickles for another process, also of classes that scripts and notebooks define."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from entity_env.errors import EnvironmentFailedError, shorten

__all__ = ["loaded", "pickled"]


def pickled(what: str, value: Any) -> bytes:
    """Pickle ``value`` for another process, or raise an EnvironmentFailedError about ``what``."""
    try:
        content: bytes = cloudpickle.dumps(value)
    except Exception as error:  # objects may raise anything
        raise EnvironmentFailedError(
            f"{what} cannot be sent to another process: {shorten(error)}",
            expected="a class or function that can be imported or pickled",
            received=shorten(value),
        ) from error
    return content


def loaded(what: str, content: bytes) -> Any:
    """Return the object that another process pickled; errors name ``what``."""
    try:
        return pickle.loads(content)
    except Exception as error:
        raise EnvironmentFailedError(
            f"{what} cannot be loaded in a worker: {type(error).__name__}: {error}",
            expected="a class or function that can be imported or pickled",
        ) from error
