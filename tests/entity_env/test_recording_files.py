"""Recordings that were cut, flipped, killed or forged: whole parts load, the rest is counted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zlib

import numpy as np
import pytest
from support.recorded import RandomFrames, by_row, play, record
from support.tiny_envs import Chain, Farm
from support.workers import wait_until

from entity_env import ListEnv
from entity_env.errors import EntityEnvError, MissingPackageError, RecordingError
from entity_env.recording import DamageWarning, EpisodeDataset, RecordEpisodes
from entity_env.recording import parquet as parquet_module

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A recording of 3 parts: 4 episodes of 2 steps in each of 2 rows; 3, 3 and 2 steps a part."""
    path = tmp_path_factory.mktemp("small") / "a"
    with ListEnv(lambda: Chain(2), 2) as env:
        record(env, path, 8, part_frames=6, noted=("log_probs",))
    return path


@pytest.fixture
def copied(small, tmp_path):
    shutil.copytree(small, tmp_path / "a")
    return tmp_path / "a"


def files_of(path):
    return sorted(path.iterdir())


def rewards_of(episodes):
    return [(own.row, own.steps.reward.tolist(), own.is_whole) for own in episodes]


def test_the_parts_say_what_they_hold(small):
    for number, path in enumerate(files_of(small)):
        crc = zlib.crc32(path.read_bytes(), number)
        assert path.name == f"part-{number:06d}-{crc:08x}.parquet"
    assert rewards_of(by_row(small)) == [(row, [1.0, 2.0], True) for row in [0] * 4 + [1] * 4]


