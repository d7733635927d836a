"""One network for boards of every size, which planes of a fixed size cannot read.

Trained on 4 x 4 to 10 x 10 tiles with 2 to 15 mines and 1 to 5 robots, drawn for each episode
(``env=minesweeper_boards``), then measured on boards that are larger or fuller than any it has
seen. Not a part of ``make bench``: training takes minutes.

python -m benchmarks.boards
python -m benchmarks.boards --seeds 1 2 3 ppo.gamma=0.97
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragged_envs.minesweeper_script import walk_and_defuse

from benchmarks.arguments import parse_with_settings
from benchmarks.measure import Row, print_rows
from entity_env.play import play_scripted
from ppo_trainer.command_line.configs import recipe
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import make_factory
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.loop import train
from ragged_net import RaggedNet

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


def main() -> None:
    """Train with each seed, and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.boards",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--episodes", type=int, default=500, help="games on each board")
    options, settings = parse_with_settings(parser)
    for seed in options.seeds:
        print_rows(list(rows(seed, options.episodes, settings)))


def rows(seed: int, episodes: int, settings: Sequence[str] = ()) -> Iterator[Row]:
    """Train once, then play every board."""
    with tempfile.TemporaryDirectory() as folder:
        config = recipe(
            "minesweeper_boards", "eval.episodes=0", f"run_dir={folder}", f"seed={seed}", *settings
        )
        start = time.process_time()
        trained = train(config)
        seconds = time.process_time() - start
        yield Row(
            case=f"seed {seed}, training on 4 x 4 to 10 x 10, {trained.steps:,} steps",
            ours=f"{seconds:.0f} CPU-s",
        )
        for kind, boards in (("seen", SEEN), ("held out", HELD_OUT)):
            for name, own in boards.items():
                game = replace(config, env={**config.env, **own})
                yield _row(f"{kind}: {name}", trained.net, game, episodes)


def _row(name: str, net: RaggedNet, config: TrainConfig, episodes: int) -> Row:
    game = make_factory(config)
    played = []
    for player, greedy in (("greedy", True), ("sampled", False)):
        result = evaluate(net, game, config, episodes, greedy=greedy)
        low, high = result.interval("win")
        played.append(
            f"{player} {result.mean('win'):.1%} won ({low:.1%} to {high:.1%}), "
            f"{result.mean('episodic_length'):.0f} steps"
        )
    script = play_scripted(game, walk_and_defuse, episodes, config.seed, max_steps=10_000)
    return Row(
        case=name,
        ours="; ".join(played),
        baseline=f"scripted player: {script['win'].mean():.1%}, "
        f"{script['episodic_length'].mean():.0f} steps",
    )


if __name__ == "__main__":
    main()
