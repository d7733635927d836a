"""Games of several players as environments of PettingZoo, and the other way round."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.utils.conversions import aec_to_parallel, parallel_to_aec
from ragged_envs.tic_tac_toe import TicTacToe
from support.seat_games import Played, Secrets, asked, told
from support.tricky_games import LIVES, SCRIPTS, Tricky

from entity_env import GlobalCategoricalAction, MaskedEnvironment, SeatRows, check_env, errors
from entity_env.interop import EntityAECEnv, EntityParallelEnv, PettingZooGame
from entity_env.play import random_policy
from entity_env.wrappers import SeatTimeLimit

ROOM = {"max_entities": 1}
TIC = {"max_entities": {"Player": 1, "Cell": 9}, "max_actors": 1}


class Numbered(Secrets):
    """Seats that are NumPy's integers."""

    def seats(self):
        return np.arange(3)

    def act(self, actions):
        return {np.int64(seat): own for seat, own in super().act(actions).items()}


def limited(name):
    return SeatTimeLimit(Tricky(name), max(1, len(SCRIPTS[name]) - 2))


GAMES = {
    "tic_tac_toe": (TicTacToe, TIC),
    "numbered seats": (Numbered, ROOM),
    "secrets": (lambda: Secrets(3), ROOM),
    **{name: (functools.partial(Tricky, name), ROOM) for name in SCRIPTS},
    **{f"{name}, limited": (functools.partial(limited, name), ROOM) for name in SCRIPTS},
}


def quietly(test, *args, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # such as that a space is a Dict
        test(*args, **settings)


# ---------------------------------------------------------------------------- what PettingZoo says


@pytest.mark.parametrize("name", GAMES)
def test_pettingzoo_accepts_turns(name):
    make, room = GAMES[name]
    quietly(api_test, EntityAECEnv(make(), **room), num_cycles=60)
    quietly(seed_test, lambda: EntityAECEnv(make(), **room), num_cycles=20)


@pytest.mark.parametrize("name", GAMES)
def test_pettingzoo_accepts_agents_that_act_at_once(name):
    make, room = GAMES[name]
    quietly(parallel_api_test, EntityParallelEnv(make(), **room), num_cycles=60)
    quietly(parallel_seed_test, lambda: EntityParallelEnv(make(), **room), num_cycles=20)


def test_what_takes_turns_is_not_converted_to_agents_that_act_at_once():
    assert not EntityAECEnv(TicTacToe(), **TIC).metadata["is_parallelizable"]
    with pytest.raises(AssertionError, match="is_parallelizable"):
        aec_to_parallel(EntityAECEnv(TicTacToe(), **TIC))
    at_once = parallel_to_aec(EntityParallelEnv(TicTacToe(), **TIC))
    quietly(parallel_api_test, aec_to_parallel(at_once), num_cycles=20)


# --------------------------------------------------------------------------- rewards of each agent


def card(observation):
    return int(observation["Card/features"][0, 0])


def lives_at_once(env):
    """For each agent what it was paid before its first decision, and its decisions."""
    observations, infos = env.reset(seed=0)
    lives = {agent: [0.0, []] for agent in env.agents}
    while env.agents:
        for agent in env.agents:
            if sum(map(sum, infos[agent]["action_mask"])) > 1:  # somebody has a choice
                lives[agent][1].append([card(observations[agent]), 0.0])
        actions = {agent: np.zeros(1, np.int64) for agent in env.agents}
        observations, rewards, _, _, infos = env.step(actions)
        for agent, reward in rewards.items():
            own = lives.setdefault(agent, [0.0, []])
            if own[1]:
                own[1][-1][1] += reward
            else:
                own[0] += reward
    return lives


def lives_in_turn(env):
    env.reset(seed=0)
    lives = {agent: [0.0, []] for agent in env.agents}
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        own = lives.setdefault(agent, [0.0, []])
        if own[1]:
            own[1][-1][1] += reward
        else:
            own[0] += reward
        if terminated or truncated:
            env.step(None)
            continue
        own[1].append([card(observation), 0.0])
        env.step(np.zeros(1, np.int64))
    return lives


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(
    ("kind", "play"), [(EntityParallelEnv, lives_at_once), (EntityAECEnv, lives_in_turn)]
)
def test_each_agent_is_paid_what_its_seat_is_paid(name, kind, play):
    lives = play(kind(Tricky(name), 1))
    expected = {}
    for seat, own in LIVES[name].items():
        for number, (before, decisions) in enumerate(own or [(0.0, [])], 1):
            agent = seat if number == 1 else f"{seat}#{number}"
            expected[agent] = [before, [list(one) for one in decisions]]
    assert lives == expected


def test_who_waits_sees_what_it_saw_and_chooses_nothing():
    env = EntityParallelEnv(TicTacToe(), **TIC)
    observations, infos = env.reset(seed=1)
    assert env.agents == ["X", "O"]
    assert infos["X"]["action_mask"][0].tolist() == [0] + [1] * 9
    assert infos["O"]["action_mask"][0].tolist() == [1] + [0] * 9  # only what nobody does
    assert not observations["O"]["Cell/present"].any()
    before = observations["X"]["Cell/features"].copy()
    observations, _, _, _, infos = env.step({"X": np.array([5]), "O": np.array([7])})
    # X sees the board as it was when it chose: nothing of what O sees now.
    assert (observations["X"]["Cell/features"] == before).all()
    assert observations["O"]["Cell/features"][4].tolist() == [1, 1, 2]
    assert infos["O"]["action_mask"][0].tolist() == [0, 1, 1, 1, 1, 0, 1, 1, 1, 1]


def test_choices_of_one_step_are_hidden_from_each_other():
    env = EntityAECEnv(Secrets(2), 1)
    env.reset(seed=0)
    assert env.agent_selection == "0"
    before = env.observe("1")
    env.step(np.array([1]))
    assert env.agent_selection == "1"
    assert all((before[name] == array).all() for name, array in env.observe("1").items())
    assert env.rewards == {"0": 0, "1": 0}


def test_a_seat_that_is_cut_off_is_truncated():
    env = EntityParallelEnv(Tricky("dies and comes back"), 1)
    env.reset()
    for _ in range(4):
        _, _, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, np.zeros(1, np.int64)))
    assert (terminated["c"], truncated["c"]) == (False, True)
    assert env.possible_agents == ["a", "b", "c"]
    env.step(dict.fromkeys(env.agents, np.zeros(1, np.int64)))
    assert env.possible_agents == ["a", "b", "c", "c#2"]
    assert env.agents == ["a", "c#2"]


