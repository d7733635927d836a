"""Conversion of frames to JSON with arrays, with everything that the page needs to draw them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.vec_obs import VecObs
from entity_env.drawing.plane import find_places
from entity_env.drawing.scene import OWNERS, find_owners, look
from entity_env.drawing.table_text import id_text
from entity_env.environment import YAxis
from entity_env.hints import EntityHints, ViewerHints
from entity_env.kinds.table import kind_of
from entity_env.recording.records import per_frame, select_frames
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Feature,
    Flags,
    Grid,
    ObsSpace,
    feature_name,
)

__all__ = ["frame_json", "frame_of", "number", "one_frame", "spaces_json"]

_HEADINGS, _BARS = ("heading", "angle", "orientation"), ("hp", "health")
_KINDS = ("kind", "type")
_NO_HINTS = ViewerHints()


def number(value: float | None) -> float | None:
    """Return a number, or None if JSON cannot represent it."""
    return float(value) if value is not None and math.isfinite(value) else None


def spaces_json(
    obs_space: ObsSpace,
    action_space: Mapping[ActionName, ActionSpace],
    y_axis: YAxis,
    hints: ViewerHints = _NO_HINTS,
) -> dict[str, Any]:
    """Return the common parts of all frames: names, places, colours, choices."""
    places = find_places(obs_space)
    owners = find_owners(obs_space, obs_space.entities)
    types = []
    for order, (name, entity) in enumerate(obs_space.entities.items()):
        own = hints.entities.get(name, EntityHints())
        color, shape = look(order)
        x, y = places.get(name, (None, None))
        at = {feature: place for place, feature in enumerate(entity.names)}
        named = [f for f in entity.features if isinstance(f, Discrete) and f.names]
        is_one_color = own.colors and own.color is None and not own.stack
        label = next((feature_name(f) for f in named if feature_name(f) in _KINDS), None)
        types.append(
            {
                "name": name,
                "features": [_feature_json(feature) for feature in entity.features],
                "grid": list(entity.shape) if isinstance(entity, Grid) else None,
                "x": at.get(own.x or "", x),
                "y": at.get(own.y or "", None if own.x else y),
                "owner": at.get(own.owner or "", owners.get(name)),
                "heading": _first(at, own.heading, _HEADINGS),
                "bar": _first(at, own.bar, _BARS),
                "label": at.get(own.label or label or ""),
                "value_color": at.get(own.color or ""),
                "colors": list(own.colors),
                "size": at.get(own.size or ""),
                "range": at.get(own.range) if isinstance(own.range, str) else None,
                "circle": own.range if isinstance(own.range, int | float) else None,
                "tile": own.tile,
                "ground": at.get(own.ground or ""),
                "grounds": list(own.grounds),
                "stack": [at[feature] for feature in own.stack if feature in at],
                "color": own.colors[0] if is_one_color else _css(color),
                "shape": own.shape or shape,
            }
        )
    return {
        "bounds": hints.bounds,
        "types": types,
        "globals": [_feature_json(feature) for feature in obs_space.global_features],
        "actions": {name: _action_json(space) for name, space in action_space.items()},
        "owners": list(hints.owners) or ["", *map(_css, OWNERS[1:])],  # the first is the ink
        "y_axis": y_axis,
    }


def frame_json(frame: Frame, decision: Decision | None = None) -> dict[str, Any]:
    """Return one frame: its entities, its actors and masks, and the decision.

    Entities are given type by type, as columns; ``spaces_json`` describes their features.
    """
    entities, first = {}, 0
    for name, rows in frame.features.items():
        if len(rows):
            own: dict[str, Any] = {"first": first, "features": rows}
            ids = frame.ids[first : first + len(rows)]
            if ids.count(None) < len(ids):
                own["ids"] = [id_text(one) for one in ids]
            if name in frame.visible and not frame.visible[name].all():
                own["visible"] = frame.visible[name]
            entities[name] = own
        first += len(rows)
    actions: dict[str, Any] = {}
    for name, who in frame.actions.items():
        own = actions[name] = {"actors": who.actors}
        for part in ("mask", "actees"):
            values = getattr(who, part, None)
            if values is not None:
                own[part] = values
        if decision is not None:
            own |= _decided_json(name, decision)
    return {
        "entities": entities,
        "globals": [number(value) for value in frame.global_features.tolist()],
        "actions": actions,
        "value": None if decision is None else number(decision.value),
        "reward": number(frame.reward),
        "ends": bool(frame.done),
        "truncated": bool(frame.truncated),
        "metrics": {name: number(value) for name, value in frame.metrics.items()},
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
        actions={name: own for name, own in actors.items() if own is not None},
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
    own: dict[str, Any] = {"name": feature_name(feature)}
    if isinstance(feature, Flags):
        own["flags"] = feature.count
    elif isinstance(feature, Discrete):
        own["names"] = list(feature.names)
        own["n"] = feature.n
    return own


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


def _first(at: Mapping[str, int], hint: str | None, usual: Sequence[str]) -> int | None:
    """Return the place of the feature named by a hint, or else of one with a common name."""
    return next((at[name] for name in (hint or "", *usual) if name in at), None)


def _css(color: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)
