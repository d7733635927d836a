"""A player of Photosynthesis that takes what pays most now."""

from __future__ import annotations

from typing import Any

from entity_env.actions import Action, SelectEntityAction
from entity_env.observation import EntityID, Observation

from .photosynthesis import OBS_SPACE
from .photosynthesis_board import KINDS

__all__ = ["grow_greedily"]

_FEATURES = {
    name: [str(getattr(feature, "name", feature)) for feature in entity.features]
    for name, entity in OBS_SPACE.entities.items()
}


def grow_greedily(observation: Observation) -> dict[str, Action]:
    """Collect, else grow the tallest, else buy what the next growth needs, else plant, else pass.

    Large trees are collected in the last third of the game, or where three are on the board; seeds
    are planted on the richest soil, and first trees where they are in the light most often.
    """
    offered = _offered(observation)
    chosen = max(offered, key=lambda one: _worth(one, observation, offered))
    return {"Choose": SelectEntityAction([("Player", 0)], [chosen[1]])}


Offered = tuple[str, EntityID, dict[str, float]]


def _entities(observation: Observation, kind: str) -> list[dict[str, float]]:
    features: Any = observation.features
    return [dict(zip(_FEATURES[kind], row, strict=True)) for row in features[kind]]


def _offered(observation: Observation) -> list[Offered]:
    """Type, id and features of all that can be selected."""
    seen: Any = observation
    actees = set(seen.actions["Choose"].actee_ids)
    return [
        (kind, name, features)
        for kind, ids in seen.ids.items()
        for name, features in zip(ids, _entities(observation, kind), strict=True)
        if name in actees
    ]


def _worth(
    choice: Offered, observation: Observation, offered: list[Offered]
) -> tuple[float, float]:
    """Return the worth of a choice: of its kind first, then within its kind."""
    kind, _, features = choice
    numbers: Any = observation.global_features
    share = numbers[0] / sum(numbers[:2])
    own = [piece for piece in _entities(observation, "Piece") if piece["own"]]
    sizes = [int(piece["size"]) for piece in own]
    if kind == "Piece":
        size = int(features["size"])
        if size == len(KINDS) - 1:
            return (5.0 if share > 2 / 3 or sizes.count(size) > 2 else -1.0), features["soil"]
        return 4.0 + size / 10, features["soil"]
    if kind == "Kind":
        bought = int(features["kind"])
        if features["available"]:
            return -1.0, 0.0
        if bought == 0:
            return (2.0 if share < 0.6 and len(own) < 8 else -1.0), 0.0
        return (3.0 + bought / 10 if bought - 1 in sizes else -1.0), 0.0
    if kind == "Space":
        lit = 6 - sum(features[f"shaded{i}"] for i in range(6))
        wanted = len(own) < 8 and share < 0.6
        return (2.5 if wanted else -1.0), 10 * features["soil"] + lit
    return 0.0, 0.0
