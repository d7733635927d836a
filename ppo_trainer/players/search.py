"""An agent that plays games for several players by Monte-Carlo tree search.

    agent = SearchAgent(ConnectFour, visits=200)
    env = MaskedEnvironment(ConnectFour, opponents=agent)   # it plays the other seat

The search knows the whole state of the game, so that it suits games without hidden information.
With a ``guide`` the tree uses its probabilities and values (PUCT), without one the returns of
random games. Seats that must act in the same step choose independently, each by its own counts.
Each seat has its own value, so that games need not be zero-sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from entity_env import MultiPlayerEnvironment, Observation, VecObs
from entity_env.actions import Action
from entity_env.agent import Decision
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.vec_obs import batch_frames
from entity_env.errors import SettingError, shorten
from entity_env.kinds.table import typed_actions
from entity_env.multi_player import Seat
from entity_env.rows.vec_env import check_count
from entity_env.seats.table import Table, Told
from entity_env.spaces import ActionName
from ppo_trainer.players.search_choices import choices_of
from ppo_trainer.players.search_tree import ChoiceCounts, SearchNode, SearchTree, ValueRange

__all__ = ["Guide", "SearchAgent"]

F64 = npt.NDArray[np.float64]
MOST_STEPS = 10_000
"""Maximum number of steps of a random game; later rewards count as 0."""

GAMES = 16
"""Number of random games from which the relations of the seats' returns are estimated."""

DRAWN = 0.2
"""Fraction of choices that are drawn uniformly if several seats must act in the same step."""


class Guide(Protocol):
    """The interface of a network that guides a search; ``load_agent`` returns one."""

    def decide(self, obs: VecObs) -> Decision:
        """Return the probabilities of the choices and the expected return."""


@dataclass
class _Seat(ChoiceCounts):
    """The counts of the choices of one seat in one position."""

    frame: Frame
    action: ActionName


