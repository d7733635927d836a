"""The trees of a search in several games at once, as arrays of games, positions and choices.

Axis letters: G games, M positions, K seats that act at once, C candidates, A actors, S seats.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from ppo_trainer.players.search_choices import Candidates, gumbels, uniforms

__all__ = ["SearchTrees"]

F64 = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]

CONSIDERED = 16
"""Maximum number of choices that are compared in the first position."""

_VISIT_SCALE, _VALUE_SCALE = 50, 0.1
"""The constants of the weight of values against log-probabilities (Danihelka et al. 2022)."""

_PRIOR_SCALE = 0.5
"""The weight of the network's log-probabilities, 1 in the paper.

A network that learns from improvements of itself becomes certain of one of several equal choices,
so that all games become the same game, and a search of few visits cannot correct it any more.
"""


class SearchTrees:
    """The positions of G games that a search has visited, and the statistics of their choices.

    Position 0 is the one in which a choice is wanted. Choices there are compared by sequential
    halving with Gumbel noise; in later positions, they follow the improved policy. Each seat has
    its own values. Seats that act at once choose independently.

    Args:
        games: Number of games G.
        visits: Number of visits of each tree.
        seats: Number of seats S of a game.
        gamma: Discount factor for each decision of a seat.
        unit: Difference of returns that counts as 1, unless those in a tree differ by more.

    Attributes:
        seat: Seats that act, -1 for none. Shape: (G, M, K).
        choices: See ``Candidates``. Shape: (G, M, K, C, A).
        values: Estimated values of all seats, each of its next decision. Shape: (G, M, S).
        over: True at the end of the game. Shape: (G, M).

    Source:
        Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel",
        2022. Progressive widening after random numbers: Couetoux et al., "Continuous upper
        confidence trees", 2011.
    """

    def __init__(self, games: int, visits: int, seats: int, gamma: float, unit: float) -> None:
        self._gamma, self._unit, self._used = gamma, unit, 1
        self._every = np.arange(games)
        shape = games, visits + 1
        self.seat = np.full((*shape, 1), -1)
        self.choices = np.zeros((*shape, 1, 1, 1), np.int64)
        self._log_prior = np.full((*shape, 1, 1), -np.inf)
        self._counts, self._means = np.zeros((2, *shape, 1, 1))
        self.values = np.zeros((*shape, seats))
        self.over = np.zeros(shape, np.bool_)
        self._parent = np.full(shape, -1)
        self._edge = np.zeros((*shape, 1), np.int64)  # the candidate of each seat that led here
        self._is_drawn = np.zeros(shape, np.bool_)  # by random numbers
        self._visited = np.zeros(shape, np.int64)
        self._rewards = np.zeros((*shape, seats))  # of the step that led here
        self._least, self._most = np.full((games, seats), np.inf), np.full((games, seats), -np.inf)
        self._noise = np.zeros(1)
        self._plan = np.array([_halving(visits, m) for m in range(CONSIDERED + 1)])

    def add(self, position: int, game: Ints, seat: Ints, found: Candidates) -> None:
        """Store the frames of a new position.

        Args:
            position: Number of the position in all of its games.
            game: Game of each frame, ascending. Shape: (B,).
            seat: Seat of each frame. Shape: (B,).
            found: Candidates of the frames.
        """
        counts = np.bincount(game, minlength=len(self._every))
        slot = np.arange(len(game)) - (np.cumsum(counts) - counts)[game]
        self._make_room(int(counts.max(initial=0)), *found.choices.shape[1:])
        where = game, position, slot
        width, actors = found.choices.shape[1:]
        self.seat[where] = seat
        self._log_prior[(*where, slice(width))] = _log_softmax(_PRIOR_SCALE * found.log_prior)
        self.choices[(*where, slice(width), slice(actors))] = found.choices

    def add_noise(self, keys: Keys | None) -> None:
        """Draw the Gumbel noise of the choices in position 0; None for none."""
        shape = self._log_prior.shape[2:]
        self._noise = np.zeros((len(self._every), *shape))
        if keys is not None:
            self._noise = gumbels(keys, *shape)

    def descend(self, visit: int, keys: Keys) -> tuple[Ints, Ints, Ints]:
        """Follow each tree to a choice whose consequence is unknown, or to the end of the game.

        Args:
            visit: Number of the visit, from 0 on.
            keys: Keys of the random numbers. Shape: (G,).

        Returns:
            The position, the candidate of each seat that acts there, and the next position, or -1
            if it is unknown. Shapes: (G,), (G, K), (G,).
        """
        position = np.zeros(len(self._every), np.int64)
        picked = self._pick_first(visit, keys)
        while True:
            after = self._following(position, picked)
            goes_on = (after >= 0) & ~self.over[self._every, after]
            if not goes_on.any():
                return position, picked, after
            position = np.where(goes_on, after, position)
            keys = keys + np.uint64(1)
            picked = np.where(goes_on[:, None], self._pick_later(position, keys), picked)

    def joint(self, position: Ints, picked: Ints) -> tuple[Ints, Ints]:
        """Return the seats and the choices of candidates. Shapes: (G, K) and (G, K, A)."""
        slots = np.arange(picked.shape[1])
        games = self._every[:, None]
        return (
            self.seat[self._every, position],
            self.choices[games, position[:, None], slots, picked],
        )

    def link(
        self, number: int, position: Ints, picked: Ints, rewards: F64, over: Bools, drawn: Bools,
        new: Bools,
    ) -> None:  # fmt: skip
        """Store how the new position ``number`` was reached in the games that are ``new`` (G,)."""
        self._used = number + 1
        self._parent[new, number] = position[new]
        self._edge[new, number, : picked.shape[1]] = picked[new]
        self._rewards[new, number] = rewards[new]
        self.over[new, number], self._is_drawn[new, number] = over[new], drawn[new]

    def back_up(self, position: Ints) -> None:
        """Add the returns of a visit, which ends in ``position`` (G,), to the choices before."""
        returns, game = self._gamma * self.values[self._every, position], self._every
        while len(game):
            self._visited[game, position] += 1
            parent = self._parent[game, position]
            inside = parent >= 0
            returns = (returns + self._rewards[game, position])[inside]
            game, edge = game[inside], self._edge[game, position][inside]
            position = parent[inside]
            acts, own = self._acting(game, position)
            n, k = np.nonzero(own >= 0)
            seats = own[n, k]
            where = game[n], position[n], k, edge[n, k]
            self._counts[where] += 1
            self._means[where] += (returns[n, seats] - self._means[where]) / self._counts[where]
            np.minimum.at(self._least, (game[n], seats), returns[n, seats])
            np.maximum.at(self._most, (game[n], seats), returns[n, seats])
            returns = np.where(acts, self._gamma * returns, returns)

    def results(self) -> tuple[Ints, F64, F64]:
        """Return the best candidates, the improved policies and the values in position 0.

        Shapes: (G, K), (G, K, C) and (G, K).
        """
        first = np.zeros(len(self._every), np.int64)
        counts, log_prior = self._counts[:, 0], self._log_prior[:, 0]
        scores, completed = self._scores(first)
        visited = counts == counts.max(axis=2, keepdims=True)
        scores = log_prior + scores
        best = np.where(visited, self._noise + scores, -np.inf).argmax(axis=2)
        policy = _softmax(scores)
        return best, policy, (policy * np.where(policy > 0, completed, 0.0)).sum(axis=2)

    def _acting(self, game: Ints, position: Ints) -> tuple[Bools, Ints]:
        """Return which seats act (N, S), and the seats that act (N, K)."""
        own = self.seat[game, position]
        acts = np.zeros((len(game), self._rewards.shape[2]), np.bool_)
        n, k = np.nonzero(own >= 0)
        acts[n, own[n, k]] = True
        return acts, own

    def _scores(self, position: Ints) -> tuple[F64, F64]:
        """Return the weighted values of all choices, and their values. Shape of both: (G, K, C).

        A choice without visits has a mean of the network's value and the values of the others.
        """
        where = self._every, position
        counts, means = self._counts[where], self._means[where]
        seat = np.maximum(self.seat[where], 0)
        values = np.take_along_axis(self.values[where], seat, 1)
        total = counts.sum(axis=2)
        known = _softmax(self._log_prior[where]) * (counts > 0)
        share = known.sum(axis=2)
        seen = (known * means).sum(axis=2) / np.maximum(share, 1e-30)
        mixed = np.where(share > 0, (values + total * seen) / (1 + total), values)
        completed = np.where(counts > 0, means, mixed[:, :, None])
        half = np.maximum((self._most - self._least) / 2, self._unit)
        half = np.take_along_axis(half, seat, 1)[:, :, None]
        weight = (_VISIT_SCALE + counts.max(axis=2, keepdims=True)) * _VALUE_SCALE
        return weight * completed / half, completed

    def rounds(self, visit: int) -> Ints:
        """Return the number of visits so far of the choices to compare, of the first seat. (G,)."""
        found: Ints = self._planned(visit)[:, 0, 0]
        return found

    def _planned(self, visit: int) -> Ints:
        """Return the plan of a visit (G, K, 2): see ``_halving``."""
        many = np.isfinite(self._log_prior[:, 0]).sum(axis=2)
        found: Ints = self._plan[np.minimum(many, CONSIDERED), visit]
        return found

    def _pick_first(self, visit: int, keys: Keys) -> Ints:
        """Return the candidates to visit in position 0. Shape: (G, K).

        Seats that act at once visit the candidates of a round in random orders, so that each
        choice meets different choices of the others.
        """
        counts, log_prior = self._counts[:, 0], self._log_prior[:, 0]
        scores, _ = self._scores(np.zeros(len(self._every), np.int64))
        possible = np.isfinite(log_prior)
        level, left = np.moveaxis(self._planned(visit), 2, 0)
        eligible = possible & (counts == level[:, :, None])
        ranked = np.where(eligible, self._noise + log_prior + scores, -np.inf)
        order = np.argsort(-ranked, axis=2, kind="stable")
        several = (self.seat[:, 0] >= 0).sum(axis=1) > 1
        among = np.minimum(eligible.sum(axis=2), left) * several[:, None]
        rank = (uniforms(keys, order.shape[1]) * among).astype(np.int64)
        picked: Ints = np.take_along_axis(order, rank[:, :, None], 2)[:, :, 0]
        return picked

    def _pick_later(self, position: Ints, keys: Keys) -> Ints:
        """Return the candidates to visit in later positions. Shape: (G, K).

        Counts follow the improved policy as closely as possible; seats that act at once draw.
        """
        where = self._every, position
        counts = self._counts[where]
        scores, _ = self._scores(position)
        scores = self._log_prior[where] + scores
        policy = _softmax(scores)
        behind = np.where(policy > 0, policy - counts / (1 + counts.sum(2, keepdims=True)), -np.inf)
        picked: Ints = behind.argmax(axis=2)
        several = (self.seat[where] >= 0).sum(axis=1) > 1
        if several.any():
            drawn = (scores + gumbels(keys, *scores.shape[1:])).argmax(axis=2)
            picked = np.where(several[:, None], drawn, picked)
        return picked

    def _following(self, position: Ints, picked: Ints) -> Ints:
        """Return the position that follows, -1 if it is unknown. Shape: (G,).

        After random numbers several positions follow; the square root of the number of visits is
        the number of those that are kept and visited in turns. Ends of the game are drawn anew,
        because nothing can be found behind them.
        """
        used = slice(self._used)
        same = self._parent[:, used] == position[:, None]
        same &= (self._edge[:, used, : picked.shape[1]] == picked[:, None]).all(axis=2)
        visits = np.where(same, self._visited[:, used], np.iinfo(np.int64).max)
        after: Ints = np.where(same.any(axis=1), visits.argmin(axis=1), -1)
        drawn = (same & self._is_drawn[:, used]).any(axis=1)
        if drawn.any():
            total = np.where(same, visits, 0).sum(axis=1)
            few = same.sum(axis=1) ** 2 <= total
            after = np.where(drawn & (few | self.over[self._every, after]), -1, after)
        return after

    def _make_room(self, slots: int, width: int, actors: int) -> None:
        """Make the last axes of the arrays larger, if the frames of a position need it."""
        _, _, own_slots, own_width, own_actors = self.choices.shape
        more = [
            (0, max(wanted - own, 0))
            for wanted, own in ((slots, own_slots), (width, own_width), (actors, own_actors))
        ]
        if not any(after for _, after in more):
            return

        def padded(own: npt.NDArray[np.generic], axes: int, fill: float = 0) -> npt.NDArray:  # type: ignore[type-arg]
            return np.pad(own, [(0, 0), (0, 0), *more[:axes]], constant_values=fill)

        self.seat = padded(self.seat, 1, -1)
        self._edge = padded(self._edge, 1)
        self._log_prior = padded(self._log_prior, 2, -np.inf)
        self._counts, self._means = padded(self._counts, 2), padded(self._means, 2)
        self.choices = padded(self.choices, 3)
        if self._used > 1:
            self._noise = np.pad(self._noise, [(0, 0), *more[:2]])


def _softmax(logits: F64) -> F64:
    """Return probabilities along the last axis, 0 where all logits are -inf."""
    most = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(most), most, 0.0))
    found: F64 = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
    return found


def _log_softmax(logits: F64) -> F64:
    """Return log-probabilities along the last axis, -inf where a logit is -inf."""
    with np.errstate(divide="ignore"):
        found: F64 = np.log(_softmax(logits))
    return found


@cache
def _halving(visits: int, choices: int) -> tuple[tuple[int, int], ...]:
    """Return the plan of sequential halving among ``choices``.

    For each visit: the number of visits so far of the choices that are compared, and how many of
    them are still to be visited in this round.
    """
    rounds = max(math.ceil(math.log2(max(choices, 1))), 1)
    plan: list[tuple[int, int]] = []
    level, many = 0, max(choices, 1)
    while len(plan) < visits:
        for _ in range(max(1, visits // (rounds * many))):
            plan += [(level, many - done) for done in range(many)]
            level += 1
        many = max(many // 2, min(2, max(choices, 1)))
    return tuple(plan[:visits])
