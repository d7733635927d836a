"""Real work: what trained networks reach on public instances, beside rules and other solvers.

    python -m benchmarks.work job_shop runs/a runs/b [--samples 64] [--sizes 15x15 20x15]
    python -m benchmarks.work job_shop runs/a --instances FILE ...
    python -m benchmarks.work dynamic [runs/d] [--set breakdowns=0.1 setups=0.5]
    python -m benchmarks.work shops [--shops joinery] [--minutes 5] [--set waiting=false]
    python -m benchmarks.work routing runs/c [--customers 20 50 100] [--reference 10]
    python -m benchmarks.work warehouse [runs/e] [--robots 4 8 12 16 20]
    python -m benchmarks.work speed runs/a [--plot FILE]
    python -m benchmarks.work service runs/a [--clients 4]

Train them with ``python -m ppo_trainer env=job_shop``, ``job_shop_dynamic``, ``vehicle_routing``
and ``warehouse``. Each module here says what its table holds. Spreads are intervals of 95%.
"""

from __future__ import annotations

import argparse

import torch

from benchmarks.work import dynamic, job_shop, routing, service, shops, speed, warehouse

TASKS = {
    "job_shop": job_shop,
    "dynamic": dynamic,
    "shops": shops,
    "routing": routing,
    "warehouse": warehouse,
    "speed": speed,
    "service": service,
}


def main(words: list[str] | None = None) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.work")
    tasks = parser.add_subparsers(dest="task", required=True)
    for name, task in TASKS.items():
        task.add_arguments(tasks.add_parser(name, help=(task.__doc__ or "").splitlines()[0]))
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    TASKS[given.task].run(given)


if __name__ == "__main__":
    main()