class SearchAgent:
    """An agent that takes the most visited choice of a tree grown for each decision.

    Args:
        create_game: Function that makes a game of the same kind, in which the search plays.
        visits: Number of visits of a tree for each decision.
        guide: Agent that gives probabilities and values, such as ``load_agent(run)``; None plays
            random games.
        exploration: Weight of exploration; None stands for 0.75 with a guide, 0.7 without.
        trees: Number of trees, each with ``visits``, whose counts are added.
        seed: Seed of the random numbers.

    Attributes:
        visits_per_second: Speed of the last decision, in visits per second.

    Raises:
        SettingError: ``visits`` or ``trees`` is not a whole number >= 1, or the game is for one
            player.

    Source:
        See ``ChoiceCounts.puct`` and ``ChoiceCounts.ucb1``.
    """

    name = "search"

    def __init__(
        self,
        create_game: Callable[[], MultiPlayerEnvironment],
        visits: int = 200,
        guide: Guide | None = None,
        exploration: float | None = None,
        trees: int = 1,
        seed: int = 0,
    ) -> None:
        self._visits = check_count("number of visits", visits, error=SettingError)
        self._trees = check_count("number of trees", trees, error=SettingError)
        self._guide = guide
        self._exploration = (
            exploration if exploration is not None else 0.7 if guide is None else 0.75
        )
        game = create_game()
        if not isinstance(game, MultiPlayerEnvironment):
            raise SettingError(
                "this game cannot be searched",
                expected="a function that makes a MultiPlayerEnvironment, such as its class",
                received=shorten(game),
            )
        self._table = Table(game)
        self._spaces = game.obs_space(), game.action_space()
        self._reader = FrameReader(*self._spaces)
        self._live: MultiPlayerEnvironment | None = None
        self._inside: Callable[[], Collection[int]] = tuple
        self._seat: Seat | None = None
        self._pay: F64 | None = None
        self.visits_per_second = 0.0
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Seed the random numbers."""
        self._rng = np.random.default_rng(seed)

    def attach(
        self,
        game: MultiPlayerEnvironment,
        inside: Callable[[], Collection[int]] | None = None,
        seat: Seat | None = None,
    ) -> None:
        """Tell the search which seat of which game it plays, as ``MaskedEnvironment`` does.

        Args:
            game: Game that is played.
            inside: Function that returns the numbers of the seats that take part; None for all
                seats.
            seat: Seat that the agent plays; None finds the seat with the observation that ``act``
                gets.
        """
        self._live, self._seat = game, seat
        everybody = range(len(self._table.seats))
        self._inside = (lambda: everybody) if inside is None else inside

    def reset(self) -> None:
        """Do nothing: no decision depends on earlier ones."""

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """Search, and return the actions.

        Raises:
            SettingError: The agent is not attached to a game, the observation is not that of one
                seat that must act, or there is more than one choice at a time.
        """
        if self._live is None:
            raise SettingError(
                "the search is not attached to a game",
                expected="attach(game), as MaskedEnvironment does",
            )
        frame = self._reader.read(observation)
        state = self._live.get_state()
        inside = tuple(sorted(self._inside()))
        told = self._read(self._table.set_state(state, inside))
        seat = self._asker(frame, told)
        counts = np.zeros(0)
        start = time.perf_counter()
        for _ in range(self._trees):
            root = self._node(state, told, inside, {})
            tree = SearchTree(root)
            for _ in range(self._visits):
                path = tree.walk(self._pick)
                node, picked = path[-1]
                if tuple(picked.values()) not in node.following:
                    node.following[tuple(picked.values())] = self._expand(node, picked)
                tree.note(path)
            counts = root.seats[seat].visits + (counts if len(counts) else 0)
        taken = time.perf_counter() - start
        self.visits_per_second = self._trees * self._visits / max(taken, 1e-9)
        own = root.seats[seat]
        chosen = own.indices[int(np.argmax(counts))]
        return typed_actions(frame, {own.action: np.array([chosen])}, self._spaces[1])

    def _asker(self, frame: Frame, told: Mapping[int, Frame]) -> int:
        """Return the seat that must act and whose present observation is ``frame``."""
        seats = self._table.seats
        found = [
            number
            for number, own in told.items()
            if (self._seat is None or seats[number] == self._seat) and _same(own, frame)
        ]
        if len(found) == 1:
            return found[0]
        if not found:
            raise SettingError(
                "the observation is not one of the attached game in its present state",
                expected="the observation of "
                + ("one of its seats" if self._seat is None else f"seat {self._seat!r}")
                + " in the present state",
                received=shorten(frame.features),
            )
        raise SettingError(
            f"several seats observe this: {', '.join(repr(seats[number]) for number in found)}",
            expected="attach(game, seat=...), with the seat that the agent plays",
        )

    def _pick(self, seat: int, asked: Mapping[int, _Seat], seen: ValueRange) -> int:
        """Return the choice of one of the seats that must act.

        If several seats always took their best choices together, the search would not learn what a
        seat gains by another choice alone.
        """
        own = asked[seat]
        if len(asked) > 1 and self._rng.random() < DRAWN:
            return int(self._rng.integers(len(own.indices)))
        rule = own.ucb1 if self._guide is None else own.puct
        return rule(self._exploration, seen)

    def _expand(
        self, node: SearchNode[_Seat], picked: Mapping[int, int]
    ) -> tuple[SearchNode[_Seat], dict[int, float]]:
        """Return the position that the picked choices lead to, and the rewards on the way."""
        self._table.set_state(*node.state)
        choices = {seat: int(node.seats[seat].indices[index]) for seat, index in picked.items()}
        frames = {seat: node.seats[seat].frame for seat in picked}
        told, rewards = self._play(frames, choices)
        if self._table.is_over:
            return SearchNode(), rewards
        inside = tuple(sorted(self._table.inside))
        # The guide's values of the position before, minus the rewards since then.
        before = {s: value - rewards.get(s, 0.0) for s, value in node.value.items()}
        after = self._node(self._table.game.get_state(), told, inside, before)
        if self._guide is None:
            after.value = self._at_random(told, MOST_STEPS)
        return after, rewards

    def _node(
        self,
        state: Any,
        told: Mapping[int, Frame],
        inside: tuple[int, ...],
        before: Mapping[int, float],
    ) -> SearchNode[_Seat]:
        """Return a position with the guide's values; ``before`` contains those of its parent."""
        seats, value = {}, {}
        for seat, frame in told.items():
            if frame.done:
                continue
            obs = batch_frames([frame], *self._spaces)
            decision = None
            if self._guide is not None:
                decision = self._guide.decide(obs)
                value[seat] = float(decision.value or 0.0)
            if not frame.asks:
                continue
            name, (choices,) = choices_of(obs)
            count = len(choices.indices)
            prior = np.full(count, 1 / count)
            if decision is not None and name in decision.probs:
                prior = choices.prior(decision.probs[name][0])
            seats[seat] = _Seat(choices.indices, prior, value.get(seat, 0.0), frame, name)
        if self._guide is not None:
            value |= self._unseen(value, before, inside)
        return SearchNode(seats, value, (state, inside))

    def _unseen(
        self, value: Mapping[int, float], before: Mapping[int, float], inside: Sequence[int]
    ) -> dict[int, float]:
        """Return the values of the seats that get no observation in a position.

        The guide has no input for these seats. The value of such a seat is estimated from that of
        another seat, as far as their returns are correlated in random games: negatively in zero-sum
        games, positively in cooperative ones. The rest is the guide's value of the position before.
        """
        found = {}
        for seat in set(inside) - set(value):
            own = before.get(seat, 0.0)
            found[seat] = own
            if value:
                pay = self._relations()
                other = max(value, key=lambda s: abs(float(pay[seat, s])))
                slope, back = float(pay[seat, other]), float(pay[other, seat])
                share = slope * back  # the squared correlation
                found[seat] = share * slope * value[other] + (1 - share) * own
        return found

    def _relations(self) -> F64:
        """Return the expected return of each seat per unit of another seat's return. Shape: (S, S).

        They are slopes of lines through 0, fitted to the returns of random games; 0 if the second
        seat has had no reward.
        """
        if self._pay is None:
            count = len(self._table.seats)
            returns = np.zeros((GAMES, count))
            self._table.game.seed(int(self._rng.integers(2**32)))
            for number in range(GAMES):
                told = self._read(self._table.reset())
                for seat, reward in self._at_random(told, MOST_STEPS // GAMES).items():
                    returns[number, seat] = reward
            products = returns.T @ returns
            own = np.diagonal(products)
            self._pay = np.divide(products, own, out=np.zeros_like(products), where=own > 0)
        return self._pay

    def _play(
        self, frames: Mapping[int, Frame], choices: Mapping[int, int]
    ) -> tuple[dict[int, Frame], dict[int, float]]:
        """Play until a seat must act; return the frames and the rewards of the seats."""
        actions: dict[int, Mapping[ActionName, Action]] = {}
        for seat, choice in choices.items():
            name = next(name for name, own in frames[seat].actions.items() if len(own.actors))
            actions[seat] = typed_actions(frames[seat], {name: np.array([choice])}, self._spaces[1])
        rewards: dict[int, float] = {}
        for _ in range(MOST_STEPS):
            told = self._read(self._table.act(actions))
            for seat, frame in told.items():
                rewards[seat] = rewards.get(seat, 0.0) + frame.reward
            if self._table.is_over or any(frame.asks for frame in told.values()):
                return told, rewards
            actions = {}
        raise SettingError(f"no seat had to act in {MOST_STEPS:,} steps")

    def _at_random(self, told: Mapping[int, Frame], steps: int) -> dict[int, float]:
        """Return the rewards of the seats in ``steps`` steps of random play."""
        total: dict[int, float] = {}
        for _ in range(steps):
            frames = {seat: frame for seat, frame in told.items() if frame.asks}
            drawn = {}
            for seat, frame in frames.items():
                _, (choices,) = choices_of(batch_frames([frame], *self._spaces))
                drawn[seat] = int(choices.indices[self._rng.integers(len(choices.indices))])
            told, rewards = self._play(frames, drawn)
            for seat, reward in rewards.items():
                total[seat] = total.get(seat, 0.0) + reward
            if self._table.is_over:
                break
        return total

    def _read(self, told: Told) -> dict[int, Frame]:
        return {seat: self._reader.read(observation) for seat, observation in told.items()}


def _same(one: Frame, other: Frame) -> bool:
    """Return True if two frames have equal contents and at least one actor."""
    return one.asks and all(
        _equal(getattr(one, part), getattr(other, part))
        for part in ("features", "global_features", "visible", "actions")
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_equal(own, other[k]) for k, own in one.items())
    if is_dataclass(one):  # the actors of an action
        names = [own.name for own in fields(one)]
        return all(_equal(getattr(one, name), getattr(other, name)) for name in names)
    return np.array_equal(one, other)
