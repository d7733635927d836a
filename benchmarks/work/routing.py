"""Vehicle routing: the mean cost of fresh instances by Kool et al., one vehicle, no windows.

Beside networks the savings algorithm, and with ``--reference SECONDS`` OR-tools at so many seconds
for each instance; then costs in percent above OR-tools, too.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt
from ragged_envs.industry.vehicle_routing import VehicleRoutingRows, usual_capacity

from benchmarks.work.play import F64, MOST_ROWS, load_runs, spread, values_of
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["add_arguments", "run"]

I64 = npt.NDArray[np.int64]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--samples", type=int, default=64, help="0: greedy only")
    parser.add_argument("--customers", nargs="*", type=int, default=[20, 50, 100])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--reference", type=float, default=0.0, help="seconds of OR-tools")


def run(given: argparse.Namespace) -> None:
    """Print a line for each number of customers."""
    loaded = load_runs(given.runs)
    ways = [1, given.samples] if given.samples else [1]
    columns = [
        f"{own.run.path.name}, {'greedy' if samples == 1 else f'best of {samples}'}"
        for own in loaded
        for samples in ways
    ]
    print("mean cost | OR-tools | savings | " + " | ".join([*columns, "CPU-s of networks"]))
    for count in given.customers:
        rng = np.random.default_rng(1234)
        places, depots = rng.random((given.episodes, count, 2)), rng.random((given.episodes, 2))
        demands = rng.integers(1, 10, (given.episodes, count))
        each = list(zip(depots, places, demands, strict=True))
        capacity = usual_capacity(count)
        base = None
        if given.reference:
            base = np.array([_or_tools(*one, capacity, given.reference) for one in each])
        found = [np.array([_savings(*one, capacity) for one in each])]
        begun = time.process_time()
        for own in loaded:
            found += [_costs(own, places, demands, depots, samples) for samples in ways]
        spent = time.process_time() - begun
        cells = ["-" if base is None else spread(base), *(_cell(own, base) for own in found)]
        print(f"{count} customers | {' | '.join(cells)} | {spent:.0f}", flush=True)


def _cell(costs: F64, base: F64 | None) -> str:
    if base is None:
        return spread(costs)
    return f"{spread(costs)} ({100 * (costs.mean() / base.mean() - 1):+.1f}%)"


def _costs(own: LoadedRun, places: F64, demands: I64, depots: F64, samples: int) -> F64:
    at_once, found = max(1, MOST_ROWS // samples), []
    for first in range(0, len(places), at_once):
        some = slice(first, first + at_once)
        each = [array[some].repeat(samples, 0) for array in (places, demands, depots)]
        rows = VehicleRoutingRows(len(each[0]), customers=places.shape[1])
        rows.put_instances(*each)
        costs = values_of(own, rows, "cost", greedy=samples == 1)
        found.append(costs.reshape(-1, samples).min(1))
    return np.concatenate(found)


def _savings(depot: F64, places: F64, demand: I64, capacity: int) -> float:
    """Return the cost of the tours that the parallel savings algorithm finds.

    Every customer begins with a tour of its own; of all pairs of tours' ends, the one that saves
    the most way is joined first, as long as the demand of both fits.

    Args:
        depot: Shape: (2,).
        places: Shape: (customers, 2).
        demand: Shape: (customers,).
        capacity: Of a vehicle.

    Returns:
        The length of all tours.

    Source:
        Clarke and Wright, "Scheduling of vehicles from a central depot to a number of delivery
        points", Operations Research 12, 1964.
    """
    home = np.hypot(*(places - depot).T)
    between = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    gain = home[:, None] + home[None] - between
    first, second = np.triu_indices(len(places), 1)
    tours = {i: [i] for i in range(len(places))}
    of = list(range(len(places)))
    load = {i: int(own) for i, own in enumerate(demand)}
    for pair in np.argsort(-gain[first, second], kind="stable"):
        i, j = int(first[pair]), int(second[pair])
        a, b = of[i], of[j]
        if gain[i, j] <= 0 or a == b or load[a] + load[b] > capacity:
            continue
        one, other = tours[a], tours[b]
        if i not in (one[0], one[-1]) or j not in (other[0], other[-1]):
            continue
        if one[-1] != i:
            one.reverse()
        if other[0] != j:
            other.reverse()
        tours[a], load[a] = one + other, load[a] + load.pop(b)
        for customer in tours.pop(b):
            of[customer] = a
    return float(
        sum(
            home[tour[0]] + home[tour[-1]] + between[tour[:-1], tour[1:]].sum()
            for tour in tours.values()
        )
    )


def _or_tools(depot: F64, places: F64, demand: I64, capacity: int, seconds: float) -> float:
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
