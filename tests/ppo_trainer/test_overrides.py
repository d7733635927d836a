"""The command line: settings, flags, paths, and errors."""

import os

import pytest
from support.trainer_runs import from_command_line

from entity_env.errors import SettingError
from ppo_trainer.command_line.composition import Setting
from ppo_trainer.command_line.configs import recipe
from ppo_trainer.command_line.words import combinations, read_word


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["env=orchard.Orchard"], ["env=orchard.Orchard", "env._target_=orchard.Orchard"]),
        (
            ["env=minesweper"],
            ["did you mean 'minesweeper'?", "'minesweeper', 'minesweeper_boards'"],
        ),
        (["seed=3", "env=minesweper"], ["env=minesweper does not exist"]),
        (["experiment=minesweper"], ["did you mean 'minesweeper'?"]),
        (["env="], ["env= does not exist"]),
    ],
    ids=" ".join,
)
def test_an_option_that_does_not_exist_names_what_was_meant(arguments, parts):
    with pytest.raises(SettingError) as caught:
        from_command_line(*arguments)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("seed=3", Setting("seed", 3)),
        ("++seed=3", Setting("seed", 3)),
        ("env=minesweeper", Setting("env", "minesweeper")),
        ("+experiment=minesweeper", Setting("experiment", "minesweeper")),
        ("~env.width", Setting("env.width", removed=True)),
        ("env.sizes=[1,2]", Setting("env.sizes", [1, 2])),
        ("stop_at.eval/win=0.9", Setting("stop_at.eval/win", 0.9)),
        ("run_dir=it's", Setting("run_dir", "it's")),
        ("run_name=a=b", Setting("run_name", "a=b")),
        ("run_name=null", Setting("run_name", None)),
        ("run_name=", Setting("run_name", "")),
        ("run_name='a,b'", Setting("run_name", "a,b")),
    ],
)
def test_words_are_settings(word, expected):
    assert read_word(word, ["run_dir", "run_name"]) == expected


def test_a_target_has_no_settings_of_another_game(tmp_path):
    words = ["env._target_=a.B", "seed=1"]
    assert from_command_line(*words).env == {"_target_": "a.B"}
    assert from_command_line(*words, "env=minesweeper").env["width"] == 6


def test_a_sweep_has_a_run_for_each_combination():
    words = ["seed=range(1,3)", "env=xor,count", "run_name='a,b'", "optim.lr=choice(0.1)"]
    runs = combinations(words)
    assert [run[:2] for run in runs] == [
        ["seed=1", "env=xor"],
        ["seed=1", "env=count"],
        ["seed=2", "env=xor"],
        ["seed=2", "env=count"],
    ]
    assert runs[0][2:] == ["run_name='a,b'", "optim.lr=0.1"]
    for wide in ("optim.lr=interval(1,2)", "run_dir=glob(*)"):
        with pytest.raises(SettingError, match="more values than a sweep can run"):
            combinations([wide])


PATHS = [*'é="\\#~$', "f(x)", "[1] {2}", "it's", "a, b", "a\\'", "007", "true"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["init", "run_name"])
def test_a_path_may_hold_any_character(name, path):
    found = getattr(from_command_line("env=xor", f"{name}={path}"), name)
    assert found == (os.path.expanduser(path) if name == "init" else path)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["farm.Farm"], ["'farm.Farm' is not a setting", "env._target_=farm.Farm"]),
        (["minesweeper"], ["did you mean env=minesweeper?"]),
        (["minesweper", "seed=3"], ["did you mean env=minesweeper?"]),
        (["CartPole-v1"], ["env=gymnasium env.env=CartPole-v1"]),
        (["--total_timesteps", "100"], ["settings are not flags", "total_timesteps=<value>"]),
        (["resume=runs/x", "--trust"], ["settings are not flags", "write trust=true"]),
        (["--halp"], ["unknown option --halp", "did you mean '--help'?"]),
        (["--learning_rate=3"], ["unknown option", "did you mean 'optim.lr'?"]),
        (["--env.width=8"], ["settings are not flags", "env.width=<value>"]),
        (["seed=1,2"], ["seed=1,2 names several values", "add -m"]),
    ],
    ids=" ".join,
)
def test_what_is_no_setting_is_explained(arguments, parts):
    with pytest.raises(SettingError) as caught:
        from_command_line(*arguments)
    for part in parts:
        assert part in str(caught.value)


ORCHARD = """
import nothing_that_exists
from entity_env import Environment
import gymnasium as gym

class Base(Environment): ...
class Orchard(Base): ...
class Fruit: ...
class Pole(gym.Env): ...
def easy_orchard() -> Orchard: ...
"""


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["env=orchard"], "orchard.Orchard"),
        (["env=Orchard"], "orchard.Orchard"),
        (["env=orchard.py"], "orchard.Orchard"),
        (["env=count_apples"], "games.count_apples.Apples"),
        (["env=games/count_apples.py"], "games.count_apples.Apples"),
        (["orchard"], "orchard.Orchard"),
        (["./orchard.py", "seed=3"], "orchard.Orchard"),
        (["Pole"], "orchard.Pole"),
        (["EasyOrchard"], "orchard.easy_orchard"),
    ],
    ids=str,
)
def test_an_environment_in_a_file_here_is_found_by_its_text(tmp_path, monkeypatch, arguments, path):
    (tmp_path / "orchard.py").write_text(ORCHARD)
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / "count_apples.py").write_text("class Apples(MyEnv): ...")
    (tmp_path / "broken.py").write_text("class Orchard(Environment: orchard")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as caught:
        from_command_line(*arguments)
    assert caught.value.hint == f"to train on the environment in this file: env._target_={path}"


def test_a_run_is_something_to_resume(tmp_path, monkeypatch):
    (tmp_path / "runs" / "xor").mkdir(parents=True)
    (tmp_path / "runs" / "xor" / "config.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match=r"did you mean resume=runs/xor\?"):
        from_command_line("runs/xor")


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("net.translation={}", "net.translation lacks reference"),
        ("env.width={", "env.width={"),
        ("seed=[1", "seed=[1"),
        ("a b=3", "a b=3"),
        ("=3", "=3"),
        ("~nope", "'nope' does not exist"),
        ("seed=${nope}", "'nope' not found"),
    ],
)
def test_recipes_of_settings_that_cannot_be_read_are_refused(setting, part):
    with pytest.raises(SettingError) as caught:
        recipe("xor", setting)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["seed=[1", "seed='1", "seed={a:1", "seed=1=2", "=3", ".seed=1", "env.=1", "seed=\udcff"],
)
def test_a_setting_that_cannot_be_read_is_shown_without_a_traceback(text):
    with pytest.raises(SettingError, match="cannot be read") as caught:
        from_command_line("env=xor", text)
    assert repr(text) in str(caught.value)
