"""Observation and action spaces.

Frozen dataclasses without NumPy, so that the network can be built from them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, Union, get_args

from entity_env.arguments import check_whole, named_arguments
from entity_env.errors import EntityEnvError, ObservationError, SpaceError, shorten
from entity_env.space_checks import (
    check_name,
    check_unique,
    checked_bounds,
    checked_flags,
    checked_labels,
    checked_names,
    checked_shape,
    checked_size,
    in_order,
    inner_float32,
    is_finite_number,
    plain_number,
)

__all__ = [
    "ActionName",
    "ActionSpace",
    "CategoricalActionSpace",
    "Continuous",
    "ContinuousActionSpace",
    "Discrete",
    "Entity",
    "EntityName",
    "Feature",
    "Flags",
    "GlobalCategoricalActionSpace",
    "GlobalContinuousActionSpace",
    "Grid",
    "ObsSpace",
    "Position",
    "SelectEntitiesActionSpace",
    "SelectEntityActionSpace",
    "check_action_space",
    "check_obs_space",
    "check_same_spaces",
    "discrete_features",
    "feature_name",
    "num_values",
    "value_names",
]

EntityName: TypeAlias = str
ActionName: TypeAlias = str


@named_arguments(SpaceError)
@dataclass(frozen=True)
class Continuous:
    """A real-valued feature that may declare its scale.

    Args:
        name: The feature's name.
        mean: Typical value. Give both ``mean`` and ``std``, or neither: then the network keeps
            running statistics.
        std: Typical deviation from ``mean``, positive.
    """

    name: str
    mean: float | None = None
    std: float | None = None

    def __post_init__(self) -> None:
        """Check the name and the scale."""
        check_name("feature", self.name)
        if (self.mean is None) != (self.std is None):
            raise SpaceError(
                f"feature {self.name!r} declares only one of mean and std",
                expected="both, or neither",
                received=f"mean={shorten(self.mean)}, std={shorten(self.std)}",
            )
        for label, value in (("mean", self.mean), ("std", self.std)):
            if value is not None and not is_finite_number(value):
                raise SpaceError(
                    f"feature {self.name!r} has a {label} that is not a finite number",
                    expected="a finite float32",
                    received=shorten(value),
                )
        if self.std is not None and self.std <= 0:
            raise SpaceError(
                f"feature {self.name!r} has a std that is not positive",
                expected="std > 0",
                received=self.std,
            )
        for label in ("mean", "std"):
            object.__setattr__(self, label, plain_number(getattr(self, label)))


@named_arguments(SpaceError)
@dataclass(frozen=True, repr=False)
class Discrete:
    """A feature with the integer values ``0 .. n - 1``, which the network embeds.

    Args:
        name: The feature's name.
        n: The number of values, at most 2**24.
        vocabulary: Name of an embedding that several features share because their values have the
            same meaning, such as the terrain of a tile and the terrain under a unit. None: a
            separate embedding.
        names: Names of the ``n`` values in tables and pictures; their numbers by default. Names
            do not count when features are compared.
    """

    name: str
    n: int
    vocabulary: str | None = None
    names: Sequence[str] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Check the name, the number of values, the vocabulary and the names."""
        check_name("feature", self.name)
        object.__setattr__(self, "n", checked_size(self.name, self.n))
        if self.vocabulary is not None:
            check_name("vocabulary", self.vocabulary)
        object.__setattr__(self, "names", checked_names(self.name, self.n, self.names))

    def __repr__(self) -> str:
        """Return the constructor call, without arguments that have their default."""
        shared = "" if self.vocabulary is None else f", vocabulary={self.vocabulary!r}"
        named = f", names={self.names!r}" if self.names else ""
        return f"Discrete(name={self.name!r}, n={self.n!r}{shared}{named})"


@named_arguments(SpaceError)
@dataclass(frozen=True, init=False, repr=False)
class Flags(Discrete):
    """A set of flags, each on or off, in one feature: ``Flags("status", 8)``.

    The value is an integer with a bit for each flag, as in an ``enum.IntFlag``: flag i adds 2**i.
    The network has a vector for each flag, and adds up the vectors of the flags that are on.

    Args:
        name: The feature's name.
        count: The number of flags, at most 24.
    """

    def __init__(self, name: str, count: int) -> None:
        check_name("feature", name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "n", 2 ** checked_flags(name, count))
        object.__setattr__(self, "vocabulary", None)
        object.__setattr__(self, "names", ())

    @property
    def count(self) -> int:
        """The number of flags."""
        return self.n.bit_length() - 1

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"Flags({self.name!r}, {self.count})"


