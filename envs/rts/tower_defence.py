"""Tower Defence: towers on walls stop attackers on their way through a maze."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env.arguments import check_whole
from entity_env.rows.compiled import Actors, CompiledGame, Entities, Field, random_int
from entity_env.rows.jit import with_arrays
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

from .arrays import (
    ALIVE,
    ATTACKED,
    COMMAND,
    COST,
    DAMAGED_BY,
    HP,
    KIND,
    MAX_HP,
    MAX_TICK,
    MONEY,
    OVER,
    REACH,
    SLOTS,
    TICK,
    WALLED,
    WALLS,
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
from .engine import (
    EACH_TICK,
    GOES_ON,
    HURT,
    JUDGE,
    begin,
    count_of,
    create,
    engine,
    first_of,
    is_alive,
    nearest,
    put,
    remove,
    see,
    send,
)
from .rules import ATTACK, Rules, UnitKind
from .space import WAYS, cell_of, is_ground
from .strategic import NOWHERE, note_units
from .world_rows import StrategyEnvironment, WorldRows

__all__ = [
    "ACTION_SPACE",
    "OBS_SPACE",
    "TOWER_DEFENCE",
    "TowerDefence",
    "TowerDefenceRows",
    "aim",
    "build_tower",
    "can_build",
    "play_tick",
    "setup",
]

BASE_HP = 100

TOWER_DEFENCE = Rules(
    kinds=(
        UnitKind(
            "TowerBase",
            hp=BASE_HP,
            attack=9999,
            range=1,
            vision=9999,
            commands=(ATTACK,),
            is_building=True,
        ),
        UnitKind(
            "Attacker",
            hp=50,
            speed=0.1,
            attack=10,
            range=1,
            vision=5,
            attack_ticks=100,
            commands=(ATTACK,),
        ),
        UnitKind(
            "Tower",
            cost=50,
            hp=100,
            attack=50,
            range=3,
            vision=5,
            attack_ticks=15,
            commands=(ATTACK,),
            is_building=True,
        ),
    ),
    resource=100,
    max_tick=1200,
    most_units=48,
    has_walls=True,
)

WAVE_TICKS = 200
FOR_A_KILL = 10
AIM = 3.0
"""Towers aim at what is within this squared distance, less than they reach."""
_BEYOND_AIM = float(np.nextafter(AIM, 4.0))
OPEN = 14
"""The block of cells from here on, where attackers appear, has no walls."""


OBS_SPACE = ObsSpace(
    global_features=["money", "tick", "base hp"],
    entities={
        "Defender": Entity([]),
        "Cell": Entity(["x", "y", Discrete("is", 3), "covers"]),
        "Attacker": Entity(["x", "y", "hp"]),
        "Tower": Entity(["x", "y", "ready"]),
    },
)
"""``is`` of a cell: open, a wall, or a wall with something on it; ``covers``: how many cells of the
attackers' way a tower there would reach."""
ACTION_SPACE: Mapping[ActionName, ActionSpace] = {"Build": SelectEntityActionSpace()}


KINDS = TOWER_DEFENCE.table()
MAP, MOST, AT_FIRST = TOWER_DEFENCE.size, TOWER_DEFENCE.most_units, TOWER_DEFENCE.resource
CELLS, HALF = MAP * MAP, MAP // 2
HOME, ATTACKER, TOWER = range(3)
LISTS = np.array([(NOWHERE,) * 4, (NOWHERE, 0, NOWHERE, 0), (1, NOWHERE, NOWHERE, 0)])
"""Attackers and towers, which the defender always sees; see ``note_units``."""
RELOAD = TOWER_DEFENCE.kinds[TOWER].attack_ticks


@called
def rules_of_a_tick(w: Any, kinds: Any, what: int, i: int) -> int:
    """Play the game's part of a tick."""
    n, u = w.numbers, w.units
    if what == EACH_TICK:
        _send_waves(w)
    elif what == HURT:
        by = u[i, DAMAGED_BY]
        if is_alive(w, by):
            if u[i, HP] <= 0 and u[by, KIND] == TOWER:
                n[MONEY] += FOR_A_KILL
            elif i < n[SLOTS] <= by:
                remove(w, by)  # who reaches the base hits it once, and dies of it
    elif what == JUDGE:
        if first_of(w, 0, HOME) < 0:
            return 1
        return 0 if n[TICK] + 1 >= n[MAX_TICK] else GOES_ON
    return 0


