"""Vehicle routing: the mean cost of fresh instances by Kool et al., one vehicle, no windows.

The table also has the savings algorithm, and with ``--reference SECONDS`` PyVRP with so many
seconds for each instance, and costs in percent above PyVRP. Several tries see an instance under the
eight symmetries of the square in turns, which change only the network's input. With 8 starts one
try under each symmetry begins where the network chooses, seven at the customers nearest to the
depot.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import numpy.typing as npt
from ragged_envs.industry.vehicle_routing import VehicleRoutingRows, usual_capacity

from benchmarks.work.play import F64, MOST_ROWS, load_runs, spread, values_of
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["add_arguments", "run", "turned"]

I64 = npt.NDArray[np.int64]
_SYMMETRIES = 8
_PARTS = 10_000
"""The parts of a unit of distance that the reference counts in: it takes whole numbers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--samples", type=int, default=64, help="0: greedy only")
    parser.add_argument("--customers", nargs="*", type=int, default=[20, 50, 100])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--reference", type=float, default=0.0, help="seconds of PyVRP")


def run(given: argparse.Namespace) -> None:
    """Print a line for each number of customers."""
    loaded = load_runs(given.runs)
    ways: dict[str, dict[str, Any]] = {
        "greedy": {"tries": 1},
        "greedy, 8 symmetries": {"tries": _SYMMETRIES},
    }
    if given.samples:
        ways[f"{given.samples} greedy, 8 starts"] = {"tries": given.samples, "starts": 8}
        ways[f"{given.samples} sampled"] = {"tries": given.samples, "greedy": False}
    columns = [f"{own.run.path.name}, {how}" for own in loaded for how in ways]
    print("mean cost | PyVRP | savings | " + " | ".join([*columns, "CPU-s of networks"]))
    for count in given.customers:
        rng = np.random.default_rng(1234)
        places, depots = rng.random((given.episodes, count, 2)), rng.random((given.episodes, 2))
        demands = rng.integers(1, 10, (given.episodes, count))
        each = list(zip(depots, places, demands, strict=True))
        capacity = usual_capacity(count)
        base = None
        if given.reference:
            base = np.array([_pyvrp(*one, capacity, given.reference) for one in each])
        found = [np.array([_savings(*one, capacity) for one in each])]
        begun = time.process_time()
        for own in loaded:
            found += [_costs(own, places, demands, depots, **how) for how in ways.values()]
        spent = time.process_time() - begun
        cells = ["-" if base is None else spread(base), *(_cell(own, base) for own in found)]
        print(f"{count} customers | {' | '.join(cells)} | {spent:.0f}", flush=True)


def _cell(costs: F64, base: F64 | None) -> str:
    if base is None:
        return spread(costs)
    return f"{spread(costs)} ({100 * (costs.mean() / base.mean() - 1):+.1f}%)"


def _costs(
    own: LoadedRun,
    places: F64,
    demands: I64,
    depots: F64,
    *,
    tries: int,
    starts: int = 1,
    greedy: bool = True,
) -> F64:
    at_once, found = max(1, MOST_ROWS // tries), []
    for first in range(0, len(places), at_once):
        some = slice(first, first + at_once)
        each = [array[some].repeat(tries, 0) for array in (places, demands, depots)]
        for own_try in range(tries):
            for points in (each[0], each[2]):
                symmetry = own_try // starts % _SYMMETRIES
                points[own_try::tries] = turned(points[own_try::tries], symmetry)
        size = places.shape[1]
        rows = VehicleRoutingRows(len(each[0]), customers=size, copies=starts, starts=True)
        rows.put_instances(*each)
        costs = values_of(own, rows, "cost", greedy=greedy)
        found.append(costs.reshape(-1, tries).min(1))
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


def _pyvrp(depot: F64, places: F64, demand: I64, capacity: int, seconds: float) -> float:
    """Return the cost that PyVRP, a hybrid genetic search, finds within the time.

    Source:
        Wouda, Lan and Kool, "PyVRP: a high-performance VRP solver package", INFORMS Journal on
        Computing 36, 2024.
    """
    try:
        from pyvrp import Model
        from pyvrp.stop import MaxRuntime
    except ImportError:
        raise SystemExit("--reference needs PyVRP: pip install 'ragged-rl[work]'") from None
    points = np.vstack([depot, places])
    # Finer, the ways outweigh what PyVRP lets an overloaded vehicle cost at most.
    ways = np.rint(_PARTS * np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))).astype(
        int
    )
    model = Model()
    nodes = [model.add_location(x, y) for x, y in points]
    model.add_depot(nodes[0])
    for node, load in zip(nodes[1:], demand, strict=True):
        model.add_client(node, delivery=int(load))
    model.add_vehicle_type(len(places), capacity=capacity)
    for here, row in zip(nodes, ways, strict=True):
        for there, way in zip(nodes, row, strict=True):
            model.add_edge(here, there, distance=int(way))
    return float(model.solve(MaxRuntime(seconds), seed=1, display=False).cost() / _PARTS)


def turned(points: F64, symmetry: int) -> F64:
    """Return points of the unit square under one of its eight symmetries; 0 leaves them.

    Args:
        points: Shape: (..., 2).
        symmetry: 0 to 7: quarter turns, from 4 on after them a mirror.
    """
    for _ in range(symmetry % 4):
        points = np.stack([1 - points[..., 1], points[..., 0]], -1)
    return points[..., ::-1] if symmetry >= 4 else points
