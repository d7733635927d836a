"""The massively multiplayer world: how long agents live, scripted and trained, and its speed.

python -m benchmarks.mmo outcomes
python -m benchmarks.mmo trained runs/RUN ...
python -m benchmarks.mmo findings
python -m benchmarks.mmo pictures runs/RUN ...
python -m benchmarks.mmo speed

``outcomes`` plays the players of the rules' table by the rules of version 1.3 and prints their
figures, +- the standard error over the maps, beside the table's. ``trained`` plays the agents of
runs, all by themselves, on maps that they were not trained on (``env.maps=14`` leaves ten), and the
scripted forager or fighter in worlds of the same settings. ``findings`` trains with 1 to 128 agents
of 1 to 32 populations (``benchmarks/mmo_findings.py``); ``pictures`` draws where agents are, and
what places are worth to them. ``speed`` measures CPU time in steps of the world, whole observations
included, choices of players excluded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ragged_envs.mmo.body import COLUMN, ROW
from ragged_envs.mmo.scripts import Player
from ragged_envs.mmo.world import MmoRows

from benchmarks.mmo_policies import MAPS, Policy, of_run
from entity_env import VecObs
from ppo_trainer.agent import load_agent

VERSION_1_3 = {"random_order": True, "range_reach": 1, "mage_reach": 1}
"""Its skills came in random order, and all styles reached as far as melee."""
FULL = {"thirst": 0, "hunger": 0, "regrowth": 0.0}
"""Settings without starvation, so that the world stays full."""
FORAGERS = 250, 900, 1450
"""Ticks: agents born from the first on and before the second are measured, until the third."""


@dataclass(frozen=True)
class Figures:
    """The figures of a player in the rules' table; None where the table has none."""

    name: str
    way: str
    attack: str
    lifetime: float
    within: float
    median: float
    longer: tuple[float | None, float | None, float | None]
    alive: float
    tiles: float

    @property
    def forages(self) -> bool:
        """Foragers live for so long that they are watched later, and 500 ticks at most."""
        return self.way == "forage"


NOTHING, MELEE = (None, None, None), (0.351, 0.064, 0.007)
TABLE = (
    Figures("random", "random", "random", 8.01, 0.12, 5, (0.015, 0, 0), 8.0, 4.8),
    Figures("never moves", "still", "off", 16.07, 0.05, 16, NOTHING, 16.1, 1.0),
    Figures("safe random", "safe", "off", 20.53, 0.21, 19, (0.068, 0, 0), 20.5, 10.2),
    Figures("safe random, attacks", "safe", "random", 20.59, 0.21, 19, NOTHING, 20.6, 10.1),
    Figures("forager", "forage", "off", 61.97, 3.42, 29, (0.460, 0.096, 0.043), 89.9, 26.1),
    Figures(
        "forager, melee", "forage", "melee", 41.36, 1.12, 23, (0.351, 0.064, 0.007), 43.4, 21.3
    ),
)


def lives(
    policy: Policy, rows: MmoRows, first: int, last: int, ticks: int
) -> tuple[npt.NDArray[np.float64], float]:
    """Return the lifetimes and tiles of agents, (N, 2), and the number alive at once.

    Args:
        policy: Player of all agents.
        rows: One world, of a map with sides of 80.
        first: First tick of the births of measured agents.
        last: Tick after the last one of these births.
        ticks: Number of ticks that are played.
    """
    obs = rows.reset()
    born, been = np.full(len(rows), -1), np.zeros((len(rows), 80 * 80), bool)
    found, alive = [], []
    for tick in range(ticks):
        if first <= tick < last:
            alive.append(obs.num_frames)
        here, own = rows.copy_games([0]).fields["agents"][0], obs.rows
        born[own[born[own] < 0]] = tick
        been[own, here[own, ROW] * 80 + here[own, COLUMN]] = True
        obs = rows.act(policy(obs))
        for row in np.flatnonzero(obs.done):
            if first <= born[row] < last:
                found.append((obs.metrics["episodic_length"][row], been[row].sum()))
        born[obs.done], been[obs.done] = -1, False
    living = (born >= first) & (born < last)
    found += [(ticks - born[row], been[row].sum()) for row in np.flatnonzero(living)]
    return np.array(found, np.float64), float(np.mean(alive))


