"""A network against named opponents, from every side of a game the same number of games."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from entity_env import VecObs
from entity_env.agent import Agent
from entity_env.metrics import complete_columns, metric_columns
from entity_env.player.episodes import VecPolicy
from entity_env.player.play_budget import PlayBudget
from entity_env.rows.vec_env import check_count
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.errors import ConfigError
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.play.evaluation import Evaluation, network_policy
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows
from ppo_trainer.players.opponents import make_opponent, opponent_labels
from ppo_trainer.players.self_play import sides_of
from ragged_net import RaggedNet

__all__ = ["evaluate_against", "play_against", "play_sides"]

_MOST_GAMES = 32
"""Games of each side at once."""


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
    """How the network does against each opponent, who draws its choices.

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
    if not game.has_seats:
        raise ConfigError(
            f"{game.name} is no game of several players",
            expected="a game with seats for opponents",
        )
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
    """The metrics of each episode of a network against one opponent; see ``play_sides``."""
    seed = derived_seed(config.seed, "against")
    policy = network_policy(net, config, torch.Generator(device).manual_seed(seed), greedy=greedy)
    return play_sides(policy, game, config, episodes, opponent, seed=seed, seconds=seconds)


def play_sides(
    policy: VecPolicy,
    game: Game,
    config: TrainConfig,
    episodes: int,
    opponent: Agent,
    *,
    seed: int,
    seconds: float = 0.0,
) -> dict[str, npt.NDArray[np.float64]]:
    """The metrics of each episode of one player against another, who plays all other seats.

    Each side plays its games to their end. What the time does not allow is left out, of each side
    alike.

    Args:
        policy: The player whose episodes these are.
        game: A game of several players.
        config: Its ``eval.max_steps`` is used.
        episodes: How many, rounded up so that each side has as many.
        opponent: Plays the other sides.
        seed: Of the games.
        seconds: The time that there is; 0 sets no limit.

    Returns:
        Shape of each: (episodes,).

    Raises:
        ConfigError: No game has ended.
    """
    sides = sides_of(game)
    per_side = -(-episodes // len(sides))
    at_once = min(per_side, _MOST_GAMES)
    table = _EachSide(opponent, len(sides))
    seats = sum(map(len, sides))
    wanted = np.repeat([len(part) for part in np.array_split(range(per_side), at_once)], len(sides))
    summaries: list[list[dict[str, float]]] = [[] for _ in wanted]
    budget = PlayBudget(seconds)
    with game.rows(len(wanted) * seats, seed) as rows, OpponentRows(rows, sides, table) as played:
        obs = played.reset()
        most = (config.eval.max_steps or 10**9) * int(wanted.max())
        for _ in range(most):
            counts = np.bincount(table.ended_games, minlength=len(wanted))
            if (counts >= wanted).all() or budget.is_up():
                break
            obs = played.act(policy(obs) if obs.num_frames else {})
            for row in np.flatnonzero(obs.done).tolist():
                if counts[row // seats] < wanted[row // seats]:
                    summaries[row // seats].append(_summary(obs, row))
            budget.step(int(obs.done.sum()))
    kept = [summary for own in summaries for summary in own]
    if not kept:
        raise ConfigError(
            "no game has ended", expected="a longer time (--seconds), or eval.max_steps"
        )
    return complete_columns(metric_columns(kept))


class _EachSide:
    """The network keeps its side in each game: that of the game before, and one more."""

    def __init__(self, opponent: Agent, sides: int) -> None:
        self._opponent, self._sides = opponent, sides
        self.ended_games: list[int] = []
        self._begun: set[int] = set()

    def draw(self, game: int) -> Lineup:
        """The side of a game."""
        if game in self._begun:
            self.ended_games.append(game)
        self._begun.add(game)
        return Lineup("opponent", game % self._sides)

    def agent(self, name: str) -> Agent:
        """The opponent."""
        return self._opponent

    def ended(self, lineup: Lineup, score: float) -> None:
        """What ``draw`` hears of the next game is enough."""

    def shown_name(self, name: str) -> str:
        """There is one opponent only."""
        return name


def _summary(obs: VecObs, row: int) -> dict[str, float]:
    own = {name: float(column[row]) for name, column in obs.metrics.items()}
    own = {name: value for name, value in own.items() if value == value}
    score = own.pop("win_vs_opponent")
    return {"win": score, **own}
