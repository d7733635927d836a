"""The notebooks run from top to bottom, and train what they claim to train."""

from __future__ import annotations

import re

import pytest
from support.notebook import REPOSITORY, printed, run_notebook


@pytest.mark.slow
def test_the_minesweeper_notebook_trains_and_shows_a_picture(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    notebook = run_notebook(REPOSITORY / "notebooks" / "01_train_minesweeper.ipynb", tmp_path)
    text = printed(notebook)
    sampled = re.search(r"agent, sampled\s+([\d.]+)", text)
    assert sampled is not None
    assert float(sampled.group(1)) > 0.9, text
    kinds = [key for c in notebook.cells for o in c.get("outputs", []) for key in o.get("data", {})]
    assert "image/png" in kinds
    assert "the end" in text
