"""Compare runs: ``python -m ppo_trainer.league <run> <run> random scripted --games 200``."""

from __future__ import annotations

from ppo_trainer.machine.commands import run_main
from ppo_trainer.play.league import League, main, play_league

__all__ = ["League", "main", "play_league"]

if __name__ == "__main__":
    run_main(main)
