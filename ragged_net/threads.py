"""The frames of a batch shared among threads, on the CPU.

Kernels give up Python's lock while they run. Torch's own threads are another matter: between two
operations they wait in busy loops, on the cores that these need.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from ragged_net.errors import NetConfigError

if TYPE_CHECKING:
    from ragged_net.kernels.plan import Plan

__all__ = ["get_threads", "set_threads", "shares", "together"]

LEAST = 20_000_000
"""Multiplications, less than half a millisecond. A thread wakes up in up to 0.15: for fewer of them
it does not pay."""
_threads = 1


def set_threads(number: int) -> None:
    """Let so many threads work on a batch on the CPU, as far as it is large enough to pay.

    Results depend on the number in their last digits, as with ``torch.set_num_threads``. That of
    torch is best left at 1 beside it.
    """
    global _threads
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise NetConfigError(
            "threads for the CPU", expected="a whole number >= 1", received=repr(number)
        )
    _threads = number


def get_threads() -> int:
    """What ``set_threads`` has set; 1 before."""
    return _threads


def shares(plan: Plan, dim: int, beside: int) -> list[Plan]:
    """A plan in consecutive parts of nearly equal work, one for each thread.

    Args:
        plan: Of the whole batch. The parts know all its frames, but have only some of its groups.
        dim: D, the width of the rows.
        beside: What a row costs beside attention, which takes 2 * D multiplications for each row
            that it attends to: as much as so many rows more.
    """
    most = 2 * dim * int(plan.starts[-1]) * (beside + plan.longest)
    if min(_threads, most // LEAST) <= 1:
        return [plan]
    begins = plan.starts[plan.groups]
    lengths = plan.starts[plan.groups[:-1] + 1] - begins[:-1]
    work = 2 * dim * np.diff(begins) * (beside + lengths)
    total = int(work.sum())
    parts = max(1, min(_threads, total // LEAST))
    # A group goes where its middle falls.
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


def together(function: Callable[..., None], *shares: Sequence[Any]) -> None:
    """Call ``function`` with the first of all ``shares``, the second ..., all at the same time.

    The last call is made in this thread. Returns when all are done, even where one fails; then its
    error is raised.
    """
    *others, own = zip(*shares, strict=True)
    running = [_pool(os.getpid()).submit(function, *share) for share in others]
    try:
        function(*own)
    finally:
        failed = [error for future in running if (error := future.exception())]  # waits
    if failed:
        raise failed[0]


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of a process: those of its parent do not come along in a fork."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="ragged_net")
