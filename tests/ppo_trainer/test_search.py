"""Search: it sees wins and threats, it needs a game to look into, and a guide guides it."""

import numpy as np
import pytest
from ragged_envs.connect_four import ConnectFour
from ragged_envs.tic_tac_toe import PerfectPlayer, TicTacToe
from support.seat_games import asked, told
from support.tiny_envs import Farm

from entity_env import (
    CategoricalActionSpace,
    Entity,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    MaskedEnvironment,
    MultiPlayerEnvironment,
    Observation,
    ObsSpace,
)
from entity_env.agent import Decision
from entity_env.errors import SettingError
from ppo_trainer.players.search import SearchAgent
from ppo_trainer.players.search_tree import ChoiceCounts, ValueRange


def searching(board, turn, **options):
    """A search in a position of tic-tac-toe, and what is shown there."""
    game = TicTacToe()
    agent = SearchAgent(TicTacToe, **options)
    agent.attach(game)
    told = game.set_state({"board": board, "turn": turn})
    return agent, told["XO"[turn]]


def cell(actions):
    return actions["Mark"].actees[0][1]


def test_it_takes_a_win_that_is_there():
    # X X .   O O .   . . .: X at 2 wins.
    agent, seen = searching([1, 1, 0, 2, 2, 0, 0, 0, 0], 0, visits=100)
    assert cell(agent.act(seen)) == 2
    assert agent.visits_per_second > 0


def test_it_stops_a_win_of_the_other():
    # X X .   . O .   . . .: O must go to 2.
    agent, seen = searching([1, 1, 0, 0, 2, 0, 0, 0, 0], 1, visits=300)
    assert cell(agent.act(seen)) == 2


def test_the_game_that_is_played_is_left_as_it_was():
    agent, seen = searching([1, 0, 0, 0, 2, 0, 0, 0, 0], 0, visits=50, trees=3)
    before = agent._live.get_state()
    agent.act(seen)
    assert agent._live.get_state() == before


def test_it_does_not_lose_to_who_plays_perfectly():
    agent = SearchAgent(TicTacToe, visits=300, seed=1)
    env = MaskedEnvironment(TicTacToe, opponents=agent)
    env.seed(3)
    perfect, rewards = PerfectPlayer(4), []
    for _ in range(4):
        seen = env.reset()
        while not seen.done:
            seen = env.act(perfect(seen))
        rewards.append(seen.reward)
    assert rewards == [0.0] * 4


class Column3:
    """A guide that is sure of column 3, and expects nothing."""

    def decide(self, obs):
        mask = obs.action_masks["Drop"]
        actees = mask.actees.as_array()[:, 0]
        probs = np.where(np.arange(len(actees)) == 3, 0.97, 0.005).astype(np.float32)
        return Decision({}, {"Drop": probs[None]}, 0.0)


def test_a_guide_guides_it():
    game = ConnectFour()
    agent = SearchAgent(ConnectFour, visits=30, guide=Column3())
    agent.attach(game)
    seen = game.reset()
    (first,) = seen.values()
    assert agent.act(first)["Drop"].actees == [list(first.ids["Column"])[3]]


def test_the_same_seed_chooses_the_same():
    chosen = []
    for _ in range(2):
        agent, seen = searching([0] * 9, 0, visits=40, seed=5)
        chosen.append(cell(agent.act(seen)))
    assert chosen[0] == chosen[1]


def test_what_it_cannot_do_it_says():
    with pytest.raises(SettingError, match="not attached to a game"):
        SearchAgent(TicTacToe).act(TicTacToe().reset()["X"])
    with pytest.raises(SettingError, match="number of visits"):
        SearchAgent(TicTacToe, visits=0)
    agent, _ = searching([0] * 9, 0)
    with pytest.raises(SettingError, match="cannot be searched"):
        SearchAgent(lambda: Farm())
    with pytest.raises(SettingError, match="not one of the attached game"):
        agent.act(TicTacToe().set_state({"board": [1] + [0] * 8, "turn": 1})["O"])


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


@pytest.mark.parametrize("seat", ["a", "b"])
def test_seats_that_are_asked_at_once_choose_at_once(seat):
    """To talk is better whatever the other one does: 5 and 1 against 3 and 0."""
    game, agent = Dilemma(), SearchAgent(Dilemma, visits=200)
    agent.attach(game)
    assert agent.act(game.reset()[seat])["Go"].indices.tolist() == [1]


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
    game = Leaving()
    seen = game.set_state(True)["a"]
    agent = SearchAgent(Leaving, visits=20)
    agent.attach(game, lambda: {0, 1})
    assert agent.act(seen)["Go"].indices.tolist() == [1]