Feature: TypeAlias = Union[str, Continuous, Discrete]


@named_arguments(SpaceError)
@dataclass(frozen=True, init=False)
class Position:
    """Coordinates among the features of an entity type: ``Position("x", "y")``.

    Each coordinate is a continuous feature. Networks can read offsets between the positions of
    entities (``net.relative_position``).

    Args:
        names: One to three names of features.
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        if not 1 <= len(names) <= 3:
            raise SpaceError(
                "a Position has the wrong number of coordinates",
                expected='one to three names, such as Position("x", "y")',
                received=shorten(names),
            )
        for name in names:
            check_name("feature", name)
        check_unique("feature", list(names))
        object.__setattr__(self, "names", tuple(names))

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"Position({', '.join(map(repr, self.names))})"


def feature_name(feature: Feature) -> str:
    """Return the name of a feature of any kind."""
    return feature if isinstance(feature, str) else feature.name


def num_values(feature: Feature) -> int | None:
    """Return the number of values of a discrete feature, and None for a continuous one."""
    return feature.n if isinstance(feature, Discrete) else None


def value_names(feature: Feature) -> Sequence[str]:
    """Return the names of the values of a discrete feature, if it has names."""
    return feature.names if isinstance(feature, Discrete) else ()


def discrete_features(features: Sequence[Feature]) -> dict[int, Discrete]:
    """Return the discrete ones among the features of a type, by column."""
    return {i: feature for i, feature in enumerate(features) if isinstance(feature, Discrete)}


@named_arguments(SpaceError)
@dataclass(frozen=True)
class Entity:
    """The features of one entity type. A plain string is a continuous feature.

    Args:
        features: The features, in order. A ``Position`` adds a feature for each coordinate.
        position: The coordinates among the features; set by a ``Position`` in ``features``.
    """

    features: Sequence[Feature] = ()
    position: Position | None = None

    if TYPE_CHECKING:  # more types may be given than are stored

        def __init__(
            self, features: Sequence[Feature | Position] = (), position: Position | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        """Check the features and freeze their order."""
        what = "the features of an entity type"
        features, position = _with_coordinates(what, self.features, self.position)
        object.__setattr__(self, "features", _checked_features(what, features))
        object.__setattr__(self, "position", position)
        for name in () if position is None else position.names:
            own = next((f for f in self.features if feature_name(f) == name), None)
            if own is None or isinstance(own, Discrete):
                raise SpaceError(
                    f"{name!r} cannot be a coordinate of the position of an entity type",
                    expected="one of its continuous features",
                    received=shorten(self.features),
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The feature names, in order."""
        return tuple(feature_name(feature) for feature in self.features)


@named_arguments(SpaceError)
@dataclass(frozen=True, init=False, repr=False)
class Grid(Entity):
    """An entity type whose entities are the cells of a map: ``Grid((15, 15), ["food"])``.

    An observation gives all cells, as an array (height, width, features) or as rows in row-major
    order, (height * width, features), or no cell. Networks read the map with a convolution, which
    reduces it to a few entities, because attention between all cells of a 15 x 15 map would need
    225 * 225 pairs. Cells have no ids, and cannot be hidden.

    Args:
        shape: Height and width.
        features: The features of each cell, in order.
        cells: True to let cells be actors and be selected, with the ids (name of the type, row,
            column).
    """

    shape: tuple[int, int] = (1, 1)
    cells: bool = False

    def __init__(
        self, shape: Sequence[int], features: Sequence[Feature] = (), cells: bool = False
    ) -> None:
        if isinstance(features, list | tuple) and any(isinstance(f, Position) for f in features):
            raise SpaceError(
                "a Grid has a Position among its features",
                expected="other features; the position of a cell is its place in the grid",
                received=shorten(features),
            )
        if not isinstance(cells, bool):
            raise SpaceError(
                "cells of a Grid is not a boolean",
                expected="True or False",
                received=shorten(cells),
            )
        own = _checked_features("the features of a Grid", features)
        object.__setattr__(self, "features", own)
        object.__setattr__(self, "position", None)
        object.__setattr__(self, "shape", checked_shape(shape))
        object.__setattr__(self, "cells", cells)

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.shape[0] * self.shape[1]

    def __repr__(self) -> str:
        """Return the constructor call."""
        cells = ", cells=True" if self.cells else ""
        return f"Grid({self.shape}, {list(self.features)}{cells})"


