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

from llvmlite.binding import parse_assembly  # type: ignore[import-untyped]
from numba import njit
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
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
        """Let functions that call themselves, or each other, find themselves in a kernel.

        Numba calls them by pointers, which it fills when there is machine code of them. Nothing is
        optimised: the code that contains this one is, as a whole.
        """
        module = self._final_module
        defined = {own.name for own in module.functions if not own.is_declaration}
        # Linking moves what is in a module: names first.
        for pointer in [own.name for own in module.global_variables if own.is_declaration]:
            _, prefix, name = pointer.rpartition(RuntimeLinker.PREFIX)
            if prefix and name in defined:
                to = f'@"{pointer}" = linkonce_odr constant ptr @"{name}"'
                module.link_in(parse_assembly(f'declare void @"{name}"()\n{to}'))

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
