"""The distribution of a batch's frames among threads, on the CPU.

Kernels release Python's lock while they run. Torch's own threads are different: between two
operations they wait in busy loops, on the cores that these threads need.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from entity_env.errors import SettingError

if TYPE_CHECKING:
    from ragged_net.kernels.plan import Plan

__all__ = ["get_threads", "set_threads", "shares", "together"]

LEAST = 20_000_000
"""Minimum number of multiplications of a thread, less than half a millisecond. A thread takes up to
0.15 ms to wake up, so that a smaller number would not be faster."""
_threads = 1
_Queue = SimpleQueue[Any]


def set_threads(number: int) -> None:
    """Set the number of threads that share a batch on the CPU, if it is large enough.

    The last digits of weights' gradients depend on the number. Also call
    ``torch.set_num_threads(1)``, which leaves the cores to these threads.
    """
    global _threads
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise SettingError(
            "threads for the CPU", expected="a whole number >= 1", received=repr(number)
        )
    _threads = number


def get_threads() -> int:
    """Return the number of threads that ``set_threads`` has set; 1 before."""
    return _threads


def shares(plan: Plan, dim: int, beside: int) -> list[Plan]:
    """Return a plan in consecutive parts of nearly equal work, one for each thread.

    Args:
        plan: Plan of the whole batch. Each part contains all frames, but only some of the groups.
        dim: Width D of the rows.
        beside: Cost of a row outside of attention, in rows that a row attends to. Attention takes 2
            * D multiplications for each of them.
    """
    most = 2 * dim * int(plan.starts[-1]) * (beside + plan.longest)
    if min(_threads, most // LEAST) <= 1:
        return [plan]
    begins = plan.starts[plan.groups]
    lengths = plan.starts[plan.groups[:-1] + 1] - begins[:-1]
    work = 2 * dim * np.diff(begins) * (beside + lengths)
    total = int(work.sum())
    parts = max(1, min(_threads, total // LEAST))
    # A group belongs to the part that contains its middle.
    middles = np.cumsum(work) - work // 2
    cuts = np.searchsorted(middles, total * np.arange(1, parts) // parts)
    ends = np.unique([0, *cuts, len(work)]).tolist()
    return [_part(plan, first, end) for first, end in itertools.pairwise(ends)]


def _part(plan: Plan, first: int, end: int) -> Plan:
    return plan._replace(
        groups=plan.groups[first : end + 1],
        in_lanes=plan.in_lanes[first:end],
        kept=plan.kept[first : end + 1],
    )


def together(function: Callable[..., None], *arguments: Sequence[Any]) -> None:
    """Call ``function`` with the first of all ``arguments``, the second ..., all at the same time.

    The last call runs in this thread. Returns when all are done, even if one raises an error, which
    is raised then; only Ctrl-C is raised at once. ``function`` must not call this function.
    """
    *others, last = zip(*arguments, strict=True)
    if not others:
        function(*last)
        return
    tasks, done = _workers.tasks(len(others)), _Queue()
    for values in others:
        tasks.put((function, values, done))
    try:
        function(*last)
    finally:
        errors = [done.get() for _ in others]
    for error in errors:
        if error is not None:
            raise error


class _Workers:
    """Threads that end with the program; an executor would refuse work shortly before its end."""

    def __init__(self) -> None:
        self._tasks, self._threads, self._lock = _Queue(), 0, threading.Lock()

    def tasks(self, threads: int) -> _Queue:
        """Return the queue of tasks, after starting at least so many threads."""
        with self._lock:
            while self._threads < threads:
                work = threading.Thread(target=_serve, args=(self._tasks,), daemon=True)
                work.start()
                self._threads += 1
        return self._tasks


def _serve(tasks: _Queue) -> None:
    while True:
        function, values, done = tasks.get()
        error = None
        try:
            function(*values)
        except BaseException as failure:
            error = failure
        done.put(error)
        # Otherwise these names would keep arrays in memory until the next task.
        del function, values, done, error


_workers = _Workers()


def _begin_anew() -> None:
    global _workers
    _workers = _Workers()


if hasattr(os, "register_at_fork"):  # threads do not exist in a forked process
    os.register_at_fork(after_in_child=_begin_anew)
