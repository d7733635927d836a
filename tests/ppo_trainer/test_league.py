"""Leagues: who plays whom how often, and what ratings come of it."""

import json

import numpy as np
import pytest
from support.trainer_runs import small_config

from ppo_trainer import train
from ppo_trainer.errors import ConfigError
from ppo_trainer.players.league import League, draw, main, play_league, rate
from ppo_trainer.runs.load_run import load_policy

pytest.importorskip("openskill")

PERFECT = "ragged_envs.tic_tac_toe_script.play_perfectly"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A network that has hardly begun to learn."""
    folder = tmp_path_factory.mktemp("league")
    config = small_config(run_dir=str(folder), env={"_target_": "tic_tac_toe"}, total_timesteps=96)
    return train(config).run


def test_ratings_of_one_win_are_those_of_the_model():
    """PlackettLuce of openskill from (25, 25/3): a win of one over one by Weng and Lin.

    c^2 = 2 (sigma^2 + beta^2) with beta = 25/6: 2 (69.444 + 17.361) = 173.611, c = 13.176. The
    chance of the win was 1/2: mu moves by sigma^2 / c * (1 - 1/2) = 69.444 / 13.176 / 2 = 2.635.
    """
    rating, deviation = rate(2, [(0, 1, 1.0)])
    assert rating == pytest.approx([27.635, 22.365], abs=2e-3)
    assert (deviation < 25 / 3).all()
    # A draw of equals moves nobody.
    assert rate(2, [(0, 1, 0.5)])[0] == pytest.approx([25, 25])


def test_whoever_wins_more_is_rated_higher_and_more_games_make_it_surer():
    drawn = np.random.default_rng(0)
    results = [
        (i, j, float(drawn.random() < 0.5 + 0.2 * (j - i)))
        for i, j in [(0, 1), (1, 2), (0, 2)] * 40
    ]
    rating, deviation = rate(3, results)
    assert rating[0] > rating[1] > rating[2]
    assert rate(3, results[:12])[1].min() > deviation.max()


def test_everybody_plays_everybody_from_both_sides(run):
    loaded = load_policy(run)
    league = play_league(loaded, [str(run), "random", PERFECT], games=11)
    assert league.players == (run.name, "random", "play_perfectly")
    # Rounded up to six games from each of the two sides.
    assert league.games.tolist() == [[0, 12, 12], [12, 0, 12], [12, 12, 0]]
    assert np.isnan(league.payoff.diagonal()).all()
    off = ~np.eye(3, dtype=bool)
    assert (league.payoff + league.payoff.T)[off] == pytest.approx(np.ones(6))
    # Who plays perfectly never loses, and does not only draw against random play.
    assert league.payoff[2, 1] > 0.6
    assert league.payoff[2, 0] >= 0.5
    assert league.rating.argmax() == 2


def test_the_command_writes_a_table_a_file_and_a_picture(run, tmp_path, capsys):
    main([str(run), "random", "--games", "4", "--out", str(tmp_path / "out")])
    text = capsys.readouterr().out
    assert "rating (95%)" in text
    facts = json.loads((tmp_path / "out" / "league.json").read_text())
    assert facts["players"] == [run.name, "random"]
    assert facts["payoff"][0][0] is None
    assert facts["payoff"][0][1] + facts["payoff"][1][0] == 1
    assert (tmp_path / "out" / "league.png").read_bytes().startswith(b"\x89PNG")


def test_players_are_listed_by_their_rating():
    payoff = np.array([[np.nan, 0.25], [0.75, np.nan]])
    games = np.array([[0, 4], [4, 0]])
    league = League(("a", "b"), payoff, games, np.array([20.0, 30.0]), np.array([2.0, 1.0]))
    first, second = league.table().splitlines()[1:]
    assert first.split() == ["b", "30.00", "(28.04", "to", "31.96)", "0.750", "4"]
    assert second.split() == ["a", "20.00", "(16.08", "to", "23.92)", "0.250", "4"]
    assert len(draw(league)) > 1000


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["random"], "two players or more"),
        (["random", "random"], "each once"),
        (["random", "scripted"], "names no scripted player"),
        (["random", "nobody"], "there is no opponent 'nobody'"),
    ],
)
def test_what_is_no_league(run, names, message):
    with pytest.raises(ConfigError, match=message):
        play_league(load_policy(run), names, games=2)


def test_a_league_without_a_run_or_of_a_game_for_one_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="at least one run folder"):
        main(["random", "scripted"])
    run = train(
        small_config(run_dir=str(tmp_path), env={"_target_": "xor"}, total_timesteps=96)
    ).run
    with pytest.raises(ConfigError, match="no game of several players"):
        main([str(run), "random"])