def outcomes(maps: int, seed: int, names: list[str]) -> None:
    """Print what became of each player, and the rules' figures behind it."""
    print(
        "lifetime, its median, longer than 30 / 100 / 499 ticks, alive at once, tiles of an agent"
    )
    for player in TABLE:
        if names and player.name not in names:
            continue
        start = time.process_time()
        means, every, crowds = [], [], []
        for number in range(maps):
            watched = FORAGERS if player.forages else (200, 1000, 1400)
            rows = MmoRows(128, seed + number, first_map=number, maps=1, **VERSION_1_3)
            policy = Player(player.way, player.attack, seed + number)
            found, alive = lives(policy, rows, *watched)
            if player.forages:
                found[:, 0] = np.minimum(found[:, 0], 500)
            means.append(found[:, 0].mean())
            every.append(found)
            crowds.append(alive)
        whole = np.concatenate(every)
        error = float(np.std(means, ddof=1)) / maps**0.5 if maps > 1 else float("nan")
        own = float(np.mean(means))
        longer = [float((whole[:, 0] > limit).mean()) for limit in (30, 100, 499)]
        verdict = "within" if abs(own - player.lifetime) <= player.within else "OUTSIDE"
        print(
            f"  {player.name:20s} {own:6.2f} +- {error:.2f}  {np.median(whole[:, 0]):3.0f}  "
            f"{' / '.join(f'{part:.3f}' for part in longer)}  {np.mean(crowds):5.1f}  "
            f"{whole[whole[:, 0] < 500, 1].mean():5.1f}   {verdict}, "
            f"{time.process_time() - start:.0f} s"
        )
        print(
            f"  {'':20s} {player.lifetime:6.2f} +- {player.within:.2f}  {player.median:3.0f}  "
            f"{' / '.join('-' if part is None else f'{part:.3f}' for part in player.longer)}  "
            f"{player.alive:5.1f}  {player.tiles:5.1f}",
            flush=True,
        )


def mean_lives(policies: Sequence[Policy], settings: Mapping[str, Any], seed: int) -> list[float]:
    """Return the mean of min(life, 500) of each policy, which plays a map of its own."""
    means = []
    for number, policy in enumerate(policies):
        own = {**settings, "first_map": MAPS - len(policies) + number, "maps": 1}
        found, _ = lives(policy, MmoRows(None, seed + number, **own), *FORAGERS)
        means.append(float(np.minimum(found[:, 0], 500).mean()))
    return means


def trained(runs: list[Path], maps: int, seed: int) -> None:
    """Print how long the agents of runs live, beside the scripted one on the same maps."""
    print("  mean of min(life, 500) on maps not trained on, +- the standard error over the maps")
    for run in runs:
        settings = dict(load_agent(run).loaded.config.env)
        settings.pop("_target_")
        if settings.get("first_map", 0) + settings.get("maps", MAPS) > MAPS - maps:
            print(f"  {run} was trained on some of the last {maps} maps: env.maps={MAPS - maps}")
            continue
        attack = "melee" if settings.get("combat", True) else "off"
        scripts = [Player("forage", attack, seed + number) for number in range(maps)]
        agents = [of_run(run, seed + number) for number in range(maps)]
        start = time.process_time()
        theirs, ours = (np.array(mean_lives(own, settings, seed)) for own in (scripts, agents))
        for name, own in (
            (run.name, ours),
            (f"forager, {attack}", theirs),
            ("difference", ours - theirs),
        ):
            error = own.std(ddof=1) / len(own) ** 0.5
            print(f"  {name:24s} {own.mean():7.2f} +- {error:.2f}", flush=True)
        print(f"  {'':24s} {time.process_time() - start:.0f} CPU-s")


def stepped(rows: MmoRows, obs: VecObs, policy: Player, ticks: int) -> tuple[VecObs, float, float]:
    """Play so many ticks; return the observation, agents per second, and how many were alive."""
    spent, agents = 0.0, 0
    for _ in range(ticks):
        actions = policy(obs)
        agents += obs.num_frames
        start = time.process_time()
        obs = rows.act(actions)
        spent += time.process_time() - start
    return obs, agents / spent, agents / ticks


def filled(rows: MmoRows, policy: Player, ticks: int) -> VecObs:
    """Play until the world is full."""
    obs = rows.reset()
    for _ in range(ticks):
        obs = rows.act(policy(obs))
    return obs


