"""Tools of ``check_env``: comparisons and observers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.batching.features import NUMBERS, in_list
from entity_env.batching.step_results import read_metrics
from entity_env.batching.vec_obs import VecActionMask, VecObs, batch_obs
from entity_env.environment import Playable
from entity_env.errors import EntityEnvError, ObservationError, SpaceError, shorten
from entity_env.observation import Observation
from entity_env.spaces import ActionName
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["COPIES", "Between", "BetweenCalls", "check_spaces", "difference", "pack_obs"]

COPIES = "return copies: numpy.array(...) or list(...); tuples and read-only arrays may be shared"
"""The hint for all mistakes with shared memory."""


def pack_obs(obs: VecObs) -> dict[str, Any]:
    """Return all parts of ``obs`` as arrays; ragged parts as values (N, D) and lengths (B,)."""
    return {
        "features": {name: _pack(buffer) for name, buffer in obs.features.items()},
        "visible": {name: _pack(buffer) for name, buffer in obs.visible.items()},
        "masks": {name: _pack_mask(mask) for name, mask in obs.action_masks.items()},
        "global_features": obs.global_features,
        "rows": obs.rows,
        "reward": obs.reward,
        "done": obs.done,
        "truncated": obs.truncated,
        "metrics": dict(obs.metrics),
        "final": None if obs.final is None else pack_obs(obs.final),
    }


def difference(where: str, left: Any, right: Any) -> str | None:
    """Return the name of the first part in which two packed observations differ."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if list(left) != list(right):
            return where or "observation"
        parts = (difference(f"{where}.{n}".strip("."), left[n], right[n]) for n in left)
        return next((part for part in parts if part is not None), None)
    if isinstance(left, tuple) and isinstance(right, tuple):
        parts = (difference(where, a, b) for a, b in zip(left, right, strict=True))
        return next((part for part in parts if part is not None), None)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        same = np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    else:
        same = left is None and right is None
    return None if same else where


def check_spaces(before: tuple[Any, Any], env: Playable) -> None:
    """Raise SpaceError if the spaces of an environment differ from ``before``."""
    after = env.obs_space(), env.action_space()
    for name, old, new in zip(("obs_space", "action_space"), before, after, strict=True):
        if old != new:
            raise SpaceError(
                f"{name} is not the same at every call",
                expected=shorten(old),
                received=shorten(new),
            )


class BetweenCalls:
    """Mixin of wrappers that compares or damages the last observations around each call.

    Args:
        inside: The environment, or the game of several players.
        is_damaging: True to damage each observation before the next call, which changes the game
            if the environment uses returned memory. False to raise an error if the environment
            changes observations that it has returned.
        look: Function that is called with each observation, which is valid.
        shown: The last observations of all environments that are played side by side.
    """

    def __init__(
        self,
        inside: Any,
        is_damaging: bool,
        look: Callable[[Observation], None] | None = None,
        shown: dict[int, list[Observation]] | None = None,
    ) -> None:
        super().__init__(inside)  # type: ignore[call-arg]
        self._inside, self._is_damaging, self._look = inside, is_damaging, look
        self._shown_by = {} if shown is None else shown
        self._repairs: list[Callable[[], None]] = []
        self._spaces = inside.obs_space(), inside.action_space()

    def close(self) -> None:
        """Repair the damaged observations, which other code may share, and close."""
        while self._repairs:
            self._repairs.pop()()
        self._inside.close()

    def _around(self, call: Callable[..., Any], *args: Any) -> Any:
        before = []
        for owner, last in [
            (i, observation) for i, shown in self._shown_by.items() for observation in shown
        ]:
            if self._is_damaging:
                self._repairs += damage(last)
                continue
            # Ids are not copied: a copy of an object may be another id.
            # Views of keys and values of dicts cannot be copied; lists of them are used instead.
            views = {id(part): in_list(part) for part in _parts(last) if in_list(part) is not part}
            before.append((copy.deepcopy(last, views), _ids(last), last, owner == id(self)))
        seen = call(*args)
        for copied, ids, last, is_own in before:
            part = (
                self._change(copied, last)
                or ("ids" if _ids(last) != ids else None)
                or ("metrics" if _metrics(copied) != _metrics(last) else None)
            )
            if part is not None:
                who = "it" if is_own else "another environment"
                raise ObservationError(
                    f"the environment changes {part} of an observation that {who} has returned",
                    hint=COPIES,
                )
        check_spaces(self._spaces, self._inside)
        self._shown_by[id(self)] = self._observations(seen)
        for observation in self._shown_by[id(self)]:
            if self._look is not None:
                self._look(observation)
        return seen

    def _observations(self, seen: Any) -> list[Observation]:
        """Return the observations in the result of a call."""
        return [seen]

    def _change(self, before: Observation, after: Observation) -> str | None:
        """Return the part of an observation that has changed, or None."""
        packed = pack_obs(batch_obs([before], *self._spaces))
        try:
            return difference("", packed, pack_obs(batch_obs([after], *self._spaces)))
        except EntityEnvError as error:
            return f"parts ({error.what})"


class Between(BetweenCalls, Wrapper):
    """A wrapper of an environment that checks the observations it has returned."""

    def reset(self) -> Observation:
        """Reset the environment."""
        observation: Observation = self._around(self.env.reset)
        return observation

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play a step of the environment."""
        observation: Observation = self._around(self.env.act, actions)
        return observation


def _id_lists(obs: Observation) -> list[Any]:
    """Return all lists of ids and of entity types; None for those that are left out."""
    masks = (obs.actions or {}).values()
    names = ("actor_ids", "actor_types", "actee_ids", "actee_types")
    named = [getattr(mask, name, None) for mask in masks for name in names]
    return [*(obs.ids or {}).values(), *named]


def _ids(obs: Observation) -> list[list[Any]]:
    return [list(ids) for ids in _id_lists(obs) if ids is not None]


def _metrics(obs: Observation) -> dict[str, float]:
    return read_metrics(obs.metrics or {})


def damage(obs: Observation) -> list[Callable[[], None]]:
    """Overwrite all numbers in an observation and empty all lists; return functions to undo it."""
    return [repair for part in _parts(obs) for repair in _spoil(part)]


def _parts(obs: Observation) -> list[Any]:
    """Return all parts of an observation, and then the dicts that hold them."""
    masks = [getattr(mask, "mask", None) for mask in (obs.actions or {}).values()]
    values = [*(obs.features or {}).values(), *(obs.visible or {}).values(), *masks]
    wholes = [obs.features, obs.ids, obs.actions, obs.visible, obs.metrics]
    return [*values, *_id_lists(obs), obs.global_features, *wholes]


def _spoil(part: Any) -> list[Callable[[], None]]:
    if isinstance(part, np.ndarray) and part.flags.writeable and part.dtype.kind in NUMBERS:
        values = part.copy()
        part[...] = ~part if part.dtype.kind == "b" else part + 1
        return [lambda: np.copyto(part, values)]
    if isinstance(part, list):
        items = list(part)
        repairs = [repair for item in items for repair in _spoil(item)]
        part.clear()
        return [*repairs, lambda: part.extend(items)]
    if isinstance(part, dict):
        entries = dict(part)
        part.clear()
        return [lambda: part.update(entries)]
    return []


def _pack(buffer: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    return buffer.as_array(), buffer.size1()


def _pack_mask(mask: VecActionMask) -> dict[str, Any]:
    parts = {
        part: getattr(mask, part) for part in ("actors", "actees", "mask") if hasattr(mask, part)
    }
    return {part: None if buffer is None else _pack(buffer) for part, buffer in parts.items()}
