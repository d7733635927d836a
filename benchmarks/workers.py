"""Worker processes: ``python -m benchmarks.workers``.

Times are wall-clock times, because the point is to use two cores at once; so everything is compared
with what two plain busy processes reach on this machine in the same turn. Cases are measured in
turns. The table has medians, the fastest quarter of the repeats, which other work on the machine
disturbs least, and the CPU time of the parent plus the slower worker, which take turns, against
that of ``ListEnv``.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.measure import Row, Times, print_rows
from benchmarks.slow_env import BusyPair, Slow, busy, loops_per_second
from entity_env import AsyncEnv, Environment, ListEnv, ParallelEnv, RaggedBufferI64, VecEnv

QUIET = 1.8
"""Minimum gain of two busy processes; a smaller one means that other work used a core."""


def rows() -> list[Row]:
    """Return all rows of the table."""
    speed = _speed_of_steps()
    return [*_two_cores(speed), *_waiting(), *_computing(speed)]


def _speed_of_steps() -> float:
    """Return the loops per second with which a step takes 100 us in a ``ListEnv``, all included.

    Beside 128 environments the same loops take up to 1.4 times as long as alone.
    """
    speed = loops_per_second()
    with ListEnv(lambda: Slow(100e-6, 100e-6, loops_per_second=speed), 128) as env:
        env.reset()
        times = _turns({"steps": _stepper(env, 2)}, repeats=40)["steps"].wall
    return speed * 100e-6 * 2 * len(env) / times.median


def _two_cores(speed: float, repeats: int = 100) -> list[Row]:
    """Compare ``ParallelEnv`` with two workers to ``ListEnv`` at 100 us a step, and the machine."""
    done = 256  # steps of environments in a turn
    sizes = (128, 16)
    loops = round(speed * 100e-6 * done)

    def create_env() -> Slow:
        return Slow(100e-6, 100e-6, loops_per_second=speed)

    workers: dict[str, list[int]] = {}
    with contextlib.ExitStack() as stack:
        pair = stack.enter_context(BusyPair())
        cases: dict[str, Callable[[], object]] = {
            "one process": lambda: busy(loops),
            "two processes": lambda: pair.busy(loops // 2),
        }
        for size in sizes:
            envs: dict[str, Any] = {
                "ListEnv": ListEnv(create_env, size),
                "ParallelEnv": ParallelEnv(create_env, size, 2),
            }
            for name, env in envs.items():
                stack.enter_context(env)
                env.reset()
                cases[f"{name} {size}"] = _stepper(env, done // size)
            workers[f"ParallelEnv {size}"] = [w._process.pid for w in envs["ParallelEnv"]._workers]
        measured = _turns(cases, repeats, workers)
    wall = {name: times.wall for name, times in measured.items()}
    one = _fastest_quarter(wall["one process"])
    free = [one / two >= QUIET for two in wall["two processes"].seconds]
    quiet = [turn for turn, around in enumerate(itertools.pairwise(free)) if all(around)]
    found = _pair_of_rows(
        "2 busy processes, the most there is to gain",
        wall["two processes"],
        wall["one process"],
        "1 process",
    )
    for size, target in zip(sizes, (1.7, None), strict=True):
        ours, baseline = measured[f"ParallelEnv {size}"], measured[f"ListEnv {size}"]
        parent = ours.parent.median / done * size * 1e6
        case = f"ParallelEnv, 2 workers, 100 us a step, {size} rows"
        found += _pair_of_rows(
            case, ours.wall, baseline.wall, "ListEnv", done=done, target=target, quiet=quiet
        )
        row = _row(f"{case}, CPU time", ours.path, baseline.path, "ListEnv", done, target)
        note = f"of the parent ({parent:.0f} us a step) and the slower worker"
        found.append(replace(row, note=note))
    return found


def _waiting() -> list[Row]:
    """Compare ``AsyncEnv`` to ``ParallelEnv`` for steps that wait, tenfold differently."""
    found = []
    for text, rare, sizes, rounds in (
        ("sleep 1-10 ms", None, (32, 16, 8), 40),
        ("sleep 1 ms, one in ten 10 ms", 0.1, (16, 16, 4), 30),
    ):
        found += _async_rows(
            f"steps that {text}",
            lambda rare=rare: Slow(1e-3, 10e-3, rare),
            sizes,
            rounds=rounds,
            target=1.5,
        )
    return found


def _computing(speed: float) -> list[Row]:
    """Compare them for steps that compute, with one worker for each core: not their purpose."""
    found = []
    for text, least, sizes, rounds in (
        ("compute 1-10 ms", 1e-3, (4, 2, 2), 12),
        ("compute 20-200 us", 20e-6, (16, 2, 8), 60),
    ):
        found += _async_rows(
            f"steps that {text}",
            lambda least=least: Slow(least, 10 * least, loops_per_second=speed),
            sizes,
            rounds=rounds,
        )
    return found


def _async_rows(
    case: str,
    create_env: Callable[[], Environment],
    sizes: tuple[int, int, int],
    *,
    rounds: int,
    repeats: int = 7,
    target: float | None = None,
) -> list[Row]:
    """Rows for R rows in P workers, M at once; each repeat is ``rounds`` steps of each row."""
    size, processes, together = sizes
    with (
        ParallelEnv(create_env, size, processes) as parallel,
        AsyncEnv(create_env, size, processes, together) as apart,
    ):
        parallel.reset()
        apart.reset()
        cases = {
            "sync": _stepper(parallel, rounds),
            "async": _stepper(apart, rounds * size // together),
        }
        measured = _turns(cases, repeats)
    return _pair_of_rows(
        f"AsyncEnv, {case}, {size} rows, {processes} workers, M={together}",
        measured["async"].wall,
        measured["sync"].wall,
        "ParallelEnv",
        done=size * rounds,
        target=target,
    )


def _stepper(env: VecEnv, steps: int) -> Callable[[], None]:
    actions = _stay(env.batch_size if isinstance(env, AsyncEnv) else len(env))

    def step() -> None:
        for _ in range(steps):
            env.act(actions)

    return step


def _stay(count: int) -> dict[str, RaggedBufferI64]:
    values = np.full((count, 1), 4, np.int64)
    return {"Go": RaggedBufferI64.from_flattened(values, np.ones(count, np.int64))}


@dataclass(frozen=True)
class _Measured:
    """One function: seconds on the wall, of this process, and of it and its slowest worker."""

    wall: Times
    parent: Times
    path: Times


def _turns(
    cases: Mapping[str, Callable[[], object]],
    repeats: int,
    workers: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, _Measured]:
    """Times of each function, in turns; ``workers`` are the process ids of those it waits for."""
    pids = {name: (workers or {}).get(name, ()) for name in cases}
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in cases}
    for _ in range(repeats + 1):
        for name, function in cases.items():
            before = time.perf_counter(), time.process_time(), *map(_cpu_seconds, pids[name])
            function()
            after = time.perf_counter(), time.process_time(), *map(_cpu_seconds, pids[name])
            wall, parent, *others = (b - a for a, b in zip(before, after, strict=True))
            taken[name].append((wall, parent, parent + max(others, default=0.0)))
    # The first turn warms up.
    return {
        name: _Measured(*(Times(times) for times in zip(*turns[1:], strict=True)))
        for name, turns in taken.items()
    }


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of another process, by Linux's number for its CPU clock."""
    return time.clock_gettime((~pid << 3) | 2)


