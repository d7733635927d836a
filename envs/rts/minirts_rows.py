"""Mini-RTS for all rows at once, against a built-in player or for two: views, rewards, games."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from entity_env.arguments import check_number
from entity_env.rows.compiled import CompiledGame
from entity_env.spaces import Discrete, Entity, ObsSpace

from .arrays import COMMAND, HP, KIND, MAX_HP, MONEY, SLOTS, TICK, X, Y, called, world_of
from .minirts import (
    ACTIONS,
    ENEMY,
    KINDS,
    LISTS,
    MINI_RTS,
    OWN,
    REMEMBERED,
    SOURCES,
    act,
    gain,
    is_possible,
    mark,
    order,
    setup,
    tick,
)
from .minirts_units import units_interface
from .rules import COMMANDS
from .strategic import (
    OUT_OF_SIGHT,
    Match,
    OrderRows,
    begin_match,
    check_name,
    is_turn,
    orders_game,
    play_on,
    seating,
)
from .world_rows import StrategyEnvironment, StrategyPlayers

__all__ = ["OBS_SPACE", "MiniRts", "MiniRtsDuel", "MiniRtsDuelRows", "MiniRtsMatch", "MiniRtsRows"]

INTERFACES = ("strategic", "units")
_KIND = Discrete("kind", len(MINI_RTS.kinds), names=[own.name for own in MINI_RTS.kinds])

OBS_SPACE = ObsSpace(
    global_features=["money", "tick"],
    entities={
        "Own": Entity([_KIND, "x", "y", "hp", Discrete("command", 5, names=COMMANDS)]),
        "Enemy": Entity([_KIND, "x", "y", "hp"]),
        "Resource": Entity(["x", "y", "hp", Discrete("own", 2)]),
        "Remembered": Entity([_KIND, "x", "y"]),
    },
)

"""A player always sees its own units and its resource, and the enemy's units in sight, or all
without fog. Buildings that have been in sight are remembered while they are out of it, and so is
the enemy's base from the beginning, as in the original games."""


@dataclass(frozen=True)
class MiniRtsMatch(Match):
    """The settings of Mini-RTS, checked; and those of ``Match``.

    Args:
        draw: The reward of a game that nobody wins. With 0 an untrained player can
            learn that not to lose is enough.
        shaping: So much of each change of ``minirts.advantage`` is added to rewards; it counts as 0
            after the end, so that all additions of a game sum up to what it began with.
        interface: ``strategic``, or ``units``: the learner gives commands to each unit.

    Raises:
        SettingError: A setting is unknown.
    """

    opponent: str = "simple"
    draw: float = 0.0
    shaping: float = 0.0
    interface: str = "strategic"

    rules = MINI_RTS
    scripts = ("simple", "hit_n_run")

    def __post_init__(self) -> None:
        """Check all settings, else SettingError."""
        check_name("interface", self.interface, INTERFACES)
        super().__post_init__()
        check_number("draw", self.draw, -1000.0, 1000.0)
        check_number("shaping", self.shaping, -1000.0, 1000.0)

    def numbers(self, seats: int) -> dict[str, float]:
        """Return the settings in the format of the game's functions."""
        own = {"draw": float(self.draw), "shaping": float(self.shaping)}
        return super().numbers(seats) | own


@called
def _write_unit(w: Any, entry: int, player: int, to: int, out: Any) -> None:
    """Write the features of an entry of one of the four lists."""
    i = entry % OUT_OF_SIGHT
    x, y = w.places[i, X], w.places[i, Y]
    share = w.units[i, HP] / KINDS[w.units[i, KIND], MAX_HP]
    if to == SOURCES:
        out[0], out[1], out[2] = x, y, share if entry < OUT_OF_SIGHT else 1.0
        out[3] = 1.0 if i // w.numbers[SLOTS] == player else 0.0
        return
    out[0], out[1], out[2] = w.units[i, KIND], x, y
    if to != REMEMBERED:
        out[3] = share
    if to == OWN:
        out[4] = w.units[i, COMMAND]


def _own(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, OWN, i], seat, OWN, out)


def _enemy(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, ENEMY, i], seat, ENEMY, out)


def _source(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, SOURCES, i], seat, SOURCES, out)


def _remembered(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    _write_unit(world_of(g, game), g.shown[game, seat, REMEMBERED, i], seat, REMEMBERED, out)


def _globals(g: Any, game: int, seat: int, out: Any) -> None:
    out[0], out[1] = g.numbers[game, MONEY + seat], g.numbers[game, TICK]


_note, _obey = seating(KINDS, LISTS, order, is_possible)


def _reset(g: Any, game: int) -> None:
    begin_match(g, game, setup, act, tick, _note)


def _resolve(g: Any, game: int, reward: Any) -> bool:
    return play_on(g, game, reward, _obey, act, tick, _note, is_turn, mark, gain)


ROWS = {"Own": _own, "Enemy": _enemy, "Resource": _source, "Remembered": _remembered}


class MiniRtsRows(OrderRows):
    """R rows of ``MiniRts``, compiled."""

    match = MiniRtsMatch

    @classmethod
    def game(cls, match: Any) -> CompiledGame:
        """Return the game for the kit."""
        parts: dict[str, Any] = {"reset": _reset, "resolve": _resolve, "orders": ACTIONS}
        if match.interface == "units":
            parts = units_interface(cls.seats)
        return orders_game(match, cls.seats, OBS_SPACE, ROWS, global_features=_globals, **parts)


class MiniRtsDuelRows(MiniRtsRows):
    """R rows of ``MiniRtsDuel``, two seats of each game, compiled."""

    seats = 2


class MiniRts(StrategyEnvironment):
    """Mini-RTS against a built-in player: gather, build an army, destroy the enemy's base.

    Entities:
        ``Own`` [kind, x, y, hp, command], ``Enemy`` [kind, x, y, hp] in sight, ``Resource`` [x, y,
        hp, own], and ``Remembered`` [kind, x, y]: enemy buildings that are out of sight. ``hp`` is
        a share. Global: money and tick.
    Actions:
        ``Order``: one of nine strategic actions; the mask allows those that would give any
        unit a command, and to idle. Units that hit and run find the enemy in the fog, too, but the
        mask does not show whether there is one. With ``interface=units`` every own unit that may
        act has a ``Command``: none, attack, gather, build something, or move two cells in one of
        eight directions; a unit that may attack also has a ``Target`` among enemies and remembered
        buildings.
    Reward:
        1 for a win, -1 for a defeat, ``draw`` for neither, at the end; and shaping, if any.
    End:
        A player alone has a base; or ``max_tick``, or a crowd in which nobody can move.
    Randomness:
        Places of bases and resources, and units at first.
    Source:
        Tian et al. 2017, "ELF: An Extensive, Lightweight and Flexible Research Platform for
        Real-time Strategy Games".

    Args:
        settings: Those of ``MiniRtsMatch``.
    """

    rows = MiniRtsRows


class MiniRtsDuel(StrategyPlayers):
    """Mini-RTS for two players; see ``MiniRts``.

    Args:
        settings: ``frame_skip`` of the first seat, ``opponent_skip`` of the second one,
            ``max_tick``, ``fog`` and ``interface``, as of ``MiniRtsMatch``. With
            ``interface=units`` a seat whose units cannot get commands waits.
    """

    rows = MiniRtsDuelRows


MiniRtsRows.environment = MiniRts
MiniRtsDuelRows.environment = MiniRtsDuel
