"""Checks the actions that answer a ``VecObs``, for all rows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.features import every
from entity_env.batching.ragged import ActionBuffer, RaggedBufferF32, RaggedBufferI64
from entity_env.batching.vec_obs import (
    VecActionMask,
    VecCategoricalActionMask,
    VecContinuousActionMask,
    VecObs,
    VecSelectEntityActionMask,
)
from entity_env.errors import (
    ActionIndexError,
    ActionShapeError,
    EntityEnvError,
    MaskedActionError,
    UnknownActionError,
    nearest,
    shorten,
)
from entity_env.kinds.answers import AnswerForm, answer_forms
from entity_env.kinds.continuous import check_numbers
from entity_env.spaces import ActionName, ActionSpace

__all__ = ["check_actions"]

_Numbers: TypeAlias = Sequence[int] | npt.NDArray[np.int64]


def check_actions(
    actions: Mapping[ActionName, ActionBuffer],
    obs: VecObs,
    action_space: Mapping[ActionName, ActionSpace],
    numbers: _Numbers | None = None,
) -> dict[ActionName, ActionBuffer]:
    """Return the actions with one entry for each action of the space, or raise.

    Args:
        actions: Indices of choices, or of selected entities, (B, A, 1), int64; or the numbers of a
            continuous action, (B, A, K), float32.
        obs: The observation that they answer.
        action_space: Its action space.
        numbers: Those that errors call the environments by; None: ``obs.rows``. Shape: (B,).
    """
    if not isinstance(actions, Mapping):
        raise ActionShapeError(
            "actions are not a mapping",
            expected="a dict from action name to RaggedBufferI64",
            received=shorten(actions),
        )
    try:
        return _all_checked(actions, obs, action_space, numbers)
    except EntityEnvError:
        raise
    except Exception as error:  # a name that misbehaves when it is looked at
        raise ActionShapeError(
            f"the actions cannot be read: {shorten(error)}", received=shorten(actions)
        ) from error


def _all_checked(
    actions: Mapping[ActionName, ActionBuffer],
    obs: VecObs,
    action_space: Mapping[ActionName, ActionSpace],
    numbers: _Numbers | None,
) -> dict[ActionName, ActionBuffer]:
    for name in actions:
        if name not in action_space:
            raise UnknownActionError(
                f"unknown action {shorten(name)}",
                options=action_space,
                hint=nearest(name, action_space),
            )
    environments = obs.rows if numbers is None else numbers
    return {
        name: _checked(name, actions.get(name), obs.action_masks[name], form, environments)
        for name, form in answer_forms(action_space).items()
    }


def _checked(
    name: ActionName,
    chosen: ActionBuffer | None,
    mask: VecActionMask,
    form: AnswerForm,
    environments: _Numbers,
) -> ActionBuffer:
    counts = mask.actors.size1()
    if chosen is None:
        if counts.sum() == 0:
            return _nothing(mask, form, counts)
        raise UnknownActionError(
            f"action {name!r} is missing",
            expected=f"choices of {counts.sum()} actors",
            received="nothing",
        )
    kind = RaggedBufferF32 if form.is_real else RaggedBufferI64
    if not isinstance(chosen, kind):
        raise ActionShapeError(
            f"action {name!r} has the wrong type",
            expected=f"{kind.__name__} with shape (rows, actors, {form.width})",
            received=shorten(chosen),
        )
    chosen = chosen.materialize()  # of a view the package refuses size1
    _check_shape(name, chosen, counts, form.width, environments)
    if chosen.items() == 0:
        return _nothing(mask, form, counts)  # which certainly has the right width
    if isinstance(mask, VecContinuousActionMask):
        numbers: Any = chosen.as_array()
        check_numbers(name, numbers, mask, _Place(mask.actors, environments))
        return chosen
    flat: Any = chosen.as_array()[:, 0]
    if isinstance(mask, VecCategoricalActionMask):
        _check_choices(name, flat, mask, environments)
    else:
        _check_selected(name, flat, mask, environments)
    return chosen


def _nothing(mask: VecActionMask, form: AnswerForm, counts: npt.NDArray[np.int64]) -> ActionBuffer:
    """The answers of no actors at all."""
    if form.width == 1 and not form.is_real:
        return mask.actors  # as empty
    return form.buffer(np.zeros(0), counts)


def _check_shape(
    name: str,
    chosen: ActionBuffer,
    counts: npt.NDArray[np.int64],
    width: int,
    environments: _Numbers,
) -> None:
    if chosen.size0() != len(counts):
        raise ActionShapeError(
            f"action {name!r} has the wrong number of rows",
            expected=f"{len(counts)} rows, one for each environment",
            received=f"{chosen.size0()} rows",
        )
    given = chosen.size1()
    if not every(given == counts):
        row = int(np.argmax(given != counts))
        raise ActionShapeError(
            f"action {name!r} has the wrong number of actors",
            expected=f"{counts[row]} choices, one for each actor",
            received=f"{given[row]} choices",
            where=f"environment {environments[row]}",
        )
    if chosen.items() and chosen.size2() != width:
        raise ActionShapeError(
            f"action {name!r} has the wrong width",
            expected=f"{'one number' if width == 1 else f'{width} numbers'} for each actor",
            received=f"{chosen.size2()} numbers",
        )


def _check_choices(
    name: str, flat: npt.NDArray[np.int64], mask: VecCategoricalActionMask, environments: _Numbers
) -> None:
    allowed = mask.mask.as_array()
    choices = mask.mask.size2()
    inside = flat.view(np.uint64) < choices  # what is negative is huge there
    if not every(inside):
        first = int(np.argmin(inside))
        raise ActionIndexError(
            f"action {name!r} has no choice {flat[first]}",
            expected=f"a whole number from 0 to {choices - 1}",
            received=flat[first],
            where=f"environment {environments[_rows(mask.actors)[first]]}",
        )
    legal = allowed.take(np.arange(0, len(flat) * choices, choices) + flat)
    if not every(legal):
        first = int(np.argmin(legal))
        raise MaskedActionError(
            f"action {name!r}: choice {flat[first]} is masked",
            expected=f"one of {np.flatnonzero(allowed[first]).tolist()}",
            received=flat[first],
            where=f"environment {environments[_rows(mask.actors)[first]]}",
        )


def _check_selected(
    name: str,
    flat: npt.NDArray[np.int64],
    mask: VecSelectEntityActionMask,
    environments: _Numbers,
) -> None:
    """Each selected entity must be an actee of its frame, and allowed for its actor."""
    if len(flat) == 0:
        return
    rows, actee_counts = _rows(mask.actors), mask.actees.size1()
    actees = mask.actees.as_array()[:, 0]
    # All pairs, frame by frame and actor by actor: the order of the pair mask.
    pairs_of_actor = actee_counts[rows]
    actor = np.repeat(np.arange(len(flat)), pairs_of_actor)
    first_pair = np.cumsum(pairs_of_actor) - pairs_of_actor
    first_actee = (np.cumsum(actee_counts) - actee_counts)[rows]
    actee = np.arange(len(actor)) - first_pair[actor] + first_actee[actor]
    hit = actees[actee] == flat[actor]
    if mask.mask is not None:
        hit &= mask.mask.as_array()[:, 0]
    found = np.zeros(len(flat), dtype=np.bool_)
    found[actor[hit]] = True
    if not every(found):
        first = int(np.argmin(found))
        options = actees[actee[actor == first]].tolist()
        kind = MaskedActionError if flat[first] in options else ActionIndexError
        raise kind(
            f"action {name!r}: entity {flat[first]} cannot be selected",
            expected=f"the index of an actee that is allowed: among {shorten(options)}",
            received=flat[first],
            where=f"environment {environments[rows[first]]}",
        )


class _Place:
    """The place of an actor, by its place among all actors."""

    def __init__(self, actors: RaggedBufferI64, environments: _Numbers) -> None:
        self._actors, self._environments = actors, environments

    def __call__(self, actor: int) -> str:
        return f"environment {self._environments[int(_rows(self._actors)[actor])]}"


def _rows(actors: RaggedBufferI64) -> npt.NDArray[np.int64]:
    """The row of each actor. Shape: (A,)."""
    return np.repeat(np.arange(actors.size0()), actors.size1())
