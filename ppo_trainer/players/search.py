"""An agent that searches: Monte-Carlo trees over the saved states of the game that is played.

    agent = SearchAgent(ConnectFour, visits=200)
    env = MaskedEnvironment(ConnectFour, opponents=agent)   # it plays the other seat

It looks into the game, so that it is for games in which everybody sees everything. With a
``network`` the tree is guided by its probabilities and its value (PUCT), else by games that are
played to their end at random. Seats that are asked at once choose at once, each by its own counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
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
from entity_env.rows.vec_env import check_count
from entity_env.seats.table import Table, Told
from entity_env.spaces import ActionName
from ppo_trainer.players.search_choices import choices_of

__all__ = ["Guide", "SearchAgent"]

F64 = npt.NDArray[np.float64]
MOST_STEPS = 10_000
"""A game that is played at random ends after so many steps at the latest, as if nobody got more."""

DRAWN = 0.2
"""The share of the choices that are drawn evenly where several seats choose at once."""


class Guide(Protocol):
    """What can guide a search: ``load_agent`` returns it for a run folder."""

    def decide(self, obs: VecObs) -> Decision:
        """Probabilities of the choices, and the return that is expected."""


@dataclass
class _Seat:
    """What is known of the choices of one seat in one position. Shape of the arrays: (C,)."""

    frame: Frame
    action: ActionName
    choices: list[int]
    prior: F64
    visits: F64
    total: F64

    def best(self, exploration: float, *, is_guided: bool) -> int:
        """The choice to look into next: PUCT with a guide, else UCB1."""
        count = self.visits.sum()
        mean = np.divide(
            self.total, self.visits, out=np.zeros_like(self.total), where=self.visits > 0
        )
        if is_guided:
            bonus = self.prior * math.sqrt(count + 1) / (1 + self.visits)
            return int(np.argmax(mean + exploration * bonus))
        if (self.visits == 0).any():
            return int(np.argmin(self.visits))
        return int(np.argmax(mean + exploration * np.sqrt(np.log(count) / self.visits)))


@dataclass
class _Node:
    """A position that asks somebody, or the end of the game, where nobody is asked."""

    state: Any
    inside: tuple[int, ...]
    seats: dict[int, _Seat]
    value: dict[int, float]
    following: dict[tuple[int, ...], tuple[_Node, dict[int, float]]] = field(default_factory=dict)


class SearchAgent:
    """Chooses what it has looked into most often.

    Args:
        create_game: Makes a game of the kind that is played, to search in.
        visits: How often a tree is walked through for each decision.
        guide: Knows probabilities and values, such as ``load_agent(run)``; None plays at random.
        exploration: How much is tried that looks worse. None: 1.5 with a guide, else 1.4.
        trees: So many trees are grown, each with ``visits``, and their counts are added.
        seed: Of what is drawn.

    Attributes:
        visits_per_second: Of the last decision.

    Raises:
        SettingError: Counts that are no whole numbers >= 1.

    Source:
        Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006; PUCT as in Silver et al.,
        "Mastering the game of Go without human knowledge", 2017.
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
            exploration if exploration is not None else 1.4 if guide is None else 1.5
        )
        self._table = Table(create_game())
        game = self._table.game
        self._spaces = game.obs_space(), game.action_space()
        self._reader = FrameReader(*self._spaces)
        self._live: MultiPlayerEnvironment | None = None
        self._inside: Callable[[], Collection[int]] = tuple
        self.visits_per_second = 0.0
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart what it draws."""
        self._rng = np.random.default_rng(seed)

    def attach(
        self, game: MultiPlayerEnvironment, inside: Callable[[], Collection[int]] | None = None
    ) -> None:
        """Tell it which game it sits in; ``MaskedEnvironment`` does.

        Args:
            game: The game that is played.
            inside: Says who is in it, by the numbers of their seats; None: everybody, always.
        """
        self._live = game
        everybody = range(len(self._table.seats))
        self._inside = (lambda: everybody) if inside is None else inside

    def reset(self) -> None:
        """Nothing is remembered from one decision to the next."""

    def act(self, observation: Observation) -> Mapping[ActionName, Action]:
        """What to do, after having looked ahead.

        Raises:
            SettingError: It has not been attached to a game; or more than one choice at a time.
        """
        if self._live is None:
            raise SettingError(
                "a search does not know which game it plays",
                expected="attach(game), as MaskedEnvironment does",
            )
        frame = self._reader.read(observation)
        state = self._live.get_state()
        inside = tuple(sorted(self._inside()))
        told = self._read(self._table.set_state(state, inside))
        # Whoever sees the very same in this position is who asks.
        seat = next((s for s, own in told.items() if _same(own, frame)), None)
        if seat is None:
            raise SettingError(
                "the game that the search is attached to does not ask this",
                expected="an observation of one of its seats, as it is now",
                received=shorten(observation),
            )
        counts = np.zeros(0)
        start = time.perf_counter()
        for _ in range(self._trees):
            root = self._node(state, told, inside)
            for _ in range(self._visits):
                self._walk(root)
            counts = root.seats[seat].visits + (counts if len(counts) else 0)
        taken = time.perf_counter() - start
        self.visits_per_second = self._trees * self._visits / max(taken, 1e-9)
        own = root.seats[seat]
        chosen = own.choices[int(np.argmax(counts))]
        return typed_actions(frame, {own.action: np.array([chosen])}, self._spaces[1])

    def _walk(self, node: _Node) -> dict[int, float]:
        """Go down the tree, add a position, and note what every seat gets from here on."""
        if not node.seats:
            return {}
        picked = {seat: self._pick(own, len(node.seats)) for seat, own in node.seats.items()}
        key = tuple(picked.values())
        if key in node.following:
            after, rewards = node.following[key]
            later = self._walk(after)
        else:
            after, rewards = self._expand(node, picked)
            node.following[key] = after, rewards
            later = after.value
        got = {seat: rewards.get(seat, 0.0) + later.get(seat, 0.0) for seat in {*rewards, *later}}
        for seat, own in node.seats.items():
            own.visits[picked[seat]] += 1
            own.total[picked[seat]] += got.get(seat, 0.0)
        return got

    def _pick(self, own: _Seat, asked: int) -> int:
        """The choice of one of the seats that are asked.

        Several that always took what looks best would go hand in hand, and never see what one of
        them alone could do better.
        """
        if asked > 1 and self._rng.random() < DRAWN:
            return int(self._rng.integers(len(own.choices)))
        return own.best(self._exploration, is_guided=self._guide is not None)

    def _expand(self, node: _Node, picked: Mapping[int, int]) -> tuple[_Node, dict[int, float]]:
        """The position that choices lead to, and the rewards on the way."""
        self._table.set_state(node.state, node.inside)
        choices = {seat: node.seats[seat].choices[index] for seat, index in picked.items()}
        frames = {seat: node.seats[seat].frame for seat in picked}
        told, rewards = self._play(frames, choices)
        if self._table.is_over:
            return _Node(None, (), {}, {}), rewards
        inside = tuple(self._table.inside)
        after = self._node(self._table.game.get_state(), told, inside)
        if self._guide is None:
            after.value = self._at_random(told)
        return after, rewards

    def _node(self, state: Any, told: Mapping[int, Frame], inside: tuple[int, ...]) -> _Node:
        """A position, with what the guide says of those who are asked."""
        seats, value = {}, {}
        for seat, frame in told.items():
            if not frame.asks:
                continue
            obs = batch_frames([frame], *self._spaces)
            name, (choices,) = choices_of(obs)
            count = len(choices.indices)
            prior = np.full(count, 1 / count)
            if self._guide is not None:
                decision = self._guide.decide(obs)
                value[seat] = float(decision.value or 0.0)
                if name in decision.probs:
                    prior = choices.prior(decision.probs[name][0])
            seats[seat] = _Seat(
                frame, name, choices.indices.tolist(), prior, np.zeros(count), np.zeros(count)
            )
        if self._guide is not None and len(value) == 1 and len(self._table.seats) == 2:
            (seat,) = value  # what one of two expects, the other one does not: games of two
            value[1 - seat] = -value[seat]
        return _Node(state, inside, seats, value)

    def _play(
        self, frames: Mapping[int, Frame], choices: Mapping[int, int]
    ) -> tuple[dict[int, Frame], dict[int, float]]:
        """Play on until somebody is asked again; who sees what, and what everybody got."""
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
        raise SettingError(f"nobody has been asked in {MOST_STEPS:,} steps")

    def _at_random(self, told: Mapping[int, Frame]) -> dict[int, float]:
        """What everybody gets if all play at random from here on."""
        total: dict[int, float] = {}
        for _ in range(MOST_STEPS):
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
    return one.asks and all(
        np.array_equal(rows, other.features[name]) for name, rows in one.features.items()
    )
