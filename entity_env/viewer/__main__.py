"""Look at games in the browser: ``python -m entity_env.viewer games.episodes``.

python -m entity_env.viewer minesweeper width=6
python -m entity_env.viewer minesweeper --agent ragged_envs.minesweeper_script.walk_and_defuse
python -m entity_env.viewer tic_tac_toe --people X
python -m entity_env.viewer runs/minesweeper

"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from entity_env.command_line import run_program, version_text
from entity_env.viewer.server import Viewer
from entity_env.viewer.sources import open_source

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m entity_env.viewer", description="Look at games in the browser."
    )
    parser.add_argument(
        "what", help="a recording, a replay, the name or path of an environment, or a run folder"
    )
    parser.add_argument(
        "settings", nargs="*", default=[], metavar="name=value", help="arguments of the environment"
    )
    parser.add_argument(
        "--agent",
        default="random",
        metavar="NAME",
        help="the player: random (the default), a run folder, or a script such as my_module.me",
    )
    parser.add_argument(
        "--people",
        metavar="A,B",
        help="the seats that you play in the page, or all; in a game for one player: you",
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the games")
    parser.add_argument(
        "--port", type=int, default=0, help="port of the address; by default a free one"
    )
    parser.add_argument(
        "--y-axis",
        choices=("up", "down"),
        help="direction of greater y in a recording; by default up",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--trust", action="store_true", help="import code that an old run names")
    parser.add_argument("--version", action="version", version=version_text())
    given = parser.parse_intermixed_args(arguments)

    def view() -> None:
        source = open_source(
            given.what,
            given.settings,
            agent=given.agent,
            people=given.people,
            seed=given.seed,
            y_axis=given.y_axis,
            trust=given.trust,
        )
        with Viewer(source, given.port) as viewer, contextlib.ExitStack() as stack:
            print(f"{viewer.address}\nCtrl-C ends it", flush=True)
            if not given.no_browser:
                stack.enter_context(open_browser(viewer.address))
            threading.Event().wait()

    return run_program(view)


@contextlib.contextmanager
def open_browser(address: str) -> Iterator[None]:
    """Open a browser at an address that other users of this computer must not see.

    They can read the command line of the browser, which is therefore given a file that only this
    user can read, and that leads to the address. The file is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="viewer-") as folder:
        path = Path(folder, "open.html")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(
                f'<!doctype html><meta charset="utf-8"><title>Viewer</title>'
                f'<meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0; url={address}">'
                f'<a href="{address}">Open the viewer</a>\n'
            )
        webbrowser.open(path.as_uri())
        yield


if __name__ == "__main__":
    sys.exit(main())
