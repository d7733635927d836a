"""Compilation of games, which are compiled again if any code in their kernel changes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import njit as _njit
from numba.core.registry import CPUDispatcher

from entity_env.storage.inner import inner
from entity_env.storage.kernel_cache import announce_compiling, folder_digest, keep_compiled

__all__ = ["called", "compiled", "inlined", "interpreted", "kernel", "with_arrays", "wrapping"]


njit: Any = _njit  # its declaration leaves out an option
_HERE = Path(__file__).parent


def compiled(function: Callable[..., Any]) -> Any:
    """Inline a function, called by a game's ``reset``, ``step`` and the like, in their kernel.

    A call with the arrays of a game as arguments would take half as long again. With
    ``NUMBA_DISABLE_JIT=1`` the function is not changed.
    """
    return _inside(function, forceinline=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Inline a function like ``compiled``, for compiled code only, with less compilation time.

    The function cannot be called from Python, and cannot make arrays.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    return njit(nogil=True, forceinline=True, **options)(function)


def with_arrays(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call and that may make arrays."""
    return _inside(function, _nrt=True)


def called(function: Callable[..., Any]) -> Any:
    """Compile a function that a large game calls in many places, without inlining it."""
    return _inside(function, _nrt=False)


def _inside(function: Callable[..., Any], **options: Any) -> Any:
    made = inner(function, **options)
    if made is not function:
        made.__class__ = _Inside
    return made


class _Inside(CPUDispatcher):
    """A function that is compiled within kernels only; a call from Python runs it as Python."""

    def __call__(self, *args: Any) -> Any:
        return wrapping(interpreted(self))(*args)


def kernel(function: Callable[..., Any], text: str = "") -> Any:
    """Compile ``function`` with Numba, without the GIL, and keep the result on disk.

    Numba's cache detects changes of the function's own file only, but a kernel contains functions
    and constants from other files. Cached code is therefore used only if all Python files in the
    folders of these functions, those in this folder, the constants, and ``text`` are unchanged.
    With ``NUMBA_DISABLE_JIT=1`` the function is not changed.

    A kernel makes no arrays. Reference counting is therefore disabled, because it took longer than
    a step of a small game.

    Args:
        function: The kernel.
        text: The source of the function, if it is in no file.
    """
    try:
        made: Any = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True)(function)
        if made is function:
            return wrapping(function)
        keep_compiled(made, *_contents(function), folder_digest(_HERE), text)
        is_kept = True
    except (AttributeError, RuntimeError, OSError):
        # With another version of Numba, or without a writable folder, compile in each process.
        made, is_kept = njit(nogil=True, _nrt=False)(function), False
    announce_compiling(made, function.__module__, "5 to 40 seconds", kept=is_kept)
    return made


def _contents(function: Callable[..., Any]) -> Iterator[str]:
    """Yield digests of all code that a function may contain when it is compiled."""
    found, folders, constants = set[FunctionType](), set[Path](), set[str]()
    waiting: list[Any] = [function]
    while waiting:
        value = waiting.pop()
        plain = getattr(value, "py_func", value)
        if plain in found:
            continue
        found.add(plain)
        folders.add(Path(plain.__code__.co_filename).parent)
        scope = plain.__globals__
        values = {name: scope[name] for name in _names(plain.__code__) if name in scope}
        closure = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True))
        values |= {name: cell.cell_contents for name, cell in closure.items()}
        modules = [value for value in values.values() if isinstance(value, ModuleType)]
        inside = (one for module in modules for one in vars(module).values())
        waiting += filter(_is_compiled, (*values.values(), *inside))
        for name, own in values.items():
            if isinstance(own, bool | int | float | np.generic | np.ndarray):
                # Without the module's name, which differs where the same file is a script.
                code = plain.__code__
                place = f"{Path(code.co_filename).name} {code.co_qualname} {name}"
                constants.add(f"{place} = {np.asarray(own).tolist()}")
    yield from map(folder_digest, sorted(folders))
    yield "\n".join(sorted(constants))


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function, and functions defined in it, may use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python version of a function of a game, which also calls Python versions.

    A single game, for instance for a picture, need not wait half a minute for a compilation.
    """
    plain: Any = getattr(function, "py_func", function)
    scope = _interpreted_globals(plain.__globals__)
    cells = tuple(CellType(_plainly(cell.cell_contents)) for cell in plain.__closure__ or ())
    made = FunctionType(plain.__code__, scope, plain.__name__, plain.__defaults__, cells)
    made.__kwdefaults__ = plain.__kwdefaults__
    return made


def _plainly(value: Any) -> Any:
    """Return the Python version of a compiled function, or of a function that may call some."""
    calls = isinstance(value, FunctionType) and any(map(_is_compiled, value.__globals__.values()))
    return interpreted(value) if calls or _is_compiled(value) else value


def _is_compiled(value: Any) -> bool:
    return "py_func" in getattr(value, "__dict__", ())


_INTERPRETED: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}


def _interpreted_globals(scope: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a module's globals with interpreted functions in place of compiled ones."""
    if id(scope) not in _INTERPRETED:
        copy = dict(scope)
        _INTERPRETED[id(scope)] = (
            scope,
            copy,
        )  # before its functions are added, because they may call each other
        copy.update({name: _plainly(value) for name, value in scope.items()})
    return _INTERPRETED[id(scope)][1]


def wrapping(function: Callable[..., Any]) -> Any:
    """Suppress NumPy's warnings of the intended overflows of random numbers in Python."""

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*args)

    return called
