"""Capture the Flag for all rows at once: the games of ``capture_the_flag.py``, compiled."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from entity_env.environment import Environment
from entity_env.rows.compiled import (
    Actors,
    CompiledGame,
    CompiledRows,
    Entities,
    Field,
    random_int,
)
from entity_env.spaces import GlobalCategoricalActionSpace

from .capture_the_flag import (
    ACTIONS,
    CAPTURE_THE_FLAG,
    COMING,
    FOR_A_CELL,
    FOR_A_POINT,
    LYING,
    OBS_SPACE,
    OURS,
    THEIRS,
    CaptureTheFlag,
    CaptureTheFlagEnv,
)
from .capture_the_flag_fast import (
    ATHLETE,
    FLAG,
    HOME,
    KINDS,
    act_scripted,
    carrier_of,
    is_possible,
    order,
    play_tick,
    prepare,
    setup,
)
from .fast_layout import (
    ALIVE,
    CARRIES,
    COMMAND,
    HP,
    KIND,
    OVER,
    OWN_X,
    OWN_Y,
    SCORE,
    SLOTS,
    TAIL,
    TICK,
    WINNER,
    X,
    Y,
    called,
    fill,
    world_fields,
    world_of,
    world_problems,
)
from .fast_space import sees
from .fast_world import first_of
from .strategic import LESS_HELP, Settings

__all__ = ["CaptureTheFlagDuelRows", "CaptureTheFlagRows"]

OWN, ENEMY, BASES, FLAGS = range(4)
_MOST, _WIDTH = CAPTURE_THE_FLAG.most_units, 5
_RANDOM, _BUILT_IN = range(2)


@called
def _note_view(w: Any, view: Any, counts: Any, allowed: Any, player: int, fog: bool) -> None:
    """Write all that a player sees, in four lists, and what it can order."""
    u, p, n = w.units, w.places, w.numbers
    counts[:] = 0
    for side in range(2):
        whose = player if side == 0 else 1 - player
        for i in range(whose * n[SLOTS], whose * n[SLOTS] + n[TAIL + whose]):
            if not u[i, ALIVE] or u[i, KIND] == FLAG:
                continue
            to, at = BASES, counts[BASES]
            if u[i, KIND] == ATHLETE:
                if side == 1 and fog and not sees(w, KINDS, player, p[i, X], p[i, Y]):
                    continue
                to, at = side, counts[side]
            counts[to] += 1
            view[to, at, 0], view[to, at, 1] = p[i, X], p[i, Y]
            if to == BASES:
                view[to, at, 2] = 1 - side
            else:
                view[to, at, 2], view[to, at, 3] = u[i, HP] / 100, u[i, CARRIES]
                view[to, at, 4] = u[i, COMMAND]
    x, y, held = _where_the_flag_is(w, player)
    view[FLAGS, 0, 0], view[FLAGS, 0, 1], view[FLAGS, 0, 2], counts[FLAGS] = x, y, held, 1
    for action in range(5):
        allowed[action] = (not n[OVER]) and is_possible(w, player, action)


@called
def _where_the_flag_is(w: Any, player: int) -> tuple[float, float, int]:
    p = w.places
    flag, held = first_of(w, 0, FLAG), LYING
    if flag < 0:
        flag, held = carrier_of(w, player), OURS
    if flag < 0:
        flag, held = carrier_of(w, 1 - player), THEIRS
    x, y = p[0, OWN_X], p[0, OWN_Y]
    if flag >= 0:
        x, y = p[flag, X], p[flag, Y]
    else:
        held = COMING
    return x, y, held


@called
def _progress(w: Any, player: int) -> float:
    """Return the progress of the flag towards a player's base."""
    x, y, _ = _where_the_flag_is(w, player)
    base = first_of(w, player, HOME)
    dx, dy = w.places[base, X] - x, w.places[base, Y] - y
    return -math.sqrt(dx * dx + dy * dy)


@called
def _note_marks(w: Any, marks: Any, player: int) -> None:
    marks[0], marks[1] = w.numbers[SCORE + player], w.numbers[SCORE + 1 - player]
    marks[2] = _progress(w, player)


@called
def _reward(w: Any, marks: Any, player: int) -> float:
    """Return the reward since the marks, the end's included."""
    n = w.numbers
    own, theirs = n[SCORE + player] - marks[0], n[SCORE + 1 - player] - marks[1]
    if own != 0 or theirs != 0:
        reward = FOR_A_POINT * (own - theirs)
    else:
        reward = FOR_A_CELL * (_progress(w, player) - marks[2])
    if n[OVER] and n[WINNER] >= 0:
        reward += 1.0 if n[WINNER] == player else -1.0
    return reward


