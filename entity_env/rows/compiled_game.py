"""The parts of a compiled game: its state, and functions that Numba compiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from entity_env.errors import SettingError, counted, nearest, shorten
from entity_env.spaces import ActionName, ActionSpace, EntityName, ObsSpace, check_action_space

__all__ = ["Actors", "CompiledGame", "Entities", "Field", "Function"]

Function: TypeAlias = Callable[..., Any]
"""A function at the top level of a module, in the part of Python that Numba compiles."""

_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("float32", "float64"),
)
RESERVED = ("random", "steps", "max_steps")
"""Names of the fields and settings that are added to each game."""


@dataclass(frozen=True)
class Field:
    """One part of a game's state.

    Args:
        shape: Shape for one game; the array of all games has the games as its first axis.
        dtype: Integers up to int64, float32, float64 or bool. uint64 is not supported, because
            large values could not be restored from JSON.
        least: Smallest value in a valid state, or one for each column of the last axis; None for no
            bound. Floats of a valid state are finite.
        most: Largest value, in the same form.
        fixed: True to leave the field out of saved states: it is filled once, such as a floor plan,
            or functions of the game always write it before they read it.
    """

    shape: tuple[int, ...] = ()
    dtype: npt.DTypeLike = np.int32
    least: float | tuple[float, ...] | None = None
    most: float | tuple[float, ...] | None = None
    fixed: bool = False


@dataclass(frozen=True)
class Entities:
    """The source of the entities of one type.

    Args:
        rows: A field with one row of features for each entity, of shape (most, F), or (most,)
            for a single feature; or a function ``(g, game, i, out)`` that writes the features of
            entity ``i`` into ``out`` (F,). With ``window`` a field of shape (height, width, F), or
            (height, width) for a single feature: a map that all seats share.
        count: The current number of entities, which are the first ones: a field of shape (), a
            function ``(g, game)``, or a number; None: the number of rows of the field.
        most: The largest number of entities; if ``rows`` is a field, its length.
        window: For a ``Grid``, a function ``(g, game)`` that returns the row and the column of the
            map where the grid begins; it must lie within the map.
    """

    rows: str | Function
    count: str | Function | int | None = None
    most: int | None = None
    window: Function | None = None


@dataclass(frozen=True)
class Actors:
    """The actors of an action, and their choices.

    Args:
        of: The entity type that acts; None for a global action.
        when: A function ``(g, game, i)`` that returns True if entity ``i`` acts; ``(g, game)`` for
            a global action. None: it always acts.
        mask: A function ``(g, game, i, out)`` that writes the mask of entity ``i`` into ``out``,
            which is all True before; ``(g, game, out)`` for a global action. Shape: (C,), or one
            value for each entity that can be selected. None: all choices are allowed.
        targets: The entity types that a select-entity action selects from.
    """

    of: EntityName | None = None
    when: Function | None = None
    mask: Function | None = None
    targets: tuple[EntityName, ...] = ()


@dataclass(frozen=True)
class CompiledGame:
    """A game for ``CompiledRows``, whose functions Numba compiles.

    The first argument of all functions is ``g``, which holds fields as arrays of all games,
    settings as numbers, and ``g.random``, ``g.steps`` (of the running episode) and ``g.max_steps``;
    the second is the number of the game. They read and write their own game only, such as
    ``g.hp[game]`` or ``g.tiles[game, i, 0]``. Functions that they call are decorated with
    ``@compiled``; only ``reset`` may make arrays. Indices are not checked: an index out of range
    reads or overwrites other memory, as in C. ``NUMBA_DISABLE_JIT=1`` plays in Python, with checks.

    A saved state may come from someone else, and a wrong number in it may crash the process or loop
    forever. Two checks of ``set_state`` prevent that: the bounds of each ``Field``, and
    ``problems`` for other conditions, such as indices into lists that have become shorter, entities
    that refer to each other, and numbers that depend on others. For example::

        def problems(g, game):
            carried = g.carried[game, : g.robots[game]]
            listed = _list_items(g, game)  # recompute what follows from other fields
            return {
                "a robot that carries an item twice": len(set(carried)) < len(carried),
                "a wrong list of items": not np.array_equal(listed, g.listed[game]),
            }

    Args:
        obs_space: The observation space.
        action_space: The action space.
        state: The fields by name.
        reset: ``(g, game)`` begins an episode. Fields have their values of the episode before.
        step: ``(g, game, chosen...)`` plays one step, and returns the reward and whether the
            episode is over. ``chosen`` is one int64 array (A,) for each action of the space, in
            its order, with a legal choice for each actor: a label's or an entity's index.
            With seats ``(g, game, seat, chosen...)`` stores the choices of a seat.
        entities: The source of the entities of each type of the space.
        actions: The actors of each action of the space.
        settings: Integers and floats that are the same in all games.
        max_steps: Number of steps after which episodes are cut off; None for no limit.
        metrics: Metrics of episodes, each with the name of the field that holds it at the end of an
            episode. The shape of the field is (), or (seats,).
        global_features: ``(g, game, out)`` writes the global features into ``out`` (G,).
        seats: Number of consecutive rows that play one game. With seats, the functions of
            ``entities``, ``actions`` and ``global_features`` take ``(g, game, seat, ...)``.
        asks: With seats: ``(g, game, seat)`` returns True if the seat must act; None: it always
            must.
        resolve: With seats: ``(g, game, reward)`` plays the step with the choices of the seats,
            adds to ``reward`` (seats,), which is 0 before, and returns whether the episode is over.
            If seats leave and join, it is ``(g, game, reward, left)``, and sets ``left`` (seats,),
            which is False before, for seats whose episode ends while the game continues. These
            seats do not act in that step; ``asks`` lets them join again from the next step on.
        hides: True if players do not see the whole state.
        resample: For games that hide something: ``(g, game)``, or ``(g, game, seat)``, draws anew
            what the seat cannot see, so that a search does not know it.
        problems: ``(g, game)`` returns a dict from descriptions of invalid states, as nouns, to
            True if the state is invalid. Called once for each saved game when all fields are within
            their bounds. Python runs it and all functions that it calls; it may write to ``g``, a
            copy.
    """

    obs_space: ObsSpace
    action_space: Mapping[ActionName, ActionSpace]
    state: Mapping[str, Field]
    reset: Function
    step: Function
    entities: Mapping[EntityName, Entities] = field(default_factory=dict)
    actions: Mapping[ActionName, Actors] = field(default_factory=dict)
    settings: Mapping[str, float] = field(default_factory=dict)
    max_steps: int | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    global_features: Function | None = None
    seats: int | None = None
    asks: Function | None = None
    resolve: Function | None = None
    hides: bool = False
    resample: Function | None = None
    problems: Function | None = None

    def __post_init__(self) -> None:
        """Check that all parts are given and fit together, or raise SettingError."""
        check_action_space(self.action_space)
        _check_names("entities", self.entities, "obs_space", self.obs_space.entities)
        _check_names("actions", self.actions, "action_space", self.action_space)
        for name, own in self.state.items():
            _check_field(name, own)
        for name, value in self.settings.items():
            _check_name("setting", name)
            if name in self.state or not isinstance(value, bool | int | float):
                raise SettingError(
                    f"setting {name!r} is not a number, or has the name of a field",
                    expected="a name that no field has, with an int, a float or a bool",
                    received=shorten(value),
                )
        seats, whole = self.seats, isinstance(self.seats, int)
        if (seats is not None and not (whole and seats >= 1)) or (seats is None) != (
            self.resolve is None
        ):
            raise SettingError(
                "seats and resolve do not fit",
                expected="a whole number of seats >= 1 with a function resolve, or neither",
                received=f"seats={shorten(seats)}, resolve={shorten(self.resolve)}",
            )
        limit = self.max_steps
        if limit is not None and (type(limit) is not int or not 1 <= limit < 2**31):
            raise SettingError(
                "invalid max_steps",
                expected="a whole number >= 1 and < 2^31, or None",
                received=shorten(limit),
            )
        who = 2 if seats is None else 3
        _check_function("reset", self.reset, 2)
        _check_function("step", self.step, who + len(self.action_space))
        _check_function("resolve", self.resolve, 4 if self.may_leave else 3)
        _check_function("asks", self.asks, 3)
        _check_function("problems", self.problems, 2)
        _check_function("global_features", self.global_features, who + 1)
        if bool(self.obs_space.global_features) != (self.global_features is not None):
            raise SettingError(
                "global_features do not fit the observation space",
                expected="a function if the space has global features, else None",
            )
        for name, source in self.entities.items():
            self._check_entities(f"entities[{name!r}]", source, name, who)
        for name, actors in self.actions.items():
            self._check_actors(f"actions[{name!r}]", actors, self.action_space[name], who)
        for metric, name in self.metrics.items():
            shapes = ((), (seats,)) if seats else ((),)
            self._check_is_field(f"metrics[{metric!r}]", name, shapes)

    @property
    def may_leave(self) -> bool:
        """True if seats leave and join during a game."""
        return self.resolve is not None and _parameters(self.resolve) > 3

    def most_entities(self, name: EntityName) -> int:
        """Return the largest number of entities of a type in a frame."""
        source = self.entities[name]
        if source.window is not None:
            return self.obs_space.grids[name].size
        return (
            self.state[source.rows].shape[0] if isinstance(source.rows, str) else source.most or 0
        )

    def _check_window(self, what: str, source: Entities, name: str, width: int) -> None:
        grid = self.obs_space.grids.get(name)
        shape = self._check_is_field(f"{what}.rows", source.rows) if grid else ()  # type: ignore[arg-type]
        fits = (len(shape) == 2 and width == 1) or shape[2:] == (width,)
        if grid is None or not fits or shape[0] < grid.shape[0] or shape[1] < grid.shape[1]:
            raise SettingError(
                f"{what}: the window does not fit a map",
                expected="a Grid, and as rows a field of shape (height, width, features) that is "
                "at least as large",
                received=f"rows={shorten(source.rows)}" + (f" of shape {shape}" if shape else ""),
            )

    def _check_entities(self, what: str, source: Entities, name: str, who: int) -> None:
        width = len(self.obs_space.entities[name].features)
        _check_function(f"{what}.window", source.window, who)
        if source.window is not None:
            self._check_window(what, source, name, width)
        elif isinstance(source.rows, str):
            shape = self._check_is_field(f"{what}.rows", source.rows)
            if shape[1:] != (width,) and not (len(shape) == 1 and width == 1):
                raise SettingError(
                    f"{what}: field {source.rows!r} does not hold rows of "
                    f"{counted(width, 'feature')}",
                    expected=f"shape (most, {width})" + (" or (most,)" if width == 1 else ""),
                    received=f"shape {shape}",
                )
        else:
            _check_function(f"{what}.rows", source.rows, who + 2)
            if type(source.most) is not int or source.most < 0 or source.count is None:
                raise SettingError(
                    f"{what}: rows is a function, and count or most is missing",
                    expected="count, and the most that a game can have",
                    received=f"count={shorten(source.count)}, most={shorten(source.most)}",
                )
        if isinstance(source.count, str):
            self._check_is_field(f"{what}.count", source.count, ((),))
        elif not isinstance(source.count, int | None):
            _check_function(f"{what}.count", source.count, who)

    def _check_actors(self, what: str, actors: Actors, space: ActionSpace, who: int) -> None:
        types, is_global, selects = self.obs_space.entities, space.is_global, space.selects
        if not space.picks_one:
            raise SettingError(
                f"{what}: actors of a compiled game pick one choice or one entity",
                expected="categorical or select-entity actions",
                received=shorten(space),
            )
        if (actors.of is None) != is_global or (actors.of is not None and actors.of not in types):
            raise SettingError(
                f"{what}: {actors.of!r} cannot act",
                expected="None for a global action" if is_global else "an entity type",
                options=types,
                hint=nearest(actors.of, types),
            )
        if bool(actors.targets) != selects or not set(actors.targets) <= set(types):
            raise SettingError(
                f"{what}: targets do not fit",
                expected="entity types for a select-entity action, else none",
                received=shorten(actors.targets),
                options=types,
            )
        _check_function(f"{what}.when", actors.when, who + (not is_global))
        _check_function(f"{what}.mask", actors.mask, who + 1 + (not is_global))

    def _check_is_field(
        self, what: str, name: str, shapes: Iterable[tuple[Any, ...]] = ()
    ) -> tuple[int, ...]:
        if name not in self.state:
            raise SettingError(
                f"{what}: field {name!r} does not exist",
                options=self.state,
                hint=nearest(name, self.state),
            )
        shape = tuple(self.state[name].shape)
        if shapes and shape not in shapes:
            raise SettingError(
                f"{what}: field {name!r} has another shape",
                expected=" or ".join(map(str, shapes)),
                received=shape,
            )
        return shape


def _check_names(what: str, given: Iterable[str], where: str, names: Iterable[str]) -> None:
    given, names = list(given), list(names)
    for name in [*given, *names]:
        if name not in names or name not in given:
            raise SettingError(
                f"{what} has no {name!r}" if name in names else f"{where} has no {name!r}",
                expected=f"{what} for each of {where}",
                options=names,
                hint=None if name in names else nearest(name, names),
            )


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
        raise SettingError(
            f"{shorten(name)} is not a valid name of a {what}",
            expected=f"a Python identifier that is not one of {RESERVED}",
        )


def _check_field(name: str, own: object) -> None:
    _check_name("field", name)
    if isinstance(own, Field):
        try:
            dtype, shape = np.dtype(own.dtype), tuple(own.shape)
        except TypeError:
            dtype, shape = np.dtype(object), ()
        sizes = all(isinstance(n, int | np.integer) and n >= 0 for n in shape)
        if dtype.name in _DTYPES and sizes:
            return
    raise SettingError(
        f"field {name!r} cannot be an array",
        expected=f"Field(shape, dtype): whole numbers >= 0, and one of {', '.join(_DTYPES)}",
        received=shorten(own),
    )


def _check_function(what: str, function: object, parameters: int) -> None:
    """Raise SettingError unless a function is at the top level and has ``parameters`` arguments."""
    if function is None:
        return
    plain = inspect.unwrap(getattr(function, "py_func", function))  # type: ignore[arg-type]
    if not inspect.isfunction(plain) or plain.__closure__:
        raise SettingError(
            f"{what} is not a function at the top level of a module",
            expected="def ... without variables of enclosing functions",
            received=shorten(function),
            hint="pass numbers that it needs as settings",
        )
    given = _parameters(function)
    if given != parameters:
        raise SettingError(
            f"{what} has the wrong number of arguments",
            expected=f"{parameters}, g and game first",
            received=f"{given}: {plain.__name__}{inspect.signature(plain)}",
        )


def _parameters(function: object) -> int:
    """Return the number of arguments of a function, or 0 for other objects."""
    plain = inspect.unwrap(getattr(function, "py_func", function))  # type: ignore[arg-type]
    return len(inspect.signature(plain).parameters) if inspect.isfunction(plain) else 0
