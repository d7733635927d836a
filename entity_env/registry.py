"""Environments by short name or dotted path."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeAlias, TypeGuard, cast, get_type_hints

from entity_env.environment import Environment
from entity_env.errors import (
    FAILURES,
    SettingError,
    UnknownEnvironmentError,
    nearest,
    shorten,
    unknown_name,
)
from entity_env.nearby import meant_nearby
from entity_env.plugins import ENVIRONMENTS, load_plugins
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.masked import MaskedEnvironment
from entity_env.seats.multi_player import MultiPlayerEnvironment

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
    "register",
    "registered",
    "registered_packages",
    "resolve",
    "seated",
    "with_defaults",
]

Factory: TypeAlias = Callable[..., Environment | MultiPlayerEnvironment | VecEnv]
"""Makes environments, for one player or several; or makes all rows: a subclass of ``VecEnv``, or a
function ``-> VecEnv``."""

_FACTORIES: dict[str, str] = {}
_OLDER_DEFAULTS: dict[str, Mapping[str, Any]] = {}
"""By dotted path."""


def register(name: str, path: str, older_defaults: Mapping[str, Any] | None = None) -> None:
    """Give the environment at a dotted path, such as ``my_pkg.my_env.MyEnv``, a short name.

    The path may also lead to a subclass of ``VecEnv``. Nothing is imported until the name is used.

    Args:
        name: The short name.
        path: The dotted path.
        older_defaults: The settings that came later, or have another default than they had, each
            with what it was before: that is what older runs and replays mean, which do not hold it.
    """
    if not (type(name) is str and type(path) is str and name):
        raise UnknownEnvironmentError(
            "a short name and a dotted path are strings",
            expected='register("my_env", "my_pkg.my_env.MyEnv")',
            received=f"register({shorten(name)}, {shorten(path)})",
        )
    if name in _FACTORIES and _FACTORIES[name] != path:
        raise UnknownEnvironmentError(
            f"the name {name!r} is taken", received=path, expected=f"not {_FACTORIES[name]}"
        )
    _FACTORIES[name] = path
    _OLDER_DEFAULTS[_dotted(path)] = dict(older_defaults or {})


def registered() -> tuple[str, ...]:
    """Return all short names, those of installed packages among them."""
    load_plugins(ENVIRONMENTS)
    return tuple(sorted(_FACTORIES))


def is_registered(name: str) -> bool:
    """Return True if a short name, or the dotted path behind one, is registered."""
    return name in registered() or _dotted(name) in map(_dotted, _FACTORIES.values())


def registered_packages() -> frozenset[str]:
    """Return the top-level packages that registered environments live in."""
    return frozenset(_FACTORIES[name].partition(".")[0] for name in registered())


def path_of(name: str) -> str:
    """Return the dotted path, ``module.attribute``, behind a short name or a dotted path.

    Short names that nobody has registered yet are looked for in installed packages. Nothing else is
    imported.

    Raises:
        UnknownEnvironmentError: A short name that is not registered, or no path.
    """
    if isinstance(name, str):
        name = str.__str__(name)  # the plain string of a subclass of str
    if isinstance(name, str) and name not in _FACTORIES and not {".", ":"} & set(name):
        load_plugins(ENVIRONMENTS)
    path = _dotted(_FACTORIES.get(name, name)) if isinstance(name, str) else ""
    module_name, _, _ = path.rpartition(".")
    # Anything else than names would make Python look for files wherever slashes lead.
    if not module_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise UnknownEnvironmentError(
            f"unknown environment {shorten(name)}",
            expected="a registered name or a dotted path such as my_pkg.my_env.MyEnv",
            options=registered(),
            hint=(isinstance(name, str) and _meant(name)) or nearest(name, registered()),
        )
    return path


def resolve(name: str) -> Factory:
    """Return the class or function behind a name or dotted path; import its module.

    Nothing of it is called: that it is a subclass of ``Environment`` or ``VecEnv``, or a function
    annotated to return one, is all that is found out.

    Raises:
        UnknownEnvironmentError: There is no such thing, or it makes no environments.
    """
    path = path_of(name)
    found = find(path)
    if made_by(found) is None:
        raise UnknownEnvironmentError(
            f"{path!r} is no environment",
            expected="a subclass of Environment or VecEnv, or a function annotated to return one",
            received=_described(found),
            hint=_how_to_annotate(found),
        )
    factory: Factory = found
    return factory


def find(path: str) -> Any:
    """Import the module of a dotted path, and return the callable object there.

    Raises:
        UnknownEnvironmentError: The module cannot be imported, or has nothing of that name.
    """
    module_name, _, attribute = path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except FAILURES as error:  # a module of the user's may raise anything
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


_START = "the module must be importable from where you start the program"


def _meant(name: object) -> str | None:
    path = meant_nearby(name)
    return f"did you mean {path!r}?" if path is not None and path != name else None


def _dotted(path: str) -> str:
    return path.replace(":", ".")


def _is_offered(value: Any, name: str, module: ModuleType) -> bool:
    """Return True if a value in ``module`` makes environments, and is not just imported there.

    A package offers what its own modules define.
    """
    home = getattr(value, "__module__", None)
    is_own = home == module.__name__ or str(home).startswith(f"{module.__name__}.")
    if name.startswith("_") or not is_own or inspect.isabstract(value):
        return False
    return made_by(value) is not None


def made_by(factory: Any) -> type | None:
    """Return the class of environments, games or rows that a class, or a function, says it makes.

    None for whatever says nothing of the kind, lambdas among it.
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
            return "a function that does not say what it returns"
        return f"a function annotated to return {shorten(found.__annotations__['return'])}"
    return f"{kind} {shorten(getattr(found, '__qualname__', found))}"


