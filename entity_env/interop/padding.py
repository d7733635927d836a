"""Conversion of frames to padded arrays and of actions back, for all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.categorical import masked
from entity_env.batching.kinds.table import typed_actions
from entity_env.batching.ragged import ActionBuffer, RaggedBufferI64, lengths
from entity_env.batching.vec_obs import (
    VecActionMask,
    VecObs,
    VecSelectEntityActionMask,
    batch_frames,
)
from entity_env.environment import Playable
from entity_env.errors import ActionError, CapacityError, counted, shorten
from entity_env.interop.padded_spaces import ActionSlots, PaddedSpaces, Room
from entity_env.spaces import ActionName

__all__ = ["FramePadding", "PaddedFrames", "PaddedObs", "choose", "pad"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
PaddedObs: TypeAlias = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class PaddedFrames:
    """Padded frames.

    Args:
        arrays: The observations. Shape of each: (R, ...).
        masks: The masks of all numbers of an action, one after the other; 0 only for empty slots.
            Shape: (R, sum of nvec).
        allowed: The mask of each action. Shape: (R, K, C).
        taken: True for slots with an actor. Shape: (R, K).
        starts: The index of each type's first entity in its frame, and the number of all entities.
            Shape: (R, types + 1).
    """

    arrays: PaddedObs
    masks: Bools
    allowed: Mapping[ActionName, Bools]
    taken: Mapping[ActionName, Bools]
    starts: Ints


class FramePadding:
    """Conversion of single frames of an environment or a seat to padded arrays and back.

    Args:
        env: The environment or the game.
        max_entities: See ``PaddedSpaces``.
        max_actors: See ``PaddedSpaces``.

    Attributes:
        spaces: The padded spaces.
    """

    def __init__(self, env: Playable, max_entities: Room, max_actors: Room | None) -> None:
        self._reader = FrameReader(env.obs_space(), env.action_space())
        self._own = self._reader.obs_space, self._reader.action_space
        self.spaces = PaddedSpaces(*self._own, max_entities, max_actors)
        self.read = self._reader.read

    def pad(self, frame: Frame) -> PaddedFrames:
        """Return a frame as padded arrays with a single row."""
        return pad(batch_frames([frame], *self._own), self.spaces)

    def choose(
        self, action: Any, frame: Frame, padded: PaddedFrames, *, strict: bool
    ) -> dict[ActionName, Action]:
        """Return the numbers chosen for a frame as actions of the environment."""
        chosen = choose(action, padded, self.spaces, strict=strict)
        numbers = {name: buffer.as_array()[:, 0] for name, buffer in chosen.items()}
        return typed_actions(frame, numbers, self._reader.action_space)

    def info(self, padded: PaddedFrames) -> dict[str, Any]:
        """Return the ``action_mask`` of a frame for ``action_space.sample``."""
        return {"action_mask": self.spaces.sample_masks(padded.masks)[0]}


def pad(obs: VecObs, spaces: PaddedSpaces) -> PaddedFrames:
    """Return the frames as new arrays, padded with zeros.

    Raises:
        CapacityError: There are more entities or actors than slots.
    """
    rows = len(obs)
    arrays: PaddedObs = {"global": obs.global_features.copy()}
    starts = np.zeros((rows, len(spaces.limits) + 1), np.int64)
    for i, (name, limit) in enumerate(spaces.limits.items()):
        counts = lengths(obs.features[name])
        _check_room("entity type", name, counts, limit, "max_entities")
        starts[:, i + 1] = starts[:, i] + counts
        at = places(counts)
        values = obs.features[name].as_array()
        present = np.zeros((rows, limit), np.int8)
        present[at] = shown = _shown(obs, name)
        features = np.zeros((rows, limit, values.shape[1]), np.float32)
        features[at] = values * shown[:, None]  # zeros for entities hidden from the policy
        arrays |= {f"{name}/features": features, f"{name}/present": present}
    allowed, taken = {}, {}
    for action in spaces.actions:
        mask = obs.action_masks[action.name]
        counts = lengths(mask.actors)
        _check_room("action", action.name, counts, action.count, "max_actors")
        at = places(counts)
        mine = allowed[action.name] = np.zeros((rows, action.count, action.choices), np.bool_)
        taken[action.name] = np.arange(action.count) < counts[:, None]
        if len(at[0]):
            _allow(mine, at, mask, starts, spaces)
        arrays[f"{action.name}/mask"] = mine[:, 0] if action.is_global else mine
        arrays[f"{action.name}/mask"] = arrays[f"{action.name}/mask"].astype(np.int8)
        if not action.is_global:
            actors = np.full((rows, action.count), -1)
            actors[at] = _slots(at[0], mask.actors.as_array()[:, 0], starts, spaces)
            arrays[f"{action.name}/actors"] = actors
    return PaddedFrames(
        arrays={name: arrays[name] for name in spaces.observation_space.spaces},
        masks=np.concatenate([_or_first(allowed[a.name], rows) for a in spaces.actions], axis=1),
        allowed=allowed,
        taken=taken,
        starts=starts,
    )


def choose(
    actions: Any, frames: PaddedFrames, spaces: PaddedSpaces, *, strict: bool
) -> dict[ActionName, ActionBuffer]:
    """Return the choice of each actor in the format of ``VecEnv.act``.

    Args:
        actions: The numbers; those of empty slots are ignored. Shape: (R, numbers), integers.
        frames: The frames of the actions.
        spaces: The spaces of both.
        strict: True to raise an error for a choice that the mask forbids. Otherwise the next
            allowed choice is taken, after the last choice the first.

    Raises:
        ActionError: The number of numbers is wrong, a number is not in the action space, or, with
            ``strict``, a choice is forbidden.
    """
    numbers = _checked(actions, len(frames.masks), spaces)
    chosen: dict[ActionName, ActionBuffer] = {}
    for action in spaces.actions:
        taken = frames.taken[action.name]
        allowed = frames.allowed[action.name][taken]  # (actors, C)
        own = numbers[:, action.numbers][taken]
        if strict:
            _check_allowed(own, allowed, taken, action)
        ahead = (np.arange(action.choices) - own[:, None]) % action.choices
        own = np.where(allowed, ahead, action.choices).argmin(axis=1)
        if action.selects:
            own = _entities(np.nonzero(taken)[0], own, frames.starts, spaces)
        counts = taken.sum(axis=1, dtype=np.int64)
        chosen[action.name] = RaggedBufferI64.from_flattened(own[:, None], counts)
    return chosen


def places(counts: Ints) -> tuple[Ints, Ints]:
    """Return the frame of each row of a ragged buffer, and its place in it. Shape of both: (N,)."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)


