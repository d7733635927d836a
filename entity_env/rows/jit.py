"""Compile games once, and again when anything that a kernel contains changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

import numpy as np
from numba import njit as _njit

from entity_env.storage.kernel_cache import announce_compiling, folder_digest, keep_compiled

__all__ = ["called", "compiled", "interpreted", "kernel", "with_arrays", "wrapping"]


njit: Any = _njit  # its declaration leaves out an option
_HERE = Path(__file__).parent


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that a game's ``reset``, ``step`` and the like call: into their kernel.

    As a call with the arrays of a game as arguments it would cost half as much again. With
    ``NUMBA_DISABLE_JIT=1`` the function stays what it is.
    """
    return njit(nogil=True, forceinline=True)(function)


def with_arrays(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call, and that may make arrays of its own."""
    return njit(nogil=True, _nrt=True)(function)


def called(function: Callable[..., Any]) -> Any:
    """Compile a function of a large game that its kernel calls, where ``compiled`` would copy it.

    It is called from compiled code only: what Python needs for a call takes long to compile.
    """
    return njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def kernel(function: Callable[..., Any], text: str = "") -> Any:
    """Compile ``function`` with Numba, without the GIL, and keep the result on disk.

    Numba's cache notices changes of the function's own file only. A kernel contains the functions
    that it calls and the constants of the rules, from other files: without more it would go on
    playing by old rules. Kept code is therefore used only while all Python files in the folder of
    the function, all in this one, and ``text`` are what they were. With ``NUMBA_DISABLE_JIT=1``
    the function stays what it is.

    A kernel makes no arrays. Numba then leaves out the counting of references to those that it is
    given, which took longer than a step of a small game.

    Args:
        function: What Python calls.
        text: The function itself, where it stands in no file.
    """
    try:
        made: Any = njit(cache=True, nogil=True, _nrt=False, no_cfunc_wrapper=True)(function)
        if made is function:
            return wrapping(function)
        folder = Path(function.__code__.co_filename).parent
        keep_compiled(made, folder_digest(folder), folder_digest(_HERE), text)
        is_kept = True
    except (AttributeError, RuntimeError, OSError):
        # Another version of Numba, or no folder to write to: compile anew in each process.
        made, is_kept = njit(nogil=True, _nrt=False)(function), False
    announce_compiling(made, function.__module__, "5 to 40 seconds", kept=is_kept)
    return made


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a game as Python runs it, and all that it calls with it.

    Compiling a large game takes half a minute, which a single game for a picture need not wait for.
    """
    plain: Any = getattr(function, "py_func", function)
    scope = _interpreted_globals(plain.__globals__)
    cells = tuple(CellType(_plainly(cell.cell_contents)) for cell in plain.__closure__ or ())
    made = FunctionType(plain.__code__, scope, plain.__name__, plain.__defaults__, cells)
    made.__kwdefaults__ = plain.__kwdefaults__
    return made


def _plainly(value: Any) -> Any:
    """Return a compiled function, or one of a module that has some, as Python runs it."""
    calls = isinstance(value, FunctionType) and any(map(_is_compiled, value.__globals__.values()))
    return interpreted(value) if calls or _is_compiled(value) else value


def _is_compiled(value: Any) -> bool:
    return "py_func" in getattr(value, "__dict__", ())


_INTERPRETED: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}


def _interpreted_globals(scope: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a module's globals with interpreted functions in place of compiled ones."""
    if id(scope) not in _INTERPRETED:
        copy = dict(scope)
        _INTERPRETED[id(scope)] = scope, copy  # before its functions, which may call each other
        copy.update({name: _plainly(value) for name, value in scope.items()})
    return _INTERPRETED[id(scope)][1]


def wrapping(function: Callable[..., Any]) -> Any:
    """Without compiling, NumPy warns where random numbers wrap around, as they should."""

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*args)

    return called
