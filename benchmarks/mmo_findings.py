"""The two findings of Neural MMO's paper, with intervals: ``python -m benchmarks.mmo findings``.

*Exploration grows with the number of agents*: policies are trained with 1, 8, 32 and 128 agents at
equal steps of agents, and measured on maps that they were not trained on, with their own number of
agents and with 128. The measures are the fraction of the reachable tiles that are visited in a
fixed number of steps of agents, the different tiles of a life, and its greatest distance from its
start.

*Niches form with the number of populations*: 128 agents of 1, 8 and 32 populations, each with a
policy of its own. Measured is the mutual information of an agent's population and of where it is,
in squares of 4 x 4 tiles, less its mean when the populations of whole lives are shuffled. The one
policy, with its seats labelled as if they were populations, is the control.

Intervals are bootstrapped over training seeds. ``--steps`` is far below what the finding needs
unless it is some millions, so results are printed with their scale. ``--cells`` chooses some
cells, and ``--settings`` changes settings of the trainings: ``--settings env.combat=false`` where
agents should live for long. The same command continues a stopped one: each run is trained and
measured once, seed after seed, so that all cells have equally many. Runs of other settings need
another folder, ``--out``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import numpy.typing as npt
from ragged_envs.mmo.overlays import (
    draw_map,
    values_over_map,
    with_heat,
    with_populations,
    with_visits,
)
from ragged_envs.mmo.terrain import FOREST, GRASS, SCRUB
from ragged_envs.mmo.world import MmoRows

from benchmarks.mmo_policies import MAPS, Policy, of_run
from entity_env import VecObs
from entity_env.storage.files import write_file
from ppo_trainer import recipe, resume, train
from ppo_trainer.agent import load_agent
from ppo_trainer.runs.checkpoint import latest_checkpoint, steps_of
from ppo_trainer.runs.folder import RunFolder
from ragged_net import EntityBatch

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
    """The places of agents, one row for each step of an agent, in order of time.

    Args:
        lives: The number of the life. Shape: (N,).
        seats: Its seat. Shape: (N,).
        places: Row and column. Shape: (N, 2).
    """

    lives: Ints
    seats: Ints
    places: Ints


def worlds(run: Path, agents: int, maps: int) -> tuple[MmoRows, VecObs]:
    """Return worlds on the last maps in turns, and their first observation.

    If worlds have few agents, each map has several worlds, so that about as many agents live on a
    map at once as in a full world: some 16, while lives are short.

    Args:
        run: Run with the settings of the worlds.
        agents: Number of seats of each world.
        maps: Number of maps.
    """
    settings = dict(load_agent(run).loaded.config.env)
    settings |= {"agents": agents, "first_map": MAPS - maps, "maps": maps}
    settings.pop("_target_")
    count = maps * max(16 // agents, 1)
    rows = MmoRows(count * agents, 0, **settings)
    rows.reset()
    begun, numbers = rows.copy_games(range(count)), np.arange(count)
    begun.fields["map"][:] = numbers % maps
    begun.fields["tiles"][:] = begun.fields["terrain"][numbers, numbers % maps]
    return rows, rows.put_games(range(count), begun)


def watch(policy: Policy, rows: MmoRows, obs: VecObs, maps: int, steps: int) -> list[Visits]:
    """Play worlds until agents have taken so many steps on each map; return those of each map."""
    life, born, seen = np.full(len(rows), -1), 0, list[Ints]()
    total = np.zeros(maps, np.int64)
    while total.min() < steps:
        own = obs.rows
        fresh = own[life[own] < 0]
        life[fresh] = np.arange(born, born + len(fresh))
        born += len(fresh)
        game, seat = np.divmod(own, rows.num_seats)
        seen.append(np.column_stack([game % maps, life[own], seat, rows.places(own)]))
        total += np.bincount(game % maps, minlength=maps)
        obs = rows.act(policy(obs))
        life[obs.done] = -1
    every = np.concatenate(seen)
    parts = (every[every[:, 0] == number][:steps] for number in range(maps))
    return [Visits(own[:, 1], own[:, 2], own[:, 3:]) for own in parts]


def reachable(tiles: npt.NDArray[Any], spawns: Sequence[Sequence[int]]) -> npt.NDArray[np.bool_]:
    """Return a mask of the tiles that can be reached from the places of newcomers."""
    is_open = np.isin(tiles, (GRASS, SCRUB, FOREST))
    found, waiting = np.zeros(tiles.shape, bool), deque(map(tuple, spawns))
    while waiting:
        y, x = waiting.popleft()
        if is_open[y, x] and not found[y, x]:
            found[y, x] = True
            waiting += [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
    return found


def exploration(visits: Visits, can_be: npt.NDArray[np.bool_]) -> tuple[float, ...]:
    """Return the fraction of tiles visited, and tiles, greatest distance and steps of a life."""
    been = np.zeros(can_be.shape, bool)
    been[tuple(visits.places.T)] = True
    tiles, far = [], []
    order = np.argsort(visits.lives, kind="stable")
    for own in np.split(visits.places[order], np.flatnonzero(np.diff(visits.lives[order])) + 1):
        tiles.append(len(np.unique(own, axis=0)))
        far.append(int(np.abs(own - own[0]).max()))
    share = (been & can_be).sum() / can_be.sum()
    return float(share), float(np.mean(tiles)), float(np.mean(far)), len(order) / len(tiles)


def mutual_information(labels: Ints, squares: Ints) -> float:
    """Mutual information in nats of two lists of whole numbers."""
    pairs = np.zeros((labels.max() + 1, squares.max() + 1))
    np.add.at(pairs, (labels, squares), 1.0 / len(labels))
    apart = pairs.sum(1, keepdims=True) * pairs.sum(0, keepdims=True)
    there = pairs > 0
    return float((pairs[there] * np.log(pairs[there] / apart[there])).sum())


def niches(visits: Visits, populations: int, seed: int = 0) -> tuple[float, float]:
    """Return the information of population and square, and its mean over shuffled lives."""
    squares = visits.places // SQUARE
    flat = squares[:, 0] * (squares[:, 1].max() + 1) + squares[:, 1]
    numbers, lives = np.unique(visits.lives, return_inverse=True)
    own = np.zeros(len(numbers), np.int64)
    own[lives] = visits.seats % populations
    draw = np.random.default_rng(seed)
    shuffled = [mutual_information(draw.permutation(own)[lives], flat) for _ in range(SHUFFLES)]
    return mutual_information(own[lives], flat), float(np.mean(shuffled))


def interval(values: Sequence[float], seed: int = 0) -> str:
    """Return the mean over training seeds as text, with its bootstrapped interval of 95%."""
    own = np.asarray(values)
    if len(own) < 2:
        return f"{own.mean():7.3f} (one seed)"
    drawn = np.random.default_rng(seed).choice(own, (2000, len(own))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{own.mean():7.3f} [{low:.3f}, {high:.3f}]"


def trained(cell: Cell, seed: int, steps: int, folder: Path, settings: Sequence[str]) -> Path:
    """Return the run of a cell, after training it, or resuming it, if it is not complete."""
    run = folder / f"{cell.name}_seed{seed}"
    has_begun = (run / "checkpoints").is_dir()
    if has_begun and (steps_of(latest_checkpoint(RunFolder(run))) or 0) >= steps:
        return run
    with contextlib.redirect_stdout(None):
        if has_begun:
            result = resume(run, total_timesteps=steps)
        else:
            worlds = max(512 // cell.agents, 32)  # where some 500 agents live at once
            changes = [f"env.agents={cell.agents}", f"env.populations={cell.populations}"]
            if cell.populations > 1:
                changes += ["selfplay=populations", f"selfplay.size={cell.populations}"]
            rows, size = worlds * cell.agents, max(2048 // cell.populations, 128)
            config = recipe(
                *("mmo", *changes, f"seed={seed}", f"total_timesteps={steps}"),
                *(f"rollout.num_envs={rows}", f"rollout.steps={max(8192 // rows, 1)}"),
                *(f"ppo.minibatch_size={size}", "eval.episodes=0"),
                *(f"run_dir={folder}", f"run_name={run.name}", *settings),
            )
            result = train(config)
    if result.interrupted:
        raise SystemExit(f"stopped; the same command resumes {run}")
    return run


def measured(cell: Cell, run: Path, seed: int, maps: int, watched: int) -> dict[str, Any]:
    """Return the measures of a run: of exploration, and of populations and places."""
    scale = {"maps": maps, "watched": watched, "steps": latest_checkpoint(RunFolder(run)).name}
    file = run / "measured.json"
    if file.exists() and (found := json.loads(file.read_text()))["scale"] == scale:
        return found  # type: ignore[no-any-return]
    policy, explored, information = of_run(run, seed), {}, {}
    for agents in sorted({cell.agents, 128}):
        rows, obs = worlds(run, agents, maps)
        begun = rows.copy_games(range(maps)).fields
        can_be = [reachable(tiles, begun["spawns"][0].tolist()) for tiles in begun["tiles"]]
        seen = watch(policy, rows, obs, maps, watched)
        own = [exploration(*pair) for pair in zip(seen, can_be, strict=True)]
        explored[str(agents)] = np.mean(own, axis=0).tolist()
        if agents == cell.agents:
            draw_visits(seen[-1], begun["tiles"][-1], cell.populations, run)
        if agents == cell.agents == 128:
            for label in (8, 32) if cell.populations == 1 else (cell.populations,):
                bits = [np.subtract(*niches(visits, label)) for visits in seen]
                information[str(label)] = float(np.mean(bits))
    found = {"scale": scale, "explored": explored, "information": information}
    write_file(file, json.dumps(found).encode())
    return found


def findings(
    seeds: int,
    steps: int,
    maps: int,
    watched: int,
    folder: Path,
    cells: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> None:
    """Train, measure and print all cells, or those named, with these settings of the training."""
    print(f"{seeds} training seeds of {steps:,} steps of agents, {maps} maps, {watched:,} watched")
    explored: dict[tuple[str, str], list[list[float]]] = {}
    information: dict[tuple[str, str], list[float]] = {}
    chosen = [cell for cell in CELLS if not cells or cell.name in cells]
    for seed, cell in itertools.product(range(1, seeds + 1), chosen):
        start = time.process_time()
        run = trained(cell, seed, steps, folder, settings)
        found = measured(cell, run, seed, maps, watched)
        for agents, three in found["explored"].items():
            explored.setdefault((cell.name, agents), []).append(three)
        for label, bits in found["information"].items():
            information.setdefault((cell.name, label), []).append(bits)
        print(f"  {run.name:34s} {time.process_time() - start:4.0f} CPU-s", flush=True)
    print("coverage; tiles, greatest distance and steps of a life, on average over maps")
    for (name, agents), own in explored.items():
        columns = "  ".join(interval(column) for column in np.array(own).T)
        print(f"  {name:26s} played with {agents:3s}  {columns}")
    print("mutual information of population and place in nats, less that of shuffled lives")
    for (name, label), values in information.items():
        print(f"  {name:26s} labels of {label:2s}  {interval(values)}")


def pictures(run: Path, policy: Policy, folder: Path, watched: int) -> None:
    """Write a map of visits, one of populations, and one of the policy's values."""
    agent = load_agent(run)
    settings = dict(agent.loaded.config.env)
    settings.pop("_target_")
    rows, obs = worlds(run, settings["agents"], 1)
    tiles = rows.copy_games([0]).fields["tiles"][0]
    (seen,) = watch(policy, rows, obs, 1, watched)
    draw_visits(seen, tiles, settings["populations"], folder / run.name)
    few = settings | {"agents": settings["populations"], "first_map": MAPS - 1, "maps": 1}
    many = MmoRows(256 * few["agents"], 0, **few)

    def value(obs: Any) -> Any:
        return agent.loaded.net.value(EntityBatch.from_obs(obs, agent.loaded.device)).detach()

    worth = with_heat(draw_map(tiles), values_over_map(many, value))
    matplotlib.image.imsave(f"{folder / run.name}_values.png", worth)


def draw_visits(visits: Visits, tiles: npt.NDArray[Any], populations: int, path: Path) -> None:
    """Write a map of visits, and one of the populations whose visits they are."""
    counts = np.zeros((populations, *tiles.shape))
    np.add.at(counts, (visits.seats % populations, *visits.places.T), 1)
    matplotlib.image.imsave(f"{path}_visits.png", with_visits(draw_map(tiles), counts))
    matplotlib.image.imsave(f"{path}_populations.png", with_populations(draw_map(tiles), counts))
