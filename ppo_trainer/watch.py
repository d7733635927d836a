"""Watch a run play: ``python -m ppo_trainer.watch <run> [--video game.gif]``."""

from __future__ import annotations

from ppo_trainer.machine.commands import run_main
from ppo_trainer.play.watch import film, main, watch

__all__ = ["film", "main", "watch"]

if __name__ == "__main__":
    run_main(main)
