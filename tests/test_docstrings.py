"""Docstrings begin with a verb or a noun, as those of NumPy, PyTorch and Gymnasium do.

Ruff's D401 checks the verbs of functions. These tests check classes, modules, properties, and the
entries of ``Args``, ``Attributes`` and other sections, too.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ["entity_env", "envs", "ppo_trainer", "ragged_net"]
RIDDLES = {
    *("As", "How", "If", "Only", "That", "What", "When", "Where"),
    *("Whether", "Which", "Who", "Whom", "Whose", "Why"),
}
ENTRY = re.compile(rf" +[\w*][\w*, ]*: ({'|'.join(sorted(RIDDLES))})\b")
"""An entry such as ``seed: Where the numbers begin.``"""


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_their_entries_begin_with_a_verb_or_a_noun(package):
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            # Strings that stand alone: docstrings, those of attributes among them.
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                lines = f"{node.value.value} -".splitlines()
                first = " ".join(lines).split()[0].strip(",.:;")
                wrong = {0} if first in RIDDLES else set()
                wrong |= {number for number, line in enumerate(lines) if ENTRY.match(line)}
                found += [
                    f"{path.relative_to(ROOT)}:{node.lineno + number}: {lines[number].strip()}"
                    for number in sorted(wrong)
                ]
    assert not found, "\n".join(found)
