"""Conversion of the frames of a batch to single observations, for agents that act on these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.batching.frame import Frame
from entity_env.batching.grids import cell_ids
from entity_env.batching.kinds.kind import Kind
from entity_env.batching.kinds.table import answer_forms, kind_of
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import ActionError, MaskError, shorten
from entity_env.observation import ActionMask, EntityID, Observation
from entity_env.spaces import ActionName, ActionSpace, EntityName, ObsSpace

__all__ = ["answers_in_frame", "batched_actions", "observations_of"]


def observations_of(
    obs: VecObs,
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
    ids: Sequence[Mapping[EntityName, Iterable[EntityID]]] | None = None,
) -> list[Observation]:
    """Return an observation for each frame of a batch.

    A batch does not have the ids of the environment. The id of an entity is therefore its type and
    its place among those of its type, such as ``("Mine", 0)``, unless ``ids`` are given. Masks name
    actors by id.

    Args:
        obs: B frames.
        obs_space: Its space.
        action_space: Its actions.
        ids: The ids of each frame, for some of the types.
    """
    frames = _Frames(obs, obs_space)
    given = [{}] * obs.num_frames if ids is None else ids
    return [
        frames.observation(number, action_space, given[number]) for number in range(obs.num_frames)
    ]


def batched_actions(
    actions: Sequence[Mapping[ActionName, Action]],
    shown: Sequence[Observation],
    obs: VecObs,
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
) -> dict[ActionName, ActionBuffer]:
    """Convert the actions of single frames to the format of ``VecEnv.act``.

    Args:
        actions: The actions of each frame, with the ids of ``shown``.
        shown: The B observations that ``observations_of`` made of ``obs``.
        obs: B frames.
        obs_space: The observation space of the frames.
        action_space: The action space of the frames.

    Raises:
        ActionError: An action with actors is missing.
        MaskError: An actor or an actee is not in the frame, or the actors are not those that act.
    """
    forms = answer_forms(action_space)
    parts: dict[ActionName, list[npt.NDArray[Any]]] = {name: [] for name in forms}
    for observation, own in zip(shown, actions, strict=True):
        indices = observation.id_to_index(obs_space)
        masks: Any = observation.actions
        for name, form in forms.items():
            if name in masks:
                space = action_space[name]
                who = [] if kind_of(space).is_global else masks[name].actor_ids
                answers = _answers(own, name, who, indices, space)
                parts[name].append(answers.astype(form.dtype).reshape(-1, form.width))
    return {
        name: form.buffer(
            np.concatenate(parts[name]) if parts[name] else np.zeros((0, form.width)),
            obs.action_masks[name].actors.size1(),
        )
        for name, form in forms.items()
    }


def answers_in_frame(
    actions: Mapping[ActionName, Action],
    frame: Frame,
    action_space: Mapping[ActionName, ActionSpace],
) -> dict[ActionName, npt.NDArray[Any]]:
    """Convert the actions of one frame, with its ids, to the numbers of a ``Decision``.

    Raises:
        ActionError: An action with actors is missing.
        MaskError: An actor or an actee is not in the frame, or the actors are not those that act.
    """
    indices = {own: index for index, own in enumerate(frame.ids) if own is not None}
    chosen: dict[ActionName, npt.NDArray[Any]] = {}
    for name, form in answer_forms(action_space).items():
        answers, who = np.zeros(0, form.dtype), frame.actions.get(name)
        if who is not None:
            space = action_space[name]
            is_global = kind_of(space).is_global
            ids = [] if is_global else [frame.ids[actor] for actor in who.actors.tolist()]
            answers = _answers(actions, name, ids, indices, space).astype(form.dtype)
        shaped = answers.reshape(-1, form.width)
        chosen[name] = shaped if form.is_real or form.width != 1 else shaped[:, 0]
    return chosen


class _Frames:
    """Flat arrays of a batch, and the beginning of each frame in them."""

    def __init__(self, obs: VecObs, obs_space: ObsSpace) -> None:
        self.obs, self.types = obs, list(obs_space.entities)
        self.grids = obs_space.grids
        self.features = {name: _Parts(buffer) for name, buffer in obs.features.items()}
        self.visible = {name: _Parts(buffer) for name, buffer in obs.visible.items()}
        self.actors = {name: _Parts(mask.actors) for name, mask in obs.action_masks.items()}
        allowed = {name: getattr(mask, "mask", None) for name, mask in obs.action_masks.items()}
        self.masks = {name: _Parts(own) for name, own in allowed.items() if own is not None}
        actees = {name: getattr(mask, "actees", None) for name, mask in obs.action_masks.items()}
        self.actees = {name: _Parts(own) for name, own in actees.items() if own is not None}

    def observation(
        self,
        number: int,
        action_space: Mapping[ActionName, ActionSpace],
        given: Mapping[EntityName, Iterable[EntityID]],
    ) -> Observation:
        features = {name: parts.of(number) for name, parts in self.features.items()}
        ids: dict[str, list[EntityID]] = {
            name: list(given[name]) if name in given else [(name, i) for i in range(len(rows))]
            for name, rows in features.items()
            if name not in self.grids
        }
        every: list[EntityID] = []
        for name in self.types:
            grid = self.grids.get(name)
            if grid is None:
                every += ids[name]
            elif len(features[name]):
                every += cell_ids(name, grid)
        actions: dict[ActionName, ActionMask] = {}
        for name, space in action_space.items():
            if len(self.actors[name].of(number)):
                actions[name] = self._mask(name, kind_of(space), number, every)
        return Observation(
            features=features,
            ids=ids,
            actions=actions,
            reward=0.0,
            global_features=self.obs.global_features[number],
            visible={name: parts.of(number)[:, 0] for name, parts in self.visible.items()},
        )

    def _mask(self, name: ActionName, kind: Kind, number: int, ids: list[EntityID]) -> ActionMask:
        allowed = self.masks[name].of(number) if name in self.masks else None
        if kind.is_global:
            return kind.observed([], allowed, [])
        actors = [ids[i] for i in self.actors[name].of(number)[:, 0].tolist()]
        actees = self.actees[name].of(number)[:, 0].tolist() if kind.selects else []
        return kind.observed(actors, allowed, [ids[i] for i in actees])


class _Parts:
    """The rows of each frame in a ragged buffer."""

    def __init__(self, buffer: Any) -> None:
        self._rows: npt.NDArray[Any] = buffer.as_array()
        self._ends = np.concatenate([[0], np.cumsum(buffer.size1())])

    def of(self, number: int) -> npt.NDArray[Any]:
        return self._rows[self._ends[number] : self._ends[number + 1]]


def _answers(
    actions: Mapping[ActionName, Action],
    name: ActionName,
    actors: Sequence[EntityID],
    indices: Mapping[Any, int],
    space: ActionSpace,
) -> npt.NDArray[Any]:
    """Return the choices of one action in a frame as numbers, in the order of the actors."""
    action: Any = actions.get(name)
    if action is None:
        raise ActionError(
            f"action {name!r} was left out",
            expected=f"{name!r}, which has actors",
            received=shorten(list(actions)),
        )
    kind = kind_of(space)
    kind.check_class(name, action)
    values = kind.given(action)
    if kind.is_global:
        return np.asarray(values)
    if kind.selects:
        values = kind.selected(space, values, lambda actee: _index(actee, indices, name))
    places = _places(name, action.actors, actors, indices)
    if len(places) != len(values) or sorted(places) != list(range(len(actors))):
        raise MaskError(
            f"action {name!r} has other actors than those that can act",
            expected=shorten(list(actors)),
            received=shorten(list(action.actors)),
        )
    return np.asarray(values)[np.argsort(places)]


def _places(
    name: ActionName,
    given: Sequence[EntityID],
    actors: Sequence[EntityID],
    indices: Mapping[Any, int],
) -> list[int]:
    """Return the place of each given actor among the actors that must act; -1 for another entity.

    An environment may leave out ids, and a script that names none gives None for an actor. In their
    order, such actors are those that no id names.
    """
    if list(given) == list(actors):
        return list(range(len(actors)))
    for actor in given:
        if actor is not None:
            _index(actor, indices, name)  # raises for an entity that is not in the frame
    place = {actor: number for number, actor in enumerate(actors) if actor is not None}
    others = [actor is None or actor not in given for actor in actors]
    free = iter(np.flatnonzero(others).tolist())
    return [next(free, -1) if actor is None else place.get(actor, -1) for actor in given]


def _index(entity: Any, indices: Mapping[Any, int], name: ActionName) -> int:
    try:
        return indices[entity]
    except (KeyError, TypeError):
        raise MaskError(
            f"action {name!r} names an entity that is not in the frame",
            options=[shorten(own) for own in list(indices)[:12]],
            received=shorten(entity),
        ) from None
