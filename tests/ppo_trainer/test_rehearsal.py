"""Scripts and evaluation environments that fail do so before a training, not after it."""

from __future__ import annotations

import pytest
from ragged_envs.industry.job_shop import JobShopRows
from ragged_envs.mmo.world import MmoRows
from support.rows import interpret_all

from entity_env.errors import SettingError
from ppo_trainer import recipe, train
from ppo_trainer.environments import Game, make_factory
from ppo_trainer.training.rehearsal import rehearse, rehearse_script

SCRIPTS = """

def says_a_number(observation):
    return {"Move": 3}


def says_nothing(observation):
    return None


def is_lost(observation):
    raise KeyError("north")
"""


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    (tmp_path / "rehearsed.py").write_text(SCRIPTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("game", "setting", "words"),
    [
        ("minesweeper", "eval.scripted=rehearsed.says_a_number", r"CategoricalAction\(actors="),
        ("minesweeper", "eval.scripted=rehearsed.says_nothing", "did not return actions"),
        ("minesweeper", "eval.scripted=rehearsed.is_lost", "KeyError: 'north'"),
        ("minesweeper", "eval.env={nmines: 1000}", "eval.env"),
        ("tic_tac_toe", "selfplay.opponents=[rehearsed.says_a_number]", "selfplay.opponents"),
    ],
)
def test_what_fails_stops_the_run_before_it_trains(scripts, tmp_path, game, setting, words):
    kind = ["selfplay=fixed"] if game == "tic_tac_toe" else []
    config = recipe(game, *kind, setting, "total_timesteps=100_000_000")
    with pytest.raises(SettingError, match=words) as caught:
        train(config)
    assert "in its first step" in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_crowded_world_is_played_in_rows(monkeypatch):
    interpret_all(monkeypatch, MmoRows)
    # Of 128 seats that play at random some eight are taken, so that most of them never act.
    config = recipe("mmo")
    rehearse(config, make_factory(config))


def test_scripts_of_compiled_games_are_rehearsed_in_a_row(scripts, monkeypatch):
    def alone(game):
        raise AssertionError("the single game is slow")

    monkeypatch.setattr(Game, "__call__", alone)
    interpret_all(monkeypatch, JobShopRows)
    game = make_factory(recipe("job_shop"))
    rehearse_script("ragged_envs.industry.job_shop_scripts.flow_due_date", game)
    with pytest.raises(SettingError, match=r"first step: KeyError: 'north'") as caught:
        rehearse_script("rehearsed.is_lost", game)
    assert "SelectEntityAction(actors=" in str(caught.value)
    with pytest.raises(SettingError, match="did not return actions"):
        rehearse_script("rehearsed.says_nothing", game)
