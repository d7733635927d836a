"""The notebooks run from top to bottom, and train what they claim to train."""

from __future__ import annotations

import importlib
import json
import re

import pytest
from support.notebook import REPOSITORY, printed, run_notebook

pytestmark = pytest.mark.learning


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


def test_the_notebook_without_environments_tells_sets_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    notebook = run_notebook(REPOSITORY / "notebooks" / "02_ragged_net_elsewhere.ipynb", tmp_path)
    text = printed(notebook)
    found = [float(number) for number in re.findall(r"accuracy on .*: ([\d.]+)", text)]
    assert len(found) == 2
    assert min(found) > 0.9, text  # chance is one in three
    kinds = [key for c in notebook.cells for o in c.get("outputs", []) for key in o.get("data", {})]
    assert "image/png" in kinds


def test_the_notebook_of_self_play_reaches_a_second_stage(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    source = (REPOSITORY / "notebooks" / "03_self_play.ipynb").read_text()
    assert "STEPS = 300_000" in source
    short = tmp_path / "short.ipynb"
    short.write_text(source.replace("STEPS = 300_000", "STEPS = 24_000"))
    notebook = run_notebook(short, tmp_path)
    text = printed(notebook)
    lines = (tmp_path / "runs" / "stages" / "metrics.jsonl").read_text().splitlines()
    stages = [json.loads(line)["selfplay/stage"] for line in lines]
    assert stages[0] == 0
    assert stages[-1] >= 1
    score = re.search(r"^stages .*\)\s+([\d.]+)\s+120$", text, re.MULTILINE)
    assert score is not None, text
    # Against random play and minimax of depth 4 together; a random player gets less than 0.3.
    assert float(score.group(1)) > 0.3
    kinds = [key for c in notebook.cells for o in c.get("outputs", []) for key in o.get("data", {})]
    assert kinds.count("image/png") == 2


def test_the_single_file_ppo_learns_and_stays_one_file():
    import torch
    from ragged_envs.minesweeper import MineSweeperRows

    path = REPOSITORY / "examples" / "single_file_ppo.py"
    source = path.read_text()
    assert len(source.splitlines()) < 170
    assert "import ppo_trainer" not in source
    assert "from ppo_trainer" not in source
    torch.set_num_threads(1)
    example = importlib.import_module("examples.single_file_ppo")
    settings = example.Settings(total_steps=40_000, seed=1)
    with MineSweeperRows(128, seed=1, width=4, height=4, nmines=3, nrobots=2, max_steps=50) as rows:
        _, returns = example.train(rows, settings)
    # Chance wins a quarter to a third of these small boards.
    assert sum(returns[:200]) / 200 < 0.5
    assert sum(returns[-400:]) / 400 > 0.85
