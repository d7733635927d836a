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


def test_an_empty_buffer(rb):
    buffer = rb.RaggedBufferF32(3)
    assert (buffer.size0(), buffer.size2(), buffer.items(), len(buffer)) == (0, 3, 0, 0)
    assert buffer.as_array().shape == (0, 3)
    assert buffer.size1().shape == (0,)


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
        (lambda rb: floats(rb).indices(2), ValueError),
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


@pytest.mark.parametrize(
    "which", [[2, 0, 0], np.array([2, 0, 0]), np.array([2, 0, 0], np.int32), (2, 0, 0)]
)
def test_several_frames(rb, which):
    first = [[0, 1], [2, 3], [4, 5]]
    assert plain(floats(rb)[which]) == [[[6, 7], [8, 9]], first, first]


@pytest.mark.parametrize("which", [[], np.array([], np.int64)])
def test_no_frames(rb, which):
    assert (plain(floats(rb)[which]), floats(rb)[which].size2()) == ([], 2)


def test_two_numbers_are_two_frames(rb):
    assert plain(floats(rb)[3, 1]) == [[[10, 11]], []]


ALL = slice(None)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ((ALL, ALL, 1), [[[1], [4], [7]], [], [[10], [13]], [[16]]]),
        ((ALL, ALL, slice(1, 3)), [[[1, 2], [4, 5], [7, 8]], [], [[10, 11], [13, 14]], [[16, 17]]]),
        ((slice(3, None), ALL, slice(None, None, 2)), [[[15, 17]]]),
        ((ALL, ALL, [2, 0]), [[[2, 0], [5, 3], [8, 6]], [], [[11, 9], [14, 12]], [[17, 15]]]),
        ((slice(2, None), ALL, np.array([1, 1])), [[[10, 10], [13, 13]], [[16, 16]]]),
        ((slice(2, None), ALL, 0), [[[9], [12]], [[15]]]),
        ((slice(-2, None), ALL, 0), [[[9], [12]], [[15]]]),
        ((slice(None, None, 2), ALL, 0), [[[0], [3], [6]], [[9], [12]]]),
        ((slice(0, 99), ALL, 0), [[[0], [3], [6]], [], [[9], [12]], [[15]]]),
        ((0, ALL, 0), [[[0], [3], [6]]]),
        (([2, 0], ALL, 0), [[[9], [12]], [[0], [3], [6]]]),
        ((np.array([2, 0]), ALL, [0]), [[[9], [12]], [[0], [3], [6]]]),
        ((ALL, 0, 0), [[[0]], [], [[9]], [[15]]]),
        ((ALL, 0, ALL), [[[0, 1, 2]], [], [[9, 10, 11]], [[15, 16, 17]]]),
        ((ALL, slice(1, None), ALL), [[[3, 4, 5], [6, 7, 8]], [], [[12, 13, 14]], []]),
        ((ALL, slice(0, 1), 0), [[[0]], [], [[9]], [[15]]]),
        ((ALL, slice(None, None, 2), 0), [[[0], [6]], [], [[9]], [[15]]]),
        ((ALL, slice(7, None), 0), [[], [], [], []]),
        ((slice(2, None), [0, 0], 0), [[[9], [9]], [[15], [15]]]),
        ((slice(2, None), [1, 0], 0), [[[12], [9]], []]),  # up to the first row that is not there
        ((0, 1, ALL), [[[3, 4, 5]]]),
        ((3, 1, ALL), [[]]),
        ((slice(2, None), slice(None, 1), slice(1, None)), [[[10, 11]], [[16, 17]]]),
    ],
)  # fmt: skip
def test_views_of_frames_rows_and_columns(rb, index, expected):
    view = floats(rb, width=3)[index]
    assert plain(view) == expected
    assert view.as_array().tolist() == [row for frame in expected for row in frame]
    assert view.size0() == len(expected)
    assert view.items() == sum(map(len, expected))


def test_a_view_of_a_view(rb):
    view = floats(rb, width=3)[:, :, :]
    assert plain(view[:, :, 0]) == [[[0], [3], [6]], [], [[9], [12]], [[15]]]