@named_arguments(SpaceError)
@dataclass(frozen=True)
class ObsSpace:
    """The entity types and global features of observations.

    Args:
        global_features: Features that each frame has once.
        entities: Entity types by name. Their order is the order of entities within a frame.
    """

    global_features: Sequence[Feature] = ()
    entities: Mapping[EntityName, Entity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check and copy the parts, so that later changes of the arguments have no effect."""
        hint = "entity types are given by name: ObsSpace(entities={...})"
        features = _checked_features("global_features", self.global_features, hint)
        object.__setattr__(self, "global_features", features)
        if not isinstance(self.entities, Mapping):
            raise SpaceError(
                "ObsSpace.entities is not a mapping",
                expected="a dict from entity type to Entity",
                received=shorten(self.entities),
            )
        for name, entity in self.entities.items():
            check_name("entity type", name)
            if not isinstance(entity, Entity):
                raise SpaceError(
                    f"entity type {name!r} is not an Entity",
                    expected="Entity([...feature names...])",
                    received=shorten(entity),
                )
        object.__setattr__(self, "entities", dict(self.entities))
        _check_vocabularies([features, *(own.features for own in self.entities.values())])

    @property
    def grids(self) -> dict[EntityName, Grid]:
        """The entity types that are grids."""
        return {name: own for name, own in self.entities.items() if isinstance(own, Grid)}

    @property
    def global_names(self) -> tuple[str, ...]:
        """The names of the global features, in order."""
        return tuple(feature_name(feature) for feature in self.global_features)


class _ActionFacts:
    """Facts about a kind of action, by which other code distinguishes the kinds.

    Attributes:
        is_global: True if the player as a whole acts.
        selects: True if entities are selected.
        picks_one: True if a choice is one label or one entity; False for numbers and for sets.
    """

    is_global: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    picks_one: ClassVar[bool] = True


@dataclass(frozen=True)
class _Labelled(_ActionFacts):
    """A list of choices."""

    index_to_label: Sequence[str]

    def __post_init__(self) -> None:
        """Check the labels."""
        object.__setattr__(self, "index_to_label", checked_labels(self.index_to_label))

    def __len__(self) -> int:
        """Return the number of choices."""
        return len(self.index_to_label)


@named_arguments(SpaceError)
@dataclass(frozen=True)
class CategoricalActionSpace(_Labelled):
    """A choice from a fixed list of labels, made by each of several actors."""


@named_arguments(SpaceError)
@dataclass(frozen=True)
class GlobalCategoricalActionSpace(_Labelled):
    """A choice from a fixed list of labels, made by the player as a whole."""

    is_global: ClassVar[bool] = True


@named_arguments(SpaceError)
@dataclass(frozen=True)
class SelectEntityActionSpace(_ActionFacts):
    """A selection of one entity of the frame, made by each of several actors."""

    selects: ClassVar[bool] = True


@named_arguments(SpaceError)
@dataclass(frozen=True)
class SelectEntitiesActionSpace(_ActionFacts):
    """A selection of a set of entities of the frame, possibly empty, made by each actor.

    Args:
        at_most: Largest number of entities that an actor can select, at least 1.
    """

    selects: ClassVar[bool] = True
    picks_one: ClassVar[bool] = False
    at_most: int

    def __post_init__(self) -> None:
        """Check the number."""
        what = "at_most of a SelectEntitiesActionSpace"
        object.__setattr__(self, "at_most", check_whole(what, self.at_most, error=SpaceError))


@dataclass(frozen=True)
class _Bounded(_ActionFacts):
    """K numbers between bounds."""

    picks_one: ClassVar[bool] = False
    low: Any
    high: Any

    def __post_init__(self) -> None:
        """Check the bounds and make tuples of them."""
        low, high = checked_bounds(self.low, self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def __len__(self) -> int:
        """Return the number of numbers K."""
        return len(self.low)

    @property
    def inner_bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The bounds rounded inwards to float32, the dtype of actions: low and high, K each."""
        return (
            tuple(inner_float32(bound, up=True) for bound in self.low),
            tuple(inner_float32(bound, up=False) for bound in self.high),
        )


@named_arguments(SpaceError)
@dataclass(frozen=True)
class ContinuousActionSpace(_Bounded):
    """K numbers, such as a force and an angle, set by each of several actors.

    Args:
        low: Lower bounds: one number, or K numbers; None where a number has no bound.
        high: Upper bounds, likewise.
    """


@named_arguments(SpaceError)
@dataclass(frozen=True)
class GlobalContinuousActionSpace(_Bounded):
    """K numbers, set by the player as a whole.

    Args:
        low: Lower bounds: one number, or K numbers; None where a number has no bound.
        high: Upper bounds, likewise.
    """

    is_global: ClassVar[bool] = True


ActionSpace: TypeAlias = Union[
    CategoricalActionSpace,
    GlobalCategoricalActionSpace,
    SelectEntityActionSpace,
    SelectEntitiesActionSpace,
    ContinuousActionSpace,
    GlobalContinuousActionSpace,
]


def check_obs_space(obs_space: object) -> ObsSpace:
    """Return ``obs_space`` if it is an observation space, else raise ObservationError."""
    if not isinstance(obs_space, ObsSpace):
        raise ObservationError(
            "not an observation space", expected="entity_env.ObsSpace", received=shorten(obs_space)
        )
    return obs_space


def check_action_space(action_space: object) -> dict[ActionName, ActionSpace]:
    """Return a copy of a dict from action names to action spaces, or raise SpaceError."""
    if not isinstance(action_space, Mapping):
        raise SpaceError(
            "the action space is not a mapping",
            expected="a dict from action names to action spaces",
            received=shorten(action_space),
        )
    if not action_space:
        raise SpaceError("the action space is empty", expected="at least one action")
    kinds = get_args(ActionSpace)
    for name, space in action_space.items():
        check_name("action", name)
        if not isinstance(space, kinds):
            raise SpaceError(
                f"action {name!r} has no action space",
                expected=" or ".join(kind.__name__ for kind in kinds),
                received=shorten(space),
            )
    return dict(action_space)


def check_same_spaces(spaces: Sequence[Mapping[str, Any]], where: Callable[[int], str]) -> None:
    """Check that all environments have the same spaces, with all names in the same order.

    Args:
        spaces: The ``obs_space`` and ``action_space`` of each.
        where: Returns the place of the i-th environment, for errors.

    Raises:
        ObservationError, SpaceError: A space is not valid, or differs from the first one.
    """
    for i, space in enumerate(spaces):
        try:
            check_obs_space(space["obs_space"])
            check_action_space(space["action_space"])
        except EntityEnvError as error:
            raise error.located(where(i)) from error.__cause__
    for kind in ("obs_space", "action_space"):
        first = spaces[0][kind]
        for i, own in enumerate(space[kind] for space in spaces):
            what, expected, received = "differs from", first, own
            if own == first:  # equal dicts may differ in their order
                what, expected, received = (
                    "has its names in another order than",
                    _order(first),
                    _order(own),
                )
            if expected != received:
                raise SpaceError(
                    f"the {kind} {what} that of the first environment",
                    expected=shorten(expected),
                    received=shorten(received),
                ).located(where(i))


def _order(space: Any) -> list[Any] | None:
    """Return the names of entity types or actions; None for other objects."""
    names = space.entities if isinstance(space, ObsSpace) else space
    return list(names) if isinstance(names, Mapping) else None


def _with_coordinates(what: str, given: object, position: object) -> tuple[object, Position | None]:
    """Replace a ``Position`` by its coordinates; return the features and the position."""
    if position is not None and not isinstance(position, Position):
        raise SpaceError(
            "the position of an entity type is of the wrong class",
            expected='Position("x", "y")',
            received=shorten(position),
        )
    if not isinstance(given, list | tuple):
        return given, position
    found = [own for own in given if isinstance(own, Position)]
    if not found:
        return given, position
    if len(found) > 1 or position is not None:
        raise SpaceError(f"{what} have more than one Position", received=shorten(given))
    features: list[object] = []
    for own in given:
        features += own.names if isinstance(own, Position) else [own]
    return features, found[0]


def _check_vocabularies(lists: Sequence[Sequence[Feature]]) -> None:
    """Raise SpaceError unless features with the same vocabulary have equally many values."""
    first: dict[str, Discrete] = {}
    for feature in (own for features in lists for own in features):
        if not isinstance(feature, Discrete) or feature.vocabulary is None:
            continue
        known = first.setdefault(feature.vocabulary, feature)
        if known.n != feature.n:
            raise SpaceError(
                f"features of the vocabulary {feature.vocabulary!r} have different numbers of "
                "values",
                expected=f"{known.n}, as {known.name!r} has",
                received=f"{feature.n} of {feature.name!r}",
            )


def _checked_features(what: str, given: object, hint: str | None = None) -> tuple[Feature, ...]:
    features = in_order(what, given, "a list of names, Continuous, Discrete or Flags", hint)
    for feature in features:
        if not isinstance(feature, str | Continuous | Discrete):
            raise SpaceError(
                f"{what} have one of an unknown kind",
                expected="a name, Continuous, Discrete or Flags",
                received=shorten(feature),
            )
        check_name("feature", feature_name(feature))
    check_unique("feature", [feature_name(feature) for feature in features])
    return features