@called
def _tick(w: Any, random: Any, game: int, other: int, skip: int) -> None:
    """Play a tick; the built-in player of seat 1 may act before, unless ``skip`` is 0."""
    if skip > 0 and w.numbers[TICK] % skip == 0:
        act_scripted(w, 1, other == _RANDOM, random, game)
    prepare(w, random, game)
    play_tick(w, KINDS)


def _reset(g: Any, game: int) -> None:
    w = world_of(g, game)
    if not g.begun[game]:
        g.begun[game], g.help[game] = True, g.curriculum
    while True:
        setup(w, g.random, game, g.max_tick)
        until = random_int(g.random, game, 0, int(g.help[game]))
        g.help[game] *= LESS_HELP
        while not w.numbers[OVER] and (
            w.numbers[TICK] < until or w.numbers[TICK] % g.frame_skip != 0
        ):
            if w.numbers[TICK] % g.frame_skip == 0:
                act_scripted(w, 0, False, g.random, game)
            _tick(w, g.random, game, g.opponent, g.opponent_skip)
        if not w.numbers[OVER]:
            break
    g.won[game], g.ticks[game] = 0, 0
    _note_view(w, g.looks[game, 0], g.counts[game, 0], g.allowed[game, 0], 0, g.fog)


def _step(g: Any, game: int, chosen: Any) -> tuple[float, bool]:
    w = world_of(g, game)
    _note_marks(w, g.marks[game, 0], 0)
    order(w, 0, 1 << chosen[0])
    while True:
        _tick(w, g.random, game, g.opponent, g.opponent_skip)
        if w.numbers[OVER] or w.numbers[TICK] % g.frame_skip == 0:
            break
    _note_view(w, g.looks[game, 0], g.counts[game, 0], g.allowed[game, 0], 0, g.fog)
    over = w.numbers[OVER] == 1
    g.won[game], g.ticks[game] = over and w.numbers[WINNER] == 0, w.numbers[TICK]
    return _reward(w, g.marks[game, 0], 0), over


def _duel_reset(g: Any, game: int) -> None:
    w = world_of(g, game)
    setup(w, g.random, game, g.max_tick)
    g.ticks[game] = 0
    while not w.numbers[OVER] and w.numbers[TICK] % g.frame_skip != 0:
        _tick(w, g.random, game, _RANDOM, 0)
    for seat in range(2):
        g.win[game, seat] = 0
        _note_view(w, g.looks[game, seat], g.counts[game, seat], g.allowed[game, seat], seat, g.fog)


def _duel_step(g: Any, game: int, seat: int, chosen: Any) -> None:
    g.chosen[game, seat] = chosen[0]


def _duel_resolve(g: Any, game: int, reward: Any) -> bool:
    w = world_of(g, game)
    for seat in range(2):
        _note_marks(w, g.marks[game, seat], seat)
    for seat in range(2):
        order(w, seat, 1 << g.chosen[game, seat])
    while True:
        _tick(w, g.random, game, _RANDOM, 0)
        if w.numbers[OVER] or w.numbers[TICK] % g.frame_skip == 0:
            break
    over = w.numbers[OVER] == 1
    for seat in range(2):
        _note_view(w, g.looks[game, seat], g.counts[game, seat], g.allowed[game, seat], seat, g.fog)
        g.win[game, seat] = over and w.numbers[WINNER] == seat
        reward[seat] = _reward(w, g.marks[game, seat], seat)
    g.ticks[game] = w.numbers[TICK]
    return over


def _own_count(g: Any, game: int) -> int:
    return g.counts[game, 0, OWN]


def _enemy_count(g: Any, game: int) -> int:
    return g.counts[game, 0, ENEMY]


def _own(g: Any, game: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, 0, OWN, i], 0)


def _enemy(g: Any, game: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, 0, ENEMY, i], 0)


def _base(g: Any, game: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, 0, BASES, i], 0)


def _flag(g: Any, game: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, 0, FLAGS, i], 0)


def _orders(g: Any, game: int, out: Any) -> None:
    fill(out, g.allowed[game, 0], 0)


def _globals(g: Any, game: int, out: Any) -> None:
    n = g.numbers[game]
    out[0], out[1], out[2] = n[SCORE], n[SCORE + 1], n[TICK]


def _seat_own_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, OWN]


def _seat_enemy_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, ENEMY]


def _seat_own(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, seat, OWN, i], 0)


