"""One player against another, from every side of a game the same number of games."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from entity_env import VecObs
from entity_env.agent import Agent
from entity_env.metrics import complete_columns, metric_columns
from entity_env.player.play_budget import PlayBudget
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.errors import ConfigError
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows
from ppo_trainer.players.sides import sides_of

__all__ = ["play_games", "play_sides"]

_MOST_GAMES = 32
"""Games of each side at once."""


def play_sides(
    player: Agent,
    game: Game,
    config: TrainConfig,
    episodes: int,
    opponent: Agent,
    *,
    seed: int,
    budget: PlayBudget | None = None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the metrics of each episode of one player against another, who plays all other seats.

    Each side plays its games to their end. What the time does not allow is left out, of each side
    alike; one game is played to its end.

    Args:
        player: Whose episodes these are.
        game: A game of several players.
        config: Its ``eval.max_steps`` is used.
        episodes: How many, rounded up so that each side has as many.
        opponent: Plays the other sides.
        seed: Of the games.
        budget: The time that there is; None sets no limit.

    Returns:
        Shape of each: (episodes,).

    Raises:
        ConfigError: No game has ended.
    """
    kept, _ = _play(player, game, config, episodes, opponent, seed, budget or PlayBudget())
    return complete_columns(metric_columns(kept))


def play_games(
    player: Agent, game: Game, config: TrainConfig, games: int, opponent: Agent, *, seed: int
) -> npt.NDArray[np.float64]:
    """Return the score of each game, the mean over the seats of the player: 1, 0.5 or 0 for most.

    The games are those of ``play_sides``, which has an episode for each seat of a team.

    Raises:
        ConfigError: No game has ended.
    """
    _, scores = _play(player, game, config, games, opponent, seed, PlayBudget())
    return np.array(scores)


def _play(
    player: Agent,
    game: Game,
    config: TrainConfig,
    episodes: int,
    opponent: Agent,
    seed: int,
    budget: PlayBudget,
) -> tuple[list[dict[str, float]], list[float]]:
    """Return the metrics of each episode, and the score of each game."""
    sides = sides_of(game)
    per_side = -(-episodes // len(sides))
    at_once = min(per_side, _MOST_GAMES)
    table = _EachSide(opponent, len(sides))
    seats = sum(map(len, sides))
    wanted = np.repeat([len(part) for part in np.array_split(range(per_side), at_once)], len(sides))
    summaries: list[list[dict[str, float]]] = [[] for _ in wanted]
    with game.rows(len(wanted) * seats, seed) as rows, OpponentRows(rows, sides, table) as played:
        obs = played.reset()
        most = (config.eval.max_steps or 10**9) * int(wanted.max())
        for _ in range(most):
            counts = np.bincount(table.ended_games, minlength=len(wanted))
            if (counts >= wanted).all() or (budget.is_up() and any(summaries)):
                break
            obs = played.act(player.act_rows(obs) if obs.num_frames else {})
            for row in np.flatnonzero(obs.done).tolist():
                if counts[row // seats] < wanted[row // seats]:
                    summaries[row // seats].append(_summary(obs, row))
            budget.step(int(obs.done.sum()))
    kept = [summary for own in summaries for summary in own]
    if not kept:
        raise ConfigError(
            "no game has ended", expected="a longer time (--seconds), or eval.max_steps"
        )
    counts = np.zeros_like(wanted)
    scores = []
    for number, score in zip(table.ended_games, table.scores, strict=True):
        counts[number] += 1
        if counts[number] <= wanted[number]:
            scores.append(score)
    return kept, scores


class _EachSide:
    """The network keeps its side in each game: that of the game before, and one more."""

    def __init__(self, opponent: Agent, sides: int) -> None:
        self._opponent, self._sides = opponent, sides
        self.ended_games: list[int] = []
        self.scores: list[float] = []  # of each of them: ``ended`` is called in the same order
        self._begun: set[int] = set()

    def draw(self, game: int) -> Lineup:
        """Return the side of a game."""
        if game in self._begun:
            self.ended_games.append(game)
        self._begun.add(game)
        return Lineup(getattr(self._opponent, "name", "opponent"), game % self._sides)

    def agent(self, name: str) -> Agent:
        """Return the opponent."""
        return self._opponent

    def ended(self, lineup: Lineup, score: float) -> None:
        """Note the score of a game; ``draw`` then hears which one it was."""
        self.scores.append(score)

    def shown_name(self, name: str) -> str:
        """There is one opponent only."""
        return "opponent"


def _summary(obs: VecObs, row: int) -> dict[str, float]:
    own = {name: float(column[row]) for name, column in obs.metrics.items()}
    own = {name: value for name, value in own.items() if value == value}
    score = own.pop("win_vs_opponent")
    return {"win": score, **own}
