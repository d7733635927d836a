"""The wheel, installed into an empty environment, is complete and gives its four commands.

No file of the repository can stand in for a file that the wheel lacks: the commands run in another
folder. Other packages are those that are installed here, so that no network is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"entity_env": "entity_env", "ragged_net": "ragged_net", "ppo_trainer": "ppo_trainer"}
PACKAGES |= {"envs": "ragged_envs"}
pytestmark = pytest.mark.platforms


def run(command, folder):
    """Run a command without what would lead it to the packages of the repository."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env.pop("VIRTUAL_ENV", None)
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, f"{command}\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, which has no files left by other builds."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    own = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "wheel", "-q", *own, "-w", str(out), str(source)], out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def commands(wheel, tmp_path_factory):
    """The folder of the commands of an environment with nothing but the wheel.

    A .pth file adds the folder of the packages that are installed here. The .pth files in that
    folder, such as the one of this repository, do not count there.
    """
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder)
    python = folder / "bin" / "python"
    own = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    run([*pip, "install", "-q", *own, str(wheel)], folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_it_has_every_file_of_the_packages(wheel):
    built = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in PACKAGES.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".md" and path.parent.name != "__pycache__":
                assert f"{package}/{path.relative_to(ROOT / folder).as_posix()}" in built
    assert not [name for name in built if name.split("/")[0] in ("envs", "tests", "benchmarks")]


def test_its_packages_are_imported(commands, tmp_path):
    places = "import entity_env, ragged_net, ppo_trainer, ragged_envs as e; print(e.__file__)"
    (place,) = run([commands / "python", "-c", places], tmp_path).split()
    assert Path(place).is_relative_to(commands.parent)


def test_ragged_check_finds_no_mistake_in_minesweeper(commands, tmp_path):
    assert "no mistakes found" in run([commands / "ragged-check", "minesweeper"], tmp_path)


def test_ragged_train_makes_a_run_that_ragged_watch_shows(commands, tmp_path):
    settings = ["total_timesteps=2048", "run_name=short", "eval.episodes=20"]
    printed = run([commands / "ragged-train", "env=xor", *settings], tmp_path)
    assert "random play" in printed
    metrics = (tmp_path / "runs" / "short" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(metrics[-1])["steps"] >= 2048
    watched = run([commands / "ragged-watch", "runs/short", "--episodes", "1"], tmp_path)
    assert "episode 1, step 1" in watched


def test_ragged_view_starts(commands, tmp_path):
    assert "usage" in run([commands / "ragged-view", "--help"], tmp_path)