def test_mistakes_are_named():
    env = EntityParallelEnv(TicTacToe(), **TIC)
    env.reset()
    with pytest.raises(errors.SeatError, match="agent 'X' must act, but has no action"):
        env.step({"O": np.array([1])})
    with pytest.raises(errors.SeatError, match="agent 'Y' does not play"):
        env.step({"X": np.array([1]), "Y": np.array([1])})
    with pytest.raises(errors.SeatError, match="not a dict"):
        env.step(3)
    with pytest.raises(errors.ActionError, match=r"agent 'X': number 0"):
        env.step({"X": np.array([11])})
    with pytest.raises(errors.SettingError, match="several players"):
        EntityAECEnv(3, 1)
    small = EntityParallelEnv(TicTacToe(), max_entities=4, max_actors=1)
    with pytest.raises(errors.CapacityError, match=r"agent 'X'.*'Cell' has 9 entities"):
        small.reset()
    turns = EntityAECEnv(TicTacToe(), **TIC)
    with pytest.raises(errors.ResetNeededError):
        turns.step(np.array([0]))
    silent = EntityAECEnv(Played({"a": asked()}, {"a": told(True)}, {"d": asked()}), 1)
    silent.reset()
    with pytest.raises(errors.SeatError, match="seat 'd', which does not exist"):
        silent.step(np.array([0]))


# ------------------------------------------------------------------------------ the other way round


class Auction(ParallelEnv):
    """Bids of 0 to 2; each is paid its bid; whoever bids 2 is out, and all are after four steps."""

    metadata = {"name": "auction"}  # noqa: RUF012

    def __init__(self, silent=False):
        self.possible_agents = ["a", "b", "c"]
        self.silent, self.render_mode = silent, None
        self.rng = np.random.default_rng()

    @functools.lru_cache  # noqa: B019
    def observation_space(self, agent):
        return spaces.Box(0, 99, (2,))

    @functools.lru_cache  # noqa: B019
    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.time = self.possible_agents[:], 0
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.offset = self.rng.integers(9)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        out = {agent: bool(bid == 2) for agent, bid in actions.items()}
        cut_off = {agent: self.time == 4 and not gone for agent, gone in out.items()}
        seen = self._seen()
        rewards = {agent: float(bid) for agent, bid in actions.items()}
        infos = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (out[agent] or cut_off[agent])]
        if self.silent:
            for part in (seen, rewards, out, cut_off, infos):
                for agent in list(part):
                    if agent not in self.agents:
                        del part[agent]
        return seen, rewards, out, cut_off, infos

    def _seen(self):
        return {
            agent: np.array([self.time + self.offset, ord(agent) - 97], np.float32)
            for agent in self.agents
        }


