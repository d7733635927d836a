"""Memory: a recurrent cell that reads each pooled frame, and joins it as an additional entity.

memory = Memory(NetConfig(dim=64, memory="lstm", memory_size=256))
recalled = memory(pooled, memory.initial_state(4))  # four frames, each of another game
recalled = memory(pooled, recalled.state[:2], [3, 1])  # three frames of one game, one of another

The cell comes before attention, so that one pass over each frame is enough. In training the cell
steps over the sequences, and then attention reads all of their frames at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from entity_env.errors import BatchError, SettingError
from ragged_net import kernels
from ragged_net.config import NetConfig
from ragged_net.devices import full_precision, send
from ragged_net.frames import Frames, Places
from ragged_net.layout import Layout
from ragged_net.model.encoder import frame_means
from ragged_net.ragged import RaggedTensor
from ragged_net.tensor_checks import check_kind, check_rows

__all__ = ["Joined", "Memory", "Recalled", "Steps", "join", "shown_means"]


@dataclass(frozen=True, eq=False)
class Recalled:
    """The output of a memory for B frames in S sequences.

    Args:
        hidden: Output of the cell for each frame, which it has read. Shape: (B, H).
        entities: The output as an entity of each frame. Shape: (B, D).
        state: State after the last frame of each sequence. Shape: (S, W).
    """

    hidden: Tensor
    entities: Tensor
    state: Tensor


class Memory(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997) or GRU (Cho et al. 2014) over pooled frames.

    A state is a row of W numbers: the output of the GRU, or the output and then the cell of the
    LSTM. Zeros are the state of a game that begins. Computed in the dtype of the parameters, under
    autocast, too, because errors add up over hundreds of steps.

    Args:
        config: ``memory`` is ``lstm`` or ``gru``, ``memory_size`` is H, ``dim`` is D.
    """

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        check_kind("the config of a memory", config, NetConfig)
        if config.memory not in _CELLS:
            raise SettingError(
                "NetConfig.memory is not a cell", received=repr(config.memory), options=_CELLS
            )
        self.kind, self.size, self.dim = config.memory, config.memory_size, config.dim
        kind, parts = _CELLS[config.memory]
        self.state_size = self.size * parts
        self.norm = nn.LayerNorm(config.dim)
        self.cell = kind(config.dim, self.size)
        self.to_entity = nn.Linear(self.size, config.dim)
        self._initialize()

    def _initialize(self) -> None:
        """Draw orthogonal recurrent weights, and open the forget gate.

        Jozefowicz, Zaremba and Sutskever 2015, "An empirical exploration of recurrent network
        architectures": an LSTM whose forget gate begins closed hardly learns to remember.
        """
        weights = dict(self.cell.named_parameters())
        for start in range(0, len(weights["weight_hh_l0"]), self.size):  # gate by gate
            nn.init.orthogonal_(weights["weight_hh_l0"].data[start : start + self.size])
        for bias in (weights["bias_ih_l0"], weights["bias_hh_l0"]):
            nn.init.zeros_(bias)
        if self.kind == "lstm":  # the gates are input, forget, cell, output
            nn.init.ones_(weights["bias_ih_l0"].data[self.size : 2 * self.size])
        nn.init.normal_(self.to_entity.weight, std=self.size**-0.5)
        nn.init.zeros_(self.to_entity.bias)

    def initial_state(self, sequences: int) -> Tensor:
        """Return the states (S, W) of ``sequences`` games that begin, which are zeros."""
        weight = self.to_entity.weight
        return torch.zeros(sequences, self.state_size, dtype=weight.dtype, device=weight.device)

    def forward(
        self, pooled: Tensor, state: Tensor, sequences: Tensor | Sequence[int] | None = None
    ) -> Recalled:
        """Step over the frames of some sequences.

        Args:
            pooled: Vectors of the frames, sequence after sequence, in order of time. Shape: (B, D).
            state: State before the first frame of each sequence. Shape: (S, W).
            sequences: Number of frames of each sequence, preferably on the CPU; None stands for
                sequences of one frame. Shape: (S,).

        Raises:
            BatchError: The state or the lengths do not fit.
        """
        check_rows("the pooled frames", pooled, self.dim)
        frames = pooled.shape[0]
        steps = None if sequences is None else Steps.of(sequences, frames)
        self.check_state(state, frames if steps is None else len(steps.longest_first))
        with full_precision(pooled):
            x = self.norm(pooled.to(state.dtype))
            if not frames:
                hidden, following = x.new_empty(0, self.size), state
            elif steps is None:
                hidden, following = self._step(x, None, state)
            else:
                order, by_length = (send(o, x.device) for o in (steps.frames, steps.longest_first))
                hidden, following = self._step(
                    x.index_select(0, order), steps.sizes, state.index_select(0, by_length)
                )
                hidden = hidden.index_select(0, order.argsort())
                following = following.index_select(0, by_length.argsort())
            return Recalled(hidden, self.to_entity(hidden), following)

    def _step(self, x: Tensor, sizes: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs (B, H) and last states (S, W) of frames that are ordered by step.

        ``sizes`` (T,) are the numbers of frames of the steps; None stands for one step.
        """
        if kernels.sizes_are_open():  # a sequence of one step, written out
            parts = torch.split(state, self.size, dim=1)
            weights = self.cell.all_weights[0]
            if self.kind == "gru":
                hidden = torch.gru_cell(x, *parts, *weights)
                return hidden, hidden
            hidden, carried = torch.lstm_cell(x, parts, *weights)
            return hidden, torch.cat([hidden, carried], 1)
        parts = tuple(part.contiguous() for part in torch.split(state[None], self.size, dim=2))
        sizes = torch.tensor([len(x)]) if sizes is None else sizes
        packed, last = self.cell(PackedSequence(x, sizes), parts if len(parts) > 1 else parts[0])
        following = torch.cat(last, 2) if isinstance(last, tuple) else last
        return packed.data, following.squeeze(0)

    def check_state(self, state: Tensor | None, sequences: int) -> None:
        """Raise BatchError unless ``state`` has the shape for ``sequences`` sequences."""
        weight = self.to_entity.weight
        expected = f"({sequences}, {self.state_size}) {weight.dtype} on {weight.device}"
        hint = "net.initial_state(games) when games begin, then the memory of the output before"
        if not isinstance(state, Tensor):
            raise BatchError(
                f"the network has a memory ({self.kind}), but no state was given",
                expected=f"memory: {expected}",
                received=type(state).__name__,
                hint=hint,
            )
        if (state.shape, state.dtype, state.device) != (
            (sequences, self.state_size),
            weight.dtype,
            weight.device,
        ):
            raise BatchError(
                f"the state of the network's memory ({self.kind}) does not fit",
                expected=expected,
                received=f"{tuple(state.shape)} {state.dtype} on {state.device}",
                hint=hint,
            )


_CELLS: dict[str, tuple[type[nn.LSTM] | type[nn.GRU], int]] = {
    "lstm": (nn.LSTM, 2),
    "gru": (nn.GRU, 1),
}
"""The cell of each kind, and the number of vectors of its state."""


def shown_means(rows: Tensor, layout: Layout, hidden: Tensor | None) -> Tensor:
    """Return the mean (B, D) float32 of each frame's ``rows`` (N, D) that are not hidden.

    A memory of hidden entities would reveal them to the policy. Zeros for a frame without visible
    ones.
    """
    if hidden is None:
        return frame_means(RaggedTensor.unchecked(rows, layout.offsets, layout.known_offsets))
    shown = (~hidden)[:, None].to(torch.float32)
    sums = torch.cat([rows.float() * shown, shown], dim=1)
    means = frame_means(RaggedTensor.unchecked(sums, layout.offsets, layout.known_offsets))
    # With V of N rows visible: (sum / N) / (V / N).
    return means[:, :-1] / means[:, -1:].clamp_min(torch.finfo(torch.float32).tiny)


@dataclass(frozen=True, eq=False)
class Joined:
    """Frames with one additional row each, the last one.

    Args:
        rows: (N + B, D).
        frames: Description of the frames for attention.
        shift: Number of rows by which each of the former rows has moved. Shape: (N,), int64.
    """

    rows: Tensor
    frames: Frames
    shift: Tensor


def join(rows: Tensor, frames: Frames, entities: Tensor, silent: Tensor | None = None) -> Joined:
    """Add one of the ``entities`` (B, D) to each frame of the ``rows`` (N, D).

    They are not hidden and have no position: where the frames have turns, theirs are ``silent``
    (2, D), the turns of a row without a position.
    """
    device = rows.device
    count, before = entities.shape[0], frames.num_rows
    shift = RaggedTensor.unchecked(rows, frames.offsets, frames.known_offsets).frame_ids()
    more = torch.arange(count + 1, device=device)
    offsets = frames.offsets + more
    known = frames.known_offsets
    if known is not None:
        known = known + torch.arange(count + 1)
    places = torch.cat([shift + torch.arange(before, device=device), offsets[1:] - 1])
    # Under autocast the rows may have a narrower dtype than the memory.
    source = torch.cat([rows, entities.to(rows.dtype)])
    joined = torch.empty_like(source).index_copy(0, places, source)
    hidden, turns, places_of = frames.hidden, frames.turns, frames.places
    if hidden is not None:
        hidden = hidden.new_zeros(source.shape[0]).index_copy(0, places[:before], hidden)
    if turns is not None and silent is not None:
        turns = silent.repeat(source.shape[0], 1, 1).index_copy(0, places[:before], turns)
    if places_of is not None:
        places_of = Places(
            *(
                None
                if part is None
                else part.new_zeros(source.shape[0], *part.shape[1:]).index_copy(
                    0, places[:before], part
                )
                for part in places_of
            )  # type: ignore[arg-type]
        )
    whole = Frames(offsets, before + count, hidden, known, turns, places_of)
    return Joined(joined, whole, shift)


@dataclass(frozen=True, eq=False)
class Steps:
    """Step t takes the frame t of each sequence that has so many, the longest sequence first.

    The sequences of a step are a prefix of those of the step before, as in torch's PackedSequence:
    nothing is computed for a frame that does not exist.

    Args:
        longest_first: (S,) int64 on the CPU: the sequences in the order in which they are stepped.
        frames: (B,) int64 on the CPU: the frames, step by step.
        sizes: (T,) int64 on the CPU: the number of frames of each step.
    """

    longest_first: Tensor
    frames: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, lengths: Tensor | Sequence[int], num_frames: int) -> Steps:
        """Return the steps over sequences that follow each other in a batch.

        Args:
            lengths: (S,) whole numbers of at least 1: the frames of each sequence.
            num_frames: B, their sum.

        Raises:
            BatchError: Other lengths.
        """
        counts = np.asarray(lengths.cpu() if isinstance(lengths, Tensor) else lengths)
        if not counts.size:
            counts = counts.astype(np.int64)
        if (
            counts.ndim != 1
            or not np.issubdtype(counts.dtype, np.integer)
            or counts.min(initial=1) < 1
            or counts.sum() != num_frames
        ):
            raise BatchError(
                "the sequences are not those of the batch",
                expected=f"lengths (S,) of at least 1, {num_frames} frames together",
                received=f"{counts.dtype} {counts.shape}: {counts.reshape(-1)[:20].tolist()}",
            )
        counts = counts.astype(np.int64)
        longest_first = np.argsort(-counts, kind="stable")
        rank = np.empty_like(longest_first)
        rank[longest_first] = np.arange(len(counts))
        starts = np.cumsum(counts) - counts
        step = np.arange(num_frames) - np.repeat(starts, counts)
        frames = np.lexsort((np.repeat(rank, counts), step))
        return cls(*map(torch.from_numpy, (longest_first, frames, np.bincount(step))))
