"""Recordings that were cut, flipped, killed or forged: complete chunks load, nothing breaks."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from support.recorded import RandomFrames, play, record
from support.tiny_envs import Chain, Farm, assert_same_obs
from support.workers import wait_until

from entity_env import ListEnv
from entity_env.errors import RecordingError
from entity_env.recording import DamageWarning, RecordEpisodes, Recording
from entity_env.recording.arrays import pack_arrays, unpack_arrays
from entity_env.recording.chunk_file import (
    HAS_LOG_PROBS,
    MOST_BYTES,
    Place,
    write_chunk,
    write_header,
)

_MAGIC = b"CHNK"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small recording: its bytes, where its header and each chunk end, and its observations."""
    path = tmp_path_factory.mktemp("small") / "a"
    with ListEnv(lambda: Chain(2), 2) as env:
        seen = record(env, path, 5, chunk_steps=2, noted=("log_probs",))
    data = path.read_bytes()
    starts = [at for at in range(len(data)) if data.startswith(_MAGIC, at)]
    return data, [*starts, len(data)], seen


def steps_in(path, seen):
    """The recording in a file, whose steps are the first of what was seen."""
    recording = Recording(path)
    steps = list(recording.steps())
    assert len(steps) == recording.num_steps
    for step, before, after in zip(steps, seen.shown, seen.shown[1:], strict=False):
        assert_same_obs(step.obs, before)
        assert_same_obs(step.next_obs, after)
    return recording


def test_a_file_that_is_cut_at_any_byte_has_its_complete_chunks(small, tmp_path):
    data, ends, seen = small
    assert len(ends) == 4  # 2 + 2 + 1 steps
    path = tmp_path / "a"
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        if size < ends[0]:
            with pytest.raises(RecordingError, match="empty" if size == 0 else "cut off"):
                Recording(path)
            continue
        recording = steps_in(path, seen) if size % 40 == 0 or size in ends else Recording(path)
        complete = sum(end <= size for end in ends[1:])
        assert recording.num_steps == [0, 2, 4, 5][complete]
        assert recording.truncated_bytes == size - ends[complete]
        assert f"{recording.num_steps} steps" in repr(recording)
        assert ("unread" in repr(recording)) == (recording.truncated_bytes > 0)


def test_a_file_that_is_cut_anywhere_can_be_gone_on_with(small, tmp_path):
    data, ends, seen = small
    path = tmp_path / "a"
    near = {end + by for end in ends for by in range(-2, 3)}
    for size in sorted(near | set(range(0, len(data), 23))):
        if size > len(data):
            break
        path.write_bytes(data[:size])
        with ListEnv(lambda: Chain(2), 2) as env:
            more = record(env, path, 1, append=True, noted=("log_probs",))
        before = [0, 2, 4, 5][sum(end <= size for end in ends[1:])]
        assert Recording(path).truncated_bytes == 0
        steps = list(Recording(path).steps())
        assert len(steps) == before + 1
        for step, obs in zip(steps, [*seen.shown[:before], more.shown[0]], strict=True):
            assert_same_obs(step.obs, obs)


