"""What Numba keeps of compiled kernels on disk: sealed, and thrown away when sources change.

Games (``entity_env/rows/jit.py``) and networks (``ragged_net/compiled/kernels/jit.py``) compile
different kernels, but keep them by the same rules. This file works on the cache of a dispatcher
that Numba has made, and imports nothing of Numba itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entity_env.rows.garbage import uncollected

__all__ = ["folder_digest", "keep_compiled"]


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
    file._source_stamp = (*file._source_stamp, *stamps)
    function = dispatcher.py_func
    _seal(file, f"{function.__module__}.{function.__qualname__}")
    dispatcher._cache.save_overload = _kept_where_it_can(dispatcher._cache.save_overload)
    dispatcher.compile = uncollected(dispatcher.compile)


@functools.cache
def folder_digest(folder: Path) -> str:
    """A digest of the Python files in a folder."""
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
    """The same function; a full disk is no error."""

    @functools.wraps(save)
    def saved(*args: Any) -> None:
        with contextlib.suppress(OSError):
            save(*args)

    return saved
