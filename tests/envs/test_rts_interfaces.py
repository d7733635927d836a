"""The real-time strategy games as environments: their rules of observing and acting, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rts import fuzz
from entity_env import GlobalCategoricalAction, SelectEntityAction, check_env
from envs.errors import EnvConfigError
from envs.rts.capture_the_flag import CaptureTheFlagDuel, CaptureTheFlagEnv
from envs.rts.king_of_the_hill import KingOfTheHill, KingOfTheHillDuel, KingOfTheHillEnv
from envs.rts.minirts_env import MiniRtsEnv
from envs.rts.minirts_units import COMMANDS, TO_ATTACK, TO_BUILD, TO_MOVE, legal, tell_units
from envs.rts.rules import GATHER
from envs.rts.tower_defence_env import TowerDefenceEnv
from envs.rts.world import Command, World


@pytest.mark.parametrize(
    "create",
    [
        lambda: CaptureTheFlagEnv(max_tick=60, frame_skip=2),
        lambda: CaptureTheFlagDuel(max_tick=60, frame_skip=2),
        lambda: KingOfTheHillEnv(frame_skip=2, max_tick=60),
        lambda: KingOfTheHillDuel(max_tick=60, frame_skip=2),
        lambda: MiniRtsEnv(interface="units", max_tick=60, frame_skip=2),
        lambda: TowerDefenceEnv(max_tick=60, frame_skip=2),
    ],
)
def test_the_environments_are_ones(create):
    check_env(create())


@pytest.mark.parametrize(
    ("create", "said"),
    [
        (lambda: CaptureTheFlagEnv(opponent="builtin"), "built_in"),
        (lambda: CaptureTheFlagEnv(frameskip=3), "frame_skip"),
        (lambda: CaptureTheFlagEnv(frame_skip=0), "frame_skip"),
        (lambda: CaptureTheFlagEnv(fog=2), "fog"),
        (lambda: CaptureTheFlagDuel(max_tick=0), "max_tick"),
        (lambda: KingOfTheHillEnv(curriculum=-1), "curriculum"),
        (lambda: TowerDefenceEnv(max_tick=5000), "max_tick"),
        (lambda: TowerDefenceEnv(frame_skip=1201), "frame_skip"),
        (lambda: MiniRtsEnv(interface="unit"), "units"),
    ],
)
def test_settings_that_there_are_not_are_refused(create, said):
    with pytest.raises(EnvConfigError, match=said):
        create()


def test_the_flag_being_nearer_is_worth_a_hundredth_for_each_cell():
    env = CaptureTheFlagEnv(opponent="random", frame_skip=4)
    env.seed(0)
    env.reset()
    world = env.world
    for unit in world.of(1, "Athlete") + world.of(0, "Athlete")[1:]:
        world.remove(unit)
    world.notes["back"] = []
    runner, flag = world.of(0, "Athlete")[0], world.first(0, "Flag")
    runner.x, runner.y = flag.x - 1, flag.y
    # After 3 steps of 0.1 the flag is taken at x = 8.8: 0.7 cells nearer to the base at x = 1.
    obs = env.act({"Order": GlobalCategoricalAction(1, "")})
    assert runner.carries
    assert obs.reward == pytest.approx(0.007, abs=1e-6)
    assert obs.features["Flag"] == [[pytest.approx(8.8), 9.5, 1]]
    runner.x, runner.y = 1.5, 9.5  # 0.5^2 < 0.5: it scores
    obs = env.act({"Order": GlobalCategoricalAction(3, "")})
    assert obs.reward == pytest.approx(0.2)
    assert list(obs.global_features) == [1, 0, 12]


def test_the_defender_selects_walls_it_can_pay_for():
    env = TowerDefenceEnv()
    env.seed(1)
    obs = env.reset()
    (mask,) = np.asarray(obs.actions["Build"].mask)
    walls = np.array([row[2] == 1 for row in obs.features["Cell"]])
    assert mask[0]
    assert mask[1:].tolist() == walls.tolist()
    cells = np.flatnonzero(walls)[:2].tolist()
    for cell in cells:
        obs = env.act({"Build": SelectEntityAction(["defender"], [cell])})
    assert [row[:2] for row in obs.features["Tower"]] == [[c % 20, c // 20] for c in cells]
    assert [obs.features["Cell"][c][2] for c in cells] == [2, 2]
    # 100 paid for two towers; the first attacker comes at tick 200.
    assert list(obs.global_features) == [0, 100, 1]
    assert np.asarray(obs.actions["Build"].mask).sum() == 1


def test_each_leak_costs_a_tenth():
    env = TowerDefenceEnv()
    env.seed(1)
    env.reset()
    env.world.create(1, "Attacker", 1, 0)
    env.world.walls[0][1] = False
    env.world.create(1, "Attacker", 1, 0)
    env.world.tick = 100  # its clock began at 0: the first hit is ready at 100
    obs = env.act({"Build": SelectEntityAction(["defender"], ["defender"])})
    assert obs.reward == pytest.approx(-0.1)


def test_what_units_may_be_told_can_be_paid_together():
    env = MiniRtsEnv(interface="units")
    env.seed(4)
    env.reset()
    world = env.world
    for unit in world.of(0, "Worker", "Barracks"):
        world.remove(unit)
    base = world.first(0, "Base")
    for x in (9, 10, 11):
        assert world.create(0, "Worker", x, 2 if base.y > 6 else 15) is not None
    world.resource[0] = 450
    told = {own.unit.uid: own for own in legal(world, 0, True)}
    barracks = TO_BUILD + 1
    may = [told[u.uid].mask[barracks] for u in world.of(0, "Worker")]
    # The base may build a worker for 50, then 400 are left: two barracks, and none for the third.
    assert told[base.uid].mask[TO_BUILD]
    assert may == [True, True, False]
    orders = {u.uid: (barracks, -1) for u in world.of(0, "Worker")[:2]}
    tell_units(world, 0, {base.uid: (TO_BUILD, -1), **orders})
    world.play_tick()
    assert world.resource[0] == 0
    assert len(COMMANDS) == 15


def test_units_do_not_leave_the_map_and_attack_what_is_known():
    env = MiniRtsEnv(interface="units")
    env.seed(4)
    env.reset()
    world = env.world
    worker = world.create(0, "Worker", 0, 9.5) or world.create(0, "Worker", 0, 8)
    own = next(told for told in legal(world, 0, True) if told.unit is worker)
    names = {name for name, may in zip(COMMANDS, own.mask, strict=True) if may}
    # Two cells to the left there is no map; the enemy's base is always known.
    assert not names & {"Left", "UpLeft", "DownLeft"}
    assert {"Right", "Up", "Down"} <= names
    assert own.mask[TO_ATTACK]
    tell_units(world, 0, {worker.uid: (TO_MOVE + 1, -1)})
    world.play_tick()
    assert worker.x == pytest.approx(0.1)


def test_commands_to_strangers_and_the_dead_are_not_taken():
    world = World(MiniRtsEnv().game, 3)
    enemy, base = world.first(1, "Base"), world.first(0, "Base")
    before = str(world.units)
    tell_units(world, 0, {enemy.uid: (TO_BUILD, -1), 999: (TO_MOVE, -1)})
    tell_units(world, 0, {base.uid: (TO_ATTACK, enemy.uid)})
    assert str(world.units) == before
    assert not world.sent


def test_who_is_alone_on_the_hill_scores_and_wins():
    world = World(KingOfTheHill(), 0)
    guard = world.of(0)[0]
    guard.x, guard.y = 9.5, 9.5
    for _ in range(399):
        world.play_tick()
    assert world.score == [399, 0]
    assert not world.is_over
    world.play_tick()
    assert world.is_over
    assert world.winner == 0


def test_only_resources_are_gathered_from_and_only_for_the_own_base():
    world = World(MiniRtsEnv().game, 3)
    base = world.first(0, "Base")
    worker = world.create(0, "Worker", base.x, base.y - 1 if base.y > 6 else base.y + 1)
    worker = worker or world.create(0, "Worker", 9.5, 9.5)
    own, enemy = world.first(0, "Resource"), world.first(1, "Base")
    for target, store in ((enemy, base), (own, enemy), (own, worker)):
        told = Command(GATHER, target=target.uid, base=store.uid)
        assert not world.send(0, worker.uid, told)
    assert world.send(0, worker.uid, Command(GATHER, target=own.uid, base=base.uid))


def test_random_commands_leave_nothing_that_cannot_be():
    fuzz(1)
