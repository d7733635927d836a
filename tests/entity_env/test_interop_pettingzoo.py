"""PettingZoo's environments as games: real ones, masks, parts of observations, and mistakes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from entity_env import GlobalCategoricalAction, MaskedEnvironment, check_env
from entity_env.errors import (
    MissingPackageError,
    ResetNeededError,
    SettingError,
    SpaceError,
    UnknownEnvironmentError,
)
from entity_env.interop import PettingZooGame
from entity_env.spaces import GlobalContinuousActionSpace


def pick(index):
    return {"action": GlobalCategoricalAction(index, str(index))}


def says(number):
    return lambda seen: pick(number)


def alone(env, seat, others="random", **settings):
    """One agent of an environment."""
    return MaskedEnvironment(
        PettingZooGame(env, **settings), others, shuffle_seats=False, seat=seat
    )


class Together(ParallelEnv):
    """All agents say a number, and are paid it; after a step their masks forbid 2 and 3."""

    metadata = {"name": "together"}  # noqa: RUF012

    def __init__(self, size=3):
        self.possible_agents = ["a", "b", "c"][:size]
        self.log, self.closed = [], 0
        self.render_mode = None

    def observation_space(self, agent):
        return spaces.Box(0, 99, (2,))

    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.agents, self.time = self.possible_agents[:], 0
        self.log.append(seed)
        return self.seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        self.log.append(actions)
        rewards = {agent: float(np.sum(own)) for agent, own in actions.items()}
        over = dict.fromkeys(self.agents, self.time == 9)
        cut_off = dict.fromkeys(self.agents, False)
        infos = {agent: {"action_mask": np.array([1, 1, 0, 0])} for agent in self.agents}
        seen = self.seen()
        self.agents = [] if self.time == 9 else self.agents
        return seen, rewards, over, cut_off, infos

    def seen(self):
        return {agent: np.array([self.time, ord(agent)], np.float32) for agent in self.agents}

    def close(self):
        self.closed += 1


class Turns(AECEnv):
    """Agents say numbers in turn; each number is paid to everybody at once.

    Args:
        gone: An agent that leaves without a word, at a turn: (agent, turn).
    """

    metadata = {"name": "turns"}  # noqa: RUF012

    def __init__(self, gone=None):
        self.possible_agents = ["a", "b", "c"]
        self.gone = gone
        self.render_mode = None
        self.log = []

    def observation_space(self, agent):
        return spaces.Dict(
            {"observation": spaces.Discrete(100), "action_mask": spaces.Box(0, 1, (3,), np.int8)}
        )

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        return {"observation": self.time, "action_mask": np.array([0, 1, 1], np.int8)}

    def reset(self, seed=None, options=None):
        self.log.append(("reset", seed))
        self.agents, self.time = self.possible_agents[:], 0
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "a"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            return self._was_dead_step(action)
        self.log.append((agent, int(action)))
        self._cumulative_rewards[agent] = 0
        self.time += 1
        self.rewards = dict.fromkeys(self.agents, float(action))
        self._accumulate_rewards()
        places = [*self.agents, *self.agents]
        self.agent_selection = places[places.index(agent) + 1]
        if self.gone and self.time == self.gone[1]:
            self._drop(self.gone[0])
        self._deads_step_first()
        return None

    def _drop(self, name):
        if self.agent_selection == name:
            self.agent_selection = self.agents[(self.agents.index(name) + 1) % len(self.agents)]
        self.agents.remove(name)
        # The rewards of this step are still told.
        for part in (self._cumulative_rewards, self.terminations, self.truncations, self.infos):
            del part[name]


def test_agents_that_act_at_once_share_a_step():
    inner = Together()
    game = PettingZooGame(inner)
    game.seed(5)
    told = game.reset()
    assert game.obs_space().global_names == ("obs[0]", "obs[1]")
    assert [list(told[agent].global_features) for agent in "abc"] == [[0, 97], [0, 98], [0, 99]]
    assert told["b"].actions["action"].mask is None
    told = game.act({agent: pick(i) for i, agent in enumerate("abc")})
    assert inner.log == [5, {"a": 0, "b": 1, "c": 2}]
    assert {agent: own.reward for agent, own in told.items()} == {"a": 0, "b": 1, "c": 2}
    assert told["b"].actions["action"].mask.tolist() == [1, 1, 0, 0]


def test_one_agent_is_a_seat_alone():
    inner = Turns()
    env = alone(inner, "b", says(2))
    env.seed(3)
    seen = env.reset()
    assert inner.log[1:] == [("a", 2)]
    assert list(seen.global_features) == [1]
    assert seen.reward == 0  # a says 2, but b has done nothing for it
    assert seen.actions["action"].mask.tolist() == [0, 1, 1]
    seen = env.act(pick(1))
    assert inner.log[2:] == [("b", 1), ("c", 2), ("a", 2)]
    assert seen.reward == 1 + 2 + 2


def test_a_seat_that_vanishes_is_told_so_while_the_others_play_on():
    game = PettingZooGame(Turns(gone=("b", 3)))
    told = game.reset()
    for agent, said in (("a", 1), ("b", 1), ("c", 2)):
        assert list(told) == [agent]
        told = game.act({agent: pick(said)})
    # a is paid 1 + 1 + 2, and b 1 for its own number and 2.
    assert {agent: (own.reward, own.done) for agent, own in told.items()} == {
        "a": (4, False), "b": (3, True),
    }  # fmt: skip


class Tables(Together):
    """Shows a table and a text, and has actions of two parts."""

    def observation_space(self, agent):
        return spaces.Dict({"units": spaces.Box(0, 99, (3, 2)), "chat": spaces.Text(9)})

    def action_space(self, agent):
        return spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])

    def seen(self):
        table = np.array([[1, self.time], [0, 7], [1, 9]], np.float32)
        return {agent: {"units": table, "chat": "hello"} for agent in self.agents}

    def step(self, actions):
        told = super().step(actions)
        for info in told[-1].values():  # of the first part everything, of the second one choice
            info["action_mask"] = (np.ones(2, np.int8), np.array([0, 0, 1], np.int8))
        return told


def test_parts_are_left_out_and_rows_become_entities():
    with pytest.raises(SpaceError, match=r"env\.ignore=\[chat\]"):
        PettingZooGame(Tables())
    inner = Tables()
    env = alone(inner, "b", ignore=["chat"], entities={"units": 0})
    assert env.obs_space().entities["units"].names == ("value[1]",)
    assert env.reset().features["units"].tolist() == [[0], [9]]
    choices = {f"action/{i}": GlobalCategoricalAction(1, "1") for i in range(2)}
    seen = env.act(choices)
    assert inner.log[-1]["b"] == (1, 1)
    assert seen.features["units"].tolist() == [[1], [9]]
    assert seen.actions["action/1"].mask.tolist() == [0, 0, 1]
    env.act({**choices, "action/1": GlobalCategoricalAction(2, "2")})
    assert inner.log[-1]["a"][1] == 2  # random opponents obey their masks, too
    check_env(lambda: PettingZooGame(Tables(), ignore="chat", entities={"units": 0}), episodes=1)


# What can be wrong.


@pytest.mark.parametrize(
    ("env", "settings", "error", "words"),
    [
        (Together(size=0), {}, SettingError, ["no agents"]),
        (Together(), {"size": 3}, SettingError, ["arguments are given"]),
        (None, {}, SettingError, ["classic/tictactoe"]),
        (dict, {}, SettingError, ["AECEnv or ParallelEnv"]),
    ],
)
def test_wrong_names_and_settings(env, settings, error, words):
    with pytest.raises(error) as caught:
        PettingZooGame(env, **settings)
    for word in words:
        assert word in str(caught.value)


def test_spaces_of_other_kinds():
    class Moved(Together):
        def action_space(self, agent):
            return spaces.Box(-1, 1, (2,)) if self.possible_agents[1:] else spaces.Text(3)

    space = GlobalContinuousActionSpace([-1, -1], [1, 1])
    assert PettingZooGame(Moved()).action_space() == {"action": space}
    with pytest.raises(SpaceError, match=r"is a Text(.|\n)*ActionWrapper"):
        PettingZooGame(Moved(size=1))


def test_functions_make_environments_and_closing_twice_closes_once():
    game = PettingZooGame(Together, size=2)
    assert game.seats() == ["a", "b"]
    game.close()
    game.close()
    assert game.env.closed == 1
    with pytest.raises(NotImplementedError):
        game.render()
    with pytest.raises(ResetNeededError):
        game.act({"a": pick(0), "b": pick(0)})


# The real ones. They import pygame, whether or not they draw.


@pytest.fixture
def registry():
    pytest.importorskip("pygame")
    return pytest.importorskip("pettingzoo.env_registry")


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("classic/tictactoe-v3", {}),
        ("classic/connect_four", {}),
        ("classic/rps", {"num_actions": 5}),
    ],
)
def test_check_env_is_silent_on_real_games(registry, name, kwargs):
    check_env(lambda: PettingZooGame(name, **kwargs), episodes=1)


@pytest.mark.parametrize(
    ("seat", "squares", "reward", "theirs"),
    [("player_1", [4, 2, 6], 1, [0, 1]), ("player_2", [8, 7], -1, [0, 1, 2])],
    ids=["won", "lost"],
)
def test_a_game_of_tictactoe(registry, seat, squares, reward, theirs):
    def first_free(seen):
        return pick(int(np.argmax(seen.actions["action"].mask)))

    env = alone("classic/tictactoe", seat, first_free)
    seen = env.reset()
    for square in squares:
        assert (seen.done, seen.reward) == (False, 0)
        assert seen.actions["action"].mask[square]
        seen = env.act(pick(square))
    assert (seen.done, seen.truncated, seen.reward) == (True, False, reward)
    board = np.reshape(seen.global_features, (3, 3, 2))
    assert np.flatnonzero(board[..., 0]).tolist() == sorted(squares)
    assert np.flatnonzero(board[..., 1]).tolist() == theirs


def test_rock_paper_scissors_is_played_at_once(registry):
    env = alone("classic/rps", "player_0", says(0))  # always rock
    env.reset()
    rewards = [env.act(pick(index)).reward for index in (0, 1, 2)]
    assert rewards == [0, 1, -1]


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("classic/tictacto", UnknownEnvironmentError, ["did you mean 'classic/tictactoe-v3'"]),
        ("tictactoe", UnknownEnvironmentError, ["did you mean 'classic/tictactoe-v3'"]),
        ("no.such.module", UnknownEnvironmentError, ["no.such.module"]),
        ("nowhere/tictactoe", UnknownEnvironmentError, ["nowhere"]),
        ("classic/rps-v9", UnknownEnvironmentError, ["v2"]),
    ],
)
def test_ids_that_lead_nowhere(registry, name, error, words):
    with pytest.raises(error) as caught:
        PettingZooGame(name)
    for word in words:
        assert word in str(caught.value)


def test_a_game_whose_own_packages_are_missing(registry, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymunk", None)
    with pytest.raises(MissingPackageError, match=r"pettingzoo\[butterfly\]"):
        PettingZooGame("butterfly/pistonball")
