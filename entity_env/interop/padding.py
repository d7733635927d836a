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
from entity_env.batching.kinds.table import typed_actions
from entity_env.batching.ragged import ActionBuffer, RaggedBufferI64, lengths
from entity_env.batching.vec_obs import VecObs, batch_frames
from entity_env.environment import Playable
from entity_env.errors import ActionError, CapacityError, counted, shorten
from entity_env.interop.padded_spaces import ActionSlots, PaddedSpaces, Room
from entity_env.spaces import ActionName

__all__ = ["FramePadding", "PaddedFrames", "PaddedObs", "choose", "numbers_of", "pad"]

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
        self._spaces = self._reader.obs_space, self._reader.action_space
        self.spaces = PaddedSpaces(*self._spaces, max_entities, max_actors)
        self.read = self._reader.read

    def pad(self, frame: Frame) -> PaddedFrames:
        """Return a frame as padded arrays with a single row."""
        return pad(batch_frames([frame], *self._spaces), self.spaces)

    def choose(self, action: Any, frame: Frame, padded: PaddedFrames) -> dict[ActionName, Action]:
        """Return the numbers chosen for a frame as actions of the environment."""
        chosen = choose(action, padded, self.spaces)
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
        at = _places(counts)
        values = obs.features[name].as_array()
        present = np.zeros((rows, limit), np.int8)
        shown = obs.visible[name].as_array()[:, 0] if name in obs.visible else np.ones(len(values))
        present[at] = shown
        features = np.zeros((rows, limit, values.shape[1]), np.float32)
        features[at] = values * shown[:, None]  # zeros for entities hidden from the policy
        arrays |= {f"{name}/features": features, f"{name}/present": present}
    allowed, taken = {}, {}
    for action in spaces.actions:
        mask = obs.action_masks[action.name]
        counts = lengths(mask.actors)
        _check_room("action", action.name, counts, action.count, "max_actors")
        at = _places(counts)
        mine = allowed[action.name] = np.zeros((rows, action.count, action.choices), np.bool_)
        taken[action.name] = np.arange(action.count) < counts[:, None]
        if len(at[0]):
            _allow(mine, at, mask, action, starts, spaces)
        shown = mine[:, 0] if action.space.is_global else mine
        arrays[f"{action.name}/mask"] = shown.astype(np.int8)
        if not action.space.is_global:
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
    actions: Any, frames: PaddedFrames, spaces: PaddedSpaces
) -> dict[ActionName, ActionBuffer]:
    """Return the choice of each actor in the format of ``VecEnv.act``.

    In place of a choice that the mask forbids, the next allowed one is taken, after the last choice
    the first, because Gymnasium requires that every sample of the action space can be played.

    Args:
        actions: The numbers; those of empty slots are ignored. Shape: (R, numbers), integers.
        frames: The frames of the actions.
        spaces: The spaces of both.

    Raises:
        ActionError: The number of numbers is wrong, or a number is not in the action space.
    """
    numbers = _checked(actions, len(frames.masks), spaces)
    chosen: dict[ActionName, ActionBuffer] = {}
    for action in spaces.actions:
        taken = frames.taken[action.name]
        allowed = frames.allowed[action.name][taken]  # (actors, C)
        wanted = numbers[:, action.numbers][taken]
        ahead = (np.arange(action.choices) - wanted[:, None]) % action.choices
        played = np.where(allowed, ahead, action.choices).argmin(axis=1)
        if action.space.selects:
            played = _entities(np.nonzero(taken)[0], played, frames.starts, spaces)
        counts = taken.sum(axis=1, dtype=np.int64)
        chosen[action.name] = RaggedBufferI64.from_flattened(played[:, None], counts)
    return chosen


def numbers_of(
    actions: Mapping[ActionName, ActionBuffer], frames: PaddedFrames, spaces: PaddedSpaces
) -> Ints:
    """Return choices in the format of ``VecEnv.act`` as numbers that ``choose`` reads.

    Those of empty slots are 0. Shape: (R, numbers).
    """
    numbers = np.zeros((len(frames.masks), len(spaces.action_space.nvec)), np.int64)
    for action in spaces.actions:
        taken = frames.taken[action.name]
        chosen: Any = actions[action.name].as_array()[:, 0]
        if action.space.selects:
            chosen = _slots(np.nonzero(taken)[0], chosen, frames.starts, spaces)
        numbers[:, action.numbers][taken] = chosen
    return numbers


def _places(counts: Ints) -> tuple[Ints, Ints]:
    """Return the frame of each row of a ragged buffer, and its place in it. Shape of both: (N,)."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)


def _allow(
    allowed: Bools,
    at: tuple[Ints, Ints],
    mask: Any,
    action: ActionSlots,
    starts: Ints,
    spaces: PaddedSpaces,
) -> None:
    """Write the mask of an action into ``allowed`` (R, K, C)."""
    if not action.space.selects:
        allowed[at] = mask.mask.as_array()
        return
    actor, actee, pairs = mask.pairs()
    slots = _slots(_places(lengths(mask.actees))[0], mask.actees.as_array()[:, 0], starts, spaces)
    allowed[at[0][actor], at[1][actor], slots[actee]] = True if pairs is None else pairs


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
    flat = allowed.copy()
    flat[..., 0] |= ~flat.any(axis=2)
    return flat.reshape(rows, allowed.shape[1] * allowed.shape[2])


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


def _where(row: int, rows: npt.NDArray[Any]) -> str | None:
    """Return the place for an error; a single environment has no number."""
    return f"environment {row}" if len(rows) > 1 else None
