"""A network against named opponents, from every side of a game the same number of games."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from entity_env.agent import Agent
from entity_env.player.play_budget import PlayBudget
from entity_env.rows.vec_env import check_count
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.errors import ConfigError
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.play.evaluation import network_policy
from ppo_trainer.play.sides import play_sides
from ppo_trainer.players.opponents import make_opponent, opponent_labels
from ppo_trainer.players.sides import sides_of
from ppo_trainer.reporting.evaluation import Evaluation
from ragged_net import RaggedNet

__all__ = ["evaluate_against", "play_against"]


def evaluate_against(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    device: torch.device,
    episodes: int,
    opponents: Sequence[str],
    *,
    greedy: bool = False,
) -> list[Evaluation]:
    """Return the results of the network against each opponent, who draws its choices.

    Args:
        net: The network.
        game: A game of several players.
        config: Its seed, precision and ``eval.seconds`` are used.
        device: Where the network is.
        episodes: Games against each opponent, rounded up so that each side has as many.
        opponents: By name, as in ``selfplay.opponents``.
        greedy: The network takes the likeliest choices.

    Raises:
        ConfigError: A game for one player, or an opponent that does not exist or does not fit.
    """
    check_count("number of episodes", episodes, error=ConfigError)
    sides_of(game)  # a game for one player stops here
    made = {}
    for number, name in enumerate(opponents):
        seed = derived_seed(config.seed, "against", number)
        made[name] = make_opponent(
            name, net.obs_space, net.action_space, seed=seed, device=str(device)
        )
    results = []
    for name, label in opponent_labels(made).items():
        seconds = config.eval.seconds / len(made)
        result = play_against(
            net, game, config, device, episodes, made[name], greedy=greedy, seconds=seconds
        )
        results.append(Evaluation(f"against {label}", result))
    return results


def play_against(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    device: torch.device,
    episodes: int,
    opponent: Agent,
    *,
    greedy: bool = False,
    seconds: float = 0.0,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the metrics of each episode of a network against one opponent; see ``play_sides``."""
    seed = derived_seed(config.seed, "against")
    policy = network_policy(net, config, torch.Generator(device).manual_seed(seed), greedy=greedy)
    return play_sides(
        policy, game, config, episodes, opponent, seed=seed, budget=PlayBudget(seconds)
    )
