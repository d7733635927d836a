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
)

from .fast_layout import (
    OVER,
    FastWorld,
    world_fields,
    world_of,
)
from .minirts import ACTIONS, MINI_RTS
from .minirts_env import OPPONENTS, MiniRtsDuel, MiniRtsEnv, MiniRtsSettings
from .minirts_fast import (
    KINDS,
    order,
    play_tick,
)
from .minirts_kernel import (
    ENEMY,
    MOST,
    OWN,
    REMEMBERED,
    SOURCES,
    begin_duel,
    begin_game,
    end_duel,
    globals_of,
    is_turn,
    note_view,
    play_on,
    problems,
    seat_globals,
    write_unit,
)
from .minirts_units_rows import units_duel, units_game
from .minirts_view import ACTION_SPACE, OBS_SPACE

__all__ = ["MiniRtsDuelRows", "MiniRtsRows"]


def _reset(g: Any, game: int) -> None:
    begin_game(g, game)
    w = world_of(g, game)
    note_view(w, g.shown[game], g.counts[game], g.allowed[game], 0, g.fog)


def _step(g: Any, game: int, chosen: Any) -> tuple[float, bool]:
    w = world_of(g, game)
    order(w, 0, 1 << chosen[0])
    reward, over = play_on(g, game)
    note_view(w, g.shown[game], g.counts[game], g.allowed[game], 0, g.fog)
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
    write_unit(world_of(g, game), g.shown[game, 0, i], 0, OWN, out)


def _enemy(g: Any, game: int, i: int, out: Any) -> None:
    write_unit(world_of(g, game), g.shown[game, 1, i], 0, ENEMY, out)


def _source(g: Any, game: int, i: int, out: Any) -> None:
    write_unit(world_of(g, game), g.shown[game, 2, i], 0, SOURCES, out)


def _remembered(g: Any, game: int, i: int, out: Any) -> None:
    write_unit(world_of(g, game), g.shown[game, 3, i], 0, REMEMBERED, out)


def _orders(g: Any, game: int, out: Any) -> None:
    for action in range(9):
        out[action] = g.allowed[game, action]


ENTITIES = {
    "Own": Entities(_own, _own_count, MOST),
    "Enemy": Entities(_enemy, _enemy_count, MOST),
    "Resource": Entities(_source, _source_count, 2),
    "Remembered": Entities(_remembered, _remembered_count, MOST),
}


def state_of() -> dict[str, Field]:
    """Return the fields of a game against a built-in player."""
    return world_fields(MINI_RTS) | {
        "shown": Field((4, MOST), "int32", 0, 1999),
        "counts": Field((4,), "int32", 0, MOST),
        "begun": Field((), "bool"),
        "help": Field((), "float64"),
        "opponent": Field((), "int32", 0, 3),
        "ahead": Field((), "float64"),
        "win": Field((), "float64"),
        "ticks": Field((), "float64"),
    }


def settings_of(own: MiniRtsSettings) -> dict[str, float]:
    """Return the numbers of the settings."""
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
            game = units_game(state_of(), settings_of(own), ENTITIES)
        else:
            game = CompiledGame(
                problems=problems,
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
        """Return the arrays of all games, which a search copies. Shape of each: (R, ...)."""
        return FastWorld(*(self._fields[name] for name in FastWorld._fields))

    def opponent_of(self, row: int) -> int:
        """Return the opponent of a row in its running game, a number of ``OPPONENTS``."""
        return int(self._fields["opponent"][row])


def _duel_asks(g: Any, game: int, seat: int) -> bool:
    return is_turn(g, game, seat)


def _duel_reset(g: Any, game: int) -> None:
    w = world_of(g, game)
    begin_duel(g, game, w)
    for seat in range(2):
        note_view(w, g.shown[game, seat], g.counts[game, seat], g.allowed[game, seat], seat, g.fog)


def _duel_step(g: Any, game: int, seat: int, chosen: Any) -> None:
    g.chosen[game, seat] = chosen[0]


def _duel_resolve(g: Any, game: int, reward: Any) -> bool:
    w = world_of(g, game)
    for seat in range(2):
        if is_turn(g, game, seat):
            order(w, seat, 1 << g.chosen[game, seat])
    while True:
        play_tick(w, KINDS)
        if w.numbers[OVER] or is_turn(g, game, 0) or is_turn(g, game, 1):
            break
    for seat in range(2):
        note_view(w, g.shown[game, seat], g.counts[game, seat], g.allowed[game, seat], seat, g.fog)
    return end_duel(g, game, w, reward)


def _seat_own_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 0]


def _seat_enemy_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 1]


def _seat_source_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 2]


def _seat_remembered_count(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 3]


def _seat_own(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    write_unit(world_of(g, game), g.shown[game, seat, 0, i], seat, OWN, out)


def _seat_enemy(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    write_unit(world_of(g, game), g.shown[game, seat, 1, i], seat, ENEMY, out)


def _seat_source(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    write_unit(world_of(g, game), g.shown[game, seat, 2, i], seat, SOURCES, out)


def _seat_remembered(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    write_unit(world_of(g, game), g.shown[game, seat, 3, i], seat, REMEMBERED, out)


def _seat_orders(g: Any, game: int, seat: int, out: Any) -> None:
    for action in range(9):
        out[action] = g.allowed[game, seat, action]


class MiniRtsDuelRows(CompiledRows):
    """R rows of ``MiniRtsDuel``, two seats of each game, compiled.

    Args:
        num_envs: The number of rows R, two for each game.
        seed: Seeds all games.
        frame_skip: Every how many ticks the first seat acts.
        opponent_skip: Every how many ticks the second one does; None: as the first.
        max_tick: When a game ends without a winner.
        fog: Whether players see only what their units see.
        interface: ``strategic``, or ``units``: players tell each unit what to do.
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
        interface: str = "strategic",
        *,
        threads: int = 1,
    ) -> None:
        own = MiniRtsDuel(frame_skip, max_tick, fog, opponent_skip, interface).settings
        state = world_fields(MINI_RTS) | {
            "shown": Field((2, 4, MOST), "int32", 0, 1999),
            "counts": Field((2, 4), "int32", 0, MOST),
            "win": Field((2,), "float64"),
            "ticks": Field((), "float64"),
        }
        settings = {
            "frame_skip": own.skips[0],
            "opponent_skip": own.skips[1],
            "max_tick": own.max_tick,
            "fog": own.fog,
        }
        entities = {
            "Own": Entities(_seat_own, _seat_own_count, MOST),
            "Enemy": Entities(_seat_enemy, _seat_enemy_count, MOST),
            "Resource": Entities(_seat_source, _seat_source_count, 2),
            "Remembered": Entities(_seat_remembered, _seat_remembered_count, MOST),
        }
        if own.interface == "units":
            game = units_duel(state, settings, entities)
        else:
            game = CompiledGame(
                problems=problems,
                obs_space=OBS_SPACE,
                action_space=ACTION_SPACE,
                state=state
                | {
                    "allowed": Field((2, len(ACTIONS)), "bool"),
                    "chosen": Field((2,), "int32", 0, len(ACTIONS) - 1),
                },
                settings=settings,
                reset=_duel_reset,
                asks=_duel_asks,
                step=_duel_step,
                resolve=_duel_resolve,
                entities=entities,
                actions={"Order": Actors(mask=_seat_orders)},
                global_features=seat_globals,
                metrics={"win": "win", "ticks": "ticks"},
                seats=2,
            )
        super().__init__(game, num_envs, seed, threads=threads)
