"""Mini-RTS for all rows at once: the games of ``minirts_env.py``, compiled."""

from __future__ import annotations

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
    FastWorld,
    X,
    Y,
    called,
    copied,
    world_fields,
    world_of,
)
from .minirts import ACTIONS, MINI_RTS
from .minirts_env import LESS_HELP, OPPONENTS, MiniRtsDuel, MiniRtsEnv, MiniRtsSettings
from .minirts_fast import (
    HOME,
    KINDS,
    LEARNER,
    RESOURCE,
    act_scripted,
    advantage,
    is_possible,
    is_seen,
    order,
    play_tick,
    setup,
)
from .minirts_view import ACTION_SPACE, OBS_SPACE

__all__ = [
    "MiniRtsDuelRows",
    "MiniRtsRows",
    "begin_game",
    "globals_of",
    "note_lists",
    "play_on",
]

OWN, ENEMY, SOURCES, REMEMBERED = range(4)
_MIXED = OPPONENTS.index("mixed")
_MOST = MINI_RTS.most_units


@called
def _note_view(w: Any, lists: Any, counts: Any, allowed: Any, player: int, fog: bool) -> None:
    """Note which units a player sees, in four lists, and what it can order."""
    note_lists(w, lists, counts, player, fog)
    for action in range(9):
        allowed[action] = (not w.numbers[OVER]) and is_possible(w, player, action, not fog)


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
            seen = side == 0 or is_seen(w, player, i, not fog)
            to = OWN if side == 0 else ENEMY if seen else REMEMBERED
            if u[i, KIND] == RESOURCE:
                to = SOURCES
            if seen or u[i, SEEN] or (u[i, KIND] == HOME):
                lists[to, counts[to]] = i if seen else i + 1000
                counts[to] += 1


@called
def _write_unit(w: Any, entry: int, player: int, to: int, out: Any) -> None:
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
        while not w.numbers[OVER] and w.numbers[TICK] < until:
            _play_on(w, g.random, game, who, who, g.frame_skip, g.opponent_skip)
        if not w.numbers[OVER]:
            break
    g.win[game], g.ticks[game] = 0, 0
    g.ahead[game] = advantage(w, 0)


def _reset(g: Any, game: int) -> None:
    begin_game(g, game)
    w = world_of(g, game)
    _note_view(w, g.shown[game], g.counts[game], g.allowed[game], 0, g.fog)


def _step(g: Any, game: int, chosen: Any) -> tuple[float, bool]:
    w = world_of(g, game)
    order(w, 0, 1 << chosen[0], not g.fog)
    reward, over = play_on(g, game)
    _note_view(w, g.shown[game], g.counts[game], g.allowed[game], 0, g.fog)
    return reward, over


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


def _own_count(g: Any, game: int) -> int:
    return g.counts[game, 0]


def _enemy_count(g: Any, game: int) -> int:
    return g.counts[game, 1]


def _source_count(g: Any, game: int) -> int:
    return g.counts[game, 2]


def _remembered_count(g: Any, game: int) -> int:
    return g.counts[game, 3]


def _own(g: Any, game: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, 0, i], 0, OWN, out)


def _enemy(g: Any, game: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, 1, i], 0, ENEMY, out)


def _source(g: Any, game: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, 2, i], 0, SOURCES, out)


def _remembered(g: Any, game: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, 3, i], 0, REMEMBERED, out)


def _orders(g: Any, game: int, out: Any) -> None:
    for action in range(9):
        out[action] = g.allowed[game, action]


def globals_of(g: Any, game: int, out: Any) -> None:
    """Money and tick."""
    out[0], out[1] = g.numbers[game, MONEY], g.numbers[game, TICK]


ENTITIES = {
    "Own": Entities(_own, _own_count, _MOST),
    "Enemy": Entities(_enemy, _enemy_count, _MOST),
    "Resource": Entities(_source, _source_count, 2),
    "Remembered": Entities(_remembered, _remembered_count, _MOST),
}


def state_of() -> dict[str, Field]:
    """The fields of a game against a built-in player."""
    return world_fields(MINI_RTS) | {
        "shown": Field((4, _MOST), "int32", 0, 1999),
        "counts": Field((4,), "int32", 0, _MOST),
        "begun": Field((), "bool"),
        "help": Field((), "float64"),
        "opponent": Field((), "int32", 0, 3),
        "ahead": Field((), "float64"),
        "win": Field((), "float64"),
        "ticks": Field((), "float64"),
    }


def settings_of(own: MiniRtsSettings) -> dict[str, float]:
    """The numbers of the settings."""
    return {
        "frame_skip": own.skips[0],
        "opponent_skip": own.skips[1],
        "max_tick": own.max_tick,
        "fog": own.fog,
        "curriculum": own.curriculum,
        "draw": float(own.draw),
        "shaping": float(own.shaping),
        "who": OPPONENTS.index(own.opponent),
    }


