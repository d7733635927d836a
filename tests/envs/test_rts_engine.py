"""The engine of real-time strategy games, against numbers computed by hand."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest
from rts_support import Table, minirts_table, plain

from entity_env.errors import SettingError
from envs.rts import arrays as at
from envs.rts import minirts, space
from envs.rts.minirts import (
    ATTACK_BASE,
    BUILD_BARRACKS,
    BUILD_MELEE,
    BUILD_WORKER,
    HIT_AND_RUN,
    HIT_N_RUN,
    MINI_RTS,
    SIMPLE,
)
from envs.rts.minirts_rows import MiniRts
from envs.rts.rules import ATTACK, BUILD, CROWD_TICKS, GATHER, MOVE, PLAN_TICKS, Rules, UnitKind
from envs.rts.space import passes_straight, waypoint

IDLE = 0


def empty():
    """Mini-RTS without units and without orders, but those of the tests; nobody wins."""
    return Table()


def possible(own, player):
    return [order == IDLE or bool(own.is_possible(player, order)) for order in range(9)]


def orders(own, player, who):
    """The set of orders that a built-in player gives."""
    mask = own.scripted(player, who)
    return {order for order in range(9) if (mask >> order) & 1}


def test_a_worker_moves_a_tenth_of_a_cell_in_a_tick():
    own = empty()
    worker = own.create(0, "Worker", 5, 5)
    assert own.send(0, worker, MOVE, 5.0, 5.5)
    own.play(3)
    assert (worker.x, worker.y) == (5.0, pytest.approx(5.3))
    # 0.5 cells take 5 ticks; a sixth notices that the squared distance is below 0.001.
    own.play(2)
    assert worker.command
    own.play(1)
    assert worker.command == 0
    assert worker.y == pytest.approx(5.5)


def test_two_bodies_are_never_nearer_than_half_a_cell():
    own = empty()
    worker, other = own.create(0, "Worker", 5, 5), own.create(0, "Worker", 5.6, 5)
    assert own.create(0, "Worker", 5.3, 5) is None
    own.send(0, worker, MOVE, 5.6, 5.0)
    # 0.6 - 0.1 = 0.5 is as near as it may be, the next step would be 0.4: it goes (-dy, dx) = down.
    own.play(2)
    assert worker.x == pytest.approx(5.1)
    assert worker.y == pytest.approx(5.1)
    assert math.hypot(worker.x - other.x, worker.y - other.y) >= 0.5


def test_a_way_around_a_body_is_found():
    own = empty()
    own.create(0, "Base", 7, 5)
    worker = own.create(0, "Worker", 5, 5)
    own.send(0, worker, MOVE, 10.0, 5.0)
    own.play(90)
    assert (worker.x, worker.y) == (pytest.approx(10, abs=0.04), pytest.approx(5, abs=0.04))


def test_a_plan_leads_around_bodies_within_two_cells_of_the_mover():
    own = empty()
    worker, base = own.create(0, "Worker", 5, 5), own.create(0, "Base", 10, 5)
    own.now = 100
    # Of the line, points less than 2 cells away are looked at: none is less than 0.5 from 7.1.
    body = own.create(1, "Worker", 7.1, 5)
    assert plain(waypoint)(own.w, worker.slot, base.x, base.y) == -1  # nor does its own body block
    body.move(6.0, 5)
    assert plain(waypoint)(own.w, worker.slot, base.x, base.y) == -1  # the plan is kept
    own.now += PLAN_TICKS
    cell = plain(waypoint)(own.w, worker.slot, base.x, base.y)
    assert cell // own.rules.size != 5  # around the body, not straight into it


def test_a_straight_line_is_looked_at_once_in_each_cell():
    own = empty()
    worker, body = own.create(0, "Worker", 5, 5), own.create(1, "Worker", 6.06, 5.2)
    # Of 31 samples the first in cell 6 is at 5 + 6 * 3 / 31 = 5.58, that in cell 7 at 6.55: both
    # are farther than 0.5 from the body, which is 0.2 from the sample at 6.06.
    assert plain(passes_straight)(own.w, worker.slot, 8.0, 5.0)
    body.move(6.06, 5)  # 0.48 from the first
    assert not plain(passes_straight)(own.w, worker.slot, 8.0, 5.0)
    # The cells of the worker and of the point do not count.
    assert plain(passes_straight)(own.w, worker.slot, 6.0, 5.0)


def test_cells_are_expanded_by_estimate_cost_and_number_and_never_improved():
    draw, around = np.random.default_rng(1), plain(space._around)
    found = set()
    for _ in range(40):
        own = Table(replace(MINI_RTS, has_walls=True))
        size, cells = own.rules.size, own.rules.size**2
        own.w.numbers[at.WALLED] = 1
        walls = draw.random(cells) < 0.3
        start, goal = draw.choice(cells, 2, replace=False).tolist()
        walls[start] = False
        own.w.numbers[at.WALLS : at.WALLS + cells] = walls
        worker = own.put(0, "Worker", start % size, start // size)
        straight = plain(passes_straight)
        way = way_by_a_heap(walls, size, start, goal)
        seen = [cell for cell in way if straight(own.w, worker.slot, cell % size, cell // size)]
        found.add(around(own.w, worker.slot, start, goal))
        assert around(own.w, worker.slot, start, goal) == next(iter(seen), -1)
    assert len(found) > 20


def way_by_a_heap(walls, size, start, goal):
    """The cells of a way from the goal back to the start, by A*; without a way none."""
    came, waiting = {start: (-1, 0)}, [(0.0, 0, -start)]
    while waiting:
        _, cost, cell = heapq.heappop(waiting)
        if -cell == goal:
            way = [goal]
            while came[way[-1]][0] >= 0:
                way.append(came[way[-1]][0])
            return way[:-1]
        x, y = -cell % size, -cell // size
        for to_x, to_y in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            near = to_y * size + to_x
            inside = 0 <= to_x < size and 0 <= to_y < size
            if inside and near not in came and (near == goal or not walls[near]):
                came[near] = -cell, cost + 1
                left = math.hypot(to_x - goal % size, to_y - goal // size)
                heapq.heappush(waiting, (cost + 1 + left, cost + 1, -near))
    return []


def test_bases_stand_at_a_border_as_often_as_their_resources_leave():
    table, at_border = Table(module=minirts, seed=1), 0
    for _ in range(300):
        table.setup(table.random, 0, 30_000)
        for player in range(2):
            base = table.first(player, "Base")
            at_border += (base.x in (0, 19)) + (base.y in (0, 19))
    # Of 20 draws 3 are at the border, where 5 of 9 places of a resource are on the map, 6 of 9 one
    # cell further, ...: with an own cell that is not free (3 * 5 * 150 - 60) / (150 * 150 - 400)
    # = 9.9% of 1,200 bases' coordinates. Drawn once it would be 15%, 180 of them.
    assert 99 <= at_border <= 139


def test_units_exist_from_tick_1_and_the_first_orders_come_at_a_multiple_of_the_skip():
    assert minirts_table().now == 1
    env = MiniRts(frame_skip=20)
    assert env.reset().global_features[1] == 20
    with pytest.raises(SettingError, match="frame_skip"):
        MiniRts(frame_skip=20, max_tick=20)  # nobody would ever act


def test_melee_damage_is_attack_less_defence_every_15_ticks():
    own = empty()
    own.now = 15  # clocks start at 0: the first shot is ready at tick 15
    one, two = own.create(0, "Melee", 5, 5), own.create(1, "Base", 6, 5)
    own.send(0, one, ATTACK, target=two)
    own.play(1)
    assert two.hp == 500 - (15 - 2)
    own.play(14)
    assert two.hp == 487
    own.play(1)
    assert two.hp == 474


def test_a_melee_unit_reaches_what_is_less_than_the_root_of_two_away():
    own = empty()
    own.now = 15
    one, two = own.create(0, "Melee", 5, 5), own.create(1, "Base", 6.41, 5)
    own.send(0, one, ATTACK, target=two)
    own.play(1)
    assert two.hp == 487  # 1.41^2 = 1.9881, whose floor is 1
    assert one.x == 5
    far = own.create(1, "Base", 5, 6.42)  # 1.42^2 = 2.0164
    own.send(0, one, ATTACK, target=far)
    own.play(1)
    assert one.y == pytest.approx(5.1)


def test_a_bullet_flies_two_tenths_a_tick_and_hits_within_three_tenths():
    own = empty()
    own.now = 10
    shooter, base = own.create(0, "Range", 5, 5), own.create(1, "Base", 9, 5)
    own.send(0, shooter, ATTACK, target=base)
    own.play(1)
    assert own.bullets == [[5, 5]]
    # 19 steps lead to 8.8, which is 0.2 away; in the 20th tick of its flight it hits.
    own.play(19)
    assert base.hp == 500
    own.play(1)
    assert base.hp == 500 - (10 - 2)


def test_who_is_idle_attacks_back_and_who_gathers_does_not():
    own = empty()
    own.now = 15
    one, two = own.create(0, "Melee", 5, 5), own.create(1, "Melee", 6, 5)
    own.send(0, one, ATTACK, target=two)
    own.play(2)
    assert two.hp == 100 - 14
    assert two.damaged_by == one.slot
    assert one.hp == 100 - 14
    base, source = own.create(1, "Base", 10, 10), own.create(1, "Resource", 10, 12)
    worker = own.create(1, "Worker", 5, 6)
    own.send(1, worker, GATHER, target=source, base=base)
    own.send(0, one, ATTACK, target=worker)
    own.play(16)
    assert worker.command == GATHER


def test_a_worker_gathers_five():
    own = empty()
    base, source = own.create(0, "Base", 5, 5), own.create(0, "Resource", 5, 6.5)
    worker = own.create(0, "Worker", 5.9, 6.0)
    own.send(0, worker, GATHER, target=source, base=base)
    # Tick 0: 0.81 + 0.25 > 1, a step. Tick 1: near enough, a last step, and the clock starts. Tick
    # 41: a load.
    own.play(2)
    distance = math.sqrt(0.81 + 0.25) - 0.2
    assert math.hypot(worker.x - source.x, worker.y - source.y) == pytest.approx(distance)
    own.play(39)
    assert math.hypot(worker.x - source.x, worker.y - source.y) == pytest.approx(distance)
    assert source.hp == 1000
    own.play(1)
    assert source.hp == 995
    own.play(10)
    assert own.money[0] == 200 + 5


def test_a_base_builds_a_worker_in_fifty_ticks_and_pays_at_once():
    own = empty()
    base = own.create(0, "Base", 5, 5)
    own.send(0, base, BUILD, builds="Worker")
    own.play(1)
    assert own.money[0] == 150
    assert not own.send(0, base, BUILD, builds="Worker")
    own.play(49)
    assert not own.units(0, "Worker")
    own.play(1)
    (worker,) = own.units(0, "Worker")
    assert (worker.x, worker.y) == (4, 5)  # left is the first spot
    assert base.command == 0


def test_what_cannot_be_paid_is_not_built():
    own = empty()
    base = own.create(0, "Base", 5, 5)
    own.money[0] = 49
    own.send(0, base, BUILD, builds="Worker")
    own.play(1)
    assert own.money[0] == 49
    assert base.command == 0


def test_a_failed_creation_is_refunded():
    own = empty()
    worker = own.create(0, "Worker", 5, 5.9)
    own.now = 100
    own.send(0, worker, BUILD, 5.0, 5.0, builds="Barracks")
    own.play(1)
    assert own.money[0] == 0
    own.create(1, "Worker", 5, 5)
    own.play(40)
    assert own.money[0] == 200
    assert not own.units(0, "Barracks")


def test_sight_is_counted_along_the_axes():
    own = empty()
    own.create(0, "Worker", 5, 5)  # sees three cells
    assert own.sees(0, 7, 6)
    assert not own.sees(0, 7, 7)
    assert not own.sees(1, 5, 5)


def test_commands_that_nobody_may_give_are_not_taken():
    own = empty()
    mine, theirs = own.create(0, "Worker", 5, 5), own.create(1, "Melee", 8, 8)
    base = own.create(0, "Base", 12, 12)
    wrong = [
        ((1, mine, MOVE), {"x": 1, "y": 1}),
        ((0, 77, MOVE), {"x": 1, "y": 1}),
        ((0, mine, MOVE), {"x": 19.5, "y": 1}),
        ((0, mine, MOVE), {"x": -3, "y": 1}),
        ((0, mine, ATTACK), {"target": mine}),
        ((0, mine, ATTACK), {"target": 99}),
        ((0, mine, BUILD), {"x": 3, "y": 3, "builds": "Melee"}),
        ((0, mine, BUILD), {"x": 3, "y": 3, "builds": 66}),
        ((0, mine, 99), {}),
        ((0, base, MOVE), {"x": 3, "y": 3}),
        ((1, theirs, GATHER), {"target": base, "base": base}),
    ]
    assert [own.send(*each, **where) for each, where in wrong] == [False] * len(wrong)


def test_who_alone_has_a_base_wins_and_the_game_is_over():
    own = minirts_table(seed=1)
    own.play()
    own.remove(own.first(1, "Base"))
    own.play()
    assert own.over == (True, 0)


def test_a_crowd_ends_the_game_without_a_winner():
    own = empty()
    own.play()
    own.w.numbers[at.FAILED : at.FAILED + CROWD_TICKS] = 9  # 29 * 9 + 1 are more than 250
    own.w.numbers[at.FAILED + own.now % CROWD_TICKS] = 1
    own.w.numbers[at.FAILED_SUM] = 9 * (CROWD_TICKS - 1) + 1
    own.play()
    assert own.over == (True, -1)


def test_new_commands_come_first_and_those_of_this_tick_before_them():
    own = empty()
    own.now = 15
    one, two = own.create(0, "Melee", 5, 5), own.create(1, "Melee", 6, 5)
    workers = [own.create(0, "Worker", x, 15) for x in (2, 4, 6)]
    for worker in workers[:2]:
        own.send(0, worker, MOVE, worker.x, 2.0)
    own.send(0, one, ATTACK, target=two)
    own.play()  # at its end the one who was hit strikes back
    assert ordered(own) == [workers[0].slot, workers[1].slot, one.slot]
    own.send(0, workers[2], MOVE, 6.0, 2.0)
    own.play()
    assert ordered(own) == [workers[2].slot, two.slot, workers[0].slot, workers[1].slot, one.slot]


def ordered(own):
    """Return the slots of the units with commands, in the order in which they run."""
    return own.w.numbers[at.ORDER_LIST :][: own.w.numbers[at.ORDERED]].tolist()


def test_tidying_moves_units_over_the_dead_and_what_refers_to_them():
    own = empty()
    own.now = 15
    dead, base, source, worker, shooter, melee = (
        own.create(0, name, x, 5)
        for x, name in enumerate(("Worker", "Base", "Resource", "Worker", "Range", "Melee"), 3)
    )
    enemy = own.create(1, "Range", 12, 5)
    own.send(0, worker, GATHER, target=source, base=base)
    own.send(0, shooter, ATTACK, target=enemy)
    own.send(1, enemy, ATTACK, target=melee)
    own.play(12)  # two bullets fly
    melee.damaged_by = worker.slot
    own.send(0, melee, MOVE, 8.0, 9.0)
    shots = own.w.lists[at.QUEUE_ROOM : at.QUEUE_ROOM + 2, 1:3].tolist()
    before = ordered(own)
    assert sorted(shots) == [[shooter.slot, enemy.slot], [enemy.slot, melee.slot]]
    own.remove(dead)
    own.tidy(0)
    base, source, worker, shooter, melee = own.units(0)
    assert [base.slot, source.slot, worker.slot, shooter.slot, melee.slot] == [0, 1, 2, 3, 4]
    assert (worker.target, worker.base, shooter.target) == (1, 0, enemy.slot)
    assert (enemy.target, melee.damaged_by) == (4, 2)
    after = {old: old - (old < enemy.slot) for pair in shots for old in pair}
    assert own.w.lists[at.QUEUE_ROOM : at.QUEUE_ROOM + 2, 1:3].tolist() == [
        [after[by], after[target]] for by, target in shots
    ]
    assert ordered(own) == [slot - (slot < enemy.slot) for slot in before]
    assert own.w.numbers[at.SENT_LIST] == melee.slot


def check_invariants(own):
    """Raise unless a state can be: units live, on the map, in no wall, half a cell apart."""
    size, units = own.rules.size, own.units(0) + own.units(1)
    for i, unit in enumerate(units):
        assert 0 < unit.hp <= own.rules.kinds[unit.kind].hp
        assert min(unit.x, unit.y) > -0.5
        assert max(unit.x, unit.y) < size - 0.5
        assert not own.w.numbers[at.WALLS + int(unit.y + 0.5) * size + int(unit.x + 0.5)]
        for other in units[:i]:
            assert (other.x - unit.x) ** 2 + (other.y - unit.y) ** 2 >= 0.25
    assert min(own.money) >= 0


def test_random_commands_among_walls_break_no_rule():
    own, draw = Table(replace(MINI_RTS, has_walls=True)), np.random.default_rng(0)
    size = own.rules.size
    own.w.numbers[at.WALLED] = 1
    for x, y in draw.integers(2, size - 2, (50, 2)):
        own.w.numbers[at.WALLS + y * size + x] = 1
    for player in range(2):
        for name in ("Base", "Resource", *["Worker"] * 3, *["Melee"] * 3, "Range", "Barracks"):
            own.create(player, name, *(draw.integers(0, 13, 2) + 6 * player))
    created, taken = int(own.w.numbers[at.CREATED]), 0
    for tick in range(250):
        player = int(draw.integers(2))
        mine, theirs = own.units(player), own.units(1 - player)
        if mine and theirs:
            unit, target = mine[draw.integers(len(mine))], theirs[draw.integers(len(theirs))]
            base, source = own.first(player, "Base"), own.first(player, "Resource")
            command = int(draw.integers(MOVE, BUILD + 1))
            if command == GATHER and source:
                target = source
            place = draw.uniform(0, size - 1, 2)
            builds = int(draw.integers(len(own.rules.kinds)))
            taken += own.send(player, unit, command, *place, target, base or -1, builds)
        own.play()
        if tick % 6 == 0:
            check_invariants(own)
    assert taken > 50
    assert len(own.units(0) + own.units(1)) < created


def test_simple_plays_by_its_rules():
    own = minirts_table()
    own.remove(*own.units(0, "Worker", "Melee", "Range", "Barracks"))
    own.remove(*own.units(1, "Worker", "Melee", "Range", "Barracks"))
    base = own.first(0, "Base")
    assert orders(own, 0, SIMPLE) == {BUILD_WORKER}
    assert orders(own, 0, HIT_N_RUN) == {BUILD_WORKER}
    for i in range(3):
        own.put(0, "Worker", base.x, base.y + 0.6 * (i + 1))
    assert orders(own, 0, SIMPLE) == {BUILD_BARRACKS}
    own.put(0, "Barracks", base.x, base.y)
    assert orders(own, 0, SIMPLE) == {BUILD_MELEE}
    for i in range(5):
        own.put(0, "Melee", base.x + 0.6 * i, base.y)
    assert orders(own, 0, SIMPLE) == {BUILD_MELEE, ATTACK_BASE}


def test_what_is_possible_tells_somebody_something():
    own = minirts_table()
    own.money[0] = 0
    assert possible(own, 0)[:5] == [True, False, False, False, False]
    own.money[0] = 50
    assert possible(own, 0)[BUILD_WORKER]
    own.order(0, 1 << BUILD_WORKER)
    own.play()
    assert own.first(0, "Base").builds == MINI_RTS.number["Worker"]
    assert not possible(own, 0)[BUILD_WORKER]


def test_hit_and_run_finds_the_enemy_in_the_fog_but_the_mask_does_not_say_so():
    own = Table(module=minirts)
    own.begin(20, 32, 200, 30_000)
    for player in range(2):
        for name, x in (("Base", 1), ("Resource", 3)):
            own.create(player, name, x + 14 * player, 1)
    shooter, melee = (own.create(0, name, x, 3) for name, x in (("Range", 1), ("Melee", 4)))
    own.play()
    assert possible(own, 0)[HIT_AND_RUN]  # also where there is nobody to be hunted
    own.order(0, 1 << HIT_AND_RUN)
    own.play()
    assert (shooter.command, melee.command) == (0, 0)
    before = possible(own, 0)
    hidden = own.create(1, "Range", 18, 18)
    assert not own.sees(0, hidden.x, hidden.y)
    assert possible(own, 0) == before
    own.order(0, 1 << HIT_AND_RUN)
    own.play()
    assert shooter.target == melee.target == hidden.slot
    own.remove(shooter)
    assert not possible(own, 0)[HIT_AND_RUN]  # the other one is at it


@pytest.mark.parametrize(
    "settings",
    [
        {"kinds": ()},
        {"kinds": (UnitKind("A"), UnitKind("A"))},
        {"kinds": (UnitKind("A", cost=-1),)},
        {"kinds": (UnitKind("A", hp=0),)},
        {"kinds": (UnitKind("A", builds=("B",)),)},
        {"kinds": (UnitKind("A"),), "size": 2},
        {"kinds": (UnitKind("A"),), "max_tick": 0},
    ],
)
def test_rules_that_cannot_be_are_refused(settings):
    with pytest.raises(SettingError):
        Rules(**settings)
