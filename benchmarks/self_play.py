"""The cost of self-play: decisions that are trained on per second, beside a single seat.

python -m benchmarks.self_play

Updates of PPO are repeated in turns, on a game in Python and on a compiled one. The network plays
one seat against random play (in a ``MaskedEnvironment``; in the compiled game with
``selfplay=fixed``), all seats (``mirror``), or against a pool of four earlier versions, in the
default share of the games or in all of them. With ``--learn`` a network is trained by
``selfplay=pool`` instead, and measured against random play (some minutes).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from ragged_envs.connect_four import ConnectFourRows
from ragged_envs.tic_tac_toe import TicTacToe

from benchmarks.measure import Row, Times, alternate, print_rows, speed_row
from entity_env import ListEnv, VecEnv
from ppo_trainer import train
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.config import (
    EvalConfig,
    OptimConfig,
    PPOConfig,
    RolloutConfig,
    SelfPlayConfig,
    TrainConfig,
)
from ppo_trainer.environments import Game
from ppo_trainer.evaluation.comparison import evaluate_against
from ppo_trainer.experience.acting import RowMemory
from ppo_trainer.experience.collect import Collector, collect
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.learner.optimizers import make_optimizers
from ppo_trainer.learner.update import update
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.players.self_play import SelfPlay
from ppo_trainer.reporting.evaluation import Evaluation
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
    """Mirror beside one seat, and pools beside mirror, of a game in Python and a compiled one."""
    torch.set_num_threads(1)
    return [row for game in (TicTacToe, ConnectFourRows) for row in _rows_of(game)]


def _rows_of(factory: Any) -> list[Row]:
    game = Game(factory, {})
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder))
        cases = {
            "one seat": _Updates(game, _SEAT, run),
            "mirror": _Updates(game, SelfPlayConfig(), run),
            "pool": _Updates(game, _pool(0.2), RunFolder(Path(folder) / "few")),
            "pool, all games": _Updates(game, _pool(1.0), RunFolder(Path(folder) / "all")),
        }
        times = alternate(cases, seconds=0.1, budget=25.0)
    # Of each decision: how many are complete at the end of a rollout differs between the cases.
    times = {
        name: Times(tuple(own / cases[name].per_update for own in taken.seconds))
        for name, taken in times.items()
    }
    targets = {"mirror": 0.95, "pool": 0.75, "pool, all games": None}
    labels = {"pool": "pool of 4, 20% of the games", "pool, all games": "pool of 4, all games"}
    return [
        speed_row(
            f"{labels.get(name, name)}, {game.name}, 128 rows",
            times[name],
            times["one seat" if name == "mirror" else "mirror"],
            "one seat, another plays at random" if name == "mirror" else "mirror",
            target=target,
            per_call=1.0,
            unit="decisions/s",
        )
        for name, target in targets.items()
    ]


_SEAT = SelfPlayConfig(mode="fixed", opponents=("random",))


def _pool(past: float) -> SelfPlayConfig:
    return SelfPlayConfig(mode="pool", past=past, every=1, keep=VERSIONS)


class _Updates:
    """Makes one update when it is called.

    Attributes:
        per_update: The decisions that it trains on in one, in the mean.
    """

    def __init__(self, game: Game, selfplay: SelfPlayConfig, run: RunFolder) -> None:
        torch.manual_seed(0)
        config = self._config = replace(CONFIG, selfplay=selfplay)
        count = config.rollout.num_envs
        inner: VecEnv
        if selfplay is _SEAT and not game.is_native:
            inner = ListEnv(game, count, seed=1)
        else:
            inner = game.rows(count, seed=1)
        net = self._net = RaggedNet(inner.obs_space(), inner.action_space(), config.net)
        players = None
        if inner.num_seats > 1:
            players = SelfPlay.of(config, game, net, torch.device("cpu"))
        if players is not None and selfplay.mode == "pool":
            for number in range(VERSIONS):
                players.after_update(run, number, number)
        self._players = players
        self._env = inner if players is None else players.around(inner)
        self._optimizers = make_optimizers(net, config)
        buffer, memory = RolloutBuffer(count, config.rollout.steps), RowMemory(net, count)
        self._generator = torch.Generator().manual_seed(1)
        self._collector = Collector(net, torch.Generator().manual_seed(0), buffer, memory)
        self._obs = self._env.reset()
        self._decisions = self._calls = 0

    @property
    def per_update(self) -> float:
        return self._decisions / self._calls

    def __call__(self) -> None:
        config, clock, algorithm = self._config, Stopwatch(), PPO(self._config.ppo)
        if self._players is not None:
            self._players.before_update(0.0)
        (collected,) = collect([self._collector], self._env, self._obs, config, clock)
        self._obs = collected.next_obs
        self._collector = replace(self._collector, pending=collected.pending)
        rollout = algorithm.estimate(collected.trajectories, self._net)
        update(algorithm, self._net, self._optimizers, rollout, config, 0.0, self._generator, clock)
        self._decisions += len(rollout)
        self._calls += 1


def learn(seed: int, steps: int) -> Evaluation:
    """Return the results against random play of a network trained by ``selfplay=pool``."""
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
        (result,) = evaluate_against(net, game, config, 1000, ["random"], greedy=True)
    return result


def main() -> None:
    """Run the command line."""
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
