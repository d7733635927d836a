"""Observation spaces from the dataclasses of a game's objects.

@dataclass
class Robot:
    x: float
    y: float
    terrain: Annotated[int, range(4)]
    _battery: float = 1.0  # a leading underscore: not a feature

obs_space = obs_space_from_dataclasses(Robot, Mine)
features = extract_features({"Robot": robots, "Mine": mines}, obs_space)

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum, Flag
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from entity_env.errors import EntityEnvError, SpaceError, shorten
from entity_env.spaces import Continuous, Discrete, Entity, EntityName, Feature, ObsSpace

__all__ = ["annotations_of", "obs_space_from_dataclasses"]

_ALLOWED = (
    "float, int, bool, an Enum, a Literal of strings, a dataclass of these, Annotated[int, "
    'range(n)], or Annotated[float, Continuous("_", mean=..., std=...)]'
)
_LEAVE_OUT = 'leave it out with field(metadata={"feature": False}), or a leading underscore'
_OWN_NAME = "_"
"""A placeholder in annotations for the name of the field."""
_MARKS = (Discrete, Continuous, range)


def obs_space_from_dataclasses(*classes: type, global_features: type | None = None) -> ObsSpace:
    """Return the space of entities that are instances of dataclasses; each class is an entity type.

    Features are the fields in their order, with these annotations:

    - ``float``, ``int``, ``bool`` (and NumPy's) are continuous. Declare a scale by
      ``Annotated[float, Continuous("_", mean=50, std=20)]``, where ``_`` stands for the field's
      name.
    - ``Annotated[int, range(4)]`` is ``Discrete`` with the values 0 to 3; so is
      ``Annotated[int, Discrete("_", 4)]``.
    - An ``Enum`` is ``Discrete``; its values are the places of the members. So is a ``Literal`` of
      strings.
    - A dataclass adds its own fields, such as ``position.x``.

    ``ClassVar``, fields with a leading underscore, and fields with
    ``field(metadata={"feature": False})`` are left out.

    Args:
        classes: Dataclasses; their names are the entity types, in this order.
        global_features: A dataclass whose fields are the global features.

    Raises:
        SpaceError: A class is not a dataclass, two have the same name, or an annotation is not
            supported.
    """
    entities: dict[EntityName, Entity] = {}
    for cls in classes:
        features = _features(cls)
        if cls.__name__ in entities:
            raise SpaceError(
                f"two dataclasses have the name {cls.__name__!r}",
                expected="a different name for each entity type",
                received=shorten([f"{c.__module__}.{c.__qualname__}" for c in classes]),
            )
        entities[cls.__name__] = Entity(features)
    return ObsSpace(
        global_features=[] if global_features is None else _features(global_features),
        entities=entities,
    )


def _features(cls: Any, prefix: str = "", inside: tuple[type, ...] = ()) -> list[Feature]:
    """Return the features of a dataclass; ``inside`` are the classes that it is nested in."""
    if not isinstance(cls, type) or not is_dataclass(cls):
        raise SpaceError(
            "not a dataclass",
            expected="a class with the decorator @dataclass",
            received=shorten(cls),
        )
    hints = annotations_of(cls)
    found: list[Feature] = []
    for field in fields(cls):
        if not field.name.startswith("_") and field.metadata.get("feature", True):
            found += _feature(cls, field, hints[field.name], prefix, (*inside, cls))
    return found


def _feature(
    cls: type, field: Field[Any], annotation: Any, prefix: str, inside: tuple[type, ...]
) -> list[Feature]:
    """Return the features of one field: one, or those of a nested dataclass."""
    name = prefix + field.name
    kind, marks = annotation, []
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        # The class itself is a mistake for an instance of it.
        marks = [n for n in notes if isinstance(n, _MARKS) or n in (Discrete, Continuous, range)]
    if marks:
        if len(marks) == 1 and _is_number(kind) and isinstance(marks[0], _MARKS):
            return [_marked(cls, field.name, name, marks[0])]
    elif _is_number(kind):
        return [name]
    elif get_origin(kind) is Literal and all(isinstance(text, str) for text in get_args(kind)):
        return [_named(name, get_args(kind))]
    elif isinstance(kind, type) and issubclass(kind, Enum) and not issubclass(kind, Flag):
        if len(kind):
            return [_named(name, [field.name for field in kind])]
    elif isinstance(kind, type) and is_dataclass(kind) and kind not in inside:
        return _features(kind, name + ".", inside)
    raise SpaceError(
        f"field {field.name!r} of dataclass {cls.__name__} cannot be a feature",
        expected=_ALLOWED,
        received=f"{field.name}: {_spelled(annotation)}",
        hint=_LEAVE_OUT,
    )


def _named(name: str, values: Sequence[str]) -> Discrete:
    """Return the feature with these values, and their names if all of them can be read."""
    return Discrete(name, len(values), names=values if all(values) else ())


def _marked(cls: type, field: str, name: str, mark: Discrete | Continuous | range) -> Feature:
    """Return the feature that an annotation declares, under the name of its field."""
    if isinstance(mark, range):
        if not mark or mark.start != 0 or mark.step != 1:
            raise SpaceError(
                f"field {field!r} of dataclass {cls.__name__} has a range that cannot be a feature",
                expected="range(n), the values 0 to n - 1",
                received=mark,
            )
        return Discrete(name, len(mark))
    if mark.name not in (_OWN_NAME, field):
        raise SpaceError(
            f"field {field!r} of dataclass {cls.__name__} is annotated with another name",
            expected=f"{type(mark).__name__}({field!r}, ...), or {_OWN_NAME!r} for the same",
            received=mark,
        )
    return replace(mark, name=name)


def annotations_of(cls: type) -> dict[str, Any]:
    """Return the annotations of a dataclass as objects, inherited ones included."""
    try:
        return get_type_hints(cls, include_extras=True)
    except EntityEnvError as error:  # from Discrete(...) in an annotation that is a string
        raise error.located(f"dataclass {cls.__name__}") from error.__cause__
    except Exception as error:  # an annotation may raise anything
        raise SpaceError(
            f"the annotations of dataclass {cls.__name__} cannot be read: {error}",
            expected="names that are defined in the module of the class",
            received=shorten({field.name: field.type for field in fields(cls)}),
            hint="define these names at the top of the module",
        ) from error


def _is_number(kind: Any) -> bool:
    if not isinstance(kind, type) or issubclass(kind, Enum):
        return False
    return issubclass(kind, float | int | np.integer | np.floating | np.bool_)


def _spelled(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else shorten(annotation)
