"""Compiled real-time strategy plays what the readable environments play, state by state.

The compiled form runs as Python here, for compiling it takes longer than these games.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
from collections import namedtuple
from entity_env import CategoricalAction, GlobalCategoricalAction, SelectEntityAction
from entity_env.play import random_policy
from envs.rts.world import World
from rts_support import state_of_arrays, state_of_world


def actions_of(own, chosen, names, frame=0):
    "What a frame's row has chosen, for the readable environment."
    entities = [(name, i) for name in names for i in range(len(own.features.get(name, [])))]
    ids = own.ids or {}
    told = {}
    for name, mask in own.actions.items():
        values = chosen[name][frame].as_array().ravel().tolist()
        if name == "Order":
            told[name] = GlobalCategoricalAction(values[0], "")
        elif name == "Command":
            told[name] = CategoricalAction(list(mask.actor_ids), np.array(values), [])
        else:
            actees = [ids[entities[k][0]][entities[k][1]] for k in values]
            actors = ["defender"] if mask.actor_ids is None else list(mask.actor_ids)
            told[name] = SelectEntityAction(actors, actees)
    return told


def compare_states(world, rows, step):
    arrays = namedtuple("G", list(rows._fields))(**rows._fields)
    one, two = state_of_world(world), state_of_arrays(arrays, 0)
    assert one == two, (step, [(k, one[k], two[k]) for k in one if one[k] != two[k]])


def compare(own, obs, frame, step):
    "What is seen, and what is allowed."
    for name in obs.features:
        values = np.asarray(own.features.get(name, []), float)
        shown = obs.features[name][frame].as_array()
        assert len(shown) == len(values), (step, name)
        assert np.allclose(shown.ravel(), values.ravel(), atol=1e-5), (step, name)
    assert np.allclose(obs.global_features[frame].tolist(), own.global_features)
    for name, given in own.actions.items():
        if name != "Target":
            mask = obs.action_masks[name].mask[frame].as_array().astype(bool).ravel()
            assert mask.tolist() == np.ravel(given.mask).tolist(), (step, name)


def play_duel(kind, rows_kind, settings, seed, steps):
    rows, alone = rows_kind(2, seed=seed, **settings), kind(**settings)
    alone.seed(0)
    alone.world = World(alone.game, seed, begun=False)
    obs, seats, policy, ends = rows.reset(), alone.reset(), random_policy(seed=seed), 0
    names = list(alone.obs_space().entities)
    for step in range(steps):
        compare_states(alone.world, rows, step)
        asked = [seat for seat in (0, 1) if seats[seat].actions]
        assert obs.rows.tolist() == asked, step
        for frame, seat in enumerate(asked):
            compare(seats[seat], obs, frame, step)
        chosen = policy(obs)
        told = {seat: actions_of(seats[seat], chosen, names, k) for k, seat in enumerate(asked)}
        obs, seats = rows.act(chosen), alone.act(told)
        for seat in (0, 1):
            assert abs(obs.reward[seat] - seats[seat].reward) < 1e-5, step
            assert obs.done[seat] == seats[seat].done
        if seats[0].done:
            seats, ends = alone.reset(), ends + 1
    assert ends >= 1


def play(kind, rows_kind, settings, seed, steps):
    rows, alone = rows_kind(1, seed=seed, **settings), kind(**settings)
    alone.seed(0)
    alone.world = World(alone.game, seed, begun=False)
    obs, own, policy, ends = rows.reset(), alone.reset(), random_policy(seed=seed), 0
    sent, send = [], World.send
    alone.world.send = lambda player, uid, command: note(player, uid, command)

    def note(player, uid, command):
        taken = send(alone.world, player, uid, command)
        if player == 0:
            sent.append(taken)
        return taken

    names = list(alone.obs_space().entities)
    for step in range(steps):
        compare_states(alone.world, rows, step)
        compare(own, obs, 0, step)
        chosen = policy(obs)
        told = actions_of(own, chosen, names)
        obs, own = rows.act(chosen), alone.act(told)
        assert abs(obs.reward[0] - own.reward) < 1e-5, (step, obs.reward, own.reward)
        assert obs.done[0] == own.done
        if own.done:
            own, ends = alone.reset(), ends + 1
    assert ends >= 1
    if settings.get("interface") == "units":
        assert sent and all(sent)  # what the mask allows the engine takes
    return alone.world


%s
print("the same")
"""
UNITS = """
from envs.rts.minirts_env import MiniRtsEnv
from envs.rts.minirts_rows import MiniRtsRows

settings = dict(interface="units", max_tick=800, frame_skip=20, curriculum=400, fog=%s)
play(MiniRtsEnv, MiniRtsRows, settings, seed=5, steps=60)
"""
FLAG = """
from envs.rts.capture_the_flag import CaptureTheFlagEnv
from envs.rts.capture_the_flag_rows import CaptureTheFlagRows

settings = dict(opponent=%r, curriculum=300, max_tick=%d, fog=%s, frame_skip=%d)
world = play(CaptureTheFlagEnv, CaptureTheFlagRows, settings, seed=5, steps=%d)
"""
DUEL = """
from envs.rts.minirts_env import MiniRtsDuel
from envs.rts.minirts_rows import MiniRtsDuelRows

settings = dict(interface=%r, max_tick=800, frame_skip=20, opponent_skip=30, fog=%s)
play_duel(MiniRtsDuel, MiniRtsDuelRows, settings, seed=5, steps=90)
"""
FLAG_DUEL = """
from envs.rts.capture_the_flag import CaptureTheFlagDuel
from envs.rts.capture_the_flag_rows import CaptureTheFlagDuelRows

play_duel(CaptureTheFlagDuel, CaptureTheFlagDuelRows, dict(max_tick=700), seed=5, steps=20)
"""
TOWERS = """
from envs.rts.tower_defence_env import TowerDefenceEnv
from envs.rts.tower_defence_rows import TowerDefenceRows

play(TowerDefenceEnv, TowerDefenceRows, dict(max_tick=900), seed=5, steps=20)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "games",
    [
        UNITS % True,
        UNITS % False,
        FLAG % ("built_in", 700, True, 10, 90),
        FLAG % ("random", 700, False, 50, 20),
        FLAG_DUEL,
        DUEL % ("strategic", True),
        DUEL % ("units", True),
        DUEL % ("units", False),
        TOWERS,
    ],
)
def test_rows_play_what_the_environment_plays(games):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "envs")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % games],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == "the same", done.stderr[-3000:]
