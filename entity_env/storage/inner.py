"""Functions that only kernels call, which are not compiled to machine code of their own.

Numba compiles each function completely: wrappers for Python and C, all optimisations, machine code.
A kernel contains the code of all functions that it calls, and is optimised as a whole. For
functions that only kernels call, most of that is unnecessary; it took half of the compilation time.
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
    """Compile ``function`` for the kernels that call it; a call from Python is a TypeError.

    Args:
        function: The function.
        options: Options of ``numba.njit``.
    """
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(pipeline_class=_Compiler, **options)(function)


class _Library(JITCodeLibrary):
    """Code that is linked into that of kernels without optimisation.

    If another version of Numba does not call one of these methods, the function is compiled
    completely, like any other.
    """

    def _optimize_final_module(self) -> None:
        """Resolve the calls of recursive functions within a kernel, without optimising.

        Numba calls them by pointers, which it sets when it makes machine code.
        """
        module = self._final_module
        defined = {function.name for function in module.functions if not function.is_declaration}
        # Collect the names first, because linking moves the contents of a module.
        for pointer in [
            variable.name for variable in module.global_variables if variable.is_declaration
        ]:
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
    """Numba's compiler with another library."""

    def __init__(self, typing_context: Any, context: Any, library: Any, *rest: Any) -> None:
        library = _Library(context.codegen(), "inner")  # type: ignore[no-untyped-call]
        super().__init__(typing_context, context, library, *rest)  # type: ignore[no-untyped-call]


_RAISE_TYPE_ERROR = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value or 0
