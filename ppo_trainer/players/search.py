"""Tree search in many games at once, which plays, and which teaches a network.

    rows = ConnectFourRows(64)
    search, obs = Search(rows, RaggedNet.from_run(run), SearchConfig(visits=64)), rows.reset()
    obs = rows.act(search(obs))

Each visit follows the tree of every game to a choice that has not been tried there, plays it in
copies of the games, and passes all new positions through the network in one batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecEnv, VecObs
from entity_env.agent import random_policy
from entity_env.batching.ragged import ActionBuffer
from entity_env.errors import SettingError
from entity_env.spaces import ActionName, check_same_spaces
from entity_env.wrappers.vec_wrapper import VecWrapper
from ppo_trainer.config import TrainConfig
from ppo_trainer.experience.acting import act, autocast, take_frames
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponents import make_opponent
from ppo_trainer.players.search_choices import ActorTable, Candidates, check_searchable
from ppo_trainer.players.search_games import Copies, copies_of, hides_something
from ppo_trainer.players.search_tree import SearchTrees
from ppo_trainer.runs.load_run import load_net
from ppo_trainer.settings.search_config import SearchConfig
from ragged_net import EntityBatch, NetOutput, RaggedNet, RaggedTensor

__all__ = ["Search", "make_search"]

F64 = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]
Policy = Callable[[VecObs], Mapping[ActionName, ActionBuffer]]

_NEXT_VISIT, _NEXT_ROUND = 0x632BE59BD9B4E019, np.uint64(0xD6E8FEB86659FD93)
_NEXT_SEARCH, _NEXT_GAME = 0xA0761D6478BD642F, np.uint64(0xE7037ED1A0B428DB)
"""The differences of keys of random numbers."""

_MOST_STEPS = 10_000
"""Maximum number of steps that are played on after a visit; later rewards count as 0."""

_MOST_COPIES = 4
"""Maximum number of sets of copies, for different numbers of games."""

_GAMES, _STEPS = 16, 500
"""Numbers of random games and of their steps from which relations of returns are estimated."""


@dataclass(frozen=True)
class _Found:
    """The results of a search in F frames, which are some of those of an observation.

    Args:
        frames: Numbers of the frames. Shape: (F,).
        candidates: Their candidates.
        best: The best candidate of each frame. Shape: (F,).
        policy: The improved policies. Shape: (F, C).
        values: Shape: (F,).
    """

    frames: Ints
    candidates: Candidates
    best: Ints
    policy: F64
    values: F64

    def explored(self, epsilon: float, rng: np.random.Generator) -> _Found:
        """Return the results with the best candidate replaced by a random one in some frames."""
        chances = rng.random(self.policy.shape) * (self.candidates.log_prior > -np.inf)
        explores = rng.random(len(self.best)) < epsilon
        return replace(self, best=np.where(explores, chances.argmax(axis=1), self.best))

    def of_actors(self, table: ActorTable) -> tuple[Ints, Ints, Ints]:
        """Return the numbers of the actors in the frames, and their choices and places. (N,)."""
        number = np.full(table.num_frames, -1)
        number[self.frames] = np.arange(len(self.frames))
        actors = np.flatnonzero(number[table.frame] >= 0)
        own = number[table.frame[actors]]
        where = own, self.best[own], table.column[actors]
        return actors, self.candidates.choices[where], self.candidates.places[where]


class Search:
    """A tree search that selects the choices in rows of games.

    Seats that act at once choose independently, and each seat has its own value, so that games need
    not be zero-sum. What a game hides from the seat that acts is drawn anew for each visit; after
    the first choice, the search knows what was drawn.

    Args:
        rows: Rows of games, which stay as they are.
        net: Network that gives probabilities and values, without a memory; None for even
            probabilities, which needs ``play_on``.
        config: Settings of the search.
        gamma: Discount factor for each decision, as in the training of the network.
        play_on: Policy that plays visits on to the end of the game, whose result replaces the
            network's value; None for the network's value.
        precision: ``TrainConfig.precision``.

    Raises:
        SettingError: The rows cannot be copied, an action has no list of choices, or the network
            has a memory.
    """

    def __init__(
        self,
        rows: VecEnv,
        net: RaggedNet | None,
        config: SearchConfig | None = None,
        *,
        gamma: float = 1.0,
        play_on: Policy | None = None,
        precision: str = "float32",
    ) -> None:
        self._rows = rows.unwrapped if isinstance(rows, VecWrapper) else rows
        self._seats = rows.num_seats
        self._net, self._config, self._gamma = net, config or SearchConfig(), gamma
        self._play_on, self._precision = play_on, precision
        check_searchable(rows.action_space())
        if net is not None and net.memory is not None:
            raise SettingError(
                "a network with a memory cannot search",
                expected="net.memory=none, because positions of a tree have no past",
                received=f"net.memory={net.config.memory}",
            )
        if net is None and play_on is None:
            raise SettingError(
                "a search without a network needs a player that plays on",
                expected="net, or play_on",
            )
        self._hides = self._config.chance == "drawn" and hides_something(self._rows)
        copies_of(self._rows, 1, 1)  # raises the error of rows that cannot be copied
        self._copies: dict[int, Copies] = {}
        self._searches = 0

    def __call__(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return the best choices of the rows that must act."""
        if not obs.num_frames:
            return {}
        table, games = ActorTable(obs), len(obs) // self._seats
        self._searches += 1
        keys = np.arange(games, dtype=np.uint64) * _NEXT_GAME
        keys += np.uint64(self._searches * _NEXT_SEARCH % 2**64)
        found = self._search(obs, keys, noisy=False)
        _, chosen, _ = found.of_actors(table)
        return obs.ragged_actions(table.split(chosen))

    def improve(
        self, obs: VecObs, output: NetOutput, generator: torch.Generator
    ) -> tuple[NetOutput, Mapping[ActionName, RaggedTensor]]:
        """Return the network's output with searched choices and values, and improved policies.

        Args:
            obs: The observation.
            output: The network's output for ``obs``, with drawn choices.
            generator: Random number generator on the network's device.

        Returns:
            The output, and for each action the improved probabilities of the choices of all actors
            of each frame, actor by actor: all 0 in frames without a search.
        """
        drawn = torch.randint(2**62, (1,), generator=generator, device=generator.device)
        rng = np.random.default_rng(int(drawn))
        keys = rng.integers(2**63, size=len(obs) // self._seats, dtype=np.uint64)
        games = np.unique(obs.rows // self._seats)
        searched = max(round(self._config.share * len(games)), 1)
        mine = np.sort(rng.permutation(games)[:searched])
        found = self._search(obs, keys, noisy=True, games=mine)
        table, device = ActorTable(obs), output.value.device
        values = output.value.detach().clone()
        values[torch.from_numpy(found.frames)] = torch.from_numpy(found.values).to(values)
        before = output.actions
        chosen = table.joined({n: own.chosen.values.cpu().numpy() for n, own in before.items()})
        log_probs = table.joined(
            {n: own.log_prob.detach().cpu().numpy() for n, own in before.items()}
        )
        actors, choices, places = found.explored(self._config.epsilon, rng).of_actors(table)
        probs = table.padded({name: _flat(own.probs) for name, own in before.items()})
        chosen[actors] = choices
        log_probs[actors] = np.log(np.maximum(probs[actors, places], 1e-30))
        now, known = table.split(chosen), table.split(log_probs)
        actions = {
            name: replace(
                own,
                chosen=own.chosen.with_values(torch.from_numpy(now[name]).to(device)),
                log_prob=torch.from_numpy(known[name]).to(device),
            )
            for name, own in before.items()
        }
        policies, lengths = (
            table.spread(found.candidates, found.frames, found.policy),
            table.lengths(),
        )
        targets = {
            name: RaggedTensor.from_lengths(torch.from_numpy(own), torch.from_numpy(lengths[name]))
            for name, own in policies.items()
        }
        targets = {name: own.to(device) for name, own in targets.items()}
        return replace(output, actions=actions, value=values), targets

    def _search(self, obs: VecObs, keys: Keys, *, noisy: bool, games: Ints | None = None) -> _Found:
        """Search in some games with a frame in ``obs``; None for all of them.

        Args:
            obs: The observation.
            keys: Key of the random numbers of each game.
            noisy: True to explore by Gumbel noise.
            games: Numbers of the games, ascending.
        """
        games = np.unique(obs.rows // self._seats) if games is None else games
        keys, visits = keys[games], self._config.visits
        trees = SearchTrees(len(games), visits, self._seats, self._gamma, self._config.unit)
        copies = self._copies_of(len(games))
        copies.begin(games)
        # What is hidden must not be known to the value of the first position, either.
        dealt = (keys, np.ones(len(games), np.bool_)) if self._hides else (None, None)
        shown = copies.put(np.zeros(len(games), np.int64), *dealt)
        if self._hides and len(shown.rows) > len(games):
            raise SettingError(
                "seats that act at once cannot be searched in a game that hides something",
                expected="one seat that acts at a time",
            )
        first = self._add(copies, trees, 0, shown, np.ones(len(games), np.bool_), keys)
        trees.add_noise(keys if noisy else None)
        for number in range(1, visits + 1):
            self._visit(copies, trees, number, keys)
        best, policy, values = trees.results()
        rows = games[shown.rows // self._seats] * self._seats + shown.rows % self._seats
        place = np.searchsorted(obs.rows, rows).clip(max=len(obs.rows) - 1)
        mine = np.flatnonzero(obs.rows[place] == rows)
        first = Candidates(first.choices[mine], first.places[mine], first.log_prior[mine])
        game, slot = (own[mine] for own in np.nonzero(trees.seat[:, 0] >= 0))
        policy = policy[game, slot, : first.log_prior.shape[1]]
        return _Found(place[mine], first, best[game, slot], policy, values[game, slot])

    def _visit(self, copies: Copies, trees: SearchTrees, number: int, keys: Keys) -> None:
        """Make one visit of all trees, which adds at most one position to each.

        Visits that compare choices draw the same numbers, so that luck is the same for all of them.
        """
        rounds = trees.rounds(number - 1).astype(np.uint64) + np.uint64(1)
        luck = keys + rounds * _NEXT_ROUND
        keys = keys + np.uint64(number * _NEXT_VISIT % 2**64)
        position, picked, after = trees.descend(number - 1, keys)
        new = after < 0
        draws = self._config.chance == "drawn"
        dealt = (position == 0) if self._hides else None
        shown = copies.put(position, luck if draws else None, dealt)
        table = ActorTable(shown)
        seat, choices = trees.joint(position, picked)
        game, slot = np.nonzero(seat >= 0)  # in the order of the frames
        chosen = choices[game, slot][table.frame, table.column]
        shown = copies.rows.act(shown.ragged_actions(table.split(chosen)))
        rewards, over = self._of_games(shown.reward), self._over(shown)
        is_drawn = copies.have_drawn() if draws else np.zeros(len(new), np.bool_)
        values = self._values_of_limits(shown)
        copies.keep(number, new)
        waiting = new & ~over & ~self._asked(shown)
        if waiting.any():
            shown = self._wait(copies, number, shown, waiting, rewards, over)
        trees.link(number, position, picked, rewards, over, is_drawn, new)
        trees.values[new, number] = np.where(
            over[:, None], values, trees.values[np.arange(len(new)), position] - rewards
        )[new]
        if (goes_on := new & ~over).any():
            self._add(copies, trees, number, shown, goes_on, keys)
        trees.back_up(np.where(new, number, after))

    def _add(
        self,
        copies: Copies,
        trees: SearchTrees,
        number: int,
        shown: VecObs,
        games: Bools,
        keys: Keys,
    ) -> Candidates:
        """Add the positions of some games (G,) to the trees, and estimate their values."""
        game, seat = np.divmod(shown.rows, self._seats)
        mine = np.flatnonzero(games[game])
        game, seat = game[mine], seat[mine]
        table, probs, values = self._look(
            shown if len(mine) == shown.num_frames else take_frames(shown, mine)
        )
        of_frames = keys[game] + seat.astype(np.uint64) + np.uint64(1)
        found = table.candidates(probs, self._config.candidates, of_frames)
        trees.add(number, game, seat, found)
        if self._play_on is not None:
            trees.values[games, number] = self._play(copies, shown, games)[games]
            return found
        own = trees.values[:, number]
        known = np.zeros(own.shape, np.bool_)
        known[game, seat], own[game, seat] = True, values
        if not known[games].all():
            self._fill_in(own, known)
        return found

    def _look(self, obs: VecObs) -> tuple[ActorTable, F64, F64]:
        """Return the actors of an observation, the probabilities of their choices, and values."""
        table = ActorTable(obs)
        if self._net is None:
            return table, self._prior(table, obs), np.zeros(obs.num_frames)
        device = next(self._net.parameters()).device
        batch = EntityBatch.from_obs(obs, device)
        with torch.no_grad(), autocast(device, self._precision):
            output = act(self._net, batch, None, greedy=True)
        probs = {name: _flat(own.probs) for name, own in output.actions.items()}
        return table, table.padded(probs), output.value.float().cpu().numpy().astype(np.float64)

    def _prior(self, table: ActorTable, obs: VecObs) -> F64:
        """Return equal probabilities, halved by that of what the player that plays on chooses."""
        probs = table.even(obs)
        if self._play_on is not None:
            own = {name: acts.as_array()[:, 0] for name, acts in self._play_on(obs).items()}
            probs /= 2
            probs[np.arange(len(probs)), table.places(table.joined(own))] += 0.5
        return probs

    def _play(self, copies: Copies, shown: VecObs, games: Bools) -> F64:
        """Play on to the end of some games, and return the returns of all seats. Shape: (G, S)."""
        assert self._play_on is not None
        returns, discount = np.zeros((len(games), self._seats)), np.ones((len(games), self._seats))
        rows, number, plays = copies.rows, np.arange(len(games)), games
        for _ in range(_MOST_STEPS):
            if len(number) >= 2 * max(plays.sum(), 1):  # those that have ended cost as much time
                left = np.sort(np.argsort(~plays, kind="stable")[: len(number) // 2])
                rows, shown = copies.only(rows, left)
                number, plays = number[left], plays[left]
            game, seat = np.divmod(shown.rows, self._seats)
            shown = rows.act(self._play_on(shown))
            returns[number] += self._of_games(shown.reward) * discount[number] * plays[:, None]
            discount[number[game], seat] *= self._gamma
            plays = plays & ~self._over(shown)
            if not plays.any():
                break
        return returns

    def _wait(
        self, copies: Copies, number: int, shown: VecObs, waiting: Bools, rewards: F64, over: Bools
    ) -> VecObs:
        """Play on until a seat must act in all games; add to ``rewards`` and ``over``."""
        policy = random_policy(0)  # for games that do not wait, whose positions are kept already
        for _ in range(_MOST_STEPS):
            shown = copies.rows.act(policy(shown))
            rewards[waiting] += self._of_games(shown.reward)[waiting]
            over |= waiting & self._over(shown)
            copies.keep(number, waiting)
            waiting = waiting & ~over & ~self._asked(shown)
            if not waiting.any():
                break
        return copies.put(np.full(len(over), number), None)

    def _fill_in(self, values: F64, known: Bools) -> None:
        """Estimate the values (G, S) of seats that have no observation in a position.

        The value of such a seat follows from that of another seat, as far as their returns are
        correlated in random games: negatively in zero-sum games, positively in cooperative ones.
        The rest is the value of the position before, which ``values`` contain.
        """
        weights = np.where(known[:, None, :], np.abs(self._relations), -1.0)  # (G, S, S)
        other = weights.argmax(axis=2)
        seats = np.arange(self._seats)
        slope, back = self._relations[seats, other], self._relations[other, seats]
        share = slope * back * known.any(axis=1)[:, None]  # the squared correlation
        seen = slope * np.take_along_axis(values, other, 1)
        values[:] = np.where(known, values, share * seen + (1 - share) * values)

    @functools.cached_property
    def _relations(self) -> F64:
        """The expected return of each seat per unit of another seat's return. Shape: (S, S).

        They are slopes of lines through 0, fitted to the returns of random games; 0 if the second
        seat has had no reward.
        """
        rows: Any = self._rows
        policy, plays = random_policy(0), np.ones(_GAMES, np.bool_)
        with rows.alike(_GAMES * self._seats) as copies:
            shown, returns = copies.reset(0), np.zeros((_GAMES, self._seats))
            for _ in range(_STEPS):
                shown = copies.act(policy(shown))
                returns += self._of_games(shown.reward) * plays[:, None]
                plays &= ~self._over(shown)
                if not plays.any():
                    break
        products = returns.T @ returns
        own = np.diagonal(products)
        slopes: F64 = np.divide(products, own, out=np.zeros_like(products), where=own > 0)
        return slopes

    def _of_games(self, rewards: Any) -> F64:
        """Return the rewards of rows (R,) by games and seats. Shape: (G, S)."""
        found: F64 = rewards.astype(np.float64).reshape(-1, self._seats)
        return found

    def _over(self, shown: VecObs) -> Bools:
        """Return True for games that have ended. Shape: (G,)."""
        ended = shown.done if shown.over is None else shown.over
        of_games = ended.reshape(-1, self._seats)
        found: Bools = of_games.all(axis=1) if shown.over is None else of_games.any(axis=1)
        return found

    def _asked(self, shown: VecObs) -> Bools:
        """Return True for games in which a seat must act. Shape: (G,)."""
        found = np.zeros(len(shown) // self._seats, np.bool_)
        found[shown.rows // self._seats] = True
        return found

    def _values_of_limits(self, shown: VecObs) -> F64:
        """Return the values of last observations where a limit has ended an episode, else 0."""
        values = np.zeros(len(shown))
        if shown.final is not None and self._net is not None:
            device = next(self._net.parameters()).device
            batch = EntityBatch.from_obs(shown.final, device).without_actions()
            with torch.no_grad(), autocast(device, self._precision):
                values[shown.truncated] = self._net.value(batch).float().cpu().numpy()
        return self._of_games(values)

    def _copies_of(self, games: int) -> Copies:
        """Return copies of so many games; few numbers of them are kept."""
        if games not in self._copies:
            if len(self._copies) >= _MOST_COPIES:
                self._copies.pop(next(iter(self._copies)))
            self._copies[games] = copies_of(self._rows, games, self._config.visits + 1)
        return self._copies[games]


def make_search(rows: VecEnv, net: RaggedNet, config: TrainConfig) -> Search:
    """Return the search of a run's settings in these rows.

    Raises:
        SettingError: The rows cannot be searched.
        SettingError: ``search.play_on`` is not a player of the game.
    """
    play_on: Policy | None = None
    if config.search.play_on == "network":
        play_on = NetworkAgent(net, greedy=True, precision=config.precision).act_rows
    elif config.search.play_on is not None:
        spaces = net.obs_space, net.action_space
        play_on = make_opponent(config.search.play_on, *spaces).act_rows
    teacher: RaggedNet | None = net
    if config.search.teacher is not None:
        teacher = _teacher_of(config.search.teacher, net)
    return Search(
        rows,
        teacher,
        config.search,
        gamma=config.ppo.gamma,
        play_on=play_on,
        precision=config.precision,
    )


def _teacher_of(name: str, net: RaggedNet) -> RaggedNet | None:
    """Return the fixed network of a run, on the device of ``net``; None for ``none``."""
    if name == "none":
        return None
    device = next(net.parameters()).device
    teacher = load_net(name, str(device)).net
    check_same_spaces(
        [{"obs_space": own.obs_space, "action_space": own.action_space} for own in (net, teacher)],
        lambda number: ("the environment", f"search.teacher={name}")[number],
    )
    return teacher


def _flat(probs: Any) -> npt.NDArray[np.float32]:
    """Return the numbers of an action, actor by actor."""
    values = probs.values if isinstance(probs, RaggedTensor) else probs
    found: npt.NDArray[np.float32] = values.detach().float().cpu().numpy().ravel()
    return found