def test_a_flipped_bit_costs_its_chunk_and_is_said(small, tmp_path):
    data, ends, seen = small
    rng = np.random.default_rng(0)
    path = tmp_path / "a"
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        if place < ends[0]:
            with pytest.raises(RecordingError):
                Recording(path)
            continue
        lost = sum(end <= place for end in ends[1:])
        kept = [t for t in range(5) if t // 2 != lost]
        looks_cut = ends[2] + 16 <= place < ends[2] + 24 and damaged[place] > data[place]
        if looks_cut:  # its last chunk says that it is longer
            recording = Recording(path)
        else:
            words = f"bytes {ends[lost]:,} to {ends[lost + 1]:,} are lost"
            with pytest.warns(DamageWarning, match=words):
                recording = Recording(path)
        assert recording.num_steps == len(kept)
        size = ends[lost + 1] - ends[lost]
        unread = (0, size) if lost == 2 else (size, 0)
        assert (recording.lost_bytes, recording.truncated_bytes) == unread
        if place % 40 == 0:
            for step, t in zip(recording.steps(), kept, strict=True):
                assert_same_obs(step.obs, seen.shown[t])
            read_all(recording)


def test_no_episode_goes_on_behind_a_damaged_chunk(tmp_path):
    path = tmp_path / "a"
    with ListEnv(lambda: Chain(9), 1) as env:
        record(env, path, 9, chunk_steps=3)
    assert [len(own) for own in Recording(path).episodes()] == [9]
    data = bytearray(path.read_bytes())
    data[data.index(_MAGIC, data.index(_MAGIC) + 1) + 60] ^= 1
    path.write_bytes(data)
    with pytest.warns(DamageWarning, match="6 frames of 6 steps"):
        recording = Recording(path)
    assert [len(own) for own in recording.episodes()] == [3, 3]
    assert "damaged" in repr(recording)


def test_a_file_that_is_full_of_beginnings_of_chunks_is_searched_in_bounded_time(small, tmp_path):
    data, ends, _ = small
    head = struct.pack("<4sIIIQQQ", _MAGIC, 0, 1, 1, 1 << 20, 1, 1)
    (tmp_path / "a").write_bytes(data[: ends[0]] + b"x" + head * (1 << 16))  # 3 MiB
    with pytest.warns(DamageWarning, match="0 frames"):
        assert Recording(tmp_path / "a").num_steps == 0


def test_appending_does_not_remove_complete_chunks_behind_a_damaged_one(small, tmp_path):
    data, ends, _ = small
    for place in (ends[0], ends[0] + 10, ends[1] - 1):
        damaged = bytearray(data)
        damaged[place] ^= 1
        (tmp_path / "a").write_bytes(damaged)
        with (
            ListEnv(lambda: Chain(2), 2) as env,
            pytest.raises(RecordingError, match=f"damaged at byte {ends[0]}, and complete"),
        ):
            RecordEpisodes(env, tmp_path / "a", append=True)
        assert (tmp_path / "a").read_bytes() == damaged


def test_appending_removes_what_a_crash_left_of_the_last_chunk(small, tmp_path):
    data, ends, _ = small
    (tmp_path / "a").write_bytes(data[: ends[2] + 30] + bytes(100_000))
    words = f"bytes {ends[2]:,} to {ends[2] + 100_030:,} are removed"
    with ListEnv(lambda: Chain(2), 2) as env, pytest.warns(DamageWarning, match=words):
        record(env, tmp_path / "a", 1, append=True, noted=("log_probs",))
    recording = Recording(tmp_path / "a")
    assert (recording.num_steps, recording.truncated_bytes) == (5, 0)


def header(text, version=2, crc=None):
    head = struct.pack("<8sII", b"\x89EPS\r\n\x1a\n", version, len(text))
    own = zlib.crc32(text, zlib.crc32(head)) if crc is None else crc
    return head + struct.pack("<I", own) + text


def spaces(**changes):
    space = Farm().obs_space(), Farm().action_space()
    value = json.loads(write_header(*space)[20:])
    return json.dumps({**value, **changes}).encode()


BROKEN_HEADERS = [
    (b"", "is empty"),
    (b"hello, this is a text", "is not a recording"),
    (b"\x89EPS\n\x1a\n" + spaces(), "is not a recording"),  # went through a text mode
    (b"\x89PNG\r\n\x1a\n" + bytes(50), "is not a recording"),
    (header(spaces(), version=3), "written by a newer version"),
    (header(spaces(), version=1), "(?s)by an older version .*received: *format 1"),
    (header(spaces(), crc=7), "header of .* is damaged"),
    (header(spaces())[:-1], "cut off in its header"),
    (header(spaces())[:-1] + b" ", "header of .* is damaged"),
    (struct.pack("<8sIII", b"\x89EPS\r\n\x1a\n", 2, 2**20, 0), "cut off in its header"),
    (struct.pack("<8sIII", b"\x89EPS\r\n\x1a\n", 2, 2**32 - 1, 0), "header of .* is damaged"),
    (header(json.dumps([[]] * 100_000).encode()), "100,000 are allowed"),
    (header(b"\xff\xfe"), "spaces in .* are damaged"),
    (header(b"[1, 2"), "spaces in .* are damaged"),
    (header(b"[" * 100_000), "spaces in .* are damaged"),
    (header(b"{}"), "spaces in .* are damaged"),
    (header(spaces(actions=[])), "spaces in .* are damaged"),
    (header(spaces(entities=[{"name": "A", "features": ["x", "x"]}])), "x.*given twice"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN_HEADERS)
def test_what_is_no_recording_is_refused(data, message, tmp_path):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(RecordingError, match=message):
        Recording(tmp_path / "a")


@pytest.mark.parametrize("path", ["no_such_file", ".", 3, None])
def test_what_is_no_file_is_refused(path, tmp_path):
    with pytest.raises(RecordingError, match=r"cannot be read|path"):
        Recording(tmp_path / path if isinstance(path, str) else path)


def forged(path, arrays=None, payload=None, flags=8, steps=1, rows=1, array_bytes=None, **head):
    """A ``Chain`` recording of one chunk whose checksum is right, whatever it says."""
    payload = pack_arrays(arrays) if payload is None else payload
    size = sum(array.nbytes for array in arrays) if array_bytes is None else array_bytes
    space = Chain()
    start = write_header(space.obs_space(), space.action_space())
    place = Place(0, struct.unpack_from("<I", start, 16)[0])
    chunk = bytearray(write_chunk(payload, size, flags, steps, rows, place))
    if head:
        names = ["magic", "flags", "steps", "rows", "stored", "unpacked"]
        numbers = list(_NUMBERS.unpack_from(chunk))
        for name, value in head.items():
            numbers[names.index(name)] = value
        resealed(chunk, numbers)
    path.write_bytes(start + chunk)
    return Recording(path)


_NUMBERS = struct.Struct("<4sIIIQQQQI")


def resealed(chunk, numbers):
    """Give a chunk other numbers, and the checksum that they need."""
    size = _NUMBERS.size
    _NUMBERS.pack_into(chunk, 0, *numbers)
    struct.pack_into("<I", chunk, size, zlib.crc32(chunk[size + 4 :], zlib.crc32(chunk[:size])))


def read_all(recording):
    list(recording.steps())
    list(recording.episodes())
    list(recording.minibatches(2, seed=1))


@pytest.fixture
def arrays(tmp_path):
    """The arrays of one step of one row."""
    with ListEnv(lambda: Chain(1, truncates=True), 1) as env:
        record(env, tmp_path / "good", 1)
    (chunk,) = Recording(tmp_path / "good")._chunks
    data = (tmp_path / "good").read_bytes()[chunk.start :]
    return unpack_arrays(zlib.decompress(data), chunk.arrays)


def test_a_forged_chunk_that_is_right_is_read(arrays, tmp_path):
    recording = forged(tmp_path / "a", arrays)
    assert recording.num_steps == 1
    read_all(recording)


def test_chunks_that_contradict_themselves_are_refused(arrays, tmp_path):
    """Each number of each array is changed, and each array is dropped, doubled or retyped."""
    refused = total = 0
    variants = []
    for i, array in enumerate(arrays):
        for place, value in itertools.product(range(array.size), (-2, 200)):
            changed = array.copy()
            with np.errstate(all="ignore"):
                changed[place] = np.array(value).astype(array.dtype)
            variants.append([*arrays[:i], changed, *arrays[i + 1 :]])
        variants.append([*arrays[:i], *arrays[i + 1 :]])
        variants.append([*arrays[:i], array, *arrays[i:]])
        variants.append([*arrays[:i], array[:-1], *arrays[i + 1 :]])
        for dtype in ("<i8", "<f8", "<f4", "|b1", "|u1"):
            variants.append([*arrays[:i], array.astype(dtype), *arrays[i + 1 :]])
    for variant in variants:
        try:
            read_all(forged(tmp_path / "a", variant))
        except RecordingError:
            refused += 1
        total += 1
    # What is left changes features, rewards, masks and the like: another game, but a game.
    assert total > 200
    assert refused > 60


@pytest.mark.parametrize("column", [1, 2])
def test_lengths_below_zero_are_refused(column, tmp_path):
    with ListEnv(Chain, 2) as env:
        record(env, tmp_path / "good", 1)
    (chunk,) = Recording(tmp_path / "good")._chunks
    data = (tmp_path / "good").read_bytes()[chunk.start :]
    arrays = unpack_arrays(zlib.decompress(data), chunk.arrays)
    assert arrays[column].tolist() == [1, 1, 1, 1]  # walkers, or those that go, of 2 rows
    arrays[column][:2] = 3, -1
    with pytest.raises(RecordingError, match="impossible lengths"):
        read_all(forged(tmp_path / "a", arrays, rows=2))


def test_columns_of_other_types_are_refused(arrays, tmp_path):
    arrays[1] = arrays[1].astype("<f8")  # as many bytes a value
    with pytest.raises(RecordingError, match="columns of other types"):
        read_all(forged(tmp_path / "a", arrays))


@pytest.mark.parametrize("rows", [0, 2, 2**32 - 1])
def test_a_chunk_with_other_rows_than_it_says_is_refused(rows, arrays, tmp_path):
    with pytest.raises(RecordingError, match="chunk at byte"):
        read_all(forged(tmp_path / "a", arrays, rows=rows))


@pytest.mark.parametrize("steps", [2, 2**32 - 1])
def test_a_chunk_with_other_steps_than_it_says_is_refused(steps, arrays, tmp_path):
    with pytest.raises(RecordingError, match="chunk at byte"):
        read_all(forged(tmp_path / "a", arrays, steps=steps))


def index(entries, values=b""):
    text = json.dumps(entries).encode() if isinstance(entries, list) else entries
    return struct.pack("<I", len(text)) + text + values


HUGE = [
    {"payload": struct.pack("<I", (40 << 20) + 1) + b"[" + b"[]," * (13 << 20) + b"1]"},
    {"payload": index(b"[" + b"[]," * 200_000 + b"[]]")},
    {"payload": index([["<i8", "|i1", 0]], bytes(100 << 20)), "array_bytes": 1 << 30},
    {"payload": b""},
    {"payload": b"\xff\xff\xff\xff"},
    {"payload": index(b"[" * 100_000)},
    {"payload": index(b"7")},
    {"payload": index([["<i8", "<i8", 1 << 62]])},
    {"payload": index([["<i8", "|i1", 1 << 40]])},
    {"payload": index([["|b1", "bits", 1 << 33]])},
    {"payload": index([["<i8", "<i8", -1]])},
    {"payload": index([["<i8", "<i8", 1.5]])},
    {"payload": index([["<i8", "<i8", True]])},
    {"payload": index([["|O", "|O", 1]], bytes(8))},
    {"payload": index([["<i8", "|O", 1]], bytes(8))},
    {"payload": index([["<i8", "<f4", 1]], bytes(8))},
    {"payload": index([["<i8"]])},
    {"payload": index([["<i8", "<i8", 0]], b"more")},
    {"payload": bytes(1 << 20), "unpacked": 1000},
    {"payload": bytes(200 << 20), "unpacked": 1000},
    {"payload": b"short", "unpacked": 1 << 29},
    {"payload": index([["|b1", "bits", 1 << 26]], bytes(1 << 23)), "array_bytes": 1000},
]


@pytest.mark.parametrize("forgery", HUGE)
def test_sizes_in_a_file_are_not_believed(forgery, tmp_path):
    recording = forged(tmp_path / "a", **{"array_bytes": 1 << 20, **forgery})
    del forgery
    assert recording.num_steps == 1
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match="chunk at byte"):
            next(recording.steps())
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "head",
    [
        {"unpacked": MOST_BYTES + 1},
        {"unpacked": 2**64 - 1},
        {"array_bytes": MOST_BYTES + 1},
        {"stored": 2**64 - 1},
        {"stored": 1 << 40},
        {"stored": 0},
        {"steps": 0},
        {"magic": b"CHUN"},
    ],
)
@pytest.mark.filterwarnings("ignore::entity_env.recording.DamageWarning")
def test_a_chunk_that_cannot_be_is_not_read(head, arrays, tmp_path):
    recording = forged(tmp_path / "a", arrays, **head)
    assert recording.num_steps == 0
    assert recording.truncated_bytes > 100
    read_all(recording)


