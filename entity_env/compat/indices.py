"""Conversion of positions among the actees, used by Entity Gym, to entity indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import (
    Action,
    ContinuousAction,
    GlobalCategoricalAction,
    GlobalContinuousAction,
)
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.ragged import RaggedBufferI64
from entity_env.errors import (
    ActionIndexError,
    ActionShapeError,
    UnknownActionError,
    shorten,
    unknown_name,
)
from entity_env.kinds.select_entity import FrameSelectActors
from entity_env.kinds.table import typed_actions
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["action_index_to_actions", "entity_indices"]


def entity_indices(
    name: ActionName, positions: RaggedBufferI64, actees: RaggedBufferI64
) -> RaggedBufferI64:
    """Return the index in its frame of each selected entity.

    Args:
        name: The action, for errors.
        positions: For each actor a position in the list of actees of its frame. Shape: (B, A, 1).
        actees: The entities that can be selected, by index. Shape: (B, E, 1).

    Raises:
        ActionIndexError: A position does not exist.
    """
    positions = positions.materialize()
    if positions.size0() != actees.size0() or positions.items() == 0:
        return positions  # the rows check them
    lengths, counts = positions.size1(), actees.size1()
    flat = positions.as_array()[:, 0]
    rows = np.repeat(np.arange(len(lengths)), lengths)
    inside = (flat >= 0) & (flat < counts[rows])
    if not inside.all():
        first = int(np.argmin(inside))
        raise ActionIndexError(
            f"action {name!r} has no actee at position {flat[first]}",
            expected=f"a position from 0 to {counts[rows[first]] - 1} among the actees",
            received=flat[first],
            where=f"environment {rows[first]}",
        )
    first_of_row = np.cumsum(counts) - counts
    selected = actees.as_array()[first_of_row[rows] + flat]
    return RaggedBufferI64.from_flattened(selected, lengths)


def action_index_to_actions(
    obs_space: ObsSpace,
    action_spaces: Mapping[ActionName, ActionSpace],
    actions: Mapping[ActionName, RaggedBufferI64],
    last_obs: Observation,
    index: int = 0,
    probs: Mapping[ActionName, npt.NDArray[np.float32]] | None = None,
) -> dict[ActionName, Action]:
    """Return the actions of one frame in the format of ``Environment.act``.

    Args:
        obs_space: The environment's observation space.
        action_spaces: Its action space.
        actions: The choices of several frames, selected entities as positions. Shape: (B, A, 1).
        last_obs: The observation of the actions.
        index: The number of the frame.
        probs: The probabilities of the choices, if known.
    """
    frame = FrameReader(obs_space, action_spaces).read(last_obs)
    chosen: dict[ActionName, Any] = {}
    for name, buffer in actions.items():
        if name not in action_spaces:
            raise unknown_name(
                UnknownActionError, f"unknown action {shorten(name)}", name, action_spaces
            )
        if not 0 <= index < buffer.size0():
            raise ActionShapeError(
                f"action {name!r} has no frame {index}",
                expected=f"an index below {buffer.size0()}",
                received=index,
            )
        own, who = buffer[np.array([index])].materialize(), frame.actions.get(name)
        if isinstance(who, FrameSelectActors):
            count = np.array([len(who.actees)])
            own = entity_indices(
                name, own, RaggedBufferI64.from_flattened(who.actees[:, None], count)
            )
        chosen[name] = own.as_array().reshape(-1)
    typed = typed_actions(frame, chosen, action_spaces)
    named = {name: action for name, action in typed.items() if name in actions}
    for name, known in (probs or {}).items():
        if name in named and not isinstance(named[name], ContinuousAction | GlobalContinuousAction):
            is_global = isinstance(named[name], GlobalCategoricalAction)
            action: Any = named[name]
            named[name] = replace(action, probs=known.reshape(-1) if is_global else known)
    return named