@pytest.mark.parametrize("index", [4, -1, [4], [-1], np.array([4]), np.array([-1]), (0, 5)])
def test_frames_that_do_not_exist(rb, index):
    # the package panics here, with an exception that is no Exception
    with pytest.raises(BaseException) as caught:
        floats(rb)[index]
    if rb is stand_in:
        assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize(
    "index", ["a", None, 1.5, [0.5], np.array([[0, 1]]), slice(1, None), (0, slice(1, None))]
)
def test_what_is_no_index(rb, index):
    with pytest.raises(BaseException) as caught:
        floats(rb)[index]
    if rb is stand_in:
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ((9, ALL, ALL), IndexError),
        ((ALL, ALL, 2), IndexError),
        ((ALL, ALL, [-1]), IndexError),
        ((slice(None, None, -1), ALL, ALL), ValueError),
        ((ALL, slice(-1, None), ALL), ValueError),
        ((ALL, ALL, 0.5), TypeError),
        (np.array([True, False, True, False]), TypeError),
        (True, TypeError),
    ],
)
def test_the_stand_in_refuses_what_the_package_answers_with_nonsense(index, error):
    with pytest.raises(error):
        floats(stand_in)[index]


# ---- arithmetic ---------------------------------------------------------------------------------


def test_indices_plus_offsets(rb):
    # The frames' actors, and where each frame starts among 6 + 3 + 5 entities.
    actors = ints(rb, [5], [1], [3, 4])
    starts = rb.RaggedBufferI64.from_array(np.array([0, 6, 9]).reshape(3, 1, 1))
    assert plain(actors + starts) == [[[5]], [[7]], [[12], [13]]]
    assert plain(starts + actors) == [[[5]], [[7]], [[12], [13]]]
    assert plain(actors * starts) == [[[0]], [[6]], [[27], [36]]]
    assert plain(actors) == [[[5]], [[1]], [[3], [4]]]


def test_buffers_of_the_same_lengths(rb):
    a, b = ints(rb, [1, 2], [], [3]), ints(rb, [10, 20], [], [30])
    assert plain(a + b) == [[[11], [22]], [], [[33]]]
    assert plain(a * b) == [[[10], [40]], [], [[90]]]
    one = rb.RaggedBufferF32.from_array(np.array([[[10, 20]], [[30, 40]]], np.float32))
    assert plain(floats(rb, (2, 1)) + one) == [[[10, 21], [12, 23]], [[34, 45]]]


def test_one_row_repeats_over_an_empty_frame(rb):
    one = ints(rb, [10], [20])
    assert plain(ints(rb, [], [1, 2]) + one) == [[], [[21], [22]]]
    assert plain(rb.RaggedBufferI64(1) + rb.RaggedBufferI64(1)) == []


def test_numbers(rb):
    assert plain(ints(rb, [1], [2, 3]) + 1) == [[[2]], [[3], [4]]]
    assert plain(ints(rb, [1], [2, 3]) * np.int64(2)) == [[[2]], [[4], [6]]]
    assert plain(floats(rb, (2,)) + 1.5) == [[[1.5, 2.5], [3.5, 4.5]]]
    assert plain(floats(rb, (2,)) * 2) == [[[0, 2], [4, 6]]]
    assert plain(floats(rb, (1,)) * np.float32(0.5)) == [[[0, 0.5]]]
    assert (floats(rb) + 0.1).as_array().dtype == np.float32


@pytest.mark.parametrize(
    ("compute", "error"),
    [
        (lambda rb: floats(rb) + floats(rb, (3, 0, 2)), ValueError),
        (lambda rb: floats(rb) + floats(rb, (3, 0, 1, 2)), ValueError),
        (lambda rb: floats(rb) + floats(rb, width=1), ValueError),
        (lambda rb: floats(rb) + floats(rb, (1,)), ValueError),
        (lambda rb: floats(rb) + ints(rb, [1]), TypeError),
        (lambda rb: ints(rb, [1]) + 1.5, TypeError),
        (lambda rb: ints(rb, [1]) * 1.5, TypeError),
        (lambda rb: 1 + ints(rb, [1]), TypeError),
        (lambda rb: floats(rb) + "a", TypeError),
        (lambda rb: rb.RaggedBufferBool(1) + rb.RaggedBufferBool(1), TypeError),
        (lambda rb: rb.RaggedBufferBool(1) * True, TypeError),
        (lambda rb: floats(rb) < floats(rb), TypeError),
    ],
)
def test_arithmetic_that_does_not_fit(rb, compute, error):
    with pytest.raises(error):
        compute(rb)


def test_subtracting_views_changes_the_buffer_that_they_show(rb):
    buffer = floats(rb, width=3)
    tens = rb.RaggedBufferF32.from_array(np.full((4, 1, 3), 10, np.float32))
    view = buffer[:, :, 0:2]
    view -= tens[:, :, 1:3]
    assert plain(buffer)[0] == [[-10, -9, 2], [-7, -6, 5], [-4, -3, 8]]
    assert plain(view)[2:] == [[[-1, 0], [2, 3]], [[5, 6]]]
    assert plain(tens) == [[[10, 10, 10]]] * 4
    same = floats(rb, width=3)
    other = same[[0, 2], :, 0]
    other -= floats(rb, width=3)[[0, 2], :, 1]
    assert [frame[-1][0] for frame in plain(same)[::2]] == [-1, -1]  # 6 - 7, 12 - 13
    assert plain(same)[3] == [[15, 16, 17]]


