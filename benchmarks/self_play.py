"""What self-play costs: decisions that are trained on per second, beside one seat alone.

python -m benchmarks.self_play

One update of PPO on tic_tac_toe, again and again, in turns: of the network on one seat among random
players (``MaskedEnvironment``), on all seats (``mirror``), and against a pool of four earlier
versions, in the default share of the games and in all of them. With ``--learn`` a network is
trained by ``selfplay=pool`` instead, and measured against random play (some minutes).
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from ppo_trainer.algorithms.update import make_optimizers, update
from ragged_envs.tic_tac_toe import TicTacToe

from benchmarks.measure import Row, alternate, print_rows, speed_row
from entity_env import ListEnv, MaskedEnvironment, SeatRows, VecEnv, VecObs
from ppo_trainer import train
from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.config import (
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    SelfPlayConfig,
    TrainConfig,
)
from ppo_trainer.environments import Game
from ppo_trainer.experience.collect import collect
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.experience.trajectories import Decisions
from ppo_trainer.play.against import evaluate_against
from ppo_trainer.play.evaluation import Evaluation
from ppo_trainer.players.self_play import SelfPlay
from ppo_trainer.reporting.stopwatch import Stopwatch
from ppo_trainer.runs.folder import RunFolder
from ragged_net import NetConfig, RaggedNet

CONFIG = TrainConfig(
    env={"_target_": "tic_tac_toe"},
    device="cpu",
    rollout=RolloutConfig(num_envs=128, steps=8),
    net=NetConfig(dim=64, layers=2),
    ppo=PPOConfig(epochs=3, minibatch_size=512),
)
VERSIONS = 4


def rows() -> list[Row]:
    """Mirror and pools beside one seat."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            "one seat": _updates(CONFIG, None),
            "mirror": _updates(CONFIG, RunFolder(Path(folder))),
            "pool": _updates(_pool(0.2), RunFolder(Path(folder) / "few")),
            "pool, all games": _updates(_pool(1.0), RunFolder(Path(folder) / "all")),
        }
        times = alternate(cases, seconds=0.1, budget=25.0)
    per_call = CONFIG.rollout.num_envs * CONFIG.rollout.steps
    targets = {"mirror": 0.95, "pool": 0.75, "pool, all games": None}
    labels = {"pool": "pool of 4, 20% of the games", "pool, all games": "pool of 4, all games"}
    return [
        speed_row(
            f"{labels.get(name, name)}, tic_tac_toe, 128 rows",
            times[name],
            times["one seat"],
            "one seat among random players",
            target=target,
            per_call=per_call,
            unit="decisions/s",
        )
        for name, target in targets.items()
    ]


def _pool(past: float) -> TrainConfig:
    own = SelfPlayConfig(mode="pool", past=past, every=1, keep=VERSIONS)
    return replace(CONFIG, selfplay=own)


def _updates(config: TrainConfig, run: RunFolder | None) -> Callable[[], object]:
    """A function that makes one update; ``run`` None: of one seat."""
    torch.manual_seed(0)
    count = config.rollout.num_envs
    inner: VecEnv
    if run is None:
        inner = ListEnv(functools.partial(MaskedEnvironment, TicTacToe), count, seed=1)
    else:
        inner = SeatRows(TicTacToe, count, seed=1)
    net = RaggedNet(inner.obs_space(), inner.action_space(), config.net)
    players = None
    if run is not None:
        players = SelfPlay.of(config, Game(TicTacToe, {}), net, torch.device("cpu"))
    if players is not None and run is not None:
        for number in range(VERSIONS):
            players.after_update(run, number, number)
    env = inner if players is None else players.around(inner)
    optimizers, buffer = make_optimizers(net, config), RolloutBuffer(count, config.rollout.steps)
    generators = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    clock, state = Stopwatch(), _State(env.reset())

    def once() -> None:
        collected = collect(
            net, env, state.obs, config, generators[0], clock, buffer, state.pending
        )
        state.obs, state.pending = collected.next_obs, collected.pending
        rollout = estimate(collected.trajectories, config.ppo)
        update(net, optimizers, rollout, config, 0.0, generators[1], clock)
        assert len(rollout) >= config.frames_per_update

    return once


@dataclass
class _State:
    """Where the next update goes on."""

    obs: VecObs
    pending: Decisions | None = None


def learn(seed: int, steps: int) -> Evaluation:
    """How a network that was trained by ``selfplay=pool`` does against random play."""
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(
            env={"_target_": "tic_tac_toe"},
            seed=seed,
            total_timesteps=steps,
            device="cpu",
            run_dir=folder,
            rollout=RolloutConfig(num_envs=128, steps=8),
            net=NetConfig(dim=64, layers=2),
            ppo=PPOConfig(
                epochs=4,
                minibatch_size=256,
                gamma=1.0,
                entropy_coef=0.03,
                entropy_schedule="linear",
                value_coef=1.0,
            ),
            optim=OptimConfig(lr=2e-3),
            eval=EvalConfig(episodes=0, seconds=0.0),
            selfplay=SelfPlayConfig(mode="pool", every=10, opponents=("random",), past=0.4),
        )
        net = train(config).net
        game = Game(TicTacToe, {})
        device = torch.device("cpu")
        (result,) = evaluate_against(net, game, config, device, 1000, ["random"], greedy=True)
    return result


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="What self-play costs, and what it teaches.")
    parser.add_argument("--learn", type=int, nargs="*", metavar="SEED", help="train instead")
    parser.add_argument("--steps", type=int, default=150_000, help="decisions of a training")
    given = parser.parse_args()
    if given.learn is None:
        print_rows(rows())
        return
    for seed in given.learn or [1]:
        result = learn(seed, given.steps)
        low, high = result.interval("win")
        lost = (result.metrics["win"] == 0.0).mean()
        print(
            f"seed {seed}: {result.mean('win'):.3f} ({low:.3f} to {high:.3f}) of "
            f"{result.episodes} games against random play, {lost:.3f} lost"
        )


if __name__ == "__main__":
    main()