def test_chunks_with_and_without_log_probs_are_no_recording(small, tmp_path):
    data, ends, _ = small
    last = bytearray(data[ends[2] :])
    numbers = list(_NUMBERS.unpack_from(last))
    numbers[1] &= ~HAS_LOG_PROBS
    resealed(last, numbers)
    (tmp_path / "a").write_bytes(data[: ends[2]] + last)
    with pytest.raises(RecordingError, match="others have not"):
        Recording(tmp_path / "a")


# Which chunks of a recording of three follow its header.
MOVED = {
    "swapped": [1, 0, 2],
    "doubled": [0, 1, 1, 2],
    "doubled at the end": [0, 1, 2, 2],
    "removed": [0, 2],
    "removed at the start": [1, 2],
    "all of them again": [0, 1, 2, 0, 1, 2],
}


@pytest.mark.parametrize("order", MOVED.values(), ids=MOVED)
def test_chunks_that_stand_elsewhere_than_they_were_written_are_noticed(order, small, tmp_path):
    data, ends, _ = small
    chunks = [data[start:end] for start, end in itertools.pairwise(ends)]
    path = tmp_path / "a"
    path.write_bytes(data[: ends[0]] + b"".join(chunks[i] for i in order))
    written = path.read_bytes()
    with pytest.raises(RecordingError, match="not where it was written"):
        Recording(path)
    with ListEnv(lambda: Chain(2), 2) as env, pytest.raises(RecordingError, match="not where"):
        RecordEpisodes(env, path, append=True)
    assert path.read_bytes() == written


