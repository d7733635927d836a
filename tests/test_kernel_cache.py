"""Damaged files in Numba's cache of kernels count as missing."""

from __future__ import annotations

import importlib
import pickle
import sys

import pytest

numba = pytest.importorskip("numba")

from entity_env.rows import jit as jit_of_games  # noqa: E402
from entity_env.storage import kernel_cache  # noqa: E402
from ragged_net.kernels import jit as jit_of_networks  # noqa: E402


def flipped(content):
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGES = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[:10],
    "without its last byte": lambda content: content[:-1],
    "garbage": lambda content: b"\x00garbage" * 99,
    "one bit flipped": flipped,
    "of another version": lambda content: pickle.dumps("0.1.2"),
    "of this version, unsealed": lambda content: pickle.dumps(numba.__version__) + content[-99:],
}


class LateTimer:
    """Fires when it is cancelled, as if the time had just been up."""

    def __init__(self, delay, function, arguments):
        self.cancel = lambda: function(*arguments)

    def start(self):
        pass


@pytest.fixture
def slow(monkeypatch, tmp_path):
    """Functions to compile, and everything takes long."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("entity_env.storage.kernel_cache.threading.Timer", LateTimer)
    monkeypatch.setattr("entity_env.storage.kernel_cache._compiled_for", {})
    (tmp_path / "slowly.py").write_text(
        "def triple(x):\n    return 3 * x\n\n\ndef double(x):\n    return 2 * x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slowly", raising=False)
    return importlib.import_module("slowly")


@pytest.mark.parametrize(
    ("jit", "message"),
    [
        (jit_of_networks, "compiling the network: 10 to 40 seconds, once on this machine\n"),
        (jit_of_games, "compiling slowly: 5 to 40 seconds, once on this machine\n"),
    ],
)
def test_long_compilations_are_announced_once_and_not_on_stdout(jit, message, slow, capsys):
    assert jit.kernel(slow.triple)(4) == 12
    assert capsys.readouterr() == ("", message)
    # Another kernel of the same, and one that is read from the disk.
    assert jit.kernel(slow.double)(4) == 8
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("jit", [jit_of_networks, jit_of_games])
def test_kept_kernels_are_read_without_a_word(jit, slow, capsys, monkeypatch):
    jit.kernel(slow.triple)(4)
    capsys.readouterr()
    monkeypatch.setattr("entity_env.storage.kernel_cache._compiled_for", {})
    assert jit.kernel(slow.triple)(4) == 12
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("jit", [jit_of_networks, jit_of_games])
def test_where_nothing_is_kept_it_says_so(jit, slow, capsys, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("no locator available")

    monkeypatch.setattr(jit, "keep_compiled", fail)
    assert jit.kernel(slow.triple)(4) == 12
    assert "in each process" in capsys.readouterr().err
    assert not jit_of_networks.is_cached(jit.kernel(slow.double))


def test_short_compilations_are_not_announced_until_they_add_up(slow, capsys, monkeypatch):
    delays = []

    class Timer(LateTimer):
        def __init__(self, delay, function, arguments):
            delays.append(delay)
            self.cancel = lambda: None

    monkeypatch.setattr("entity_env.storage.kernel_cache.threading.Timer", Timer)
    jit_of_games.kernel(slow.triple)(4)
    jit_of_games.kernel(slow.double)(4)
    assert capsys.readouterr() == ("", "")
    assert delays[1] < delays[0] == 3


@pytest.mark.parametrize("jit", [jit_of_networks, jit_of_games])
def test_a_damaged_cache_is_compiled_anew_and_replaced(jit, monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "tripling.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tripling", raising=False)
    function = importlib.import_module("tripling").triple

    def comes_from_the_cache():
        triple = jit.kernel(function)
        assert triple(4) == 12
        return sum(triple.stats.cache_hits.values()) == 1

    def recovers():
        return [comes_from_the_cache(), comes_from_the_cache()] == [False, True]

    assert recovers()
    for kind in ("nbi", "nbc"):
        for damage, damaged in DAMAGES.items():
            (file,) = (tmp_path / "cache").glob(f"*/*.{kind}")
            file.write_bytes(damaged(file.read_bytes()))
            assert recovers(), f"{kind} {damage}"
        file.unlink()
        file.mkdir()  # can be neither read nor replaced
        assert [comes_from_the_cache(), comes_from_the_cache()] == [False, False]
        file.rmdir()
        assert recovers()


def test_files_of_another_function_in_the_place_of_its_own_are_not_run(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "adding.py").write_text(
        "def one(x):\n    return x + 1\ndef two(x):\n    return x + 2"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "adding", raising=False)
    adding = importlib.import_module("adding")

    def results():
        one, two = jit_of_games.kernel(adding.one), jit_of_games.kernel(adding.two)
        return one(4), two(4), sum(f.stats.cache_hits.total() for f in (one, two))

    assert [results(), results()] == [(5, 6, 0), (5, 6, 2)]
    for kinds in (["nbc"], ["nbi"], ["nbi", "nbc"]):
        for kind in kinds:
            first, second = (tmp_path / "cache").glob(f"*/*.{kind}")
            swapped = first.read_bytes(), second.read_bytes()
            second.write_bytes(swapped[0])
            first.write_bytes(swapped[1])
        assert results() == (5, 6, 0), kinds
        assert results() == (5, 6, 2), kinds
    # Code of an older source under the name that the index gives to the new one.
    kept = {file: file.read_bytes() for file in (tmp_path / "cache").glob("*/*.nbc")}
    assert jit_of_games.kernel(adding.one, "another text")(4) == 5
    for file, old in kept.items():
        file.write_bytes(old)
    again = jit_of_games.kernel(adding.one, "another text")
    assert (again(4), again.stats.cache_hits.total()) == (5, 0)


@pytest.mark.parametrize(
    "change", [("return 2 * x", "return 5 * x"), ("MORE = 1", "MORE = 13"), ("[0, 0]", "[0, 12]")]
)
def test_a_kernel_notices_changes_in_the_other_folders_that_it_is_from(
    change, monkeypatch, tmp_path
):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # a file may change within a second
    engine, rules, game = (tmp_path / name for name in ("engine", "rules", "game"))
    for folder in (engine, rules, game):
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
    (engine / "doubling_engine.py").write_text(
        "from entity_env.rows.jit import compiled\n\n@compiled\ndef double(x):\n    return 2 * x\n"
    )
    # Of constants nobody knows where they are from.
    (rules / "doubling_rules.py").write_text(
        "import numpy as np\nMORE = 1\nTABLE = np.array([0, 0])\n"
    )
    (game / "doubling_game.py").write_text(
        "from doubling_engine import double\nfrom doubling_rules import MORE, TABLE\n\n"
        "def play(x):\n    return double(x) + MORE + TABLE[1]\n"
    )

    def play():
        for name in ("doubling_engine", "doubling_rules", "doubling_game"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        kernel_cache.folder_digest.cache_clear()
        kernel = jit_of_games.kernel(importlib.import_module("doubling_game").play)
        return kernel(4), kernel.stats.cache_hits.total()

    assert [play(), play()] == [(9, 0), (9, 1)]
    for file in (engine / "doubling_engine.py", rules / "doubling_rules.py"):
        file.write_text(file.read_text().replace(*change))
    assert play() == (21, 0)


def test_a_damaged_index_means_that_compiling_is_needed(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "doubling", raising=False)
    double = jit_of_networks.kernel(importlib.import_module("doubling").double)
    assert not jit_of_networks.is_cached(double)
    assert double(4) == 8
    assert jit_of_networks.is_cached(double)
    (index,) = (tmp_path / "cache").glob("*/*.nbi")
    index.write_bytes(b"")
    assert not jit_of_networks.is_cached(double)
