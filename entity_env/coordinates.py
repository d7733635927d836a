"""Coordinates among the features of a game, found by their names or else by their numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.batching.vec_obs import VecObs
from entity_env.spaces import Entity, EntityName, Grid, ObsSpace, feature_name, num_values

__all__ = ["Coordinates", "find_coordinates", "named_places"]

Numbers: TypeAlias = npt.NDArray[Any]
Names: TypeAlias = dict[EntityName, tuple[str, ...]]
Column: TypeAlias = tuple[EntityName, str]


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_AXES = tuple(
    tuple(map(_word_set, family.split(",")))
    for family in (
        "x, y, z",
        "column col, row line, layer",
        "longitude lon lng long, latitude lat, altitude alt",
        "east easting, north northing",
        "horizontal horiz hor, vertical vert ver",
        "across cross, along",
        "file, rank",
        "abscissa, ordinate",
        "c, r",
        "j, i, k",
        "q, r, s",
        "u, v, w",
        "e, n",
        "h, v",
        "0, 1, 2",
        "1, 2, 3",
        "a, b, c",
    )
)
"""Words of the axes of each family, the horizontal axis first."""
_LETTERS = {"a", "b", "c", "d"}
_LONGITUDES = _AXES[2][0]
_COMPASS, _OPPOSITE = {3, 12}, {"west", "south", "w", "s"}
_WEAK, _NUMBERED = {8, 9, 10, 11, 12, 13, 16}, {14, 15, 16}
"""Families of letters that stand for other things as well, and of numbers and a, b, c."""

_VECTORS = _word_set(
    "v a f q vel velo velocity velocities speed d delta diff difference dir direction heading "
    "facing acc accel acceleration jerk force thrust torque momentum impulse gravity wind flow "
    "drift shift offset off rel relative grad gradient slope normal sin cos angle ang angular rot "
    "rotation omega roll pitch yaw move moved action steer push pull ray lidar n count counts "
    "total per sum mean avg std var max limit step stride range radius span extent size width "
    "height length scale dim dims factor weight error err noise flip is has can num amount blocked "
    "distance dist displacement bearing vec vector dot gyro mag orient orientation quat jitter"
)
"""Words of names that are not coordinates of a place, such as those of velocities and sizes."""
_PLACES = _word_set(
    "pos position p loc location coord coords coordinate coordinates place point pt xy xyz "
    "latlon where"
)
"""Words after which numbers and a, b, c stand for axes, as in ``pos[0]`` and ``pos[1]``."""
_OWN = _PLACES | _word_set(
    "cell tile grid map world board abs absolute current cur now centre center here at my own self "
    "ego head body gps site spot index idx number no m km px pixel pixels deg degrees meter "
    "meters norm normalized normalised scaled"
)
"""Words of names of an entity's own place."""
_OTHER = _word_set(
    "to from target targets goal dest destination end start home base origin source src pickup "
    "dropoff drop pick next nxt prev previous last old spawn nearest closest other min waypoint wp "
    "t g o tail desired planned aim exit delivery"
)
"""Words of names of another place, such as where an entity goes."""
_PARTS = re.compile(
    r"(?<=[^\W\d_a-zß-ÿ])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)"
)
"""Boundaries within a name: between posX's s and X, XPos's X and P, and x1's x and 1."""
_FEWEST_MOVES = 10


@dataclass(frozen=True)
class Coordinates:
    """Coordinates that were found, or candidates if there are none.

    Args:
        names: Names of the coordinates of each entity type that has some, all equally many.
        how: The source, such as "by their names"; an empty string if there are none.
        candidates: Features of entity types that may be coordinates.
        wraps: True if longitudes on both sides of 180 degrees are far apart, though places are not.
    """

    names: Names = field(default_factory=dict)
    how: str = ""
    candidates: Names = field(default_factory=dict)
    wraps: bool = False

    def __str__(self) -> str:
        """Return a line for the screen."""
        if self.names:
            wraps = "; longitudes wrap at 180 degrees, positions do not" if self.wraps else ""
            return f"positions: {_listed(self.names)}, {self.how}{wraps}"
        if not self.candidates:
            return (
                "positions: none found; if entities have places, declare them: "
                'Entity([Position("x", "y"), ...])'
            )
        some = ", ".join(f'"{name}"' for name in next(iter(self.candidates.values())))
        return (
            f"positions: none found; candidates: {_listed(self.candidates)}; if they are places, "
            f"declare them as continuous features: Entity([Position({some}), ...])"
        )


