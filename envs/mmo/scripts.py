"""Scripted players, which walk at random, stand still, or forage, and may attack.

player = Player("forage", attack="melee", seed=1)
obs = rows.act(player(obs))

"""

from __future__ import annotations

from typing import Any

import numpy as np

from entity_env.batching.ragged import ActionBuffer, RaggedBufferI64
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import SettingError, nearest, shorten
from entity_env.rows.jit import compiled, kernel
from entity_env.rows.random_numbers import random_int, seeded_streams
from entity_env.spaces import ActionName

from .terrain import FOREST, LAKE, LAVA, STONE

__all__ = ["ATTACKS", "WAYS", "Player", "forage_and_fight"]

WAYS = ("random", "still", "safe", "forage")
ATTACKS = ("off", "random", "melee")
_STAY = 4
_DOWN, _RIGHT = np.array([-1, 1, 0, 0]), np.array([0, 0, 1, -1])  # of North, South, East, West
_FOOD, _WATER, _FISHING, _HUNTING = 3, 4, 10, 11  # features of Self
_STYLE, _HEALTH = 2, 8  # features of Strike


class Player:
    """A scripted player of all rows, whose agents act independently of each other.

    Args:
        way: ``random``: one of the four moves; ``still``: none; ``safe``: one of those that lead to
            a tile which can be entered and does not kill; ``forage``: a shortest way to the nearest
            tile beside water if the agent has no more water than food, else to the nearest forest;
            to the other goal where it sees none, and ``safe`` where it sees neither.
        attack: ``off``; ``random``: any of what can be chosen; ``melee``: always the weakest agent
            that melee reaches.
        seed: Seed of the choices.

    Raises:
        SettingError: The way or the attack does not exist.
    """

    def __init__(self, way: str, attack: str = "off", seed: int = 0) -> None:
        for name, given, options in (("way", way, WAYS), ("attack", attack, ATTACKS)):
            if given not in options:
                raise SettingError(
                    f"there is no {name} {shorten(given)}",
                    options=options,
                    hint=nearest(given, options),
                )
        self._way, self._attack = WAYS.index(way), ATTACKS.index(attack)
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin the random numbers of a seed."""
        self._random = seeded_streams(seed, 1)

    def act_rows(self, obs: VecObs) -> dict[ActionName, ActionBuffer]:
        """Return the actions of all frames, as a scripted player of ``ppo_trainer``."""
        return self(obs)

    def __call__(self, obs: VecObs) -> dict[ActionName, ActionBuffer]:
        """Return the actions of all frames."""
        selves, tiles = (obs.features[name].as_array() for name in ("Self", "Tile"))
        moves = np.full((obs.num_frames, 1), _STAY)
        if obs.num_frames:
            maps = tiles.reshape(obs.num_frames, -1)
            side = round(maps.shape[1] ** 0.5)
            scratch = np.empty((2, side * side), np.int64)
            _choose_moves(self._way, selves, maps, side, self._random, scratch, moves)
        actions: dict[ActionName, ActionBuffer] = {}
        actions["Move"] = _one_each(moves, obs.action_masks["Move"].actors.size1())
        if "Attack" in obs.action_masks:
            strikes = obs.features["Strike"]
            lengths = np.asarray(obs.action_masks["Attack"].actors.size1())
            chosen = np.zeros((int(lengths.sum()), 1), np.int64)
            if len(chosen):
                others = np.asarray(obs.features["Agent"].size1())
                counts = np.asarray(strikes.size1())
                rows = strikes.as_array()
                _choose_strikes(self._attack, rows, counts, others, self._random, chosen)
            actions["Attack"] = _one_each(chosen, lengths)
        return actions


forage_and_fight = Player("forage", "melee")
"""A player for recordings; without fights it only forages."""


def _one_each(chosen: Any, lengths: Any) -> RaggedBufferI64:
    return RaggedBufferI64.from_flattened(chosen, np.asarray(lengths, np.int64))


@kernel
def _choose_moves(
    way: int, selves: Any, maps: Any, side: int, random: Any, scratch: Any, out: Any
) -> None:
    for frame in range(len(out)):
        if way == 0:
            out[frame, 0] = random_int(random, 0, 0, 3)
        elif way == 2:
            out[frame, 0] = _safe_move(maps[frame], side, random)
        elif way == 3:
            own = selves[frame]
            food = round((own[_FOOD] + 0.5) * own[_HUNTING])
            water = round((own[_WATER] + 0.5) * own[_FISHING])
            move = _way_to(water <= food, maps[frame], side, random, scratch)
            if move < 0:
                move = _way_to(water > food, maps[frame], side, random, scratch)
            if move < 0:
                move = _safe_move(maps[frame], side, random)
            out[frame, 0] = move


@kernel
def _choose_strikes(
    attack: int, strikes: Any, counts: Any, others: Any, random: Any, out: Any
) -> None:
    first = at = 0
    for frame in range(len(counts)):
        count = counts[frame]
        if count == 0:
            continue
        best = -1  # itself, which means nobody
        if attack == 1:
            best = random_int(random, 0, -1, count - 1)
        elif attack == 2:
            for k in range(count):
                one = strikes[first + k]
                if one[_STYLE] == 0 and (best < 0 or one[_HEALTH] < strikes[first + best, _HEALTH]):
                    best = k
        out[at, 0] = 0 if best < 0 else 1 + others[frame] + best
        first += count
        at += 1


@compiled
def _is_open(tile: float) -> bool:
    return bool(tile != LAVA and tile != LAKE and tile != STONE)


@compiled
def _safe_move(tiles: Any, side: int, random: Any) -> int:
    chosen, count, middle = _STAY, 0, side // 2
    for move in range(4):
        if _is_open(tiles[(middle + _DOWN[move]) * side + middle + _RIGHT[move]]):
            count += 1
            if random_int(random, 0, 1, count) == 1:
                chosen = move
    return chosen


@compiled
def _is_goal(tiles: Any, side: int, y: int, x: int, to_water: bool) -> bool:
    if not to_water:
        return bool(tiles[y * side + x] == FOREST and (y != side // 2 or x != side // 2))
    for move in range(4):
        i, j = y + _DOWN[move], x + _RIGHT[move]
        if 0 <= i < side and 0 <= j < side and tiles[i * side + j] == LAKE:
            return True
    return False


@compiled
def _way_to(to_water: bool, tiles: Any, side: int, random: Any, scratch: Any) -> int:
    """Return the first move of a shortest way to the nearest goal, at random among equal ones.

    -1: there is no way to any. ``scratch`` has room for distances and cells.
    """
    away, cells = scratch[0], scratch[1]
    away[:] = -1
    start = side // 2 * side + side // 2
    away[start], cells[0] = 0, start
    goal, goals, end, at = -1, 0, 1, 0
    while at < end:
        cell = cells[at]
        at += 1
        y, x = cell // side, cell % side
        if goal >= 0 and away[cell] > away[goal]:
            break
        if _is_goal(tiles, side, y, x, to_water):
            goals += 1
            if random_int(random, 0, 1, goals) == 1:
                goal = cell
        for move in range(4):
            i, j = y + _DOWN[move], x + _RIGHT[move]
            if 0 <= i < side and 0 <= j < side:
                other = i * side + j
                if away[other] < 0 and _is_open(tiles[other]):
                    away[other] = away[cell] + 1
                    cells[end] = other
                    end += 1
    if goal < 0:
        return -1
    last = _STAY
    while away[goal] > 0:
        y, x, count, before = goal // side, goal % side, 0, goal
        for move in range(4):  # the move that leads here from a tile that is one step nearer
            i, j = y - _DOWN[move], x - _RIGHT[move]
            if 0 <= i < side and 0 <= j < side and away[i * side + j] == away[goal] - 1:
                count += 1
                if random_int(random, 0, 1, count) == 1:
                    before, last = i * side + j, move
        goal = before
    return last
