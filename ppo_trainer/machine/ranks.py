"""The processes that train one network together, as ``torchrun`` starts them."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from entity_env.errors import LearnerLostError, SettingError
from entity_env.workers.worker import cut_rows

__all__ = ["LONE", "Ranks", "Share", "local_rank", "open_ranks"]

_RUN, _CAUSE, _LEFT = "ragged_rl/run", "ragged_rl/cause", "ragged_rl/left"
_UNKNOWN = "cause unknown: killed, out of memory, disconnected, or silent for scale.timeout"
_MOST_CAUSE = 2000  # characters


@dataclass(frozen=True)
class Share:
    """One of several equal shares of all rows.

    Args:
        number: Number of the share, from 0 on.
        of: Number of shares.
    """

    number: int = 0
    of: int = 1

    def cut(self, rows: int, together: int) -> tuple[int, int]:
        """Return the first row of this share, and the number of its rows.

        Args:
            rows: Number of all rows R, a multiple of ``together``.
            together: Number of rows that must be in one share, such as the seats of a game.

        Raises:
            SettingError: There are fewer games than shares.
        """
        if rows // together < self.of:
            raise SettingError(
                f"{self.of} processes share the rows, and each needs some of its own",
                expected=f"rollout.num_envs={self.of * together} or more",
                received=rows,
            )
        return cut_rows(rows, self.of, together)[self.number]


class Ranks:
    """The processes that train one network, each on its part of the rows; usually one alone.

    They communicate by ``torch.distributed``. All of them must call the same methods in the same
    order, because each call waits for the others. A process alone does not wait.

    Args:
        group: Process group of ``torch.distributed``; None for a process alone.
        store: Key-value store of the group, which contains the reason why a process has ended.
    """

    def __init__(self, group: Any = None, store: Any = None) -> None:
        self._group, self._store = group, store
        self.rank = 0 if group is None else int(group.rank())
        self.size = 1 if group is None else int(group.size())

    @property
    def is_first(self) -> bool:
        """True in the one process that writes the run folder and prints."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """True if there is no other process."""
        return self.size == 1

    @property
    def share(self) -> Share:
        """The share of all rows that this process plays."""
        return Share(self.rank, self.size)

    def add(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by the sum over all processes, which is the same in each bit for bit."""
        if not self.is_alone:
            self._wait(lambda: self._group.allreduce([tensor]))
        return tensor

    def stacked(self, tensor: Tensor) -> Tensor:
        """Return the tensors of all processes, which have the same shape. Shape: (N, ...)."""
        if self.is_alone:
            return tensor[None]
        every = [torch.empty_like(tensor) for _ in range(self.size)]
        self._wait(lambda: self._group.allgather([every], [tensor.contiguous()]))
        return torch.stack(every)

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all processes, which may differ in their numbers of rows."""
        if self.is_alone:
            return [tensor]
        counts = self.stacked(torch.tensor([len(tensor)])).flatten().tolist()
        room = tensor.new_zeros(max(counts), *tensor.shape[1:])
        room[: len(tensor)] = tensor
        every = self.stacked(room)
        return [tensor[:count] for tensor, count in zip(every, counts, strict=True)]

    def gathered_json(self, value: Any) -> list[Any]:
        """Return the JSON values of all processes."""
        if self.is_alone:
            return [value]
        text = torch.from_numpy(np.frombuffer(json.dumps(value).encode(), np.uint8).copy())
        return [json.loads(tensor.numpy().tobytes()) for tensor in self.gathered(text)]

    def of_first(self, value: Any) -> Any:
        """Return the JSON value of the first process."""
        return self.gathered_json(value if self.is_first else None)[0]

    def made_by_first(self, make: Callable[[], Any]) -> Any:
        """Return the JSON value that ``make`` returns in the first process.

        Raises:
            LearnerLostError: In the other processes, if ``make`` raised an error in the first.
        """
        error, value = None, None
        if self.is_first:
            try:
                value = make()
            except Exception as raised:
                error = raised
                self._store_cause(raised)
        if self.any(error is not None):
            raise self._lost() if error is None else error
        return self.of_first(value)

    def of_first_tensor(self, tensor: Tensor) -> Tensor:
        """Return the tensor of the first process, which must have the same shape."""
        return tensor if self.is_alone else self.stacked(tensor)[0]

    def any(self, is_so: bool) -> bool:
        """Return True if ``is_so`` is True in any process."""
        return is_so if self.is_alone else bool(self.stacked(torch.tensor([is_so])).any())

    def leave(self, patience: float = 10.0) -> None:
        """Let the first process wait until the others have called this, or for ``patience`` s.

        This is no collective operation, because a signal may have interrupted one.
        """
        if self.is_alone:
            return
        key, end = f"{_LEFT}/{_restarts()}", time.monotonic() + patience
        count = self._store.add(key, 1)
        while self.is_first and count < self.size and time.monotonic() < end:
            time.sleep(0.05)
            count = self._store.add(key, 0)

    def remember_run(self, path: str) -> None:
        """Store the run folder for the processes that ``torchrun`` starts in place of these."""
        if self._store is not None:
            self._store.set(_RUN, path)

    def remembered_run(self) -> str | None:
        """Return the run folder of the earlier processes, if ``torchrun`` has started new ones."""
        if self._store is None or not _restarts():
            return None
        return self._store.get(_RUN).decode() if self._store.check([_RUN]) else None

    @contextlib.contextmanager
    def sharing_errors(self) -> Iterator[None]:
        """Store an error that ends this process, so that the others can name it."""
        try:
            yield
        except LearnerLostError:
            raise
        except BaseException as error:
            self._store_cause(error)
            raise

    def _wait(self, begin: Callable[[], Any]) -> None:
        """Wait for a collective operation.

        Raises:
            LearnerLostError: A process has ended, or has not taken part within the timeout.
        """
        try:
            begin().wait()
        except RuntimeError as error:
            raise self._lost() from error

    def _lost(self) -> LearnerLostError:
        return LearnerLostError(
            "another process of this training has ended",
            received=self._cause() or _UNKNOWN,
            hint="torchrun --max-restarts=3 restarts all of them and resumes the run",
        )

    def _store_cause(self, error: BaseException) -> None:
        """Store the error that ends this process."""
        if self._store is not None:
            with contextlib.suppress(Exception):
                text = f"{type(error).__name__}: {error}"[:_MOST_CAUSE]
                self._store.set(f"{_CAUSE}/{_restarts()}", f"process {self.rank}: {text}")

    def _cause(self) -> str | None:
        """Return the error that another process has stored, which may take a moment to arrive."""
        key, end = f"{_CAUSE}/{_restarts()}", time.monotonic() + 1
        with contextlib.suppress(Exception):
            while self._store is not None and time.monotonic() < end:
                if self._store.check([key]):
                    return str(self._store.get(key).decode())
                time.sleep(0.05)
        return None


LONE = Ranks()
"""A process alone."""


def open_ranks(timeout: float) -> Ranks:
    """Return the connected processes that ``torchrun`` has started, or this process alone.

    Args:
        timeout: Seconds after which a process that has not connected counts as lost.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return LONE
    import torch.distributed as dist
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    wait = datetime.timedelta(seconds=timeout)
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    # The store of torchrun itself outlives the processes.
    store = TCPStore(host, port, is_master=False, timeout=wait)
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        # A prefix for each start, because processes that were killed have left their addresses
        # there.
        prefixed = PrefixStore(f"start {_restarts()}", store)
        dist.init_process_group(backend, store=prefixed, rank=rank, world_size=size, timeout=wait)
        atexit.register(_close)
    return Ranks(dist.group.WORLD if dist.get_world_size() > 1 else None, store)


def local_rank() -> int | None:
    """Return the number of this process on its machine, or None without ``torchrun``."""
    return int(os.environ["LOCAL_RANK"]) if "TORCHELASTIC_RUN_ID" in os.environ else None


def _restarts() -> str:
    number = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return "" if number == "0" else number


def _close() -> None:
    import torch.distributed as dist

    with contextlib.suppress(Exception):
        dist.destroy_process_group()
