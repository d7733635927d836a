"""Record a run's games: ``python -m ppo_trainer.record <run> games.episodes [--episodes N]``."""

from __future__ import annotations

from ppo_trainer.machine.commands import run_main
from ppo_trainer.play.record import Recorded, main, record_run

__all__ = ["Recorded", "main", "record_run"]

if __name__ == "__main__":
    run_main(main)
