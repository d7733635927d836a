"""``--version`` of every command."""

from __future__ import annotations

import importlib
import platform
import runpy
from importlib.metadata import version

import pytest

from entity_env.errors import SettingError
from ppo_trainer.__main__ import main

COMMANDS = [
    "entity_env.check",
    "entity_env.runner",
    "ppo_trainer.evaluate",
    "ppo_trainer.record",
    "ppo_trainer.watch",
]
VERSIONS = f"ragged-rl {version('ragged-rl')}, Python {platform.python_version()}, NumPy "


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_its_version(name, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(name).main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(VERSIONS)


def test_the_trainer_says_its_own_version_and_that_of_torch(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ppo_trainer", "--version"])
    main()
    said = capsys.readouterr().out
    assert said.startswith(VERSIONS)
    assert f"torch {version('torch')}" in said
    assert "Hydra" not in said


def test_the_package_that_is_no_command_has_a_version_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["entity_env", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("entity_env", run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out.startswith(VERSIONS)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ppo", ["ppo.epochs=3\n    Number of passes over a rollout. More", "ppo.gamma=0.95"]),
        ("rollout.num_envs", ["rollout.num_envs=128\n    Number of rows R that act together"]),
    ],
)
def test_help_names_defaults_and_meanings(name, parts, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ppo_trainer", "--help", name])
    main()
    shown = capsys.readouterr().out
    assert all(part in shown for part in parts)
    assert all(line.startswith((name, "    ")) for line in shown.splitlines())


def test_help_on_an_unknown_setting_names_the_nearest(monkeypatch):
    monkeypatch.setattr("sys.argv", ["ppo_trainer", "--help", "rollout.num_env"])
    with pytest.raises(SettingError, match=r"did you mean 'rollout\.num_envs'"):
        main()
