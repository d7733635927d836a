"""Play a replay again: ``python -m entity_env.replay games.replay [--row 3] [--commands]``.

Check at each step that the game is still the same; see ``entity_env.recording.replays``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from entity_env.command_line import run_program, version_text
from entity_env.errors import SettingError
from entity_env.recording.replays import Replay
from entity_env.spaces import ActionName, ActionSpace

__all__ = ["main", "show"]


def show(path: str, *, row: int | None = None, commands: bool = False, trust: bool = False) -> None:
    """Play a replay again, and print its decisions and the ends of episodes.

    Args:
        path: Path of the file.
        row: Number of the only row to print; None prints all rows.
        commands: True to print every decision.
        trust: Consent to import an environment that is not registered.

    Raises:
        EntityEnvError: The file cannot be read, or the game differs from the recorded one.
    """
    replay = Replay.read(path)
    settings = "".join(f" {name}={value}" for name, value in replay.settings.items())
    rows = "alone" if replay.rows == 0 else f"{replay.rows} rows"
    print(f"{replay.env}{settings}, seed {replay.seed}, {rows}, {len(replay.steps):,} steps")
    if row is not None and not 0 <= row < max(replay.rows, 1):
        raise SettingError(
            "the row does not exist", expected=f"0 to {max(replay.rows, 1) - 1}", received=row
        )
    with replay.make_rows(trust=trust) as played:
        space = played.action_space()
        for moment in replay.play(played):
            for acting, choices in moment.choices.items() if commands else ():
                if row is None or acting == row:
                    print(f"step {moment.step}, row {acting}: {_words(choices, space)}")
            for ended in moment.obs.done.nonzero()[0].tolist() if moment.step >= 0 else ():
                if row is None or ended == row:
                    numbers = {name: column[ended] for name, column in moment.obs.metrics.items()}
                    print(f"step {moment.step}, row {ended}: the end{_text(numbers)}")
    print("the same games as were recorded")


def _text(numbers: dict[str, Any]) -> str:
    return "".join(f", {name} {value:.4g}" for name, value in numbers.items() if value == value)


def _words(choices: Mapping[ActionName, list[Any]], space: Mapping[ActionName, ActionSpace]) -> str:
    """Return the choices of a row as text, with the names of its choices."""
    texts = []
    for name, chosen in choices.items():
        labels = getattr(space[name], "index_to_label", None)
        words = chosen if labels is None else [labels[i] for i in chosen]
        texts.append(f"{name} {', '.join(map(str, words))}")
    return "; ".join(texts) or "nothing"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m entity_env.replay", description=__doc__)
    parser.add_argument("--version", action="version", version=version_text())
    parser.add_argument("path", help="the replay")
    parser.add_argument("--row", type=int, default=None, help="only this row")
    parser.add_argument("--commands", action="store_true", help="print every decision")
    parser.add_argument(
        "--trust", action="store_true", help="import the code that the replay names"
    )
    given = parser.parse_args(arguments)
    return run_program(lambda: show(**vars(given)))


if __name__ == "__main__":
    sys.exit(main())
