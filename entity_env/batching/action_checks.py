"""Checks of the actions for a ``VecObs``, for all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.features import every
from entity_env.batching.kinds.answers import AnswerForm
from entity_env.batching.kinds.table import kind_of
from entity_env.batching.ragged import ActionBuffer, RaggedBufferF32, RaggedBufferI64
from entity_env.batching.vec_obs import VecActionMask, VecObs
from entity_env.errors import ActionError, EntityEnvError, check_known, counted, shorten
from entity_env.spaces import ActionName, ActionSpace

__all__ = ["check_actions"]

_Ints: TypeAlias = npt.NDArray[np.int64]


def check_actions(
    actions: Mapping[ActionName, ActionBuffer],
    obs: VecObs,
    action_space: Mapping[ActionName, ActionSpace],
) -> dict[ActionName, ActionBuffer]:
    """Return the actions with one entry for each action of the space, or raise.

    Args:
        actions: Indices of choices, or of selected entities, (B, A, 1), int64; or the numbers of a
            continuous action, (B, A, K), float32.
        obs: The observation of the actions.
        action_space: Its action space.
    """
    if not isinstance(actions, Mapping):
        raise ActionError(
            "actions are not a mapping",
            expected="a dict from action names to RaggedBufferI64",
            received=shorten(actions),
        )
    try:
        return _all_checked(actions, obs, action_space)
    except EntityEnvError:
        raise
    except Exception as error:  # a name may raise anything when it is compared
        raise ActionError(
            f"the actions cannot be read: {shorten(error)}", received=shorten(actions)
        ) from error


def _all_checked(
    actions: Mapping[ActionName, ActionBuffer],
    obs: VecObs,
    action_space: Mapping[ActionName, ActionSpace],
) -> dict[ActionName, ActionBuffer]:
    check_known(ActionError, "unknown action {}", actions, action_space)
    return {
        name: _checked(name, actions.get(name), obs.action_masks[name], space, obs.rows)
        for name, space in action_space.items()
    }


def _checked(
    name: ActionName,
    chosen: ActionBuffer | None,
    mask: VecActionMask,
    space: ActionSpace,
    rows: _Ints,
) -> ActionBuffer:
    form, counts = kind_of(space).form(space), mask.actors.size1()
    if chosen is None:
        if counts.sum() == 0:
            return _nothing(mask, form, counts)
        raise ActionError(
            f"action {name!r} is missing",
            expected=f"choices of {counted(counts.sum(), 'actor')}",
            received="nothing",
        )
    kind = RaggedBufferF32 if form.is_real else RaggedBufferI64
    if not isinstance(chosen, kind):
        raise ActionError(
            f"action {name!r} has the wrong type",
            expected=f"{kind.__name__} with shape (rows, actors, {form.width})",
            received=shorten(chosen),
        )
    chosen = chosen.materialize()  # size1 fails for views
    _check_shape(name, chosen, counts, form.width, rows)
    if chosen.items() == 0:
        return _nothing(mask, form, counts)  # with the right width
    answers: Any = chosen.as_array()
    mask.check(name, space, answers, partial(_place, mask.actors, rows))
    return chosen


def _nothing(mask: VecActionMask, form: AnswerForm, counts: npt.NDArray[np.int64]) -> ActionBuffer:
    """Return the choices of an action without actors."""
    if form.width == 1 and not form.is_real:
        return mask.actors  # also empty
    return form.buffer(np.zeros(0), counts)


def _check_shape(
    name: str, chosen: ActionBuffer, counts: npt.NDArray[np.int64], width: int, rows: _Ints
) -> None:
    if chosen.size0() != len(counts):
        raise ActionError(
            f"action {name!r} has the wrong number of rows",
            expected=f"{counted(len(counts), 'row')}, one for each environment",
            received=counted(chosen.size0(), "row"),
        )
    given = chosen.size1()
    if not every(given == counts):
        row = int(np.argmax(given != counts))
        raise ActionError(
            f"action {name!r} has the wrong number of actors",
            expected=f"{counted(counts[row], 'choice')}, one for each actor",
            received=counted(given[row], "choice"),
            where=f"environment {rows[row]}",
        )
    if chosen.items() and chosen.size2() != width:
        raise ActionError(
            f"action {name!r} has the wrong width",
            expected=f"{'one number' if width == 1 else f'{width} numbers'} for each actor",
            received=counted(chosen.size2(), "number"),
        )


def _place(actors: RaggedBufferI64, rows: _Ints, actor: int) -> str:
    """Return the place of an actor for an error, given its number among all actors."""
    frames = np.repeat(np.arange(actors.size0()), actors.size1())
    return f"environment {rows[int(frames[actor])]}"