def test_chunks_of_another_recording_are_noticed(small, tmp_path):
    data, ends, _ = small
    with ListEnv(lambda: Chain(2), 2) as env:  # the same game, and other choices
        record(env, tmp_path / "b", 5, seed=1, chunk_steps=2, noted=("log_probs",))
    other = (tmp_path / "b").read_bytes()
    second = other.index(_MAGIC, other.index(_MAGIC) + 1)
    (tmp_path / "a").write_bytes(data[: ends[1]] + other[second:])
    with pytest.raises(RecordingError, match="chunk 1 of another recording"):
        Recording(tmp_path / "a")
    (tmp_path / "a").write_bytes(data + other)
    with pytest.raises(RecordingError, match="another recording begins at byte"):
        Recording(tmp_path / "a")


def test_two_recorders_do_not_write_one_file(tmp_path):
    with RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a") as env:
        play(env, 2)
        with ListEnv(Chain, 1) as other, pytest.raises(RecordingError, match="another recorder"):
            RecordEpisodes(other, tmp_path / "a", append=True)
    assert Recording(tmp_path / "a").num_steps == 2


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes of POSIX")
def test_nothing_is_recorded_through_a_link(small, tmp_path):
    data = small[0]
    (tmp_path / "target").write_bytes(data)
    path = tmp_path / "a"
    path.symlink_to(tmp_path / "target")
    assert Recording(path).num_steps == 5
    for options in ({}, {"append": True}):
        with (
            ListEnv(lambda: Chain(2), 2) as env,
            pytest.raises(RecordingError, match=r"exists|is a link"),
        ):
            RecordEpisodes(env, path, **options)
    with ListEnv(lambda: Chain(2), 2) as env:
        record(env, path, 1, overwrite=True)
    assert not path.is_symlink()
    assert Recording(path).num_steps == 1
    assert (tmp_path / "target").read_bytes() == data


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes of POSIX")
def test_a_pipe_or_a_device_is_no_recording(tmp_path):
    os.mkfifo(tmp_path / "a")
    (tmp_path / "b").symlink_to("/dev/zero")
    for name in ("a", "b"):
        with pytest.raises(RecordingError, match=r"a pipe|a device"):
            Recording(tmp_path / name)
    for options in ({"append": True}, {"overwrite": True}):
        with ListEnv(Chain, 1) as env, pytest.raises(RecordingError, match="a pipe"):
            RecordEpisodes(env, tmp_path / "a", **options)


