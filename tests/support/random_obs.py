"""Random valid observations in all the shapes that environments give them."""

from __future__ import annotations

import numpy as np

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

OBS_SPACE = ObsSpace(
    global_features=["time", Discrete("phase", 3)],
    entities={
        "Mine": Entity(["x", "y"]),
        "Robot": Entity(["x", Discrete("kind", 4), "y"]),
        "Rock": Entity([]),
        "Cannon": Entity(["cooldown"]),
    },
)
ACTION_SPACE = {
    "Move": CategoricalActionSpace(["left", "right", "stay"]),
    "Fire": SelectEntityActionSpace(),
    "Mode": GlobalCategoricalActionSpace(["calm", "bold"]),
}
TYPES = list(OBS_SPACE.entities)
SEVERAL = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8]


def random_observation(rng, most=3, ends=0.0):
    """One observation with up to ``most`` entities of each type; over with probability ``ends``."""
    counts = {name: int(rng.integers(0, most + 1)) for name in TYPES}
    if rng.random() < 0.1:
        counts = dict.fromkeys(TYPES, 0)
    features = {}
    for name, count in counts.items():
        if count or rng.random() < 0.7:
            features[name] = _features(rng, name, count)
    ids = _ids(rng, counts)
    hidden = _hidden(rng, counts)
    done = bool(rng.random() < ends)
    return Observation(
        features=features,
        ids={name: own for name, own in ids.items() if name in features or len(own) == 0},
        visible=_visible(rng, hidden),
        actions=_actions(rng, counts, ids, hidden),
        reward=_one_of(rng, 0.5, -2, True, np.float32(1.25), np.float64(3.5), np.int64(7), 0.1),
        done=np.bool_(done) if rng.random() < 0.2 else done,
        truncated=done and bool(rng.random() < 0.5),
        global_features=_one_of(rng, [1.5, 2], (3, 1), np.array([0.25, 0.0], np.float32)),
        metrics=_one_of(rng, {}, {}, {"score": 2.0}, {"score": np.float32(0.5), "time": 3}),
    )


def _one_of(rng, *options):
    return options[int(rng.integers(len(options)))]


def _features(rng, name, count):
    kinds = {"Mine": [None, None], "Robot": [None, 4, None], "Rock": [], "Cannon": [None]}[name]
    whole = rng.random() < 0.5
    rows = [
        [
            int(rng.integers(kind))
            if kind
            else (int(rng.integers(-9, 9)) if whole else float(rng.normal()))
            for kind in kinds
        ]
        for _ in range(count)
    ]
    how = _one_of(rng, "lists", "lists", "tuples", "mixed", "arrays", "array", "array")
    if not count:
        return _one_of(rng, None, [], (), np.zeros((0, len(kinds))), np.zeros(0))
    if how == "tuples":
        return tuple(map(tuple, rows))
    if how == "mixed":
        return [_one_of(rng, tuple, list)(row) for row in rows]
    if how == "arrays":
        return [np.array(row, np.float32) for row in rows]
    if how == "array":
        dtype = np.int8 if whole and rng.random() < 0.3 else _one_of(rng, *SEVERAL)
        return np.abs(np.array(rows).reshape(count, len(kinds))).astype(dtype)
    return rows


def _ids(rng, counts):
    """Ids of some types, or of all."""
    every = rng.random() < 0.6
    kind = _one_of(rng, "tuple", "text", "number", "array")
    ids, number = {}, 0
    for name, count in counts.items():
        own = [
            {"tuple": (name, i), "text": f"{name}{i}"}.get(kind, number + i) for i in range(count)
        ]
        number += count
        if every or rng.random() < 0.5:
            ids[name] = (
                np.array(own, np.int64) if kind == "array" else _one_of(rng, list, tuple)(own)
            )
    if rng.random() < 0.1 and isinstance(ids.get("Mine"), list) and ids["Mine"]:
        ids["Mine"][0] = None  # an id like any other, once
    return ids


def _hidden(rng, counts):
    """For some types a mask of what is shown."""
    if rng.random() < 0.6:
        return {}
    return {
        name: (rng.random(count) < 0.7).tolist()
        for name, count in counts.items()
        if rng.random() < 0.4
    }


def _visible(rng, hidden):
    given = {}
    for name, shown in hidden.items():
        as_ints = [int(one) for one in shown]
        given[name] = _one_of(rng, shown, tuple(shown), np.array(shown, np.bool_), as_ints)
    if rng.random() < 0.1:
        given["Rock"] = hidden.get("Rock")
    return given


def _actions(rng, counts, ids, hidden):
    actions = {}
    if rng.random() < 0.8:
        actors, number = _entities(rng, counts, ids, hidden)
        actions["Move"] = CategoricalActionMask(
            actor_ids=actors.get("ids"),
            actor_types=actors.get("types"),
            mask=_mask(rng, (number, 3)),
        )
    if rng.random() < 0.8:
        actors, number = _entities(rng, counts, ids, hidden)
        actees, others = _entities(rng, counts, ids, hidden)
        actions["Fire"] = SelectEntityActionMask(
            actor_ids=actors.get("ids"),
            actor_types=actors.get("types"),
            actee_ids=actees.get("ids"),
            actee_types=actees.get("types"),
            mask=_mask(rng, (number, others)) if number and others else None,
        )
    if rng.random() < 0.7:
        actions["Mode"] = GlobalCategoricalActionMask(
            _one_of(rng, None, [True, False], (False, True), np.array([1, 1]), [True, 0])
        )
    return actions


def _entities(rng, counts, ids, hidden):
    """Some entities that are shown, by id or by type, and how many they are."""
    how = rng.random()
    if how < 0.2 and not hidden:
        return {}, sum(counts.values())
    if how < 0.6:
        known = [
            entity
            for name, own in ids.items()
            for entity, shown in zip(own, hidden.get(name, [True] * counts[name]), strict=True)
            if shown
        ]
        chosen = [known[i] for i in rng.permutation(len(known))[: rng.integers(0, 4)]]
        return {"ids": tuple(chosen) if rng.random() < 0.3 else chosen}, len(chosen)
    shown = [name for name in TYPES if all(hidden.get(name, []))]
    types = [shown[i] for i in rng.permutation(len(shown))[: rng.integers(0, 4)]]
    number = sum(counts[name] for name in types)
    return {"types": tuple(types) if rng.random() < 0.2 else types}, number


def _mask(rng, shape):
    if rng.random() < 0.3:
        return None
    mask = rng.random(shape) < 0.5
    if mask.size:
        mask[:, 0] |= ~mask.any(axis=1)
    if not shape[0]:
        return _one_of(rng, [], (), mask, np.zeros(0))
    how = _one_of(rng, "lists", "tuples", "array", "ints", "numbers", "arrays")
    if how == "tuples":
        return tuple(map(tuple, mask.tolist()))
    if how == "array":
        return mask
    if how == "ints":
        return mask.astype(_one_of(rng, np.int64, np.uint8))
    if how == "numbers":
        return mask.astype(int).tolist()
    return list(mask) if how == "arrays" else mask.tolist()