DAMAGES = {
    "cut in half": lambda data: data[: len(data) // 2],
    "cut by a byte": lambda data: data[:-1],
    "empty": lambda data: b"",
    "a flipped bit": lambda data: data[:500] + bytes([data[500] ^ 8]) + data[501:],
    "missing": None,
}
# The frames that are left without each part, and the rewards of each row: the first part begins an
# episode that the second one ends.
LOST = {
    0: (10, [[2.0], [1.0, 2.0], [1.0, 2.0]]),
    1: (10, [[1.0, 2.0], [1.0], [1.0, 2.0]]),
    2: (12, [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]),
}


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_costs_one_part_and_is_counted(damage, part, copied):
    file = files_of(copied)[part]
    if damage == "missing":
        file.unlink()
        if part == 2:  # as if the recorder had been killed before it
            assert EpisodeDataset(copied).num_frames == 12
            return
    else:
        file.write_bytes(DAMAGES[damage](file.read_bytes()))
    left, rest = LOST[part]
    with pytest.warns(DamageWarning, match=f"1 of 3 parts cannot be read; {left} frames"):
        dataset = EpisodeDataset(copied)
    assert (dataset.lost_parts, dataset.num_frames) == (1, left)
    assert "1 part lost" in repr(dataset)
    found = sorted(dataset.episodes(), key=lambda own: own.row)
    assert [own.steps.reward.tolist() for own in found] == rest * 2
    assert all(own.is_whole == (len(own) == 2) for own in found)
    assert dataset.index.lengths.sum() == sum(map(len, found)) == left
    assert sorted(dataset.index.lengths.tolist()) == sorted(map(len, found))
    assert sum(map(len, dataset.minibatches(5, seed=1))) == left


def test_any_flipped_byte_is_noticed(copied):
    file = files_of(copied)[1]
    data = file.read_bytes()
    for place in range(0, len(data), 97):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.warns(DamageWarning, match="1 of 3 parts"):
            assert EpisodeDataset(copied).num_frames == 10


def test_a_recording_of_damaged_parts_only_is_an_error(copied):
    for file in files_of(copied):
        file.write_bytes(file.read_bytes()[:100])
    with (
        pytest.warns(DamageWarning, match="3 of 3 parts"),
        pytest.raises(RecordingError, match=r"nothing can be read: .*3 of 3 parts"),
    ):
        EpisodeDataset(copied)


def renamed(path, number):
    name = path.name.split("-")
    return path.rename(path.with_name("-".join(["part", f"{number:06d}", *name[2:]])))


def test_parts_that_were_moved_are_noticed(copied, tmp_path):
    with ListEnv(lambda: Chain(2), 2) as env:  # the same game, and other choices
        record(env, tmp_path / "b", 8, seed=1, part_frames=6, noted=("log_probs",))
    other = files_of(tmp_path / "b")[1]
    own = files_of(copied)[1]
    shutil.copy(other, copied)
    with pytest.raises(RecordingError, match="two parts of the number 1"):
        EpisodeDataset(copied)
    own.unlink()
    with pytest.raises(RecordingError, match="has parts of 2 recordings"):
        EpisodeDataset(copied)
    (copied / other.name).unlink()
    last = renamed(files_of(copied)[1], 1)
    with pytest.warns(DamageWarning, match=f"{last.name}: damaged, cut off or renamed"):
        assert EpisodeDataset(copied).num_frames == 6


@pytest.mark.parametrize("path", ["no_such_folder", "file", ".", 3, None])
def test_what_is_no_recording_is_refused(path, tmp_path):
    (tmp_path / "file").write_bytes(b"\x89EPS")
    with pytest.raises(RecordingError, match=r"cannot be read|has no part|path"):
        EpisodeDataset(tmp_path / path if isinstance(path, str) else path)


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes of POSIX")
def test_links_and_pipes_are_not_written_to_or_read(copied, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(copied)
    assert EpisodeDataset(link).num_frames == 16
    with ListEnv(lambda: Chain(2), 2) as env, pytest.raises(RecordingError, match="is a link"):
        RecordEpisodes(env, link, overwrite=True)
    file = files_of(copied)[1]
    file.unlink()
    os.mkfifo(file)
    with pytest.warns(DamageWarning, match="a pipe"):
        EpisodeDataset(copied)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.warns(DamageWarning, match="a device"):
        EpisodeDataset(copied)


def test_folders_with_other_files_are_not_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").write_text("years of work")
    with ListEnv(Chain, 1) as env, pytest.raises(RecordingError, match=r"thesis\.tex"):
        RecordEpisodes(env, tmp_path / "a", overwrite=True)
    assert (tmp_path / "a" / "thesis.tex").read_text() == "years of work"


def test_two_recorders_do_not_write_one_folder(tmp_path):
    with RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a") as env:
        play(env, 2)
        with ListEnv(Chain, 1) as other, pytest.raises(RecordingError, match="another recorder"):
            RecordEpisodes(other, tmp_path / "a", overwrite=True)
    assert EpisodeDataset(tmp_path / "a").num_frames == 2


def test_a_part_that_changes_while_it_is_read_is_noticed(copied):
    dataset = EpisodeDataset(copied)
    file = files_of(copied)[1]
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(RecordingError, match="has changed since"):
        list(dataset.episodes())
    file.unlink()
    with pytest.raises(RecordingError, match="No such file"):
        next(dataset.minibatches(3, seed=1))


def test_a_recording_can_be_read_while_it_is_written(tmp_path):
    with RecordEpisodes(ListEnv(Chain, 1), tmp_path / "a", part_frames=4) as env:
        with pytest.raises(RecordingError, match="writes its first part after some seconds"):
            EpisodeDataset(tmp_path / "a")
        play(env, 6)
        assert EpisodeDataset(tmp_path / "a").num_frames == 4
    assert EpisodeDataset(tmp_path / "a").num_frames == 6


def test_a_part_is_written_after_some_seconds_or_bytes(tmp_path, monkeypatch):
    for name, options in (("slow", {"part_seconds": 0.0}), ("large", {})):
        if name == "large":
            monkeypatch.setattr("entity_env.recording.recorder._FULL", 1)
        with RecordEpisodes(ListEnv(Chain, 8), tmp_path / name, **options) as env:
            play(env, 5)
            assert EpisodeDataset(tmp_path / name).num_frames == 40


def test_a_step_that_no_reader_would_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("entity_env.recording.parts.MOST_BYTES", 100)
    env = RecordEpisodes(ListEnv(Chain, 8), tmp_path / "a", part_frames=1)
    with pytest.raises(RecordingError, match="too large"):
        play(env, 1)
    with pytest.raises(RecordingError, match="too large"):
        env.close()
    env.close()
    assert files_of(tmp_path / "a") == []


def test_one_game_is_one_recording(tmp_path):
    for name in ("a", "b"):
        with ListEnv(RandomFrames, 3, seed=1) as env:
            record(env, tmp_path / name, 9, part_frames=12)
    a, b = (files_of(tmp_path / name) for name in ("a", "b"))
    assert [file.name for file in a] == [file.name for file in b]
    assert [file.read_bytes() for file in a] == [file.read_bytes() for file in b]


KILLED = """
import sys
sys.path.insert(0, {tests!r})
from support.recorded import RandomFrames, play
from entity_env import ListEnv
from entity_env.recording import RecordEpisodes
env = RecordEpisodes(ListEnv(RandomFrames, 4, seed=7), {path!r}, part_frames=12)
play(env, 1_000_000)
"""


@pytest.mark.slow
def test_a_program_that_is_killed_leaves_its_parts(tmp_path):
    path = tmp_path / "a"
    tests = os.path.dirname(os.path.dirname(__file__))
    program = KILLED.format(tests=tests, path=str(path))
    process = subprocess.Popen([sys.executable, "-c", program], cwd=os.path.dirname(tests))
    try:
        assert wait_until(lambda: path.exists() and len(files_of(path)) > 3)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    dataset = EpisodeDataset(path)
    assert dataset.num_frames >= 36
    assert dataset.num_frames % 12 == 0
    with ListEnv(RandomFrames, 4, seed=7) as env:  # the same game again
        record(env, tmp_path / "b", dataset.num_frames // 4)

    def facts(paths):
        return [
            (own.row, own.steps.reward.tolist(), own.steps.obs.global_features.tobytes())
            for own in by_row(paths)
        ]

    assert facts(path) == facts(tmp_path / "b")


# Forged files: their checksums are right, whatever they say.


def forged(path, change=None, facts=None, **options):
    """Write the only part of a recording again, with another table, metadata or options."""
    (file,) = files_of(path)
    source = pq.ParquetFile(file)
    table = source.read()
    known = json.loads(source.metadata.metadata[b"ragged_rl"])
    table, known = table if change is None else change(table), {**known, **(facts or {})}
    file.unlink()
    with pq.ParquetWriter(file, table.schema, store_schema=False, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ragged_rl": json.dumps(known)})
    file.rename(path / f"part-000000-{zlib.crc32(file.read_bytes()):08x}.parquet")


def read_all(path):
    dataset = EpisodeDataset(path)
    list(dataset.minibatches(2, seed=1))
    return sum(map(len, dataset.episodes()))


@pytest.fixture
def farm(tmp_path):
    with ListEnv(Farm, 2, seed=1) as env:
        record(env, tmp_path / "a", 3, noted=("log_probs", "logits"))
    return tmp_path / "a"


def test_a_forged_part_that_is_right_is_read(farm):
    forged(farm, use_dictionary=False)
    assert read_all(farm) == 6


@pytest.mark.filterwarnings("ignore::entity_env.recording.DamageWarning")
def test_columns_that_contradict_themselves_are_refused(farm, tmp_path):
    """Each column is reversed, emptied, made shorter or longer, dropped or retyped."""
    (file,) = files_of(farm)
    table = pq.read_table(file)
    refused = total = 0
    for place, name in enumerate(table.schema.names):
        column = table.column(name).combine_chunks()
        values = column.to_pylist()
        variants = [values[::-1], [None] * len(values)]
        if isinstance(values[0], list) and values[0]:
            variants += [[own and own[:-1] for own in values], [own and own * 2 for own in values]]
        if pa.types.is_integer(column.type):
            variants += [[-1] * len(values), [1 << 60] * len(values)]
        arrays = [pa.array(own, column.type) for own in variants]
        arrays.append(pa.array(["a"] * len(values)))
        changed = [table.set_column(place, name, own) for own in arrays]
        for number, own in enumerate([*changed, table.remove_column(place)]):
            copy = tmp_path / f"{place}-{number}"
            shutil.copytree(farm, copy)
            forged(copy, lambda _, own=own: own)
            total += 1
            try:
                read_all(copy)
            except EntityEnvError:
                refused += 1
    # What is left changes features, rewards, steps and the like: another game, but a game.
    assert total > 100
    assert refused > total / 2


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": 3}, "version 3, not 2"),
        ({"spaces": {}}, "spaces"),
        ({"spaces": [[]] * 10}, "spaces"),
        ({"first_crc": "0"}, "metadata are damaged"),
        ({"log_probs": False}, "columns are not those of its spaces"),
    ],
)
def test_metadata_that_are_wrong_are_refused(facts, words, farm):
    forged(farm, facts=facts)
    with (
        pytest.warns(DamageWarning, match=words),
        pytest.raises(RecordingError, match="nothing can be read"),
    ):
        EpisodeDataset(farm)


def test_sizes_in_a_file_are_not_believed(farm, monkeypatch):
    """A run of one value needs few bytes, however long it is."""
    monkeypatch.setattr(parquet_module, "MOST_BYTES", 1 << 20)
    name = next(n for n in pq.read_schema(files_of(farm)[0]).names if n.startswith("entities."))
    (file,) = files_of(farm)
    table = pq.read_table(file)
    column = table.column(name)
    item = next(own.as_py()[0] for own in column if own.as_py())
    longest = pa.array([[item] * 50_000] * len(table), column.type)
    place = table.schema.names.index(name)
    forged(farm, lambda _: table.set_column(place, name, longest))
    assert files_of(farm)[0].stat().st_size < 100_000
    with (
        pytest.warns(DamageWarning, match="but at most 1,048,576 are allowed"),
        pytest.raises(RecordingError),
    ):
        EpisodeDataset(farm)


def test_bytes_that_are_no_parquet_are_refused(tmp_path):
    (tmp_path / "a").mkdir()
    rng = np.random.default_rng(0)
    for number, data in enumerate([b"PAR1", b"PAR1" + bytes(100) + b"PAR1", rng.bytes(1000)]):
        crc = zlib.crc32(data, number)
        (tmp_path / "a" / f"part-{number:06d}-{crc:08x}.parquet").write_bytes(data)
    with pytest.warns(DamageWarning, match="3 of 3 parts"), pytest.raises(RecordingError):
        EpisodeDataset(tmp_path / "a")


def test_without_pyarrow_the_extra_is_named(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingPackageError, match=r"pyarrow.*\n.*ragged-rl\[data\]"):
        EpisodeDataset(small)
