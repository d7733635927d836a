"""The console commands that the package installs, beside ``python -m``."""

from __future__ import annotations

import os
import runpy
import sys

__all__ = ["check", "train", "view", "watch"]


def train() -> None:
    """Run ``python -m ppo_trainer``."""
    _run("ppo_trainer")


def watch() -> None:
    """Run ``python -m ppo_trainer.watch``."""
    _run("ppo_trainer.watch")


def view() -> None:
    """Run ``python -m entity_env.viewer``."""
    _run("entity_env.viewer")


def check() -> None:
    """Run ``python -m entity_env.check``."""
    _run("entity_env.check")


def _run(module: str) -> None:
    # As ``python -m`` does: the user's own environments lie in the current folder.
    sys.path.insert(0, os.getcwd())
    runpy.run_module(module, run_name="__main__", alter_sys=True)