@copied
def _send_waves(w: Any) -> None:
    n, u = w.numbers, w.units
    base = first_of(w, 0, HOME)
    if base < 0:
        return
    if n[TICK] % WAVE_TICKS == 0:
        for i in range(n[TICK] // WAVE_TICKS):
            create(w, KINDS, 1, ATTACKER, float(15 + i % 5), float(15 + i // 5))
    for i in slots_of(w, 1):
        if u[i, ALIVE] and u[i, KIND] == ATTACKER and u[i, COMMAND] == 0:
            send(w, KINDS, 1, i, ATTACK, -1.0, -1.0, base, -1, -1)


@called
def aim(w: Any) -> None:
    """Let each tower attack the nearest attacker within ``AIM``, when the defender acts.

    A tower with nobody that near keeps its target until that is out of reach.
    """
    u, p = w.units, w.places
    for tower in slots_of(w, 0):
        if u[tower, ALIVE] and u[tower, KIND] == TOWER:
            found = nearest(w, KINDS, 0, p[tower, X], p[tower, Y], ATTACKER, _BEYOND_AIM)
            if found >= 0:
                u[tower, COMMAND] = 0  # a building that does something takes no command
                send(w, KINDS, 0, tower, ATTACK, -1.0, -1.0, found, -1, -1)


play_tick = engine(rules_of_a_tick, KINDS)


@with_arrays
def setup(w: Any, covers: Any, random: Any, game: int, max_tick: int) -> None:
    """Begin a game: a maze of corridors with a base at each end.

    Prim's algorithm with random edges over the cells of even coordinates.
    """
    begin(w, MAP, MOST, AT_FIRST, max_tick)
    n = w.numbers
    n[WALLED] = 1
    for y in range(MAP):
        for x in range(MAP):
            n[WALLS + y * MAP + x] = 0 if x >= OPEN and y >= OPEN else 1
    edges = np.empty((4 * HALF * HALF + 4, 2), np.int32)
    inside = np.zeros(HALF * HALF, np.bool_)
    count = 0
    for x in range(OPEN // 2, HALF):
        for y in range(OPEN // 2, HALF):
            inside[y * HALF + x] = True
    for x in range(OPEN // 2, HALF):
        for y in range(OPEN // 2, HALF):
            count = _add_edges(edges, count, x, y)
    while count > 0:
        at = random_int(random, game, 0, count - 1)
        cell, near = edges[at, 0], edges[at, 1]
        count -= 1
        for k in range(at, count):
            edges[k, 0], edges[k, 1] = edges[k + 1, 0], edges[k + 1, 1]
        if inside[near]:
            continue
        inside[near] = True
        x, y, to_x, to_y = cell % HALF, cell // HALF, near % HALF, near // HALF
        n[WALLS + (y + to_y) * MAP + x + to_x] = 0
        n[WALLS + 2 * to_y * MAP + 2 * to_x] = 0
        count = _add_edges(edges, count, to_x, to_y)
    _note_covers(w, covers)
    put(w, KINDS, 0, HOME, 0.0, 0.0)
    put(w, KINDS, 1, HOME, float(MAP - 1), float(MAP - 1))
    see(w, KINDS)


@called
def _add_edges(edges: Any, count: int, x: int, y: int) -> int:
    """Add the edges of a cell of the half grid, and return the number of all edges."""
    for way in range(4):
        a, b = x + WAYS[way, 0], y + WAYS[way, 1]
        if 0 <= a < HALF and 0 <= b < HALF:
            edges[count, 0], edges[count, 1] = y * HALF + x, b * HALF + a
            count += 1
    return count


@with_arrays
def _note_covers(w: Any, covers: Any) -> None:
    """Write the number of cells of the attackers' way that a tower on each cell reaches."""
    came, queue = np.full(CELLS, -1, np.int32), np.zeros(CELLS, np.int32)
    came[0], count, at = 0, 1, 0
    cell = -1
    while at < count:
        here = queue[at]
        at += 1
        if cell < 0 and here % MAP >= OPEN and here // MAP >= OPEN:
            cell = here
        for way in range(4):
            x, y = here % MAP + WAYS[way, 0], here // MAP + WAYS[way, 1]
            if is_ground(w, float(x), float(y)) and came[y * MAP + x] < 0:
                came[y * MAP + x], queue[count] = here, y * MAP + x
                count += 1
    covers[:] = 0
    while cell > 0:
        for other in range(CELLS):
            dx, dy = cell % MAP - other % MAP, cell // MAP - other // MAP
            if dx * dx + dy * dy <= KINDS[TOWER, REACH] ** 2:
                covers[other] += 1
        cell = came[cell]


@called
def can_build(w: Any, is_free: Any) -> bool:
    """Return True if a tower could be built anywhere; ``is_free`` (400,) says on which cells."""
    n, u, p = w.numbers, w.units, w.places
    can = n[MONEY] >= KINDS[TOWER, COST] and count_of(w, 0, -1) < MOST and not n[OVER]
    for cell in range(CELLS):
        is_free[cell] = can and n[WALLS + cell] != 0
    for player in range(2):
        for i in slots_of(w, player):
            if u[i, ALIVE]:
                is_free[cell_of(w, p[i, X], p[i, Y])] = False
    return can


@called
def build_tower(w: Any, cell: int) -> None:
    """Build a tower on a cell that ``can_build`` allows."""
    w.numbers[MONEY] -= int(KINDS[TOWER, COST])
    put(w, KINDS, 0, TOWER, float(cell % MAP), float(cell // MAP))


@called
def _base_hp(w: Any) -> float:
    base = first_of(w, 0, HOME)
    return w.units[base, HP] / BASE_HP if base >= 0 else 0.0


@called
def _note_view(w: Any, shown: Any, counts: Any, is_cell: Any, is_free: Any) -> None:
    n, u, p = w.numbers, w.units, w.places
    note_units(w, KINDS, LISTS, shown, counts, 0, False)
    for cell in range(CELLS):
        is_cell[cell] = 1 if n[WALLS + cell] else 0
    for i in slots_of(w, 0):
        if u[i, ALIVE]:
            cell = cell_of(w, p[i, X], p[i, Y])
            is_cell[cell] = 2 if is_cell[cell] else 0
    can_build(w, is_free)


def _reset(g: Any, game: int) -> None:
    w = world_of(g, game)
    setup(w, g.covers[game], g.random, game, g.max_tick)
    g.win[game], g.base_hp[game] = 0, 1
    _note_view(w, g.shown[game], g.counts[game], g.is_cell[game], g.is_free[game])


def _step(g: Any, game: int, chosen: Any) -> tuple[float, bool]:
    w = world_of(g, game)
    before = _base_hp(w)
    aim(w)
    if chosen[0] > 0:  # entity 0 is the defender: it waits
        build_tower(w, chosen[0] - 1)
    while True:
        play_tick(w)
        if w.numbers[OVER] or w.numbers[TICK] % g.frame_skip == 0:
            break
    _note_view(w, g.shown[game], g.counts[game], g.is_cell[game], g.is_free[game])
    over, winner = w.numbers[OVER] == 1, w.numbers[WINNER]
    g.win[game], g.base_hp[game] = over and winner == 0, _base_hp(w)
    reward = _base_hp(w) - before
    if over:
        reward += 1.0 if winner == 0 else -1.0 if winner == 1 else 0.0
    return reward, over


def _cell(g: Any, game: int, i: int, out: Any) -> None:
    out[0], out[1], out[2], out[3] = i % MAP, i // MAP, g.is_cell[game, i], g.covers[game, i]


def _attacker(g: Any, game: int, i: int, out: Any) -> None:
    slot = g.shown[game, 0, i]
    out[0], out[1] = g.places[game, slot, X], g.places[game, slot, Y]
    out[2] = g.units[game, slot, HP] / KINDS[ATTACKER, MAX_HP]


def _tower(g: Any, game: int, i: int, out: Any) -> None:
    slot = g.shown[game, 1, i]
    out[0], out[1] = g.places[game, slot, X], g.places[game, slot, Y]
    out[2] = min(1.0, (g.numbers[game, TICK] - g.units[game, slot, ATTACKED]) / RELOAD)


def _defender(g: Any, game: int, i: int, out: Any) -> None:
    pass


def _attackers(g: Any, game: int) -> int:
    return g.counts[game, 0]


def _towers(g: Any, game: int) -> int:
    return g.counts[game, 1]


def _may_build(g: Any, game: int, i: int, out: Any) -> None:
    fill(out, g.is_free[game], 1)


def _globals(g: Any, game: int, out: Any) -> None:
    out[0], out[1] = g.numbers[game, MONEY], g.numbers[game, TICK]
    out[2] = g.base_hp[game]


class TowerDefenceRows(WorldRows):
    """R rows of ``TowerDefence``, compiled.

    Args:
        num_envs: The number of rows R; None: one.
        seed: Seed of all rows.
        frame_skip: See ``TowerDefence``.
        max_tick: See ``TowerDefence``.
        threads: Number of threads that share the rows.
    """

    rules = TOWER_DEFENCE

    def __init__(
        self,
        num_envs: int | None,
        seed: int = 0,
        frame_skip: int = 50,
        max_tick: int = TOWER_DEFENCE.max_tick,
        *,
        threads: int = 1,
    ) -> None:
        max_tick = check_whole("max_tick", max_tick, 1, 4000)
        frame_skip = check_whole("frame_skip", frame_skip, 1, max_tick)
        game = CompiledGame(
            problems=world_problems,
            obs_space=OBS_SPACE,
            action_space=ACTION_SPACE,
            state=world_fields(TOWER_DEFENCE)
            | {
                "covers": Field((CELLS,), "int32", 0, CELLS),
                "is_cell": Field((CELLS,), "int32", 0, 2),
                "is_free": Field((CELLS,), "bool"),
                "shown": Field((2, MOST), "int32", 0, 2 * MOST + 31),
                "counts": Field((2,), "int32", 0, MOST),
                "win": Field((), "float64"),
                "base_hp": Field((), "float64"),
            },
            settings={"frame_skip": frame_skip, "max_tick": max_tick},
            reset=_reset,
            step=_step,
            entities={
                "Defender": Entities(_defender, 1, 1),
                "Cell": Entities(_cell, CELLS, CELLS),
                "Attacker": Entities(_attacker, _attackers, MOST),
                "Tower": Entities(_tower, _towers, MOST),
            },
            actions={"Build": Actors(of="Defender", mask=_may_build, targets=("Defender", "Cell"))},
            global_features=_globals,
            metrics={"win": "win", "base_hp": "base_hp"},
        )
        super().__init__(game, num_envs, seed, threads=threads)


class TowerDefence(StrategyEnvironment):
    """Tower Defence: build towers on walls, so that the base stands when time is up.

    Entities:
        ``Defender`` acts. ``Cell`` [x, y, is, covers]: all 400, row by row. ``Attacker`` [x, y, hp]
        and ``Tower`` [x, y, ready]; ``hp`` is a share, ``ready`` the share of the time to reload
        that has passed. Global: money, tick and the share of the base's hit points.
    Actions:
        ``Build``: the defender selects a cell where a tower is built, or itself: it waits.
    Reward:
        -0.1 for each attacker who reaches the base; 1 for a win, -1 for a defeat, at the end.
    End:
        The base is gone, or ``max_tick``: the defender has won.
    Randomness:
        The maze.
    Source:
        Tian et al. 2017, "ELF: An Extensive, Lightweight and Flexible Research Platform for
        Real-time Strategy Games".

    Args:
        frame_skip: Number of ticks between two actions of the defender.
        max_tick: Time at which the defender has won.

    Raises:
        SettingError: A setting is unknown.
    """

    rows = TowerDefenceRows


TowerDefenceRows.environment = TowerDefence
