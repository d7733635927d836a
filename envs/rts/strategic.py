"""Games of orders, against a built-in player or between two: what all of them have in common.

A game is functions on the arrays of a ``World`` (``capture_the_flag.py`` is an example). Those
below, which call them, become part of the game's ``reset`` and ``resolve``. A game against a
built-in player has one seat and a duel two; both are the same compiled code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_flag, check_whole
from entity_env.errors import SettingError, nearest, shorten
from entity_env.rows.compiled import Actors, CompiledGame, Entities, Field, compiled, random_int
from entity_env.rows.compiled_game import Function
from entity_env.spaces import GlobalCategoricalActionSpace, ObsSpace

from .arrays import (
    ALIVE,
    KIND,
    OVER,
    SEEN,
    TICK,
    TOLD,
    WINNER,
    X,
    Y,
    called,
    copied,
    fill,
    slots_of,
    world_fields,
    world_of,
    world_problems,
)
from .engine import forget, send_told
from .rules import Rules
from .space import sees
from .world_rows import WorldRows

__all__ = [
    "RANDOM",
    "Match",
    "OrderRows",
    "begin_match",
    "is_turn",
    "note_units",
    "ordering",
    "orders_game",
    "play_on",
    "seating",
]

LESS_HELP = 0.99
"""The factor of the most ticks of help after each game."""
RANDOM, MIXED, SEATED = 0, -1, -2
"""Opponents by number: one of all orders, a built-in player drawn for each game, and none, as a
second seat plays. Built-in players have the numbers from 1 on."""
OUT_OF_SIGHT = 1000
"""Added to the slot of a listed unit that its player does not see now."""
_OF_ONE = ("opponent", "curriculum", "draw", "shaping")
"""Settings that games between two do not have."""
NOWHERE = -1
"""In the place of a list: units of this kind are not listed."""


@dataclass(frozen=True)
class Match:
    """The settings of a game of orders, checked. A subclass names its rules and its scripts.

    Args:
        opponent: A built-in player of the game, ``random``, or ``mixed``: a built-in player drawn
            for each game.
        frame_skip: The learner acts every so many ticks.
        opponent_skip: The opponent acts every so many ticks; None: as the learner.
        max_tick: The tick at which a game ends without a winner; None: as the rules say.
        fog: True if the learner sees only what its units see.
        curriculum: A built-in player plays the learner's side for so many ticks at most at first.

    Raises:
        SettingError: A setting is unknown.
    """

    opponent: str = ""
    frame_skip: int = 50
    opponent_skip: int | None = None
    max_tick: int | None = None
    fog: bool = True
    curriculum: int = 0

    rules: ClassVar[Rules]
    scripts: ClassVar[tuple[str, ...]]
    """The names of built-in players."""

    def __post_init__(self) -> None:
        """Check all settings, else SettingError."""
        check_name("opponent", self.opponent, self.opponents())
        if self.max_tick is not None:
            check_whole("max_tick", self.max_tick, 2, 10_000_000)
        check_whole("frame_skip", self.frame_skip, 1, self.limit - 1)
        if self.opponent_skip is not None:
            check_whole("opponent_skip", self.opponent_skip, 1, self.limit)
        check_flag("fog", self.fog)
        check_whole("curriculum", self.curriculum, 0, self.limit - 1)

    @classmethod
    def of(cls, given: Mapping[str, Any], seats: int) -> Self:
        """Return the checked settings, or raise SettingError with the nearest name."""
        names = [own.name for own in fields(cls) if seats == 1 or own.name not in _OF_ONE]
        for name in given:
            if name not in names:
                raise SettingError(
                    f"there is no setting {name!r}",
                    options=names,
                    hint=nearest(name, names),
                    about=name,
                )
        return cls(**given)

    @classmethod
    def opponents(cls) -> tuple[str, ...]:
        """Return the names of all opponents; the number of ``random`` is 0."""
        return ("random", *cls.scripts, *(["mixed"] if len(cls.scripts) > 1 else []))

    @property
    def limit(self) -> int:
        """The tick at which a game ends at the latest."""
        return self.rules.max_tick if self.max_tick is None else self.max_tick

    @property
    def skips(self) -> tuple[int, int]:
        """The frame skips of the learner and its opponent."""
        return self.frame_skip, self.opponent_skip or self.frame_skip

    def numbers(self, seats: int) -> dict[str, float]:
        """Return the settings as the functions of a game read them."""
        number = MIXED if self.opponent == "mixed" else self.opponents().index(self.opponent)
        return {
            "frame_skip": self.skips[0],
            "opponent_skip": self.skips[1],
            "max_tick": self.limit,
            "fog": self.fog,
            "curriculum": self.curriculum,
            "who": number if seats == 1 else SEATED,
            "scripts": len(self.scripts),
            "draw": 0.0,
        }


def check_name(what: str, name: str, names: tuple[str, ...]) -> None:
    """Raise SettingError unless a name is one of some others."""
    if name not in names:
        raise SettingError(
            f"there is no such {what}",
            expected=f"one of {', '.join(names)}",
            received=shorten(name),
            about=what,
            hint=nearest(name, names),
        )


# ---- The course of a game ------------------------------------------------------------------------


@compiled
def is_turn(g: Any, game: int, seat: int) -> bool:
    """Return True if a seat acts at this tick."""
    skip: int = g.frame_skip if seat == 0 else g.opponent_skip
    return bool(g.numbers[game, TICK] % skip == 0)


@compiled
def _is_any_turn(g: Any, game: int) -> bool:
    return is_turn(g, game, 0) or (g.who == SEATED and is_turn(g, game, 1))


@copied
def begin_match(g: Any, game: int, setup: Any, act: Any, tick: Any, note: Any) -> None:
    """Begin a game, and play until a seat acts; with a curriculum built-in players do so at first.

    Args:
        g: The fields and settings.
        game: The number of the game.
        setup: ``(w, random, game, max_tick)`` begins a game.
        act: ``(w, player, who, random, game)`` lets a built-in player act.
        tick: ``(w, random, game)`` lets a tick pass.
        note: ``(g, game, w)`` stores the observations and masks of all seats.
    """
    w = world_of(g, game)
    if not g.begun[game]:
        g.begun[game], g.help[game] = True, g.curriculum
    while True:
        setup(w, g.random, game, g.max_tick)
        who, until = g.who, 0
        if who == MIXED:
            who = random_int(g.random, game, 1, g.scripts)
        if who != SEATED:
            until = random_int(g.random, game, 0, int(g.help[game]))
            g.help[game] *= LESS_HELP
        g.opponent[game] = who
        while not w.numbers[OVER] and (w.numbers[TICK] < until or not _is_any_turn(g, game)):
            if who != SEATED and is_turn(g, game, 0):
                act(w, 0, max(who, 1), g.random, game)
            if who != SEATED and is_turn(g, game, 1):
                act(w, 1, who, g.random, game)
            tick(w, g.random, game)
        if not w.numbers[OVER]:
            break
    g.win[game] = 0
    g.ticks[game] = 0
    note(g, game, w)


@copied
def play_on(
    g: Any,
    game: int,
    reward: Any,
    obey: Any,
    act: Any,
    tick: Any,
    note: Any,
    asks: Any,
    mark: Any,
    gain: Any,
) -> bool:
    """Play until a seat must act again, and return True if the game is over.

    Args:
        g: The fields and settings.
        game: The number of the game.
        reward: Filled with the reward of each seat.
        obey: ``(g, game, w, seat)`` carries out the choices of a seat.
        act: See ``begin_match``.
        tick: See ``begin_match``.
        note: See ``begin_match``.
        asks: ``(g, game, seat)`` returns True if a seat must decide now.
        mark: ``(w, player, marks)`` notes at most three numbers before the step.
        gain: ``(g, w, player, marks)`` returns the reward of the step, without that of the end.
    """
    w, seats = world_of(g, game), g.win.shape[1]
    for seat in range(seats):
        mark(w, seat, g.marks[game, seat])
    for seat in range(seats):
        if asks(g, game, seat):
            obey(g, game, w, seat)
    who, is_asked = g.opponent[game], False
    while not is_asked:
        if who != SEATED and is_turn(g, game, 1):
            act(w, 1, who, g.random, game)
        tick(w, g.random, game)
        is_asked = w.numbers[OVER] == 1
        if is_asked or _is_any_turn(g, game):
            note(g, game, w)
            for seat in range(seats):
                is_asked = is_asked or asks(g, game, seat)
    over, winner = w.numbers[OVER] == 1, w.numbers[WINNER]
    for seat in range(seats):
        got = gain(g, w, seat, g.marks[game, seat])
        if over:
            got += 1.0 if winner == seat else -1.0 if winner >= 0 else g.draw
        reward[seat] = got
        g.win[game, seat] = over and winner == seat
    g.ticks[game] = w.numbers[TICK]
    return over


# ---- What players see and order ------------------------------------------------------------------


@called
def note_units(
    w: Any, kinds: Any, lists: Any, shown: Any, counts: Any, player: int, fog: bool
) -> None:
    """Note in lists which units a player sees or remembers.

    Args:
        w: The arrays of the game.
        kinds: The table of kinds.
        lists: For each kind the numbers of the lists of own units, of the enemy's in sight, of the
            enemy's out of sight; and 1 if these are known from the beginning, not only after they
            have been in sight. Shape: (kinds, 4).
        shown: Filled with slots; units out of sight have ``OUT_OF_SIGHT`` added.
            Shape: (lists, most).
        counts: Filled with the lengths of the lists. Shape: (lists,).
        player: The player of the observation.
        fog: True if the player sees only what its units see.
    """
    u = w.units
    counts[:] = 0
    for side in range(2):
        whose = player if side == 0 else 1 - player
        for i in slots_of(w, whose):
            if not u[i, ALIVE]:
                continue
            entry, to = i, lists[u[i, KIND], side]
            if side == 1 and fog and not sees(w, kinds, player, w.places[i, X], w.places[i, Y]):
                entry, to = i + OUT_OF_SIGHT, lists[u[i, KIND], 2]
                if not (u[i, SEEN] or lists[u[i, KIND], 3]):
                    continue
            if to >= 0:
                shown[to, counts[to]] = entry
                counts[to] += 1


def ordering(kinds: npt.NDArray[np.float64], assign: Function) -> tuple[Function, Function]:
    """Return two functions of a game of orders.

    Args:
        kinds: The table of kinds.
        assign: ``(w, player, orders)`` stores the commands of units for orders, the sum of 2^order.

    Returns:
        ``order(w, player, orders)``, which sends them, and ``is_possible(w, player, order)``, which
        returns True if an order would give any unit a command now.
    """

    @called
    def order(w: Any, player: int, orders: int) -> None:
        assign(w, player, orders)
        send_told(w, kinds, player)
        forget(w)

    @called
    def is_possible(w: Any, player: int, order: int) -> bool:
        assign(w, player, 1 << order)
        found: bool = w.numbers[TOLD] > 0
        forget(w)
        return found

    return order, is_possible


def seating(
    kinds: npt.NDArray[np.float64],
    lists: npt.NDArray[np.int64],
    order: Function,
    is_possible: Function,
) -> tuple[Function, Function]:
    """Return the functions ``note`` and ``obey`` of ``play_on`` for seats that give orders.

    Args:
        kinds: The table of kinds.
        lists: See ``note_units``.
        order: Result of ``ordering``.
        is_possible: Result of ``ordering``. The first order does nothing, and is always possible.
    """

    @called
    def note(g: Any, game: int, w: Any) -> None:
        for seat in range(g.win.shape[1]):
            note_units(w, kinds, lists, g.shown[game, seat], g.counts[game, seat], seat, g.fog)
            for action in range(g.allowed.shape[2]):
                can = w.numbers[OVER] == 0 and (action == 0 or is_possible(w, seat, action))
                g.allowed[game, seat, action] = can

    @called
    def obey(g: Any, game: int, w: Any, seat: int) -> None:
        order(w, seat, 1 << g.chosen[game, seat])

    return note, obey


def _note_choice(g: Any, game: int, seat: int, chosen: Any) -> None:
    g.chosen[game, seat] = chosen[0]


def _is_asked(g: Any, game: int, seat: int) -> bool:
    return is_turn(g, game, seat)


def _orders(g: Any, game: int, seat: int, out: Any) -> None:
    fill(out, g.allowed[game, seat], 0)


def _first(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 0]


def _second(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 1]


def _third(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 2]


def _fourth(g: Any, game: int, seat: int) -> int:
    return g.counts[game, seat, 3]


def problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved game of orders."""
    slots = len(g.units[game])
    return world_problems(g, game) | {
        "a list with a unit that is not there": bool((g.shown[game] % OUT_OF_SIGHT >= slots).any()),
        "a tick at which nobody acts": not _is_any_turn(g, game),
    }


