"""Mini-RTS as an environment; Capture the Flag and Tower Defence by hand-computed numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from entity_env import check_env
from envs.errors import EnvConfigError
from envs.rts.capture_the_flag import CaptureTheFlag, built_in, order
from envs.rts.minirts_env import MiniRtsDuel, MiniRtsEnv
from envs.rts.rules import ATTACK
from envs.rts.tower_defence import TowerDefence, aim, build_tower, possible
from envs.rts.world import Command, World

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
from entity_env import GlobalCategoricalAction
from entity_env.rows.random_numbers import seeded_streams
from envs.rts.minirts_env import MiniRtsEnv
from envs.rts.minirts_rows import MiniRtsDuelRows, MiniRtsRows
from envs.rts.world import World
from entity_env.play import random_policy

settings = dict(opponent="mixed", curriculum=300, max_tick=2000, fog=%s)
rows, alone = MiniRtsRows(1, seed=5, **settings), MiniRtsEnv(**settings)
alone.seed(0)
alone.world = World(alone.game, 5, begun=False)
obs, own, policy, ends = rows.reset(), alone.reset(), random_policy(seed=1), 0
for step in range(70):
    for name, values in own.features.items():
        assert np.allclose(obs.features[name][0].as_array(), values, atol=1e-5), (step, name)
    for name in obs.features:
        assert obs.features[name][0].as_array().shape[0] == len(own.features.get(name, []))
    assert obs.global_features[0].tolist() == own.global_features
    mask = obs.action_masks["Order"].mask[0].as_array().ravel().tolist()
    assert mask == np.ravel(own.actions["Order"].mask).tolist(), step
    chosen = policy(obs)
    index = int(chosen["Order"].as_array()[0, 0])
    obs = rows.act(chosen)
    own = alone.act({"Order": GlobalCategoricalAction(index, "")})
    assert obs.reward[0] == own.reward and obs.done[0] == own.done
    if own.done:
        own, ends = alone.reset(), ends + 1
assert ends >= 1
duel = MiniRtsDuelRows(4, seed=1, max_tick=500)
obs = duel.reset()
for _ in range(12):
    obs = duel.act(policy(obs))
assert obs.rows.tolist() == [0, 1, 2, 3]
print("the same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("fog", [True, False])
def test_rows_play_what_the_environment_plays(fog):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % fog],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == "the same", done.stderr[-3000:]


def test_the_environment_is_one():
    check_env(MiniRtsEnv(opponent="simple", max_tick=400))
    assert MiniRtsDuel().seats() == [0, 1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"opponent": "simpel"}, "simple"),
        ({"frame_skip": 0}, "frame_skip"),
        ({"frame_skip": 50, "max_tick": 10}, "frame_skip"),
        ({"curriculum": -1}, "curriculum"),
        ({"fog": 2}, "fog"),
        ({"frameskip": 50}, "frame_skip"),
    ],
)
def test_settings_that_there_are_not_are_refused(settings, said):
    with pytest.raises(EnvConfigError, match=said):
        MiniRtsEnv(**settings)


def test_fog_hides_what_no_unit_sees():
    env = MiniRtsEnv(opponent="random")
    env.seed(3)
    shown = env.reset()
    world = env.world
    hidden = [
        [unit.x, unit.y]
        for unit in world.of(1)
        if not world.sees(0, unit.x, unit.y) and world.kind(unit).name not in ("Base", "Resource")
    ]
    base = world.first(1, "Base")
    seen = [row[1:3] for row in shown.features.get("Enemy", [])]
    assert not any(place in seen for place in hidden)
    assert not world.sees(0, base.x, base.y)
    assert [row[1:3] for row in shown.features["Remembered"]] == [[base.x, base.y]]


def test_an_athlete_brings_the_flag_home():
    world = World(CaptureTheFlag(), 0)
    for unit in world.of(1, "Athlete"):
        world.remove(unit)
    flag, runner = world.first(0, "Flag"), world.of(0, "Athlete")[0]
    for unit in world.of(0, "Athlete")[1:]:
        world.remove(unit)
    world.notes["back"] = []
    runner.x, runner.y = flag.x - 1, flag.y
    assert built_in(world, 0) == {1}
    order(world, 0, {1})
    # d^2 < 0.5 at 0.7 cells: after 3 steps of 0.1, in the fourth tick the flag is taken.
    for _ in range(4):
        world.play_tick()
    assert runner.carries
    assert world.first(0, "Flag") is None
    assert world.speed(runner) == pytest.approx(0.1 / 3)
    order(world, 0, built_in(world, 0))
    # From x = 8.8 to within 0.707 of the base at 1: 7.1 cells at a thirtieth of a cell per tick are
    # 213 ticks; the middle of the base's cell, which the way leads to, is half a cell aside.
    for _ in range(213):
        world.play_tick()
    assert world.score == [0, 0]
    for _ in range(10):
        world.play_tick()
    assert world.score == [1, 0]
    assert not runner.carries


def test_a_dead_carrier_drops_the_flag_and_comes_back():
    world = World(CaptureTheFlag(), 0)
    runner = world.of(0, "Athlete")[0]
    world.remove(world.first(0, "Flag"))
    runner.carries = True
    place = runner.x, runner.y
    count = len(world.of(0, "Athlete"))
    world.remove(runner)
    world.play_tick()
    flag = world.first(0, "Flag")
    assert (flag.x, flag.y) == place
    for _ in range(100):
        world.play_tick()
    assert len(world.of(0, "Athlete")) == count


def test_all_corridors_of_the_maze_lead_to_the_base():
    for seed in range(5):
        walls = World(TowerDefence(), seed).walls
        reached, border = {(19, 19)}, [(19, 19)]
        while border:
            x, y = border.pop()
            for near in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                inside = 0 <= near[0] < 20 and 0 <= near[1] < 20
                if inside and near not in reached and not walls[near[1]][near[0]]:
                    reached.add(near)
                    border.append(near)
        assert (0, 0) in reached
        assert len(reached) == sum(not wall for row in walls for wall in row)


def test_a_tower_costs_fifty_and_stands_on_a_wall():
    world = World(TowerDefence(), 0)
    wall = next(i for i, can in enumerate(possible(world)) if can)
    assert build_tower(world, wall)
    assert not build_tower(world, wall)
    assert not build_tower(world, 19 * 20 + 15)  # no wall there
    assert not build_tower(world, 400)
    assert world.resource[0] == 50


def test_a_tower_kills_in_one_shot_and_earns_ten():
    world = World(TowerDefence(), 0)
    tower = world.put(0, world.rules.number["Tower"], 13, 15)
    attacker = world.create(1, "Attacker", 15, 15)
    world.tick = 15
    aim(world)  # it is 2 cells away, and 4 is more than 3
    assert not world.sent
    attacker.x = 14.7  # 1.7^2 < 3
    aim(world)
    for _ in range(20):
        world.play_tick()
    # 50 damage to 50 hit points; the bullet takes some ten ticks for two cells.
    assert attacker.uid not in world.units
    assert world.resource[0] == 110
    assert tower.hp == 100


def test_a_tower_aims_again_at_the_nearest_and_drops_what_is_out_of_reach():
    world = World(TowerDefence(), 0)
    tower = world.put(0, world.rules.number["Tower"], 13, 15)
    far, near = (world.put(1, world.rules.number["Attacker"], x, 15) for x in (14.7, 14.0))
    near.x = 18.0
    aim(world)
    world.play_tick()
    assert tower.command.target == far.uid
    near.x = 14.0
    world.play_tick()
    assert tower.command.target == far.uid  # towers aim when the defender acts, not by themselves
    aim(world)
    world.play_tick()
    assert tower.command.target == near.uid
    near.x = 18.0
    world.play_tick()
    assert tower.command is None
    assert sum(world.failed) == 0  # a tower does not try to walk


def test_a_leak_costs_ten_and_the_attacker_its_life():
    world = World(TowerDefence(), 0)
    world.tick = 101
    base = world.first(0, "TowerBase")
    world.walls[0][1] = False
    attacker = world.create(1, "Attacker", 1, 0)
    assert world.send(1, attacker.uid, Command(ATTACK, target=base.uid))
    for _ in range(3):
        world.play_tick()
    assert base.hp == 90
    assert attacker.uid not in world.units
    assert world.resource[0] == 100
