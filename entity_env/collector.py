"""Keeps Python's garbage collector away from what is about to be freed."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["uncollected"]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected inside.

    The observations of many rows are thousands of lists and dicts that live until they are read.
    Their number sets the collector off; it takes them for objects that stay, and looks through
    all those of the process again and again. Beside torch that took three times as long as the
    environments themselves.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
