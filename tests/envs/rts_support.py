"""A strategy game on a table: its arrays, played by Python, with a unit as an object."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from entity_env.rows.jit import interpreted, wrapping
from entity_env.rows.random_numbers import seeded_streams
from envs.rts import arrays as at
from envs.rts import capture_the_flag, engine, minirts, space, tower_defence

COLUMNS = {
    **{"uid": at.UID, "kind": at.KIND, "hp": at.HP, "carries": at.CARRIES, "command": at.COMMAND},
    **{"target": at.TARGET, "base": at.BASE, "builds": at.BUILDS, "damaged_by": at.DAMAGED_BY},
    **{"attacked": at.ATTACKED, "alive": at.ALIVE, "seen": at.SEEN},
}


def plain(function):
    """A function of a game as Python runs it."""
    return wrapping(interpreted(function))


@engine.called
def nobody_wins(w, kinds, what, i):
    return engine.GOES_ON


class Unit:
    """The unit in a slot, as long as slots are not tidied."""

    def __init__(self, table, slot):
        vars(self).update(table=table, slot=slot)

    def __getattr__(self, name):
        if name in COLUMNS:
            return int(self.table.w.units[self.slot, COLUMNS[name]])
        return float(self.table.w.places[self.slot, {"x": at.X, "y": at.Y}[name]])

    def __setattr__(self, name, value):
        self.table.w.units[self.slot, COLUMNS[name]] = value

    def move(self, x, y):
        plain(engine.move_to)(self.table.w, self.slot, x, y)


class Table:
    """One game: of a module that has ``setup``, or an empty map of these rules, where nobody wins.

    Functions of the module and of the engine are methods, without their first argument.
    """

    def __init__(self, rules=minirts.MINI_RTS, module=None, seed=0):
        self.rules, self.module, self.kinds = rules, module, rules.table()
        fields = {
            name: np.zeros(own.shape, own.dtype) for name, own in at.world_fields(rules).items()
        }
        self.w, self.random = at.World(**fields), seeded_streams(seed, 1)
        if module is None:
            self._tick = plain(engine.engine(nobody_wins, self.kinds))
            self.begin(rules.size, rules.most_units, rules.resource, rules.max_tick)
        else:
            self._tick = plain(module.play_tick)

    def __getattr__(self, name):
        """A function of the module, the engine or the map."""
        function = getattr(self.module, name, None) or getattr(engine, name, None)
        function = plain(function or getattr(space, name))
        return lambda *given: function(self.w, *given)

    def create(self, player, name, x, y):
        return self._unit(plain(engine.create), player, name, x, y)

    def put(self, player, name, x, y):
        return self._unit(plain(engine.put), player, name, x, y)

    def _unit(self, function, player, name, x, y):
        number = self.rules.number[name]
        slot = function(self.w, self.kinds, player, number, float(x), float(y))
        return Unit(self, slot) if slot >= 0 else None

    def send(self, player, unit, command, x=-1.0, y=-1.0, target=-1, base=-1, builds=-1):
        slots = [own.slot if isinstance(own, Unit) else own for own in (unit, target, base)]
        number = self.rules.number[builds] if isinstance(builds, str) else builds
        given = slots[0], command, float(x), float(y), *slots[1:], number
        return plain(engine.send)(self.w, self.kinds, player, *given)

    def remove(self, *units):
        for unit in units:
            plain(engine.remove)(self.w, unit.slot)

    def play(self, ticks=1):
        for _ in range(ticks):
            self._tick(self.w)

    def units(self, player, *names):
        half = int(self.w.numbers[at.SLOTS])
        slots = range(player * half, player * half + int(self.w.numbers[at.TAIL + player]))
        kinds = [self.rules.number[name] for name in names]
        units = [Unit(self, slot) for slot in slots]
        return [own for own in units if own.alive and (not names or own.kind in kinds)]

    def first(self, player, name):
        return next(iter(self.units(player, name)), None)

    def sees(self, player, x, y):
        return plain(space.sees)(self.w, self.kinds, player, float(x), float(y))

    @property
    def now(self):
        return int(self.w.numbers[at.TICK])

    @now.setter
    def now(self, tick):
        self.w.numbers[at.TICK] = tick

    @property
    def money(self):
        return self.w.numbers[at.MONEY : at.MONEY + 2]

    @property
    def score(self):
        return self.w.numbers[at.SCORE : at.SCORE + 2].tolist()

    @property
    def over(self):
        return bool(self.w.numbers[at.OVER]), int(self.w.numbers[at.WINNER])

    @property
    def bullets(self):
        count = self.w.numbers[at.BULLETS]
        return self.w.flights[at.QUEUE_ROOM : at.QUEUE_ROOM + count].tolist()


def minirts_table(seed=0):
    table = Table(minirts.MINI_RTS, minirts, seed)
    table.setup(table.random, 0, minirts.MINI_RTS.max_tick)
    return table


def flag_table(seed=0):
    table = Table(capture_the_flag.CAPTURE_THE_FLAG, capture_the_flag, seed)
    table.setup(table.random, 0, 30_000)
    table.play = lambda ticks=1: [table.tick(table.random, 0) for _ in range(ticks)]
    return table


def towers_table(seed=0):
    table = Table(tower_defence.TOWER_DEFENCE, tower_defence, seed)
    table.setup(np.zeros(400, np.int32), table.random, 0, 1200)
    return table


def table_of(game):
    """The table of a single game that runs."""
    rows = game._rows
    table = Table(rules=rows.rules)
    table.w = at.World(*(own[0] for own in rows.world_arrays()))
    table.g = SimpleNamespace(**rows._fields, **rows._game.settings)
    return table
