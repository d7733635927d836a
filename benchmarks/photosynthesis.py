"""Photosynthesis with four players: trains the recipe, and plays one seat against three others.

python -m benchmarks.photosynthesis --seeds 1 2 3
python -m benchmarks.photosynthesis --seeds 1 total_timesteps=50_000 --games 200

All is played in compiled rows, from every seat equally often. What follows are settings of the
training. Wins are the part of the victory that a seat has, equal for all at 0.25; intervals of 95%.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from ragged_envs.photosynthesis import PhotosynthesisRows

from benchmarks.arguments import parse_with_settings
from entity_env.agent import Agent
from entity_env.play import VecPolicy, random_policy
from ppo_trainer import recipe, train
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows
from ppo_trainer.players.opponents import make_opponent

Floats: TypeAlias = npt.NDArray[np.float64]

PLAYERS = 4
SCRIPT = "ragged_envs.photosynthesis_script.grow_greedily"


@dataclass(frozen=True)
class Seated:
    """A ``Matchmaker``: in each game the learner plays the next seat."""

    opponent: Agent

    def draw(self, game: int) -> Lineup:
        """Return the seat by the number of the game."""
        return Lineup("other", game % PLAYERS)

    def agent(self, name: str) -> Agent:
        """Return the only opponent."""
        return self.opponent

    def ended(self, lineup: Lineup, score: float) -> None:
        """Ignore the score."""

    def shown_name(self, name: str) -> str:
        """Return the opponent's name."""
        return name


def wins(policy: VecPolicy, against: str, games: int, seed: int) -> Floats:
    """Return the player's part of the victory in each game. Shape: (games,)."""
    inner = PhotosynthesisRows(games * PLAYERS, seed, PLAYERS)
    spaces = inner.obs_space(), inner.action_space()
    opponent = make_opponent(against, *spaces, seed=seed, device="cpu")
    rows = OpponentRows(inner, [[seat] for seat in range(PLAYERS)], Seated(opponent))
    obs, found = rows.reset(), np.full(games, np.nan)
    while np.isnan(found).any():
        obs = rows.act(policy(obs))
        for row in np.flatnonzero(obs.done):
            if np.isnan(found[row // PLAYERS]):  # the first game of each row counts
                found[row // PLAYERS] = obs.metrics["win"][row]
    rows.close()
    return found


def show(player: str, against: str, found: Floats) -> None:
    """Print a line of the table."""
    reach = 1.96 * found.std(ddof=1) / len(found) ** 0.5
    print(f"  {player:8s} against three {against:8s} {found.mean():.3f} +- {reach:.3f}", flush=True)


def main() -> None:
    """Train and measure with each seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--games", type=int, default=400)
    given, settings = parse_with_settings(parser)
    torch.set_num_threads(1)
    show("random", "random", wins(random_policy(0), "random", given.games, 0))
    for seed in given.seeds:
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            fixed = (f"seed={seed}", "device=cpu", f"run_dir={folder}", "eval.episodes=0")
            config = recipe("photosynthesis", *fixed, *settings)
            result = train(config)
        print(f"seed {seed}: {result.steps:,} steps, {time.process_time() - begun:.0f} CPU-s")
        for name, against in (("random", "random"), ("greedy", SCRIPT)):
            policy = NetworkAgent(result.net, seed=seed, precision=config.precision).act_rows
            games = given.games if name == "random" else min(given.games, 100)
            show("network", name, wins(policy, against, games, seed))


if __name__ == "__main__":
    main()
