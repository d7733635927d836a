"""The real-time strategy games as environments: their rules of observing and acting, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from rts_support import minirts_table, plain, table_of

from entity_env import GlobalCategoricalAction, SelectEntityAction
from entity_env.errors import SettingError
from envs.rts import arrays as at
from envs.rts.capture_the_flag import CaptureTheFlag, CaptureTheFlagDuel
from envs.rts.minirts import MINI_RTS, MOST_UNITS
from envs.rts.minirts_rows import MiniRts, MiniRtsDuel
from envs.rts.minirts_units import COMMANDS, TO_ATTACK, TO_BUILD, TO_MOVE, _note, _tell
from envs.rts.rules import GATHER
from envs.rts.tower_defence import TowerDefence


@pytest.mark.parametrize(
    ("create", "said"),
    [
        (lambda: CaptureTheFlag(opponent="builtin"), "built_in"),
        (lambda: CaptureTheFlag(frameskip=3), "frame_skip"),
        (lambda: CaptureTheFlag(fog=2), "fog"),
        (lambda: CaptureTheFlagDuel(max_tick=0), "max_tick"),
        (lambda: CaptureTheFlagDuel(opponent="random"), "opponent"),
        (lambda: MiniRtsDuel(shaping=1.0), "shaping"),
        (lambda: CaptureTheFlag(curriculum=-1), "curriculum"),
        (lambda: TowerDefence(max_tick=5000), "max_tick"),
        (lambda: TowerDefence(frame_skip=1201), "frame_skip"),
        (lambda: MiniRts(interface="unit"), "units"),
        (lambda: MiniRts(opponent="simpel"), "simple"),
        (lambda: MiniRts(frame_skip=50, max_tick=10), "frame_skip"),
        (lambda: MiniRts(draw="nothing"), "draw"),
        (lambda: MiniRts(shaping=float("inf")), "shaping"),
    ],
)
def test_settings_that_there_are_not_are_refused(create, said):
    with pytest.raises(SettingError, match=said):
        create()


def test_the_flag_being_nearer_is_worth_a_hundredth_for_each_cell():
    env = CaptureTheFlag(opponent="random", frame_skip=4)
    env.seed(0)
    env.reset()
    table = table_of(env)
    runner, *others = table.units(0, "Athlete")
    table.remove(*others, *table.units(1, "Athlete"))
    flag = table.first(0, "Flag")
    runner.move(flag.x - 1, flag.y)
    # After 3 steps of 0.1 the flag is taken at x = 8.8: 0.7 cells nearer to the base at x = 1.
    obs = env.act({"Order": GlobalCategoricalAction(1, "")})
    assert runner.carries
    assert obs.reward == pytest.approx(0.007, abs=1e-6)
    assert np.allclose(obs.features["Flag"], [[8.8, 9.5, 1]])
    runner.move(1.5, 9.5)  # 0.5^2 < 0.5: it scores
    obs = env.act({"Order": GlobalCategoricalAction(3, "")})
    assert obs.reward == pytest.approx(0.2)
    assert list(obs.global_features) == [1, 0, 12]


DEFENDER = ("Defender", 0)


def test_the_defender_selects_walls_it_can_pay_for():
    env = TowerDefence()
    env.seed(1)
    obs = env.reset()
    walls = np.array([row[2] == 1 for row in obs.features["Cell"]])
    can = [own for own in obs.actions["Build"].actee_ids if own != DEFENDER]
    assert DEFENDER in obs.actions["Build"].actee_ids
    assert can == [("Cell", cell) for cell in np.flatnonzero(walls)]
    cells = np.flatnonzero(walls)[:2].tolist()
    for cell in cells:
        obs = env.act({"Build": SelectEntityAction([DEFENDER], [("Cell", cell)])})
    assert [list(row[:2]) for row in obs.features["Tower"]] == [[c % 20, c // 20] for c in cells]
    assert [obs.features["Cell"][c][2] for c in cells] == [2, 2]
    # 100 paid for two towers; the first attacker comes at tick 200.
    assert list(obs.global_features) == [0, 100, 1]
    assert list(obs.actions["Build"].actee_ids) == [DEFENDER]


def test_each_leak_costs_a_tenth():
    env = TowerDefence()
    env.seed(1)
    env.reset()
    table = table_of(env)
    table.w.numbers[at.WALLS + 1] = 0
    table.create(1, "Attacker", 1, 0)
    table.now = 100  # its clock began at 0: the first hit is ready at 100
    obs = env.act({"Build": SelectEntityAction([DEFENDER], [DEFENDER])})
    assert obs.reward == pytest.approx(-0.1)


def units_table():
    """A game by commands to units: table, and what may be told to each unit of player 0 by slot."""
    env = MiniRts(interface="units", fog=True)
    env.seed(4)
    env.reset()
    table = table_of(env)

    def legal():
        plain(_note)(table.g, 0, table.w)
        slots = table.g.shown[0, 0, 0, : table.g.counts[0, 0, 0]].tolist()
        return dict(zip(slots, table.g.may[0, 0].tolist(), strict=False))

    return table, legal


def test_what_units_may_be_told_can_be_paid_together():
    table, legal = units_table()
    table.remove(*table.units(0, "Worker", "Barracks"))
    base = table.first(0, "Base")
    for x in (9, 10, 11):
        assert table.create(0, "Worker", x, 2 if base.y > 6 else 15) is not None
    table.money[0] = 450
    told, barracks, workers = legal(), TO_BUILD + 1, table.units(0, "Worker")
    # The base may build a worker for 50, then 400 are left: two barracks, and none for the third.
    assert told[base.slot][TO_BUILD]
    assert [told[unit.slot][barracks] for unit in workers] == [True, True, False]
    plain(_tell)(table.w, 0, base.slot, TO_BUILD, -1)
    for unit in workers[:2]:
        plain(_tell)(table.w, 0, unit.slot, barracks, -1)
    game = minirts_table()
    game.w = table.w
    game.play()
    assert table.money[0] == 0
    assert len(COMMANDS) == 15


def test_units_do_not_leave_the_map_and_attack_what_is_known():
    table, legal = units_table()
    worker = table.create(0, "Worker", 0, 9.5) or table.create(0, "Worker", 0, 8)
    own = legal()[worker.slot]
    names = {name for name, may in zip(COMMANDS, own, strict=True) if may}
    # Two cells to the left there is no map; the enemy's base is always known.
    assert not names & {"Left", "UpLeft", "DownLeft"}
    assert {"Right", "Up", "Down"} <= names
    assert own[TO_ATTACK]
    plain(_tell)(table.w, 0, worker.slot, TO_MOVE + 1, -1)
    game = minirts_table()
    game.w = table.w
    game.play()
    assert worker.x == pytest.approx(0.1)


def test_only_resources_are_gathered_from_and_only_for_the_own_base():
    table = minirts_table(3)
    base = table.first(0, "Base")
    worker = table.create(0, "Worker", base.x, base.y - 1 if base.y > 6 else base.y + 1)
    worker = worker or table.create(0, "Worker", 9.5, 9.5)
    own, enemy = table.first(0, "Resource"), table.first(1, "Base")
    for target, store in ((enemy, base), (own, enemy), (own, worker)):
        assert not table.send(0, worker, GATHER, target=target, base=store)
    assert table.send(0, worker, GATHER, target=own, base=base)
    assert MINI_RTS.most_units == MOST_UNITS
