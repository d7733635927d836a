"""What the command line takes for settings, flags and paths, and what it explains."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from test_config import from_command_line

from ppo_trainer.errors import ConfigError
from ppo_trainer.overrides import hydra_arguments


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["env=orchard.Orchard"], ["env=orchard.Orchard", "env._target_=orchard.Orchard"]),
        (
            ["env=minesweper"],
            ["did you mean 'minesweeper'?", "'minesweeper', 'minesweeper_boards'"],
        ),
        (["seed=3", "env=minesweper"], ["env=minesweper does not exist"]),
        (["-m", "env=minesweeper,minesweper"], ["env=minesweper does not exist"]),
        (["experiment=minesweper"], ["did you mean 'minesweeper'?"]),
        (["env="], ["env= does not exist"]),
    ],
    ids=" ".join,
)
def test_an_option_that_does_not_exist_names_what_was_meant(arguments, parts):
    with pytest.raises(ConfigError) as caught:
        from_command_line(*arguments)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [["env=minesweeper"], ["-m", "env=minesweeper,custom"], ["experiment=minesweeper"], []],
)
def test_options_that_exist_pass(arguments):
    assert hydra_arguments(arguments) == arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "seed=1,2", "env._target_=farm.Farm"],
        ["seed=1,2", "-m", "env._target_=farm.Farm"],
        ["seed=1,2", "env._target_=farm.Farm", "-m"],
    ],
    ids=" ".join,
)
def test_flags_may_stand_anywhere(arguments):
    # Hydra refuses settings on both sides of a flag.
    expected = ["-m", "env=custom", "++seed=1,2", "++env._target_=farm.Farm"]
    assert hydra_arguments(arguments) == expected


PATHS = [*'é="\\#~$', "f(x)", "[1] {2}", "it's", "a, b", "a\\'", "007", "true"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["resume", "run_dir", "run_name"])
def test_a_path_may_hold_any_character(name, path):
    (argument,) = hydra_arguments([f"{name}={path}"])
    value = OverridesParser.create().parse_override(argument).value()
    made = OmegaConf.to_container(OmegaConf.create({name: value}), resolve=True)
    assert made == {name: path}


@pytest.mark.parametrize("value", ["null", "", "'a,b'", "${seed}"])
def test_a_path_may_be_in_hydra_s_own_grammar(value):
    assert hydra_arguments([f"run_name={value}"]) == [f"++run_name={value}"]


def test_a_sweep_over_paths_is_one():
    assert hydra_arguments(["-m", "run_name=a,b"]) == ["-m", "++run_name=a,b"]


def test_a_flag_keeps_its_value():
    assert hydra_arguments(["seed=3", "--cfg", "job"]) == ["--cfg", "job", "++seed=3"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["farm.Farm"], ["'farm.Farm' is not a setting", "env._target_=farm.Farm"]),
        (["--total_timesteps", "100"], ["settings are not flags", "total_timesteps=<value>"]),
        (["--env.width=8"], ["settings are not flags", "env.width=<value>"]),
        (["seed=1,2"], ["seed=1,2 names several values", "add -m"]),
    ],
    ids=["no name", "flag", "flag with value", "no sweep"],
)
def test_what_is_no_setting_is_explained(arguments, parts):
    with pytest.raises(ConfigError) as caught:
        hydra_arguments(arguments)
    for part in parts:
        assert part in str(caught.value)


def test_hydra_s_own_groups_and_deletions_are_settings_too():
    arguments = ["hydra/launcher=basic", "hydra.verbose=true", "~experiment", "+hydra.a=1"]
    assert hydra_arguments([*arguments, "--cfg", "job"]) == ["--cfg", "job", *arguments]


def test_a_list_is_one_value():
    assert hydra_arguments(["env.sizes=[1,2]"]) == ["++env.sizes=[1,2]"]
