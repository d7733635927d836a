"""Conversion of the flat arrays of a compiled game to a ``VecObs``, and of actions to choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from entity_env.batching.vec_obs import VecCategoricalActionMask, VecObs, VecSelectEntityActionMask
from entity_env.errors import ActionError, counted
from entity_env.rows.compiled_game import CompiledGame
from entity_env.rows.game_kernel import KernelPlan
from entity_env.rows.jit import kernel
from entity_env.spaces import ActionName

__all__ = ["FrameWriter", "Written"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]
_Whole: TypeAlias = npt.NDArray[np.int64]


@dataclass(slots=True)
class Written:
    """The arrays that a kernel writes, as ``kernel_text`` describes them.

    The next call overwrites all arrays except ``shown`` and ``metrics``.

    Args:
        lengths: Lengths of the lists, in the first ``count`` columns. Shape: (L, rows).
        shown: A copy of ``lengths``.
        frames: The buffers.
        rows: The rows, in the first ``count`` elements. Shape: (rows,).
        over: True for games that have ended. Shape: (games,).
        last_lengths: Lengths for ``last``, in the first ``cut_off`` columns. Shape: (K, rows).
        last: The buffers of last observations.
        metrics: Shape: (M, rows).
        totals: The number of used rows of each buffer, L numbers.
        last_totals: The number of used rows of each buffer of ``last``, K numbers.
        count: The number of frames.
        cut_off: The number of rows that were cut off.
        ended: The number of episodes that ended.
    """

    lengths: npt.NDArray[np.int64]
    shown: npt.NDArray[np.int64]
    frames: Arrays
    rows: npt.NDArray[np.int64]
    over: npt.NDArray[np.bool_]
    last_lengths: npt.NDArray[np.int64]
    last: Arrays
    metrics: npt.NDArray[np.float64]
    totals: Sequence[int] = ()
    last_totals: Sequence[int] = ()
    count: int = 0
    cut_off: int = 0
    ended: int = 0


class FrameWriter:
    """A writer of ``VecObs`` from copies of the arrays of kernels.

    Args:
        game: The game.
        plan: The lists of its frames.
        rows: The number of rows R.
    """

    def __init__(self, game: CompiledGame, plan: KernelPlan, rows: int) -> None:
        self._game, self._plan = game, plan
        self._metrics, self._has_values = plan.metrics, game.global_features is not None
        self._may_leave = game.may_leave
        self._types = [(name, k) for k, name in enumerate(game.obs_space.entities)]
        self._actions = [
            (name, row, plan.masks.get(name), plan.pairs.get(name))
            for name, row in plan.actors.items()
        ]
        self._nothing, _ = self.room(0)
        self._no_values = np.empty((rows, 0), np.float32)
        self._blanks: dict[int, list[Any]] = {}
        self._answered: Written | None = None

    def room(self, rows: int) -> tuple[Arrays, Arrays]:
        """Return the buffers ``frames`` and ``last`` for ``rows`` rows."""
        game, plan, types = self._game, self._plan, self._game.obs_space.entities
        most = {name: game.most_entities(name) for name in game.entities}

        def entities() -> list[npt.NDArray[Any]]:
            return [np.empty((rows * most[n], len(types[n].features)), np.float32) for n in types]

        frames, masks = entities(), []
        for name, space in game.action_space.items():
            actors = game.actions[name]
            acting = 1 if actors.of is None else most[actors.of]
            frames.append(np.empty((rows * acting, 1), np.int64))
            if space.selects:
                targets = sum(most[target] for target in actors.targets) if acting else 0
                frames.append(np.empty((rows * targets, 1), np.int64))
                if name in plan.pairs:
                    frames.append(np.empty((rows * acting * targets, 1), np.bool_))
            else:
                choices = len(space)  # type: ignore[arg-type]
                masks.append(np.empty((rows * acting, choices), np.bool_))
        values = [np.empty((rows, len(game.obs_space.global_features)), np.float32)]
        return (*frames, *masks, *values), (*entities(), values[0].copy())

    def write(
        self,
        parts: Sequence[Written],
        reward: npt.NDArray[np.float32],
        done: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
    ) -> VecObs:
        """Return the observation of all rows. The arrays are those of ``VecObs``."""
        self._answered = one = parts[0] if len(parts) == 1 else self._joined(parts)
        count, frames, totals = one.count, one.frames, one.totals
        lengths = one.shown if count == one.shown.shape[1] else one.shown[:, :count]
        features: dict[str, Any] = {}
        masks: dict[str, Any] = {}
        # Without a function for each list, which would take a fifth of the time.
        blanks = self._blanks_of(count)
        for name, k in self._types:
            total = totals[k]
            if total:
                features[name] = _FLOATS(frames[k][:total], lengths[k])
            else:
                features[name] = blanks[k].clone()
        for name, row, mask, pairs in self._actions:
            total = totals[row]
            if mask is not None and total:
                own = lengths[row]
                masks[name] = VecCategoricalActionMask(
                    _WHOLES(frames[row][:total], own), _BOOLS(frames[mask][:total], own)
                )
            elif mask is not None:
                masks[name] = VecCategoricalActionMask(blanks[row].clone(), blanks[mask].clone())
            elif total:
                to = row + 1
                masks[name] = VecSelectEntityActionMask(
                    _WHOLES(frames[row][:total], lengths[row]),
                    _WHOLES(frames[to][: totals[to]], lengths[to]),
                    None
                    if pairs is None
                    else _BOOLS(frames[pairs][: totals[pairs]], lengths[pairs]),
                )
            else:
                masks[name] = _nobody_selects(blanks, row, pairs)
        ended: Mapping[str, npt.NDArray[np.float64]] = {}
        if one.ended:
            ended = dict(zip(self._metrics, one.metrics, strict=True))
        values = frames[-1][:count].copy() if self._has_values else self._no_values
        if len(values) != count:
            values = values[:count]
        return VecObs(
            features=features,
            action_masks=masks,
            reward=reward,
            done=done,
            truncated=truncated,
            global_features=values,
            metrics=ended,
            final=self._final(one, reward[truncated]) if one.cut_off else None,
            rows=one.rows[:count].copy() if self._game.seats else None,
            over=np.repeat(one.over, self._game.seats or 1) if self._may_leave else None,
        )

    def legal(
        self, actions: Mapping[ActionName, RaggedBufferI64]
    ) -> tuple[dict[ActionName, RaggedBufferI64], list[npt.NDArray[np.int64]]] | None:
        """Return the actions in order if they fit the last frames, or None.

        Actions for which this quick check returns None may still be valid.

        Returns:
            The actions, and the choices in each of them, (A, 1).
        """
        one = self._answered
        legal: dict[str, RaggedBufferI64] = {}
        choices: list[npt.NDArray[np.int64]] = []
        if one is None or type(actions) is not dict or len(actions) != len(self._actions):
            return None
        for name, row, mask, pairs in self._actions:
            chosen = actions.get(name)
            if not isinstance(chosen, RaggedBufferI64) or chosen.size0() != one.count:
                return None
            if chosen.size2() != 1:
                return None
            legal[name] = chosen = chosen.materialize()  # it may be a view
            flat = chosen.as_array()
            choices.append(flat)
            if not len(flat) and not one.totals[row]:
                continue
            given = flat, chosen.size1(), one.lengths, row
            if mask is not None:
                if not _are_allowed(*given, one.frames[mask]):
                    return None
            else:
                allowed = _ALL_PAIRS if pairs is None else one.frames[pairs]
                if not _are_selectable(*given, one.frames[row + 1], allowed):
                    return None
        return legal, choices

    def check_lengths(self, chosen: Sequence[npt.NDArray[np.int64]]) -> None:
        """Raise ActionError unless there is a choice for each actor of the last frames.

        The observation with which choices were compared may have been changed.
        """
        one = self._answered
        for (name, row), own in zip(self._plan.actors.items(), chosen, strict=True):
            if one is not None and own.shape != (one.totals[row], 1) and len(own) + one.totals[row]:
                raise ActionError(
                    f"action {name!r} does not fit the rows: their observation was changed",
                    expected=counted(one.totals[row], "choice"),
                    received=f"shape {own.shape}",
                )

    def _final(self, one: Written, reward: npt.NDArray[np.float32]) -> VecObs:
        """Return the last observations of rows that were cut off, in which nobody can act."""
        count = one.cut_off
        masks: dict[str, Any] = {}
        lengths, blanks = one.last_lengths[:, :count].copy(), self._blanks_of(count)
        for name, row, mask, pairs in self._actions:
            if mask is None:
                masks[name] = _nobody_selects(blanks, row, pairs)
            else:
                masks[name] = VecCategoricalActionMask(blanks[row].clone(), blanks[mask].clone())
        return VecObs(
            features={
                name: _FLOATS(one.last[k][: one.last_totals[k]], lengths[k])
                for name, k in self._types
            },
            action_masks=masks,
            reward=reward,
            done=np.ones(count, np.bool_),
            truncated=np.ones(count, np.bool_),
            global_features=one.last[-1][:count].copy(),
        )

    def _blanks_of(self, frames: int) -> list[Any]:
        """Return ``frames`` empty frames of each buffer; copies are four times as fast."""
        blanks = self._blanks.get(frames)
        if blanks is None:
            if len(self._blanks) > 1000:  # games with turns have many numbers of frames
                self._blanks.clear()
            none = np.zeros(frames, np.int64)
            blanks = [_KINDS[own.dtype](own, none.copy()) for own in self._nothing]
            self._blanks[frames] = blanks
        return blanks

    def _joined(self, parts: Sequence[Written]) -> Written:
        """Return the results of all parts as one."""
        # Masks are as long as the list of their actors, global features as there are frames.
        masks = [self._plan.actors[name] for name in self._plan.masks]
        own = [[*p.totals, *(p.totals[row] for row in masks), p.count] for p in parts]
        last = [[*p.last_totals, p.cut_off] for p in parts]

        def buffers(name: str, totals: list[list[int]]) -> Arrays:
            return tuple(
                np.concatenate([whole[:n] for whole, n in zip(wholes, counts, strict=True)])
                for wholes, counts in zip(
                    zip(*(getattr(p, name) for p in parts), strict=True),
                    zip(*totals, strict=True),
                    strict=True,
                )
            )

        lengths = np.concatenate([p.lengths[:, : p.count] for p in parts], axis=1)
        return Written(
            lengths=lengths,
            shown=lengths.copy(),
            frames=buffers("frames", own),
            rows=np.concatenate([p.rows[: p.count] for p in parts]),
            over=np.concatenate([p.over for p in parts]),
            last_lengths=np.concatenate([p.last_lengths[:, : p.cut_off] for p in parts], axis=1),
            last=buffers("last", last),
            metrics=np.concatenate([p.metrics for p in parts], axis=1),
            totals=[sum(counts) for counts in zip(*(p.totals for p in parts), strict=True)],
            last_totals=[sum(c) for c in zip(*(p.last_totals for p in parts), strict=True)],
            count=sum(p.count for p in parts),
            cut_off=sum(p.cut_off for p in parts),
            ended=sum(p.ended for p in parts),
        )


def _nobody_selects(blanks: list[Any], row: int, pairs: int | None) -> VecSelectEntityActionMask:
    allowed = None if pairs is None else blanks[pairs].clone()
    return VecSelectEntityActionMask(blanks[row].clone(), blanks[row + 1].clone(), allowed)


_FLOATS = RaggedBufferF32.from_flattened
_WHOLES = RaggedBufferI64.from_flattened
_BOOLS = RaggedBufferBool.from_flattened
_KINDS: dict[Any, Any] = {
    np.dtype(np.float32): _FLOATS,
    np.dtype(np.int64): _WHOLES,
    np.dtype(np.bool_): _BOOLS,
}
_ALL_PAIRS = np.ones((0, 1), np.bool_)


@kernel
def _are_allowed(
    chosen: _Whole, counts: _Whole, lengths: _Whole, row: int, mask: npt.NDArray[np.bool_]
) -> bool:
    """Return True if each actor of a categorical action has one choice that its mask allows."""
    for frame in range(len(counts)):
        if counts[frame] != lengths[row, frame]:
            return False
    legal: Any = True
    for i in range(len(chosen)):
        choice = chosen[i, 0]
        if choice < 0 or choice >= mask.shape[1]:
            return False
        legal &= mask[i, choice]
    return legal  # type: ignore[no-any-return]


@kernel
def _are_selectable(
    chosen: _Whole,
    counts: _Whole,
    lengths: _Whole,
    row: int,
    actees: _Whole,
    pairs: npt.NDArray[np.bool_],
) -> bool:
    """Return True if each actor has selected an actee; empty ``pairs`` allow all.

    The list of actees, ``row`` + 1, follows that of the actors.
    """
    at = first = pair = 0
    for frame in range(len(counts)):
        if counts[frame] != lengths[row, frame]:
            return False
        many = lengths[row + 1, frame]
        for _ in range(counts[frame]):
            found = False
            for j in range(many):
                allowed = len(pairs) == 0 or pairs[pair + j, 0]
                found |= allowed and actees[first + j, 0] == chosen[at, 0]
            if not found:
                return False
            at += 1
            pair += many
        first += many
    return True
