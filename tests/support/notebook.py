"""Runs a notebook from top to bottom."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

REPOSITORY = Path(__file__).parents[2]


def run_notebook(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Execute a copy in ``folder``; a cell that raises raises here, with its traceback."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return notebook


def printed(notebook: nbformat.NotebookNode) -> str:
    """Everything that its cells print."""
    return "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream"
    )
