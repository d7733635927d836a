"""The two findings of Neural MMO's paper, with intervals: ``python -m benchmarks.mmo findings``.

*Exploration grows with the number of agents*: policies are trained with 1, 8, 32 and 128 agents at
equal steps of agents, and measured on maps that they were not trained on, with their own number of
agents and with 128: the share of all tiles that can be reached which are visited in so many steps
of agents, and the different tiles of a life, and its greatest distance from where it began.

*Niches form with the number of populations*: 128 agents of 1, 8 and 32 populations, each with a
policy of its own. Measured is the mutual information of an agent's population and of where it is,
in squares of 4 x 4 tiles, less its mean when the populations of whole lives are shuffled. The one
policy, with its seats labelled as if they were populations, is the control.

Intervals are bootstrapped over training seeds. ``--steps`` is far below what the finding needs
unless it is some millions: what comes out is said with the scale at which it did.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import numpy.typing as npt
from ragged_envs.mmo.body import COLUMN, ROW
from ragged_envs.mmo.overlays import draw_map, values_over_map, with_heat, with_populations
from ragged_envs.mmo.terrain import FOREST, GRASS, SCRUB
from ragged_envs.mmo.world import MmoRows

from benchmarks.mmo_policies import MAPS, Policy, of_run
from ppo_trainer.agent import load_agent
from ppo_trainer.experience.tensors import to_batch

Ints = npt.NDArray[np.int64]
SQUARE = 4
SHUFFLES = 50


@dataclass(frozen=True)
class Cell:
    """One kind of training."""

    agents: int
    populations: int

    @property
    def name(self) -> str:
        """Names the run folder."""
        return f"agents{self.agents}_populations{self.populations}"


CELLS = (Cell(1, 1), Cell(8, 1), Cell(32, 1), Cell(128, 1), Cell(128, 8), Cell(128, 32))


@dataclass(frozen=True)
class Visits:
    """Who was where, one line for each step of an agent, in the order of time.

    Args:
        lives: The number of the life. Shape: (N,).
        seats: Its seat. Shape: (N,).
        places: Row and column. Shape: (N, 2).
    """

    lives: Ints
    seats: Ints
    places: Ints


def watch(policy: Policy, rows: MmoRows, steps: int) -> Visits:
    """Play a world from its beginning until agents have taken so many steps."""
    obs, life, born, seen = rows.reset(), np.full(len(rows), -1), 0, list[Any]()
    total = 0
    while total < steps:
        own = obs.rows
        fresh = own[life[own] < 0]
        life[fresh] = np.arange(born, born + len(fresh))
        born += len(fresh)
        agents = rows.copy_games([0]).fields["agents"][0, own]
        seen.append(np.column_stack([life[own], own, agents[:, ROW], agents[:, COLUMN]]))
        total += len(own)
        obs = rows.act(policy(obs))
        life[obs.done] = -1
    every = np.concatenate(seen)[:steps].astype(np.int64)
    return Visits(every[:, 0], every[:, 1], every[:, 2:])


def reachable(tiles: npt.NDArray[Any], spawns: Sequence[Sequence[int]]) -> npt.NDArray[np.bool_]:
    """The tiles to which ways lead from where newcomers come in."""
    is_open = np.isin(tiles, (GRASS, SCRUB, FOREST))
    found, waiting = np.zeros(tiles.shape, bool), deque(map(tuple, spawns))
    while waiting:
        y, x = waiting.popleft()
        if is_open[y, x] and not found[y, x]:
            found[y, x] = True
            waiting += [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
    return found


def exploration(visits: Visits, can_be: npt.NDArray[np.bool_]) -> tuple[float, float, float]:
    """The share of tiles visited, the tiles of a life, and its greatest Chebyshev distance."""
    been = np.zeros(can_be.shape, bool)
    been[tuple(visits.places.T)] = True
    tiles, far = [], []
    order = np.argsort(visits.lives, kind="stable")
    for own in np.split(visits.places[order], np.flatnonzero(np.diff(visits.lives[order])) + 1):
        tiles.append(len(np.unique(own, axis=0)))
        far.append(int(np.abs(own - own[0]).max()))
    return float((been & can_be).sum() / can_be.sum()), float(np.mean(tiles)), float(np.mean(far))


def mutual_information(labels: Ints, squares: Ints) -> float:
    """Mutual information in nats of two lists of whole numbers."""
    pairs = np.zeros((labels.max() + 1, squares.max() + 1))
    np.add.at(pairs, (labels, squares), 1.0 / len(labels))
    apart = pairs.sum(1, keepdims=True) * pairs.sum(0, keepdims=True)
    there = pairs > 0
    return float((pairs[there] * np.log(pairs[there] / apart[there])).sum())


def niches(visits: Visits, populations: int, seed: int = 0) -> tuple[float, float]:
    """The information of population and square, and the mean of it over shuffled lives."""
    squares = visits.places // SQUARE
    flat = squares[:, 0] * (squares[:, 1].max() + 1) + squares[:, 1]
    numbers, lives = np.unique(visits.lives, return_inverse=True)
    own = np.zeros(len(numbers), np.int64)
    own[lives] = visits.seats % populations
    draw = np.random.default_rng(seed)
    shuffled = [mutual_information(draw.permutation(own)[lives], flat) for _ in range(SHUFFLES)]
    return mutual_information(own[lives], flat), float(np.mean(shuffled))


def interval(values: Sequence[float], seed: int = 0) -> str:
    """The mean over training seeds, with its bootstrapped interval of 95%."""
    own = np.asarray(values)
    if len(own) < 2:
        return f"{own.mean():7.3f} (one seed)"
    drawn = np.random.default_rng(seed).choice(own, (2000, len(own))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{own.mean():7.3f} [{low:.3f}, {high:.3f}]"


def trained(cell: Cell, seed: int, steps: int, folder: Path) -> Path:
    """The run of a cell, trained if it is not there."""
    run = folder / f"{cell.name}_seed{seed}"
    if not (run / "checkpoints").is_dir():
        changes = [f"env.agents={cell.agents}", f"env.populations={cell.populations}"]
        if cell.populations > 1:
            changes.append(f"selfplay.populations={cell.populations}")
        size = max(2048 // cell.populations, 128)
        rows = min(512, 128 * cell.agents)  # more worlds are too large for a checkpoint
        subprocess.run(
            [
                *(sys.executable, "-m", "ppo_trainer", "env=mmo", *changes, f"seed={seed}"),
                *(f"rollout.num_envs={rows}", f"rollout.steps={8192 // rows}"),
                *(f"ppo.minibatch_size={size}", "eval.episodes=0"),
                *(f"total_timesteps={steps}", f"run_dir={folder}", f"run_name={run.name}"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return run


def worlds(run: Path, agents: int, maps: int) -> Iterator[MmoRows]:
    """One world on each of the last maps, with the settings of a run."""
    settings = dict(load_agent(run).loaded.config.env) | {"agents": agents, "maps": 1}
    settings.pop("_target_")
    for number in range(MAPS - maps, MAPS):
        yield MmoRows(None, number, **settings | {"first_map": number})


def findings(seeds: int, steps: int, maps: int, watched: int, folder: Path) -> None:
    """Train, measure and print."""
    print(f"{seeds} training seeds of {steps:,} steps of agents, {maps} maps, {watched:,} watched")
    print("coverage, tiles and greatest distance of a life; with its own number of agents, and 128")
    information: dict[tuple[str, int], list[float]] = {}
    for cell in CELLS:
        explored: dict[int, list[npt.NDArray[np.float64]]] = {}
        for seed in range(1, seeds + 1):
            run = trained(cell, seed, steps, folder)
            policy = of_run(run, seed)
            for agents in sorted({cell.agents, 128}):
                found, bits = [], list[tuple[float, ...]]()
                labels = (8, 32) if cell.populations == 1 else (cell.populations,)
                for rows in worlds(run, agents, maps):
                    seen = watch(policy, rows, watched)
                    start = rows.copy_games([0])
                    can_be = reachable(start.fields["tiles"][0], start.fields["spawns"][0].tolist())
                    found.append(exploration(seen, can_be))
                    if agents == cell.agents == 128:
                        both = [niches(seen, count) for count in labels]
                        bits.append(tuple(own - shuffled for own, shuffled in both))
                explored.setdefault(agents, []).append(np.mean(found, axis=0))
                for i, label in enumerate(labels if bits else ()):
                    mean = float(np.mean([own[i] for own in bits]))
                    information.setdefault((cell.name, label), []).append(mean)
            pictures(run, policy, folder, watched)
        for agents, own in explored.items():
            columns = np.array(own).T
            text = "  ".join(interval(column) for column in columns)
            print(f"  {cell.name:26s} played with {agents:3d}  {text}", flush=True)
    print("mutual information of population and place in nats, less that of shuffled lives")
    for (name, label), values in information.items():
        print(f"  {name:26s} labels of {label:2d}  {interval(values)}")


def pictures(run: Path, policy: Policy, folder: Path, watched: int) -> None:
    """Write a map of visits, one of populations, and one of the policy's values."""
    agent = load_agent(run)
    settings = dict(agent.loaded.config.env)
    settings.pop("_target_")
    own = settings | {"first_map": MAPS - 1, "maps": 1}
    rows = MmoRows(None, 0, **own)
    seen = watch(policy, rows, watched)
    tiles = rows.copy_games([0]).fields["tiles"][0]
    counts = np.zeros((settings["populations"], *tiles.shape))
    np.add.at(counts, (seen.seats % len(counts), *seen.places.T), 1)
    total = counts.sum(0)
    few = own | {"agents": settings["populations"]}
    many = MmoRows(256 * few["agents"], 0, **few)

    def value(obs: Any) -> Any:
        return agent.loaded.net.value(to_batch(obs, agent.loaded.device)).detach()

    shown = {
        "visits": with_heat(draw_map(tiles), np.where(total, np.log1p(total), np.nan)),
        "populations": with_populations(draw_map(tiles), counts),
        "values": with_heat(draw_map(tiles), values_over_map(many, value)),
    }
    for name, picture in shown.items():
        matplotlib.image.imsave(folder / f"{run.name}_{name}.png", picture)
