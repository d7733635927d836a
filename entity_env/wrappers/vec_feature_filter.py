"""``VecFeatureFilter``, which filters the observations of all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.ragged import (
    ActionBuffer,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
)
from entity_env.batching.vec_obs import (
    VecActionMask,
    VecCategoricalActionMask,
    VecContinuousActionMask,
    VecObs,
    VecSelectEntityActionMask,
)
from entity_env.errors import SettingError
from entity_env.kinds.answers import AnswerForm
from entity_env.kinds.select_entities import VecSelectEntitiesActionMask
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName, ObsSpace
from entity_env.wrappers.entity_order import Bools, EntityOrder, Ints, rows_of
from entity_env.wrappers.selection import Selection
from entity_env.wrappers.vec_wrapper import VecWrapper

__all__ = ["VecFeatureFilter"]


@named_arguments(SettingError)
class VecFeatureFilter(VecWrapper):
    """``FeatureFilter`` for rows.

    Observations are those of a ``FeatureFilter`` around each environment, but rows need a choice
    for each actor. An actor of a type that is left out, or one that can select such entities only,
    takes the first choice that its mask allows, or in a continuous action the allowed numbers
    closest to 0. Use ``FeatureFilter`` around the single environments if these actors must do
    nothing.

    Args:
        env: The rows.
        obs_space: The smaller space; see ``subspace``.

    Raises:
        SpaceError: A type or a feature of ``obs_space`` is missing in the rows, or is of another
            kind.
    """

    def __init__(self, env: VecEnv, obs_space: ObsSpace) -> None:
        super().__init__(env)
        self._selection = Selection.of(self.env.obs_space(), obs_space)
        self._answers: dict[ActionName, _Answer] = {}

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._selection.part

    def _check(
        self, actions: Mapping[ActionName, ActionBuffer], obs: VecObs
    ) -> Mapping[ActionName, ActionBuffer]:
        return VecEnv._check(self, actions, obs)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        # Actions without an entry have all their actors and the same indices.
        answers = {name: answer.of(chosen[name]) for name, answer in self._answers.items()}
        return super()._act(answers or chosen)

    def _show(self, obs: VecObs) -> VecObs:
        shown, self._answers = self._filtered(obs)
        return shown

    def _filtered(self, obs: VecObs) -> tuple[VecObs, dict[ActionName, _Answer]]:
        kept = self._selection
        answers: dict[ActionName, _Answer] = {}
        if not kept.keeps_types:
            order = EntityOrder.of(obs, kept)
            answers = {name: _answer(mask, order) for name, mask in obs.action_masks.items()}
        shown = replace(
            obs,
            features={
                name: RaggedBufferF32.from_flattened(
                    obs.features[name].as_array().take(columns, axis=1), obs.features[name].size1()
                )
                for name, columns in kept.columns.items()
            },
            action_masks={name: answer.mask for name, answer in answers.items()}
            or obs.action_masks,
            global_features=obs.global_features.take(kept.global_columns, axis=1),
            visible={name: obs.visible[name] for name in kept.columns if name in obs.visible},
            final=None if obs.final is None else self._filtered(obs.final)[0],
        )
        return shown, answers


@dataclass(frozen=True)
class _Answer:
    """The filtered mask of one action, and data to convert choices for the complete mask.

    Args:
        mask: The filtered mask.
        acts: True for actors that are kept. Shape: (A,).
        default: The choices of actors that are left out. Shape: (A, 1), or (A, K) for a continuous
            action.
        lengths: The number of actors of each row in the complete mask. Shape: (R,).
        form: Form of a choice.
        order: Indices of selected entities; None for other actions.
    """

    mask: VecActionMask
    acts: Bools
    default: npt.NDArray[Any]
    lengths: Ints
    form: AnswerForm
    order: EntityOrder | None

    def of(self, chosen: ActionBuffer) -> ActionBuffer:
        """Return the choices of all actors, given those of the actors that are kept."""
        values: npt.NDArray[Any] = chosen.as_array()
        if self.order is not None:
            selected = values.ravel()
            rows = rows_of(chosen).repeat(values.shape[1])
            old = self.order.original(selected.clip(0), rows)
            values = np.where(selected < 0, selected, old).reshape(values.shape)
        choices = self.default.copy()
        choices[self.acts] = values
        return self.form.buffer(choices, self.lengths)


def _answer(mask: VecActionMask, order: EntityOrder) -> _Answer:
    if isinstance(mask, VecSelectEntityActionMask):
        return _select_answer(mask, order)
    rows, lengths = rows_of(mask.actors), mask.actors.size1()
    acts, actors = order.renumbered(mask.actors.as_array()[:, 0], rows)
    counts = _counts(rows[acts], len(lengths))
    left = RaggedBufferI64.from_flattened(actors[acts][:, None], counts)
    if isinstance(mask, VecContinuousActionMask):
        # An actor that is left out sets the numbers closest to 0 within its bounds.
        least = np.clip(np.zeros((len(rows), len(mask.low)), np.float32), mask.low, mask.high)
        form = AnswerForm(True, len(mask.low))
        return _Answer(replace(mask, actors=left), acts, least, lengths, form, None)
    allowed = mask.mask.as_array()
    shown = VecCategoricalActionMask(
        actors=left, mask=RaggedBufferBool.from_flattened(allowed[acts], counts)
    )
    return _Answer(shown, acts, allowed.argmax(axis=1)[:, None], lengths, AnswerForm(), None)


def _select_answer(mask: VecSelectEntityActionMask, order: EntityOrder) -> _Answer:
    rows, lengths = rows_of(mask.actors), mask.actors.size1()
    actor, actee, pairs = mask.pairs()
    allowed = np.ones(len(actor), np.bool_) if pairs is None else pairs
    actee_rows, entities = rows_of(mask.actees), mask.actees.as_array()[:, 0]
    acts, actors = order.renumbered(mask.actors.as_array()[:, 0], rows)
    selectable, actees = order.renumbered(entities, actee_rows)
    # An actor that can only select entities that are left out has nothing to do.
    usable = allowed & selectable[actee]
    acts &= _counts(actor[usable], len(acts)) > 0
    counts = _counts(rows[acts], len(lengths))
    selectable &= counts[actee_rows] > 0
    actee_counts = _counts(actee_rows[selectable], len(lengths))
    left = allowed[acts[actor] & selectable[actee]]
    shown: dict[str, Any] = {
        "actors": RaggedBufferI64.from_flattened(actors[acts][:, None], counts),
        "actees": RaggedBufferI64.from_flattened(actees[selectable][:, None], actee_counts),
        "mask": None
        if left.all()
        else RaggedBufferBool.from_flattened(left[:, None], counts * actee_counts),
    }
    if isinstance(mask, VecSelectEntitiesActionMask):
        default, form = np.full((len(rows), mask.at_most), -1), AnswerForm(width=mask.at_most)
    else:
        _, first = np.unique(
            actor[allowed], return_index=True
        )  # the first that each actor may select
        default, form = entities[actee[allowed][first]][:, None], AnswerForm()
    return _Answer(replace(mask, **shown), acts, default, lengths, form, order)


def _counts(numbers: Ints, size: int) -> Ints:
    """Return the number of times each of ``0 .. size - 1`` occurs. Shape: (size,)."""
    return np.bincount(numbers, minlength=size).astype(np.int64, copy=False)
