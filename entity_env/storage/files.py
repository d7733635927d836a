"""Safe reading and writing of files in folders from other people.

Such a folder may contain an endless pipe, a device, a file with a hole of a gigabyte, or a link to
a file of the user. Only regular files of a limited size are therefore read. A file is written under
a new name, reaches the disk, and is then renamed, so that a killed program leaves the old file, and
links are not followed.
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
    "folder_lock",
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
_NO_WAITING = getattr(
    os, "O_NONBLOCK", 0
)  # else opening a pipe without a writer would never return
_MODE = 0o666  # less the user's umask
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{16}\.tmp", re.DOTALL)


class UnfitFileError(OSError):
    """An error for files that are not regular or too large."""


def read_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        UnfitFileError: The file is not regular, or has more than ``most_bytes``.
        OSError: The file does not exist, or cannot be read.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(most_bytes + 1) if size <= most_bytes else b""
    if max(size, len(data)) > most_bytes:
        raise UnfitFileError(
            f"it has {max(size, len(data)):,} bytes, but at most {most_bytes:,} are allowed"
        )
    return data


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, or a link to one, for reading.

    Raises:
        UnfitFileError: The file is not regular.
        OSError: The file does not exist, or cannot be read.
    """
    # Check before opening, too, because opening a device may have effects.
    _check_regular(os.stat(path), path)
    return _opened(os.open(path, os.O_RDONLY | _BINARY | _NO_WAITING), "rb", path)


def open_to_append(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to read and write, without buffers; create it if it does not exist.

    Raises:
        UnfitFileError: The file is not regular, for instance a link.
        OSError: The file cannot be opened.
    """
    if os.path.islink(path):
        raise UnfitFileError("it is a link; links are not written to")
    flags = os.O_RDWR | os.O_CREAT | _BINARY | _NO_LINKS | _NO_WAITING
    return _opened(os.open(path, flags, _MODE), "rb+", path)


def write_file(path: Path, data: bytes) -> None:
    """Write a file with these bytes, or replace an existing one, in one step.

    Raises:
        UnfitFileError: The path exists, and is neither a file nor a link.
        OSError: The file cannot be written, and the old one is not changed.
    """
    with new_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file, which replaces ``path`` when the block ends without an error.

    Raises:
        UnfitFileError: The path exists, and is neither a file nor a link.
        OSError: The file cannot be written, and the old one is not changed.
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
    """Yield a path in a new folder, for code that opens files by path; see ``new_file``.

    Raises:
        UnfitFileError: The path exists, and is neither a file nor a link.
        OSError: The file cannot be written, and the old one is not changed.
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
    """Return True if a name may be one of ``fresh_name``."""
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
    """Write the names in a folder to the disk, if the file system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Lock an open file or folder against other processes, until it is closed.

    Returns:
        True if it is locked; False if the file system cannot lock.

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


@contextlib.contextmanager
def folder_lock(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Lock a folder against other processes within the block; a killed process releases it.

    Gives True if it is locked; False if the system cannot lock folders.

    Raises:
        BlockingIOError: Another process has locked it.
    """
    if os.name != "posix":
        yield False
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)


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
        raise UnfitFileError(f"{_kind(found)} has this name")


def _kind(found: os.stat_result) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(found.st_mode), "something else")
