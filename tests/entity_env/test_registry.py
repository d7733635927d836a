"""Environments by short name and by dotted path."""

from __future__ import annotations

import functools
import itertools
import sys

import pytest
from support.tiny_envs import Chain, Farm

import entity_env.registry
from entity_env import ListEnv, VecEnv, errors, make, register, registered
from entity_env.registry import alone, check_settings, is_rows, resolve


@pytest.fixture(autouse=True)
def _own_names(monkeypatch):
    """Names that a test registers are gone after it."""
    registered()  # imports what installed packages declare, once
    names = {"chain": "support.tiny_envs.Chain"}
    monkeypatch.setattr(entity_env.registry, "_FACTORIES", names)


def test_a_short_name_and_a_dotted_path_lead_to_the_same_class():
    assert resolve("chain") is Chain
    assert resolve("support.tiny_envs.Chain") is Chain
    assert resolve("support.tiny_envs:Farm") is Farm


def unsaid():
    return Chain(2)


def wrong() -> VecEnv | None:
    return None


lambda_env = lambda: Chain(2)  # noqa: E731
short = functools.partial(Chain, 2)


@functools.lru_cache
def cached() -> Chain:
    return Chain(2)


@functools.wraps(cached.__wrapped__)
def wrapping():
    return Chain(2)


@pytest.mark.parametrize("name", ["short", "cached", "wrapping", "both_lengths", "NamedRows"])
def test_what_says_that_it_makes_environments_is_one(name):
    assert resolve(f"{__name__}.{name}") is globals()[name]


@pytest.mark.parametrize(
    ("path", "received", "hint"),
    [
        ("os.system", "'system'", None),
        ("pathlib.Path", "class 'Path'", None),
        ("builtins.exec", "'exec'", None),
        (f"{__name__}.unsaid", "without a return annotation", "def unsaid(...) -> Environment"),
        (f"{__name__}.wrong", "VecEnv | None", "def wrong(...) -> Environment"),
        (f"{__name__}.lambda_env", "without a return annotation", "def make() -> Environment"),
    ],
)
def test_what_does_not_say_so_is_refused_and_told_how(path, received, hint):
    with pytest.raises(errors.UnknownEnvironmentError, match="is not an environment") as caught:
        resolve(path)
    assert received in caught.value.received
    assert (hint is None) == (caught.value.hint is None)
    assert hint is None or hint in caught.value.hint


@pytest.mark.parametrize("name", ["a/b.Chain", "support..Chain", "é\0.C"])
def test_a_path_is_made_of_names(name):
    with pytest.raises(errors.UnknownEnvironmentError, match="unknown environment"):
        resolve(name)


def test_make_passes_settings_on():
    env = make("chain", length=7, truncates=True)
    assert isinstance(env, Chain)
    assert (env.length, env.truncates) == (7, True)


def test_registered_names_are_sorted():
    register("b", "x.y.Z")
    register("a", "x.y.Z")
    assert registered() == ("a", "b", "chain")


def test_registering_imports_nothing():
    register("later", "no_such_module_at_all.Env")
    assert "no_such_module_at_all" not in sys.modules
    with pytest.raises(errors.UnknownEnvironmentError, match="importing 'no_such_module_at_all'"):
        make("later")


def test_a_name_may_be_registered_again_for_the_same_path_only():
    register("chain", "support.tiny_envs.Chain")
    with pytest.raises(errors.UnknownEnvironmentError, match="'chain' is already registered"):
        register("chain", "support.tiny_envs.Farm")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chian", "did you mean 'chain'?"),
        ("", "a registered name or a dotted path"),
        (".Chain", "a registered name or a dotted path"),
        ("support.", "has no environment ''"),
        ("support.tiny_envs.Fram", "did you mean 'Farm'?"),
        ("support.tiny_envs.SCRIPTS.deeper", "importing 'support.tiny_envs.SCRIPTS' failed"),
        ("json.__doc__", "has no environment '__doc__'"),
        (None, "None"),
    ],
)
def test_a_wrong_name_is_named_with_what_would_be_valid(name, words):
    with pytest.raises(errors.UnknownEnvironmentError) as caught:
        resolve(name)
    assert words in str(caught.value)


MODULE = """
from abc import abstractmethod
from entity_env import Environment, ListEnv, ParallelEnv, VecEnv, make
from support.tiny_envs import Chain

class Game(Chain): ...
class Rows(ListEnv): ...
class Draft(Environment): ...
class _Hidden(Chain): ...
class Board: ...
def easy(): return Game(2)
def hard() -> Game: return Game(9)
def odd() -> "NotThere": ...
def size(board: Board) -> int: ...
def show(board) -> None: ...
shortcut = lambda: Game(1)
number = 3
"""