@dataclass(frozen=True)
class Place:
    """Features of an entity type whose names differ in their axis only.

    Args:
        rank: 0 for names of axes alone, 1 if other words say that the place is the entity's own, 2
            for unknown words, and 3 for another place.
        family: Index of the family of axes.
        axes: Names of the features by axis.
    """

    rank: int
    family: int
    axes: dict[int, str]

    @property
    def is_plain(self) -> bool:
        """True for axes x and y, which a picture shows to the right and upwards."""
        return self.family == 0 and {0, 1} <= set(self.axes)


def find_coordinates(obs_space: ObsSpace, game: Sequence[VecObs]) -> Coordinates:
    """Return the coordinates that a space declares, or else those that names or numbers tell.

    Names tell them if they differ in an axis only, such as ``pos_x`` and ``pos_y`` or ``row`` and
    ``col``. Otherwise an actor's columns tell them that change to and fro in small steps, if
    another entity type has columns with the same range.

    Args:
        obs_space: The observation space.
        game: Observations of consecutive steps, such as those of random play.
    """
    declared = {
        name: entity.position.names
        for name, entity in obs_space.entities.items()
        if entity.position is not None
    }
    if declared:
        return Coordinates(declared, "as declared")
    seen = Columns(obs_space, game)
    if found := _by_names(obs_space, seen):
        return Coordinates(found, "by their names", wraps=_wraps(found, seen))
    found, candidates = _by_numbers(obs_space, seen)
    if found:
        return Coordinates(found, "by their numbers")
    return Coordinates(candidates=candidates | _discrete(obs_space))


def named_places(name: EntityName, features: Sequence[str]) -> list[Place]:
    """Return the places that names of features of an entity type tell, best first."""
    kind = _words(name)
    readings: dict[tuple[int, tuple[str, ...]], dict[int, str]] = {}
    marks: dict[tuple[str, ...], set[str]] = {}
    for feature in features:
        for word, rest in _readings(_words(feature), kind):
            marks.setdefault(rest, set()).add(word)
            for family, all_axes in enumerate(_AXES):
                for axis, options in enumerate(all_axes):
                    if word in options:
                        readings.setdefault((family, rest), {}).setdefault(axis, feature)
    for (family, rest), axes in list(readings.items()):
        (axis, feature), *others = axes.items()
        if not others and (fewer := _without_axis(rest, axis)) != rest:  # row_i and col_j
            marks.setdefault(fewer, set()).update(marks[rest])
            readings.setdefault((family, fewer), {}).setdefault(axis, feature)
    found = []
    for (family, rest), axes in readings.items():
        words = [word for word in rest if not word.isdigit() and word != "*"]
        if len(axes) < 2 or any(map(_is_vector, words)):
            continue
        numbers = {word for word in marks[rest] if word.isdigit() or word in _LETTERS}
        if family in _NUMBERED and not (
            set(words) & _PLACES and numbers == set().union(*_AXES[family][: len(axes)])
        ):
            continue
        if family in _COMPASS and marks[rest] & _OPPOSITE:
            continue  # one feature for each direction
        found.append(Place(_rank(words, kind), family, axes))
    return sorted(found, key=lambda place: (place.rank, place.family))


class Columns:
    """The numbers of a game, by entity type and feature.

    Args:
        obs_space: The observation space.
        game: Observations of consecutive steps.

    Attributes:
        values: The numbers of all entities of a type; at least one.
        moves: Their changes from one step to the next, where there are equally many entities.
        actors: The types of actors; all types if only the player as a whole acts.
    """

    def __init__(self, obs_space: ObsSpace, game: Sequence[VecObs]) -> None:
        self.values: dict[Column, Numbers] = {}
        self.moves: dict[Column, Numbers] = {}
        for name, entity in obs_space.entities.items():
            frames = [_frames(obs, name) for obs in game]
            moves = [
                after[row] - rows
                for before, after, obs in zip(frames, frames[1:], game[1:], strict=False)
                for row, rows in before.items()
                if row in after and not obs.done[row] and len(after[row]) == len(rows)
            ]
            values = [rows for own in frames for rows in own.values() if len(rows)]
            for column, feature in enumerate(entity.names):
                if values and not isinstance(entity, Grid):
                    self.values[name, feature] = np.concatenate(values)[:, column]
                    self.moves[name, feature] = np.concatenate([values[0][:0], *moves])[:, column]
        self.actors = set[EntityName]().union(*(_actor_types(obs_space, obs) for obs in game))
        self.actors = self.actors or set(obs_space.entities)


