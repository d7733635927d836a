"""CUDA graphs: a GPU records a sequence of operations once, and repeats it with a single call.

A graph reads and writes the same memory each time. Its input therefore lies in buffers with room
for a little more than the present batch, and frames of slack fill the rest
(``experience/padding.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from ppo_trainer.machine.screen import log
from ragged_net import RaggedNet
from ragged_net.compiled.autograd import all_are_watched
from ragged_net.gpu.attention import WIDEST, available
from ragged_net.model.encoder import OwnTrunk

__all__ = ["MOST_LIVE", "Graphs", "Rooms", "capture", "room_for"]

MOST_LIVE = 4
"""Maximum number of graphs of one kind; each has the memory of its buffers."""
_WARM_UPS = 3
"""Calls before a capture, in which libraries choose algorithms and allocate memory."""

Action = Callable[[], None]


class Capture(Protocol):
    """The interface of ``capture``, which tests replace."""

    def __call__(
        self, action: Action, device: torch.device, generator: torch.Generator | None
    ) -> Action:
        """Return a function that repeats ``action``."""


def capture(action: Action, device: torch.device, generator: torch.Generator | None) -> Action:
    """Return a function that repeats the operations of ``action`` on the GPU.

    Args:
        action: Function that reads and writes the same tensors each time, and never waits for the
            GPU.
        device: Device of the tensors.
        generator: Random number generator of the operations; its state is not changed here.
    """
    before = None if generator is None else generator.get_state()
    with torch.cuda.device(device):
        side: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                action()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        if generator is not None and before is not None:
            generator.set_state(before)
            graph.register_generator_state(generator)
        # Threads of an environment in this process may use the device meanwhile.
        with torch.cuda.graph(graph, pool=_pool(), capture_error_mode="thread_local"):
            action()

    def replay() -> None:
        with torch.cuda.device(device):
            graph.replay()

    return replay


_pools: dict[int, Any] = {}


def _pool() -> Any:
    """Return the memory pool that all graphs of a device share; only one of them runs at a time."""
    device = torch.cuda.current_device()
    if device not in _pools:
        _pools[device] = torch.cuda.graph_pool_handle()
    return _pools[device]


def room_for(count: int) -> int:
    """Return the room for ``count`` rows: some more, of which at least two are slack."""
    return 0 if not count else 16 * math.ceil((1.125 * count + 2) / 16)


T = TypeVar("T")


class Rooms(Generic[T]):
    """A cache of objects made for certain sizes, which also serve smaller sizes."""

    def __init__(self) -> None:
        self._made: list[tuple[object, tuple[int, ...], T]] = []
        self._found = self._makes = 0
        self._signature: object = None

    def find(self, kind: object, sizes: tuple[int, ...], make: Callable[[tuple[int, ...]], T]) -> T:
        """Return an object with room for ``sizes`` and few more, and make one if there is none.

        Args:
            kind: Key of everything that must be equal.
            sizes: Number of rows that each buffer must hold. A buffer for 0 rows has no room.
            make: Function that makes an object from the rooms of its buffers.
        """
        self._found += 1
        for i, (known, rooms, made) in enumerate(self._made):
            if known == kind and all(map(_fits, sizes, rooms)):
                self._made.append(self._made.pop(i))  # the least recently used goes first
                return made
        del self._made[: max(0, len(self._made) - MOST_LIVE + 1)]
        self._makes += 1
        rooms = tuple(map(room_for, sizes))
        made = make(rooms)
        self._made.append((kind, rooms, made))
        return made

    @property
    def thrash(self) -> bool:
        """True if more than a quarter of the calls had to make an object."""
        return self._makes >= 4 * MOST_LIVE and 4 * self._makes > self._found

    def keep_for(self, signature: object) -> None:
        """Drop all objects that were made for another ``signature``."""
        if signature != self._signature:
            self._made.clear()
        self._signature = signature

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._made)


def _fits(count: int, room: int) -> bool:
    return count + 2 <= room <= 2 * room_for(count) if count else room == 0


class Graphs:
    """The switch of one network's graphs, which stays off once something cannot be captured.

    Args:
        net: The network.
    """

    def __init__(self, net: RaggedNet) -> None:
        self._net = net
        self.refused: str | None = None

    def begin(self, device: torch.device, rooms: Rooms[Any]) -> bool:
        """Return True if the network may be captured now; print a line the first time it may not.

        Args:
            device: Device of the network.
            rooms: Its present graphs, which are dropped if they are of other weights.
        """
        if not _has_graphs(device):
            return False
        if self.refused is None and (reason := _obstacle(self._net, device)) is not None:
            self.refuse(reason)
        rooms.keep_for(_signature(self._net))
        return self.refused is None

    def attempt(
        self,
        rooms: Rooms[T],
        kind: object,
        sizes: tuple[int, ...],
        make: Callable[[tuple[int, ...]], T],
        setting: str,
    ) -> T | None:
        """Return ``rooms.find(kind, sizes, make)``, or None after printing the reason if it fails.

        Args:
            rooms: The graphs.
            kind: See ``find``.
            sizes: See ``find``.
            make: See ``find``.
            setting: Name of the setting to lower if there is too little memory.
        """
        if rooms.thrash:
            self.refuse("the sizes of batches change too often")
            return None
        try:
            return rooms.find(kind, sizes, make)
        except torch.cuda.OutOfMemoryError:
            rooms.keep_for(None)
            self.refuse(f"too little memory for a graph with {sizes} rows; lower {setting}")
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            self.refuse(f"the network cannot be captured: {reason[:200]}")
        return None

    def refuse(self, reason: str) -> None:
        """Use no graphs from now on, and print the reason."""
        self.refused = reason
        log(f"running without CUDA graphs, which is slower: {reason}")


def _has_graphs(device: torch.device) -> bool:
    return device.type == "cuda" and hasattr(torch.cuda.CUDAGraph, "register_generator_state")


def _obstacle(net: RaggedNet, device: torch.device) -> str | None:
    """Return the reason why a network cannot be captured, or None."""
    if net.memory is not None:
        return "the network has a memory (net.memory)"
    if net.grids is not None:
        return "the game shows a Grid"
    if net.translation is not None:
        return "positions are translated (net.translation)"
    if isinstance(net.encoder.transformer, OwnTrunk):
        return "the network has a trunk of its own"
    for config in (net.config, net.value_config or net.config):
        if config.position_bias or config.attention not in ("auto", "triton"):
            return "attention does not run in Triton (net.attention, net.relative_position.kind)"
        if config.dim // config.heads > WIDEST:
            return f"heads are wider than {WIDEST} (net.dim, net.heads)"
    if not available(device):
        return "attention does not run in Triton"
    if all_are_watched() or any(map(_has_hooks, net.modules())):
        return "modules have hooks"
    return None


def _has_hooks(module: nn.Module) -> bool:
    kinds = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    of_parameters = (
        parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
        for parameter in module.parameters(recurse=False)
    )
    return any(getattr(module, kind) for kind in kinds) or any(of_parameters)


def _signature(net: RaggedNet) -> object:
    """Return the modules and addresses of weights that a graph of a network depends on."""
    weights = [(parameter.data_ptr(), parameter.requires_grad) for parameter in net.parameters()]
    return [*map(id, net.modules())], weights, [tensor.data_ptr() for tensor in net.buffers()]
