"""Rows of which opponents play some: what reaches the learner, and what never does."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from ragged_envs.tic_tac_toe import TicTacToe
from support.seat_games import Played, asked, told
from support.trainer_runs import collect_with, small_config

from entity_env import CategoricalAction, ParallelEnv, RandomAgent, ScriptedAgent, SeatRows, errors
from entity_env.batching.kinds.answers import INDEX
from ppo_trainer.config import PPOConfig, RolloutConfig
from ppo_trainer.players.game_rows import check_sides
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows
from ragged_net import NetConfig, RaggedNet

GAME = (
    {"a": asked(1.0), "b": told(0.0)},
    {"a": told(0.5), "b": asked(9.0, reward=0.25)},
    {"a": told(2.0), "b": asked(9.0)},
    {"a": asked(1.0, reward=1.0), "b": told(7.0)},
    {"a": told(3.0, True, win=1.0), "b": told(-1.0, True, win=0.0)},
)
"""a decides twice: 0.5 + 2 + 1 = 3.5 for the first decision, 3 for the second one."""


class Draws:
    """Plays lineups from a list, again and again, and notes what it hears."""

    def __init__(self, *lineups, agents=None):
        self.lineups, self.agents, self.drawn, self.heard = lineups, agents or {}, 0, []

    def draw(self, game):
        self.drawn += 1
        return self.lineups[(self.drawn - 1) % len(self.lineups)]

    def agent(self, name):
        return self.agents[name]

    def ended(self, lineup, score):
        self.heard.append((lineup.opponent, lineup.side, score))

    def shown_name(self, name):
        return name


def left(observation):
    ids = observation.ids["Card"]
    return {"Go": CategoricalAction(ids, np.zeros(len(ids), np.int64), ["left", "right"])}


def rows_of(make, draws, num_envs=2, sides=((0,), (1,))):
    return OpponentRows(SeatRows(make, num_envs, seed=1), sides, draws)


def spaces(game):
    return game.obs_space(), game.action_space()


def small_net(game):
    torch.manual_seed(0)
    return RaggedNet(*spaces(game), NetConfig(dim=16, layers=1, heads=2))


def rollout(rows, net, decisions):
    config = small_config(
        rollout=RolloutConfig(num_envs=len(rows), steps=decisions // len(rows)),
        ppo=PPOConfig(minibatch_size=4),
    )
    generator = torch.Generator().manual_seed(0)
    return collect_with(net, rows, rows.reset(), config, generator)


def test_what_arrives_while_opponents_move_belongs_to_the_learners_last_decision():
    game = Played(*GAME, seats=("a", "b"))
    draws = Draws(Lineup("left", 0), agents={"left": ScriptedAgent(left, *spaces(game))})
    rows = rows_of(lambda: game, draws)
    collected = rollout(rows, small_net(game), 8)
    known = collected.trajectories
    assert known.decisions.rows.tolist() == [0] * 8
    assert known.decisions.rewards.tolist() == [3.5, 3.0] * 4
    assert known.ends.tolist() == [False, True] * 4
    # No frame of the opponent, whose card shows 9, is in the buffer.
    cards = known.decisions.batch.entities["Card"].values[:, 0].tolist()
    assert cards == [1.0] * 8
    assert all(said.get("b", "left") == "left" for said in game.heard)
    assert collected.metrics["win_vs_left"].mean == 1.0
    # Four games; the return of the learner alone is counted: 3.5 + 3.
    assert collected.metrics["episodic_reward"].count == 4
    assert collected.metrics["episodic_reward"].mean == 6.5
    assert draws.heard == [("left", 0, 1.0)] * 4


def test_seats_change_and_the_last_reward_of_a_game_stays_with_who_played_it():
    game = Played(*GAME, seats=("a", "b"))
    draws = Draws(
        Lineup("left", 0), Lineup("left", 1), agents={"left": ScriptedAgent(left, *spaces(game))}
    )
    rows = rows_of(lambda: game, draws)
    known = rollout(rows, small_net(game), 8).trajectories
    # As b, the learner gets nothing for its first decision, 7 - 1 for its second. What b is paid
    # before it has decided, 0.25, belongs to nothing.
    assert known.decisions.rows.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert known.decisions.rewards.tolist() == [3.5, 3.0, 0.0, 6.0] * 2
    assert known.decisions.batch.entities["Card"].values[:, 0].tolist() == [1.0, 1.0, 9.0, 9.0] * 2
    assert [own[1:] for own in draws.heard] == [(0, 1.0), (1, 0.0)] * 2


class OneAfterTheOther(Played):
    """Each seat has left before the next one acts; after two steps without seats the game ends."""

    def __init__(self):
        super().__init__(
            {"a": asked(1.0), "b": told(0.0)},
            {"a": told(1.0, True), "b": asked(2.0)},
            {"b": told(1.0, True)},
            {"a": asked(3.0)},  # who was out comes back
            {"a": told(2.0, True)},
            {},
            seats=("a", "b"),
        )

    def is_over(self):
        return self.at == 5


@pytest.mark.parametrize("make", [SeatRows, partial(ParallelEnv, num_processes=1)])
def test_an_opponent_plays_until_the_game_has_ended_also_where_all_who_acted_are_out(make):
    draws = Draws(Lineup("script", 0), agents={"script": ScriptedAgent(left, *spaces(Played()))})
    with OpponentRows(make(OneAfterTheOther, 2, seed=1), ((0,), (1,)), draws) as rows:
        obs, drawn = rows.reset(), []
        learner = RandomAgent(*spaces(Played()))
        for _ in range(10):
            obs = rows.act(learner.act_rows(obs))
            drawn.append(draws.drawn)
    assert drawn == [1, 1, 1, 1, 2, 2, 2, 2, 2, 3]


def test_two_networks_play_what_they_would_play_alone():
    """Who plays which row is drawn; each row must get the choice of its own player."""
    nets = [small_net(TicTacToe()) for _ in range(3)]
    for number, net in enumerate(nets):
        torch.manual_seed(number)
        for parameter in net.parameters():
            parameter.data += 0.5 * torch.randn_like(parameter)
    agents = {str(i): NetworkAgent(net, greedy=True) for i, net in enumerate(nets[1:], 1)}
    lineups = [Lineup("1", 0), Lineup("2", 1), Lineup(), Lineup("1", 1), Lineup("2", 0)]
    draws = Draws(*lineups, agents=agents)
    rows = rows_of(TicTacToe, draws, 20)
    learner = NetworkAgent(nets[0], greedy=True)
    obs, seen = rows.reset(), set()
    for _ in range(40):
        before, inner = rows._player.copy(), rows._inner
        boards = [table.game.board.copy() for table in rows.env._tables]
        assert set(obs.rows.tolist()) == {r for r in inner.rows.tolist() if before[r] == 0}
        answers = learner.act_rows(obs) if obs.num_frames else {}
        obs = rows.act(answers)
        for row, board in zip(inner.rows.tolist(), boards, strict=True):
            who = 0 if before[row] == 0 else int(rows._names[before[row] - 1])
            seen.add(who)
            game = TicTacToe()
            alone = NetworkAgent(nets[who], greedy=True)
            shown = game.set_state({"board": board, "turn": row % 2})[game.seats()[row % 2]]
            (_, cell), *_ = alone.act(shown)["Mark"].actees
            after = rows.env._tables[row // 2].game.board
            assert after[cell] == row % 2 + 1 or sum(map(bool, after)) == 0
    assert seen == {0, 1, 2}


def test_rows_go_on_from_a_saved_state_with_the_players_that_they_had():
    def make():
        agents = {"random": RandomAgent(*spaces(TicTacToe()), 5)}
        draws = Draws(Lineup("random", 0), Lineup(), Lineup("random", 1), agents=agents)
        return rows_of(TicTacToe, draws, 12), agents["random"]

    rows, opponent = make()
    learner = RandomAgent(*spaces(TicTacToe()), 7)
    obs = rows.reset()
    for _ in range(7):
        obs = rows.act(learner.act_rows(obs))
    saved = json.loads(json.dumps(rows.get_state()))
    drawn = rows._matchmaker.drawn
    states = [json.loads(json.dumps(own.get_state())) for own in (opponent, learner)]

    def play_on(rows, obs, learner):
        told = []
        for _ in range(25):
            obs = rows.act(learner.act_rows(obs))
            told.append((obs.rows.tolist(), obs.reward.tolist(), obs.done.tolist()))
        return told

    expected = play_on(rows, obs, learner)
    again, other = make()
    again._matchmaker.drawn = drawn
    other.set_state(states[0])
    learner.set_state(states[1])
    assert play_on(again, again.set_state(saved), learner) == expected
    with pytest.raises(errors.StateError, match="opponents is damaged"):
        again.set_state([{"row": 1}] * 12)


class Ends(RandomAgent):
    """Notes the rows that must act, and which of rows 1 and 2 have ended since its last batch."""

    def act_rows(self, obs):
        self.heard.append((obs.rows.tolist(), np.flatnonzero(obs.done[1:]).tolist()))
        return super().act_rows(obs)


def test_an_opponent_hears_of_every_end_of_its_rows():
    """Of a seat that leaves and comes back while the game goes on, and of the end of a game."""
    everybody = {seat: asked() for seat in "abc"}
    script = (
        everybody,
        {**everybody, "b": told(0.0, True)},
        everybody,
        everybody,
        {seat: told(0.0, True) for seat in "abc"},
    )
    agent = Ends(*spaces(Played()))
    agent.heard = []
    rows = rows_of(lambda: Played(*script), Draws(Lineup("it"), agents={"it": agent}), 3, SIDES)
    obs = rows.reset()
    for _ in range(6):
        obs = rows.act(left_answers(obs))
    game = [([1, 2], [0, 1]), ([2], [0]), ([1, 2], []), ([1, 2], [])]
    assert agent.heard == [*game, *game[:2]]


SIDES = (0,), (1, 2)


def left_answers(obs):
    mask = obs.action_masks["Go"]
    return {"Go": INDEX.buffer(np.zeros(obs.num_frames), mask.actors.size1())}


def test_a_row_has_one_player():
    with pytest.raises(errors.SeatError, match="seat 1 has two players"):
        check_sides([[0, 1], [1, 2]])
    with pytest.raises(errors.SeatError, match="a seat has no player"):
        check_sides([[0], [2]])
    with pytest.raises(errors.SeatError, match="a game needs opponents"):
        check_sides([[0]])
    with pytest.raises(errors.SettingError, match="do not make whole games of 3 seats"):
        rows_of(TicTacToe, Draws(Lineup()), 4, sides=((0,), (1,), (2,)))


def test_an_opponent_that_fails_or_cheats_is_named():
    def fails(observation):
        raise KeyError("nothing")

    def cheats(observation):
        ids = observation.ids["Card"]
        return {"Go": CategoricalAction(ids, np.full(len(ids), 7), ["left", "right"])}

    for script, error, text in (
        (fails, errors.SettingError, "opponent 'other'.* failed: KeyError: 'nothing'"),
        (cheats, errors.ActionError, "opponent 'other'"),
    ):
        game = Played(*GAME, seats=("a", "b"))
        draws = Draws(Lineup("other", 0), agents={"other": ScriptedAgent(script, *spaces(game))})
        rows = rows_of(lambda game=game: game, draws)
        with pytest.raises(error, match=text):
            rollout(rows, small_net(game), 4)


def test_final_observations_are_those_of_the_learners_rows():
    game = Played(
        {"a": asked(1.0), "b": asked(9.0)},
        {"a": told(1.0, True, truncated=True), "b": told(2.0, True, truncated=True)},
        seats=("a", "b"),
    )
    for side, row in ((0, 0), (1, 1)):
        draws = Draws(Lineup("left", side), agents={"left": ScriptedAgent(left, *spaces(game))})
        rows = rows_of(lambda: game, draws)
        obs = rows.reset()
        shown = rows.act(NetworkAgent(small_net(game)).act_rows(obs))
        assert shown.final.num_frames == 1
        assert np.flatnonzero(shown.truncated).tolist() == [row]
        assert shown.reward[1 - row] == 0.0
        assert replace(shown, metrics={}).done.tolist() == [row == 0, row == 1]