def test_subtracting_views_of_different_sizes(rb):
    buffer = floats(rb)
    for other in (floats(rb, (1, 1)), floats(rb, (3, 1, 3, 1))):
        view = buffer[:, :, :]
        with pytest.raises(ValueError, match="mismatch"):
            view -= other[:, :, :]
    view = buffer[:, :, 0]
    with pytest.raises(ValueError, match="mismatch"):
        view -= buffer.clone()[:, :, :]


def test_the_stand_in_subtracts_views_of_all_rows_only():
    buffer = floats(stand_in)
    with pytest.raises(ValueError, match="view"):
        buffer -= floats(stand_in)
    view = buffer[:, 1:, :]
    with pytest.raises(ValueError, match="all rows"):
        view -= floats(stand_in)[:, 1:, :]
    assert floats(stand_in) == floats(stand_in)[:, :, :].materialize()


def test_equality(rb):
    assert floats(rb) == floats(rb)
    assert floats(rb) != floats(rb, (3, 0, 1, 2))
    assert floats(rb) != floats(rb, (6,))
    assert floats(rb) != floats(rb) + 1
    assert rb.RaggedBufferF32(2) != rb.RaggedBufferF32(3)
    assert ints(rb, [1]) != floats(rb, (1,), 1) + 1
    assert (floats(rb) == 3) is False
    assert (floats(rb) != "a") is True
    nan = rb.RaggedBufferF32.from_array(np.full((1, 1, 1), np.nan, np.float32))
    assert nan != nan.clone()


# ---- indices, packing, joining ------------------------------------------------------------------


def test_indices(rb):
    buffer = floats(rb)
    assert plain(buffer.indices(0)) == [[[0], [0], [0]], [], [[2], [2]], [[3]]]
    assert plain(buffer.indices(1)) == [[[0], [1], [2]], [], [[0], [1]], [[0]]]
    assert plain(buffer.flat_indices()) == [[[0], [1], [2]], [], [[3], [4]], [[5]]]
    assert isinstance(buffer.indices(0), rb.RaggedBufferI64)
    assert plain(rb.RaggedBufferF32(2).flat_indices()) == []


def test_padpack(rb):
    # Frames of 3, 1, 2 and 1 rows. The first fills a sequence; the second opens another one with
    # 2 places left; the third fits there; the fourth opens a third one.
    index, batch, inverse = ints(rb, [0, 0, 0], [0], [0, 0], [0]).padpack()
    assert index.tolist() == [[0, 1, 2], [3, 4, 5], [6, 0, 0]]
    nan = np.nan
    np.testing.assert_array_equal(batch, [[0, 0, 0], [1, 2, 2], [3, nan, nan]])
    assert inverse.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (index.dtype, batch.dtype, inverse.dtype) == (np.int64, np.float32, np.int64)


def test_nothing_to_pack(rb):
    assert ints(rb).padpack() is None
    assert ints(rb, [1, 2], [3, 4]).padpack() is None
    assert ints(rb, [], []).padpack() is None


def test_cat(rb):
    a, b = ints(rb, [1, 2], []), ints(rb, [3], [4])
    assert plain(rb.cat([a, b])) == [[[1], [2]], [], [[3]], [[4]]]
    assert plain(rb.cat([a, b], dim=1)) == [[[1], [2], [3]], [[4]]]
    assert plain(rb.cat([a, b], 2)) == [[[1, 3], [2, 3]], []]  # one row repeats
    assert plain(rb.cat([b, a, b], 2)) == [[[3, 1, 3], [3, 2, 3]], []]
    assert plain(rb.RaggedBufferI64.cat([a, b], 0)) == plain(rb.cat((a, b), 0))
    assert plain(rb.cat([a, b, a], 1)) == [[[1], [2], [3], [1], [2]], [[4]]]


