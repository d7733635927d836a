"""One seat of a game of several players as a plain environment."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from ragged_envs.tic_tac_toe import LINES, TicTacToe
from support.seat_games import Played, Secrets, asked, told

from entity_env import ListEnv, MaskedEnvironment, SelectEntityAction, check_env, errors, make
from entity_env.actions import CategoricalAction
from entity_env.agent import Decision, RandomAgent
from entity_env.play import play_episodes, play_scripted, random_policy

GO = {"Go": CategoricalAction(["card"], np.array([1]), ["left", "right"])}


def left(observation):
    return {"Go": CategoricalAction(["card"], np.array([0]), ["left", "right"])}


def first_empty(observation):
    return _mark(observation, observation.actions["Mark"].actee_ids[0])


def blocks_and_wins(observation):
    """Completes a line, its own first, else takes the first empty cell."""
    marks = [int(row[2]) for row in observation.features["Cell"]]
    for own in (1, 2):
        for line in LINES:
            taken = [marks[cell] for cell in line]
            if taken.count(own) == 2 and taken.count(0) == 1:
                return _mark(observation, ("Cell", line[taken.index(0)]))
    return first_empty(observation)


def _mark(observation, cell):
    return {"Mark": SelectEntityAction(["me"], [cell])}


def test_the_learner_gets_what_its_seat_gets_between_two_of_its_decisions():
    game = Played(
        {"b": asked(1.0)},
        {"a": asked(2.0, reward=9.0), "b": told(0.5)},
        {"b": asked(3.0, reward=1.0)},
        {"a": told(1.0, True), "b": told(0.25), "c": asked()},
        {"b": asked(4.0, reward=-1.0)},
        {"b": told(2.0, True, score=3.0), "c": told(0.0, True)},
    )
    env = MaskedEnvironment(game, left, shuffle_seats=False, seat="a")
    shown = env.reset()
    assert (shown.features["Card"], shown.reward, shown.done) == ([[2.0]], 0.0, False)
    assert game.heard == [{"b": "left"}]
    shown = env.act(GO)
    assert (shown.reward, shown.done) == (1.0, True)
    assert game.heard == [{"b": "left"}, {"a": "right"}, {"b": "left"}]
    env = MaskedEnvironment(game, left, shuffle_seats=False, seat="b")
    assert env.reset().features["Card"] == [[1.0]]
    assert env.act(GO).reward == 1.5
    shown = env.act(GO)
    assert (shown.features["Card"], shown.reward) == ([[4.0]], -0.75)
    shown = env.act(GO)
    assert (shown.reward, shown.done, shown.metrics) == (2.0, True, {"score": 3.0})


def test_a_game_that_ends_before_the_learners_turn_is_played_again():
    class Once(Played):
        games = 0

        def reset(self):
            Once.games += 1
            self.at = 0
            early = [{"a": asked()}, {"a": told(1.0, True), "b": told(-5.0, True)}]
            late = [{"a": asked()}, {"a": told(), "b": asked(2.0)}, {"b": told(0.5, True)}]
            self.script = early if Once.games < 3 else late
            return self.script[0]

    env = ListEnv(lambda: MaskedEnvironment(Once, left, shuffle_seats=False, seat="b"), 1)
    obs = env.reset()
    assert Once.games == 3
    assert obs.features["Card"].as_array().tolist() == [[2.0]]


def test_a_game_without_the_learner_is_played_again():
    class Absent(Played):
        games = 0

        def reset(self):
            Absent.games += 1
            self.at = 0
            without = [{"a": asked()}, {"a": told(1.0, True)}]
            self.script = without if Absent.games < 4 else [{"b": asked(2.0)}]
            return self.script[0]

    env = MaskedEnvironment(Absent, left, shuffle_seats=False, seat="b")
    assert env.reset().features["Card"] == [[2.0]]
    assert Absent.games == 4
    never = Played({"a": asked()}, {"a": told(1.0, True)})
    with pytest.raises(errors.ObservationError, match="100 times in a row"):
        MaskedEnvironment(never, left, shuffle_seats=False, seat="b").reset()


def test_who_is_not_in_a_game_cannot_act():
    env = MaskedEnvironment(lambda: Secrets(3), left)
    with pytest.raises(errors.ResetNeededError, match="not in a game"):
        env.act(GO)
    env.reset()
    assert env.act(GO).done
    with pytest.raises(errors.ResetNeededError, match="not in a game"):
        env.act(GO)


def test_nothing_of_other_seats_is_seen():
    """Whoever saw the next seat's bit would always win; of what is seen nothing says it."""
    env = MaskedEnvironment(lambda: Secrets(3), left)
    env.seed(1)
    shown, bits = [], []
    for _ in range(1000):
        observation = env.reset()
        game = env._game
        assert observation.features == {"Card": [[float(game.bits[env.seat])]]}
        assert set(observation.actions) == {"Go"}
        shown.append(observation.features["Card"][0][0])
        bits.append(game.bits[(env.seat + 1) % 3])
        env.act(GO)
    assert abs(np.corrcoef(shown, bits)[0, 1]) < 0.1
    for policy in (random_policy(0), random_policy(1)):
        won = play_episodes(lambda: MaskedEnvironment(lambda: Secrets(3), left), policy, 1000, 0)
        assert abs(won["episodic_reward"].mean()) < 0.12


