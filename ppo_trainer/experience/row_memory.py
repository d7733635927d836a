"""The memory states of all rows, for networks with a memory."""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ragged_net import RaggedNet
from ragged_net.devices import send

__all__ = ["RowMemory"]


class RowMemory:
    """The memory state of each row, which is set to 0 where the row's episode ends.

    Tensors that were returned never change: each step makes new ones.

    Args:
        net: The network.
        num_rows: Number of rows R.

    Attributes:
        states: Shape: (R, W), float32, on the network's device; None for a network without memory.
    """

    def __init__(self, net: RaggedNet, num_rows: int) -> None:
        self.states: Tensor | None = None
        if net.memory is not None:
            self.states = net.initial_state(num_rows)

    def with_states(self, states: Tensor) -> RowMemory:
        """Return a memory with other rows, whose states are ``states`` (R, W)."""
        other = copy.copy(self)
        other.states = states
        return other

    def of(self, rows: npt.NDArray[np.int64]) -> Tensor | None:
        """Return the states of ``rows`` (B,), in ascending order. Shape: (B, W)."""
        if self.states is None or len(rows) == len(self.states):
            return self.states
        return self.states.index_select(0, send(torch.from_numpy(rows), self.states.device))

    def keep(self, rows: npt.NDArray[np.int64], states: Tensor | None) -> None:
        """Store the states of these rows, in ascending order, after they have acted."""
        if self.states is None or states is None:
            return
        if len(rows) == len(self.states):
            self.states = states
        else:
            places = send(torch.from_numpy(rows), self.states.device)
            self.states = self.states.index_copy(0, places, states)

    def cut(self, done: npt.NDArray[np.bool_]) -> None:
        """Set the states of the rows that are ``done`` (R,) to 0."""
        if self.states is not None and done.any():
            ended = send(torch.from_numpy(done), self.states.device)
            self.states = self.states.masked_fill(ended[:, None], 0.0)
