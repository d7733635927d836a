"""Conversion of frames to JSON with arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.kinds.table import kind_of
from entity_env.batching.vec_obs import VecObs
from entity_env.drawing.scene import Sign, sign_json
from entity_env.drawing.scene_maker import SceneMaker
from entity_env.drawing.table_text import id_text
from entity_env.recording.records import per_frame, select_frames
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Feature,
    Flags,
    ObsSpace,
    feature_name,
    num_values,
    value_names,
)

__all__ = ["frame_json", "frame_of", "number", "one_frame", "spaces_json"]


def number(value: float | None) -> float | None:
    """Return a number, or None if JSON cannot represent it."""
    return float(value) if value is not None and math.isfinite(value) else None


def spaces_json(
    obs_space: ObsSpace, action_space: Mapping[ActionName, ActionSpace], scenes: SceneMaker
) -> dict[str, Any]:
    """Return the common parts of all frames: names of features, choices, marks of types."""
    return {
        "types": [
            {
                "name": name,
                "features": [_feature_json(feature) for feature in entity.features],
                "is_placed": look.x is not None,
                "label": look.label,
                "sign": sign_json(Sign(name, look.color, look.shape)),
            }
            for (name, entity), look in zip(
                obs_space.entities.items(), scenes.looks.values(), strict=True
            )
        ],
        "globals": [_feature_json(feature) for feature in obs_space.global_features],
        "actions": {name: _action_json(space) for name, space in action_space.items()},
    }


def frame_json(frame: Frame, decision: Decision | None = None) -> dict[str, Any]:
    """Return one frame: its entities, its actors and masks, and the decision.

    Entities are entry type by type, as columns; ``spaces_json`` describes their features.
    """
    entities, first = {}, 0
    for name, rows in frame.features.items():
        if len(rows):
            entry: dict[str, Any] = {"first": first, "features": rows}
            ids = frame.ids[first : first + len(rows)]
            if ids.count(None) < len(ids):
                entry["ids"] = [id_text(one) for one in ids]
            if name in frame.visible and not frame.visible[name].all():
                entry["visible"] = frame.visible[name]
            entities[name] = entry
        first += len(rows)
    actions: dict[str, Any] = {}
    for name, who in frame.actions.items():
        entry = actions[name] = {"actors": who.actors}
        for part in ("mask", "actees"):
            values = getattr(who, part, None)
            if values is not None:
                entry[part] = values
        if decision is not None:
            entry |= _decided_json(name, decision)
    return {
        "entities": entities,
        "globals": [number(value) for value in frame.global_features.tolist()],
        "actions": actions,
        "value": None if decision is None else number(decision.value),
    }


def one_frame(obs: VecObs, place: int) -> VecObs:
    """Return one frame of a batch as a batch."""
    return select_frames(per_frame(obs), np.array([place], np.int64))


def frame_of(obs: VecObs, place: int) -> Frame:
    """Return one frame of a batch, without ids.

    Args:
        obs: B frames.
        place: The number of the frame.
    """
    one = one_frame(obs, place)
    features = {name: rows.as_array() for name, rows in one.features.items()}
    actors = {name: mask.of_frame() for name, mask in one.action_masks.items()}
    return Frame(
        features=features,
        global_features=one.global_features[0],
        visible={name: shown.as_array()[:, 0] for name, shown in one.visible.items()},
        ids=[None] * sum(map(len, features.values())),
        actions={name: who for name, who in actors.items() if who is not None},
        reward=float(one.reward[0]),
        done=bool(one.done[0]),
        truncated=bool(one.truncated[0]),
        metrics={},
    )


def _decided_json(name: ActionName, decision: Decision) -> dict[str, Any]:
    """Return the decision for the actors of one action."""
    parts = {"chosen": decision.chosen.get(name), "probs": decision.probs.get(name)}
    parts |= zip(("mean", "std"), decision.normal.get(name, ()), strict=False)
    return {part: values for part, values in parts.items() if values is not None}


def _feature_json(feature: Feature) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": feature_name(feature)}
    if isinstance(feature, Flags):
        entry["flags"] = feature.count
    elif num_values(feature) is not None:
        entry |= {"names": list(value_names(feature)), "n": num_values(feature)}
    return entry


def _action_json(space: ActionSpace) -> dict[str, Any]:
    kind = kind_of(space)
    details = kind.to_json(space)
    return {
        "is_global": kind.is_global,
        "selects": kind.selects,
        "labels": details.get("labels"),
        "low": details.get("low"),
        "high": details.get("high"),
        "at_most": details.get("at_most"),
    }
