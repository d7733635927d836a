"""CUDA graphs: what a GPU repeats is told to it once, and then begun with a single call.

A graph reads and writes the same memory each time. What it works on therefore lies in buffers that
have room for a little more than is there, and frames that are nobody's take up the rest
(``experience/padding.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from ppo_trainer.machine.screen import say
from ragged_net import RaggedNet
from ragged_net.compiled.autograd import all_are_watched
from ragged_net.gpu.attention import WIDEST, available
from ragged_net.model.trunk import OwnTrunk

__all__ = ["MOST_LIVE", "Graphs", "Rooms", "capture", "room_for"]

MOST_LIVE = 4
"""Graphs of one kind that are kept; each has the memory of its buffers."""
_WARM_UPS = 3
"""Calls before a capture: libraries choose algorithms, and take memory of their own, at first."""

Action = Callable[[], None]


class Capture(Protocol):
    """The function ``capture``, or another one in its place."""

    def __call__(
        self, action: Action, device: torch.device, generator: torch.Generator | None
    ) -> Action:
        """Return what repeats ``action``."""


def capture(action: Action, device: torch.device, generator: torch.Generator | None) -> Action:
    """Return a call that lets the GPU repeat what ``action`` does.

    Args:
        action: Reads and writes the same tensors each time, and waits for nothing.
        device: Where these are.
        generator: Where its random numbers come from; it is left as it was found.
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
    """Return the memory that all graphs of a device share: never do two of them run at once."""
    device = torch.cuda.current_device()
    if device not in _pools:
        _pools[device] = torch.cuda.graph_pool_handle()
    return _pools[device]


def room_for(count: int) -> int:
    """Return the room for ``count`` rows and some more, of which at least two are nobody's."""
    return 0 if not count else 16 * math.ceil((1.125 * count + 2) / 16)


T = TypeVar("T")


class Rooms(Generic[T]):
    """Things made for some sizes, which serve others that fit."""

    def __init__(self) -> None:
        self._made: list[tuple[object, tuple[int, ...], T]] = []
        self._found = self._makes = 0
        self._signature: object = None

    def find(self, kind: object, sizes: tuple[int, ...], make: Callable[[tuple[int, ...]], T]) -> T:
        """Return what has room for ``sizes`` and not for many more, made now if there is none.

        Args:
            kind: All that must be the same.
            sizes: How many rows each buffer must take. Where there are none, it has no room.
            make: Makes it, from the rooms of the buffers.
        """
        self._found += 1
        for i, (own, rooms, made) in enumerate(self._made):
            if own == kind and all(map(_fits, sizes, rooms)):
                self._made.append(self._made.pop(i))  # those that are used least go first
                return made
        del self._made[: max(0, len(self._made) - MOST_LIVE + 1)]
        self._makes += 1
        rooms = tuple(map(room_for, sizes))
        made = make(rooms)
        self._made.append((kind, rooms, made))
        return made

    @property
    def thrash(self) -> bool:
        """True if more than a fourth of what is asked for has to be made."""
        return self._makes >= 4 * MOST_LIVE and 4 * self._makes > self._found

    def keep_for(self, signature: object) -> None:
        """Forget what was made for another ``signature``."""
        if signature != self._signature:
            self._made.clear()
        self._signature = signature

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._made)


def _fits(count: int, room: int) -> bool:
    return count + 2 <= room <= 2 * room_for(count) if count else room == 0


class Graphs:
    """The use of graphs by one network, until something cannot be captured.

    Args:
        net: The network.
    """

    def __init__(self, net: RaggedNet) -> None:
        self._net = net
        self.refused: str | None = None

    def begin(self, device: torch.device, rooms: Rooms[Any]) -> bool:
        """Return True if the network may be captured now; the first time that it may not is told.

        Args:
            device: Where the network is.
            rooms: Those of graphs that it is in already, emptied if they are of other weights.
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
        """Return ``rooms.find(kind, sizes, make)``; None, and a line that says why, if it fails.

        Args:
            rooms: Of the graphs.
            kind: As ``find`` takes it.
            sizes: As ``find`` takes them.
            make: As ``find`` takes it.
            setting: What to lower where there is too little memory.
        """
        if rooms.thrash:
            self.refuse("the sizes of batches change too often")
            return None
        try:
            return rooms.find(kind, sizes, make)
        except torch.cuda.OutOfMemoryError:
            rooms.keep_for(None)
            self.refuse(f"no memory for one with room for {sizes} rows; lower {setting}")
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            self.refuse(f"the network cannot be captured: {reason[:200]}")
        return None

    def refuse(self, reason: str) -> None:
        """From now on run without graphs, and say why."""
        self.refused = reason
        say(f"without CUDA graphs, slower: {reason}")


def _has_graphs(device: torch.device) -> bool:
    return device.type == "cuda" and hasattr(torch.cuda.CUDAGraph, "register_generator_state")


def _obstacle(net: RaggedNet, device: torch.device) -> str | None:
    """Return what keeps a network from being captured."""
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
        own._backward_hooks or getattr(own, "_post_accumulate_grad_hooks", None)
        for own in module.parameters(recurse=False)
    )
    return any(getattr(module, kind) for kind in kinds) or any(of_parameters)


def _signature(net: RaggedNet) -> object:
    """Return what a graph of a network depends on: its modules, and where its weights are."""
    weights = [(own.data_ptr(), own.requires_grad) for own in net.parameters()]
    return [*map(id, net.modules())], weights, [own.data_ptr() for own in net.buffers()]