class Roles(Dilemma):
    """Both choose at once: the first seat is paid for choice 0, the second one for choice 1.

    Only a global feature tells the seats who they are; with ``is_told=False`` nothing does.
    """

    def __init__(self, is_told=True):
        self.is_told = is_told

    def obs_space(self):
        return ObsSpace(global_features=["role"])

    def action_space(self):
        return {"Go": GlobalCategoricalActionSpace(["0", "1"])}

    def reset(self):
        return {seat: self._see(number) for number, seat in enumerate("ab")}

    def act(self, actions):
        paid = [float(actions[seat]["Go"].index == number) for number, seat in enumerate("ab")]
        return {
            seat: self._see(number, reward=paid[number], done=True)
            for number, seat in enumerate("ab")
        }

    def _see(self, number, reward=0.0, done=False):
        actions = {} if done else {"Go": GlobalCategoricalActionMask()}
        role = [number * self.is_told]
        return Observation(global_features=role, actions=actions, reward=reward, done=done)


@pytest.mark.parametrize(("number", "seat"), [(0, "a"), (1, "b")])
def test_the_seat_that_asks_is_told_by_everything_that_it_sees(number, seat):
    game, agent = Roles(), SearchAgent(Roles, visits=20)
    agent.attach(game)
    assert agent.act(game.reset()[seat])["Go"].index == number
    game, agent = Roles(is_told=False), SearchAgent(lambda: Roles(False), visits=20)
    agent.attach(game)
    with pytest.raises(SettingError, match="several seats observe this: 'a', 'b'"):
        agent.act(game.reset()[seat])
    agent.attach(game, seat=seat)
    assert agent.act(game.reset()[seat])["Go"].index == number
    agent.attach(game, seat="nobody")
    with pytest.raises(SettingError, match="seat 'nobody'"):
        agent.act(game.reset()[seat])


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


class Sees:
    """A guide that expects the number that is shown, and prefers nothing."""

    def decide(self, obs):
        value = float(obs.features["Card"].as_array()[0, 0])
        return Decision({}, {"Go": np.full((1, 4), 0.25, np.float32)}, value)


@pytest.mark.parametrize(("sign", "best"), [(1, 2), (-1, 1)])
@pytest.mark.parametrize("unit", [1.0, 1000.0, 0.001])
@pytest.mark.parametrize("guide", [None, Sees()])
def test_each_seat_has_its_own_value_in_any_unit(sign, best, unit, guide):
    """Together the greatest number is the best, against each other the least one."""
    game = Number(sign, unit)
    agent = SearchAgent(lambda: Number(sign, unit), visits=16, guide=guide)
    agent.attach(game)
    assert agent.act(game.reset()["a"])["Go"].indices.tolist() == [best]


def test_the_visits_of_all_trees_count():
    """Two trees of three visit choice 0, the last one choice 1."""
    game, agent = Number(), SearchAgent(Number, visits=2, trees=3)
    picks = iter([0, 0, 0, 0, 1, 1])
    agent._pick = lambda seat, asked, seen: next(picks) if seat == 0 else 0
    agent.attach(game)
    assert agent.act(game.reset()["a"])["Go"].indices.tolist() == [0]


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


def test_the_value_of_a_seat_that_sees_nothing_is_guessed_from_the_other_one():
    agent = SearchAgent(Advance, guide=Sees())
    game = agent._table.game
    # Returns are always 2 and -1: -2 for each unit of the other one, and -1/2.
    assert agent._relations().tolist() == [[1.0, -2.0], [-0.5, 1.0]]
    agent._pay = np.array([[1.0, -0.5], [-0.8, 1.0]])
    root = agent._node(0, agent._read(agent._table.set_state(0, (0, 1))), (0, 1), {})
    after, rewards = agent._expand(root, {0: 0})
    assert (game.at, rewards) == (2, {0: 2.0, 1: 0.0})
    # The guide says 5 before and 3 for the other one now. Of that counts -0.5 * -0.8 = 0.4, and of
    # what was expected and is not yet paid the rest: 0.4 * -0.5 * 3 + 0.6 * (5 - 2) = 1.2.
    assert after.value == pytest.approx({0: 1.2, 1: 3.0})


def test_visits_follow_the_prior_where_values_are_alike():
    """PUCT divides the prior by 1 + visits: of 100 visits 60 and 40, and none to prior 0."""
    counts, seen = ChoiceCounts(np.arange(3), np.array([0.6, 0.4, 0.0]), 0.0), ValueRange()
    for _ in range(100):
        counts.note(counts.puct(1.0, seen), 0.0)
    assert counts.visits.tolist() == [60, 40, 0]


def test_values_are_compared_from_the_least_to_the_most_that_was_seen():
    seen = ValueRange()
    assert seen.scale(np.array([5.0, 7.0])).tolist() == [0, 0]
    seen.note(-2000.0)
    seen.note(2000.0)
    assert seen.scale(np.array([-9000.0, -1000.0, 2000.0])).tolist() == [0, 0.25, 1]
