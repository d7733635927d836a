"""The games that come with the library: what their recipes reach, seeds 1 to 3.

python -m benchmarks.suite [names]

CPU seconds are those of the whole training process, start included, evaluation not; returns are
means of 1,000 fresh episodes, each played greedily.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.results import read_metrics

SEEDS = (1, 2, 3)
EPISODES = 1000


@dataclass(frozen=True)
class Game:
    """One row: an environment's recipe, and what each seed must reach.

    Args:
        env: The name of its configuration.
        least: The least mean return; of ``metric``, if that is another.
        overrides: Settings on top of the recipe.
        metric: What is measured.
        most: The greatest.
        explained: The least share of the returns' variance that the value explains.
    """

    env: str
    least: float
    overrides: tuple[str, ...] = ()
    metric: str = "episodic_reward"
    most: float = math.inf
    explained: float = -math.inf

    @property
    def label(self) -> str:
        """The name of the row."""
        return " ".join((self.env, *self.overrides))


GAMES = (
    Game("multi_armed_bandit", 0.97),
    Game("xor", 0.995),
    Game("count", 0.99, ("env.masked_choices=2",)),
    Game("count", 0.95, ("env.masked_choices=10",)),
    Game("not_hotdog", 0.99),
    Game("cherry_pick", 0.97),
    Game("rock_paper_scissors", 0.95, most=1.05, explained=0.95),
    Game("rock_paper_scissors", 1.95, ("env.cheat=true",)),
    Game("floor_is_lava", 0.97),
    Game("move_to_origin", 0.9),
    Game("minefield", 0.95),
    Game("multi_snake", 0.7, ("env.num_snakes=1", "total_timesteps=400_000")),
    Game("multi_snake", 0.5, ("env.num_snakes=2",)),
    Game("repeat_after_k", 0.95, ("env.k=3",)),
    Game("repeat_after_k", 0.95, ("env.k=10",)),
    Game("repeat_after_k", 0.2, ("env.k=3", "net.memory=none"), most=0.3),
    Game("minesweeper_cannon", 0.97, metric="win"),
    Game("cartpole", 475.0),
)


@dataclass(frozen=True)
class Trained:
    """One seed's run."""

    steps: int
    seconds: float
    players: dict[str, Evaluation]
    explained: float


def main() -> None:
    """Train, evaluate, and print one row for each game as soon as it is done."""
    names = sys.argv[1:]
    print("| game | least | steps | CPU-s | seeds 1, 2, 3 | explained | random | scripted |")
    print("|---|---|---|---|---|---|---|---|")
    missed = []
    for game in GAMES:
        if names and game.env not in names:
            continue
        runs = [_train(game, seed) for seed in SEEDS]
        reached = [run.players["agent, greedy"].mean(game.metric) for run in runs]
        others = [
            f"{runs[0].players[name].mean(game.metric):.3g}" if name in runs[0].players else "-"
            for name in ("random play", "scripted player")
        ]
        cells = [
            game.label,
            f"{game.least:g}",
            f"{runs[0].steps:,}",
            " / ".join(f"{run.seconds:.0f}" for run in runs),
            " / ".join(f"{value:.3f}" for value in reached),
            " / ".join(f"{run.explained:.2f}" for run in runs),
            *others,
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
        explained = min(run.explained for run in runs)
        within = game.least <= min(reached) and max(reached) <= game.most
        if not within or explained < game.explained:  # NaN where returns do not vary
            missed.append(game.label)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def _train(game: Game, seed: int) -> Trained:
    with tempfile.TemporaryDirectory() as folder:
        words = [f"env={game.env}", *game.overrides, f"seed={seed}", "eval.episodes=0"]
        words += [f"run_dir={folder}", "run_name=run"]
        log = Path(folder) / "log.txt"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "ppo_trainer", *words], stdout=out, stderr=out
            )
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{game.label} failed:\n{log.read_text()[-2000:]}")
        run = RunFolder.open(Path(folder) / "run")
        last = read_metrics(run)[-1]
        players = {result.player: result for result in evaluate_run(run.path, episodes=EPISODES)}
        return Trained(
            steps=last["steps"],
            seconds=usage.ru_utime + usage.ru_stime,
            players=players,
            explained=last.get("value/explained_variance", float("nan")),
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
