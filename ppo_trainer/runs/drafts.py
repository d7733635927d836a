"""Hidden folders in which runs begin, and the removal of those of killed processes."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import time
from pathlib import Path

from entity_env.storage.files import lock, remove

__all__ = ["draft_name", "remove_drafts"]

_DRAFT = re.compile(r"\.draft-(?:(?P<host>.+)-)?(?P<pid>\d+)-(?P<born>\d{15,20})", re.DOTALL)
_YOUNG, _OLD = 60.0, 86_400.0  # seconds


def draft_name() -> str:
    """Return a unique name with the host, the process and the time."""
    return f".draft-{_host()}-{os.getpid()}-{time.time_ns()}"


def remove_drafts(run_dir: Path) -> None:
    """Remove the folders of killed processes that are not used any more.

    A process locks its draft soon after it has made it. Locks of other computers may not be visible
    here, so that drafts of theirs must be old as well.
    """
    if os.name != "posix":  # on Windows, checking for a process with os.kill would end it
        return
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(run_dir)):
            found = _DRAFT.fullmatch(entry.name)
            if found is None or not entry.is_dir(follow_symlinks=False):
                continue
            age = time.time() - int(found["born"]) / 1e9
            if found["host"] != _host():
                is_left = age > _OLD
            else:
                is_left = age > _YOUNG or not _is_alive(int(found["pid"]))
            if is_left:
                _remove_unlocked(Path(entry.path))


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        if lock(descriptor):
            remove(path)
    except BlockingIOError:
        pass  # a process is using it
    finally:
        os.close(descriptor)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _host() -> str:
    return re.sub(r"\W", "_", platform.node())[:64] or "unknown"
