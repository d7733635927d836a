"""Postponement of Python's garbage collection to the time between steps."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["uncollected"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def uncollected(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function with garbage collection disabled while it runs.

    The observations of many rows are thousands of lists and dicts, which exist until they are
    read. Their number triggers collections of all objects of the process. With torch imported,
    these took three times as long as the environments themselves.
    """

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        collects = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return run
