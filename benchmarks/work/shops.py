"""Made-up shops: a network trained for minutes on a shop's own orders, beside the best rule there.

The weighted tardiness of fresh orders, in time units for each unit of weight; the best rule is the
one that is best on these very orders. The difference is the mean over these orders of what the
network is late by, less what the rule is. CPU-minutes are those of the training.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from ragged_envs.industry.job_shop_scripts import RULES

from benchmarks.work.dynamic import DYNAMIC, add_settings, late_by, settings_of, streams_of
from benchmarks.work.play import F64, load_runs, spread, values_by
from ppo_trainer import recipe, train

__all__ = ["SHOPS", "add_arguments", "run"]

SHOPS: dict[str, dict[str, Any]] = {
    "joinery": {"jobs": [20, 40], "machines": [5, 7]},
    "printer": {"jobs": [30, 50], "machines": [4, 6], "setups": 0.5, "families": 4},
    "workshop": {"jobs": [20, 40], "machines": [6, 8], "flexible": 2, "breakdowns": 0.1},
}
"""Settings of ``job_shop_dynamic``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--shops", nargs="*", choices=list(SHOPS), default=list(SHOPS))
    add_settings(parser)
    parser.add_argument("--steps", type=int, default=600_000, help="decisions of a training")
    parser.add_argument("--minutes", type=float, default=5.0, help="the most CPU time of it")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1], help="of trainings")
    parser.add_argument("--streams", type=int, default=100)


def run(given: argparse.Namespace) -> None:
    """Print a line for each shop and seed."""
    columns = ["weighted tardiness", "network", "difference", "less", "decisions", "CPU-minutes"]
    print(" | ".join(["shop", "best rule", "seed", *columns]))
    for name in given.shops:
        shop = SHOPS[name] | settings_of(given)
        late = {
            rule: values_by(RULES[rule], streams_of(given.streams, shop), "tardiness")
            for rule in DYNAMIC
        }
        best = min(late, key=lambda rule: late[rule].mean())
        for seed in given.seeds:
            found, steps, minutes = _trained(shop, seed, given)
            less = 100 * (1 - found.mean() / late[best].mean())
            values = map(spread, (late[best], found, found - late[best]))
            cells = [*values, f"{less:.1f}%", f"{steps:,}", f"{minutes:.1f}"]
            print(" | ".join([name, best, str(seed), *cells]), flush=True)


def _trained(
    shop: Mapping[str, Any], seed: int, given: argparse.Namespace
) -> tuple[F64, int, float]:
    """Return what a new network is late by in each stream, its decisions and CPU-minutes."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f"env.{key}={value}" for key, value in shop.items()]
        words += [f"total_timesteps={given.steps}", f"seed={seed}", "threads=1"]
        config = recipe("job_shop_dynamic", f"run_dir={folder}", "eval.episodes=0", *words)
        begun = time.process_time()
        end = begun + 60 * given.minutes
        done = train(config, callbacks=lambda session: time.process_time() < end)
        minutes = (time.process_time() - begun) / 60
        (own,) = load_runs([str(done.run)])
        return late_by(own, given.streams, shop), done.steps, minutes
