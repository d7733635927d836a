"""The games of several players: trains a recipe against itself, and measures it.

python -m benchmarks.games tic_tac_toe --seeds 1 2 3
python -m benchmarks.games connect_four
python -m benchmarks.games connect_four --run runs/<run>     measures a run that is there
python -m benchmarks.games kuhn_poker leduc_poker
python -m benchmarks.games photosynthesis
python -m benchmarks.games kuhn_poker total_timesteps=100_000 ppo.entropy_coef=0.3

What follows the names are settings of the training. Games against opponents are played from all
seats, drawn for each game. Intervals are of 95%. The exploitability of poker is
exact: that of the network, and that of the average of all networks in the second half of the
training so far.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from ragged_envs.connect_four import ConnectFour
from ragged_envs.connect_four_script import Minimax
from ragged_envs.photosynthesis import Photosynthesis
from ragged_envs.photosynthesis_script import grow_greedily
from ragged_envs.poker import InfoState, KuhnPoker, LeducPoker, PokerGame
from ragged_envs.tic_tac_toe import PerfectPlayer, TicTacToe

from benchmarks.arguments import parse_with_settings
from benchmarks.exploitability import exploitability, info_states, uniform
from entity_env import MaskedEnvironment, batch_obs
from entity_env.errors import EntityEnvError
from entity_env.play import play_episodes, play_scripted, random_policy
from ppo_trainer import recipe, train
from ppo_trainer.config import TrainConfig
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.runs.load_run import LoadedRun, load_policy
from ragged_net import EntityBatch, RaggedNet

CPU = torch.device("cpu")
Opponent = Callable[[], Any]

BOARDS: dict[str, tuple[Any, dict[str, Opponent], int]] = {
    "tic_tac_toe": (TicTacToe, {"random": lambda: "random", "perfect": PerfectPlayer}, 1000),
    "connect_four": (
        ConnectFour,
        {"random": lambda: "random", "minimax, depth 4": lambda: Minimax(4)},
        1000,
    ),
    "photosynthesis": (
        Photosynthesis,
        {"random": lambda: "random", "greedy": lambda: grow_greedily},
        200,
    ),
}
POKER: dict[str, type[PokerGame]] = {"kuhn_poker": KuhnPoker, "leduc_poker": LeducPoker}
SCRIPTS: dict[str, Callable[[], Any]] = {
    "tic_tac_toe": PerfectPlayer,
    "connect_four": lambda: Minimax(4),
    "photosynthesis": lambda: grow_greedily,
}


def table_policy(game: PokerGame, net: RaggedNet) -> Callable[[InfoState], npt.NDArray[np.float64]]:
    """Return the probabilities of a network in every state of a poker game."""
    states = list(info_states(game.rules))
    batch = batch_obs(
        [game.observe_state(state) for state in states], game.obs_space(), game.action_space()
    )
    with torch.no_grad():
        probs = net(EntityBatch.from_obs(batch)).actions["Bet"].probs
    assert isinstance(probs, torch.Tensor)
    table = dict(zip(states, probs.double().numpy(), strict=True))
    return table.__getitem__


def poker(name: str, seed: int, settings: Sequence[str], points: int = 20) -> None:
    """Train, and print exploitability over the training."""
    game = POKER[name]()
    rules = game.rules
    print(f"{name}, seed {seed}: uniform play {exploitability(rules, uniform(rules)):.3f}")
    print("steps      network  agent")
    begun = time.process_time()

    def measure(session: Any) -> None:
        total = -(-session.config.total_timesteps // points)
        before = session.steps - session.config.rollout.num_envs * session.config.rollout.steps
        if session.steps // total == before // total:
            return
        found = [
            exploitability(rules, table_policy(game, net))
            for net in (session.net, session.state.acting)
        ]
        print(f"{session.steps:9,d}  {found[0]:7.4f}  {found[1]:7.4f}", flush=True)

    with _config(name, seed, settings) as config:
        train(config, callbacks=measure)
    print(f"{time.process_time() - begun:.0f} CPU-s")


def board(
    name: str, seed: int, settings: Sequence[str], run: str | None, episodes: int | None
) -> None:
    """Train, or load a run, and print its results against each opponent."""
    game, opponents, usual = BOARDS[name]
    episodes = episodes or usual
    begun = time.process_time()
    if run is None:
        with _config(name, seed, settings) as config:
            result = train(config)
            net = result.net
        print(
            f"{name}, seed {seed}: {result.steps:,} steps, {time.process_time() - begun:.0f} CPU-s"
        )
    else:
        loaded = _load(game, run)
        net, config = loaded.net, loaded.config
        print(f"{name}, {run}")
    rows = min(100, episodes)
    for against, make in opponents.items():
        for greedy in (True, False):
            agent = NetworkAgent(net, seed=seed, greedy=greedy, precision=config.precision)
            metrics = play_episodes(
                lambda make=make: MaskedEnvironment(game, make()),  # type: ignore[misc]
                agent.act_rows,
                episodes,
                seed,
                rows=rows,
            )
            _show("greedy" if greedy else "sampled", against, metrics)
    for against, make in opponents.items():
        create = functools.partial(MaskedEnvironment, game)
        metrics = play_scripted(
            lambda create=create, make=make: create(make()),  # type: ignore[misc]
            SCRIPTS[name](),
            min(episodes, 300),
            seed,
        )
        _show("script", against, metrics)
    create = functools.partial(MaskedEnvironment, game)
    _show("random", "random", play_episodes(create, random_policy(seed), episodes, seed, rows=rows))


def _load(game: Any, run: str) -> LoadedRun:
    """Load a run of this game; refuse a run of another one."""
    return load_policy(run, functools.partial(MaskedEnvironment, game, "random"), "cpu")


def _show(player: str, against: str, metrics: dict[str, npt.NDArray[np.float64]]) -> None:
    """Print a line of the table: the mean win, where draws count half, and shares of results."""
    played = Evaluation(player, metrics)
    low, high = played.interval("win")
    wins = metrics["win"]
    print(
        f"  {player:8s} against {against:18s} "
        f"win {played.mean('win'):.4f} ({low:.4f} to {high:.4f})"
        f"  won {(wins == 1).mean():.4f}  shared {((wins > 0) & (wins < 1)).mean():.4f}"
        f"  lost {(wins == 0).mean():.4f}  of {len(wins):,}",
        flush=True,
    )


@contextmanager
def _config(name: str, seed: int, settings: Sequence[str]) -> Iterator[TrainConfig]:
    """Give the recipe, with a run folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        fixed = (f"seed={seed}", "device=cpu", f"run_dir={folder}", "eval.episodes=0")
        yield recipe(name, *fixed, *settings)


def main() -> None:
    """Measure the games that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=(*BOARDS, *POKER), metavar="GAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--run", help="measure this run instead of training")
    parser.add_argument("--episodes", type=int, help="games against each opponent")
    given, settings = parse_with_settings(parser)
    torch.set_num_threads(1)
    try:
        for name, seed in itertools.product(given.names, given.seeds):
            if name in POKER:
                poker(name, seed, settings)
            else:
                board(name, seed, settings, given.run, given.episodes)
    except EntityEnvError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
