"""What a kernel calls becomes no machine code of its own; whoever calls it gets the same."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from numba.core import event  # noqa: E402

from entity_env.rows.jit import called, compiled, kernel, with_arrays  # noqa: E402
from entity_env.rows.whole_kernel import _PartLibrary  # noqa: E402


@called
def _third(numbers, index):
    if index < 0:
        raise ValueError("below zero")
    return numbers[index] * 3


@compiled
def _second(numbers, index):
    return _third(numbers, index) + 1


@with_arrays
def _first(numbers, count):
    own = np.zeros(count)
    for index in range(count):
        own[index] = _second(numbers, index)
    return own.sum()


def _all_of_them(numbers, out):
    out[0] = _first(numbers, len(numbers))
    out[1] = _second(numbers, 0) + _second(numbers, 1) + _third(numbers, 2)
    out[2] = _even(len(numbers))


@called
def _even(count):
    if count == 0:
        return 1
    return _even(count - 1) * -1


def _refuses(numbers):
    return _third(numbers, -1)


class _Compiled(event.Listener):
    """The names of the functions that are compiled, and with which types."""

    def __init__(self):
        self.seen = []

    def on_start(self, told):
        self.seen.append((told.data["dispatcher"].py_func.__name__, told.data["args"]))

    def on_end(self, told):
        pass


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What was compiled, whose code was finished, and what the kernel then computed."""
    patch = pytest.MonkeyPatch()
    patch.setattr("numba.config.CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    finished = []
    library = _PartLibrary.__bases__[0]
    finish = library._finalize_final_module
    patch.setattr(
        library,
        "_finalize_final_module",
        lambda self: finished.append(self.name) or finish(self),
    )
    listener, out = _Compiled(), np.zeros(3)
    with event.install_listener("numba:compile", listener):
        kernel(_all_of_them)(np.array([1.0, 2.0, 3.0]), out)
    patch.undo()
    return listener.seen, finished, out


def test_a_kernel_computes_what_its_functions_say(told):
    # 3 * (1 + 2 + 3) + 3 = 21; (3 + 1) + (6 + 1) + 9 = 20; of an odd number -1.
    assert told[2].tolist() == [21.0, 20.0, -1.0]


def test_only_the_kernel_becomes_machine_code(told):
    assert told[1] == ["_all_of_them"]


def test_numbers_make_no_versions_of_a_function(told):
    names = [name for name, _ in told[0]]
    assert names.count("_third") == names.count("_second") == names.count("_even") == 1


def test_python_calls_functions_that_kernels_call():
    numbers = np.array([1.0, 2.0, 3.0])
    assert _second(numbers, 1) == 7.0
    assert _first(numbers, 2) == 11.0  # 4 + 7
    assert _first(numbers, 3) == 21.0


def test_what_a_called_function_raises_arrives():
    with pytest.raises(ValueError, match="below zero"):
        kernel(_refuses)(np.array([1.0]))


@called
def _part_of(pair, index):
    return pair[index]


def _takes_apart(number):
    return _part_of((number, True), 0) * 2


def test_what_only_types_with_a_value_gets_it():
    assert kernel(_takes_apart)(2.5) == 5.0  # a pair of two types needs to know which one
