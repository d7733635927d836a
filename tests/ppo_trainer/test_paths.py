"""Paths with any characters, in any setting that is a path, on the command line and in files."""

from pathlib import Path

import pytest
from support.trainer_envs import Foraging
from support.trainer_runs import from_command_line

from entity_env.errors import SettingError
from entity_env.registry import path_settings
from ppo_trainer.command_line.composition import GROUPS
from ppo_trainer.command_line.configs import recipe
from ppo_trainer.command_line.words import env_changes

NAMES = [
    *("a=b.vrp", "a#b.vrp", "[1].vrp", "[1]", "(1).vrp", "f(1)", "it's.vrp", "a;b.vrp", "é ü.vrp"),
    *(
        "a, b.vrp",
        "$x.vrp",
        "a${seed}.vrp",
        "{1}",
        "{a: 1}.vrp",
        "007",
        "true",
        "null.vrp",
        "a|b.vrp",
    ),
    *('say "x".vrp', "back\\slash", "a:b", "%20", "a&b", "a~b", "@a", "*.vrp", " a ", "a\tb"),
]


class Shop(Foraging):
    """An environment with a setting that is a path."""

    def __init__(self, plan: str | Path | None = None) -> None:
        super().__init__()
        self.plan = plan


SHOP = f"env._target_={__name__}.Shop"


def test_an_annotation_says_that_a_setting_is_a_path():
    assert path_settings(Shop) == {"plan"}


@pytest.mark.parametrize("name", NAMES)
def test_any_path_of_an_environment_arrives_as_it_was_written(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    for read in (lambda *words: recipe("custom", *words), from_command_line):
        config = read(SHOP, f"env.plan={name}", f"rollout.replays={name}")
        assert config.env["plan"] == name
        assert config.rollout.replays == name
    assert recipe("vehicle_routing", f"env.instance={name}").env["instance"] == name
    assert env_changes([f"env.plan={name}"]) == {"env.plan": name}


@pytest.mark.parametrize("name", [n for n in NAMES if n[0] not in "[{" and "${" not in n])
def test_a_path_that_does_not_exist_yet_does_too(name):
    config = recipe("custom", SHOP, f"env.plan={name}", f"rollout.replays={name}")
    assert (config.env["plan"], config.rollout.replays) == (name, name)


def test_lists_references_and_home_folders_keep_their_meaning(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    own = recipe("job_shop", "env.instance=[ta01,ta02]", "rollout.replays=games-${seed}", "seed=7")
    assert own.env["instance"] == ["ta01", "ta02"]
    assert own.rollout.replays == "games-7"
    assert recipe("job_shop", "env.instance=~/a b").env["instance"] == f"{tmp_path}/a b"
    many = recipe("tic_tac_toe", "selfplay=fixed", "selfplay.opponents=[random,runs/a]")
    assert many.selfplay.opponents == ("random", "runs/a")
    one = recipe("tic_tac_toe", "selfplay=fixed", "selfplay.opponents=runs/a=b (1)")
    assert one.selfplay.opponents == ("runs/a=b (1)",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("optim: {lr: 1e-4}", ("optim.lr", 1e-4)),
        ("run_name: no", ("run_name", "no")),
        ("run_name: 12:30", ("run_name", "12:30")),
        ("run_name: 2024-01-01", ("run_name", "2024-01-01")),
        ("run_name: '1e-4'", ("run_name", "1e-4")),
        ("stop_at: {eval/win: 0.9}\neval: {every: 2}", ("stop_at", {"eval/win": 0.9})),
        ("total_timesteps: 5_000", ("total_timesteps", 5000)),
        ("init: ~", ("init", None)),
        ("shown_metrics:\n- a b\n- c", ("shown_metrics", ("a b", "c"))),
    ],
)
def test_a_file_means_what_the_command_line_means(text, value, tmp_path):
    path = tmp_path / "my = file.yaml"
    path.write_text(text)
    for read in (lambda *words: recipe("xor", *words), lambda *w: from_command_line("env=xor", *w)):
        own = read(f"experiment={path}")
        name, expected = value
        for part in name.split("."):
            own = getattr(own, part)
        assert own == expected


@pytest.mark.parametrize("text", ["- 1", "a: &x [*x]", "a: !!python/name:os.system x", "{"])
def test_files_that_are_no_settings_are_refused(text, tmp_path):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(SettingError, match=r"bad\.yaml"):
        recipe("xor", f"experiment={tmp_path / 'bad.yaml'}")


def test_recipes_are_those_of_the_command_line():
    for name in ("minesweeper", "leduc_poker", "capture_the_flag", "minirts_units"):
        assert recipe(name, "seed=3") == from_command_line(f"env={name}", "seed=3")
    for kind in GROUPS["selfplay"]:
        words = "tic_tac_toe", f"selfplay={kind}", "~experiment"
        assert recipe(*words) == from_command_line(f"env={words[0]}", *words[1:])
