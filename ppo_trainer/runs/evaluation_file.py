"""``evaluation.json``: the results of an evaluation, and its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entity_env.errors import DAMAGES
from entity_env.storage.bounded_json import parse_json
from entity_env.storage.files import read_file, write_file
from ppo_trainer.config import TrainConfig
from ppo_trainer.reporting.evaluation import Evaluation, left_out, table
from ppo_trainer.runs.folder import RunFolder, writing

__all__ = ["describe", "read_same", "write_evaluation"]

_MOST_BYTES, _MOST_VALUES = 1 << 20, 20_000


def describe(
    run: Path, steps: int, config: TrainConfig, episodes: int, results: Sequence[Evaluation]
) -> dict[str, Any]:
    """Return the results and the settings that they depend on, as JSON values.

    Args:
        run: Run folder.
        steps: Number of frames that the network was trained on.
        config: Settings of the evaluation, which may differ from those of the run.
        episodes: Number of episodes that were asked for.
        results: Results of each player.
    """
    return {
        "run": run.name,
        "steps": steps,
        "settings": {
            "env": dict(config.env),
            "seed": config.seed,
            "episodes": episodes,
            "max_steps": config.eval.max_steps,
            "seconds": config.eval.seconds,
            "scripted": config.eval.scripted,
            "num_envs": config.rollout.num_envs,
        },
        "players": [result.summary() for result in results],
    }


def write_evaluation(run: RunFolder, facts: Mapping[str, Any]) -> None:
    """Write the result of ``describe`` to the run folder."""
    with writing(run.evaluation_file):
        write_file(run.evaluation_file, f"{json.dumps(facts, indent=1)}\n".encode())


def read_same(run: RunFolder, facts: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Return the players of the saved evaluation if it has the steps and settings of ``facts``.

    A file that cannot be read counts as missing, so that the evaluation is repeated.
    """
    try:
        known = parse_json(read_file(run.evaluation_file, _MOST_BYTES), _MOST_VALUES)
        # Through JSON, which turns tuples into lists.
        wanted = json.loads(json.dumps({name: facts[name] for name in ("steps", "settings")}))
        if any(known[name] != value for name, value in wanted.items()):
            return None
        players: list[Mapping[str, Any]] = known["players"]
        table(players), left_out(players)  # raises an error if they cannot be shown
        return players
    except (OSError, OverflowError, *DAMAGES):
        return None