def test_seats_are_shuffled_and_each_opponent_keeps_its_own():
    env = MaskedEnvironment(lambda: Secrets(4), [left, "random", left])
    env.seed(3)
    seats = []
    for _ in range(400):
        env.reset()
        seats.append(env.seat)
    assert np.bincount(seats).min() > 70
    fixed = MaskedEnvironment(lambda: Secrets(4), left, shuffle_seats=False, seat=2)
    assert {(fixed.reset(), fixed.seat)[1] for _ in range(20)} == {2}


def test_a_seed_gives_one_run():
    def play():
        return play_scripted(lambda: MaskedEnvironment(TicTacToe), first_empty, 30, 5)

    assert {k: v.tolist() for k, v in play().items()} == {k: v.tolist() for k, v in play().items()}


def test_a_script_beats_random_players_and_draws_itself():
    def against(opponent):
        played = play_scripted(
            lambda: MaskedEnvironment(TicTacToe, opponent), blocks_and_wins, 400, 0
        )
        return played["win"].mean()

    assert against("random") > 0.85
    assert 0.4 < against(blocks_and_wins) < 0.6


def test_it_is_a_sound_environment():
    assert check_env(lambda: MaskedEnvironment(TicTacToe)).notes == ()
    assert isinstance(make("tic_tac_toe"), MaskedEnvironment)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"seat": "Y"}, errors.SeatError, "there is no seat 'Y'"),
        ({"opponents": [left]}, errors.SettingError, "differs from the number of the other seats"),
        ({"opponents": 3}, errors.SettingError, "is not valid"),
        ({"game": dict}, errors.SettingError, "no seats"),
    ],
)
def test_mistakes_are_named(given, error, words):
    with pytest.raises(error, match=words):
        MaskedEnvironment(**{"game": lambda: Secrets(3), **given})


def test_copies_play_with_agents_of_their_own():
    """``check_env`` copies an environment that it is given, and seeds each copy."""
    spaces = TicTacToe().obs_space(), TicTacToe().action_space()
    for opponent in ("random", RandomAgent(*spaces, seed=3)):
        assert check_env(MaskedEnvironment(TicTacToe, opponent)).episodes >= 3
    env = MaskedEnvironment(TicTacToe, RandomAgent(*spaces, seed=3))
    first, second = copy.deepcopy(env), copy.deepcopy(env)

    def opening(env, seed):
        env.seed(seed)
        return [env.reset().features["Cell"] for _ in range(20)]

    alone = opening(first, 1)
    opening(second, 2)  # draws nothing from the first one's agent
    for ours, again in zip(alone, opening(first, 1), strict=True):
        np.testing.assert_array_equal(ours, again)


class Alternating:
    """Goes left, right, left, ... in each game."""

    def __init__(self):
        self.count = 0

    def act(self, observation):
        self.count += 1
        side = (self.count + 1) % 2
        return {"Go": CategoricalAction(["card"], np.array([side]), ["left", "right"])}

    def reset(self):
        self.count = 0


EVERYBODY = {seat: asked() for seat in "abc"}


