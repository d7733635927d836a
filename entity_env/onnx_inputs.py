"""The inputs of an exported ONNX network, made of observations and without torch.

    spaces = spaces_from_json(json.loads(Path("runs/<run>/spaces.json").read_text()))
    session = onnxruntime.InferenceSession("policy.onnx")
    logits, value = session.run(["Move/logits", "value"], onnx_inputs([observation], *spaces))

``python -m ppo_trainer.export`` lists the inputs and outputs of a file, ``ragged_net/export.py``
explains them; ``examples/browser/observation.mjs`` does the same in JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.vec_obs import batch_obs
from entity_env.errors import ObservationError
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.storage.space_json import spaces_from_json

__all__ = ["onnx_inputs", "spaces_from_json"]


def onnx_inputs(
    observations: Sequence[Observation],
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
) -> dict[str, npt.NDArray[Any]]:
    """Return the inputs of an exported network by name, except ``memory``.

    Args:
        observations: B observations. Entities that are not visible are left out.
        obs_space: The space that the network was trained with.
        action_space: The actions that it was trained with.

    Raises:
        EntityEnvError: An observation does not fit the spaces, or only some of the observations
            have a global action.
    """
    frames = batch_obs([_visible_part(own) for own in observations], obs_space, action_space)
    found: dict[str, npt.NDArray[Any]] = {}
    if obs_space.global_features or not obs_space.entities:
        found["global"] = frames.global_features
    for name, rows in frames.features.items():
        values, grid = rows.as_array(), obs_space.grids.get(name)
        if grid is not None:
            values = values.reshape(len(values) // grid.size, grid.size, values.shape[1])
        found |= {f"{name}/features": values, f"{name}/lengths": rows.size1()}
    masks: Mapping[ActionName, Any] = frames.action_masks
    for name, mask in masks.items():
        actors, space = mask.actors, action_space[name]
        if not space.is_global:
            found[f"{name}/actors"], found[f"{name}/lengths"] = _column(actors), actors.size1()
        elif len(_column(actors)) != len(observations):
            raise ObservationError(
                f"the global action {name!r} is missing in some of the observations",
                expected="in each of them, or one observation at a time",
            )
        if space.selects:
            found[f"{name}/actees"] = _column(mask.actees)
            found[f"{name}/actee_lengths"] = mask.actees.size1()
            found[f"{name}/mask"] = _pairs(mask)
        elif space.picks_one:
            found[f"{name}/mask"] = mask.mask.as_array()
    return found


def _visible_part(observation: Observation) -> Observation:
    """Return an observation without the entities that the policy does not see."""
    visible = observation.visible or {}
    if not visible:
        return observation
    features: dict[str, Any] = dict(observation.features or {})
    ids: dict[str, Any] = dict(observation.ids or {})
    for name, shown in visible.items():
        for part in (features, ids):
            if part.get(name) is not None:
                rows = zip(part[name], shown, strict=True)
                part[name] = [own for own, is_shown in rows if is_shown]
    return replace(observation, features=features, ids=ids, visible={})


def _column(buffer: Any) -> npt.NDArray[np.int64]:
    """Return a buffer of width 1 as flat numbers (N,)."""
    column: npt.NDArray[np.int64] = buffer.as_array()[:, 0]
    return column


def _pairs(mask: Any) -> npt.NDArray[np.bool_]:
    """Return the pairs of actors and actees that are allowed in all frames; shape (A, E)."""
    many, each = mask.actors.size1(), mask.actees.size1()
    of_actor, of_actee = (np.repeat(np.arange(len(own)), own) for own in (many, each))
    allowed: npt.NDArray[np.bool_] = of_actor[:, None] == of_actee[None, :]
    if mask.mask is not None:
        allowed[allowed] = _column(mask.mask)  # row by row, as pairs are stored
    return allowed
