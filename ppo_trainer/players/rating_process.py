"""The process that rates versions of a run while the run goes on: it plays, and writes ratings.

It runs at the lowest priority and ends with the training, however that ends.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from entity_env import ActionSpace, ObsSpace
from entity_env.agent import Agent
from entity_env.storage.files import remove
from entity_env.workers.interpreter import leave_signals_to_parent
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.play.sides import play_sides
from ppo_trainer.players.league import rate
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponents import make_opponent
from ppo_trainer.reporting.ratings_file import RatedPlayer, read_ratings, write_ratings
from ppo_trainer.runs.checkpoint import load_network
from ppo_trainer.runs.folder import RunFolder
from ragged_net import RaggedNet

__all__ = ["RatingTask", "Ratings", "main", "version_steps"]

_LAST_VERSIONS = 3
"""A version plays so many before it, besides the reference players."""
_PAUSE = 0.5  # seconds


@dataclass(frozen=True)
class RatingTask:
    """What the process is to do.

    Args:
        run: The run folder, whose ``rated`` holds the versions.
        game: What is played.
        config: The settings of the run.
        obs_space: What networks see.
        action_space: What they can do.
    """

    run: Path
    game: Game
    config: TrainConfig
    obs_space: ObsSpace
    action_space: Mapping[str, ActionSpace]


def main() -> None:
    """What the process runs: it reads a pickled ``RatingTask``, and rates until it is ended."""
    leave_signals_to_parent()
    task: RatingTask = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):  # not on Windows
        os.nice(19)
    torch.set_num_threads(1)
    ratings = Ratings(task)
    while True:
        if not ratings.rate_newest():
            time.sleep(_PAUSE)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # open as long as the training lives
    os._exit(0)


def version_steps(name: str) -> int:
    """The steps in the name of a version, ``step_<steps>`` and perhaps ``_policy_<i>``."""
    return int(name.split("_")[1])


@dataclass
class Ratings:
    """Plays versions against the references and each other; everything known is in the file.

    Args:
        task: What to rate.
    """

    task: RatingTask
    _agents: dict[str, Agent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the reference players."""
        self._run = RunFolder(self.task.run)
        names = {"random": "random"}
        if self.task.config.eval.scripted is not None:
            names["scripted"] = self.task.config.eval.scripted
        spaces = self.task.obs_space, self.task.action_space
        seed = derived_seed(self.task.config.seed, "rating reference")
        for name, path in names.items():
            self._agents[name] = make_opponent(path, *spaces, seed=seed, device="cpu")
        self._references = tuple(names)
        known = {own.player: own for own in read_ratings(self._run)}
        self._games = {name: dict(own.games) for name, own in known.items()}
        for name in self._references:
            self._games.setdefault(name, {})

    def rate_newest(self) -> bool:
        """Rate the newest version that has no rating; whether there was one.

        Older ones without a rating are left out, so that the ratings keep up with the training.
        """
        names = sorted(own.name for own in self._run.rated.glob("step_*"))
        waiting = [name for name in names if name not in self._games]
        if not waiting:
            return False
        newest = version_steps(waiting[-1])
        rated = [name for name in names if name in self._games]
        for name in waiting:
            if version_steps(name) == newest:
                self._rate(name, [*self._references, *rated[-_LAST_VERSIONS:]])
                rated.append(name)
        kept = rated[-max(_LAST_VERSIONS, self.task.config.selfplay.policies) :]
        for name in names:
            if name not in kept:
                remove(self._run.rated / name)
                self._agents.pop(name, None)
        return True

    def _rate(self, name: str, opponents: list[str]) -> None:
        task, number = self.task, len(self._games)
        agent, games = self._agent(name), {}
        for place, opponent in enumerate(opponents):
            seed = derived_seed(task.config.seed, f"rating {place}", number)
            other = self._agent(opponent)
            agent.reset()
            other.reset()
            played = task.config.selfplay.rating_games
            scores = play_sides(agent.act_rows, task.game, task.config, played, other, seed=seed)[
                "win"
            ]
            won, lost = int((scores > 0.5).sum()), int((scores < 0.5).sum())
            games[opponent] = (won, len(scores) - won - lost, lost)
        self._games[name] = games
        write_ratings(self._run, self._rated())

    def _agent(self, name: str) -> Agent:
        if name not in self._agents:
            task = self.task
            net = RaggedNet(
                task.obs_space, task.action_space, task.config.net, task.config.value_net
            ).requires_grad_(False)
            load_network(self._run.rated / name, net)
            seed = derived_seed(task.config.seed, "rated", version_steps(name))
            self._agents[name] = NetworkAgent(net, seed=seed)
        return self._agents[name]

    def _rated(self) -> Iterator[RatedPlayer]:
        names = list(self._games)
        results = [
            (i, names.index(opponent), score)
            for i, name in enumerate(names)
            for opponent, counts in self._games[name].items()
            for score, count in zip((1.0, 0.5, 0.0), counts, strict=True)
            for _ in range(count)
        ]
        rating, deviation = rate(len(names), results)
        for i, name in enumerate(names):
            steps = None if name in self._references else version_steps(name)
            yield RatedPlayer(name, steps, float(rating[i]), float(deviation[i]), self._games[name])
