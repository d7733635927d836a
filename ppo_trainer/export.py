"""Write a run's network for other runtimes: ``python -m ppo_trainer.export <run> policy.onnx``."""

from __future__ import annotations

from ppo_trainer.machine.commands import run_main
from ppo_trainer.play.export import Exported, export_run, main

__all__ = ["Exported", "export_run", "main"]

if __name__ == "__main__":
    run_main(main)