def _shown(obs: VecObs, name: str) -> Bools:
    """Return a mask of the entities of a type that the policy sees. Shape: (N,)."""
    if name not in obs.visible:
        return np.ones(obs.features[name].items(), np.bool_)
    return obs.visible[name].as_array()[:, 0]


def _allow(
    allowed: Bools, at: tuple[Ints, Ints], mask: VecActionMask, starts: Ints, spaces: PaddedSpaces
) -> None:
    """Write the mask of an action into ``allowed`` (R, K, C)."""
    if not isinstance(mask, VecSelectEntityActionMask):
        # PaddedSpaces raises an error for continuous actions.
        allowed[at] = mask.mask.as_array()  # type: ignore[union-attr]
        return
    actees = lengths(mask.actees)
    slots = _slots(places(actees)[0], mask.actees.as_array()[:, 0], starts, spaces)
    # All pairs in the order of the mask: frame by frame and actor by actor.
    actor, nth = places(actees[at[0]])
    rows = at[0][actor]
    actee = slots[(np.cumsum(actees) - actees)[rows] + nth]
    allowed[rows, at[1][actor], actee] = True if mask.mask is None else mask.mask.as_array()[:, 0]


def _slots(rows: Ints, entities: Ints, starts: Ints, spaces: PaddedSpaces) -> Ints:
    """Return the slots of entities given by their index in the frame. Shape: (N,)."""
    types = (entities[:, None] >= starts[rows, 1:]).sum(axis=1)
    slots: Ints = spaces.starts[types] + entities - starts[rows, types]
    return slots


def _entities(rows: Ints, slots: Ints, starts: Ints, spaces: PaddedSpaces) -> Ints:
    """Return the indices within their frames of entities, given by their slots. Shape: (N,)."""
    types = np.searchsorted(spaces.starts, slots, side="right") - 1
    entities: Ints = starts[rows, types] + slots - spaces.starts[types]
    return entities


def _or_first(allowed: Bools, rows: int) -> Bools:
    """Return the mask of an action's numbers, (R, K * C), with 0 only for empty slots."""
    own = allowed.copy()
    own[..., 0] |= ~own.any(axis=2)
    return own.reshape(rows, allowed.shape[1] * allowed.shape[2])


def _check_room(kind: str, name: str, counts: Ints, limit: int, argument: str) -> None:
    if (counts > limit).any():
        row = int(np.argmax(counts > limit))
        what = "entity" if argument == "max_entities" else "actor"
        raise CapacityError(
            f"{kind} {name!r} has {counted(counts[row], what)}, more than {argument} allows",
            expected=f"at most {limit}",
            received=counts[row],
            hint=f"increase {argument}={{{name!r}: {counts[row]}, ...}}",
            where=_where(row, counts),
        )


def _checked(actions: Any, rows: int, spaces: PaddedSpaces) -> Ints:
    nvec = spaces.action_space.nvec
    try:
        numbers = np.asarray(actions)
    except ValueError:  # rows of different lengths
        numbers = np.zeros(0)
    if rows == 1 and numbers.ndim == 1:
        numbers = numbers[None]
    if numbers.shape != (rows, len(nvec)) or numbers.dtype.kind not in "iu":
        count = "1 whole number" if len(nvec) == 1 else f"{len(nvec)} whole numbers"
        raise ActionError(
            "the action has the wrong shape or type",
            expected=count + (f" for each of {rows} rows" * (rows > 1)),
            received=shorten(actions),
        )
    outside = (numbers < 0) | (numbers >= nvec)
    if outside.any():
        row, place = np.argwhere(outside)[0]
        raise ActionError(
            f"number {place} of the action does not exist",
            expected=f"from 0 to {nvec[place] - 1}",
            received=numbers[row, place],
            where=_where(row, numbers),
        )
    return numbers.astype(np.int64)


def _check_allowed(own: Ints, allowed: Bools, taken: Bools, action: ActionSlots) -> None:
    forbidden = ~allowed[np.arange(len(own)), own]
    if forbidden.any():
        first = int(np.argmax(forbidden))
        row, slot = np.argwhere(taken)[first]
        what = f"action {action.name!r}, actor {slot}: choice {own[first]}"
        if not action.selects:
            raise masked(what, action.space, own[first], allowed[first], _where(row, taken))
        raise ActionError(
            f"{what} is masked",
            expected=f"one of {shorten(np.flatnonzero(allowed[first]).tolist())}",
            received=own[first],
            where=_where(row, taken),
        )


def _where(row: int, rows: npt.NDArray[Any]) -> str | None:
    """Return the place for an error; a single environment has no number."""
    return f"environment {row}" if len(rows) > 1 else None
