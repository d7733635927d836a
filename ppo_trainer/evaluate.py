"""Evaluate a run: ``python -m ppo_trainer.evaluate <run> [env.<setting>=...]``."""

from __future__ import annotations

from ppo_trainer.machine.commands import run_main
from ppo_trainer.play.evaluate import evaluate_run, main

__all__ = ["evaluate_run", "main"]

if __name__ == "__main__":
    run_main(main)