class Count(AECEnv):
    """Agents say 0 or 1 in turn; everybody is paid it; b is out after its first turn, all after 7.

    c is out, on its own turn, before it has said anything.
    """

    metadata = {"name": "count"}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.possible_agents = ["a", "b", "c"]
        self.render_mode = None

    def observation_space(self, agent):
        return spaces.Box(0, 99, (1,))

    def action_space(self, agent):
        return spaces.Discrete(2)

    def observe(self, agent):
        return np.array([self.said], np.float32)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection, self.said, self.turns = "a", 0, 0

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self.said += int(action)
        self.turns += 1
        for other in self.agents:
            self.rewards[other] = float(action)
        order = {"a": "b", "b": "a"}
        if self.turns == 2:
            self.terminations["b"] = self.terminations["c"] = True
        if self.turns == 5:
            self.truncations = dict.fromkeys(self.agents, True)
        self.agent_selection = order[agent] if order[agent] in self.agents else agent
        self._accumulate_rewards()
        if self.turns in (2, 5):
            self._deads_step_first()


def bids(**own):
    return {agent: {"action": GlobalCategoricalAction(bid, str(bid))} for agent, bid in own.items()}


def outcome(told):
    return {agent: (own.reward, own.done, own.truncated) for agent, own in told.items()}


@pytest.mark.parametrize("silent", [False, True])
def test_agents_that_act_at_once_are_seats(silent):
    game = PettingZooGame(functools.partial(Auction, silent))
    assert game.seats() == ["a", "b", "c"]
    game.seed(3)
    assert set(game.reset()) == {"a", "b", "c"}
    assert outcome(game.act(bids(a=0, b=1, c=1))) == {
        "a": (0.0, False, False), "b": (1.0, False, False), "c": (1.0, False, False),
    }  # fmt: skip
    told = game.act(bids(a=1, b=2, c=0))
    # An agent that is gone without a word has no last reward.
    assert outcome(told)["b"] == ((0.0, True, False) if silent else (2.0, True, False))
    assert outcome(game.act(bids(a=1, c=1))) == {"a": (1.0, False, False), "c": (1.0, False, False)}
    last = outcome(game.act(bids(a=1, c=2)))
    assert last["a"] == ((0.0, True, False) if silent else (1.0, True, True))
    with pytest.raises(errors.ResetNeededError):
        game.act(bids(a=1))


def test_agents_that_take_turns_are_seats():
    game = PettingZooGame(Count)
    assert list(game.reset()) == ["a"]
    assert outcome(game.act(bids(a=1))) == {"b": (1.0, False, False)}  # what a's turn has paid it
    told = game.act(bids(b=1))
    # c and b are out: c has got 1 + 1 without a turn, b 1; a has 1 of its own and 1 of b's.
    assert outcome(told) == {
        "b": (1.0, True, False), "c": (2.0, True, False), "a": (2.0, False, False),
    }  # fmt: skip
    assert outcome(game.act(bids(a=1))) == {"a": (1.0, False, False)}
    assert outcome(game.act(bids(a=0))) == {"a": (0.0, False, False)}
    assert outcome(game.act(bids(a=1))) == {"a": (1.0, True, True)}


class Tips(Count):
    """Pays whoever has just said something 10 more in ``_cumulative_rewards`` alone."""

    def step(self, action):
        agent = self.agent_selection
        super().step(action)
        if agent in self._cumulative_rewards and action is not None:
            self._cumulative_rewards[agent] += 10.0


class Leaves(Count):
    """All agents vanish in step 3, without a turn and with a last reward of 5."""

    def step(self, action):
        super().step(action)
        if self.turns == 3:
            self.rewards = dict.fromkeys(self._cumulative_rewards, 5.0)
            self.agents, self._cumulative_rewards = [], {}


@pytest.mark.parametrize(("make", "paid"), [(Tips, [12.0, 10.0, 10.0, 11.0]), (Leaves, [2.0, 5.0])])
def test_a_seat_is_paid_what_last_says_alone_or_among_seats(make, paid):
    """a says 1, 0, 0, 1, and b 1 in the first round: 1 + 10 + 1, 0 + 10, 0 + 10, 1 + 10."""
    others = lambda seen: bids(a=1)["a"]  # noqa: E731
    alone = MaskedEnvironment(PettingZooGame(make), others, shuffle_seats=False, seat="a")
    game, alone_paid, game_paid = PettingZooGame(make), [], []
    alone.reset()
    told, choices = game.reset(), iter([1, 0, 0, 1])
    for choice in [1, 0, 0, 1]:
        seen = alone.act(bids(a=choice)["a"])
        alone_paid.append(seen.reward)
        if seen.done:
            break
    while game._playing:
        (asked_now,) = [seat for seat, own in told.items() if own.actions]
        told = game.act(bids(**{asked_now: next(choices) if asked_now == "a" else 1}))
        game_paid += [told["a"].reward] if "a" in told else []
    assert alone_paid == game_paid == paid


