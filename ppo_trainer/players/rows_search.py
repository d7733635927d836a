"""A policy that searches: a tree for each of many compiled games, guided by one network.

    rows = MiniRtsRows(40, opponent="simple")
    search, obs = RowsSearch(rows, load_agent(run), visits=50), rows.reset()
    obs = rows.act(search(obs))

A visit walks down all trees, plays one step in copies of the games, and asks the network about all
new positions in one batch. It looks into the games, whatever they hide, and knows what they will
draw.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from entity_env import VecObs
from entity_env.agent import Decision
from entity_env.batching.ragged import ActionBuffer, RaggedBufferI64
from entity_env.errors import SettingError, shorten
from entity_env.rows.compiled import CompiledRows, SavedGames
from entity_env.rows.vec_env import check_count
from entity_env.spaces import ActionName
from ppo_trainer.players.search_choices import choices_of
from ppo_trainer.players.search_counts import ChoiceCounts, ValueRange

__all__ = ["RowsGuide", "RowsSearch"]


class RowsGuide(Protocol):
    """A guide of a search over rows; ``load_agent`` returns one for a run folder."""

    def decide_rows(self, obs: VecObs) -> list[Decision]:
        """For each frame the probabilities of the choices, and the return that is expected."""


@dataclass
class _Position(ChoiceCounts):
    """A position, and when it was found: ``wave`` numbers the visits of all trees."""

    wave: int

    def __post_init__(self) -> None:
        """Begin without visits."""
        super().__post_init__()
        self.reward = np.zeros(len(self.indices))
        self.following: list[_Position | None] = [None] * len(self.indices)


@dataclass
class _Tree:
    """The search tree of one position."""

    root: _Position
    seen: ValueRange = field(default_factory=ValueRange)

    def walk(self, exploration: float) -> list[tuple[_Position, int]]:
        """Return the way to a choice that has not been looked into, or that ends the game."""
        way, node = [], self.root
        while True:
            choice = node.puct(exploration, self.seen)
            way.append((node, choice))
            after = node.following[choice]
            if after is None:
                return way
            node = after

    def note(self, way: list[tuple[_Position, int]], value: float, gamma: float) -> None:
        """Note for all choices on the way what they were worth."""
        for node, choice in reversed(way):
            value = node.reward[choice] + gamma * value
            node.note(choice, value)
            self.seen.note(value)


class RowsSearch:
    """Plays rows by Monte-Carlo tree search, and chooses what it has looked into most often.

    Args:
        rows: The rows that it plays, of one seat each, which it looks into.
        guide: Knows probabilities and values, such as ``load_agent(run)``.
        visits: How often each tree is walked through for a decision. As many copies of all games
            that are asked are kept until it is made.
        exploration: How much is tried that looks worse.
        gamma: What a reward of the next step is worth now, as in the training of the guide.

    Attributes:
        seconds: Of CPU time, spent in all decisions so far.
        decisions: How many there have been.

    Raises:
        SettingError: Rows that it cannot copy, or no whole number of visits >= 1.

    Source:
        That of ``ChoiceCounts.puct``.
    """

    def __init__(
        self,
        rows: CompiledRows,
        guide: RowsGuide,
        visits: int = 50,
        exploration: float = 1.25,
        gamma: float = 1.0,
    ) -> None:
        if not isinstance(rows, CompiledRows) or rows.num_seats > 1:
            raise SettingError(
                "these rows cannot be searched",
                expected="compiled rows of games for one player",
                received=shorten(rows),
            )
        self._rows, self._guide = rows, guide
        self._visits = check_count("number of visits", visits, error=SettingError)
        self._exploration, self._gamma = float(exploration), float(gamma)
        self._copies: CompiledRows | None = None
        self.seconds, self.decisions = 0.0, 0

    def __call__(self, obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
        """Return the choice of each row that is asked: a policy over the rows."""
        started = time.process_time()
        name, roots = self._grow(obs)
        chosen = [int(root.indices[np.argmax(root.visits)]) for root in roots]
        self.seconds += time.process_time() - started
        self.decisions += len(roots)
        return _actions(name, chosen)

    def _grow(self, obs: VecObs) -> tuple[ActionName, list[_Position]]:
        """Walk through a tree of each row that is asked."""
        waves = [self._rows.copy_games(obs.rows.tolist())]
        games = range(len(obs.rows))
        copies = self._copies_of(len(games))
        name, roots = self._positions(obs, 0)
        trees = [_Tree(root) for root in roots]
        for wave in range(1, self._visits + 1):
            ways = [tree.walk(self._exploration) for tree in trees]
            ends = [way[-1] for way in ways]
            copies.put_games(games, _gather(waves, [node.wave for node, _ in ends]))
            seen = copies.act(_actions(name, [int(node.indices[k]) for node, k in ends]))
            waves.append(copies.copy_games(games))
            _, found = self._positions(seen, wave)
            for tree, way, after, reward, done in zip(
                trees, ways, found, seen.reward.tolist(), seen.done.tolist(), strict=True
            ):
                node, choice = way[-1]
                node.reward[choice] = reward
                if not done:
                    node.following[choice] = after
                tree.note(way, 0.0 if done else after.value, self._gamma)
        return name, roots

    def _positions(self, obs: VecObs, wave: int) -> tuple[ActionName, list[_Position]]:
        """Return the positions in ``obs``, as the guide sees them."""
        name, choices = choices_of(obs)
        nodes = []
        for own, decision in zip(choices, self._guide.decide_rows(obs), strict=True):
            prior = own.prior(decision.probs[name][0])
            nodes.append(_Position(own.indices, prior, float(decision.value or 0.0), wave))
        return name, nodes

    def _copies_of(self, games: int) -> CompiledRows:
        """Rows of the same game, to be overwritten."""
        if self._copies is None or len(self._copies) != games:
            self._copies = self._rows.alike(games)
            self._copies.reset()
        return self._copies


def _gather(waves: list[SavedGames], chosen: list[int]) -> SavedGames:
    """Of each game the copy that was made in one of the waves."""
    picked = [waves[wave] for wave in chosen]
    fields: dict[str, Any] = {
        name: np.stack([own.fields[name][game] for game, own in enumerate(picked)])
        for name in waves[0].fields
    }
    returns = np.stack([own.returns[game] for game, own in enumerate(picked)])
    return SavedGames(fields, returns, np.stack([o.taken[game] for game, o in enumerate(picked)]))


def _actions(name: ActionName, chosen: list[int]) -> Mapping[ActionName, ActionBuffer]:
    flat = np.array(chosen, np.int64)[:, None]
    return {name: RaggedBufferI64.from_flattened(flat, np.ones(len(chosen), np.int64))}
