"""Functions that only kernels call, compiled no further than a kernel needs.

Numba compiles each function to its end: wrappers for Python and C, all optimisations, machine code.
A kernel contains the code of all that it calls, and is optimised as a whole. For what nobody else
calls most of that is therefore for nothing: it was half of the time that compiling took.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["inner"]


def inner(function: Callable[..., Any], **options: Any) -> Any:
    """Compile ``function`` for the kernels that call it. Called from Python it is a TypeError.

    Args:
        function: What kernels call.
        options: Those of ``numba.njit``.
    """
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(pipeline_class=_Compiler, **options)(function)


class _Library(JITCodeLibrary):
    """Code to be linked into that of kernels, as it was written.

    If another version of Numba does not call one of these methods, its own does more than is
    needed, as for any function.
    """

    def _optimize_final_module(self) -> None:
        """Do nothing: the code that contains this one is optimised as a whole."""

    def _finalize_final_module(self) -> None:
        self._finalized = True  # without machine code

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address that Python calls for ``name``."""
        return _RAISE_TYPE_ERROR

    @property
    def codegen(self) -> Any:
        """The code generator, which would set the environment of machine code."""
        return SimpleNamespace(set_env=lambda name, environment: None)


class _Compiler(Compiler):
    """Numba's, but for the library."""

    def __init__(self, typing_context: Any, context: Any, library: Any, *rest: Any) -> None:
        own = _Library(context.codegen(), "inner")  # type: ignore[no-untyped-call]
        super().__init__(typing_context, context, own, *rest)  # type: ignore[no-untyped-call]


_RAISE_TYPE_ERROR = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value or 0
