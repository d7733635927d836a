"""Environments as users write them, trained with the settings that a user is given.

python -m benchmarks.defaults
python -m benchmarks.defaults lifts taxis --steps 200_000 --seeds 1
python -m benchmarks.defaults lifts ppo.gae_lambda=0.9
python -m benchmarks.defaults sweepers --renamed
python -m benchmarks.defaults lifts kitchen --maskable

What follows the names are settings of the training, for comparisons. The score is the part of the
way from random play to the script that the agent reaches: 0 is random play, 1 the script. Greedy
and sampled play are measured in 200 episodes each, and the random player and the script in 500.
CPU-s is the time of the training and of these evaluations. With --renamed the agent, not the
script, plays a form of the game whose features have names without meaning. --maskable trains
MaskablePPO beside ours, for the CPU-s of ours (needs sb3-contrib).
Results are also written to a file, a line for each run, and a run that is there is not repeated.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from benchmarks.arguments import parse_with_settings
from benchmarks.defaults.maskable import train_maskable
from benchmarks.defaults.renamed import create
from entity_env.play import play_episodes, play_scripted, random_policy
from ppo_trainer import recipe, train

GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "lifts, 5 floors": ("lifts.Lifts", {"floors": 5, "lifts": 2, "rate": 0.2}),
    "lifts": ("lifts.Lifts", {}),
    "lifts, 16 floors": ("lifts.Lifts", {"floors": 16, "lifts": 5, "rate": 0.5}),
    "lifts, 16 floors, paid": (
        "lifts.Lifts",
        {"floors": 16, "lifts": 5, "rate": 0.5, "paid": True},
    ),
    "ambulances": ("ambulances.Ambulances", {}),
    "bins": ("bins.Bins", {}),
    "boats": ("boats.Boats", {}),
    "buses": ("buses.Buses", {}),
    "cards": ("cards.Cards", {}),
    "cluster": ("cluster.Cluster", {}),
    "drones": ("drones.Drones", {}),
    "dungeon": ("dungeon.Dungeon", {}),
    "farm": ("farm.Farm", {}),
    "fires": ("fires.Fires", {}),
    "hospital": ("hospital.Hospital", {}),
    "inventory": ("inventory.Inventory", {}),
    "keys": ("keys.Keys", {}),
    "kitchen": ("kitchen.Kitchen", {}),
    "melds": ("melds.Melds", {}),
    "power": ("power.Power", {}),
    "quotes": ("quotes.Quotes", {}),
    "quotes, no luck": ("quotes.Quotes", {"lucky": False}),
    "repairs": ("repairs.Repairs", {}),
    "sorting": ("sorting.Sorting", {}),
    "sweepers": ("sweepers.Sweepers", {}),
    "tanks": ("tanks.Tanks", {}),
    "taxis": ("taxis.Taxis", {}),
    "traffic": ("traffic.Traffic", {}),
}

MASKABLE = "MaskablePPO"
"""In the place of settings: a training of sb3-contrib."""


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
    renamed: bool = False


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
    parser.add_argument(
        "--maskable", action="store_true", help="train MaskablePPO, too, for the same CPU time"
    )
    parser.add_argument(
        "--renamed", action="store_true", help="hide the meaning of the names of features"
    )
    options, settings = parse_with_settings(parser)
    for name in options.games:
        if name not in GAMES:
            parser.error(f"{name!r} is none of the games: {', '.join(GAMES)}")
    known = set(read_results(options.results)) if options.results else set[Result]()
    print(f"{'':18} {'steps':>9} {'seed':>4} {'greedy':>7} {'sampled':>7} {'CPU-s':>6}", flush=True)
    results = []
    for key in product(
        options.games or GAMES,
        options.steps,
        options.seeds,
        [" ".join(settings)],
        [options.renamed],
    ):
        results.append(result_of(known, options.results, key))
        if options.maskable:
            result_of(known, options.results, (*key[:3], MASKABLE, False), results[-1].cpu)
    for steps in options.steps:
        print(summary([result for result in results if result.steps == steps]))


Key: TypeAlias = tuple[str, int, int, str, bool]
"""Game, steps, seed, settings, and whether features are renamed: what one training is."""


def result_of(known: set[Result], path: Path | None, key: Key, seconds: float = 0.0) -> Result:
    """Return a result that is known, or measure it and write it to the file; print its line."""
    kept = [r for r in known if (r.game, r.steps, r.seed, r.settings, r.renamed) == key]
    result = kept[0] if kept else measure(*key, seconds)
    if path and not kept:
        with path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
    print(
        f"{result.game:18} {result.steps:>9,} {result.seed:>4} {result.greedy:>7.2f} "
        f"{result.sampled:>7.2f} {result.cpu:>6.0f}  {result.settings}",
        flush=True,
    )
    return result


def summary(results: list[Result]) -> str:
    """Return a line with the medians of the results and the least of them."""
    greedy, sampled = (median(getattr(r, kind) for r in results) for kind in ("greedy", "sampled"))
    least = min(results, key=lambda r: r.greedy)
    settings = least.settings or "default settings"
    return (
        f"{settings}, {least.steps:,} steps: median greedy {greedy:.2f}, sampled {sampled:.2f}; "
        f"least {least.greedy:.2f} ({least.game}, seed {least.seed})"
    )


def read_results(path: Path) -> Iterator[Result]:
    """Yield the results that a file holds."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield Result(**json.loads(line))


def measure(
    name: str, steps: int, seed: int, settings: str, renamed: bool, seconds: float
) -> Result:
    """Train once, MaskablePPO for some CPU time, and evaluate beside random play and the script."""
    target, arguments = GAMES[name]
    make = functools.partial(create, target, arguments)
    script = importlib.import_module(f"benchmarks.defaults.{target.split('.')[0]}").script
    chance = play_episodes(make, random_policy(0), 500, 0)["episodic_reward"].mean()
    goal = play_scripted(make, script, 500, 0)["episodic_reward"].mean()
    before = time.process_time()
    if settings == MASKABLE:
        means = train_maskable(make, seconds, seed)
    else:
        given = [f"env.{key}={value}" for key, value in arguments.items()]
        if renamed:
            target, given = "renamed.Renamed", [*given, f"env.target={target}"]
        given += [f"env._target_=benchmarks.defaults.{target}", f"total_timesteps={steps}"]
        means = train_ours([*given, f"seed={seed}", "eval.episodes=200", *settings.split()])
    cpu = time.process_time() - before
    greedy, sampled = ((mean - chance) / (goal - chance) for mean in means)
    return Result(name, steps, seed, settings, greedy, sampled, cpu, renamed)


def train_ours(settings: list[str]) -> tuple[float, float]:
    """Train once, and return the mean returns of greedy and of sampled play."""
    with tempfile.TemporaryDirectory() as folder:
        done = train(recipe("custom", f"run_dir={folder}", *settings))
    players = {played.player: played.mean("episodic_reward") for played in done.evaluations}
    return players["agent, greedy"], players["agent, sampled"]


if __name__ == "__main__":
    main()
