"""One network for boards of every size, which planes of a fixed size cannot read.

Trained on 4 x 4 to 10 x 10 tiles with 2 to 15 mines and 1 to 5 robots, drawn for each episode
(``env=minesweeper_boards``), then measured on boards that are larger or fuller than any it has
seen. Not a part of ``make bench``: training takes minutes.

python -m benchmarks.boards
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from typing import Any

from ragged_envs.minesweeper_script import walk_and_defuse

from benchmarks.measure import Row, print_rows
from entity_env.player.episodes import play_scripted
from ppo_trainer.command_line.overrides import recipe
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import make_factory
from ppo_trainer.play.evaluation import evaluate
from ppo_trainer.train import train

EPISODES = 500
SEEN: dict[str, dict[str, int]] = {
    "4 x 4, 2 mines, 1 robot": {"width": 4, "height": 4, "nmines": 2, "nrobots": 1},
    "7 x 7, 8 mines, 3 robots": {"width": 7, "height": 7, "nmines": 8, "nrobots": 3},
    "10 x 10, 15 mines, 5 robots": {"width": 10, "height": 10, "nmines": 15, "nrobots": 5},
}
HELD_OUT: dict[str, dict[str, int]] = {
    "11 x 11, 15 mines, 5 robots": {"width": 11, "height": 11, "nmines": 15, "nrobots": 5},
    "12 x 12, 20 mines, 7 robots": {"width": 12, "height": 12, "nmines": 20, "nrobots": 7},
    "3 x 12, 6 mines, 2 robots": {"width": 12, "height": 3, "nmines": 6, "nrobots": 2},
    "15 x 15, 30 mines, 10 robots": {"width": 15, "height": 15, "nmines": 30, "nrobots": 10},
}


def rows() -> list[Row]:
    """Train once, then play every board."""
    with tempfile.TemporaryDirectory() as folder:
        config = recipe("minesweeper_boards", "eval.episodes=0", f"run_dir={folder}")
        start = time.process_time()
        trained = train(config)
        seconds = time.process_time() - start
        found = [
            Row(
                case=f"training on 4 x 4 to 10 x 10, {trained.steps:,} steps",
                ours=f"{seconds:.0f} CPU-s",
            )
        ]
        for kind, boards in (("seen", SEEN), ("held out", HELD_OUT)):
            found += [_row(kind, name, trained.net, config, own) for name, own in boards.items()]
    return found


def _row(kind: str, name: str, net: Any, config: TrainConfig, settings: dict[str, int]) -> Row:
    own = replace(config, env={**config.env, **settings})
    game = make_factory(own)
    result = evaluate(net, game, own, EPISODES, greedy=False)
    script = play_scripted(game, walk_and_defuse, EPISODES, config.seed, max_steps=10_000)
    low, high = result.interval("win")
    return Row(
        case=f"{kind}: {name}",
        ours=f"{result.mean('win'):.1%} of games won ({low:.1%} to {high:.1%}), "
        f"{result.mean('episodic_length'):.0f} steps",
        baseline=f"scripted player: {script['win'].mean():.1%}, "
        f"{script['episodic_length'].mean():.0f} steps",
    )


if __name__ == "__main__":
    print_rows(rows())
