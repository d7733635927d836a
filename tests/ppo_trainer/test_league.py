"""Leagues: who plays whom how often, and what ratings come of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.seat_games import Played, Secrets, asked, told
from support.trainer_runs import small_config

from entity_env import CategoricalAction, MaskedEnvironment
from entity_env.agent import RandomAgent
from entity_env.errors import SettingError
from entity_env.scripted_agent import ScriptedAgent
from ppo_trainer import train
from ppo_trainer.environments import Game
from ppo_trainer.evaluation.matches import SCALE, count_results, play_pair, rate
from ppo_trainer.evaluation.steps import play_agent
from ppo_trainer.league import League, draw, main, play_league
from ppo_trainer.runs.load_run import load_policy

PERFECT = "ragged_envs.tic_tac_toe.play_perfectly"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A network that has hardly begun to learn."""
    folder = tmp_path_factory.mktemp("league")
    config = small_config(run_dir=str(folder), env={"_target_": "tic_tac_toe"}, total_timesteps=96)
    return train(config).run


def test_two_players_are_as_far_apart_as_their_odds():
    """150 wins of 200: 400 log10(3) = 190.8; deviation 400 / ln 10 / sqrt(200 * 3/16) = 28.4."""
    rating, deviation = rate([[0, 150], [50, 0]], np.zeros((2, 2)), anchor=1)
    assert rating == pytest.approx([190.8, 0.0], rel=0.01)
    assert deviation == pytest.approx([28.4, 0.0], rel=0.01)
    # Beside the mean each is half as far away, and half as unsure.
    middle, half = rate([[0, 150], [50, 0]], np.zeros((2, 2)))
    assert middle == pytest.approx([rating[0] / 2, -rating[0] / 2])
    assert half == pytest.approx([deviation[0] / 2] * 2)
    # Draws are no odds: 30 wins to 10 and 160 draws are 3 to 1 as well.
    few = rate([[0, 30], [10, 0]], [[0, 160], [160, 0]], anchor=1)[0]
    assert few == pytest.approx([190.8, 0.0], rel=0.02)
    # A player who wins all games has a finite rating, with a wide interval.
    rating, deviation = rate([[0, 20], [0, 0]], np.zeros((2, 2)))
    assert 100 < rating[0] < 2000
    assert deviation[0] > 100


def test_ratings_are_where_a_slow_ascent_ends():
    rng = np.random.default_rng(3)
    won, drawn = rng.integers(0, 12, (4, 4)), rng.integers(0, 8, (4, 4))
    won, drawn = won - np.diag(won.diagonal()), np.triu(drawn, 1) + np.triu(drawn, 1).T
    pairs = [(i, j) for i in range(4) for j in range(i)]

    def likelihood(own):
        total = -0.05 * float(own @ own)  # the prior
        for i, j in pairs:
            p, q = np.exp(own[i]), np.exp(own[j])
            tie = np.exp(own[4]) * np.sqrt(p * q)
            chances = np.array([p, q, tie]) / (p + q + tie)
            total += np.log(chances) @ [won[i, j], won[j, i], drawn[i, j]]
        return total

    own = np.zeros(5)
    for _ in range(400):
        ends = [(likelihood(own + e), likelihood(own - e)) for e in np.eye(5) * 1e-5]
        own += 0.02 * np.array([(up - down) / 2e-5 for up, down in ends])
    rating, _ = rate(won, drawn, anchor=0)
    assert rating == pytest.approx(SCALE * (own[:4] - own[0]), abs=0.05)


def test_intervals_miss_one_time_in_twenty():
    """400 leagues of four: 1,600 intervals of 95%; a deviation of such a share is below 1%."""
    rng = np.random.default_rng(0)
    missed = []
    for _ in range(400):
        strength = rng.normal(0, 0.8, 4)
        won, drawn = np.zeros((4, 4)), np.zeros((4, 4))
        for i, j in zip(*np.triu_indices(4, 1), strict=True):
            weights = np.exp([strength[i], strength[j], (strength[i] + strength[j]) / 2 - 0.5])
            won[i, j], won[j, i], drawn[i, j] = rng.multinomial(40, weights / weights.sum())
            drawn[j, i] = drawn[i, j]
        rating, deviation = rate(won, drawn)
        missed += list(abs(rating - SCALE * (strength - strength.mean())) > 1.96 * deviation)
    assert np.mean(missed) == pytest.approx(0.05, abs=0.015)


def test_whoever_wins_more_comes_first():
    """110 wins of 200, in whatever order: 400 log10(11/9) = 34.9 points more."""
    assert count_results([1.0, 0.5, 0.5, 0.5, 0.0, 0.0]) == (1, 3, 2)
    rating, _ = rate([[0, 110], [90, 0]], np.zeros((2, 2)))
    assert rating[0] > 0 > rating[1]
    assert rating[0] - rating[1] == pytest.approx(400 * np.log10(11 / 9), rel=0.01)


