"""How good is a run? ``python -m ppo_trainer.evaluate <run> [--episodes N] [--seed S]``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from entity_env.command_line import version_text
from entity_env.registry import Factory
from ppo_trainer.cli import add_trust, run_main
from ppo_trainer.device import use_threads
from ppo_trainer.evaluation import Evaluation, evaluate_all, table
from ppo_trainer.loading import load_policy
from ppo_trainer.screen import say

__all__ = ["evaluate_run", "main"]


def evaluate_run(
    path: str | Path,
    env: Factory | None = None,
    episodes: int = 1000,
    seed: int | None = None,
    *,
    trust: bool = False,
) -> list[Evaluation]:
    """Evaluate a run's newest checkpoint; with ``seed`` on other episodes than its own.

    ``env`` is needed only where its class cannot be imported, ``trust`` only for a run that names
    code and was made by somebody else: it is the consent to import what the run names.
    """
    loaded = load_policy(path, env, trust=trust, scripted=True)
    use_threads(loaded.config, loaded.device)
    config = loaded.config if seed is None else replace(loaded.config, seed=seed)
    return evaluate_all(loaded.net, loaded.game, config, loaded.device, episodes)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m ppo_trainer.evaluate", description=__doc__)
    parser.add_argument("--version", action="version", version=version_text())
    parser.add_argument("run", help="run folder")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="other episodes than the run's own")
    add_trust(parser)
    options = parser.parse_args(arguments)
    results = evaluate_run(options.run, None, options.episodes, options.seed, trust=options.trust)
    say(table(results), is_read=True)


if __name__ == "__main__":
    run_main(main)
