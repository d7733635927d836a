"""The engine of real-time strategy games in Python, against numbers computed by hand."""

from __future__ import annotations

import math

import pytest

from entity_env.errors import StateError
from envs.errors import EnvConfigError
from envs.rts.minirts import (
    ATTACK_BASE,
    BUILD_BARRACKS,
    BUILD_MELEE,
    BUILD_WORKER,
    HIT_AND_RUN,
    MINI_RTS,
    MiniRts,
    hit_n_run,
    order,
    possible,
    simple,
)
from envs.rts.minirts_env import MiniRtsEnv
from envs.rts.planner import Planner
from envs.rts.rules import ATTACK, BUILD, GATHER, MOVE, Rules, UnitKind
from envs.rts.world import Command, World

KIND = MINI_RTS.number


class Empty(MiniRts):
    """Mini-RTS without units at first; nobody wins."""

    def setup(self, world):
        pass

    def winner(self, world):
        return None


def world():
    return World(Empty())


def play(own, ticks):
    for _ in range(ticks):
        own.play_tick()


def test_a_worker_moves_a_tenth_of_a_cell_in_a_tick():
    own = world()
    worker = own.create(0, "Worker", 5, 5)
    assert own.send(0, worker.uid, Command(MOVE, 5.0, 5.5))
    play(own, 3)
    assert (worker.x, worker.y) == (5.0, pytest.approx(5.3))
    # 0.5 cells take 5 ticks; a sixth notices that the squared distance is below 0.001.
    play(own, 2)
    assert worker.command is not None
    play(own, 1)
    assert worker.command is None
    assert worker.y == pytest.approx(5.5)


def test_two_bodies_are_never_nearer_than_half_a_cell():
    own = world()
    worker, other = own.create(0, "Worker", 5, 5), own.create(0, "Worker", 5.6, 5)
    assert own.create(0, "Worker", 5.3, 5) is None
    own.send(0, worker.uid, Command(MOVE, 5.6, 5.0))
    # 0.6 - 0.1 = 0.5 is as near as it may be, the next step would be 0.4: it goes (-dy, dx) = down.
    play(own, 2)
    assert worker.x == pytest.approx(5.1)
    assert worker.y == pytest.approx(5.1)
    assert math.hypot(worker.x - other.x, worker.y - other.y) >= 0.5


def test_a_way_around_a_body_is_found():
    own = world()
    own.create(0, "Base", 7, 5)
    worker = own.create(0, "Worker", 5, 5)
    own.send(0, worker.uid, Command(MOVE, 10.0, 5.0))
    play(own, 90)
    assert (worker.x, worker.y) == (pytest.approx(10, abs=0.04), pytest.approx(5, abs=0.04))


@pytest.mark.parametrize(("goal", "body"), [(14, 10), (8, 6.6)])
def test_a_plan_leads_to_a_base_around_bodies_at_any_distance(goal, body):
    own = world()
    worker, base = own.create(0, "Worker", 5, 5), own.create(0, "Base", goal, 5)
    assert Planner().waypoint(own, worker, (base.x, base.y)) == -1  # its own body is not in the way
    own.create(1, "Worker", body, 5)
    cell = Planner().waypoint(own, worker, (base.x, base.y))
    assert cell // own.rules.size != 5  # around the body, not straight into it


def test_units_exist_from_tick_1_and_the_first_orders_come_at_a_multiple_of_the_skip():
    assert World(MiniRts()).tick == 1
    env = MiniRtsEnv(frame_skip=20)
    assert env.reset().global_features[1] == 20
    with pytest.raises(EnvConfigError, match="frame_skip"):
        MiniRtsEnv(frame_skip=20, max_tick=20)  # nobody would ever act


def test_melee_damage_is_attack_less_defence_every_15_ticks():
    own = world()
    own.tick = 15  # clocks start at 0: the first shot is ready at tick 15
    one, two = own.create(0, "Melee", 5, 5), own.create(1, "Base", 6, 5)
    own.send(0, one.uid, Command(ATTACK, target=two.uid))
    play(own, 1)
    assert two.hp == 500 - (15 - 2)
    play(own, 14)
    assert two.hp == 487
    play(own, 1)
    assert two.hp == 474


def test_a_melee_unit_reaches_what_is_less_than_the_root_of_two_away():
    own = world()
    own.tick = 15
    one, two = own.create(0, "Melee", 5, 5), own.create(1, "Base", 6.41, 5)
    own.send(0, one.uid, Command(ATTACK, target=two.uid))
    play(own, 1)
    assert two.hp == 487  # 1.41^2 = 1.9881, whose floor is 1
    assert one.x == 5
    far = own.create(1, "Base", 5, 6.42)  # 1.42^2 = 2.0164
    own.send(0, one.uid, Command(ATTACK, target=far.uid))
    play(own, 1)
    assert one.y == pytest.approx(5.1)


