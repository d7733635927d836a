"""Mini-RTS as an environment; Capture the Flag and Tower Defence by hand-computed numbers."""

from __future__ import annotations

import numpy as np
import pytest
from rts_support import flag_table, plain, table_of, towers_table

from envs.rts import arrays as at
from envs.rts import tower_defence
from envs.rts.capture_the_flag import BACK_AFTER, FALLEN
from envs.rts.minirts_rows import MiniRts
from envs.rts.rules import ATTACK


def test_fog_hides_what_no_unit_sees():
    env = MiniRts(opponent="random")
    env.seed(3)
    shown, table = env.reset(), table_of(env)
    hidden = [
        [unit.x, unit.y]
        for unit in table.units(1, "Worker", "Melee", "Range", "Barracks")
        if not table.sees(0, unit.x, unit.y)
    ]
    base = table.first(1, "Base")
    seen = [list(row[1:3]) for row in shown.features.get("Enemy", [])]
    assert hidden
    assert not any(place in seen for place in hidden)
    assert not table.sees(0, base.x, base.y)
    assert [list(row[1:3]) for row in shown.features["Remembered"]] == [[base.x, base.y]]


def test_an_athlete_brings_the_flag_home():
    table = flag_table()
    runner, *others = table.units(0, "Athlete")
    table.remove(*others, *table.units(1, "Athlete"))
    flag = table.first(0, "Flag")
    runner.move(flag.x - 1, flag.y)
    table.act(0, 1, table.random, 0)
    # d^2 < 0.5 at 0.7 cells: after 3 steps of 0.1, in the fourth tick the flag is taken.
    table.play(4)
    assert runner.carries
    assert table.first(0, "Flag") is None
    taken = runner.x
    table.act(0, 1, table.random, 0)
    table.play(3)
    assert runner.x == pytest.approx(taken - 0.1, abs=1e-5)  # a third of its speed
    # From x = 8.8 to within 0.707 of the base at 1: 7.1 cells at a thirtieth of a cell per tick are
    # 213 ticks; the middle of the base's cell, which the way leads to, is half a cell aside.
    table.play(210)
    assert table.score == [0, 0]
    table.play(10)
    assert table.score == [1, 0]
    assert not runner.carries


def test_a_dead_carrier_drops_the_flag_and_comes_back():
    table = flag_table()
    runner, fighter = table.units(0, "Athlete")[0], table.units(1, "Athlete")[0]
    table.remove(table.first(0, "Flag"))
    runner.carries, runner.hp = 1, 5
    runner.move(8, 5)
    fighter.move(9, 5)
    table.send(1, fighter, ATTACK, target=runner)
    table.w.numbers[at.TICK] = 100  # the first hit is ready at 15
    table.play(2)
    assert not runner.alive
    flag = table.first(0, "Flag")
    assert (flag.x, flag.y) == (8, 5)
    assert table.w.numbers[FALLEN] == 1
    assert len(table.units(0, "Athlete")) == 4
    table.play(BACK_AFTER)
    assert len(table.units(0, "Athlete")) == 5


def test_all_corridors_of_the_maze_lead_to_the_base():
    for seed in range(5):
        n = towers_table(seed).w.numbers
        walls = n[at.WALLS : at.WALLS + 400].reshape(20, 20)
        reached, border = {(19, 19)}, [(19, 19)]
        while border:
            x, y = border.pop()
            for near in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                inside = 0 <= near[0] < 20 and 0 <= near[1] < 20
                if inside and near not in reached and not walls[near[1], near[0]]:
                    reached.add(near)
                    border.append(near)
        assert (0, 0) in reached
        assert len(reached) == (walls == 0).sum()


def test_covers_counts_the_cells_of_the_way_that_a_tower_reaches():
    table, covers = towers_table(), np.zeros(400, np.int32)
    walls = table.w.numbers[at.WALLS : at.WALLS + 400].reshape(20, 20)
    walls[:14], walls[:, :14] = 1, 1
    walls[0, :15], walls[:14, 14] = 0, 0  # along the top, then down to the open block
    plain(tower_defence._note_covers)(table.w, covers)
    cells = covers.reshape(20, 20)
    # A tower reaches what is at most 3 away: of the top row one cell from a distance of 3,
    # 2 * 2 + 1 from one of 2 (4 + 4 <= 9), nothing from one of 4. The base's cell does not count.
    assert cells[:5, 6].tolist() == [7, 5, 5, 1, 0]
    assert cells[3, 0] == 0
    assert cells[0, 1] == 4  # 1 to 4
    assert cells[17, 14] == 1  # the way ends where the block begins, at row 14


def free_cells(table):
    free = np.zeros(400, bool)
    table.can_build(free)
    return free


def test_a_tower_costs_fifty_and_stands_on_a_wall():
    table = towers_table()
    free = free_cells(table)
    walls = table.w.numbers[at.WALLS : at.WALLS + 400] > 0
    assert not free[19 * 20 + 15]  # no wall there
    assert (free <= walls).all()
    cell = int(free.argmax())
    table.build_tower(cell)
    assert table.money[0] == 50
    assert not free_cells(table)[cell]
    table.build_tower(int(free_cells(table).argmax()))
    assert not free_cells(table).any()  # nothing is left to pay for a third one


def test_a_tower_kills_in_one_shot_and_earns_ten():
    table = towers_table()
    tower, attacker = table.put(0, "Tower", 13, 15), table.create(1, "Attacker", 15, 15)
    table.now = 15
    table.aim()  # it is 2 cells away, and 4 is more than 3
    assert table.w.numbers[at.SENT] == 0
    attacker.move(14.7, 15)  # 1.7^2 < 3
    table.aim()
    table.play(20)
    # 50 damage to 50 hit points; the bullet takes some ten ticks for two cells.
    assert not attacker.alive
    assert table.money[0] == 110
    assert tower.hp == 100


def test_a_tower_aims_again_at_the_nearest_and_drops_what_is_out_of_reach():
    table = towers_table()
    tower = table.put(0, "Tower", 13, 15)
    far, near = table.put(1, "Attacker", 14.7, 15), table.put(1, "Attacker", 18.0, 15)
    table.aim()
    table.play()
    assert tower.target == far.slot
    near.move(14.0, 15)
    table.play()
    assert tower.target == far.slot  # towers aim when the defender acts, not by themselves
    table.aim()
    table.play()
    assert tower.target == near.slot
    near.move(18.0, 15)
    table.play()
    assert tower.command == 0
    assert table.w.numbers[at.FAILED_SUM] == 0  # a tower does not try to walk


def test_a_leak_costs_ten_and_the_attacker_its_life():
    table = towers_table()
    table.now = 101
    base = table.first(0, "TowerBase")
    table.w.numbers[at.WALLS + 1] = 0
    attacker = table.create(1, "Attacker", 1, 0)
    assert table.send(1, attacker, ATTACK, target=base)
    table.play(3)
    assert base.hp == 90
    assert not attacker.alive
    assert table.money[0] == 100
