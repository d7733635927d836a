"""Look at games in the browser: ``python -m entity_env.viewer games.episodes``.

python -m entity_env.viewer minesweeper width=6
python -m entity_env.viewer minesweeper --agent ragged_envs.minesweeper_script.walk_and_defuse
python -m entity_env.viewer tic_tac_toe --people X
python -m entity_env.viewer runs/minesweeper

"""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser

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
        help="the player: random (the default), a run folder, or a script such as my_module.me; "
        "for a recording, a run whose network shows its values and choices",
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
        with Viewer(source, given.port) as viewer:
            print(f"{viewer.address}\nCtrl-C ends it", flush=True)
            if not given.no_browser:
                webbrowser.open(viewer.address)
            threading.Event().wait()

    return run_program(view)


if __name__ == "__main__":
    sys.exit(main())
