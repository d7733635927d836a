"""Learning MineSweeper per CPU second, beside sb3-contrib's MaskablePPO.

Both play the same native game: 6 x 6 tiles, 5 mines, 2 robots. The time runs from making the
network, after kernels and libraries were loaded, until 95% and 99% of the last 1,000 training
episodes were won. Ours is the recipe of ``env=minesweeper``. The peer reads planes of a fixed size
with an MLP, which suits this one board best, with the strongest hyperparameters known for it here:
128 environments x 16 steps, batches of 1,024, 3 epochs, gamma 0.97, entropy 0.02.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.measure import Row, print_rows
from benchmarks.session import training
from ppo_trainer.command_line.configs import recipe
from ppo_trainer.config import TrainConfig
from ppo_trainer.loop import train_once
from ppo_trainer.machine.device import keep_freed_memory
from ppo_trainer.machine.stopwatch import Stopwatch

GOALS = (0.95, 0.99)
LAST = 1000
MOST_STEPS = 1_500_000
SEEDS = range(1, 6)
PEERS = {
    "MLP 128x128, lr 2e-3": {"size": 128, "lr": 2e-3, "seeds": (1, 2)},
    "MLP 256x256, lr 1e-3": {"size": 256, "lr": 1e-3, "seeds": (1,)},
}
TARGETS = {0.95: 5.0, 0.99: 8.0}


@dataclass(frozen=True)
class Reached:
    """CPU seconds and steps until each goal; a goal that was missed is left out."""

    seconds: Mapping[float, float]
    steps: Mapping[float, int]


class Goals:
    """Notices when enough of the last episodes were won."""

    def __init__(self) -> None:
        self.start = time.process_time()
        self.last: deque[float] = deque(maxlen=LAST)
        self.seconds: dict[float, float] = {}
        self.steps: dict[float, int] = {}

    def add(self, wins: list[float], steps: int) -> bool:
        """Add episodes in their order; whether all goals are reached."""
        self.last.extend(wins)
        rate = sum(self.last) / LAST if len(self.last) == LAST else 0.0
        for goal in GOALS:
            if rate >= goal and goal not in self.seconds:
                self.seconds[goal] = time.process_time() - self.start
                self.steps[goal] = steps
        return len(self.seconds) == len(GOALS)

    def result(self) -> Reached:
        """Return the goals that were reached."""
        return Reached(self.seconds, self.steps)


def ours(config: TrainConfig) -> Reached:
    """Train from entity lists until the goals are reached."""
    goals, wins = Goals(), []
    with training(config) as (session, obs):
        act = session.vec_env.act

        def noting(actions: Any) -> Any:
            obs = act(actions)
            if obs.done.any():
                wins.extend(obs.metrics["win"][obs.done].tolist())
            return obs

        session.vec_env.act = noting  # type: ignore[method-assign]
        clock = Stopwatch()
        while session.state.steps < config.total_timesteps:
            obs, _ = train_once(session, obs, clock)
            if goals.add(wins, session.state.steps):
                break
            wins.clear()
    return goals.result()


def peer(size: int, lr: float, seed: int) -> Reached:
    """Train MaskablePPO until the goals are reached."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import BaseCallback

    from benchmarks.planes import PlanesEnv

    env = PlanesEnv(128, seed)
    goals = Goals()

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            self.finished = goals.add(env.wins, self.num_timesteps)
            env.wins.clear()

    watch = Watch()

    class Stoppable(MaskablePPO):
        def train(self) -> None:
            if watch.finished:
                raise _Done
            super().train()

    model = Stoppable(
        "MlpPolicy",
        env,
        learning_rate=lr,
        n_steps=16,
        batch_size=1024,
        n_epochs=3,
        gamma=0.97,
        ent_coef=0.02,
        policy_kwargs={"net_arch": [size, size], "activation_fn": torch.nn.ReLU},
        seed=seed,
        device="cpu",
    )
    with contextlib.suppress(_Done):
        model.learn(MOST_STEPS, callback=watch)
    return goals.result()


class _Done(Exception):
    """The goals are reached."""


def rows() -> list[Row]:
    """Ours over five seeds, the peers over fewer."""
    torch.set_num_threads(1)
    keep_freed_memory()
    _warm_up()
    ran: list[Reached] = []
    peers: dict[str, list[Reached]] = {name: [] for name in PEERS}
    for seed in SEEDS:
        ran.append(ours(recipe("minesweeper", f"seed={seed}")))
        for name, facts in PEERS.items():
            if seed in facts["seeds"]:
                peers[name].append(peer(facts["size"], facts["lr"], seed))
    return [_row(goal, ran, name, results) for name, results in peers.items() for goal in GOALS]


def _row(goal: float, ran: list[Reached], name: str, results: list[Reached]) -> Row:
    reached = [run.seconds[goal] for run in ran if goal in run.seconds]
    theirs = [run.seconds[goal] for run in results if goal in run.seconds]
    median = statistics.median(reached) if len(reached) == len(ran) else float("inf")
    other = statistics.median(theirs) if theirs else float("inf")
    steps = statistics.median(run.steps[goal] for run in ran if goal in run.steps)
    return Row(
        case=f"{goal:.0%} of the last {LAST:,} games won, {len(reached)} of {len(ran)} seeds, "
        f"within {TARGETS[goal]:g} CPU-s",
        ours=f"{median:.1f} CPU-s ({min(reached):.1f} to {max(reached):.1f}), {steps:,.0f} steps"
        if reached
        else "never",
        baseline=f"MaskablePPO, {name}: {other:.1f} CPU-s",
        ratio=other / median,
        value=TARGETS[goal] / median,
        target=1.0,
    )


def _warm_up() -> None:
    """Load the compiled kernels: a program does so once."""
    ours(recipe("minesweeper", "seed=0", "total_timesteps=1"))


if __name__ == "__main__":
    print_rows(rows())