def _pair_of_rows(
    case: str,
    ours: Times,
    baseline: Times,
    name: str,
    *,
    done: int | None = None,
    target: float | None = None,
    quiet: Sequence[int] = (),
) -> list[Row]:
    """Wall times compared: in all turns, in the fastest quarter of them, in the quiet ones."""
    fastest, other = (Times((_fastest_quarter(times),)) for times in (ours, baseline))
    found = [
        _row(case, ours, baseline, name, done, target),
        _row(f"{case}, fastest quarter", fastest, other, name, done, target),
    ]
    if len(quiet) >= 5:
        one, two = (Times(tuple(t.seconds[turn] for turn in quiet)) for t in (ours, baseline))
        row = _row(f"{case}, second core free", one, two, name, done, target)
        note = f"{len(quiet)} of {len(ours.seconds)} turns: 2 processes gain {QUIET}x around them"
        found.append(replace(row, note=note))
    return found


def _fastest_quarter(times: Times) -> float:
    return statistics.quantiles(times.seconds, n=4)[0]


def _row(
    case: str, ours: Times, baseline: Times, name: str, done: int | None, target: float | None
) -> Row:
    ratios = baseline.ratios(ours)
    edge = len(ratios) // 10
    return Row(
        case=case,
        ours=_figure(ours.median, done),
        baseline=f"{name}: {_figure(baseline.median, done)}",
        ratio=statistics.median(ratios),
        spread=(ratios[edge], ratios[-1 - edge]) if len(ratios) > 1 else None,
        target=target,
    )


def _figure(seconds: float, done: int | None) -> str:
    return f"{seconds * 1e3:.2f} ms" if done is None else f"{done / seconds:,.0f} steps/s"


if __name__ == "__main__":
    print_rows(rows())