def orders_game(
    match: Match,
    seats: int,
    obs_space: ObsSpace,
    rows: Mapping[str, Any],
    reset: Function,
    resolve: Function,
    global_features: Function,
    orders: tuple[str, ...] = (),
    **more: Any,
) -> CompiledGame:
    """Return a game of orders for the kit.

    Args:
        match: The settings.
        seats: The number of seats, 1 or 2.
        obs_space: The observation space.
        rows: For each entity type a function that writes one of its at most four lists, in the
            order of the lists; or all that the kit needs of it.
        reset: A function that calls ``begin_match``.
        resolve: A function that calls ``play_on``.
        global_features: See ``CompiledGame``.
        orders: The names of the orders, the first of which does nothing; none: ``more`` has the
            actions.
        more: Other arguments of ``CompiledGame``; ``state`` is added to the fields of all games.
    """
    most, counts = match.rules.most_units, (_first, _second, _third, _fourth)
    state = world_fields(match.rules) | {
        "shown": Field((seats, len(rows), most), "int32", 0, 2 * OUT_OF_SIGHT - 1),
        "counts": Field((seats, len(rows)), "int32", 0, most),
        "marks": Field((seats, 3), "float64"),
        "begun": Field((), "bool"),
        "help": Field((), "float64", 0, match.limit),
        "opponent": Field((), "int32", SEATED, len(match.scripts)),
        "win": Field((seats,), "float64"),
        "ticks": Field((), "float64"),
    }
    parts: dict[str, Any] = {"problems": problems}
    if orders:
        state |= {
            "allowed": Field((seats, len(orders)), "bool"),
            "chosen": Field((seats,), "int32", 0, len(orders) - 1),
        }
        parts |= {
            "action_space": {"Order": GlobalCategoricalActionSpace([*orders])},
            "step": _note_choice,
            "asks": _is_asked,
            "actions": {"Order": Actors(mask=_orders)},
        }
    return CompiledGame(
        obs_space=obs_space,
        state=state | more.pop("state", {}),
        settings=match.numbers(seats),
        reset=reset,
        resolve=resolve,
        entities={
            name: own if isinstance(own, Entities) else Entities(own, counts[k], most)
            for k, (name, own) in enumerate(rows.items())
        },
        global_features=global_features,
        metrics={"win": "win", "ticks": "ticks"},
        seats=seats,
        **(parts | more),
    )


class OrderRows(WorldRows):
    """R rows of a game of orders, compiled. A subclass sets ``match``, and writes ``game``.

    Args:
        num_envs: The number of rows R, a multiple of ``seats``; None: those of one game.
        seed: Seeds all games.
        threads: The number of threads that share the games.
        settings: Those of ``match``; games between two have neither an opponent, a curriculum, a
            draw nor shaping.

    Raises:
        SettingError: A setting is unknown.
    """

    match: ClassVar[type[Match]]
    """The class of the settings."""
    seats: ClassVar[int] = 1
    """The number of seats; a game between two is a subclass with 2."""

    def __init__(
        self, num_envs: int | None, seed: int = 0, *, threads: int = 1, **settings: Any
    ) -> None:
        self.settings = self.match.of(settings, self.seats)
        self.rules = self.settings.rules
        super().__init__(self.game(self.settings), num_envs, seed, threads=threads)

    @classmethod
    @abstractmethod
    def game(cls, match: Any) -> CompiledGame:
        """Return the game, made by ``orders_game``."""