@pytest.mark.parametrize(
    ("join", "error"),
    [
        (lambda rb: rb.cat([]), ValueError),
        (lambda rb: rb.RaggedBufferF32.cat([], 0), ValueError),
        (lambda rb: rb.cat(["a"]), TypeError),
        (lambda rb: rb.cat([floats(rb), ints(rb)]), TypeError),
        (lambda rb: rb.cat([floats(rb), floats(rb)], 3), ValueError),
        (lambda rb: rb.cat([floats(rb), floats(rb, width=3)]), ValueError),
        (lambda rb: rb.cat([floats(rb), floats(rb, width=3)], 1), ValueError),
        (lambda rb: rb.cat([floats(rb), floats(rb, (1,))], 1), ValueError),
        (lambda rb: rb.cat([floats(rb), floats(rb, (1,))], 2), ValueError),
        (lambda rb: rb.cat([floats(rb, (3,)), floats(rb, (2,))], 2), ValueError),
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
    assert chosen.lengths(floats(rb)[[2, 0], :, :]).tolist() == [2, 3]


def test_one_frame(rb):
    assert chosen.frame(floats(rb), 2).tolist() == [[6, 7], [8, 9]]
    assert chosen.frame(floats(rb), 1).shape == (0, 2)
    assert chosen.frame(floats(rb)[:, :, 1], np.int64(3)).tolist() == [[11]]


@pytest.mark.parametrize("i", [-1, 4, 99])
def test_a_frame_that_does_not_exist_never_panics(rb, i):
    with pytest.raises(IndexError, match="4 frames"):
        chosen.frame(floats(rb), i)


def test_the_stand_in_travels_between_processes():
    buffer = floats(stand_in)
    assert cloudpickle.loads(cloudpickle.dumps(buffer)) == buffer


# ---- both agree ---------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-5, 5).map(float),
    st.floats(width=32, allow_nan=True, allow_infinity=True),
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
    for dim in (0, 1):
        assert_same(ours.indices(dim), theirs.indices(dim))
    assert_same(ours.flat_indices(), theirs.flat_indices())
    if len(made.lengths) and made.rows.shape[1]:
        frames = data.draw(st.lists(st.integers(0, len(made.lengths) - 1), max_size=8))
        assert_same(ours[frames], theirs[frames])
        assert_same(ours[np.array(frames, np.int64)], theirs[np.array(frames, np.int64)])
        assert_same(ours[len(made.lengths) - 1], theirs[len(made.lengths) - 1])
        bound = st.integers(0, 6)
        start, step = data.draw(bound), data.draw(st.integers(1, 3))
        stop = start + data.draw(bound)
        columns = made.rows.shape[1]
        part = data.draw(st.lists(st.integers(0, columns - 1), min_size=1, max_size=4))
        for index in (
            (frames, ALL, part),
            (frames, slice(start, stop, step), ALL),
            (ALL, start, part),
            (slice(None, len(made.lengths)), [0, 1, start], ALL),
        ):
            assert_same(ours[index], theirs[index])
    for call in (
        lambda buffer: buffer + 2,
        lambda buffer: buffer * 2,
        lambda buffer: buffer + 0.1,
        lambda buffer: buffer + buffer,
        lambda buffer: buffer * buffer,
    ):
        with np.errstate(all="ignore"):
            assert_same_call(lambda rb, call=call: call(build(rb, made)))
    assert (ours == ours.clone()) == (theirs == theirs.clone())


@needs_package
@given(st.lists(contents(), min_size=1, max_size=4), st.integers(0, 1))
@settings(max_examples=150, deadline=None)
def test_both_agree_on_cat(parts, dim):
    assert_same_call(lambda rb: rb.cat([build(rb, part) for part in parts], dim))


@needs_package
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_both_agree_on_one_row_for_many(data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    width = data.draw(st.integers(1, 3))
    many = data.draw(contents(lengths, width))
    one = data.draw(contents([1] * len(lengths), width))
    with np.errstate(all="ignore"):
        assert_same_call(lambda rb: build(rb, many) + build(rb, one))
        assert_same_call(lambda rb: build(rb, one) * build(rb, many))
    if many.kind == one.kind:
        for order in ([many, one], [one, many], [one, many, many]):
            assert_same_call(lambda rb, order=order: rb.cat([build(rb, p) for p in order], 2))


@needs_package
@given(st.lists(st.integers(0, 6), max_size=12))
@settings(max_examples=150, deadline=None)
def test_both_agree_on_padpack(lengths):
    frames = [[0] * length for length in lengths]
    ours, theirs = ints(stand_in, *frames).padpack(), ints(package, *frames).padpack()
    assert (ours is None) == (theirs is None)
    for mine, other in zip(ours or (), theirs or (), strict=True):
        np.testing.assert_array_equal(mine, other)
        assert mine.dtype == other.dtype


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_padpack_keeps_every_row_and_no_two_frames_overlap(lengths):
    packed = ints(stand_in, *[[0] * length for length in lengths]).padpack()
    if packed is None:
        assert len(set(lengths)) == 1
        return
    index, batch, inverse = packed
    rows = np.arange(sum(lengths))
    np.testing.assert_array_equal(index.reshape(-1)[inverse], rows)
    np.testing.assert_array_equal(
        batch.reshape(-1)[inverse], np.repeat(range(len(lengths)), lengths)
    )
    assert np.isnan(batch).sum() == batch.size - len(rows)
