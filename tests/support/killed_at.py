"""A process that dies at its k-th step in a folder: every moment of a kill, one after the other."""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")


def die_at_step(work: Callable[[], object], folder: Path, step: int) -> bool:
    """Run ``work`` in a fork that dies right before its ``step``-th file operation in ``folder``.

    Dies as ``kill -9`` does: nothing is flushed, no ``finally`` runs. Returns whether it died;
    False means that ``work`` takes fewer steps and ended by itself.
    """
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            count, dying = 0, False

            def pass_or_die(path: Any) -> None:
                nonlocal count, dying
                count += 1
                if count == step:
                    dying = True
                    if path is not None:
                        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
                    os._exit(9)

            def watch(event: str, arguments: tuple[object, ...]) -> None:
                # Removing a tree names files relative to an open folder, so all removals count.
                inside = event in ("os.remove", "os.rmdir") or str(folder) in str(arguments)
                if event not in _CHANGES or not inside or dying:
                    return
                pass_or_die(None)
                if event == "open" and "w" in str(arguments[1]):
                    pass_or_die(arguments[0])  # right after: the file is there, and empty

            sys.addaudithook(watch)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9), f"the work itself failed ({code})"
    return code == 9
