"""Environments as users write them, trained with the settings that a user is given.

python -m benchmarks.defaults
python -m benchmarks.defaults lifts taxis --steps 200_000 --seeds 1
python -m benchmarks.defaults lifts ppo.gae_lambda=0.9

What follows the names are settings of the training, for comparisons. The score is the part of the
way from random play to the script that the agent reaches: 0 is random play, 1 the script. Greedy
and sampled play are measured in 200 episodes each, and the random player and the script in 500.
Results are also written to a file, a line for each run, and a run that is there is not repeated.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.arguments import parse_with_settings
from entity_env import Environment
from entity_env.player.episodes import play_episodes, play_scripted, random_policy
from ppo_trainer import recipe, train

GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "lifts, 5 floors": ("lifts.Lifts", {"floors": 5, "lifts": 2, "rate": 0.2}),
    "lifts": ("lifts.Lifts", {}),
    "lifts, 16 floors": ("lifts.Lifts", {"floors": 16, "lifts": 5, "rate": 0.5}),
    "bins": ("bins.Bins", {}),
    "cards": ("cards.Cards", {}),
    "cluster": ("cluster.Cluster", {}),
    "drones": ("drones.Drones", {}),
    "farm": ("farm.Farm", {}),
    "fires": ("fires.Fires", {}),
    "hospital": ("hospital.Hospital", {}),
    "inventory": ("inventory.Inventory", {}),
    "keys": ("keys.Keys", {}),
    "kitchen": ("kitchen.Kitchen", {}),
    "power": ("power.Power", {}),
    "sorting": ("sorting.Sorting", {}),
    "tanks": ("tanks.Tanks", {}),
    "taxis": ("taxis.Taxis", {}),
    "traffic": ("traffic.Traffic", {}),
}


@dataclass(frozen=True)
class Result:
    """One training and what its agent reaches, as a part of the way from random to script."""

    game: str
    steps: int
    seed: int
    settings: str
    greedy: float
    sampled: float
    cpu: float


def main() -> None:
    """Train and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.defaults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("games", nargs="*", help=f"all, or some of: {', '.join(GAMES)}")
    parser.add_argument("--steps", nargs="+", type=int, default=[200_000, 500_000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--results", type=Path, help="file for the results, to go on with")
    options, settings = parse_with_settings(parser)
    for name in options.games:
        if name not in GAMES:
            parser.error(f"{name!r} is none of the games: {', '.join(GAMES)}")
    known = set(read_results(options.results)) if options.results else set[Result]()
    done: list[Result] = []
    print(f"{'':18} {'steps':>9} {'seed':>4} {'greedy':>7} {'sampled':>7} {'CPU-s':>6}", flush=True)
    for name in options.games or GAMES:
        for steps in options.steps:
            for seed in options.seeds:
                key = name, steps, seed, " ".join(settings)
                kept = [r for r in known if (r.game, r.steps, r.seed, r.settings) == key]
                result = kept[0] if kept else measure(name, steps, seed, settings)
                if options.results and not kept:
                    with options.results.open("a") as file:
                        file.write(json.dumps(asdict(result)) + "\n")
                done.append(result)
                print(
                    f"{name:18} {steps:>9,} {seed:>4} {result.greedy:>7.2f} "
                    f"{result.sampled:>7.2f} {result.cpu:>6.0f}",
                    flush=True,
                )
    for steps in options.steps:
        own = [result for result in done if result.steps == steps]
        greedy, sampled = (median(getattr(r, kind) for r in own) for kind in ("greedy", "sampled"))
        least = min(own, key=lambda r: r.greedy)
        print(
            f"{steps:,} steps: median greedy {greedy:.2f}, sampled {sampled:.2f}; "
            f"least {least.greedy:.2f} ({least.game}, seed {least.seed})"
        )


def read_results(path: Path) -> Iterator[Result]:
    """Yield the results that a file holds."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield Result(**json.loads(line))


def measure(name: str, steps: int, seed: int, settings: list[str]) -> Result:
    """Train once, and evaluate beside random play and the script."""
    path, arguments = GAMES[name]
    module = importlib.import_module(f"benchmarks.defaults.{path.split('.')[0]}")
    kind: Callable[..., Environment] = getattr(module, path.split(".")[1])

    def make() -> Environment:
        return kind(**arguments)

    chance = play_episodes(make, random_policy(0), 500, 0)["episodic_reward"].mean()
    goal = play_scripted(make, module.script, 500, 0)["episodic_reward"].mean()
    with tempfile.TemporaryDirectory() as folder:
        config = recipe(
            "custom",
            f"env._target_=benchmarks.defaults.{path}",
            *(f"env.{key}={value}" for key, value in arguments.items()),
            f"total_timesteps={steps}", f"seed={seed}", f"run_dir={folder}",
            "eval.episodes=200", *settings,
        )  # fmt: skip
        before = time.process_time()
        players = {own.player: own for own in train(config).evaluations}
        cpu = time.process_time() - before
    parts = {
        kind: (players[f"agent, {kind}"].mean("episodic_reward") - chance) / (goal - chance)
        for kind in ("greedy", "sampled")
    }
    return Result(name, steps, seed, " ".join(settings), cpu=cpu, **parts)


if __name__ == "__main__":
    main()
