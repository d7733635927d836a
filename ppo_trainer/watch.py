"""Watch a run play: ``python -m ppo_trainer.watch <run> [--video game.gif]``."""

from __future__ import annotations

from ppo_trainer.play.watch import film, main, watch
from ppo_trainer.settings.commands import run_main

__all__ = ["film", "main", "watch"]

if __name__ == "__main__":
    run_main(main)
