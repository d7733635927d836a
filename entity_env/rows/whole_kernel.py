"""Makes machine code of a kernel, and not of each function that it calls.

Left to itself, Numba finishes each function that is called: it makes machine code, which nobody
runs where only other compiled functions call it. Here functions are optimised and put together. To
optimise them in the kernel alone, once, compiles faster still, but the warehouse then takes a sixth
longer for a step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

__all__ = ["as_one_program", "with_fewer_versions"]

_Library: Any = JITCodeLibrary
_NEEDED = (
    *("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals"),
    *("_verify_declare_only_symbols", "_unserialize"),
)
_ENVIRONMENTS: dict[str, Any] = {}  # by the name of the variable that holds its address


@contextlib.contextmanager
def as_one_program(kernel: str) -> Iterator[None]:
    """Within, only the function of this qualified name is made machine code.

    Others are when Python calls them. Everything else that is compiled waits until the end. With a
    version of Numba that is built otherwise, every function is finished.
    """
    with global_compiler_lock:
        codegen: Any = cpu_target.target_context.codegen()
        if not (hasattr(codegen, "_library_class") and all(hasattr(_Library, n) for n in _NEEDED)):
            yield
            return
        before = codegen._library_class, _PartLibrary.kernel
        codegen._library_class, _PartLibrary.kernel = _PartLibrary, kernel
        try:
            yield
        finally:
            codegen._library_class, _PartLibrary.kernel = before


def with_fewer_versions(called: Any) -> Any:
    """Let compiled functions call a function with numbers, where Numba would take their values.

    It compiles ``first_of(units, 0)`` and ``first_of(units, 1)`` as two functions; put into the
    place of a call, one function comes to the same. What only types with the values still gets
    them.

    Args:
        called: What ``njit`` returned; changed in place, and returned.
    """
    with_values: Callable[..., Any] = called.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        plain = tuple(map(_plain, args)), {name: _plain(kind) for name, kind in kws.items()}
        if plain != (tuple(args), dict(kws)):
            with contextlib.suppress(NumbaError):
                return with_values(*plain)
        return with_values(args, kws)

    called.get_call_template = get_call_template
    return called


def _plain(kind: Any) -> Any:
    """``int64`` for the type of the number 3."""
    is_number = isinstance(kind, types.IntegerLiteral | types.BooleanLiteral)
    return types.unliteral(kind) if is_number else kind  # type: ignore[no-untyped-call]


class _PartLibrary(_Library):  # type: ignore[misc]
    """The code of a function, which is finished only if it is the kernel, or its address is asked.

    Numba calls a function "finalized" that others may copy: that all of them are.
    """

    kernel = ""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._is_part = name != self.kernel

    @property
    def codegen(self) -> Any:
        return _Addressing(self) if self._is_part else self._codegen

    def _finalize_final_module(self) -> None:
        prefix = RuntimeLinker.PREFIX  # functions that call each other need their addresses
        if self._is_part and any(
            gv.name.startswith(prefix) for gv in self._final_module.global_variables
        ):
            self._finish()
        elif self._is_part:
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            self._finalized = True
        else:
            super()._finalize_final_module()
            for gv in self._final_module.global_variables:
                if gv.name in _ENVIRONMENTS:
                    self._codegen.set_env(gv.name, _ENVIRONMENTS[gv.name])

    def _finish(self) -> None:
        self._is_part = False
        self._dynamic_globals.clear()
        self._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        if self._is_part:
            if all(name != function.name for function in self.get_defined_functions()):
                return 0
            self._finish()
        return super().get_pointer_to_function(name)  # type: ignore[no-any-return]

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        """What comes from a cache is finished."""
        own, codegen._library_class = codegen._library_class, _Library
        try:
            return _Library._unserialize(codegen, state)
        finally:
            codegen._library_class = own


class _Addressing:
    """A code generator that remembers what a part's environment is, until it has an address."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        _ENVIRONMENTS[name] = environment
