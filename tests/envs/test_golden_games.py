"""Compiled games, run by Python, play as they did when an independent implementation agreed.

``PYTHONPATH=.:tests:tests/envs python tests/envs/test_golden_games.py NAME ...`` writes the traces
of games anew, after their rules have changed on purpose.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mmo_support import SMALL_WORLD

from entity_env.play import random_policy
from entity_env.registry import find, path_of

SHOP = {"jobs": [1, 9], "machines": [1, 6]}
DATED = """job,machine,duration,due,weight,release
chair,saw,30,60,2,
chair,drill,20,,,
table,drill,45,200,,5
table,saw,10,,,
table,drill,0,,,
stool,saw,55,70,4,20
shelf,drill,15,90,,
shelf,saw,25,,,
"""
FLEXIBLE = "3 3\n3 2 1 5 2 9 1 3 2 2 1 1 3 1\n2 3 1 4 2 4 3 2 1 2 7\n1 2 1 3 3 4\n"
TRACES = Path(__file__).parents[1] / "golden" / "games.json"
SCENES = {
    # name: registered name, games, steps of each, settings
    "capture_the_flag": ("capture_the_flag", 1, 12, {}),
    "capture_the_flag at random": (
        "capture_the_flag",
        1,
        20,
        {"opponent": "random", "fog": False, "curriculum": 300, "max_tick": 700},
    ),
    "capture_the_flag by ticks": (
        "capture_the_flag",
        1,
        60,
        {"curriculum": 1500, "max_tick": 2000, "frame_skip": 10, "opponent_skip": 50},
    ),
    "capture_the_flag of two": ("capture_the_flag_duel", 1, 25, {"max_tick": 1000}),
    "connect_four": ("connect_four", 8, 60, {}),
    "job_shop": ("job_shop", 2, 250, {}),
    "job_shop with arrivals": ("job_shop", 3, 60, {**SHOP, "arrivals": True, "load": 1.2}),
    "job_shop of one instance": ("job_shop", 1, 60, {"instance": "ta01"}),
    "job_shop with due dates": ("job_shop", 2, 20, {"instance": {"file": "a.csv", "text": DATED}}),
    "job_shop of several machines": (
        "job_shop",
        3,
        20,
        {"instance": {"file": "a.fjs", "text": FLEXIBLE}, "labels": True},
    ),
    "job_shop of work centres": ("job_shop", 3, 60, {**SHOP, "flexible": 2, "labels": True}),
    "job_shop with set-ups": ("job_shop", 3, 60, {**SHOP, "setups": 0.5, "families": 4}),
    "job_shop with breakdowns": ("job_shop", 3, 60, {**SHOP, "breakdowns": 0.2, "repair": 2}),
    "job_shop with everything": (
        "job_shop",
        3,
        60,
        {
            **{**SHOP, "arrivals": True, "flexible": 3, "setups": 1},
            **{"breakdowns": 0.1, "load": 1.2},
        },
    ),
    "job_shop without waiting": ("job_shop", 1, 250, {"waiting": False}),
    "job_shop with everything but waiting": (
        "job_shop",
        4,
        60,
        {
            **{**SHOP, "arrivals": True, "flexible": 3, "setups": 1},
            **{"breakdowns": 0.1, "load": 1.2, "waiting": False},
        },
    ),
    "minesweeper": ("minesweeper", 20, 50, {}),
    "minirts": ("minirts", 1, 10, {}),
    "minirts by units": (
        "minirts",
        1,
        40,
        {"interface": "units", "max_tick": 800, "frame_skip": 20, "curriculum": 400},
    ),
    "minirts of hit and run": (
        "minirts",
        1,
        7,
        {"opponent": "hit_n_run", "curriculum": 5000, "shaping": 0.5, "fog": False},
    ),
    "minirts of mixed players": (
        "minirts",
        2,
        12,
        {"opponent": "mixed", "curriculum": 2000, "max_tick": 2500, "draw": -0.5},
    ),
    "minirts of two": ("minirts_duel", 1, 12, {}),
    "minirts of two by units": (
        "minirts_duel",
        1,
        45,
        {"interface": "units", "max_tick": 700, "frame_skip": 20, "opponent_skip": 30},
    ),
    "minirts of two, without fog": (
        "minirts_duel",
        1,
        40,
        {"max_tick": 900, "frame_skip": 20, "opponent_skip": 30, "fog": False},
    ),
    "mmo": ("mmo", 2, 120, SMALL_WORLD),
    "mmo by other rules": (
        "mmo",
        1,
        120,
        {**SMALL_WORLD, "wilderness": True, "random_order": True, "hit_chance": 0.9, "hunger": 0},
    ),
    "mmo without fights": ("mmo", 1, 60, {**SMALL_WORLD, "combat": False}),
    "photosynthesis": ("photosynthesis", 1, 160, {"rounds": 6}),
    "photosynthesis of two, first": ("photosynthesis", 2, 80, {"players": 2, "reward": "first"}),
    "tower_defence": ("tower_defence", 1, 14, {}),
    "tower_defence by ticks": ("tower_defence", 1, 60, {"frame_skip": 20}),
    "vehicle_routing": ("vehicle_routing", 4, 100, {}),
    "warehouse": ("warehouse", 1, 400, {}),
    "warehouse, small and full": (
        "warehouse",
        2,
        120,
        {
            **{"aisles": 2, "shelves": 3, "stations": 1, "chargers": 1, "waiting": 2, "room": 1},
            **{"robots": [3, 9], "lines": [1, 3], "ticks": 90, "battery": 60},
        },
    ),
}


def traced(name: str) -> list[int]:
    """Return a checksum of all that a game shows for each step of random play."""
    return [own for seed in range(SCENES[name][1]) for own in checksums(name, seed)]


def checksums(name: str, seed: int, compile_it: bool = False) -> Iterator[int]:
    """Yield the checksums of the game of one seed; of compiled rows those before its first end.

    They begin anew by themselves, where interpreted ones keep a game that is over until a reset.
    """
    registered, _, steps, settings = SCENES[name]
    rows, policy = find(path_of(registered))(None, seed=seed, **settings), random_policy(seed)
    if not compile_it:
        rows.interpret()
    obs = rows.reset()
    for _ in range(steps):
        if compile_it and is_over(obs):
            return
        yield checksum(obs)
        obs = rows.reset() if is_over(obs) else rows.act(policy(obs))


def is_over(obs) -> bool:
    """Return True if the game is over, which goes on where single seats are done."""
    return bool((obs.done if obs.over is None else obs.over).any())


def checksum(obs) -> int:
    """Return a checksum of an observation, with numbers rounded to what all processors share."""
    arrays = [obs.rows, obs.reward, obs.done, obs.truncated, obs.global_features]
    for buffer in obs.features.values():
        arrays += [buffer.as_array(), buffer.size1()]
    for mask in obs.action_masks.values():
        arrays += [mask.actors.as_array(), mask.actors.size1()]
        arrays += [own.as_array() for own in (mask.mask, getattr(mask, "actees", None)) if own]
    arrays += [np.nan_to_num(own, nan=-1.0) for own in obs.metrics.values()]
    total = 0
    for array in arrays:
        total = zlib.crc32(np.round(np.asarray(array, np.float64), 3).tobytes(), total)
    return total


@pytest.mark.parametrize("name", SCENES)
def test_it_plays_as_it_did(name):
    expected, played = json.loads(TRACES.read_text())[name], traced(name)
    differing = [i for i, pair in enumerate(zip(expected, played, strict=True)) if len({*pair}) > 1]
    assert not differing, f"{name} plays differently from step {differing[0]} on"


@pytest.mark.platforms
@pytest.mark.parametrize("name", SCENES)
def test_machine_code_plays_the_same(name):
    _, games, steps, _ = SCENES[name]
    expected, compared = json.loads(TRACES.read_text())[name], 0
    for seed in range(games):
        played = list(checksums(name, seed, compile_it=True))
        assert played == expected[seed * steps :][: len(played)]
        compared += len(played)
    assert compared > 0


@pytest.mark.parametrize("name", [n for n in SCENES if ".rts." not in path_of(SCENES[n][0])])
def test_nothing_is_left_of_the_episode_before(name):
    registered, _, steps, settings = SCENES[name]
    fresh, used = (find(path_of(registered))(None, **settings) for _ in range(2))
    policy = random_policy(1)
    fresh.interpret()
    used.interpret()
    obs = used.reset()
    for _ in range(min(steps, 60)):
        obs = used.reset() if is_over(obs) else used.act(policy(obs))
    first, again = fresh.reset(5), used.reset(5)
    for _ in range(10):
        assert checksum(first) == checksum(again)
        if is_over(first):
            break
        actions = policy(first)
        first, again = fresh.act(actions), used.act(actions)


if __name__ == "__main__":
    kept = json.loads(TRACES.read_text()) if TRACES.exists() else {}
    kept |= {name: traced(name) for name in sys.argv[1:] or SCENES}
    TRACES.write_text(json.dumps(kept))
