"""Monte-Carlo tree search for Mini-RTS, compiled, for the games of ``MiniRtsRows``.

    rows = MiniRtsRows(16, opponent="simple")
    search, obs = MiniRtsSearch(rows, visits=100, trees=8, threads=2), rows.reset()
    obs = rows.act(search(obs))

One visit copies the game, walks down a tree whose edges are strategic actions, each lasting until
the player must act again, and continues from the new leaf. The other player is modelled by a
built-in one. The search uses the whole game, which a learner in the fog does not see.
"""

from __future__ import annotations

import math
import time
from collections import namedtuple
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer, RaggedBufferI64
from entity_env.batching.vec_obs import VecObs
from entity_env.rows.compiled import random_int
from entity_env.rows.jit import kernel
from entity_env.rows.random_numbers import seeded_streams
from envs.rts.arrays import OVER, TICK, WINNER, World, called, world_of
from envs.rts.minirts import ACTIONS, act, advantage, is_possible, order, tick
from envs.rts.minirts_rows import MiniRtsMatch, MiniRtsRows

__all__ = ["MiniRtsSearch"]

_ACTIONS = len(ACTIONS)


@called
def _value(w: Any, player: int) -> float:
    """Return 1 for a win, 0 for a defeat or a draw, and the share of material during a game."""
    if w.numbers[OVER]:
        return 1.0 if w.numbers[WINNER] == player else 0.0
    return 0.5 + 0.5 * advantage(w, player)


@called
def _until_asked(
    w: Any, player: int, other: int, skip: int, other_skip: int, random: Any, tree: int
) -> None:
    """Play the tick of the player's actions, and those before its next turn."""
    while True:
        if w.numbers[TICK] % other_skip == 0:
            act(w, 1 - player, other, random, tree)
        tick(w, random, tree)
        if w.numbers[OVER] or w.numbers[TICK] % skip == 0:
            return


@called
def _choices(w: Any, player: int) -> int:
    """Return the sum of 2^action of the actions that would give any unit a command."""
    found = 0
    for action in range(_ACTIONS):
        if action == 0 or is_possible(w, player, action):
            found |= 1 << action
    return found


@called
def _pick(t: Any, tree: int, node: int, exploration: float, random: Any) -> int:
    """Return an action by UCB1: a random one that has not been tried, or else the best one."""
    untried, count = 0, 0.0
    for action in range(_ACTIONS):
        if (t.choices[tree, node] >> action) & 1:
            count += t.visits[tree, node, action]
            untried += t.visits[tree, node, action] == 0
    if untried:
        nth = random_int(random, tree, 1, untried)
        for action in range(_ACTIONS):
            if (t.choices[tree, node] >> action) & 1 and t.visits[tree, node, action] == 0:
                nth -= 1
                if nth == 0:
                    return action
    best, most = 0, -1.0
    for action in range(_ACTIONS):
        if (t.choices[tree, node] >> action) & 1:
            visits = t.visits[tree, node, action]
            bound = t.total[tree, node, action] / visits
            bound += exploration * math.sqrt(math.log(count) / visits)
            if bound > most:
                best, most = action, bound
    return best


@called
def _visit(
    w: Any, t: Any, tree: int, player: int, how: Any, exploration: float, random: Any
) -> None:
    """Walk down one tree from the state in ``w``, add a leaf, and add the result of its game."""
    other, own, skip, other_skip, horizon = how[0], how[1], how[2], how[3], how[4]
    node, depth, value = 0, 0, 0.0
    while True:
        action = _pick(t, tree, node, exploration, random)
        t.path[tree, depth, 0], t.path[tree, depth, 1] = node, action
        depth += 1
        order(w, player, 1 << action)
        _until_asked(w, player, other, skip, other_skip, random, tree)
        if w.numbers[OVER]:
            break
        after = t.after[tree, node, action]
        if after == 0:
            after = t.nodes[tree]
            t.nodes[tree] += 1
            t.after[tree, node, action] = after
            t.choices[tree, after] = _choices(w, player)
            last = w.numbers[TICK] + horizon
            while not w.numbers[OVER] and w.numbers[TICK] < last:
                act(w, player, own, random, tree)
                _until_asked(w, player, other, skip, other_skip, random, tree)
            break
        node = after
    value = _value(w, player)
    for k in range(depth):
        t.visits[tree, t.path[tree, k, 0], t.path[tree, k, 1]] += 1.0
        t.total[tree, t.path[tree, k, 0], t.path[tree, k, 1]] += value


@called
def _copy(given: Any, own: Any) -> None:
    # Element by element: an assignment of arrays would make one in between, in case they overlap.
    for i in range(len(given)):
        own[i] = given[i]


@called
def _copy_table(given: Any, own: Any) -> None:
    for i in range(given.shape[0]):
        for j in range(given.shape[1]):
            own[i, j] = given[i, j]


