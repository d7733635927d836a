"""Kernels are compiled once, and again when anything that they contain changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from entity_env.registry import resolve
from entity_env.rows import compiled
from entity_env.rows.game_kernel import kernel_text

TREE = Path(__file__).parents[2]
PLAY = """
import sys; sys.path.insert(0, sys.argv[1])
import ragged_envs.minesweeper as native
from entity_env import RaggedBufferI64
import numpy as np
assert native.__file__.startswith(sys.argv[1])
env = native.MineSweeperRows(1, nmines=1, nrobots=1)
env.reset()
(saved,) = env.get_state()
saved["env"] |= {"mines": [[5, 5]], "robots": [[2, 2]]}
env.set_state([saved])
obs = env.act({"Move": RaggedBufferI64.from_flattened(np.array([[0]]), np.array([1]))})
hits = sum(env._parts[0].kernel.stats.cache_hits.values()) if len(sys.argv) > 2 else "-"
print(obs.features["Robot"].as_array().astype(int).tolist(), hits)
"""

RENAME = """
import sys; sys.path.insert(0, sys.argv[1])
from importlib import util
path = sys.argv[1] + "/ragged_envs"
here = {"submodule_search_locations": [path]}
spec = util.spec_from_file_location("renamed", f"{path}/__init__.py", **here)
sys.modules["renamed"] = package = util.module_from_spec(spec)
spec.loader.exec_module(package)
"""


def play(folder, *args, script=PLAY, **variables):
    """Return the position of a robot at (2, 2) after its first move, and the cache's hits."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), *args],
        env={**own, "PYTHONPATH": str(TREE), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning:" not in done.stderr
    return done.stdout.split("]] ")[0] + "]]", done.stdout.split()[-1]


def test_a_changed_rule_is_compiled_anew(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TREE / "envs", tmp_path / "tree" / "ragged_envs", ignore=ignored)
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    folder = tmp_path / "tree"
    assert play(folder, "count", **variables) == ("[[3, 2]]", "0")
    assert play(folder, "count", **variables) == ("[[3, 2]]", "1")
    # The same files under another name: a script that is imported elsewhere, or a clone's ``envs``.
    script = RENAME + PLAY.replace("import ragged_envs.", "import renamed.")
    assert play(folder, "count", script=script, **variables) == ("[[3, 2]]", "1")
    rules = folder / "ragged_envs" / "minesweeper.py"
    text = rules.read_text()
    assert "STEPS = ((1, 0)," in text
    rules.write_text(text.replace("STEPS = ((1, 0),", "STEPS = ((2, 1),"))
    assert play(folder, "count", **variables) == ("[[4, 3]]", "0")


@pytest.mark.parametrize(
    "variables",
    [
        # Of the places for a cache only one that needs an interactive session is left.
        {"NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator"},
        {"NUMBA_DISABLE_JIT": "1"},
    ],
    ids=["nothing is cached", "nothing is compiled"],
)
def test_a_game_is_played_the_same_where(tmp_path, variables):
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TREE / "envs", tmp_path / "ragged_envs", ignore=ignored)
    assert play(tmp_path, **variables)[0] == "[[3, 2]]"


class RecordedError(Exception):
    """Instead of a game: what its kernel is, and the types of what it is called with."""


def compiled_for(monkeypatch, name, **settings):
    """Return the text and the types of arguments that a kernel is compiled for."""

    def kernel_of(game, in_python=False):
        def record(*arguments):
            raise RecordedError(
                kernel_text(game),
                list(game.state),
                list(game.settings),
                *map(numba.typeof, arguments),
            )

        return record

    monkeypatch.setattr(compiled, "game_kernel", kernel_of)
    with pytest.raises(compiled.EntityEnvError) as raised:
        resolve(name)(12, **settings).reset()
    return raised.value.__cause__.args


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("warehouse", {"stations": 3}),
        ("warehouse", {"chargers": 1, "robots": 3, "lines": 2}),
        ("photosynthesis", {"players": 3}),
        ("minesweeper", {"width": 9, "nmines": 3, "max_steps": 7}),
        ("job_shop", {"jobs": 3, "machines": 2, "breakdowns": 0.5}),
        ("vehicle_routing", {"customers": 7, "vehicles": 2}),
        ("tower_defence", {"frame_skip": 3}),
        ("minirts", {"frame_skip": 3}),
        ("capture_the_flag", {"frame_skip": 3}),
    ],
)
def test_other_settings_are_not_compiled_again(monkeypatch, name, settings):
    usual, other = (compiled_for(monkeypatch, name, **own) for own in ({}, settings))
    assert usual == other