def _seat_enemy(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, seat, ENEMY, i], 0)


def _seat_base(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, seat, BASES, i], 0)


def _seat_flag(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    fill(out, g.looks[game, seat, FLAGS, i], 0)


def _seat_orders(g: Any, game: int, seat: int, out: Any) -> None:
    fill(out, g.allowed[game, seat], 0)


def _seat_globals(g: Any, game: int, seat: int, out: Any) -> None:
    n = g.numbers[game]
    out[0], out[1], out[2] = n[SCORE + seat], n[SCORE + 1 - seat], n[TICK]


def _fields() -> dict[str, Field]:
    return world_fields(CAPTURE_THE_FLAG) | {
        "looks": Field((2, 4, _MOST, _WIDTH), "float32"),
        "counts": Field((2, 4), "int32", 0, _MOST),
        "allowed": Field((2, len(ACTIONS)), "bool"),
        "chosen": Field((2,), "int32", 0, len(ACTIONS) - 1),
        "marks": Field((2, 3), "float64"),
        "begun": Field((), "bool"),
        "help": Field((), "float64"),
        "ticks": Field((), "float64"),
    }


class CaptureTheFlagRows(CompiledRows):
    """R rows of ``CaptureTheFlagEnv``, compiled.

    Args:
        num_envs: The number of rows R.
        seed: Seeds all rows.
        threads: How many threads share the rows.
        settings: Those of ``Settings``; opponents are ``built_in`` and ``random``.

    Raises:
        EnvConfigError: Settings that there are not.
    """

    environment: ClassVar[type[Environment]] = CaptureTheFlagEnv

    def __init__(self, num_envs: int, seed: int = 0, *, threads: int = 1, **settings: Any) -> None:
        own = CaptureTheFlagEnv(**settings).settings
        game = CompiledGame(
            problems=world_problems,
            obs_space=OBS_SPACE,
            action_space={"Order": GlobalCategoricalActionSpace(list(ACTIONS))},
            state=_fields() | {"won": Field((), "float64")},
            settings={
                "frame_skip": own.skips[0],
                "opponent_skip": own.skips[1],
                "max_tick": own.limit,
                "fog": own.fog,
                "curriculum": own.curriculum,
                "opponent": _RANDOM if own.opponent == "random" else _BUILT_IN,
            },
            reset=_reset,
            step=_step,
            entities={
                "Own": Entities(_own, _own_count, _MOST),
                "Enemy": Entities(_enemy, _enemy_count, _MOST),
                "Base": Entities(_base, 2, 2),
                "Flag": Entities(_flag, 1, 1),
            },
            actions={"Order": Actors(mask=_orders)},
            global_features=_globals,
            metrics={"win": "won", "ticks": "ticks"},
        )
        super().__init__(game, num_envs, seed, threads=threads)


class CaptureTheFlagDuelRows(CompiledRows):
    """R rows of ``CaptureTheFlagDuel``, two seats of each game, compiled.

    Args:
        num_envs: The number of rows R, two for each game.
        seed: Seeds all games.
        frame_skip: Every how many ticks both act.
        max_tick: When a game ends without a winner.
        fog: Whether players see only what their units see.
        threads: How many threads share the games.

    Raises:
        EnvConfigError: Settings that there are not.
    """

    def __init__(
        self,
        num_envs: int,
        seed: int = 0,
        frame_skip: int = 50,
        max_tick: int = 30_000,
        fog: bool = True,
        *,
        threads: int = 1,
    ) -> None:
        own = Settings(CaptureTheFlag(), "random", frame_skip, None, max_tick, fog)
        game = CompiledGame(
            problems=world_problems,
            obs_space=OBS_SPACE,
            action_space={"Order": GlobalCategoricalActionSpace(list(ACTIONS))},
            state=_fields() | {"win": Field((2,), "float64")},
            settings={"frame_skip": own.frame_skip, "max_tick": own.limit, "fog": own.fog},
            reset=_duel_reset,
            step=_duel_step,
            resolve=_duel_resolve,
            entities={
                "Own": Entities(_seat_own, _seat_own_count, _MOST),
                "Enemy": Entities(_seat_enemy, _seat_enemy_count, _MOST),
                "Base": Entities(_seat_base, 2, 2),
                "Flag": Entities(_seat_flag, 1, 1),
            },
            actions={"Order": Actors(mask=_seat_orders)},
            global_features=_seat_globals,
            metrics={"win": "win", "ticks": "ticks"},
            seats=2,
        )
        super().__init__(game, num_envs, seed, threads=threads)
