"""Numba's cache of kernels on disk: sealed, and dropped when sources change.

Games (``entity_env/rows/jit.py``) and networks (``ragged_net/compiled/kernels/jit.py``) compile
different kernels, but keep them by the same rules. This file works on the cache of a dispatcher
that Numba has made, and imports nothing of Numba itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import pickle
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entity_env.garbage import uncollected

__all__ = ["announce_compiling", "folder_digest", "keep_compiled"]

_PATIENCE = 3.0
"""Seconds of compiling without a word."""
_compiled_for: dict[str, float] = {}
"""By what is compiled the seconds that this process has spent on it; infinity once it said so."""


def announce_compiling(dispatcher: Any, what: str, duration: str, *, kept: bool) -> None:
    """Let a kernel say on stderr, once in a process, that whoever waits waits for its compilation.

    It does so as soon as all kernels of the same name have taken ``_PATIENCE`` seconds together.
    Reading kept code from the disk does not count.

    Args:
        dispatcher: What ``numba.njit`` has returned.
        what: What is compiled, such as ``the network``.
        duration: How long that takes.
        kept: Say that it happens once on this machine; else how to make it so.
    """
    compile_now = getattr(dispatcher, "compile", None)
    if compile_now is None:  # a Python function, as with NUMBA_DISABLE_JIT=1
        return
    again = (
        "once on this machine"
        if kept
        else "in each process, as no folder can be written to that would keep the result; "
        "NUMBA_CACHE_DIR may name one"
    )

    def misses() -> int:
        return sum(dispatcher.stats.cache_misses.values())

    def announce(before: int) -> None:
        if misses() > before and _compiled_for.get(what) != math.inf:
            _compiled_for[what] = math.inf
            with contextlib.suppress(Exception):  # a failing screen stops no program
                print(f"compiling {what}: {duration}, {again}", file=sys.stderr, flush=True)

    @functools.wraps(compile_now)
    def announced(*arguments: Any) -> Any:
        start, spent, before = time.monotonic(), _compiled_for.get(what, 0.0), misses()
        if spent == math.inf:
            return compile_now(*arguments)
        timer = threading.Timer(max(0.0, _PATIENCE - spent), announce, (before,))
        timer.daemon = True
        timer.start()
        try:
            return compile_now(*arguments)
        finally:
            timer.cancel()
            if misses() > before:
                _compiled_for[what] = _compiled_for.get(what, 0.0) + time.monotonic() - start

    dispatcher.compile = announced


def keep_compiled(dispatcher: Any, *stamps: str) -> None:
    """Make the on-disk cache of a kernel safe to use.

    Numba's cache notices changes of the function's own file only, while a kernel contains the
    functions that it calls, from other files. Kept code is therefore used only while all ``stamps``
    are what they were. A damaged file counts as one that was never there, and on a full disk the
    kernel is compiled anew in each process. Compiling runs without the garbage collector, which
    would look at all that Numba makes again and again, and find nothing.

    Args:
        dispatcher: What ``numba.njit(cache=True)`` has returned.
        stamps: Digests and texts that the kernel depends on.

    Raises:
        AttributeError: This version of Numba has other caches.
    """
    file = dispatcher._cache._cache_file
    own = folder_digest(Path(__file__).parent)  # how functions inside are compiled, too
    file._source_stamp = (*file._source_stamp, own, *stamps)
    function = dispatcher.py_func
    _seal(file, f"{function.__module__}.{function.__qualname__}")
    dispatcher._cache.save_overload = _kept_where_it_can(dispatcher._cache.save_overload)
    dispatcher.compile = uncollected(dispatcher.compile)


@functools.cache
def folder_digest(folder: Path) -> str:
    """Return a digest of the Python files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _seal(file: Any, function: str) -> None:
    """Write each file of the cache with a digest, and read it only where the digest is right.

    Machine code with a wrong byte would crash, and a file that a full disk left empty would be an
    error in each process. The digest is also one of the function, of the name of the file and of
    the stamps: a file in the place of another one would run other code.
    """

    def digest(content: bytes, *name: str) -> bytes:
        place = repr((function, file._index_name, name, file._source_stamp))
        return hashlib.sha256(place.encode() + content).digest()

    def sealed(save: Callable[..., None]) -> Callable[..., None]:
        def saved(*arguments: Any) -> None:
            content = file._dump(arguments[-1])
            save(*arguments[:-1], (digest(content, *arguments[:-1]), content))

        return saved

    def opened(load: Callable[..., Any], nothing: Callable[[], Any]) -> Callable[..., Any]:
        def loaded(*arguments: Any) -> Any:
            with contextlib.suppress(Exception):  # of pickle's and the disk's there is any kind
                seal, content = load(*arguments)
                if seal == digest(content, *arguments):
                    return pickle.loads(content)
            return nothing()

        return loaded

    file._save_index, file._load_index = sealed(file._save_index), opened(file._load_index, dict)
    file._save_data, file._load_data = sealed(file._save_data), opened(file._load_data, type(None))


def _kept_where_it_can(save: Callable[..., None]) -> Callable[..., None]:
    """Return the same function; a full disk is no error."""

    @functools.wraps(save)
    def saved(*args: Any) -> None:
        with contextlib.suppress(OSError):
            save(*args)

    return saved
