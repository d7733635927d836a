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
            # Strings that stand alone: docstrings, those of attributes among them.
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                first = f"{node.value.value} -".split()[0].strip(",.:;")
                if first in RIDDLES:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {first}")
    assert not found, found
