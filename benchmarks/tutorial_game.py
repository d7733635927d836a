"""Steps per second of the game in ``envs/README.md``: in Python, and compiled.

python -m benchmarks.tutorial_game
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.environments import replay
from benchmarks.measure import Row, Times, alternate, print_rows, speed_row
from entity_env import ListEnv

__all__ = ["rows"]

_README = Path(__file__).parents[1] / "envs" / "README.md"
_ROWS, _SEED = 1024, 1
_STEPS = {"python": 20, "compiled": 300}


def rows() -> list[Row]:
    """Compare the compiled form with the one in Python, in a ``ListEnv``, at 1,024 rows."""
    with tempfile.TemporaryDirectory() as folder:
        for block in re.findall(r"^```python\n(.*?)^```$", _README.read_text(), re.M | re.S):
            name = block.split(":")[0].strip('"')
            (Path(folder) / name).write_text(block)
        sys.path.insert(0, folder)
        try:
            gather = importlib.import_module("gather")
            gather_rows = importlib.import_module("gather_rows")
        finally:
            sys.path.remove(folder)
        envs = {
            "python": ListEnv(gather.Gather, _ROWS, _SEED),
            "compiled": gather_rows.GatherRows(_ROWS, _SEED),
        }
        runs = {name: replay(env, _STEPS[name])[0] for name, env in envs.items()}
        times = alternate(runs, budget=20)
    each = {
        name: Times(tuple(seconds / (_ROWS * _STEPS[name]) for seconds in own.seconds))
        for name, own in times.items()
    }
    return [
        speed_row(
            f"Gather, {_ROWS:,} rows",
            each["compiled"],
            each["python"],
            f"Python in a ListEnv of {_ROWS:,}",
            target=50,
            per_call=1,
            unit="steps/s",
        )
    ]


if __name__ == "__main__":
    print_rows(rows())
