"""Functions that only kernels call."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from entity_env.rows.compiled import compiled  # noqa: E402
from entity_env.storage.inner import inner  # noqa: E402


@inner
def divide(a, b):
    return a // b


@numba.njit
def divide_all(numbers, by):
    for i in range(len(numbers)):
        numbers[i] = divide(numbers[i], by)


def test_a_function_inside_kernels_is_a_function_like_any_other_there():
    numbers = np.array([7, -7, 9])
    divide_all(numbers, 2)
    assert numbers.tolist() == [3, -4, 4]
    with pytest.raises(ZeroDivisionError):
        divide_all(numbers, 0)
    assert divide.overloads  # compiled for the call above
    with pytest.raises(TypeError):
        divide(7, 2)


def test_a_function_inside_kernels_has_no_machine_code_of_its_own():
    divide_all(np.array([7]), 2)
    (compiled,) = divide.overloads.values()
    name = compiled.fndesc.mangled_name
    engine = compiled.library._codegen._engine
    assert not engine.is_symbol_defined(name)


@inner
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@inner
def is_even(n):
    return True if n == 0 else is_odd(n - 1)


@inner
def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@numba.njit
def play(n):
    return factorial(n), is_even(n)


def test_functions_inside_kernels_may_call_themselves_and_each_other():
    assert [play(5), play(6)] == [(120, False), (720, True)]


@compiled
def add(a, b):
    return a + b


def test_python_runs_a_function_of_a_game_as_python():
    assert add(1, 2) == 3
    assert add("a", "b") == "ab"  # nothing is compiled
    assert not add.overloads
    # Random numbers wrap around without a warning.
    assert add(np.uint64(2**64 - 1), np.uint64(2)) == 1
