"""Search: hand-computed trees, games in which a careless search errs, and what it may not do."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ragged_envs.connect_four import ConnectFourRows
from ragged_envs.industry.job_shop import JobShopRows
from ragged_envs.industry.job_shop_scripts import most_work_remaining
from ragged_envs.poker import LeducPoker
from ragged_envs.tic_tac_toe import TicTacToe
from support.seat_games import asked, told
from support.tiny_envs import Farm
from support.trainer_runs import SMALL_NET, small_config

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    ListEnv,
    MultiPlayerEnvironment,
    Observation,
    ObsSpace,
)
from entity_env.agent import RandomAgent, random_policy
from entity_env.errors import SettingError
from entity_env.recording import EpisodeDataset
from entity_env.rows.compiled import Actors, CompiledGame, CompiledRows, Entities, Field, random_int
from entity_env.rows.single_game import CompiledEnvironment
from entity_env.seats.seat_rows import SeatRows
from ppo_trainer import SearchConfig, train
from ppo_trainer.evaluate import evaluate_run
from ppo_trainer.evaluation.matches import play_sides
from ppo_trainer.players.search import Search
from ppo_trainer.players.search_choices import ActorTable, Candidates, uniforms
from ppo_trainer.players.search_tree import SearchTrees, _halving
from ppo_trainer.record import record_run
from ppo_trainer.runs.load_run import load_policy
from ragged_net import EntityBatch, RaggedNet

# A line of seven tiles: three steps from the middle. The first one to the left pays 0.1, the last
# tile on the right 1.


def begin(g, game):
    g.at[game], g.left[game] = 3, 3


def step(g, game, chosen):
    reward = 0.1 if g.left[game] == 3 and chosen[0] == 0 else 0.0
    g.at[game] += 2 * chosen[0] - 1
    g.left[game] -= 1
    if g.at[game] == 6:
        reward = 1.0
    return reward, g.left[game] == 0


def walker(g, game, i, out):
    out[0], out[1] = g.at[game], g.left[game]


LINE = CompiledGame(
    obs_space=ObsSpace(entities={"Walker": Entity(["at", "left"])}),
    action_space={"Go": GlobalCategoricalActionSpace(["left", "right"])},
    state={"at": Field((), np.int64, 0, 6), "left": Field((), np.int64, 0, 3)},
    settings={},
    reset=begin,
    step=step,
    entities={"Walker": Entities(walker, 1, 1)},
    actions={"Go": Actors()},
)


class LineRows(CompiledRows):
    """The line as a game that the trainer makes rows of."""

    def __init__(self, num_envs, seed=0):
        super().__init__(LINE, num_envs, seed)
        self.interpret(resets=True)


class Line(CompiledEnvironment):
    """The line alone."""

    rows = LineRows

    def act(self, actions):
        raise AssertionError("rows play faster")


LineRows.environment = Line


class Evenly(Search):
    """A search whose network knows nothing: even probabilities, and values of 0."""

    def __init__(self, rows, visits=16, **options):
        settings = {n: options.pop(n) for n in ("chance", "candidates", "unit") if n in options}
        settings = SearchConfig(visits=visits, **settings)
        super().__init__(rows, None, settings, play_on=random_policy(0), **options)
        self._play_on, self.passes = None, []

    def _look(self, obs):
        table = ActorTable(obs)
        self.passes.append(obs.num_frames)
        return table, table.even(obs), self.value(obs)

    def value(self, obs):
        return np.zeros(obs.num_frames)


def chosen(search, obs, name="Go"):
    return search(obs)[name].as_array()[:, 0].tolist()


def rows_of(game, games=1):
    """Rows of a Python game, and their first observation."""
    rows = SeatRows(game, games * len(game().seats()))
    return rows, rows.reset()


# The arithmetic.


def test_sequential_halving_visits_each_choice_of_a_round_once():
    # Four choices and 8 visits: two rounds, of all four once (8 / 2 / 4 = 1) and of two twice.
    assert _halving(8, 4) == (
        (0, 4), (0, 3), (0, 2), (0, 1), (1, 2), (1, 1), (2, 2), (2, 1),
    )  # fmt: skip
    assert _halving(3, 1) == ((0, 1), (1, 1), (2, 1))
    assert [level for level, _ in _halving(3, 16)] == [0, 0, 0]


def two_choices(visits, unit=1.0, gamma=1.0):
    """One tree of a game of two seats, in which seat 0 has two choices of prior 3/4 and 1/4."""
    trees = SearchTrees(1, visits, 2, gamma, unit)
    places = np.arange(2)[None, :, None]
    found = Candidates(places, places, np.log([[0.75, 0.25]]))
    trees.add(0, np.array([0]), np.array([0]), found)
    trees.values[0, 0] = 0.5, -0.5
    trees.add_noise(None)
    return trees


def test_a_tree_by_hand():
    trees, key, yes = two_choices(visits=2, gamma=0.5), np.zeros(1, np.uint64), np.ones(1, bool)
    first = trees.descend(0, key)
    assert [own.tolist() for own in first] == [[0], [[0]], [-1]]  # the likely one
    trees.link(1, *first[:2], np.array([[0.2, -0.2]]), ~yes, ~yes, yes)
    trees.values[0, 1] = 0.6, -0.6
    trees.back_up(np.array([1]))
    # The return is 0.2 + 0.5 * 0.6 = 0.5. The other choice has the mean of the network's value and
    # of the values of visited choices: (0.5 + 1 * 0.5) / 2 = 0.5.
    scores, values = trees._scores(np.zeros(1, np.int64))
    assert values.ravel().tolist() == pytest.approx([0.5, 0.5])
    # The weight of values is (50 + 1) * 0.1.
    assert scores.ravel().tolist() == pytest.approx([2.55, 2.55])
    second = trees.descend(1, key)
    assert second[1].tolist() == [[1]]
    trees.link(2, *second[:2], np.array([[1.0, -1.0]]), yes, ~yes, yes)
    trees.back_up(np.array([2]))
    best, policy, value = trees.results()
    # Values 0.5 and 1.0: log(1/4) / 2 + 5.1 against log(3/4) / 2 + 2.55.
    odds = np.exp(2.55) / np.sqrt(3)
    assert best.tolist() == [[1]]
    assert policy.ravel().tolist() == pytest.approx([1 / (1 + odds), odds / (1 + odds)])
    assert value[0, 0] == pytest.approx((0.5 + odds) / (1 + odds))


def test_large_returns_are_compared_in_the_unit_of_their_range():
    for scale in (10.0, 1000.0):
        trees, yes = two_choices(visits=2), np.ones(1, bool)
        for number, reward in ((1, -scale), (2, scale)):
            position, picked, _ = trees.descend(number - 1, np.zeros(1, np.uint64))
            trees.link(number, position, picked, np.array([[reward, 0.0]]), yes, ~yes, yes)
            trees.back_up(np.array([number]))
        assert trees._scores(np.zeros(1, np.int64))[0].ravel().tolist() == pytest.approx(
            [-5.1, 5.1]
        )


def test_random_numbers_depend_on_their_key_only():
    keys = np.array([3, 5, 3], np.uint64)
    numbers = uniforms(keys, 4, 1000)
    assert numbers.shape == (3, 4, 1000)
    assert np.array_equal(numbers[0], numbers[2])
    assert ((numbers > 0) & (numbers < 1)).all()
    assert abs(numbers[:2].mean() - 0.5) < 0.02


# Games of one player.


def test_it_finds_what_pays_three_steps_later():
    rows = CompiledRows(LINE, 3)
    rows.interpret(resets=True)
    obs, before = rows.reset(), rows.get_state()
    # One visit each shows 0.1 on the left and 0 on the right, and only more the 1 behind that.
    assert chosen(Evenly(rows, visits=2), obs) == [0, 0, 0]
    search = Evenly(rows, visits=40)
    assert chosen(search, obs) == [1, 1, 1]
    assert rows.get_state() == before
    assert search.passes[:3] == [3, 3, 3]  # all games in one pass
    total = np.zeros(3)
    for _ in range(3):
        obs = rows.act(search(obs))
        total += obs.reward
    assert total.tolist() == [1.0] * 3


def test_gamma_says_how_much_later_rewards_are_worth():
    rows = CompiledRows(LINE, 1)
    rows.interpret(resets=True)
    # 0.1 now is more than 1 after two more steps at 0.2 * 0.2.
    assert chosen(Evenly(rows, visits=40, gamma=0.2), rows.reset()) == [0]


def test_what_comes_after_the_end_counts_for_nothing():
    class Hopeful(Evenly):
        def value(self, obs):
            return np.full(obs.num_frames, 7.0)

    rows = CompiledRows(LINE, 1)
    rows.interpret(resets=True)
    rows.reset()
    (saved,) = rows.get_state()
    saved["env"] |= {"at": 5, "left": 1}  # one step on the right pays 1, and both end the game
    obs = rows.set_state([saved])
    found = Hopeful(rows, visits=20)._search(obs, np.zeros(1, np.uint64), noisy=False)
    # Values 0 and 1, even prior, weight (50 + 10) * 0.1 of half the range 1.
    odds = np.exp(6.0)
    assert found.policy[0].tolist() == pytest.approx([1 / (1 + odds), odds / (1 + odds)])


def test_a_player_that_plays_on_replaces_values():
    rows = CompiledRows(LINE, 2)
    rows.interpret(resets=True)

    def to_the_right(obs):
        return obs.ragged_actions({"Go": np.ones(obs.num_frames, np.int64)})

    search = Search(rows, None, SearchConfig(visits=2), play_on=to_the_right)
    found = search._search(rows.reset(), np.zeros(2, np.uint64), noisy=False)
    assert found.best.tolist() == [1, 1]
    # Left and then right pays 0.1; right and then right pays 1. The player's choice, the right, has
    # the probability 3/4, of which the square root counts.
    odds = np.sqrt(3) * np.exp(5.1 * 0.9)
    assert found.values[0] == pytest.approx((0.1 + odds) / (1 + odds))


def test_the_choice_of_the_player_that_plays_on_comes_first():
    rows = JobShopRows(3, jobs=4, machines=3, seed=1, waiting=False)
    rows.interpret(resets=True)
    obs, rule = rows.reset(), most_work_remaining.act_rows
    one = Search(rows, None, SearchConfig(visits=1), play_on=rule)
    assert one(obs)["Dispatch"].as_array().tolist() == rule(obs)["Dispatch"].as_array().tolist()


def test_games_that_are_played_on_do_not_depend_on_those_that_have_ended():
    """Shops of 1 to 9 jobs: those that have ended are left out, and late jobs cost at the end."""
    rows = JobShopRows(6, jobs=(1, 9), machines=2, arrivals=True, tightness=1.0, load=9.0, seed=1)
    rows.interpret(resets=True)
    search = Search(rows, None, SearchConfig(visits=2), play_on=most_work_remaining.act_rows)
    obs, keys = rows.reset(), np.arange(6, dtype=np.uint64)
    together = search._search(obs, keys, noisy=False).values
    for game in range(6):
        alone = search._search(obs, keys, noisy=False, games=np.array([game])).values
        assert alone == pytest.approx(together[game])


class Coin(Environment):
    """The safe choice pays 0.4; the other one 1 or -1, as a coin falls that is thrown then."""

    def obs_space(self):
        return ObsSpace(entities={"Coin": Entity(["thrown"])})

    def action_space(self):
        return {"Go": GlobalCategoricalActionSpace(["safe", "throw"])}

    def _seen(self, reward=0.0, done=False):
        actions = {} if done else {"Go": GlobalCategoricalActionMask()}
        return Observation(features={"Coin": [[0]]}, actions=actions, reward=reward, done=done)

    def reset(self):
        return self._seen()

    def act(self, actions):
        if actions["Go"].index == 0:
            return self._seen(0.4, True)
        return self._seen(1.0 if self.rng.random() < 0.5 else -1.0, True)

    def get_state(self):
        return 0

    def set_state(self, state):
        return self.reset()


@pytest.mark.parametrize("seed", range(4))
def test_a_search_does_not_know_how_the_coin_will_fall(seed):
    rows = ListEnv(Coin, 8, seed)
    obs = rows.reset()
    known = chosen(Evenly(rows, visits=2, chance="known"), obs)
    drawn = chosen(Evenly(rows, visits=160), obs)
    fell = rows.act(obs.ragged_actions({"Go": np.ones(8, np.int64)})).reward
    assert known == (fell > 0).astype(int).tolist()
    assert drawn == [0] * 8


class Weather(Coin):
    """Luck from 0 to 1 is the same for both choices; the second one pays 0.01 more."""

    def act(self, actions):
        return self._seen(self.rng.random() + 0.01 * actions["Go"].index, True)


def test_choices_are_compared_with_the_same_luck():
    rows = ListEnv(Weather, 32, seed=3)
    # Two visits compare both choices once, four compare them twice.
    for visits in (2, 4):
        assert chosen(Evenly(rows, visits=visits), rows.reset()) == [1] * 32
    search = Evenly(rows, visits=4)
    found = search._search(rows.reset(), np.arange(32, dtype=np.uint64), noisy=False)
    # The mean of two draws is closer to 0.5 than one, so that each round has its own luck.
    assert 0.15 < np.std(found.values) < 0.25  # 0.289 / sqrt(2) = 0.204


class Guess(Environment):
    """A hidden card: to name it pays 1, to pass 0.6."""

    hides_state = True

    def obs_space(self):
        return ObsSpace(entities={"Card": Entity(["back"])})

    def action_space(self):
        return {"Go": GlobalCategoricalActionSpace(["0", "1", "pass"])}

    def _seen(self, reward=0.0, done=False):
        actions = {} if done else {"Go": GlobalCategoricalActionMask()}
        return Observation(features={"Card": [[0]]}, actions=actions, reward=reward, done=done)

    def reset(self):
        self.card = int(self.rng.integers(2))
        return self._seen()

    def act(self, actions):
        named = actions["Go"].index
        return self._seen(0.6 if named == 2 else float(named == self.card), True)

    def get_state(self):
        return self.card

    def set_state(self, state):
        self.card = state
        return self._seen()


class Dealt(Guess):
    """The same game, which draws the card anew for a search."""

    def resample(self, seat=None):
        self.card = int(self.rng.integers(2))


def test_a_search_does_not_know_a_hidden_card():
    rows = ListEnv(Dealt, 60, seed=2)
    obs = rows.reset()
    cards = [state["env"] for state in rows.get_state()]
    assert chosen(Evenly(rows, visits=3, chance="known"), obs) == cards
    named = np.array(chosen(Evenly(rows, visits=60), obs))
    # A few draws name a card, or pass; the card in the game has nothing to do with it.
    assert (named == 2).any()
    assert 0.25 < (named == cards)[named < 2].mean() < 0.75
    assert [state["env"] for state in rows.get_state()] == cards
    with pytest.raises(SettingError, match="hides something from its players"):
        Evenly(ListEnv(Guess, 1))


def test_nothing_that_a_search_returns_depends_on_a_hidden_card():
    def name_0(obs):
        return obs.ragged_actions({"Go": np.zeros(obs.num_frames, np.int64)})

    rows = ListEnv(Dealt, 2)
    rows.reset()
    state = rows.get_state()
    state[0]["env"], state[1]["env"] = 0, 1
    obs = rows.set_state(state)
    search = Search(rows, None, SearchConfig(visits=2), play_on=name_0)
    found = search._search(obs, np.array([5, 5], np.uint64), noisy=True)
    assert found.policy[0].tolist() == found.policy[1].tolist()
    assert found.values[0] == found.values[1]


def hidden_begin(g, game):
    g.card[game] = random_int(g.random, game, 0, 1)


def hidden_step(g, game, chosen):
    return (0.6 if chosen[0] == 2 else float(chosen[0] == g.card[game])), True


def hidden_back(g, game, i, out):
    out[0] = 0


def test_a_compiled_game_draws_anew_what_it_hides():
    game = CompiledGame(
        obs_space=ObsSpace(entities={"Card": Entity(["back"])}),
        action_space={"Go": GlobalCategoricalActionSpace(["0", "1", "pass"])},
        state={"card": Field((), np.int64, 0, 1)},
        settings={},
        reset=hidden_begin,
        step=hidden_step,
        entities={"Card": Entities(hidden_back, 1, 1)},
        actions={"Go": Actors()},
        hides=True,
        resample=hidden_begin,
    )
    rows = CompiledRows(game, 60, seed=4)
    rows.interpret(resets=True)
    obs = rows.reset()
    cards = rows.copy_games(range(60)).fields["card"]
    assert chosen(Evenly(rows, visits=3, chance="known"), obs) == cards.tolist()
    named = np.array(chosen(Evenly(rows, visits=60), obs))
    assert (named == 2).any()
    assert 0.25 < (named == cards)[named < 2].mean() < 0.75
    refused = CompiledRows(replace(game, resample=None), 1)
    with pytest.raises(SettingError, match="hides something from its players"):
        Evenly(refused)


def test_poker_deals_what_a_seat_does_not_see():
    game = LeducPoker()
    game.seed(1)
    game.reset()
    seen = set()
    for _ in range(60):
        game.set_state({"cards": [2, 0, 1], "bets": [[]]})
        game.resample("first")
        seen.add(tuple(game.cards))
    # Leduc has two cards of each of three ranks: all but the first seat's own are possible.
    assert {cards[0] for cards in seen} == {2}
    assert {cards[1:] for cards in seen} == {(a, b) for a in range(3) for b in range(3)} - {(2, 2)}
    rows, obs = rows_of(LeducPoker, games=2)
    assert len(chosen(Evenly(rows, visits=6), obs, "Bet")) == 2


class Pair(Environment):
    """Two robots: both must choose the same number, which pays it."""

    def obs_space(self):
        return ObsSpace(entities={"Robot": Entity(["number"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["0", "1", "2"])}

    def _seen(self, reward=0.0, done=False):
        mask = [[True, True, True], [True, True, False]]
        actions = {} if done else {"Go": CategoricalActionMask(actor_ids=["a", "b"], mask=mask)}
        robots = {"features": {"Robot": [[0], [1]]}, "ids": {"Robot": ["a", "b"]}}
        return Observation(**robots, actions=actions, reward=reward, done=done)

    def reset(self):
        return self._seen()

    def act(self, actions):
        a, b = (int(own) for own in actions["Go"].indices)
        return self._seen(float(a) if a == b else -1.0, True)

    def get_state(self):
        return 0

    def set_state(self, state):
        return self.reset()


def test_several_actors_choose_together():
    rows = ListEnv(Pair, 2)
    search = Evenly(rows, visits=16)
    obs = rows.reset()
    assert search(obs)["Go"].as_array()[:, 0].tolist() == [1, 1, 1, 1]
    found = search._search(obs, np.arange(2, dtype=np.uint64), noisy=True)
    real = np.isfinite(found.candidates.log_prior)
    for places, known in zip(found.candidates.places, real, strict=True):
        joint = [tuple(own) for own in places[known].tolist()]
        assert len(set(joint)) == len(joint) <= 6  # without replacement
        assert all(b < 2 for _, b in joint)  # nothing that a mask forbids
    table = ActorTable(obs)
    shares = table.spread(found.candidates, found.frames, found.policy)["Go"].reshape(2, 2, 3)
    assert shares.sum(axis=2) == pytest.approx(np.ones((2, 2)))
    assert (shares[:, :, 1] > 0.9).all()
    assert (shares[:, 1, 2] == 0).all()


def test_it_selects_entities_that_are_allowed():
    rows = JobShopRows(2, jobs=3, machines=2, seed=1)
    rows.interpret(resets=True)
    search, obs = Evenly(rows, visits=8), rows.reset()
    ended = np.zeros(2, bool)
    while not ended.all():
        obs = rows.act(search(obs))  # what is not allowed would be refused
        ended |= obs.done


# Games of several players.


def board(cells, turn):
    rows, _ = rows_of(TicTacToe)
    saved = rows.get_state()
    saved[1]["inside"] = True
    saved[0]["game"]["env"] = {"board": cells, "turn": turn}
    return rows, rows.set_state(saved)


def test_it_takes_a_win_and_stops_that_of_the_other():
    # X X .   O O .   . . .: X at 2 wins.
    rows, obs = board([1, 1, 0, 2, 2, 0, 0, 0, 0], 0)
    assert chosen(Evenly(rows, visits=40), obs, "Mark") == [1 + 2]
    # X X .   . O .   . . .: O must go to 2.
    rows, obs = board([1, 1, 0, 0, 2, 0, 0, 0, 0], 1)
    assert chosen(Evenly(rows, visits=120), obs, "Mark") == [1 + 2]


def test_it_sees_a_threat_of_two_lines():
    # X . .   . O .   . . X: in a corner O would lose, because X takes the last one.
    rows, obs = board([1, 0, 0, 0, 2, 0, 0, 0, 1], 1)
    (cell,) = chosen(Evenly(rows, visits=150), obs, "Mark")
    assert cell - 1 in (1, 3, 5, 7)


class Dilemma(MultiPlayerEnvironment):
    """Both choose at once: silence pays 3 each, talk pays 1 each, and alone 5 against 0."""

    def obs_space(self):
        return ObsSpace(entities={"Card": Entity(["number"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["silence", "talk"])}

    def seats(self):
        return ["a", "b"]

    def reset(self):
        return {seat: asked(number) for number, seat in enumerate(self.seats())}

    def act(self, actions):
        a, b = (int(actions[seat]["Go"].indices[0]) for seat in self.seats())
        pay = {(0, 0): (3, 3), (0, 1): (0, 5), (1, 0): (5, 0), (1, 1): (1, 1)}[a, b]
        return {seat: told(float(own), True) for seat, own in zip(self.seats(), pay, strict=True)}

    def get_state(self):
        return 0

    def set_state(self, state):
        return self.reset()


def test_seats_that_act_at_once_choose_independently():
    """To talk is better whatever the other one does: 5 and 1 against 3 and 0."""
    rows, obs = rows_of(Dilemma, games=10)
    assert chosen(Evenly(rows, visits=60), obs) == [1] * 20


class Leaving(Dilemma):
    """Three choose at once; then c is out, and a alone chooses: talk pays 1, silence nothing."""

    def seats(self):
        return ["a", "b", "c"]

    def reset(self):
        self.is_late = False
        return super().reset()

    def act(self, actions):
        if not self.is_late:
            self.is_late = True
            return {"a": asked(0), "c": told(0.0, True)}
        reward = float(actions["a"]["Go"].indices[0])
        return {"a": told(reward, True), "b": told(0.0, True)}

    def get_state(self):
        return self.is_late

    def set_state(self, state):
        seen = self.reset()
        self.is_late = state
        return {"a": asked(0)} if state else seen


def test_whoever_has_left_is_not_waited_for():
    rows, obs = rows_of(Leaving)
    obs = rows.act(obs.ragged_actions({"Go": np.zeros(3, np.int64)}))
    assert obs.rows.tolist() == [0]
    assert chosen(Evenly(rows, visits=20), obs) == [1]


class Number(Dilemma):
    """The first seat chooses a number, the second one sees it, and both are paid."""

    NUMBERS = 0.2, -0.7, 0.9, -0.4

    def __init__(self, sign=1, unit=1.0):
        self.sign, self.unit = sign, unit

    def action_space(self):
        return {"Go": CategoricalActionSpace(["0", "1", "2", "3"])}

    def reset(self):
        self.shown = None
        return {"a": asked(0)}

    def act(self, actions):
        if self.shown is None:
            return self.set_state(self.NUMBERS[actions["a"]["Go"].indices[0]] * self.unit)
        return {"a": told(self.sign * self.shown, True), "b": told(self.shown, True)}

    def get_state(self):
        return self.shown

    def set_state(self, state):
        self.shown = state
        return {"a": asked(0)} if state is None else {"b": asked(state)}


class Sees(Evenly):
    """A search whose network expects the number that is shown."""

    def value(self, obs):
        return obs.features["Card"].as_array()[:, 0].astype(np.float64)


@pytest.mark.parametrize(("sign", "best"), [(1, 2), (-1, 1)])
@pytest.mark.parametrize("unit", [1.0, 1000.0])
@pytest.mark.parametrize("kind", [Evenly, Sees])
def test_each_seat_has_its_own_value(sign, best, unit, kind):
    """Together the greatest number is the best, against each other the least one."""
    rows, obs = rows_of(lambda: Number(sign, unit))
    assert chosen(kind(rows, visits=16), obs) == [best]


class Advance(Dilemma):
    """The first seat is paid 2 after its choice; then the second one is asked, and loses 1."""

    def reset(self):
        return self.set_state(0)

    def act(self, actions):
        self.at += 1
        end = {"a": told(0.0, True), "b": told(-1.0, True)}
        return ({"a": told(2.0)}, {"b": asked(3)}, end)[self.at - 1]

    def get_state(self):
        return self.at

    def set_state(self, state):
        self.at = state
        return {"b": asked(3)} if state else {"a": asked(5)}


def test_the_value_of_a_seat_that_sees_nothing_follows_from_the_other_one():
    rows, obs = rows_of(Advance)
    search = Sees(rows, visits=1)
    # Returns are always 2 and -1: -2 for each unit of the other one, and -1/2.
    assert search._relations.tolist() == [[1.0, -2.0], [-0.5, 1.0]]
    search._relations = np.array([[1.0, -0.5], [-0.8, 1.0]])
    found = search._search(obs, np.zeros(1, np.uint64), noisy=False)
    # The first seat is paid 2, also while no seat must act. The network says 5 before, and 3 for
    # the other one now. Of that counts -0.5 * -0.8 = 0.4, and of what was expected and is not yet
    # paid the rest: 2 + 0.4 * -0.5 * 3 + 0.6 * (5 - 2) = 3.2. One visit of two choices: the other
    # one has the mean of 5 and 3.2, 4.1.
    weight = np.exp(5.1 * (4.1 - 3.2))
    assert found.values[0] == pytest.approx((3.2 + 4.1 * weight) / (1 + weight))


# Batches, refusals, runs.


def test_the_choices_of_a_game_do_not_depend_on_its_neighbours():
    rows, obs = rows_of(TicTacToe, games=3)
    obs = rows.act(obs.ragged_actions({"Mark": np.array([1, 5, 9])}))
    keys = np.array([7, 8, 9], np.uint64)
    search = Evenly(rows, visits=12)
    together = search._search(obs, keys, noisy=True)
    for game in range(3):
        alone = search._search(obs, keys, noisy=True, games=np.array([game]))
        assert alone.frames.tolist() == [game]
        width = alone.policy.shape[1]
        assert np.array_equal(alone.policy[0], together.policy[game, :width])
        assert np.array_equal(alone.values[0], together.values[game])
        assert alone.best[0] == together.best[game]


class Numbers(Farm):
    def has_state(self):
        return False


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(SettingError, match="rows cannot be searched"):
        Evenly(ListEnv(Numbers, 2))
    with pytest.raises(SettingError, match="needs a player that plays on"):
        Search(CompiledRows(LINE, 1), None)
    rows = CompiledRows(LINE, 1)
    remembers = replace(SMALL_NET, memory="lstm", memory_size=8)
    net = RaggedNet(rows.obs_space(), rows.action_space(), remembers)
    with pytest.raises(SettingError, match="network with a memory cannot search"):
        Search(rows, net)


def test_a_search_improves_what_a_network_has_drawn():
    rows = ConnectFourRows(8)
    rows.interpret(resets=True)
    torch.manual_seed(1)
    net = RaggedNet(rows.obs_space(), rows.action_space(), SMALL_NET)
    search = Search(rows, net, SearchConfig(visits=4, share=0.5))
    obs = rows.reset()
    output = net(EntityBatch.from_obs(obs), greedy=True)
    better, targets = search.improve(obs, output, torch.Generator().manual_seed(3))
    policy = targets["Drop"].values.reshape(4, 7)
    searched = policy.sum(dim=1) > 0
    assert searched.sum() == 2  # half of four games
    assert policy[searched].sum(dim=1).tolist() == pytest.approx([1, 1])
    assert torch.equal(better.value[~searched], output.value[~searched])
    assert not torch.equal(better.value[searched], output.value[searched])
    again = net(
        EntityBatch.from_obs(obs), given={"Drop": better.actions["Drop"].chosen.values}
    ).actions["Drop"]
    assert torch.allclose(better.actions["Drop"].log_prob, again.log_prob, atol=1e-5)
    rows.act(better.actions_for(obs))


def test_a_run_is_evaluated_with_a_search(tmp_path):
    config = small_config(run_dir=str(tmp_path), total_timesteps=24)
    run = train(config, env=LineRows).run
    ahead, _, sampled, _ = evaluate_run(run, LineRows, episodes=8, search=60)
    assert ahead.player == "agent, 60 visits"
    assert ahead.mean("episodic_reward") == 1.0
    assert sampled.mean("episodic_reward") < 1.0
    made = record_run(run, tmp_path / "games", LineRows, episodes=8, rows=4, search=60)
    assert (made.rewards.count, made.rewards.mean) == (8, 1.0)
    assert not EpisodeDataset(tmp_path / "games").has_log_probs
    with pytest.raises(SettingError, match="without --greedy"):
        record_run(run, tmp_path / "more", LineRows, search=3, greedy=True)
    with pytest.raises(SettingError, match="number of visits"):
        record_run(run, tmp_path / "more", LineRows, search=0)


def test_a_search_plays_against_opponents(tmp_path):
    config = small_config(
        total_timesteps=24, run_dir=str(tmp_path), env={"_target_": "tic_tac_toe"}
    )
    run = train(config).run
    ahead, plain = evaluate_run(run, episodes=4, search=2, against=["random"])
    assert (ahead.player, plain.player) == ("against random, 2 visits", "against random")
    loaded = load_policy(run)
    chance = RandomAgent(loaded.net.obs_space, loaded.net.action_space, seed=1)
    played = play_sides(
        lambda rows: Evenly(rows, visits=80), loaded.game, loaded.config, 10, chance, seed=3
    )
    assert played["win"].mean() >= 0.85


def test_random_candidates_are_played_and_the_search_teaches_as_usual():
    rows = ConnectFourRows(400)
    rows.interpret(resets=True)
    net, obs = RaggedNet(rows.obs_space(), rows.action_space(), SMALL_NET), rows.reset()
    output = net(EntityBatch.from_obs(obs), greedy=True)
    improved = [
        Search(rows, net, SearchConfig(visits=2, epsilon=epsilon)).improve(
            obs, output, torch.Generator().manual_seed(2)
        )
        for epsilon in (0.0, 0.5, 1.0)
    ]
    best, half, every = (output.actions["Drop"].chosen.values.numpy() for output, _ in improved)
    # A random one of seven columns differs with a probability of 6/7.
    assert 0.3 < (best != half).mean() < 0.55 < 0.75 < (best != every).mean()
    assert set(every.tolist()) == set(range(1, 8))
    policies = [targets["Drop"].values for _, targets in improved]
    assert torch.equal(policies[0], policies[1])
    assert torch.equal(policies[0], policies[2])