class FirstOfThree(Played):
    """The first of three seats wins each game."""

    def __init__(self):
        wins = {seat: told(done=True, win=float(seat == "a")) for seat in "abc"}
        super().__init__({seat: asked() for seat in "abc"}, wins)


class Teams(Played):
    """The team of two wins each game against the other one."""

    def __init__(self):
        wins = {seat: told(done=True, win=float(seat in "ab")) for seat in "abcd"}
        teams = {"ab": ["a", "b"], "cd": ["c", "d"]}
        super().__init__({seat: asked() for seat in "abcd"}, wins, seats=tuple("abcd"), teams=teams)


def test_equal_players_are_even_in_games_of_more_than_two_and_of_teams():
    """Alone on one of three sides each wins a third: 2 of 6 games; alone is each as often."""
    for game, first_wins in ((FirstOfThree, 2 + 4), (Teams, 6)):
        spaces = game().obs_space(), game().action_space()
        players = [RandomAgent(*spaces, seed=seed) for seed in (0, 1)]
        scores = play_pair(*players, Game(game, {}), small_config(), 12, seed=0)
        assert count_results(scores) == (first_wins, 0, 12 - first_wins)
    payoff, games = np.full((2, 2), 0.5), np.full((2, 2), 4)
    table = League(("a", "b"), payoff, games, np.zeros(2), np.ones(2), sides=3).table()
    assert "Of the 3 sides one player of a pair plays one, the other player all others" in table


class Nameless(Secrets):
    """A game of two without ids of entities, so that ``act`` receives None for an actor."""

    def __init__(self):
        super().__init__(2)

    def reset(self):
        return {seat: replace(own, ids={}) for seat, own in super().reset().items()}

    def act(self, actions):
        assert all(own["Go"].actors == [None] for own in actions.values())
        return super().act(actions)

    def get_state(self):
        return self.bits

    def set_state(self, state):
        self.bits = state
        return {seat: replace(asked(float(bit)), ids={}) for seat, bit in enumerate(state)}


def test_scripts_play_games_without_ids():
    game, spaces = Game(Nameless, {}), (Nameless().obs_space(), Nameless().action_space())

    def guess(observation):
        return {"Go": CategoricalAction([None], [int(observation.features["Card"][0][0])], [])}

    script, chance = ScriptedAgent(guess, *spaces), RandomAgent(*spaces, seed=0)
    assert len(play_pair(script, chance, game, small_config(), 8, seed=0)) == 8
    env = MaskedEnvironment(Nameless, script)
    env.seed(0)
    shown = env.reset()
    assert env.act(guess(shown)).reward in (-1.0, 1.0)
    moved = list(play_agent(game(), script, episodes=1, seed=0))
    assert [len(step.chosen) for step in moved] == [1, 0]


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
    assert league.rating.sum() == pytest.approx(0.0)


def test_the_command_writes_a_table_a_file_and_a_picture(run, tmp_path, capsys):
    main([str(run), "random", "--games", "4", "--out", str(tmp_path / "out")])
    text = capsys.readouterr().out
    assert "rating (95%)" in text
    assert "400 points are odds of 10 to 1; the mean of all players is 0." in text
    facts = json.loads((tmp_path / "out" / "league.json").read_text())
    assert facts["players"] == [run.name, "random"]
    assert facts["payoff"][0][0] is None
    assert facts["payoff"][0][1] + facts["payoff"][1][0] == 1
    assert (tmp_path / "out" / "league.png").read_bytes().startswith(b"\x89PNG")


def test_players_are_listed_by_their_rating():
    payoff = np.array([[np.nan, 0.25], [0.75, np.nan]])
    games = np.array([[0, 4], [4, 0]])
    league = League(("a", "b"), payoff, games, np.array([20.0, 30.0]), np.array([2.0, 1.0]))
    first, second, scale = league.table().splitlines()[1:]
    assert first.split() == ["b", "30", "(28", "to", "32)", "0.750", "4"]
    assert second.split() == ["a", "20", "(16", "to", "24)", "0.250", "4"]
    assert scale == "400 points are odds of 10 to 1; the mean of all players is 0."
    assert len(draw(league)) > 1000


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["random"], "at least two different players"),
        (["random", "random"], "at least two different players"),
        (["random", "scripted"], "has no scripted player"),
        (["random", "nobody"], "there is no opponent 'nobody'"),
    ],
)
def test_what_is_no_league(run, names, message):
    with pytest.raises(SettingError, match=message):
        play_league(load_policy(run), names, games=2)


def test_a_league_without_a_run_or_of_a_game_for_one_is_refused(tmp_path):
    with pytest.raises(SettingError, match="at least one run folder"):
        main(["random", "scripted"])
    run = train(
        small_config(run_dir=str(tmp_path), env={"_target_": "xor"}, total_timesteps=96)
    ).run
    with pytest.raises(SettingError, match="not a game for several players"):
        main([str(run), "random"])
