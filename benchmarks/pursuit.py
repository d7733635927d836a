"""The effect of team spirit on hunters: trains pursuit in self-play with each, and counts catches.

python -m benchmarks.pursuit --seeds 1 2 3
python -m benchmarks.pursuit --seeds 1 total_timesteps=50_000 --games 100

The seats of a team share their rewards by 0, 0.5, 1, or by a part that goes from 0.2 to 0.97 over
the training, as in OpenAI Five. Afterwards the network plays hunters against scripted runners, and
runners against scripted hunters. The table has the catches of all hunters in a game, with intervals
of 95% over games for each seed, and over seeds if there are several. Further arguments are settings
of the training.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from ragged_envs.pursuit import Pursuit

from benchmarks.arguments import parse_with_settings
from entity_env import SeatRows
from entity_env.agent import Agent
from entity_env.play import VecPolicy
from ppo_trainer import recipe, train
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows
from ppo_trainer.players.opponents import make_opponent

Floats: TypeAlias = npt.NDArray[np.float64]

SPIRITS: dict[str, tuple[str, ...]] = {
    "0": (),
    "0.5": ("selfplay.team_spirit=0.5",),
    "1": ("selfplay.team_spirit=1.0",),
    "0.2 to 0.97": ("selfplay.team_spirit=0.2", "selfplay.team_spirit_end=0.97"),
}
SCRIPT = "ragged_envs.pursuit.chase_or_flee"
# Two-sided 95% of Student's t with so many degrees of freedom.
STUDENT = (np.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
HUNTERS, RUNNERS = 0, 1


@dataclass(frozen=True)
class Fixed:
    """A ``Matchmaker``: the learner plays one side, one agent the other."""

    opponent: Agent
    side: int

    def draw(self, game: int) -> Lineup:
        """Return the same lineup for each game."""
        return Lineup("script", self.side)

    def agent(self, name: str) -> Agent:
        """Return the only opponent."""
        return self.opponent

    def ended(self, lineup: Lineup, score: float) -> None:
        """Ignore the score."""

    def shown_name(self, name: str) -> str:
        """Return the opponent's name."""
        return name


def catches(game: Pursuit, policy: VecPolicy, side: int, games: int, seed: int) -> Floats:
    """Return the hunters' catches in each game; the policy plays one side. Shape: (games,)."""
    spaces = game.obs_space(), game.action_space()
    seats = len(game.seats())
    inner = SeatRows(lambda: Pursuit(game.hunters, game.runners), games * seats, seed=seed)
    opponent = make_opponent(SCRIPT, *spaces, seed=seed, device="cpu")
    sides = [list(range(game.hunters)), list(range(game.hunters, seats))]
    rows = OpponentRows(inner, sides, Fixed(opponent, side))
    obs, caught = rows.reset(), np.zeros(games)
    # All games take the same number of steps; a row of a runner ends once for each catch.
    for _ in range(game.max_steps):
        obs = rows.act(policy(obs))
        gained = obs.reward.reshape(games, seats)
        own = gained[:, : game.hunters] if side == HUNTERS else -gained[:, game.hunters :]
        caught += own.sum(axis=1)
    rows.close()
    return caught


def interval(values: Floats) -> tuple[float, float]:
    """Return the mean, and half the width of its interval of 95%."""
    count = len(values)
    factor = STUDENT[count - 1] if count <= len(STUDENT) else 1.96
    return float(values.mean()), float(factor * values.std(ddof=1) / count**0.5)


def measure(name: str, seed: int, games: int, settings: Sequence[str]) -> tuple[float, float]:
    """Train, and print catches as hunters and as runners."""
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        fixed = (f"seed={seed}", "device=cpu", f"run_dir={folder}", "eval.episodes=0")
        config = recipe("pursuit", *fixed, *SPIRITS[name], *settings)
        result = train(config)
    policy = NetworkAgent(result.net, seed=seed, precision=config.precision).act_rows
    own = [catches(Pursuit(), policy, side, games, seed) for side in (HUNTERS, RUNNERS)]
    shown = [f"{mean:.2f} +- {reach:.2f}" for mean, reach in map(interval, own)]
    print(
        f"{name:12s} {seed:4d} {result.steps:10,d} {time.process_time() - begun:6.0f} CPU-s   "
        f"hunts {shown[0]:14s} is hunted {shown[1]}",
        flush=True,
    )
    return float(own[0].mean()), float(own[1].mean())


def main() -> None:
    """Measure each kind of team spirit with each seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--games", type=int, default=200)
    given, settings = parse_with_settings(parser)
    torch.set_num_threads(1)
    print("team spirit  seed      steps                catches a game")
    for name in SPIRITS:
        found = [measure(name, seed, given.games, settings) for seed in given.seeds]
        if len(found) > 1:
            shown = [interval(np.array(own)) for own in zip(*found, strict=True)]
            print(
                f"{name:12s} seeds: hunts {shown[0][0]:.2f} +- {shown[0][1]:.2f}, "
                f"is hunted {shown[1][0]:.2f} +- {shown[1][1]:.2f}"
            )


if __name__ == "__main__":
    main()