def test_a_module_offers_what_it_defines_itself(tmp_path, monkeypatch):
    (tmp_path / "offering").mkdir()
    (tmp_path / "offering" / "games.py").write_text(MODULE)
    (tmp_path / "offering" / "__init__.py").write_text(
        "from offering.games import Game\nfrom support.tiny_envs import Chain\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "offering", raising=False)
    options = {}
    for name in ("offering.games.Gaem", "offering.Gaem"):
        with pytest.raises(errors.UnknownEnvironmentError, match="did you mean 'Game'") as caught:
            resolve(name)
        options[name] = caught.value.options
    assert options["offering.games.Gaem"] == "'Game', 'Rows', 'hard'"
    assert options["offering.Gaem"] == "'Game'"


def test_a_setting_that_is_needed_is_asked_for():
    def make_chain(length, *, seed=1, **more):
        return Chain(length)

    with pytest.raises(errors.SettingError) as caught:
        check_settings(make_chain, {"color": "red"})
    for words in ("make_chain needs the setting 'length'", "length=...", "settings color"):
        assert words in str(caught.value)
    check_settings(make_chain, {"length": 3})


def test_a_factory_that_takes_anything_is_not_checked():
    check_settings(lambda **settings: None, {"anything": 1})
    with pytest.raises(errors.SettingError, match="'anything'"):
        check_settings(lambda something: None, {"anything": 1})


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [("x = = 1", "SyntaxError", False), ("1 / 0", "ZeroDivisionError", False)],
    ids=["syntax", "error"],
)
def test_a_module_that_fails_to_import_says_why(tmp_path, monkeypatch, code, message, hint):
    (tmp_path / "failing_module.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(errors.UnknownEnvironmentError, match=message) as caught:
        resolve("failing_module.MyEnv")
    assert (caught.value.hint is not None) == hint


def test_a_module_that_is_not_there_has_a_hint():
    with pytest.raises(errors.UnknownEnvironmentError, match="in which you start"):
        resolve("no_such_module.MyEnv")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("orchard", "orchard.Orchard"),
        ("orchad.Orchard", "orchard.Orchard"),
        ("games.Orchard", "orchard.Orchard"),
        ("orchard/orchard.py", "orchard.Orchard"),
        ("Fruit", None),
        ("nothing", None),
    ],
)
def test_a_file_in_the_current_folder_is_read_for_a_hint_and_not_imported(
    tmp_path, monkeypatch, name, meant
):
    (tmp_path / "orchard.py").write_text("class Fruit: ...\nclass Orchard(Environment): ...")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.UnknownEnvironmentError) as caught:
        resolve(name)
    assert (f"did you mean {meant!r}?" in str(caught.value)) == (meant is not None)
    assert "orchard" not in sys.modules


# Classes that make all rows themselves.


class Rows(ListEnv):
    def __init__(self, num_envs, seed=0, length=3):
        super().__init__(lambda: Chain(length), num_envs, seed)


class NamedRows(Rows):
    environment = Chain

    def __init__(self, num_envs, seed=0, **settings):
        super().__init__(num_envs, seed, **settings)


def both_lengths(num_envs: int, seed: int, length: int = 3) -> VecEnv:
    lengths = itertools.cycle([length, 3])
    return ListEnv(lambda: Chain(next(lengths)), num_envs)


def test_only_vec_envs_and_functions_that_say_so_make_rows():
    makers = (Rows, NamedRows, both_lengths, Chain, lambda: Chain(), functools.partial(Chain))
    assert [is_rows(make) for make in makers] == [True, True, True, False, False, False]
    check_settings(both_lengths, {"length": 4})
    with pytest.raises(errors.SettingError, match="no setting 'lenght'"):
        check_settings(both_lengths, {"lenght": 4})
    with pytest.raises(errors.UnknownEnvironmentError, match=r"both_lengths\.environment = MyEnv"):
        alone(both_lengths)


def test_one_environment_of_rows_is_the_one_that_they_name():
    register("rows", f"{__name__}.NamedRows")
    assert resolve("rows") is NamedRows
    env = make("rows", length=5, truncates=True)
    assert type(env) is Chain
    assert (env.length, env.truncates) == (5, True)
    assert alone(Chain) is Chain
    with pytest.raises(errors.UnknownEnvironmentError, match=r"Rows\.environment = MyEnv"):
        make(f"{__name__}.Rows")


@pytest.mark.parametrize("setting", ["num_envs", "lenght"])
@pytest.mark.parametrize(
    ("kind", "options"), [(Rows, "'length'"), (NamedRows, "'length', 'truncates'")]
)
def test_rows_take_the_settings_of_the_game(kind, options, setting):
    check_settings(kind, {"length": 1})
    with pytest.raises(errors.SettingError, match=f"no setting '{setting}'") as caught:
        check_settings(kind, {setting: 1})
    assert caught.value.options == options


def test_a_missing_class_of_rows_is_suggested():
    with pytest.raises(errors.UnknownEnvironmentError, match="did you mean 'NamedRows'"):
        resolve(f"{__name__}.NamedRow")
