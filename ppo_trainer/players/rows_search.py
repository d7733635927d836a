"""A tree search for many compiled games at once, guided by one network.

    rows = MiniRtsRows(40, opponent="simple")
    search, obs = RowsSearch(rows, load_agent(run), visits=50), rows.reset()
    obs = rows.act(search(obs))

A visit follows each tree to a leaf, plays one step in copies of the games, and evaluates all new
positions with the network in one batch. The search knows the whole state of the games, including
what they hide from players, and their random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
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
from ppo_trainer.players.search_tree import ChoiceCounts, SearchNode, SearchTree, ValueRange

__all__ = ["RowsGuide", "RowsSearch"]


class RowsGuide(Protocol):
    """The interface of a network that guides a search over rows; ``load_agent`` returns one."""

    def decide_rows(self, obs: VecObs) -> list[Decision]:
        """Return the probabilities of choices and the expected return for each frame."""


class RowsSearch:
    """A policy that plays rows by Monte-Carlo tree search, and takes the most visited choice.

    Args:
        rows: Rows to play, of one seat each.
        guide: Agent that gives probabilities and values, such as ``load_agent(run)``.
        visits: Number of visits of each tree for a decision. Each visit keeps a copy of all games
            that must act until the decision.
        exploration: Weight of exploration.
        gamma: Discount factor of each step, as in the training of the guide.

    Attributes:
        seconds: CPU time of all decisions so far, in seconds.
        decisions: Number of decisions so far.

    Raises:
        SettingError: The rows cannot be copied, or ``visits`` is not a whole number >= 1.

    Source:
        See ``ChoiceCounts.puct``.
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
        """Return the most visited choice of each row that must act."""
        started = time.process_time()
        name, roots = self._grow(obs)
        chosen = [int(root.indices[np.argmax(root.visits)]) for root in roots]
        self.seconds += time.process_time() - started
        self.decisions += len(roots)
        return _actions(name, chosen)

    def _grow(self, obs: VecObs) -> tuple[ActionName, list[ChoiceCounts]]:
        """Grow a tree for each row that must act, and return the counts of its choices."""
        waves = [self._rows.copy_games(obs.rows.tolist())]
        games = range(len(obs.rows))
        copies = self._copies_of(len(games))
        name, roots = self._positions(obs, 0)
        trees = [SearchTree(root) for root in roots]
        for wave in range(1, self._visits + 1):
            paths = [tree.walk(self._pick) for tree in trees]
            ends = [path[-1] for path in paths]
            copies.put_games(games, _gather(waves, [node.state for node, _ in ends]))
            chosen = [int(node.seats[0].indices[picked[0]]) for node, picked in ends]
            seen = copies.act(_actions(name, chosen))
            waves.append(copies.copy_games(games))
            _, found = self._positions(seen, wave)
            for tree, path, after, reward, done in zip(
                trees, paths, found, seen.reward.tolist(), seen.done.tolist(), strict=True
            ):
                node, picked = path[-1]
                node.following[(picked[0],)] = SearchNode() if done else after, {0: reward}
                tree.note(path, self._gamma)
        return name, [root.seats[0] for root in roots]

    def _pick(self, seat: int, asked: Mapping[int, ChoiceCounts], seen: ValueRange) -> int:
        return asked[seat].puct(self._exploration, seen)

    def _positions(
        self, obs: VecObs, wave: int
    ) -> tuple[ActionName, list[SearchNode[ChoiceCounts]]]:
        """Return the positions of ``obs`` with the guide's probabilities and values.

        The state of a position is the number of the visit that found it.
        """
        name, choices = choices_of(obs)
        nodes = []
        for own, decision in zip(choices, self._guide.decide_rows(obs), strict=True):
            prior, value = own.prior(decision.probs[name][0]), float(decision.value or 0.0)
            seat = ChoiceCounts(own.indices, prior, value)
            nodes.append(SearchNode({0: seat}, {0: value}, wave))
        return name, nodes

    def _copies_of(self, games: int) -> CompiledRows:
        """Return rows of the same game, whose states will be overwritten."""
        if self._copies is None or len(self._copies) != games:
            self._copies = self._rows.alike(games)
            self._copies.reset()
        return self._copies


def _gather(waves: list[SavedGames], chosen: list[int]) -> SavedGames:
    """Return the copy of each game that was made in the chosen wave."""
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
