"""Begin, course and view of compiled Mini-RTS games."""

from __future__ import annotations

from typing import Any

from entity_env.rows.compiled import random_int

from .fast_layout import (
    ALIVE,
    COMMAND,
    HP,
    KIND,
    MAX_HP,
    MONEY,
    OVER,
    SEEN,
    SLOTS,
    TAIL,
    TICK,
    WINNER,
    X,
    Y,
    called,
    copied,
    world_of,
    world_problems,
)
from .fast_space import sees
from .minirts import MINI_RTS
from .minirts_env import LESS_HELP, OPPONENTS
from .minirts_fast import (
    HOME,
    KINDS,
    LEARNER,
    RESOURCE,
    act_scripted,
    advantage,
    is_possible,
    play_tick,
    setup,
)

__all__ = [
    "ENEMY",
    "MOST",
    "OWN",
    "REMEMBERED",
    "SOURCES",
    "begin_duel",
    "begin_game",
    "end_duel",
    "globals_of",
    "is_turn",
    "note_lists",
    "note_view",
    "play_on",
    "problems",
    "seat_globals",
    "write_unit",
]

OWN, ENEMY, SOURCES, REMEMBERED = range(4)
_MIXED = OPPONENTS.index("mixed")
MOST = MINI_RTS.most_units


@called
def note_view(w: Any, lists: Any, counts: Any, allowed: Any, player: int, fog: bool) -> None:
    """Note which units a player sees, in four lists, and what it can order."""
    note_lists(w, lists, counts, player, fog)
    for action in range(9):
        allowed[action] = (not w.numbers[OVER]) and is_possible(w, player, action)


@called
def note_lists(w: Any, lists: Any, counts: Any, player: int, fog: bool) -> None:
    """Note which units a player sees, in four lists."""
    u, n = w.units, w.numbers
    counts[:] = 0
    for side in range(2):
        whose = player if side == 0 else 1 - player
        for i in range(whose * n[SLOTS], whose * n[SLOTS] + n[TAIL + whose]):
            if not u[i, ALIVE]:
                continue
            seen = side == 0 or not fog or sees(w, KINDS, player, w.places[i, X], w.places[i, Y])
            to = OWN if side == 0 else ENEMY if seen else REMEMBERED
            if u[i, KIND] == RESOURCE:
                to = SOURCES
            if seen or u[i, SEEN] or (u[i, KIND] == HOME):
                lists[to, counts[to]] = i if seen else i + 1000
                counts[to] += 1


def problems(g: Any, game: int) -> dict[str, bool]:
    """Return what a saved game of Mini-RTS must not have, and whether it has it."""
    slots = len(g.units[game])
    shown = {"a list with a unit that is not there": bool((g.shown[game] % 1000 >= slots).any())}
    return world_problems(g, game) | shown


@called
def write_unit(w: Any, entry: int, player: int, to: int, out: Any) -> None:
    """Write the features of an entry of one of the four lists."""
    i = entry % 1000
    x, y = w.places[i, X], w.places[i, Y]
    share = w.units[i, HP] / KINDS[w.units[i, KIND], MAX_HP]
    if to == SOURCES:
        out[0], out[1], out[2] = x, y, share if entry < 1000 else 1.0
        out[3] = 1.0 if i // w.numbers[SLOTS] == player else 0.0
        return
    out[0], out[1], out[2] = w.units[i, KIND], x, y
    if to != REMEMBERED:
        out[3] = share
    if to == OWN:
        out[4] = w.units[i, COMMAND]


@called
def _play_on(w: Any, random: Any, game: int, mine: int, other: int, skip: int, skip_b: int) -> None:
    """Play until the learner is asked, or the game is over; ``mine`` plays for the learner."""
    while True:
        if mine != LEARNER and w.numbers[TICK] % skip == 0:
            act_scripted(w, 0, mine, random, game)
        if other != LEARNER and w.numbers[TICK] % skip_b == 0:
            act_scripted(w, 1, other, random, game)
        play_tick(w, KINDS)
        if w.numbers[OVER] or (w.numbers[TICK] % skip == 0):
            return


@copied
def begin_game(g: Any, game: int) -> None:
    """Begin a game; with a curriculum the built-in player plays its beginning."""
    w = world_of(g, game)
    if not g.begun[game]:
        g.begun[game], g.help[game] = True, g.curriculum
    while True:
        setup(w, g.random, game, g.max_tick)
        who = g.who
        if who == _MIXED:
            who = random_int(g.random, game, 1, 2)
        g.opponent[game] = who
        until = random_int(g.random, game, 0, int(g.help[game]))
        g.help[game] *= LESS_HELP
        while not w.numbers[OVER] and (
            w.numbers[TICK] < until or w.numbers[TICK] % g.frame_skip != 0
        ):
            _play_on(w, g.random, game, who, who, g.frame_skip, g.opponent_skip)
        if not w.numbers[OVER]:
            break
    g.win[game], g.ticks[game] = 0, 0
    g.ahead[game] = advantage(w, 0)


@copied
def play_on(g: Any, game: int) -> tuple[float, bool]:
    """Play until the learner is asked again; its reward, and whether the game is over."""
    w = world_of(g, game)
    _play_on(w, g.random, game, LEARNER, g.opponent[game], g.frame_skip, g.opponent_skip)
    over, winner = w.numbers[OVER] == 1, w.numbers[WINNER]
    g.win[game], g.ticks[game] = winner == 0, w.numbers[TICK]
    ahead = 0.0 if over else advantage(w, 0)
    reward = g.shaping * (ahead - g.ahead[game])
    g.ahead[game] = ahead
    if over:
        reward += 1.0 if winner == 0 else -1.0 if winner == 1 else g.draw
    return reward, over


def globals_of(g: Any, game: int, out: Any) -> None:
    """Money and tick."""
    out[0], out[1] = g.numbers[game, MONEY], g.numbers[game, TICK]


@called
def is_turn(g: Any, game: int, seat: int) -> bool:
    """Return True if a seat of a duel acts at this tick."""
    return g.numbers[game, TICK] % (g.frame_skip if seat == 0 else g.opponent_skip) == 0


@called
def begin_duel(g: Any, game: int, w: Any) -> None:
    """Begin a game of two players, and play until one of them acts."""
    setup(w, g.random, game, g.max_tick)
    while not w.numbers[OVER] and not is_turn(g, game, 0) and not is_turn(g, game, 1):
        play_tick(w, KINDS)
    g.win[game, 0] = g.win[game, 1] = 0
    g.ticks[game] = 0


@called
def end_duel(g: Any, game: int, w: Any, reward: Any) -> bool:
    """Return True if a game of two players is over; then both are paid."""
    over, winner = w.numbers[OVER] == 1, w.numbers[WINNER]
    for seat in range(2):
        g.win[game, seat] = over and winner == seat
        if over and winner >= 0:
            reward[seat] = 1.0 if winner == seat else -1.0
    g.ticks[game] = w.numbers[TICK]
    return over


def seat_globals(g: Any, game: int, seat: int, out: Any) -> None:
    """Money and tick, of a seat."""
    out[0], out[1] = g.numbers[game, MONEY + seat], g.numbers[game, TICK]
