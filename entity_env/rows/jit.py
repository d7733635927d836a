"""How compiled games are compiled: once, and again when anything that a kernel contains changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit as _njit

from entity_env.rows.whole_kernel import as_one_program, with_fewer_versions
from entity_env.storage.kernel_cache import folder_digest, keep_compiled

__all__ = ["compiled", "kernel", "with_arrays"]


njit: Any = _njit  # its declaration leaves out an option
_HERE = Path(__file__).parent


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that a game's ``reset``, ``step`` and the like call: into their kernel.

    As a call with the arrays of a game as arguments it would cost half as much again. With
    ``NUMBA_DISABLE_JIT=1`` the function stays what it is.
    """
    return _part_of_kernels(function, nogil=True, forceinline=True)


def with_arrays(function: Callable[..., Any]) -> Any:
    """Compile a function that kernels call, and that may make arrays of its own."""
    return _part_of_kernels(function, nogil=True, _nrt=True)


def called(function: Callable[..., Any]) -> Any:
    """Compile a function of a large game that its kernel calls, where ``compiled`` would copy it.

    It is called from compiled code only.
    """
    return _part(function, nogil=True, _nrt=False)


def _part_of_kernels(function: Callable[..., Any], **options: Any) -> Any:
    """A function for Python to call, which has another form for kernels.

    What Python needs to call a function takes long to compile.
    """
    made = njit(**options)(function)
    if made is not function:
        part = _part(function, **options)
        made.get_call_template, made.get_overload = part.get_call_template, part.get_overload
    return made


def _part(function: Callable[..., Any], **options: Any) -> Any:
    made = njit(**options, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return made if made is function else with_fewer_versions(made)


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
            return _wrapping(function)
        folder = Path(function.__code__.co_filename).parent
        keep_compiled(made, folder_digest(folder), folder_digest(_HERE), text)
        made.compile = _as_one_program(made.compile, function.__qualname__)
    except (AttributeError, RuntimeError, OSError):
        # Another version of Numba, or no folder to write to: compile anew in each process.
        return njit(nogil=True, _nrt=False)(function)
    return made


def _as_one_program(compile_kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(compile_kernel)
    def compiled(*args: Any) -> Any:
        with as_one_program(name):
            return compile_kernel(*args)

    return compiled


def _wrapping(function: Callable[..., Any]) -> Any:
    """Without compiling, NumPy warns where random numbers wrap around, as they should."""

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        with np.errstate(over="ignore"):
            return function(*args)

    return called