def _by_names(space: ObsSpace, seen: Columns) -> Names:
    """Return the coordinates in one frame of reference that names tell."""
    found: dict[EntityName, list[Place]] = {}
    for name, entity in space.entities.items():
        places = named_places(name, _continuous(entity))
        places = [place for place in places if _is_likely(place, name, seen)]
        if places:
            found[name] = places
    if not found:
        return {}
    least = max(1, min(places[0].rank for places in found.values()))
    first = {name: places[0] for name, places in found.items() if places[0].rank <= least}
    families = Counter(place.family for place in first.values())
    family = max(families, key=lambda own: families[own])
    own = {name: place.axes for name, place in first.items() if place.family == family}
    sets = ({0, 1, 2}, {0, 1}, {0, 2}, {1, 2})
    axes = max(sets, key=lambda axes: sum(axes <= set(place) for place in own.values()))
    chosen = {
        name: tuple(place[axis] for axis in sorted(axes))
        for name, place in own.items()
        if axes <= set(place)
    }
    frame = [
        [
            seen.values[name, places[axis]]
            for name, places in chosen.items()
            if (name, places[axis]) in seen.values
        ]
        for axis in range(len(axes))
    ]
    for name, places in found.items():
        for place in places if name not in chosen else ():
            features = tuple(place.axes[axis] for axis in sorted(axes) if axis in place.axes)
            columns = [seen.values.get((name, feature)) for feature in features]
            if len(features) == len(axes) and all(map(_lies_within, columns, frame)):
                chosen[name] = features
                break
    return {name: chosen[name] for name in space.entities if name in chosen}


def _wraps(names: Names, seen: Columns) -> bool:
    """Return True if longitudes in degrees lie near both ends of their range."""
    longitudes = [
        seen.values[name, feature]
        for name, features in names.items()
        for feature in features
        if _LONGITUDES.intersection(_words(feature)) and (name, feature) in seen.values
    ]
    return bool(longitudes) and bool(300 < np.ptp(np.concatenate(longitudes)) <= 360)


def _is_likely(place: Place, name: EntityName, seen: Columns) -> bool:
    """Return False if the numbers contradict names that may stand for other things."""
    features = [(name, feature) for feature in place.axes.values()]
    columns = [seen.values[own] for own in features if own in seen.values]
    if not columns or (place.family < 2 and place.rank < 2):
        return True
    if all(((own == 0) | (own == 1)).all() for own in columns):
        return False
    return place.family not in _WEAK or _overlap(columns[0], columns[1]) > 0.3


def _lies_within(values: Numbers | None, others: Sequence[Numbers]) -> bool:
    """Return True if numbers lie in the range of others, and are not those of a unit vector."""
    if values is None or not others:
        return False
    low, high = min(own.min() for own in others), max(own.max() for own in others)
    room = 0.05 * (high - low)
    own = np.ptp(values)
    return low - room <= values.min() and values.max() <= high + room and not 0 < own < 2 * room


def _by_numbers(space: ObsSpace, seen: Columns) -> tuple[Names, Names]:
    """Return the coordinates that numbers tell, and features that may be coordinates."""
    candidates: Names = {}
    for name in (own for own in space.entities if own in seen.actors):
        walking = [own for own in _continuous(space.entities[name]) if _walks((name, own), seen)]
        if len(walking) < 2:
            continue
        candidates[name] = tuple(walking)
        found: Names = {}
        for other, entity in space.entities.items():
            pairs = {} if other == name else _equal_columns(name, walking, other, entity, seen)
            if len(pairs) in (2, 3) and set(found.get(name, pairs)) <= set(pairs):
                found.setdefault(name, tuple(pairs))
                found[other] = tuple(pairs[feature] for feature in found[name])
        if found:
            return {own: found[own] for own in space.entities if own in found}, {}
    return {}, candidates


def _walks(column: Column, seen: Columns) -> bool:
    """Return True if a feature changes to and fro in steps that are small beside its range.

    Whole numbers whose steps differ are counts, such as riders, rather than places on a grid.
    """
    if column not in seen.values:
        return False
    values, steps = seen.values[column], seen.moves[column]
    steps = steps[steps != 0]
    if len(steps) < _FEWEST_MOVES or not 0.2 < (steps > 0).mean() < 0.8:
        return False
    usual = np.median(np.abs(steps))
    is_whole = bool((values == np.round(values)).all())
    is_count = is_whole and (np.abs(steps) == usual).mean() < 0.85
    return bool(usual <= 0.25 * np.ptp(values)) and not is_count


def _equal_columns(
    name: EntityName, features: Sequence[str], other: EntityName, entity: Entity, seen: Columns
) -> dict[str, str]:
    """Return for features of one type those of another with the same name, or the same range."""
    free = [feature for feature in _continuous(entity) if (other, feature) in seen.values]
    if shared := {feature: feature for feature in features if feature in free}:
        return shared
    found = dict[str, str]()
    for feature in features:
        for option in free:
            if _overlap(seen.values[name, feature], seen.values[other, option]) > 0.8:
                found[feature] = option
                free.remove(option)
                break
    return found


