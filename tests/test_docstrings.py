"""Docstrings begin with a verb or a noun, as those of NumPy, PyTorch and Gymnasium do.

Ruff's D401 asks functions for a verb; here classes, modules and properties are checked, too.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ["entity_env", "envs", "ppo_trainer", "ragged_net"]
RIDDLES = {
    *("As", "How", "If", "Only", "That", "What", "When", "Where"),
    *("Whether", "Which", "Who", "Whose", "Why"),
}


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_a_verb_or_a_noun(package):
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                first = (ast.get_docstring(node) or "-").split()[0].strip(",.:;")
                if first in RIDDLES:
                    found.append(f"{path.relative_to(ROOT)}: {getattr(node, 'name', '')}: {first}")
    assert not found, found
