"""Real work: what trained networks reach on public instances, beside rules and other solvers.

    python -m benchmarks.work job_shop runs/a runs/b [--samples 64] [--sizes 15x15 20x15]
    python -m benchmarks.work job_shop runs/a --instances FILE ...
    python -m benchmarks.work routing runs/c [--customers 20 50 100] [--reference 10]

Train them with ``python -m ppo_trainer env=job_shop`` and ``env=vehicle_routing``. Job shop: the
mean gap to the best makespan known, in percent, of Taillard's ten instances of each size, which
no training has seen. Routing: the mean cost of fresh instances, beside the nearest customer, the
savings algorithm and, with ``--reference SECONDS``, OR-tools at so many seconds for each.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from ragged_envs.industry.job_shop import JobShop
from ragged_envs.industry.job_shop_rows import JobShopRows
from ragged_envs.industry.job_shop_scripts import RULES
from ragged_envs.industry.routing_rules import usual_capacity
from ragged_envs.industry.routing_scripts import savings
from ragged_envs.industry.taillard import TAILLARD
from ragged_envs.industry.vehicle_routing_rows import VehicleRoutingRows

from entity_env import VecEnv
from ppo_trainer.play.evaluation import network_policy
from ppo_trainer.runs.load_run import LoadedRun, load_policy

__all__ = ["main"]

BEST_RULES = ("flow_due_date", "most_work_remaining")
MOST_ROWS = 640


def main(words: list[str] | None = None) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.work")
    tasks = parser.add_subparsers(dest="task", required=True)
    shop = tasks.add_parser("job_shop")
    shop.add_argument("runs", nargs="+")
    shop.add_argument("--samples", type=int, default=64)
    shop.add_argument("--sizes", nargs="*", default=None, help="such as 15x15; all eight if none")
    shop.add_argument("--instances", nargs="*", default=None, help="names or files instead")
    routing = tasks.add_parser("routing")
    routing.add_argument("runs", nargs="+")
    routing.add_argument("--samples", type=int, default=64)
    routing.add_argument("--customers", nargs="*", type=int, default=[20, 50, 100])
    routing.add_argument("--episodes", type=int, default=200)
    routing.add_argument("--reference", type=float, default=0.0, help="seconds of OR-tools")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    loaded = [load_policy(run, trust=True) for run in given.runs]
    if given.task == "job_shop":
        _job_shop(given, loaded)
    else:
        _routing(given, loaded)


def _job_shop(given: argparse.Namespace, loaded: Sequence[LoadedRun]) -> None:
    groups = _by_size(given.sizes)
    if given.instances:
        groups = {", ".join(Path(name).name for name in given.instances): given.instances}
    columns = [
        *BEST_RULES,
        *(
            f"{own.run.path.name}, {how}"
            for own in loaded
            for how in ("greedy", f"best of {given.samples}")
        ),
    ]
    print("gap in percent | " + " | ".join([*columns, "greedy CPU-s"]))
    for size, names in groups.items():
        cells = [f"{_rule(rule, names):.1f}" for rule in BEST_RULES]
        start = 0.0
        for own in loaded:
            begun = time.process_time()
            cells.append(f"{_solve(own, names, 1).mean():.1f}")
            start += time.process_time() - begun
            cells.append(f"{_solve(own, names, given.samples).mean():.1f}")
        print(f"{size} | {' | '.join(cells)} | {start / len(loaded):.1f}", flush=True)


def _by_size(sizes: Sequence[str] | None) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name, (jobs, machines, *_) in TAILLARD.items():
        groups.setdefault(f"{jobs}x{machines}", []).append(name)
    return groups if not sizes else {size: groups[size] for size in sizes}


def _rule(rule: str, names: Sequence[str]) -> float:
    gaps = []
    for name in names:
        env = JobShop(instance=name)
        seen = env.reset()
        while not seen.done:
            seen = env.act(RULES[rule](seen))
        gaps.append(seen.metrics.get("gap", math.nan))
    return float(np.mean(gaps))


def _solve(own: LoadedRun, names: Sequence[str], samples: int) -> np.ndarray:
    """The gap of each instance: greedily, or the least of several samples."""
    at_once = max(1, MOST_ROWS // samples)
    found = []
    for first in range(0, len(names), at_once):
        some = list(names[first : first + at_once])
        rows = JobShopRows(len(some) * samples, seed=1, copies=samples, instance=some)
        gaps = _first_episodes(own, rows, "gap", greedy=samples == 1)
        found.append(gaps.reshape(len(some), samples).min(1))
    return np.concatenate(found)


@torch.no_grad()
def _first_episodes(own: LoadedRun, rows: VecEnv, metric: str, *, greedy: bool) -> np.ndarray:
    """A metric of the first episode of each row."""
    policy = network_policy(
        own.net, own.config, torch.Generator(own.device).manual_seed(1), greedy=greedy
    )
    found = np.full(len(rows), np.nan)
    with rows:
        obs = rows.reset()
        while np.isnan(found).any():
            obs = rows.act(policy(obs))
            if obs.metrics:
                ended = obs.done & np.isnan(found)
                found[ended] = obs.metrics[metric][ended]
    return found


def _routing(given: argparse.Namespace, loaded: Sequence[LoadedRun]) -> None:
    columns = [
        f"{own.run.path.name}, {how}"
        for own in loaded
        for how in ("greedy", f"best of {given.samples}")
    ]
    print("mean cost | savings | OR-tools | " + " | ".join(columns))
    for count in given.customers:
        rng = np.random.default_rng(1234)
        places, depots = rng.random((given.episodes, count, 2)), rng.random((given.episodes, 2))
        demands = rng.integers(1, 10, (given.episodes, count))
        capacity = usual_capacity(count)
        saved = [savings(*one, capacity) for one in zip(depots, places, demands, strict=True)]
        reference = "-"
        if given.reference:
            costs = [
                _or_tools(*one, capacity, given.reference)
                for one in zip(depots, places, demands, strict=True)
            ]
            reference = f"{np.mean(costs):.3f}"
        cells = []
        for own in loaded:
            for samples in (1, given.samples):
                cells.append(f"{_costs(own, places, demands, depots, samples).mean():.3f}")
        print(
            f"{count} customers | {np.mean(saved):.3f} | {reference} | {' | '.join(cells)}",
            flush=True,
        )


def _costs(
    own: LoadedRun, places: np.ndarray, demands: np.ndarray, depots: np.ndarray, samples: int
) -> np.ndarray:
    at_once, found = max(1, MOST_ROWS // samples), []
    for first in range(0, len(places), at_once):
        some = slice(first, first + at_once)
        each = [array[some].repeat(samples, 0) for array in (places, demands, depots)]
        rows = VehicleRoutingRows(len(each[0]), customers=places.shape[1])
        rows.put_instances(*each)
        costs = _first_episodes(own, rows, "cost", greedy=samples == 1)
        found.append(costs.reshape(-1, samples).min(1))
    return np.concatenate(found)


def _or_tools(
    depot: np.ndarray, places: np.ndarray, demand: np.ndarray, capacity: int, seconds: float
) -> float:
    """The cost that the routing solver of OR-tools finds within the time, guided local search."""
    try:
        from ortools.constraint_solver import pywrapcp, routing_enums_pb2
    except ImportError:
        raise SystemExit("--reference needs OR-tools: pip install 'ragged-rl[work]'") from None
    points = np.vstack([depot, places])
    ways = np.rint(1e6 * np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))).astype(int)
    loads = [0, *demand.tolist()]
    vehicles = len(places)
    manager = pywrapcp.RoutingIndexManager(len(points), vehicles, 0)
    model = pywrapcp.RoutingModel(manager)
    node = manager.IndexToNode
    model.SetArcCostEvaluatorOfAllVehicles(
        model.RegisterTransitCallback(lambda a, b: int(ways[node(a), node(b)]))
    )
    model.AddDimensionWithVehicleCapacity(
        model.RegisterUnaryTransitCallback(lambda a: loads[node(a)]),
        0,
        [capacity] * vehicles,
        True,
        "load",
    )
    search = pywrapcp.DefaultRoutingSearchParameters()
    search.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.PATH_CHEAPEST_ARC
    search.local_search_metaheuristic = (
        routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    )
    search.time_limit.FromMilliseconds(round(1000 * seconds))
    solution = model.SolveWithParameters(search)
    return float(solution.ObjectiveValue() / 1e6)


if __name__ == "__main__":
    main()
