"""One seat of PettingZoo's environments: turns, rewards, ends, and how the others play."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from entity_env import Discrete, GlobalCategoricalAction, check_env
from entity_env.errors import (
    MaskShapeError,
    MissingPackageError,
    ObservationError,
    ResetNeededError,
    SettingError,
    SpaceError,
    UnknownEnvironmentError,
)
from entity_env.interop import PettingZooEnv, PettingZooGame
from entity_env.interop.pettingzoo_env import any_allowed
from entity_env.registry import resolve
from entity_env.spaces import GlobalContinuousActionSpace


def pick(index):
    return {"action": GlobalCategoricalAction(index, str(index))}


class Together(ParallelEnv):
    """All agents say a number; each is paid its own and half of what the others said.

    ``leave`` says when agents go (agent, step, how): terminated, truncated, or gone in silence.
    """

    metadata = {"name": "together"}  # noqa: RUF012

    def __init__(self, leave=(), size=3):
        self.possible_agents = ["a", "b", "c"][:size]
        self.leave, self.log, self.closed = list(leave), [], 0
        self.render_mode = None

    def observation_space(self, agent):
        return spaces.Box(0, 99, (2,))

    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.agents, self.time = self.possible_agents[:], 0
        if ("late", 0) in [(how, step) for _, step, how in self.leave]:
            self.agents = self.agents[1:]
        self.log.append(("reset", seed))
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        self.log.append({agent: int(action) for agent, action in actions.items()})
        total = sum(actions.values())
        rewards = {agent: own + 0.5 * (total - own) for agent, own in actions.items()}
        now = {agent: how for agent, step, how in self.leave if step == self.time}
        terminated = {agent: now.get(agent) == "terminated" for agent in self.agents}
        truncated = {agent: now.get(agent) == "truncated" for agent in self.agents}
        seen = self._seen()
        infos = {agent: {"action_mask": np.array([1, 1, 0, 0])} for agent in self.agents}
        for agent, how in now.items():
            if how == "silent":
                for part in (seen, rewards, terminated, truncated, infos):
                    del part[agent]
            self.agents.remove(agent)
        return seen, rewards, terminated, truncated, infos

    def _seen(self):
        return {agent: np.array([self.time, ord(agent)], np.float32) for agent in self.agents}

    def close(self):
        self.closed += 1


class Turns(AECEnv):
    """Agents say numbers in turn; each number is paid to everybody at once.

    Args:
        length: Turns until all are out; 0 for ever.
        out: An agent that is out before, at a turn: (agent, turn, how).
        starts: The agent whose turn is the first.
    """

    metadata = {"name": "turns"}  # noqa: RUF012

    def __init__(self, length=0, out=None, starts=0, vanish=False):
        self.possible_agents = ["a", "b", "c"]
        self.length, self.out, self.starts, self.vanish = length, out, starts, vanish
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
        self.agent_selection = self.agents[self.starts]

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
        if self.time == self.length:
            self.terminations = dict.fromkeys(self.agents, True)
        elif self.out and self.time == self.out[1]:
            name, _, how = self.out
            if self.vanish:
                self._drop(name)
            elif how == "terminated":
                self.terminations[name] = True
            else:
                self.truncations[name] = True
        self._deads_step_first()
        return None

    def _drop(self, name):
        if self.agent_selection == name:
            self.agent_selection = self.agents[(self.agents.index(name) + 1) % len(self.agents)]
        self.agents.remove(name)
        # The rewards of this step are still told.
        for part in (self._cumulative_rewards, self.terminations, self.truncations, self.infos):
            del part[name]


def says(number):
    return lambda agent, observation, mask, space, rng: number


# All at once.


def test_all_agents_move_at_once():
    inner = Together()
    told = []

    def others(agent, observation, mask, space, rng):
        told.append((agent, observation.tolist(), mask, space.n))
        return {"a": 2, "c": 3}[agent]

    env = PettingZooEnv(inner, seat="b", others=others)
    env.seed(5)
    seen = env.reset()
    assert env.obs_space().global_names == ("obs[0]", "obs[1]")
    assert list(seen.global_features) == [0, ord("b")]
    assert seen.actions["action"].mask is None
    seen = env.act(pick(1))
    assert inner.log == [("reset", 5), {"b": 1, "a": 2, "c": 3}]
    assert told == [("a", [0, ord("a")], None, 4), ("c", [0, ord("c")], None, 4)]
    assert seen.reward == 1 + 0.5 * 5
    assert list(seen.global_features) == [1, ord("b")]
    assert seen.actions["action"].mask.tolist() == [1, 1, 0, 0]
    assert not seen.done


@pytest.mark.parametrize(
    ("how", "truncated", "time"),
    [("terminated", False, 2), ("truncated", True, 2), ("silent", False, 1)],
)
def test_the_episode_ends_with_the_seat(how, truncated, time):
    env = PettingZooEnv(Together([("a", 2, how)]), others=says(2))
    env.reset()
    assert not env.act(pick(0)).done
    seen = env.act(pick(1))
    assert (seen.done, seen.truncated) == (True, truncated)
    assert list(seen.global_features) == [time, ord("a")]  # gone in silence: what it saw last
    assert seen.reward == (0 if how == "silent" else 1 + 0.5 * 4)
    with pytest.raises(ResetNeededError):
        env.act(pick(0))
    assert not env.reset().done


def test_those_who_left_are_not_asked():
    inner = Together([("b", 1, "terminated")])
    env = PettingZooEnv(inner, seat="a", others=says(3))
    env.reset()
    env.act(pick(0))
    env.act(pick(0))
    assert inner.log[2] == {"a": 0, "c": 3}


def test_a_seat_that_comes_late_is_refused():
    env = PettingZooEnv(Together([("a", 0, "late")]))
    with pytest.raises(ObservationError, match="'a' takes no part"):
        env.reset()


class Tables(Together):
    """Shows a table and a text, and has actions of two parts."""

    def observation_space(self, agent):
        return spaces.Dict({"units": spaces.Box(0, 99, (3, 2)), "chat": spaces.Text(9)})

    def action_space(self, agent):
        return spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])

    def _seen(self):
        table = np.array([[1, self.time], [0, 7], [1, 9]], np.float32)
        return {agent: {"units": table, "chat": "hello"} for agent in self.agents}

    def step(self, actions):
        self.played = actions
        told = super().step({agent: sum(action) for agent, action in actions.items()})
        infos = told[-1]
        for info in infos.values():  # of the first part everything, of the second one choice
            info["action_mask"] = (None, np.array([0, 0, 1], np.int8))
        return told


def test_parts_are_left_out_and_rows_become_entities():
    with pytest.raises(SpaceError, match=r"env\.ignore=\[chat\]"):
        PettingZooEnv(Tables())
    inner = Tables()
    env = PettingZooEnv(inner, seat="b", ignore=["chat"], entities={"units": 0})
    assert env.obs_space().entities["units"].names == ("value[1]",)
    assert env.reset().features["units"].tolist() == [[0], [9]]
    choices = {f"action/{i}": GlobalCategoricalAction(1, "1") for i in range(2)}
    seen = env.act(choices)
    assert inner.played["b"] == (1, 1)
    assert seen.features["units"].tolist() == [[1], [9]]
    assert seen.actions["action/0"].mask is None
    assert seen.actions["action/1"].mask.tolist() == [0, 0, 1]
    env.act(choices)
    assert inner.played["a"][1] == 2  # the others obey their masks, too
    check_env(lambda: PettingZooEnv(Tables(), ignore="chat", entities={"units": 0}), episodes=1)


def test_entities_that_are_not_there():
    with pytest.raises(
        SettingError, match="'chat' for the rows of entity type 'Unit' is not a table"
    ):
        PettingZooEnv(Tables(), ignore="chat", entities={"Unit": {"part": "chat"}})


# In turn.


def test_the_others_move_until_it_is_the_seats_turn():
    inner = Turns()
    env = PettingZooEnv(inner, seat="b", others=lambda agent, *_: {"a": 1, "c": 2}[agent])
    env.seed(3)
    seen = env.reset()
    assert inner.log == [("reset", 3), ("a", 1)]
    assert env.obs_space().global_features == (Discrete("obs", 100),)
    assert list(seen.global_features) == [1]
    assert seen.reward == 0  # a says 1, but nothing was done for it
    assert seen.actions["action"].mask.tolist() == [0, 1, 1]
    seen = env.act(pick(2))
    assert inner.log[2:] == [("b", 2), ("c", 2), ("a", 1)]
    assert seen.reward == 2 + 2 + 1
    assert list(seen.global_features) == [4]


def test_the_sum_of_rewards_is_the_environments_own():
    class PaysOnTheSide(Turns):
        def step(self, action):
            super().step(action)
            self._cumulative_rewards["b"] += 10  # not in its rewards of this step

    env = PettingZooEnv(PaysOnTheSide(), seat="b", others=says(2))
    env.reset()
    # Three moves: 1 + 2 + 2, and 10 for each.
    assert env.act(pick(1)).reward == 5 + 30


def test_others_see_the_observation_without_the_mask():
    told = []

    def others(agent, observation, mask, space, rng):
        told.append((agent, observation, mask.tolist()))
        return 1

    env = PettingZooEnv(Turns(), seat="b", others=others)
    env.reset()
    assert told == [("a", 0, [0, 1, 1])]


@pytest.mark.parametrize(("length", "last"), [(3, [("c", 2)]), (4, [("c", 2), ("a", 2)])])
def test_the_game_may_end_in_the_turn_of_another(length, last):
    inner = Turns(length)
    env = PettingZooEnv(inner, seat="b", others=says(2))
    env.reset()  # a says 2
    seen = env.act(pick(1))
    assert inner.log[2:] == [("b", 1), *last]
    assert (seen.done, seen.truncated) == (True, False)
    assert seen.reward == 1 + 2 * len(last)


def test_the_game_may_end_in_the_seats_own_turn():
    env = PettingZooEnv(Turns(2), seat="b", others=says(2))
    env.reset()
    seen = env.act(pick(1))
    assert (seen.done, seen.reward) == (True, 1)


@pytest.mark.parametrize(("how", "truncated"), [("terminated", False), ("truncated", True)])
def test_the_seat_may_be_out_before_the_others(how, truncated):
    inner = Turns(out=("b", 3, how))
    env = PettingZooEnv(inner, seat="b", others=says(2))
    env.reset()
    seen = env.act(pick(1))  # b says 1, c says 2, and b is out
    assert (seen.done, seen.truncated, seen.reward) == (True, truncated, 3)
    assert inner.log[2:] == [("b", 1), ("c", 2)]
    env.reset()
    assert inner.log[4:] == [("reset", None), ("a", 2)]


def test_another_may_be_out_before_the_seat():
    inner = Turns(out=("a", 1, "terminated"))
    env = PettingZooEnv(inner, seat="b", others=says(2))
    env.reset()
    seen = env.act(pick(1))
    assert inner.log[1:] == [("a", 2), ("b", 1), ("c", 2)]
    assert not seen.done


def test_a_seat_that_vanishes_is_over_with_what_it_was_paid():
    env = PettingZooEnv(Turns(out=("b", 3, ""), vanish=True), seat="b", others=says(2))
    env.reset()
    seen = env.act(pick(1))  # 1 for b, 2 for c
    assert (seen.done, seen.truncated, seen.reward) == (True, False, 3)
    assert list(seen.global_features) == [1]  # what b saw last


def test_a_seat_that_vanishes_is_told_so_while_the_others_play_on():
    game = PettingZooGame(Turns(out=("b", 3, ""), vanish=True))
    told = game.reset()
    for agent, said in (("a", 1), ("b", 1), ("c", 2)):
        assert list(told) == [agent]
        told = game.act({agent: pick(said)})
    # a is paid 1 + 1 + 2, and b 1 for its own number and 2.
    assert {agent: (own.reward, own.done) for agent, own in told.items()} == {
        "a": (4, False), "b": (3, True),
    }  # fmt: skip


def test_games_that_are_over_before_the_first_turn_do_not_count():
    class Short(Turns):
        def reset(self, seed=None, options=None):
            super().reset(seed)
            self.length = 0 if len(self.log) > 3 else 1

    inner = Short()
    env = PettingZooEnv(inner, seat="b", others=says(1))
    env.seed(9)
    assert not env.reset().done
    resets = [seed for what, seed in inner.log if what == "reset"]
    assert resets == [9, None, None]
    with pytest.raises(ObservationError, match="'b' had no turn"):
        PettingZooEnv(Turns(1), seat="b").reset()


# How others play by themselves.


def test_others_draw_evenly_among_what_is_allowed():
    rng = np.random.default_rng(0)
    space = spaces.Discrete(4, start=2)
    mask = np.array([1, 0, 1, 0], np.int8)
    drawn = [any_allowed("a", None, mask, space, rng) for _ in range(400)]
    assert all(action in space for action in drawn)
    counts = {action: drawn.count(action) for action in drawn}
    assert set(counts) == {2, 4}
    assert 150 < counts[2] < 250
    free = {any_allowed("a", None, None, space, rng) for _ in range(100)}
    assert free == {2, 3, 4, 5}
    for mask in ([0, 0, 0, 0], [1, 1]):
        with pytest.raises(MaskShapeError, match="agent 'a'"):
            any_allowed("a", None, mask, space, rng)


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)]
)
def test_others_may_have_other_actions(space):
    drawn = [
        [any_allowed("a", None, None, space, np.random.default_rng(seed)) for _ in range(2)]
        for seed in (1, 1, 2)
    ]
    assert all(action in space for actions in drawn for action in actions)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    mask = (np.array([0, 1], np.int8), np.array([0, 0, 1], np.int8))
    if isinstance(space, spaces.MultiDiscrete):
        drawn = any_allowed("a", None, mask, space, np.random.default_rng(0))
        assert drawn.tolist() == [1, 2]
        one_after_the_other = np.array([1, 0, 0, 1, 0], bool)
        drawn = any_allowed("a", None, one_after_the_other, space, np.random.default_rng(0))
        assert drawn.tolist() == [0, 1]
        for mask in ((np.zeros(2), np.zeros(3)), (np.ones(2),)):
            with pytest.raises(MaskShapeError):
                any_allowed("a", None, mask, space, np.random.default_rng(0))


# What can be wrong.


def numbered():
    """Two agents whose names are numbers."""
    env = Together(size=2)
    env.possible_agents = env.agents = [0, 1]
    return env


@pytest.mark.parametrize(
    ("env", "settings", "error", "words"),
    [
        (Together(), {"seat": "d"}, SettingError, ["'d'", "'a', 'b', 'c'"]),
        (numbered(), {"seat": "1"}, SettingError, ["agent '1'", "0, 1", "did you mean 1?"]),
        (Together(size=0), {}, SettingError, ["no agents"]),
        (Together(), {"others": 3}, SettingError, ["others is not a function"]),
        (Together(), {"size": 3}, SettingError, ["arguments are given"]),
        (None, {}, SettingError, ["classic/tictactoe"]),
        (dict, {}, SettingError, ["AECEnv or ParallelEnv"]),
        ("no.such.module", {}, UnknownEnvironmentError, ["no.such.module"]),
        ("json.decoder", {}, UnknownEnvironmentError, ["parallel_env or env"]),
    ],
)
def test_wrong_names_and_settings(env, settings, error, words):
    with pytest.raises(error) as caught:
        PettingZooEnv(env, **settings)
    for word in words:
        assert word in str(caught.value)


def test_spaces_that_cannot_be_translated():
    class Moved(Together):
        def action_space(self, agent):
            return spaces.Text(3)

    with pytest.raises(SpaceError, match="Text"):
        PettingZooEnv(Moved())


def test_seats_set_numbers():
    class Moved(Together):
        def action_space(self, agent):
            return spaces.Box(-1, 1, (2,))

    space = GlobalContinuousActionSpace([-1, -1], [1, 1])
    assert PettingZooEnv(Moved()).action_space() == {"action": space}


def test_functions_make_environments_and_closing_twice_closes_once():
    env = PettingZooEnv(Together, seat="b", size=2)
    assert env.env.possible_agents == ["a", "b"]
    env.close()
    env.close()
    assert env.env.closed == 1
    with pytest.raises(NotImplementedError):
        env.render()
    with pytest.raises(ResetNeededError):
        env.act(pick(0))


@pytest.mark.parametrize("seat", ["a", "b", "c"])
@pytest.mark.parametrize(
    "create",
    [
        lambda: Together([("a", 9, "terminated"), ("b", 7, "truncated"), ("c", 5, "silent")]),
        lambda: Turns(16),
    ],
)
def test_check_env_is_silent(create, seat):
    check_env(lambda: PettingZooEnv(create, seat=seat), episodes=1)


# The real ones. They import pygame, whether or not they draw.


@pytest.fixture
def registry():
    pytest.importorskip("pygame")
    return pytest.importorskip("pettingzoo.env_registry")


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("classic/tictactoe", {"seat": "player_1"}),
        ("classic/tictactoe-v3", {"seat": "player_2"}),
        ("classic/connect_four", {}),
        ("classic/rps", {"num_actions": 5}),
        ("pettingzoo.classic.tictactoe_v3", {}),
    ],
)
@pytest.mark.filterwarnings("ignore:The old environment creation")
def test_check_env_is_silent_on_real_games(registry, name, kwargs):
    check_env(lambda: PettingZooEnv(name, **kwargs), episodes=1)


def test_knights_archers_and_zombies_are_entities(registry):
    rows = {"Self": {"rows": [0, 1]}, "Other": {"rows": [1, 27], "zeros_absent": True}}
    name = "butterfly/knights_archers_zombies"
    env = PettingZooEnv(name, seat="archer_1", obs_method="vector-masked", entities=rows)
    seen = env.reset()
    # Columns: zombie, archer, knight, sword, arrow, oneself; then distance, place, direction.
    assert seen.features["Self"][:, :6].tolist() == [[0, 0, 0, 0, 0, 1]]
    kinds = seen.features["Other"][:, :6].tolist()
    assert kinds == [[0, 1, 0, 0, 0, 0]] * 2 + [[0, 0, 1, 0, 0, 0]] * 2
    env.close()


@pytest.mark.parametrize(
    ("seat", "squares", "reward", "theirs"),
    [("player_1", [4, 2, 6], 1, [0, 1]), ("player_2", [8, 7], -1, [0, 1, 2])],
    ids=["won", "lost"],
)
def test_a_game_of_tictactoe(registry, seat, squares, reward, theirs):
    def first_free(agent, observation, mask, space, rng):
        return int(np.argmax(mask))

    env = PettingZooEnv("classic/tictactoe", seat=seat, others=first_free)
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
    env = PettingZooEnv("classic/rps", others=says(0))  # always rock
    env.reset()
    rewards = [env.act(pick(index)).reward for index in (0, 1, 2)]
    assert rewards == [0, 1, -1]


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("classic/tictacto", UnknownEnvironmentError, ["did you mean 'classic/tictactoe-v3'"]),
        ("tictactoe", UnknownEnvironmentError, ["did you mean 'classic/tictactoe-v3'"]),
        ("nowhere/tictactoe", UnknownEnvironmentError, ["nowhere"]),
        ("classic/rps-v9", UnknownEnvironmentError, ["v2"]),
    ],
)
def test_ids_that_lead_nowhere(registry, name, error, words):
    with pytest.raises(error) as caught:
        PettingZooEnv(name)
    for word in words:
        assert word in str(caught.value)


def test_a_game_whose_own_packages_are_missing(registry, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymunk", None)
    with pytest.raises(MissingPackageError, match=r"pettingzoo\[butterfly\]"):
        PettingZooEnv("butterfly/pistonball")


def test_its_path_leads_to_it():
    assert resolve("entity_env.interop.PettingZooEnv") is PettingZooEnv
