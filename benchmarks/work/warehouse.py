"""Warehouses: items in an hour, of sizes that no training has seen.

The nearest task and an assignment by the Hungarian method, which needs SciPy (extra ``work``),
beside greedy networks. All play the same episodes, as long as they take the same decisions.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from ragged_envs.industry.warehouse import WarehouseRows
from ragged_envs.industry.warehouse_scripts import nearest_task

from benchmarks.work.play import load_runs, spread, values_by, values_of
from entity_env import SelectEntityAction
from entity_env.actions import Action
from entity_env.observation import Observation

__all__ = ["add_arguments", "hungarian", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--robots", nargs="*", type=int, default=[4, 8, 12, 16, 20])
    parser.add_argument("--aisles", type=int, default=6)
    parser.add_argument("--shelves", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=20)


def run(given: argparse.Namespace) -> None:
    """Print a line for each number of robots."""
    _assignment()  # a missing package ends this here
    loaded = load_runs(given.runs)
    print(
        "items in an hour | nearest task | Hungarian | "
        + " | ".join(f"{own.run.path.name}, greedy" for own in loaded)
    )
    for robots in given.robots:
        settings: dict[str, Any] = {
            "robots": robots, "aisles": given.aisles, "shelves": given.shelves,
            "stations": 3, "chargers": 3, "waiting": max(6, robots),
        }  # fmt: skip
        found = []
        for rule in (nearest_task, hungarian):
            rows = WarehouseRows(given.episodes, seed=99, **settings)
            found.append(values_by(rule, rows, "throughput"))
        best = max(np.mean(own) for own in found)
        cells = [spread(own) for own in found]
        for own in loaded:
            rows = WarehouseRows(given.episodes, seed=99, **settings)
            values = values_of(own, rows, "throughput", greedy=True)
            cells.append(f"{spread(values)} ({100 * (values.mean() / best - 1):+.1f}%)")
        print(f"{robots} robots | {' | '.join(cells)}", flush=True)


def hungarian(observation: Observation) -> dict[str, Action]:
    """Assign all robots with room to items at the least total cost; the asked robot takes its item.

    The cost is the time until a robot is free plus its way to the item; walls are regarded only for
    the asked robot. If it gets no item, it hands over what it carries, or takes the nearest task.
    """
    seen: Any = observation
    mask: Any = seen.actions["Task"]
    (asked,) = mask.actor_ids
    allowed = set(mask.actee_ids)
    items = [
        (ident, row)
        for ident, row in zip(seen.ids["Item"], seen.features["Item"], strict=True)
        if ident in allowed
    ]
    robots = [
        (ident, row)
        for ident, row in zip(seen.ids["Robot"], seen.features["Robot"], strict=True)
        if ident == asked or row[4] > 0
    ]
    if items:
        # Positions are in tens of cells, ways in twenties of steps.
        cost = [
            [
                item[2] if ident == asked else robot[6] + math.dist(robot[:2], item[:2]) / 2
                for _, item in items
            ]
            for ident, robot in robots
        ]
        chosen = _assignment()(np.array(cost))
        for i, j in zip(*chosen, strict=True):
            if robots[i][0] == asked:
                return {"Task": SelectEntityAction(actors=[asked], actees=[items[j][0]])}
    if stations := [one for one in mask.actee_ids if one[0] == "Station"]:
        ways = dict(
            zip(seen.ids["Station"], (row[2] for row in seen.features["Station"]), strict=True)
        )
        nearest = min(stations, key=ways.__getitem__)
        return {"Task": SelectEntityAction(actors=[asked], actees=[nearest])}
    return nearest_task(observation)


def _assignment() -> Any:
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise SystemExit(
            "the Hungarian method needs SciPy: pip install 'ragged-rl[work]'"
        ) from None
    return linear_sum_assignment