def _how_to_annotate(found: Any) -> str | None:
    if not inspect.isfunction(found):
        return None
    if found.__name__ == "<lambda>":
        return "a lambda has no annotation: write def make() -> Environment: ..."
    return (
        "if it makes environments, say so where it is defined: "
        f"def {found.__name__}(...) -> Environment, or -> VecEnv if it makes all rows"
    )


def is_rows(factory: Factory) -> TypeGuard[Callable[..., VecEnv]]:
    """Return True for a ``VecEnv`` class or a function annotated ``-> VecEnv``."""
    made = made_by(factory)
    return made is not None and issubclass(made, VecEnv)


def has_seats(factory: Factory) -> TypeGuard[Callable[..., MultiPlayerEnvironment]]:
    """Return True if this makes a game of several players."""
    made = made_by(factory)
    return made is not None and issubclass(made, MultiPlayerEnvironment)


def seated(factory: Factory) -> Callable[..., MultiPlayerEnvironment] | None:
    """Return the maker of a game of several players, or None for one player.

    Of what makes rows it is their ``environment``, the readable game.
    """
    readable: Any = _environment_of(factory) if is_rows(factory) else factory
    return readable if readable is not None and has_seats(readable) else None


def alone(factory: Factory) -> Callable[..., Environment]:
    """Return the maker of one environment: ``factory``, or ``environment`` of rows.

    Of a game of several players it is one seat among players at random.
    """
    if has_seats(factory):
        return functools.partial(MaskedEnvironment, factory)
    if not is_rows(factory):
        return cast(Callable[..., Environment], factory)
    environment = _environment_of(factory)
    if environment is None:
        name = getattr(factory, "__name__", "the environment")
        raise UnknownEnvironmentError(
            f"{name} plays many rows and names no environment to play alone",
            hint=f"set {name}.environment = MyEnv, a class that takes the same settings",
        )
    if has_seats(environment):
        return functools.partial(MaskedEnvironment, environment)
    return environment


def _environment_of(factory: Callable[..., VecEnv]) -> Callable[..., Environment] | None:
    return getattr(factory, "environment", None)


def check_settings(factory: Factory, settings: dict[str, Any]) -> None:
    """Refuse settings that the environment's constructor does not take, or lacks."""
    if is_rows(factory):
        factory = _environment_of(factory) or factory
    try:
        parameters = dict(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # some callables have no signature
        return
    if is_rows(factory):  # arguments that the maker of the rows gives
        parameters = {k: p for k, p in parameters.items() if k not in ("num_envs", "seed")}
    name = getattr(factory, "__name__", "the environment")
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for setting in settings:
        if setting not in parameters and not takes_any:
            raise unknown_name(
                SettingError, f"{name} has no setting {setting!r}", setting, parameters
            )
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

    An environment lists them as ``consent_settings``, each with a function that is true of harmless
    values, or None; the name ``**`` stands for all that its constructor has no parameter for.
    Whatever says nothing of what it makes may be a wrapper of what its setting ``env`` names.
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


def with_defaults(name: str, settings: Mapping[str, Any], *, older: bool) -> dict[str, Any]:
    """Return settings with those whose defaults have changed, which files written since then hold.

    Args:
        name: The short name or dotted path.
        settings: The settings that are known.
        older: Take the values of before for those that are missing, not the defaults of today.
    """
    load_plugins(ENVIRONMENTS)
    found = _OLDER_DEFAULTS.get(_dotted(_FACTORIES.get(name, name)), {})
    if found and not older:
        today = inspect.signature(resolve(name)).parameters
        found = {key: today[key].default for key in found}
    return {**found, **settings}


def make(name: str, **settings: Any) -> Environment:
    """Return an environment by short name or dotted path; ``settings`` go to its constructor."""
    factory = resolve(name)
    check_settings(factory, settings)
    return alone(factory)(**settings)
