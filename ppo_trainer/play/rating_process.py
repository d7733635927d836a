"""The process that rates versions of a run while the run trains.

It runs at the lowest priority and ends when the training process ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from entity_env import ActionSpace, ObsSpace
from entity_env.agent import Agent
from entity_env.storage.files import remove
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.machine.helper_process import read_task
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.play.sides import count_results, play_pair
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponents import make_opponent
from ppo_trainer.players.paired_comparison import rate
from ppo_trainer.runs.checkpoint import load_network
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.ratings_file import RatedPlayer, read_ratings, write_ratings
from ragged_net import RaggedNet

__all__ = ["RatingTask", "Ratings", "main", "version_steps"]

_LAST_VERSIONS = 3
"""Number of earlier versions that a version plays, besides the reference players."""
_PAUSE = 0.5  # seconds
_MOST_FITTED = 500
"""Number of newest players that are fitted together, in about a second; older ratings stay."""


@dataclass(frozen=True)
class RatingTask:
    """The task of the process.

    Args:
        run: Run folder, whose folder ``rated`` contains the versions.
        game: The game.
        config: Settings of the run.
        obs_space: Observation space of the networks.
        action_space: Action space of the networks.
    """

    run: Path
    game: Game
    config: TrainConfig
    obs_space: ObsSpace
    action_space: Mapping[str, ActionSpace]


def main() -> None:
    """Read a pickled ``RatingTask``, and rate versions until the process is ended."""
    task: RatingTask = read_task()
    if hasattr(os, "nice"):  # not on Windows
        os.nice(19)
    ratings = Ratings(task)
    while True:
        if not ratings.rate_newest():
            time.sleep(_PAUSE)


def version_steps(name: str) -> int:
    """Return the steps of a version by its name, ``step_<steps>`` or with ``_policy_<i>``."""
    return int(name.split("_")[1])


@dataclass
class Ratings:
    """The ratings of versions, which play against the reference players and each other.

    The rating of random play is 0, and 400 points are odds of 10 to 1.

    Args:
        task: The task.
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
        self._ratings = {name: (own.rating, own.deviation) for name, own in known.items()}
        if self._ratings.get("random", (0.0, 0.0)) != (0.0, 0.0):
            # A file of an older version has another scale: rate all of its games again.
            self._ratings.clear()
            players = list(self._games)
            for start in range(0, len(players), _MOST_FITTED):
                self._fit(players[: start + _MOST_FITTED])
            self._write()

    def rate_newest(self) -> bool:
        """Rate the newest version that has no rating, and return True if there was one.

        Older versions without a rating are left out, so that the ratings keep up with the training.
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
        played = task.config.selfplay.rating_games
        for place, opponent in enumerate(opponents):
            seed = derived_seed(task.config.seed, f"rating {place}", number)
            other = self._agent(opponent)
            scores = play_pair(agent, other, task.game, task.config, played, seed)
            games[opponent] = count_results(scores)
        self._games[name] = games
        self._fit(list(self._games))
        self._write()

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

    def _fit(self, names: list[str]) -> None:
        """Fit the ratings of the newest players, and of the references, to all their games."""
        fitted = list(dict.fromkeys([*self._references, *names[-_MOST_FITTED:]]))
        met = {other for name in fitted for other in self._games[name]}
        earlier = sorted(met.difference(fitted))
        everyone = [*fitted, *earlier]
        place = {name: i for i, name in enumerate(everyone)}
        won = np.zeros((len(everyone), len(everyone)))
        drawn = np.zeros_like(won)
        for name in fitted:
            for other, (wins, draws, losses) in self._games[name].items():
                i, j = place[name], place[other]
                won[i, j] += wins
                won[j, i] += losses
                drawn[i, j] += draws
                drawn[j, i] += draws
        known = None
        if earlier:
            known = np.full(len(everyone), np.nan)
            known[place["random"]] = 0.0
            known[len(fitted) :] = [self._ratings[name][0] for name in earlier]
        ratings = zip(*rate(won, drawn, place["random"], known), strict=True)
        for name, (rating, deviation) in zip(everyone, ratings, strict=True):
            if name not in earlier:
                self._ratings[name] = float(rating), float(deviation)

    def _write(self) -> None:
        write_ratings(
            self._run,
            [
                RatedPlayer(
                    name,
                    version_steps(name) if name.startswith("step_") else None,
                    *self._ratings[name],
                    games,
                )
                for name, games in self._games.items()
            ],
        )
