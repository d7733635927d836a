"""Files that others may have prepared: read with bounds, and written without following links.

Whatever stands in a folder from somewhere else may be a pipe that never ends, a device, a file with
a hole of a gigabyte, or a link to a file of one's own. So what is read must be a regular file of a
bounded size. What is written gets a fresh name, reaches the disk, and is then renamed: a kill at
any moment leaves the file before, and no link leads the new one elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "UnfitFileError",
    "fresh_name",
    "is_leftover",
    "lock",
    "new_file",
    "new_file_by_path",
    "open_file",
    "open_to_append",
    "read_file",
    "remove",
    "remove_leftovers",
    "sync_folder",
    "write_file",
]

_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer would keep us for ever
_MODE = 0o666  # less what the user's umask takes away: one mode for all files
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{16}\.tmp", re.DOTALL)


class UnfitFileError(OSError):
    """Something else than a regular file, or a file that is too large."""


def read_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        UnfitFileError: It is something else, or has more than ``most_bytes``.
        OSError: It is not there, or cannot be read.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(most_bytes + 1) if size <= most_bytes else b""
    if max(size, len(data)) > most_bytes:
        raise UnfitFileError(
            f"it has {max(size, len(data)):,} bytes, and at most {most_bytes:,} make sense"
        )
    return data


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Return a regular file, open for reading; a link to one will do.

    Raises:
        UnfitFileError: It is something else.
        OSError: It is not there, or cannot be read.
    """
    # Before it is opened, too: opening some devices does something.
    _check_regular(os.stat(path), path)
    return _opened(os.open(path, os.O_RDONLY | _BINARY | _NO_WAITING), "rb", path)


def open_to_append(path: str | os.PathLike[str]) -> BinaryIO:
    """Return a regular file to read and write, without buffers; an empty one where there is none.

    Raises:
        UnfitFileError: It is something else, a link for one.
        OSError: It cannot be opened.
    """
    if os.path.islink(path):
        raise UnfitFileError("it is a link, and only the file itself is written to")
    flags = os.O_RDWR | os.O_CREAT | _BINARY | _NO_LINKS | _NO_WAITING
    return _opened(os.open(path, flags, _MODE), "rb+", path)


def write_file(path: Path, data: bytes) -> None:
    """Put a file with these bytes in the place of what is there, in one step.

    Raises:
        UnfitFileError: There is something else than a file or a link to replace.
        OSError: It cannot be written; what was there stays.
    """
    with new_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Return a new file, which takes the place of ``path`` when the block ends well.

    Raises:
        UnfitFileError: There is something else than a file or a link to replace.
        OSError: It cannot be written; what was there stays.
    """
    _check_replaceable(path)
    temporary = fresh_name(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINKS
    try:
        with open(os.open(temporary, flags, _MODE), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def new_file_by_path(path: Path) -> Iterator[Path]:
    """Yield a name in a new folder, for programs that open files themselves; see ``new_file``.

    Raises:
        UnfitFileError: There is something else than a file or a link to replace.
        OSError: It cannot be written; what was there stays.
    """
    _check_replaceable(path)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent))
    try:
        yield folder / path.name
        with open_file(folder / path.name) as file:
            os.fsync(file.fileno())
        (folder / path.name).replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sync_folder(path.parent)


def fresh_name(path: Path) -> Path:
    """Return a hidden random name beside ``path``; see ``is_leftover``."""
    return path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.tmp")


def is_leftover(name: str) -> bool:
    """Return True if ``fresh_name`` makes such names."""
    return _LEFTOVER.fullmatch(name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove the files that killed writers left in ``folder``, which must have no writers."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if is_leftover(entry.name):
                remove(Path(entry.path))


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with its content, as far as possible."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk, where its file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Keep other processes from locking an open file or folder, until it is closed or they die.

    Returns:
        Whether it is locked; False where the file system cannot lock.

    Raises:
        BlockingIOError: Another process has locked it.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _opened(descriptor: int, mode: str, path: str | os.PathLike[str]) -> BinaryIO:
    try:
        _check_regular(os.fstat(descriptor), path)
        return open(descriptor, mode, buffering=0 if "+" in mode else -1)  # type: ignore[return-value]
    except BaseException:
        os.close(descriptor)
        raise


def _check_regular(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnfitFileError(f"it is {_kind(found)}, not a file")


def _check_replaceable(path: Path) -> None:
    """Check that a path is a file, because root could rename over a device."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise UnfitFileError(f"there is {_kind(found)} of that name")


def _kind(found: os.stat_result) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(found.st_mode), "something else")
