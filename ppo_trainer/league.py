"""Compare runs: ``python -m ppo_trainer.league <run> <run> random scripted --games 200``."""

from __future__ import annotations

from ppo_trainer.players.league import League, main, play_league
from ppo_trainer.settings.commands import run_main

__all__ = ["League", "main", "play_league"]

if __name__ == "__main__":
    run_main(main)