def _overlap(one: Numbers, other: Numbers) -> float:
    """Return the common part of the ranges of two columns, 0 if only one has whole numbers."""
    kinds = [(values == np.round(values)).all() for values in (one, other)]
    if kinds[0] != kinds[1]:
        return 0.0
    shared = min(one.max(), other.max()) - max(one.min(), other.min())
    return float(shared / ((max(one.max(), other.max()) - min(one.min(), other.min())) or 1.0))


def _rank(words: Sequence[str], kind: Sequence[str]) -> int:
    foreign = [word for word in words if not any(_is_same_word(word, own) for own in kind)]
    if _OTHER.intersection(foreign):
        return 3
    if not set(foreign) <= _OWN or any(len(own) > 1 for own in _VECTORS.intersection(kind)):
        return 2
    return 1 if words else 0


def _is_vector(word: str) -> bool:
    """Return True for words such as velocity, and for two such as relpos and windspeed."""
    return word in _VECTORS or (
        word not in _KNOWN
        and any(word.startswith(own) and word.removeprefix(own) in _KNOWN for own in _VECTORS)
    )


def _is_same_word(word: str, kind: str) -> bool:
    """Return True if a word stands for an entity type, such as r and robots for Robot."""
    return kind.startswith(word) or (len(kind) > 2 and word.startswith(kind))


def _words(name: str) -> tuple[str, ...]:
    """Return the words of a name: pos and x for ``posX``, ``pos_x`` and ``pos[x]``."""
    return tuple(word for word in re.split(r"[\W_]+", _PARTS.sub(" ", name).casefold()) if word)


_ALL_AXES = sorted((_OPPOSITE | _LETTERS).union(*(axis for family in _AXES for axis in family)))
_KNOWN = _OWN | _OTHER | _VECTORS


def _readings(words: Sequence[str], kind: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each axis that a name may have, and its words with * in the place of the axis."""
    for place, word in enumerate(words):
        before, after = tuple(words[:place]), tuple(words[place + 1 :])
        if word in _ALL_AXES:
            yield word, (*before, "*", *after)
            continue
        for axis in _ALL_AXES:
            if word.endswith(axis) and _may_join(rest := word.removesuffix(axis), axis, kind):
                yield axis, (*before, rest, "*", *after)
            elif word.startswith(axis) and (rest := word.removeprefix(axis)) in _KNOWN:
                yield axis, (*before, "*", rest, *after)


def _without_axis(words: tuple[str, ...], axis: int) -> tuple[str, ...]:
    """Return words without other words for the same axis; v may also be a velocity, and stays."""
    return tuple(
        word
        for word in words
        if word.isdigit()
        or word in _VECTORS
        or not any(word in axes[axis] for axes in _AXES if axis < len(axes))
    )


def _may_join(rest: str, axis: str, kind: Sequence[str]) -> bool:
    """Return True if a word and an axis may be written as one: posx, playery, targetrow."""
    return axis in "xyz" or rest in _KNOWN or any(_is_same_word(rest, own) for own in kind)


def _continuous(entity: Entity) -> list[str]:
    features = () if isinstance(entity, Grid) else entity.features
    return [feature_name(own) for own in features if num_values(own) is None]


def _discrete(space: ObsSpace) -> Names:
    """Return features named as coordinates that cannot be some, because they are discrete."""
    found = {}
    for name, entity in space.entities.items():
        if not isinstance(entity, Grid) and (places := named_places(name, entity.names)):
            found[name] = tuple(places[0].axes.values())
    return found


def _frames(obs: VecObs, name: EntityName) -> dict[int, Numbers]:
    """Return the features of the entities of a type by row."""
    buffer = obs.features[name]
    parts = np.split(buffer.as_array(), np.cumsum(buffer.size1())[:-1])
    return dict(zip(obs.rows.tolist(), parts, strict=False))


def _actor_types(space: ObsSpace, obs: VecObs) -> set[EntityName]:
    """Return the types of the entities that act."""
    names = list(space.entities)
    if not names:
        return set()
    ends = np.cumsum([obs.features[name].size1() for name in names], axis=0)
    found = set[EntityName]()
    for mask in obs.action_masks.values():
        lengths = mask.actors.size1()
        frames = np.repeat(np.arange(len(lengths)), lengths)
        kinds = (mask.actors.as_array().reshape(-1) >= ends[:, frames]).sum(0)
        found.update(names[kind] for kind in set(kinds.tolist()) if kind < len(names))
    return found


def _listed(names: Names) -> str:
    """Return coordinates and their types: x, y of Robot and Mine; row, col of Wall."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name, own in names.items():
        kinds.setdefault(own, []).append(name)
    return "; ".join(f"{', '.join(own)} of {', '.join(types)}" for own, types in kinds.items())
