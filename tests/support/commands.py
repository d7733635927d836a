"""Runs commands in this process: most of the time of another would be the import of torch."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
import warnings
from pathlib import Path
from subprocess import CompletedProcess

import pytest


def run_here(module: str, *arguments: str, cwd: Path) -> CompletedProcess[str]:
    """Run ``python -m module arguments`` in a folder, without an input."""
    code: object = 0
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        patch.setattr(sys, "argv", [module, *arguments])
        patch.setattr(sys, "stdin", io.StringIO())
        patch.syspath_prepend(str(cwd))
        warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code
    return CompletedProcess([module, *arguments], code or 0, out.getvalue(), err.getvalue())
