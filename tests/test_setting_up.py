"""The environment that the Makefile sets up, and its Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
PYTHON = "#!/bin/sh\nexit {code}\n"


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"python3.11": 0, "python3.13": 0, "python3": 0}, "python3.11"),
        ({"python3.12": 0, "python3": 0}, "python3.12"),
        ({"python3.11": 1, "python3.13": 0}, "python3.13"),  # as a shim of pyenv's without it
        ({"python3.10": 0, "python3": 0}, "python3"),
        ({"python3": 1, "python3.14": 0}, "python3.14"),
    ],
)
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_python_3_11_if_it_is_there_else_what_is_there(there, taken, tmp_path):
    for name, code in there.items():
        (tmp_path / name).write_text(PYTHON.format(code=code))
        (tmp_path / name).chmod(0o755)
    assert f"{taken} -m venv .venv" in planned(tmp_path)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_without_any_python_make_says_what_it_needs(tmp_path):
    assert planned(tmp_path).startswith("false ")
    assert "Python 3.11 or later is needed" in planned(tmp_path)


def planned(path):
    """Return the commands of ``make train`` if only these programs exist."""
    command = [shutil.which("make"), "-n", "train", "TRAINS=nothing-yet"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    own.pop("PYTHON", None)
    done = subprocess.run(
        command, cwd=ROOT, env={**own, "PATH": str(path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_each_python_gets_one_version_of_each_package(version):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    surroundings = {"python_version": version, "python_full_version": f"{version}.0"}
    names = [pin.name for pin in pins if pin.marker is None or pin.marker.evaluate(surroundings)]
    assert len(names) == len(set(names))
    assert set(names) == {pin.name for pin in pins}
