"""Reading and writing files in folders that somebody else may have prepared."""

import os
import stat

import pytest

from entity_env.storage.files import (
    UnfitFileError,
    is_leftover,
    lock,
    new_file,
    new_file_by_path,
    open_to_append,
    read_file,
    remove_leftovers,
    write_file,
)

posix = pytest.mark.skipif(os.name != "posix", reason="needs pipes, links and modes of POSIX")


def pipe(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def device(path):
    path.symlink_to("/dev/zero")


def endless_loop(path):
    path.symlink_to(path.name)


def huge(path):
    path.touch()
    os.truncate(path, 1 << 30)


@posix
@pytest.mark.parametrize("make", [pipe, folder, device, endless_loop, huge])
def test_what_is_no_file_of_a_bounded_size_is_not_read(make, tmp_path):
    make(tmp_path / "a")
    with pytest.raises(OSError, match=r"not a file|symbolic links|at most 1,000,000 are allowed"):
        read_file(tmp_path / "a", 1_000_000)


def test_a_file_is_read_up_to_its_bound_and_through_a_link(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_file(tmp_path / "a", 5) == b"12345"
    with pytest.raises(UnfitFileError, match="5 bytes, but at most 4"):
        read_file(tmp_path / "a", 4)
    (tmp_path / "b").symlink_to("a")
    assert read_file(tmp_path / "b", 5) == b"12345"


@posix
@pytest.mark.parametrize("link", ["symbolic", "hard", "dangling"])
def test_writing_replaces_a_link_and_leaves_its_target(link, tmp_path):
    target, path = tmp_path / "target", tmp_path / "a"
    if link != "dangling":
        target.write_bytes(b"precious")
    os.link(target, path) if link == "hard" else path.symlink_to(target)
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()
    assert (target.read_bytes() if link != "dangling" else target.exists()) in (b"precious", False)
    path.unlink()
    path.symlink_to(target)
    with new_file_by_path(path) as name:
        name.write_bytes(b"newer")
    assert path.read_bytes() == b"newer"
    assert not path.is_symlink()
    assert target.exists() == (link != "dangling")


@posix
@pytest.mark.parametrize("make", [pipe, folder])
def test_what_is_no_file_is_not_replaced(make, tmp_path):
    make(tmp_path / "a")
    kind = stat.S_IFMT((tmp_path / "a").lstat().st_mode)
    with pytest.raises(UnfitFileError, match="has this name"):
        write_file(tmp_path / "a", b"new")
    with pytest.raises(UnfitFileError, match="has this name"), new_file_by_path(tmp_path / "a"):
        pass
    assert stat.S_IFMT((tmp_path / "a").lstat().st_mode) == kind
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_writer_that_fails_leaves_the_file_before_and_nothing_else(tmp_path):
    write_file(tmp_path / "a", b"old")
    for new in (new_file, new_file_by_path):
        with pytest.raises(KeyboardInterrupt), new(tmp_path / "a"):
            raise KeyboardInterrupt
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@posix
def test_what_is_written_reaches_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda fd: done.append(_kind(fd)) or sync(fd))
    monkeypatch.setattr("os.replace", lambda *paths: done.append("renamed") or replace(*paths))
    write_file(tmp_path / "a", b"new")
    assert done == ["file", "renamed", "folder"]


def _kind(descriptor):
    return "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"


@posix
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_users_umask_decides_who_may_read(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        write_file(tmp_path / "a", b"new")
        open_to_append(tmp_path / "b").close()
        with new_file_by_path(tmp_path / "c") as name:
            name.write_bytes(b"new")
    finally:
        os.umask(before)
    assert {entry.stat().st_mode & 0o777 for entry in tmp_path.iterdir()} == {mode}


@posix
def test_nothing_is_appended_through_a_link_or_to_a_pipe(tmp_path):
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "a").symlink_to(tmp_path / "target")
    pipe(tmp_path / "b")
    for name in ("a", "b"):
        with pytest.raises(UnfitFileError):
            open_to_append(tmp_path / name)
    assert (tmp_path / "target").read_bytes() == b"precious"


def test_leftovers_of_killed_writers_are_known_by_their_names(tmp_path):
    with new_file(tmp_path / "a.json"):
        (name,) = (entry.name for entry in tmp_path.iterdir())
    assert is_leftover(name)
    others = [".a.json.tmp", "a.json.0123456789abcdef.tmp", ".0123456789abcdef.tmp", "a.json"]
    assert not any(map(is_leftover, others))
    (tmp_path / name).mkdir()
    (tmp_path / name / "inside").write_text("")
    for other in others[:3]:
        (tmp_path / other).write_text("")
    remove_leftovers(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(others)


@posix
def test_a_lock_keeps_others_out_until_its_file_is_closed(tmp_path):
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    try:
        assert lock(first)
        with pytest.raises(BlockingIOError):
            lock(second)
        os.close(first)
        assert lock(second)
    finally:
        os.close(second)