@pytest.mark.parametrize("make", [Auction, Count])
def test_they_are_sound_games_and_rows(make):
    create = functools.partial(PettingZooGame, make)
    # Of the three agents of Count the last one has no turn.
    assert ["never had to act" in note for note in check_env(create).notes] == [True] * (
        make is Count
    )
    rows, policy = SeatRows(create, 6, 1), random_policy(0)
    obs = rows.reset()
    for _ in range(50):
        obs = rows.act(policy(obs))


def test_ours_comes_back_as_it_was():
    """tic_tac_toe through both translations: the same rewards for the same cells."""
    game = PettingZooGame(lambda: EntityAECEnv(TicTacToe(), **TIC))
    game.reset()
    told = {}
    for agent, cell in [("X", 0), ("O", 3), ("X", 1), ("O", 4), ("X", 2)]:
        name = next(iter(game.action_space()))
        told = game.act({agent: {name: GlobalCategoricalAction(cell + 1, str(cell + 1))}})
    assert outcome(told) == {"X": (1.0, True, False), "O": (-1.0, True, False)}


class Roles(Auction):
    """A dealer sees more than the buyers, and bids less."""

    def __init__(self):
        super().__init__()
        self.possible_agents = ["buyer_0", "buyer_1", "dealer_0"]

    def observation_space(self, agent):
        return spaces.Box(0, 99, (2 + (agent == "dealer_0"),))

    def action_space(self, agent):
        return spaces.Discrete(2 if agent == "dealer_0" else 3)

    def _seen(self):
        wide = {"dealer_0": [1.0, 2.0, 3.0]}
        return {agent: np.array(wide.get(agent, [4.0, 5.0])) for agent in self.agents}


def test_roles_are_entity_types_with_actions_of_their_own():
    make = functools.partial(PettingZooGame, Roles)
    game = make()
    assert {name: own.names for name, own in game.obs_space().entities.items()} == {
        "buyer": ("obs[0]", "obs[1]"), "dealer": ("obs[0]", "obs[1]", "obs[2]"),
    }  # fmt: skip
    assert {name: len(own) for name, own in game.action_space().items()} == {
        "buyer/action": 3, "dealer/action": 2,
    }  # fmt: skip
    seen = game.reset()
    assert [own.tolist() for own in seen["dealer_0"].features["dealer"]] == [[1.0, 2.0, 3.0]]
    assert {seat: list(own.actions) for seat, own in seen.items()} == {
        "buyer_0": ["buyer/action"], "buyer_1": ["buyer/action"], "dealer_0": ["dealer/action"],
    }  # fmt: skip
    told = game.act({
        seat: {f"{seat[:-2]}/action": GlobalCategoricalAction(bid, str(bid))}
        for seat, bid in {"buyer_0": 2, "buyer_1": 1, "dealer_0": 1}.items()
    })  # fmt: skip
    assert outcome(told) == {
        "buyer_0": (2.0, True, False),
        "buyer_1": (1.0, False, False),
        "dealer_0": (1.0, False, False),
    }  # fmt: skip
    assert check_env(make).notes == ()
    with pytest.raises(errors.SettingError, match=r"role 'buyer'.*ignore names 'wings'"):
        make(ignore="wings")


def test_one_name_with_two_pairs_of_spaces_is_two_roles():
    class Uneven(Auction):
        def observation_space(self, agent):
            return spaces.Box(0, 99, (2 + (agent == "b"),))

    class Numbered(Roles):
        def __init__(self):
            super().__init__()
            self.possible_agents = ["p1", "p2", "dealer_0"]

        def action_space(self, agent):
            return spaces.Discrete({"p1": 2, "p2": 3}.get(agent, 4))

    assert list(PettingZooGame(Uneven).obs_space().entities) == ["a", "b", "c"]
    assert list(PettingZooGame(Numbered).action_space()) == [
        "p1/action", "p2/action", "dealer/action",
    ]  # fmt: skip


def test_agents_that_are_still_listed_after_their_end_stay_out():
    class Listed(Auction):
        def step(self, actions):
            self.agents = list(actions)
            seen, rewards, out, cut_off, infos = super().step(actions)
            self.agents = self.possible_agents if self.agents else []
            return seen, rewards, {agent: out.get(agent, True) for agent in "abc"}, cut_off, infos

    game = PettingZooGame(Listed)
    game.reset()
    assert outcome(game.act(bids(a=0, b=2, c=1)))["b"] == (2.0, True, False)
    assert set(game.act(bids(a=1, c=1))) == {"a", "c"}