def test_a_bullet_flies_two_tenths_a_tick_and_hits_within_three_tenths():
    own = world()
    own.tick = 10
    shooter, base = own.create(0, "Range", 5, 5), own.create(1, "Base", 9, 5)
    own.send(0, shooter.uid, Command(ATTACK, target=base.uid))
    play(own, 1)
    assert [(b.x, b.y) for b in own.bullets] == [(5, 5)]
    # 19 steps lead to 8.8, which is 0.2 away; in the 20th tick of its flight it hits.
    play(own, 19)
    assert base.hp == 500
    play(own, 1)
    assert base.hp == 500 - (10 - 2)


def test_who_is_idle_attacks_back_and_who_gathers_does_not():
    own = world()
    own.tick = 15
    one, two = own.create(0, "Melee", 5, 5), own.create(1, "Melee", 6, 5)
    own.send(0, one.uid, Command(ATTACK, target=two.uid))
    play(own, 2)
    assert two.hp == 100 - 14
    assert two.damaged_by == one.uid
    assert one.hp == 100 - 14
    base, source = own.create(1, "Base", 10, 10), own.create(1, "Resource", 10, 12)
    worker = own.create(1, "Worker", 5, 6)
    own.send(1, worker.uid, Command(GATHER, target=source.uid, base=base.uid))
    own.send(0, one.uid, Command(ATTACK, target=worker.uid))
    play(own, 16)
    assert worker.command.kind == GATHER


def test_a_worker_gathers_five():
    own = world()
    base, source = own.create(0, "Base", 5, 5), own.create(0, "Resource", 5, 6.5)
    worker = own.create(0, "Worker", 5.9, 6.0)
    own.send(0, worker.uid, Command(GATHER, target=source.uid, base=base.uid))
    # Tick 0: 0.81 + 0.25 > 1, a step. Tick 1: near enough, the clock starts. Tick 41: a load.
    play(own, 41)
    assert source.hp == 1000
    play(own, 1)
    assert source.hp == 995
    play(own, 10)
    assert own.resource[0] == 200 + 5


def test_a_base_builds_a_worker_in_fifty_ticks_and_pays_at_once():
    own = world()
    base = own.create(0, "Base", 5, 5)
    own.send(0, base.uid, Command(BUILD, builds=KIND["Worker"]))
    play(own, 1)
    assert own.resource[0] == 150
    assert not own.send(0, base.uid, Command(BUILD, builds=KIND["Worker"]))
    play(own, 49)
    assert not own.of(0, "Worker")
    play(own, 1)
    (worker,) = own.of(0, "Worker")
    assert (worker.x, worker.y) == (4, 5)  # left is the first spot
    assert base.command is None


def test_what_cannot_be_paid_is_not_built():
    own = world()
    base = own.create(0, "Base", 5, 5)
    own.resource[0] = 49
    own.send(0, base.uid, Command(BUILD, builds=KIND["Worker"]))
    play(own, 1)
    assert own.resource[0] == 49
    assert base.command is None


def test_a_failed_creation_is_refunded():
    own = world()
    worker = own.create(0, "Worker", 5, 5.9)
    own.tick = 100
    own.send(0, worker.uid, Command(BUILD, 5.0, 5.0, builds=KIND["Barracks"]))
    play(own, 1)
    assert own.resource[0] == 0
    own.create(1, "Worker", 5, 5)
    play(own, 40)
    assert own.resource[0] == 200
    assert not own.of(0, "Barracks")


def test_sight_is_counted_along_the_axes():
    own = world()
    own.create(0, "Worker", 5, 5)  # sees three cells
    assert own.sees(0, 7, 6)
    assert not own.sees(0, 7, 7)
    assert not own.sees(1, 5, 5)


def test_commands_that_nobody_may_give_are_not_taken():
    own = world()
    mine, theirs = own.create(0, "Worker", 5, 5), own.create(1, "Melee", 8, 8)
    base = own.create(0, "Base", 12, 12)
    wrong = [
        (1, mine.uid, Command(MOVE, 1.0, 1.0)),
        (0, 77, Command(MOVE, 1.0, 1.0)),
        (0, mine.uid, Command(MOVE, 19.5, 1.0)),
        (0, mine.uid, Command(MOVE, -3.0, 1.0)),
        (0, mine.uid, Command(ATTACK, target=mine.uid)),
        (0, mine.uid, Command(ATTACK, target=99)),
        (0, mine.uid, Command(BUILD, 3.0, 3.0, builds=KIND["Melee"])),
        (0, mine.uid, Command(BUILD, 3.0, 3.0, builds=66)),
        (0, mine.uid, Command(99)),
        (0, base.uid, Command(MOVE, 3.0, 3.0)),
        (1, theirs.uid, Command(GATHER, target=base.uid, base=base.uid)),
    ]
    assert [own.send(*each) for each in wrong] == [False] * len(wrong)