def bytes_for_an_agent(obs: VecObs) -> float:
    """Return the mean size of the features, masks, actors and actees of a frame."""
    arrays = [own.as_array() for own in obs.features.values()]
    for mask in obs.action_masks.values():
        arrays += [mask.actors.as_array(), mask.mask.as_array() if mask.mask is not None else None]
        arrays.append(mask.actees.as_array() if hasattr(mask, "actees") else None)
    return sum(own.nbytes for own in arrays if own is not None) / obs.num_frames


def speed(repeats: int) -> None:
    """Print agents' steps per second."""
    compiled_in = cold_seconds()
    print(f"  cold compilation                  {compiled_in:10.1f} s of CPU time   (goal: 15)")
    policy = Player("safe", "off", 0)
    size = round((62 * 62 * 8) ** 0.5) + 18  # eight times the land for eight times the agents
    cases = {
        "one world of 128": MmoRows(128, 0, maps=1, **FULL),
        "eight worlds of 128": MmoRows(1024, 0, maps=1, **FULL),
        "one world of 1,024": MmoRows(1024, 0, maps=1, agents=1024, size=size, **FULL),
    }
    rates: dict[str, list[float]] = {name: [] for name in cases}
    shown = {
        name: filled(rows, policy, 2 * rows.num_seats + 200 * (rows.num_seats < 200))
        for name, rows in cases.items()
    }
    alive = dict.fromkeys(cases, 0.0)
    for _ in range(repeats):
        for name, rows in cases.items():
            ticks = 100_000 // len(rows)
            shown[name], rate, alive[name] = stepped(rows, shown[name], policy, ticks)
            rates[name].append(rate)
    best = {name: float(np.median(own)) for name, own in rates.items()}
    for name, rate in best.items():
        size_of = bytes_for_an_agent(shown[name])
        spread = f"{min(rates[name]):,.0f} to {max(rates[name]):,.0f}"
        print(
            f"  {name:20s} {alive[name]:7.1f} alive {rate:12,.0f} agents/s ({spread}), "
            f"{size_of:,.0f} bytes for an agent"
        )
    one = cases["one world of 128"]
    python = MmoRows(128, 0, maps=1, **FULL)
    python.reset()
    obs = python.put_games([0], one.copy_games([0]))
    python.interpret()
    _, slow, _ = stepped(python, obs, policy, 5)
    fast = best["one world of 128"]
    print(f"  uncompiled, of 128                            {slow:10,.0f} agents/s")
    print(f"  compiled / uncompiled                         {fast / slow:10,.0f}   (goal: 100)")
    ratio = best["eight worlds of 128"] / best["one world of 1,024"]
    print(f"  an agent of 1,024 / one of 8 x 128            {ratio:10.2f}   (goal: at most 1.3)")


def cold_seconds() -> float:
    """Return the CPU time of the first steps in a process without compiled code."""
    program = (
        "import time; from ragged_envs.mmo.world import MmoRows;"
        "from entity_env.play import random_policy; rows = MmoRows(128, maps=1);"
        "play = random_policy(0); start = time.process_time(); obs = rows.reset();"
        "rows.act(play(obs)); print(time.process_time() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("outcomes", "trained", "findings", "pictures", "speed"))
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--maps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--players", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5, help="of findings")
    parser.add_argument("--steps", type=int, default=4_000_000, help="of each training")
    parser.add_argument("--watched", type=int, default=20_000, help="steps of agents on a map")
    parser.add_argument("--cells", nargs="*", default=[], help="agents128_populations8 ...")
    parser.add_argument("--settings", nargs="*", default=[], help="of each training: name=value")
    parser.add_argument("--out", type=Path, default=Path("runs/mmo_findings"))
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.repeats)
    elif given.what in ("findings", "pictures"):
        from benchmarks import mmo_findings  # trains, and draws with matplotlib

        given.out.mkdir(parents=True, exist_ok=True)
        for run in given.runs:
            mmo_findings.pictures(run, of_run(run, given.seed), given.out, given.watched)
        if given.what == "findings":
            scale = (given.seeds, given.steps, given.maps, given.watched, given.out)
            mmo_findings.findings(*scale, given.cells, given.settings)
    elif given.what == "trained":
        trained(given.runs, given.maps, given.seed)
    else:
        outcomes(given.maps, given.seed, given.players)


if __name__ == "__main__":
    main()
