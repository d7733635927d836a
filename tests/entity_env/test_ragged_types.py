"""One suite over the package ``ragged_buffer`` and its NumPy stand-in."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import entity_env.batching.ragged as chosen
import entity_env.batching.ragged_numpy as stand_in

try:
    package = importlib.import_module("ragged_buffer")
except ImportError:
    package = None

needs_package = pytest.mark.skipif(package is None, reason="ragged_buffer is not installed")


@pytest.fixture(
    params=["ragged_numpy", pytest.param("ragged_buffer", marks=needs_package)], name="rb"
)
def implementation(request):
    return stand_in if request.param == "ragged_numpy" else package


def floats(rb, lengths=(3, 0, 2, 1), width=2):
    """Rows 0, 1, 2, ... cut into frames."""
    rows = np.arange(sum(lengths) * width, dtype=np.float32).reshape(-1, width)
    return rb.RaggedBufferF32.from_flattened(rows, np.array(lengths, np.int64))


def ints(rb, *frames):
    """One column."""
    buffer = rb.RaggedBufferI64(1)
    for frame in frames:
        buffer.push(np.array(frame, np.int64).reshape(-1, 1))
    return buffer


def plain(buffer):
    """A buffer as a list of frames, each a list of rows."""
    buffer = buffer.materialize()
    rows, lists, start = buffer.as_array().tolist(), [], 0
    for length in buffer.size1().tolist() if buffer.size0() else []:
        lists.append(rows[start : start + length])
        start += length
    return lists


# ---- making and measuring -----------------------------------------------------------------------


def test_from_flattened_and_sizes(rb):
    buffer = floats(rb)
    assert plain(buffer) == [[[0, 1], [2, 3], [4, 5]], [], [[6, 7], [8, 9]], [[10, 11]]]
    assert (buffer.size0(), buffer.size2(), buffer.items(), len(buffer)) == (4, 2, 6, 12)
    assert buffer.size1().tolist() == [3, 0, 2, 1]
    assert buffer.size1().dtype == np.int64
    assert [buffer.size1(i) for i in range(4)] == [3, 0, 2, 1]
    assert buffer.as_array().dtype == np.float32
    assert buffer.as_array().shape == (6, 2)


def test_from_array_has_frames_of_one_length(rb):
    buffer = rb.RaggedBufferF32.from_array(np.arange(12, dtype=np.float32).reshape(2, 3, 2))
    assert plain(buffer) == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    empty = rb.RaggedBufferF32.from_array(np.zeros((2, 0, 3), np.float32))
    assert (plain(empty), empty.size2()) == ([[], []], 3)


def test_arrays_that_are_not_contiguous(rb):
    rows = np.arange(12, dtype=np.float32).reshape(2, 6).T[::2]  # rows 0, 2, 4 of (6, 2)
    buffer = rb.RaggedBufferF32.from_flattened(rows, np.array([1, 2]))
    assert plain(buffer) == [[[0, 6]], [[2, 8], [4, 10]]]
    cube = np.arange(8, dtype=np.float32).reshape(2, 2, 2)[:, :, ::-1]
    assert plain(rb.RaggedBufferF32.from_array(cube)) == [[[1, 0], [3, 2]], [[5, 4], [7, 6]]]


def test_a_buffer_shares_nothing_with_arrays(rb):
    rows, lengths = np.zeros((2, 1), np.int64), np.array([1, 1])
    buffer = rb.RaggedBufferI64.from_flattened(rows, lengths)
    rows[:], lengths[:] = 7, 9
    buffer.as_array()[:] = 8
    buffer.size1()[:] = 5
    assert plain(buffer) == [[[0]], [[0]]]
    added = rb.RaggedBufferI64(1)
    added.push(rows)
    rows[:] = 3
    assert plain(added) == [[[7], [7]]]


def test_push_push_empty_extend_and_clear(rb):
    buffer = rb.RaggedBufferF32(2)
    buffer.push(np.array([[1, 2], [3, 4]], np.float32))
    buffer.push_empty()
    buffer.push(np.array([], np.float32))
    buffer.push(np.zeros((0, 2), np.float32))
    assert buffer.size1().tolist() == [2, 0, 0, 0]
    buffer.extend(floats(rb, (1, 0)))
    assert plain(buffer) == [[[1, 2], [3, 4]], [], [], [], [[0, 1]], []]
    buffer.clear()
    assert (buffer.size0(), buffer.items(), buffer.size2()) == (0, 0, 2)
    buffer.push(np.array([[5, 6]], np.float32))
    assert plain(buffer) == [[[5, 6]]]


def test_clone_is_a_copy_and_materialize_is_the_same_buffer(rb):
    buffer = floats(rb, (1,))
    copy, same = buffer.clone(), buffer.materialize()
    buffer.push_empty()
    assert (copy.size0(), same.size0()) == (1, 2)


def test_the_three_types(rb):
    assert rb.RaggedBufferI64.from_array(np.zeros((1, 1, 1), np.int64)).as_array().dtype == np.int64
    buffer = rb.RaggedBufferBool.from_array(np.array([[[True, False]]]))
    assert buffer.as_array().dtype == np.bool_
    assert plain(buffer) == [[[True, False]]]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda rb: rb.RaggedBufferF32.from_array(np.ones((2, 3), np.float32)), TypeError),
        (lambda rb: rb.RaggedBufferF32.from_array(np.ones((2, 3, 1))), TypeError),
        (lambda rb: rb.RaggedBufferF32.from_array([[[1.0]]]), TypeError),
        (lambda rb: rb.RaggedBufferI64.from_array(np.ones((1, 1, 1), np.int32)), TypeError),
        (
            lambda rb: rb.RaggedBufferF32.from_flattened(
                np.ones((2, 1), np.float32), np.array([1, 2])
            ),
            ValueError,
        ),
        (
            lambda rb: rb.RaggedBufferF32.from_flattened(
                np.ones((3, 1), np.float32), np.array([1, 2], np.int32)
            ),
            TypeError,
        ),
        (lambda rb: floats(rb).push(np.ones((1, 3), np.float32)), ValueError),
        (lambda rb: floats(rb).push(np.ones((1, 2))), TypeError),
        (lambda rb: floats(rb).push(np.ones(2, np.float32)), ValueError),
        (lambda rb: floats(rb).extend(floats(rb, width=3)), ValueError),
        (lambda rb: floats(rb).extend(ints(rb, [1])), TypeError),
        (lambda rb: floats(rb).size1(4), ValueError),
        (lambda rb: rb.RaggedBufferF32("a"), TypeError),
        (lambda rb: rb.RaggedBufferF32(-1), OverflowError),
        (lambda rb: rb.RaggedBuffer(2), ValueError),
        (lambda rb: hash(floats(rb)), TypeError),
    ],
)
def test_what_does_not_fit_is_refused(rb, make, error):
    with pytest.raises(error):
        make(rb)


# ---- indexing -----------------------------------------------------------------------------------


def test_frames_by_number(rb):
    buffer = floats(rb)
    assert plain(buffer[2]) == [[[6, 7], [8, 9]]]
    assert plain(buffer[1]) == [[]]
    assert plain(buffer[np.int64(3)]) == [[[10, 11]]]


@pytest.mark.parametrize("which", [[2, 0, 0], np.array([2, 0, 0], np.int32)])
def test_several_frames(rb, which):
    first = [[0, 1], [2, 3], [4, 5]]
    assert plain(floats(rb)[which]) == [[[6, 7], [8, 9]], first, first]


@pytest.mark.parametrize("index", [4, -1, [4], np.array([-1])])
def test_frames_that_do_not_exist(rb, index):
    # the package panics here, with an exception that is no Exception
    with pytest.raises(BaseException) as caught:
        floats(rb)[index]
    if rb is stand_in:
        assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize(
    "index", ["a", [0.5], np.array([[0, 1]]), slice(1, None), (0, slice(1, None))]
)
def test_what_is_no_index(rb, index):
    with pytest.raises(BaseException) as caught:
        floats(rb)[index]
    if rb is stand_in:
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "index", [np.array([True, False, True, False]), True, (slice(None), slice(None), 0)]
)
def test_the_stand_in_refuses_what_it_does_not_know(index):
    with pytest.raises(TypeError, match="whole numbers"):
        floats(stand_in)[index]


# ---- comparing and joining ----------------------------------------------------------------------


def test_equality(rb):
    assert floats(rb) == floats(rb)
    assert floats(rb) != floats(rb, (3, 0, 1, 2))
    assert floats(rb) != floats(rb, (6,))
    assert floats(rb) != floats(rb, (3, 0, 2, 0))
    assert rb.RaggedBufferF32(2) != rb.RaggedBufferF32(3)
    assert ints(rb, [0]) != floats(rb, (1,), 1)
    assert ints(rb, [1]) != ints(rb, [2])
    assert (floats(rb) == 3) is False
    assert (floats(rb) != "a") is True
    nan = rb.RaggedBufferF32.from_array(np.full((1, 1, 1), np.nan, np.float32))
    assert nan != nan.clone()


def test_cat(rb):
    a, b = ints(rb, [1, 2], []), ints(rb, [3], [4])
    assert plain(rb.cat([a, b])) == [[[1], [2]], [], [[3]], [[4]]]
    assert plain(rb.RaggedBufferI64.cat([a, b], 0)) == plain(rb.cat((a, b), 0))


@pytest.mark.parametrize(
    ("join", "error"),
    [
        (lambda rb: rb.cat([]), ValueError),
        (lambda rb: rb.RaggedBufferF32.cat([], 0), ValueError),
        (lambda rb: rb.cat(["a"]), TypeError),
        (lambda rb: rb.cat([floats(rb), ints(rb)]), TypeError),
        (lambda rb: rb.cat([floats(rb), floats(rb)], 3), ValueError),
        (lambda rb: rb.cat([floats(rb), floats(rb, width=3)]), ValueError),
    ],
)
def test_buffers_that_do_not_join(rb, join, error):
    with pytest.raises(error):
        join(rb)


# ---- text ---------------------------------------------------------------------------------------


def test_text(rb):
    assert repr(floats(rb)) == str(floats(rb)) == (
        "RaggedBuffer([\n"
        "    [\n        [0, 1],\n        [2, 3],\n        [4, 5],\n    ],\n"
        "    [],\n"
        "    [\n        [6, 7],\n        [8, 9],\n    ],\n"
        "    [[10.0, 11.0]],\n"
        "], '4 * var * 2 * f32)"
    )  # fmt: skip
    assert repr(rb.RaggedBufferBool.from_array(np.array([[[True, False]]]))) == (
        "RaggedBuffer([\n    [[true, false]],\n], '1 * var * 2 * bool)"
    )
    assert repr(ints(rb, [-5])) == "RaggedBuffer([\n    [[-5]],\n], '1 * var * 1 * i64)"
    assert repr(rb.RaggedBufferI64(3)) == "RaggedBuffer([\n], '0 * var * 3 * i64)"


# ---- the names that the library uses ------------------------------------------------------------


def test_the_library_uses_the_package_where_it_is_installed():
    source = stand_in if package is None else package
    for name in ("RaggedBufferF32", "RaggedBufferI64", "RaggedBufferBool", "cat"):
        assert getattr(chosen, name) is getattr(source, name)


def test_lengths_and_offsets(rb):
    assert chosen.lengths(floats(rb)).tolist() == [3, 0, 2, 1]
    assert chosen.offsets(floats(rb)).tolist() == [0, 3, 3, 5, 6]
    assert chosen.lengths(rb.RaggedBufferF32(2)).tolist() == []
    assert chosen.offsets(rb.RaggedBufferF32(2)).tolist() == [0]
    assert chosen.offsets(floats(rb)).dtype == chosen.lengths(floats(rb)).dtype == np.int64
    assert chosen.lengths(floats(rb)[[2, 0]]).tolist() == [2, 3]


def test_one_frame(rb):
    assert chosen.frame(floats(rb), 2).tolist() == [[6, 7], [8, 9]]
    assert chosen.frame(floats(rb), 1).shape == (0, 2)
    assert chosen.frame(floats(rb), np.int64(3)).tolist() == [[10, 11]]


@pytest.mark.parametrize("i", [-1, 4])
def test_a_frame_that_does_not_exist_never_panics(rb, i):
    with pytest.raises(IndexError, match="4 frames"):
        chosen.frame(floats(rb), i)


def test_the_stand_in_travels_between_processes():
    buffer = floats(stand_in)
    assert cloudpickle.loads(cloudpickle.dumps(buffer)) == buffer


# ---- both agree ---------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-5, 5).map(float),
    # Of two shortest texts as near, such as 1048576.2 and 1048576.3, each may write another one.
    st.floats(width=32, allow_nan=True, allow_infinity=True).filter(
        lambda x: not (2**17 < abs(x) < 2**24 and x % 1)
    ),
    st.sampled_from([1e-4, 1e-5, 1e15, 1e16, 1e20, 0.1, -0.0, 16777216.0]),
)


@st.composite
def contents(draw, lengths=None, width=None):
    """Rows, lengths and type: what both buffers are made of."""
    if lengths is None:
        lengths = draw(st.lists(st.integers(0, 4), max_size=7))
    width = draw(st.integers(0, 3)) if width is None else width
    count = sum(lengths) * width
    kind, values = draw(
        st.sampled_from([("F32", numbers), ("I64", st.integers(-9, 9)), ("Bool", st.booleans())])
    )
    dtype = {"F32": np.float32, "I64": np.int64, "Bool": np.bool_}[kind]
    rows = np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype)
    return SimpleNamespace(
        kind="RaggedBuffer" + kind,
        rows=rows.reshape(sum(lengths), width),
        lengths=np.array(lengths, np.int64),
    )


def build(rb, made):
    return getattr(rb, made.kind).from_flattened(made.rows, made.lengths)


def assert_same(ours, theirs):
    ours, theirs = ours.materialize(), theirs.materialize()
    assert type(ours).__name__ == type(theirs).__name__
    assert (ours.size0(), ours.size2()) == (theirs.size0(), theirs.size2())
    assert (ours.items(), len(ours)) == (theirs.items(), len(theirs))
    np.testing.assert_array_equal(ours.size1(), theirs.size1())
    np.testing.assert_array_equal(ours.as_array(), theirs.as_array())
    assert ours.as_array().dtype == theirs.as_array().dtype
    assert repr(ours) == repr(theirs)


def assert_same_call(call):
    """Equal results, or the same kind of error."""
    results = []
    for rb in (stand_in, package):
        try:
            results.append(call(rb))
        except (TypeError, ValueError) as error:
            results.append(type(error))
    ours, theirs = results
    if isinstance(theirs, type):
        assert ours is theirs
    else:
        assert_same(ours, theirs)


@needs_package
@given(contents(), st.data())
@settings(max_examples=150, deadline=None)
def test_both_agree_on_one_buffer(made, data):
    ours, theirs = build(stand_in, made), build(package, made)
    assert_same(ours, theirs)
    if len(made.lengths) and made.rows.shape[1]:
        frames = data.draw(st.lists(st.integers(0, len(made.lengths) - 1), max_size=8))
        assert_same(ours[frames], theirs[frames])
        assert_same(ours[np.array(frames, np.int64)], theirs[np.array(frames, np.int64)])
        assert_same(ours[len(made.lengths) - 1], theirs[len(made.lengths) - 1])
    assert (ours == ours.clone()) == (theirs == theirs.clone())


@needs_package
@given(st.lists(contents(), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_both_agree_on_cat(parts):
    assert_same_call(lambda rb: rb.cat([build(rb, part) for part in parts], 0))
