"""Registry of environments by short name or dotted path."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeAlias, TypeGuard, cast, get_type_hints

from entity_env.environment import Environment, Playable
from entity_env.errors import (
    FAILURES,
    SettingError,
    UnknownEnvironmentError,
    nearest,
    shorten,
    unknown_name,
)
from entity_env.habits import check_methods
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.nearby import meant_nearby
from entity_env.plugins import ENVIRONMENTS, load_plugins
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.masked import MaskedEnvironment

__all__ = [
    "Factory",
    "alone",
    "check_settings",
    "find",
    "has_seats",
    "is_registered",
    "is_rows",
    "made_by",
    "make",
    "needing_consent",
    "path_of",
    "path_settings",
    "register",
    "registered",
    "registered_packages",
    "resolve",
    "seated",
]

Factory: TypeAlias = Callable[..., Environment | MultiPlayerEnvironment | VecEnv]
"""A callable that makes environments for one or several players, or all rows: a subclass of
``VecEnv``, or a function ``-> VecEnv``."""

_FACTORIES: dict[str, str] = {}


def register(name: str, path: str) -> None:
    """Register a short name for the environment at a dotted path.

    The path may also name a subclass of ``VecEnv``. Nothing is imported until the name is used.

    Args:
        name: The short name.
        path: The dotted path, such as ``my_pkg.my_env.MyEnv``.
    """
    if not (type(name) is str and type(path) is str and name):
        raise UnknownEnvironmentError(
            "a short name or a dotted path is not a string",
            expected='register("my_env", "my_pkg.my_env.MyEnv")',
            received=f"register({shorten(name)}, {shorten(path)})",
        )
    if name in _FACTORIES and _FACTORIES[name] != path:
        raise UnknownEnvironmentError(
            f"the name {name!r} is already registered, for {_FACTORIES[name]}", received=path
        )
    _FACTORIES[name] = path


def registered() -> tuple[str, ...]:
    """Return all short names, including those of installed packages."""
    load_plugins(ENVIRONMENTS)
    return tuple(sorted(_FACTORIES))


def is_registered(name: str) -> bool:
    """Return True if a short name, or the dotted path behind one, is registered."""
    return name in registered() or _dotted(name) in map(_dotted, _FACTORIES.values())


def registered_packages() -> frozenset[str]:
    """Return the top-level packages of the registered environments."""
    return frozenset(_FACTORIES[name].partition(".")[0] for name in registered())


def path_of(name: str) -> str:
    """Return the dotted path, ``module.attribute``, of a short name or a dotted path.

    Short names that are not registered yet are looked up in the entry points of installed
    packages. Nothing else is imported.

    Raises:
        UnknownEnvironmentError: The short name is not registered, or the path is not valid.
    """
    if isinstance(name, str):
        name = str.__str__(name)  # the plain string of a subclass of str
    if isinstance(name, str) and name not in _FACTORIES and not {".", ":"} & set(name):
        load_plugins(ENVIRONMENTS)
    path = _dotted(_FACTORIES.get(name, name)) if isinstance(name, str) else ""
    module_name, _, _ = path.rpartition(".")
    # With other strings, such as paths with slashes, Python would look for files elsewhere.
    if not module_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise UnknownEnvironmentError(
            f"unknown environment {shorten(name)}",
            expected="a registered name or a dotted path such as my_pkg.my_env.MyEnv",
            options=registered(),
            hint=(isinstance(name, str) and _meant(name)) or nearest(name, registered()),
        )
    return path


def resolve(name: str) -> Factory:
    """Return the class or function of a short name or dotted path; import its module.

    The object is not called. It must be a subclass of ``Environment`` or ``VecEnv``, or a function
    that is annotated to return one.

    Raises:
        UnknownEnvironmentError: The object does not exist, or does not make environments.
    """
    path = path_of(name)
    found = find(path)
    if made_by(found) is None:
        raise UnknownEnvironmentError(
            f"{path!r} is not an environment",
            expected="a subclass of Environment or VecEnv, or a function annotated to return one",
            received=_described(found),
            hint=_how_to_annotate(found),
        )
    factory: Factory = found
    return factory


def find(path: str) -> Any:
    """Import the module of a dotted path, and return the callable object at the path.

    Raises:
        UnknownEnvironmentError: The module cannot be imported, or has no object of that name.
    """
    module_name, _, attribute = path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except FAILURES as error:  # a user's module may raise anything
        missing = isinstance(error, ModuleNotFoundError) and error.name in module_name.split(".")
        raise UnknownEnvironmentError(
            f"environment {path!r}: importing {module_name!r} failed: "
            f"{type(error).__name__}: {error}",
            hint=(_meant(path) or _START) if missing else None,
        ) from error
    if not callable(found := getattr(module, attribute, None)):
        own = [name for name, value in vars(module).items() if _is_offered(value, name, module)]
        raise UnknownEnvironmentError(
            f"module {module_name!r} has no environment {attribute!r}",
            options=own,
            hint=nearest(attribute, own) or _meant(path),
        )
    return found


_START = "the module must be importable from the folder in which you start the program"


def _meant(name: object) -> str | None:
    path = meant_nearby(name)
    return f"did you mean {path!r}?" if path is not None and path != name else None


def _dotted(path: str) -> str:
    return path.replace(":", ".")


def _is_offered(value: Any, name: str, module: ModuleType) -> bool:
    """Return True if a value makes environments, and ``module`` or its submodules define it."""
    home = getattr(value, "__module__", None)
    is_own = home == module.__name__ or str(home).startswith(f"{module.__name__}.")
    if name.startswith("_") or not is_own or inspect.isabstract(value):
        return False
    return made_by(value) is not None


def made_by(factory: Any) -> type | None:
    """Return the class of environments, games or rows that a class or function makes.

    Functions are judged by their annotation; None if there is none, as for lambdas.
    """
    while type(factory) is functools.partial:
        factory = factory.func
    if not inspect.isclass(factory):
        factory = _annotation(factory)
    return factory if inspect.isclass(factory) and issubclass(factory, _MADE) else None


_MADE = (Environment, MultiPlayerEnvironment, VecEnv)


def _annotation(factory: Any) -> Any:
    """Return the return annotation of a function, or None."""
    try:
        function = inspect.unwrap(factory)
        return get_type_hints(function).get("return") if inspect.isfunction(function) else None
    except Exception:  # an annotation may be any expression
        return None


def _described(found: Any) -> str:
    kind = "class" if inspect.isclass(found) else type(found).__name__
    if inspect.isfunction(found):
        if "return" not in found.__annotations__:
            return "a function without a return annotation"
        return f"a function annotated to return {shorten(found.__annotations__['return'])}"
    return f"{kind} {shorten(getattr(found, '__qualname__', found))}"


def _how_to_annotate(found: Any) -> str | None:
    if not inspect.isfunction(found):
        return None
    if found.__name__ == "<lambda>":
        return "a lambda cannot be annotated: write def make() -> Environment: ..."
    return (
        "if it makes environments, annotate it: "
        f"def {found.__name__}(...) -> Environment, or -> VecEnv if it makes all rows"
    )


def is_rows(factory: Factory) -> TypeGuard[Callable[..., VecEnv]]:
    """Return True for a ``VecEnv`` class or a function annotated ``-> VecEnv``."""
    made = made_by(factory)
    return made is not None and issubclass(made, VecEnv)


def has_seats(factory: Factory) -> TypeGuard[Callable[..., MultiPlayerEnvironment]]:
    """Return True if ``factory`` makes games of several players."""
    made = made_by(factory)
    return made is not None and issubclass(made, MultiPlayerEnvironment)


def seated(factory: Factory) -> Callable[..., MultiPlayerEnvironment] | None:
    """Return a function that makes games of several players, or None for one player.

    For rows, return their attribute ``environment``, the same game in Python.
    """
    readable: Any = _environment_of(factory) if is_rows(factory) else factory
    return readable if readable is not None and has_seats(readable) else None


def alone(factory: Factory) -> Callable[..., Environment]:
    """Return a function that makes one environment: ``factory``, or ``environment`` of rows.

    For a game of several players, the environment is one seat, with random players in the others.
    """
    if has_seats(factory):
        return functools.partial(MaskedEnvironment, factory)
    if not is_rows(factory):
        return cast(Callable[..., Environment], factory)
    environment = _environment_of(factory)
    if environment is None:
        name = getattr(factory, "__name__", "the environment")
        raise UnknownEnvironmentError(
            f"{name} makes rows, and does not name an environment for a single game",
            hint=f"set {name}.environment = MyEnv, a class that takes the same settings",
        )
    if has_seats(environment):
        return functools.partial(MaskedEnvironment, environment)
    return environment


def _environment_of(factory: Callable[..., VecEnv]) -> Callable[..., Environment] | None:
    return getattr(factory, "environment", None)


def check_settings(factory: Factory, settings: dict[str, Any]) -> None:
    """Raise an error for settings that the constructor does not take or misses.

    Raises:
        SettingError: A setting is unknown or missing.
        UnknownEnvironmentError: The class misses a method.
    """
    if is_rows(factory):
        factory = _environment_of(factory) or factory
    try:
        parameters = dict(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # some callables have no signature
        return
    if is_rows(factory):  # these arguments are not settings
        parameters = {k: p for k, p in parameters.items() if k not in ("num_envs", "seed")}
    name = getattr(factory, "__name__", "the environment")
    if isinstance(factory, type) and issubclass(factory, Playable | VecEnv):
        check_methods(factory)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for setting in settings:
        if setting not in parameters and not takes_any:
            wrong = unknown_name(
                SettingError, f"{name} has no setting {setting!r}", setting, parameters
            )
            wrong.about = setting
            raise wrong
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    for key, parameter in parameters.items():
        is_needed = parameter.kind in named and parameter.default is inspect.Parameter.empty
        if is_needed and key not in settings:
            raise SettingError(
                f"{name} needs the setting {key!r}",
                expected=f"{key}=...",
                received=f"settings {', '.join(settings)}" if settings else "no settings",
            )


def needing_consent(factory: Factory, settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the settings, with their values, that name code or files.

    An environment lists them as ``consent_settings``, each with None or a function that returns
    True for harmless values; the name ``**`` stands for all settings that are not parameters of
    the constructor. A factory without a known class may wrap the environment in its setting
    ``env``.
    """
    readable = _environment_of(factory) if is_rows(factory) else None
    said: dict[str, Any] = {} if made_by(factory) is not None else {"env": None}
    for one in (made_by(factory), readable, factory):
        said |= getattr(one, "consent_settings", {})
    declared = set(settings)
    if "**" in said:
        parameters = inspect.signature(factory).parameters.values()
        declared = {own.name for own in parameters if own.kind is not inspect.Parameter.VAR_KEYWORD}
    for setting, value in settings.items():
        if setting in said or setting not in declared:
            is_harmless = said.get(setting)
            for one in value if isinstance(value, list | tuple) else [value]:
                if one is not None and not (is_harmless and is_harmless(one)):
                    yield setting, one


def path_settings(factory: Factory) -> set[str]:
    """Return the settings that are paths, because ``Path`` is in the annotations of parameters."""
    try:
        readable = _environment_of(factory) if is_rows(factory) else None
        parameters = inspect.signature(readable or factory).parameters.values()
    except (TypeError, ValueError):  # some callables have no signature
        return set()
    return {own.name for own in parameters if re.search(r"\bPath\b", str(own.annotation))}


def make(name: str, **settings: Any) -> Environment:
    """Make an environment by short name or dotted path, with ``settings`` as its arguments."""
    factory = resolve(name)
    check_settings(factory, settings)
    return alone(factory)(**settings)
