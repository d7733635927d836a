"""``entity_env`` on Python 3.12 and 3.13 with NumPy 2, where ragged-buffer has no wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ["numpy>=2", "pytest", "hypothesis", "cloudpickle", "pillow", "pyarrow"]
# Between the oldest and the newest Python, which pass all of them, a part is enough: no code asks
# for the version, and what depends on it are the stand-in for ragged-buffer and processes.
VERSIONS = {"3.12": ["test_ragged*.py", "test_workers.py"], "3.13": ["test_*.py"]}

CHECK = """
import sys
import numpy
import entity_env
assert sys.version_info[:2] == tuple(map(int, sys.argv[1].split("."))), sys.version
assert int(numpy.__version__.split(".")[0]) >= 2, numpy.__version__
assert "torch" not in sys.modules and "ragged_buffer" not in sys.modules
assert entity_env.RaggedBufferF32.__module__.startswith("entity_env."), "not the stand-in"
"""


def outside(command, **kwargs):
    """Run a program without what this interpreter's environment would tell it."""
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"}
    ours |= {"PYTHONDONTWRITEBYTECODE"}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env.update(kwargs.pop("env", {}))
    return subprocess.run(
        command, capture_output=True, text=True, env=env, cwd=ROOT, check=False, **kwargs
    )


def runs(python, version):
    """Return True if this program is a Python of that version, not only a shim of pyenv."""
    try:
        found = outside([str(python), "-c", "import sys; print(*sys.version_info[:2], sep='.')"])
    except OSError:
        return False
    return found.returncode == 0 and found.stdout.strip() == version


def find_python(version):
    """A Python of that version on PATH or among pyenv's, or None."""
    on_path = shutil.which(f"python{version}")
    roots = [os.environ.get("PYENV_ROOT"), str(Path.home() / ".pyenv")]
    folders = [Path(root) / "versions" for root in roots if root]
    installed = [
        python
        for folder in folders
        for python in sorted(folder.glob(f"{version}*/bin/python{version}"))
    ]
    candidates = [*installed, *([on_path] if on_path else [])]
    return next((python for python in candidates if runs(python, version)), None)


def venv_python(base, version):
    """The Python of a virtual environment with the requirements, made once and then kept."""
    folder = ROOT / f".venv-{version}"
    python = folder / "bin" / "python"
    done = folder / "requirements-installed.txt"
    wanted = "\n".join(REQUIREMENTS)
    if done.exists() and done.read_text() == wanted and runs(python, version):
        return python
    made = outside([str(base), "-m", "venv", "--clear", str(folder)])
    assert made.returncode == 0, made.stdout + made.stderr
    for what in (REQUIREMENTS, ["--no-deps", "-e", str(ROOT)]):  # the games: ragged_envs
        installed = outside([str(python), "-m", "pip", "install", "--quiet", *what])
        assert installed.returncode == 0, installed.stdout + installed.stderr
    done.write_text(wanted)
    return python


@pytest.mark.platforms
@pytest.mark.parametrize("version", VERSIONS)
def test_entity_env_passes_its_tests(version):
    base = find_python(version)
    if base is None:
        pytest.skip(f"there is no Python {version} on PATH or among pyenv's versions")
    python = str(venv_python(base, version))
    # Each worker would compile all modules again.
    kept = str(Path(python).parents[1] / "bytecode")
    here = {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": kept}
    checked = outside([python, "-c", CHECK, version], env=here)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    folder = ROOT / "tests" / "entity_env"
    files = [str(file) for name in VERSIONS[version] for file in sorted(folder.glob(name))]
    command = [python, "-m", "pytest", *files, "-p", "no:cacheprovider", "-m", "not slow"]
    tested = outside(command, env=here)
    assert tested.returncode == 0, tested.stdout[-5000:] + tested.stderr[-2000:]
    assert " passed" in tested.stdout


def test_this_python_is_found_by_the_same_search():
    assert runs(sys.executable, ".".join(map(str, sys.version_info[:2])))
    assert not runs(sys.executable, "3.1")
    assert not runs(ROOT / "no-such-program", "3.12")
    assert find_python("3.99") is None
