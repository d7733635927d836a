"""Search for environments in the current folder, for hints, without importing files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

__all__ = ["meant_nearby"]

_MOST_FILES = 300
_MOST_BYTES = 1_000_000
_MADE = re.compile(r"(Env|Environment)$")  # common names of base classes


def meant_nearby(name: object) -> str | None:
    """Return the dotted path of an environment in the current folder that ``name`` may mean.

    Args:
        name: Anything like ``Orchard``, ``orchard``, ``orchard.py``, ``games/orchard.py`` or
            ``orchad.Orchard``.
    """
    wanted = _plain(re.split(r"[./:\\]", re.sub(r"\.py$", "", str(name)))[-1])
    if not wanted:
        return None
    in_file_of_that_name = None
    for file in _files():
        found = _environments(file, wanted)
        module = ".".join(file.with_suffix("").parts)
        for own in found:
            if _plain(own) == wanted:
                return f"{module}.{own}"
        if _plain(file.stem) == wanted and found and in_file_of_that_name is None:
            in_file_of_that_name = f"{module}.{found[0]}"
    return in_file_of_that_name


def _plain(name: str) -> str:
    """Return the letters and digits of a name, equal for ``my_orchard`` and ``MyOrchard``."""
    return re.sub(r"[\W_]", "", name).casefold()


def _files() -> Iterator[Path]:
    """Return the modules in the working directory and in its folders."""
    here = Path()
    found = (file for pattern in ("*.py", "*/*.py") for file in here.glob(pattern))
    modules = (f for f in found if all(p.isidentifier() for p in f.with_suffix("").parts))
    yield from islice(modules, _MOST_FILES)


def _environments(file: Path, wanted: str) -> list[str]:
    """Return the names of environments that a file's text seems to define."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return []
        text = file.read_text()
        if wanted not in _plain(file.stem) and wanted not in _plain(text):
            return []
        statements = ast.parse(text).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    found: list[str] = []
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            made = statement.bases
        elif isinstance(statement, ast.FunctionDef) and statement.returns is not None:
            made = [statement.returns]
        else:
            continue
        if not statement.name.startswith("_") and any(_makes(kind, found) for kind in made):
            found.append(statement.name)
    return found


def _makes(kind: ast.expr, found: list[str]) -> bool:
    """Return True if a base class or an annotation is an environment by its name."""
    if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
        name = kind.value
    else:
        name = ast.unparse(kind).rpartition(".")[2]
    return name in found or _MADE.search(name) is not None