class MiniRtsRows(CompiledRows):
    """R rows of ``MiniRtsEnv``, compiled.

    Args:
        num_envs: The number of rows R.
        seed: Seeds all rows.
        threads: How many threads share the rows.
        settings: Those of ``MiniRtsSettings``.

    Raises:
        EnvConfigError: Settings that there are not.
    """

    environment: ClassVar[type[Environment]] = MiniRtsEnv

    def __init__(self, num_envs: int, seed: int = 0, *, threads: int = 1, **settings: Any) -> None:
        own: MiniRtsSettings = MiniRtsEnv(**settings).settings
        if own.interface == "units":
            from .minirts_units_rows import units_game  # which takes the rest from here

            game = units_game(state_of(), settings_of(own), ENTITIES)
        else:
            game = CompiledGame(
                obs_space=OBS_SPACE,
                action_space=ACTION_SPACE,
                state=state_of() | {"allowed": Field((len(ACTIONS),), "bool")},
                settings=settings_of(own),
                reset=_reset,
                step=_step,
                entities=ENTITIES,
                actions={"Order": Actors(mask=_orders)},
                global_features=globals_of,
                metrics={"win": "win", "ticks": "ticks"},
            )
        super().__init__(game, num_envs, seed, threads=threads)
        self.settings = own

    def world_arrays(self) -> FastWorld:
        """The arrays of all games, which a search copies. Shape of each: (R, ...)."""
        return FastWorld(*(self._fields[name] for name in FastWorld._fields))

    def opponent_of(self, row: int) -> int:
        """Who plays against a row in its running game, by the numbers of ``OPPONENTS``."""
        return int(self._fields["opponent"][row])


@called
def _is_turn(g: Any, game: int, seat: int) -> bool:
    return g.numbers[game, TICK] % (g.frame_skip if seat == 0 else g.opponent_skip) == 0


def _duel_asks(g: Any, game: int, seat: int) -> bool:
    return _is_turn(g, game, seat)


def _duel_reset(g: Any, game: int) -> None:
    w = world_of(g, game)
    setup(w, g.random, game, g.max_tick)
    g.ticks[game] = 0
    for seat in range(2):
        g.win[game, seat] = 0
        _note_view(w, g.shown[game, seat], g.counts[game, seat], g.allowed[game, seat], seat, g.fog)


def _duel_step(g: Any, game: int, seat: int, chosen: Any) -> None:
    g.chosen[game, seat] = chosen[0]


def _duel_resolve(g: Any, game: int, reward: Any) -> bool:
    w = world_of(g, game)
    for seat in range(2):
        if _is_turn(g, game, seat):
            order(w, seat, 1 << g.chosen[game, seat], not g.fog)
    while True:
        play_tick(w, KINDS)
        if w.numbers[OVER] or _is_turn(g, game, 0) or _is_turn(g, game, 1):
            break
    over, winner = w.numbers[OVER] == 1, w.numbers[WINNER]
    for seat in range(2):
        _note_view(w, g.shown[game, seat], g.counts[game, seat], g.allowed[game, seat], seat, g.fog)
        g.win[game, seat] = over and winner == seat
        if over and winner >= 0:
            reward[seat] = 1.0 if winner == seat else -1.0
    g.ticks[game] = w.numbers[TICK]
    return over


def _seat_own_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 0]


def _seat_enemy_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 1]


def _seat_source_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 2]


def _seat_remembered_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 3]


def _seat_own(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, 0, i], seat, OWN, out)


def _seat_enemy(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, 1, i], seat, ENEMY, out)


def _seat_source(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, 2, i], seat, SOURCES, out)


def _seat_remembered(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, 3, i], seat, REMEMBERED, out)


def _seat_orders(g: Any, game: int, seat: int, out: Any) -> None:
    for action in range(9):
        out[action] = g.allowed[game, seat, action]


def _seat_globals(g: Any, game: int, seat: int, out: Any) -> None:
    out[0], out[1] = g.numbers[game, MONEY + seat], g.numbers[game, TICK]


class MiniRtsDuelRows(CompiledRows):
    """R rows of ``MiniRtsDuel``, two seats of each game, compiled.

    Args:
        num_envs: The number of rows R, two for each game.
        seed: Seeds all games.
        frame_skip: Every how many ticks the first seat acts.
        opponent_skip: Every how many ticks the second one does; None: as the first.
        max_tick: When a game ends without a winner.
        fog: Whether players see only what their units see.
        threads: How many threads share the games.

    Raises:
        EnvConfigError: Settings that there are not.
    """

    environment: ClassVar[Any] = MiniRtsDuel

    def __init__(
        self,
        num_envs: int,
        seed: int = 0,
        frame_skip: int = 50,
        max_tick: int = 30_000,
        fog: bool = True,
        opponent_skip: int | None = None,
        *,
        threads: int = 1,
    ) -> None:
        own = MiniRtsSettings(
            frame_skip=frame_skip, opponent_skip=opponent_skip, max_tick=max_tick, fog=fog
        )
        game = CompiledGame(
            obs_space=OBS_SPACE,
            action_space=ACTION_SPACE,
            state=world_fields(MINI_RTS)
            | {
                "shown": Field((2, 4, _MOST), "int32", 0, 1999),
                "counts": Field((2, 4), "int32", 0, _MOST),
                "allowed": Field((2, len(ACTIONS)), "bool"),
                "chosen": Field((2,), "int32", 0, len(ACTIONS) - 1),
                "win": Field((2,), "float64"),
                "ticks": Field((), "float64"),
            },
            settings={
                "frame_skip": own.skips[0],
                "opponent_skip": own.skips[1],
                "max_tick": own.max_tick,
                "fog": own.fog,
            },
            reset=_duel_reset,
            asks=_duel_asks,
            step=_duel_step,
            resolve=_duel_resolve,
            entities={
                "Own": Entities(_seat_own, _seat_own_count, _MOST),
                "Enemy": Entities(_seat_enemy, _seat_enemy_count, _MOST),
                "Resource": Entities(_seat_source, _seat_source_count, 2),
                "Remembered": Entities(_seat_remembered, _seat_remembered_count, _MOST),
            },
            actions={"Order": Actors(mask=_seat_orders)},
            global_features=_seat_globals,
            metrics={"win": "win", "ticks": "ticks"},
            seats=2,
        )
        super().__init__(game, num_envs, seed, threads=threads)
