"""Numba's cache of kernels on disk, with checksums and checks for changed sources.

Games (``entity_env/rows/jit.py``) and networks (``ragged_net/kernels/jit.py``) use it.
This module changes the cache of a Numba dispatcher, and does not import Numba.
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
"""The number of seconds of compilation after which a message is printed."""
_compiled_for: dict[str, float] = {}
"""Seconds of compilation in this process, by name; infinity after the message was printed."""


def announce_compiling(dispatcher: Any, what: str, duration: str, *, kept: bool) -> None:
    """Print a message on stderr, once in a process, if kernels take long to compile.

    It is printed when all kernels with the same name have taken ``_PATIENCE`` seconds together.
    Reading compiled code from the disk does not count.

    Args:
        dispatcher: The result of ``numba.njit``.
        what: Name of the compiled code, such as ``the network``.
        duration: Text with the expected duration.
        kept: True if the compiled code is kept on disk; otherwise the message explains how to.
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
            with contextlib.suppress(Exception):  # errors of the screen are ignored
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

    Numba's cache detects changes of the function's own file only, but a kernel contains functions
    from other files. Cached code is therefore used only if all ``stamps`` are unchanged. Damaged
    files are ignored, and on a full disk the kernel is compiled in each process. The garbage
    collector is disabled during compilation, because it would scan Numba's objects repeatedly.

    Args:
        dispatcher: The result of ``numba.njit(cache=True)``.
        stamps: Digests and texts that the kernel depends on.

    Raises:
        AttributeError: The caches of this version of Numba differ.
    """
    file = dispatcher._cache._cache_file
    digest = folder_digest(
        Path(__file__).parent
    )  # depends on the way inner functions are compiled, too
    file._source_stamp = (*file._source_stamp, digest, *stamps)
    function = dispatcher.py_func
    _seal(file, function.__qualname__)
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
    """Write each file of the cache with a digest, and read it only if the digest is right.

    Damaged machine code would crash, and an empty file left by a full disk would be an error in
    each process. The digest includes the function, the name of the file and the stamps, so that a
    file in the place of another one is not used.
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
            with contextlib.suppress(Exception):  # pickle and the disk may raise anything
                seal, content = load(*arguments)
                if seal == digest(content, *arguments):
                    return pickle.loads(content)
            return nothing()

        return loaded

    file._save_index, file._load_index = sealed(file._save_index), opened(file._load_index, dict)
    file._save_data, file._load_data = sealed(file._save_data), opened(file._load_data, type(None))


def _kept_where_it_can(save: Callable[..., None]) -> Callable[..., None]:
    """Return the function with errors of a full disk ignored."""

    @functools.wraps(save)
    def saved(*args: Any) -> None:
        with contextlib.suppress(OSError):
            save(*args)

    return saved
