"""A user's own packages may have the names that everybody gives them; neither hides the other."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

GAME = """
from entity_env import Environment

class Mine(Environment):
    pass
"""
CHECK = """
from entity_env.registry import resolve
from ppo_trainer import recipe
from ppo_trainer.environments import make_factory

print(resolve("minesweeper").__module__)
print(make_factory(recipe("minesweeper", "env.width=7")).settings["width"])
for name in {names}:
    print(resolve(f"{{name}}.mine.Mine").__module__)
"""


@pytest.mark.parametrize("is_package", [True, False])
def test_users_packages_and_ours_are_both_found(tmp_path, is_package):
    # OpenSimplex installs a package "tests", which hides folders without an __init__.py.
    names = ["envs", "benchmarks", "config"] + ["tests"] * is_package
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(GAME)
        if is_package:
            (tmp_path / name / "__init__.py").touch()
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(names=names)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ragged_envs.minesweeper",
        "7",
        *(f"{name}.mine" for name in names),
    ]


def test_the_distribution_installs_every_package_of_ours_and_no_name_that_users_have(monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    said = {}
    monkeypatch.setattr(setuptools, "setup", lambda **options: said.update(options))
    runpy.run_path("setup.py")
    ours = {"entity_env": "entity_env", "ragged_net": "ragged_net", "ppo_trainer": "ppo_trainer"}
    folders = {**ours, "ragged_envs": "envs"}
    expected = {
        ".".join([name, *init.parent.relative_to(root / folder).parts])
        for name, folder in folders.items()
        for init in (root / folder).rglob("__init__.py")
    }
    assert set(said["packages"]) == expected
    assert said["package_dir"] == {"ragged_envs": "envs"}