def test_a_file_that_changes_while_it_is_read_is_noticed(small, tmp_path):
    data, ends, _ = small
    path = tmp_path / "a"
    path.write_bytes(data)
    recording = Recording(path)
    for changed in (data[: ends[1]], data[:-5] + b"other", b""):
        path.write_bytes(changed)
        with pytest.raises(RecordingError, match="has changed since"):
            list(recording.steps())
    path.unlink()
    with pytest.raises(RecordingError, match="No such file"):
        next(recording.minibatches(3, seed=1))


def test_a_file_can_be_read_while_it_is_written(tmp_path):
    with RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a", chunk_steps=4) as env:
        play(env, 6)
        assert Recording(tmp_path / "a").num_steps == 4
        env.flush()
        assert Recording(tmp_path / "a").num_steps == 6
        env.flush()
        assert Recording(tmp_path / "a").num_steps == 6


def test_large_steps_are_written_before_the_chunk_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr("entity_env.recording.recorder._FULL", 1500)
    with RecordEpisodes(ListEnv(Chain, 8), tmp_path / "a") as env:
        play(env, 5)  # observations of 600 to 900 bytes
        assert Recording(tmp_path / "a").num_steps in (2, 3, 4)


def test_a_step_that_no_reader_would_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("entity_env.recording.writer.MOST_BYTES", 500)
    env = RecordEpisodes(ListEnv(Chain, 8), tmp_path / "a", chunk_steps=1)
    with pytest.raises(RecordingError, match="too large"):
        play(env, 1)
    with pytest.raises(RecordingError, match="too large"):
        env.close()
    env.close()
    assert Recording(tmp_path / "a").num_steps == 0


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from support.recorded import RandomFrames, play
from entity_env import ListEnv
from entity_env.recording import RecordEpisodes
env = RecordEpisodes(ListEnv(RandomFrames, 4, seed=7), {path!r}, chunk_steps=3)
play(env, 1_000_000)
"""


@pytest.mark.slow
def test_a_program_that_is_killed_leaves_its_chunks(tmp_path):
    path = tmp_path / "a"
    tests = os.path.dirname(os.path.dirname(__file__))
    program = KILLED.format(tests=tests, path=str(path))
    process = subprocess.Popen([sys.executable, "-c", program], cwd=os.path.dirname(tests))
    try:
        assert wait_until(lambda: path.exists() and path.stat().st_size > 20_000)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    recording = Recording(path)
    assert recording.num_steps >= 9
    assert recording.num_steps % 3 == 0
    with ListEnv(RandomFrames, 4, seed=7) as env:  # the same game again
        seen = record(env, tmp_path / "b", recording.num_steps)
    steps_in(path, seen)
    with ListEnv(RandomFrames, 4, seed=7) as env:
        record(env, path, 2, append=True)
    after = Recording(path)
    assert (after.num_steps, after.truncated_bytes) == (recording.num_steps + 2, 0)


DTYPES = ["<i8", "<f8", "<f4", "|b1", "|u1"]


def random_array(rng, dtype):
    """Any bits, or values that fit narrower types, or almost fit."""
    size = int(rng.integers(0, 200))
    if dtype == "|b1":
        return rng.random(size) < rng.random()
    if rng.random() < 0.3:
        return rng.integers(0, 256, size * np.dtype(dtype).itemsize, np.uint8).view(dtype)
    most = int(rng.choice([1, 127, 128, 129, 32767, 32769, 65536, 2**31 - 1, 2**31 + 1]))
    values = rng.integers(0 if dtype == "|u1" else -most, most, size).astype(dtype)
    if size and dtype[1] == "f":
        odd = rng.choice([0.5, 1 / 3, -0.0, np.nan, np.inf, -np.inf, 1e-30, 70000.25])
        values[int(rng.integers(size))] = odd
    return values


def test_arrays_come_back_bit_for_bit():
    rng = np.random.default_rng(0)
    for _ in range(300):
        arrays = [random_array(rng, rng.choice(DTYPES)) for _ in range(rng.integers(0, 5))]
        packed = pack_arrays(arrays)
        back = unpack_arrays(packed, sum(array.nbytes for array in arrays))
        assert [own.dtype for own in back] == [own.dtype for own in arrays]
        assert [own.tobytes() for own in back] == [own.tobytes() for own in arrays]


@pytest.mark.parametrize(
    ("values", "dtype", "size"),
    [
        ([-128, 127], "<i8", 2),
        ([-129, 127], "<i8", 4),
        ([0, 32768], "<i8", 8),
        ([0, 2**31], "<i8", 16),
        ([1.0, -5.0], "<f4", 2),
        ([1.0, 300.0], "<f4", 4),
        ([0.5, 1.0], "<f4", 4),
        ([-0.0, 1.0], "<f4", 4),
        ([0.1, 1.0], "<f4", 8),
        ([np.nan, 9.0], "<f8", 4),
        ([0.1, 9.0], "<f8", 16),
        ([True] * 17, "|b1", 3),
        ([1, 2], "|u1", 2),
    ],
)
def test_arrays_are_stored_as_narrowly_as_they_can_be(values, dtype, size):
    packed = pack_arrays([np.array(values, dtype)])
    assert len(packed) - 4 - struct.unpack_from("<I", packed)[0] == size


def test_a_recording_is_nothing_but_its_bytes(small, tmp_path):
    """The format as it is written down: by hand, without the classes that read it."""
    data, ends, seen = small
    magic, version, length = struct.unpack_from("<8sII", data)
    assert (magic, version) == (b"\x89EPS\r\n\x1a\n", 2)
    assert list(json.loads(data[20 : 20 + length])) == ["global_features", "entities", "actions"]
    assert ends[0] == 20 + length
    parts = struct.unpack_from("<4sIIIQQQQII", data, ends[0])
    magic, flags, steps, rows, stored, unpacked, _, number, before, crc = parts
    assert (number, before) == (0, *struct.unpack_from("<I", data, 16))
    # Log-probabilities, after a reset; 2 steps of 2 rows.
    assert (magic, flags, steps, rows) == (b"CHNK", 1 + 8, 2, 2)
    body = data[ends[0] + 56 : ends[1]]
    assert len(body) == stored
    assert zlib.crc32(data[ends[0] : ends[0] + 52] + body) == crc
    payload = zlib.decompress(body)
    assert len(payload) == unpacked
    (length,) = struct.unpack_from("<I", payload)
    found = json.loads(payload[4 : 4 + length])
    # The last arrays: counts of the decisions, the choices of 2 * 2 actors, log-probabilities.
    assert found[-3:] == [["<i8", "|i1", 4], ["<i8", "|i1", 4], ["<f4", "<f4", 4]]
    choices = [int(a) for t in (0, 1) for a in seen.actions[t]["Go"].as_array()[:, 0]]
    assert list(payload[-20:-16]) == choices
    assert struct.unpack_from("<II", data, ends[1] + 4) == (1 + 4, 2)  # goes on
    assert struct.unpack_from("<QI", data, ends[1] + 40) == (1, crc)


def test_a_recording_of_one_kind_is_one_file(tmp_path):
    """Nothing is left beside it, and one game gives one file."""
    for name in ("a", "b"):
        with ListEnv(RandomFrames, 3, seed=1) as env:
            record(env, tmp_path / name, 9, chunk_steps=4)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert dataclasses.is_dataclass(next(Recording(tmp_path / "a").steps()))