def test_who_alone_has_a_base_wins_and_the_game_is_over():
    own = World(MiniRts(), seed=1)
    play(own, 1)
    own.remove(own.first(1, "Base"))
    play(own, 1)
    assert (own.is_over, own.winner) == (True, 0)
    with pytest.raises(StateError, match="over"):
        own.play_tick()


def test_a_crowd_ends_the_game_without_a_winner():
    own = world()
    play(own, 1)
    own.failed = [9] * 30  # with 250 - 9 * 29 < 0 the sum is enough
    own.failed[own.tick % 30] = 1
    play(own, 1)
    assert (own.is_over, own.winner) == (True, -1)


def test_simple_plays_by_its_rules():
    own = World(MiniRts(), seed=0)
    for unit in list(own.units.values()):
        if own.kind(unit).name not in ("Base", "Resource"):
            own.remove(unit)
    base = own.first(0, "Base")
    assert simple(own, 0) == {BUILD_WORKER}
    assert hit_n_run(own, 0) == {BUILD_WORKER}
    for i in range(3):
        own.put(0, KIND["Worker"], base.x, base.y + 0.6 * (i + 1))
    assert simple(own, 0) == {BUILD_BARRACKS}
    own.put(0, KIND["Barracks"], base.x, base.y)
    assert simple(own, 0) == {BUILD_MELEE}
    for i in range(5):
        own.put(0, KIND["Melee"], base.x + 0.6 * i, base.y)
    assert simple(own, 0) == {BUILD_MELEE, ATTACK_BASE}


def test_what_is_possible_tells_somebody_something():
    own = World(MiniRts(), seed=0)
    own.resource[0] = 0
    assert possible(own, 0)[:5] == [True, False, False, False, False]
    own.resource[0] = 50
    assert possible(own, 0)[BUILD_WORKER]
    order(own, 0, {BUILD_WORKER})
    own.play_tick()
    assert own.first(0, "Base").command.builds == KIND["Worker"]
    assert not possible(own, 0)[BUILD_WORKER]


def test_hit_and_run_finds_the_enemy_in_the_fog_but_the_mask_does_not_say_so():
    own = world()
    for player in range(2):
        for name, x in (("Base", 1), ("Resource", 3)):
            own.create(player, name, x + 14 * player, 1)
    shooter, melee = (own.create(0, name, x, 3) for name, x in (("Range", 1), ("Melee", 4)))
    play(own, 1)
    assert possible(own, 0)[HIT_AND_RUN]  # also where there is nobody to be hunted
    order(own, 0, {HIT_AND_RUN})
    play(own, 1)
    assert (shooter.command, melee.command) == (None, None)
    before = possible(own, 0)
    hidden = own.create(1, "Range", 18, 18)
    assert not own.sees(0, hidden.x, hidden.y)
    assert possible(own, 0) == before
    order(own, 0, {HIT_AND_RUN})
    play(own, 1)
    assert shooter.command.target == melee.command.target == hidden.uid
    own.remove(shooter)
    assert not possible(own, 0)[HIT_AND_RUN]  # the other one is at it


def test_random_commands_change_nothing_that_rules_do_not_allow():
    for seed in range(3):
        own = World(MiniRts(), seed)
        spent = 0
        for _ in range(400):
            for _ in range(3):
                player, uid = own.draw(0, 1), own.draw(-1, own.created)
                x, y = own.draw(-3, 23) * 1.0, own.draw(-3, 23) * 1.0
                target, base = own.draw(-1, own.created), own.draw(-1, own.created)
                builds = own.draw(-1, 6)
                own.send(player, uid, Command(own.draw(-1, 6), x, y, target, base, builds))
            own.play_tick()
            spent += 1
            units = list(own.units.values())
            for i, unit in enumerate(units):
                assert 0 < unit.hp <= own.kind(unit).hp
                assert own.is_ground(unit.x, unit.y)
                for other in units[:i]:
                    assert (unit.x - other.x) ** 2 + (unit.y - other.y) ** 2 >= 0.25
            assert min(own.resource) >= 0
            # All money there ever was: 400 at first and what resources have lost.
            left = sum(u.hp for u in units if own.kind(u).name == "Resource")
            assert sum(own.resource) <= 400 + 2000 - left
            if own.is_over:
                break
        assert spent > 50


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
    with pytest.raises(EnvConfigError):
        Rules(**settings)