def everybody_acts():
    return Played(EVERYBODY, EVERYBODY, EVERYBODY, {seat: told(0.0, True) for seat in "abc"})


@pytest.mark.parametrize("given", ["agent", "list"])
def test_what_one_agent_remembers_belongs_to_a_seat_of_a_game(given):
    """Two rows of a ``ListEnv`` share the agent, which plays two seats in each."""
    agent = Alternating()
    opponents = {"agent": agent, "list": [agent, agent]}[given]
    games = [everybody_acts(), everybody_acts()]
    rows = [MaskedEnvironment(game, opponents, shuffle_seats=False) for game in games]
    for _ in range(2):  # a game is played to its end, and another one is begun
        for env in rows:
            env.reset()
        for _ in range(3):
            for env in rows:
                env.act(GO)
        for game in games:
            for seat in "bc":
                own = [heard[seat] for heard in game.heard[-3:]]
                assert own == ["left", "right", "left"]
    assert agent.count == 0


class NotToBeCopied(Alternating):
    def __deepcopy__(self, memo):
        raise TypeError("it holds a socket")


def test_an_agent_that_cannot_be_copied_is_refused():
    with pytest.raises(errors.SettingError, match="cannot be copied: TypeError: it holds a socket"):
        MaskedEnvironment(everybody_acts(), NotToBeCopied())


def test_a_seat_that_leaves_and_comes_back_is_another_agent():
    b_leaves = {**EVERYBODY, "b": told(0.0, True)}
    game = Played(EVERYBODY, b_leaves, {"b": asked()}, EVERYBODY, EVERYBODY)
    env = MaskedEnvironment(game, Alternating(), shuffle_seats=False)
    env.reset()
    for _ in range(3):
        env.act(GO)
    assert [heard["b"] for heard in game.heard if "b" in heard] == ["left", "left", "right"]
    assert [heard["c"] for heard in game.heard if "c" in heard] == ["left", "right", "left"]


class Dice(Alternating):
    """Goes left or right at random."""

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def act(self, observation):
        self.count = int(self.rng.integers(2))
        return super().act(observation)


def test_random_numbers_of_an_agent_depend_on_the_seed_of_the_environment():
    def game_of(seed):
        game = everybody_acts()
        env = MaskedEnvironment(game, Dice(), shuffle_seats=False)
        for _ in range(8):
            env.seed(seed)
            env.reset()
            env.act(GO)
            seed += 1
        return game.heard

    assert game_of(1) == game_of(1) != game_of(20)


class TwoPolicies(RandomAgent):
    """Goes left at even seats, and right at odd ones."""

    side = 0

    def of_seat(self, seat):
        agent = TwoPolicies(self.obs_space, self.action_space)
        agent.side = seat % 2
        return agent

    def decide(self, obs):
        return Decision({"Go": np.array([self.side])})


def test_an_agent_plays_each_seat_with_its_policy():
    game = everybody_acts()
    agent = TwoPolicies(game.obs_space(), game.action_space())
    env = MaskedEnvironment(game, agent, shuffle_seats=False)
    env.reset()
    env.act(GO)
    assert game.heard[-1] == {"a": "right", "b": "right", "c": "left"}


def test_choices_of_opponents_are_checked():
    game = everybody_acts()
    agent = TwoPolicies(game.obs_space(), game.action_space())
    agent.of_seat = None
    agent.side = 2
    env = MaskedEnvironment(game, agent, shuffle_seats=False)
    env.reset()
    with pytest.raises(errors.ActionError, match="no choice 2"):
        env.act(GO)


def test_a_run_is_loaded_once_for_all_seats(monkeypatch):
    loaded, game = [], Secrets(5)

    def load(path, seed, trust):
        loaded.append(path)
        return RandomAgent(game.obs_space(), game.action_space())

    monkeypatch.setattr("entity_env.seats.seat_agents.load_agent", load)
    env = MaskedEnvironment(game, ["runs/one", "random", "runs/two", "runs/one"])
    assert loaded == ["runs/one", "runs/two"]
    env.reset()
    assert sorted(env.players.values()) == [
        *("random", "runs/one", "runs/one", "runs/two", "the learner")
    ]