def _grow(
    numbers: Any,
    units: Any,
    places: Any,
    lists: Any,
    flights: Any,
    s: Any,
    t: Any,
    random: Any,
    first: int,
    last: int,
    player: int,
    visits: int,
    exploration: float,
    how: Any,
) -> None:
    """Grow trees of one game, all from the state in the first five arrays."""
    for tree in range(first, last):
        w = world_of(s, tree)
        t.nodes[tree] = 1
        for node in range(visits + 1):
            for action in range(_ACTIONS):
                t.after[tree, node, action] = 0
                t.visits[tree, node, action] = t.total[tree, node, action] = 0.0
        for visit in range(visits):
            _copy(numbers, w.numbers)
            _copy_table(units, w.units)
            _copy_table(places, w.places)
            _copy_table(lists, w.lists)
            _copy_table(flights, w.flights)
            if visit == 0:
                t.choices[tree, 0] = _choices(w, player)
            _visit(w, t, tree, player, how, exploration, random)


_grow_trees: Any = kernel(_grow)
_Trees = namedtuple("_Trees", ("nodes", "choices", "after", "visits", "total", "path"))


class MiniRtsSearch:
    """A policy for the rows of a ``MiniRtsRows`` by Monte-Carlo tree search.

    Args:
        rows: The rows to play, whose state it reads.
        visits: Number of visits of each tree for a decision.
        trees: Number of trees for each decision, whose counts are added up (root
            parallelization); the action with the most visits is taken.
        threads: Number of threads that share the trees.
        opponent: Assumed player of the other side: ``random``, ``simple``, ``hit_n_run``;
            None: its actual player.
        playout: Player of this side after a leaf, one of the same.
        horizon: Number of ticks of a playout after which its value is the share of material; None
            plays games to their end.
        exploration: The constant of UCB1.
        seed: Seed of the random numbers.

    Attributes:
        seconds: Time of all decisions so far, in seconds.
        decisions: Number of decisions so far.

    Source:
        Chaslot, Winands and van den Herik, "Parallel Monte-Carlo tree search", 2008, for several
        trees; Auer, Cesa-Bianchi and Fischer, "Finite-time analysis of the multiarmed bandit
        problem", 2002, for UCB1.
    """

    def __init__(
        self,
        rows: MiniRtsRows,
        visits: int = 100,
        trees: int = 8,
        threads: int = 1,
        opponent: str | None = None,
        playout: str = "random",
        horizon: int | None = None,
        exploration: float = 1.0,
        seed: int = 0,
    ) -> None:
        players, threads = MiniRtsMatch.opponents(), min(threads, trees)
        self._rows, self._visits = rows, visits
        self._opponent = None if opponent is None else players.index(opponent)
        self._playout = players.index(playout)
        self._horizon = 2**30 if horizon is None else horizon
        self._exploration = exploration
        fields = rows.world_arrays()
        made = (np.zeros((trees, *own.shape[1:]), own.dtype) for own in fields)
        self._scratch = World(*made)
        nodes = visits + 1
        self._grown = _Trees(
            nodes=np.zeros(trees, np.int64),
            choices=np.zeros((trees, nodes), np.int64),
            after=np.zeros((trees, nodes, _ACTIONS), np.int64),
            visits=np.zeros((trees, nodes, _ACTIONS)),
            total=np.zeros((trees, nodes, _ACTIONS)),
            path=np.zeros((trees, nodes + 1, 2), np.int64),
        )
        self._random = seeded_streams(seed, trees)
        self._parts = list(pairwise(trees * i // threads for i in range(threads + 1)))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.seconds, self.decisions = 0.0, 0

    def counts(self, game: int) -> npt.NDArray[np.float64]:
        """Return the visits of each strategic action in a game's tree. Shape: (9,)."""
        settings = self._rows.settings
        fields = self._rows.world_arrays()
        opponent = self._rows.opponent_of(game) if self._opponent is None else self._opponent
        how = np.array((opponent, self._playout, *settings.skips, self._horizon), np.int64)
        state = [own[game] for own in fields]

        def grow(part: tuple[int, int]) -> None:
            own = self._scratch, self._grown, self._random, *part, 0
            _grow_trees(*state, *own, self._visits, self._exploration, how)

        started = time.perf_counter()
        if self._pool is None:
            grow(self._parts[0])
        else:
            list(self._pool.map(grow, self._parts))
        self.seconds += time.perf_counter() - started
        self.decisions += 1
        total: npt.NDArray[np.float64] = self._grown.visits[:, 0].sum(axis=0)
        return total

    def __call__(self, obs: VecObs) -> Mapping[str, ActionBuffer]:
        """Return the action of each row that must act."""
        chosen = [int(np.argmax(self.counts(row))) for row in obs.rows.tolist()]
        flat = np.array(chosen, np.int64).reshape(-1, 1)
        return {"Order": RaggedBufferI64.from_flattened(flat, np.ones(len(flat), np.int64))}
