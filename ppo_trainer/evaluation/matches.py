"""Matches of players on all sides of a game, and ratings of players from their games."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from entity_env import VecEnv, VecObs
from entity_env.agent import Agent, VecPolicy
from entity_env.errors import SettingError
from entity_env.metrics import complete_columns, metric_columns
from entity_env.play import PlayBudget, play
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.players.opponent_rows import Lineup, OpponentRows

__all__ = ["SCALE", "count_results", "play_pair", "play_sides", "rate"]

_MOST_GAMES = 32
"""Number of games of each side that are played at once."""


def play_sides(
    player: Agent | Callable[[VecEnv], VecPolicy],
    game: Game,
    config: TrainConfig,
    episodes: int,
    opponent: Agent,
    *,
    seed: int,
    budget: PlayBudget | None = None,
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the metrics of each episode of one player against another, who plays all other seats.

    The games of each side are played to their end. Games that the time limit leaves out are left
    out of each side alike; at least one game is played to its end.

    Args:
        player: Player whose episodes are measured, or a function that makes its policy for the
            rows of the games, such as a search.
        game: Game for several players.
        config: Settings, of which ``eval.max_steps`` is used.
        episodes: Number of episodes, rounded up to the same number from each side.
        opponent: Player of the other sides.
        seed: Seed of the games.
        budget: Time limit; None sets no limit.

    Returns:
        The metrics by name. Shape of each: (episodes,).

    Raises:
        SettingError: No game has ended.
    """
    kept, _ = _play(player, game, config, episodes, opponent, seed, budget or PlayBudget())
    return complete_columns(metric_columns(kept))


def play_pair(
    first: Agent, second: Agent, game: Game, config: TrainConfig, games: int, seed: int
) -> npt.NDArray[np.float64]:
    """Return the scores of the first player, one for each game: 1 for a win, 0.5 for a draw, 0.

    A game of teams counts once, too. With more than two sides one player plays one side and the
    other player all others; each is alone in half of the games. The score of a game is the mean
    over the seats of the player who is alone.

    Args:
        first: First player.
        second: Second player.
        game: Game for several players.
        config: Settings of the games.
        games: Number of games, rounded up to the same number for each side and each player alone.
        seed: Seed of the games.

    Returns:
        The scores. Shape: (games,).
    """
    places = [(first, second), (second, first)] if len(game.sides()) > 2 else [(first, second)]
    scores = []
    for alone, others in places:
        alone.reset()
        others.reset()
        number = -(-games // len(places))
        results = np.array(_play(alone, game, config, number, others, seed, PlayBudget())[1])
        scores.append(results if alone is first else 1 - results)
    return np.concatenate(scores)


def count_results(scores: npt.ArrayLike) -> tuple[int, int, int]:
    """Return the numbers of games that were won, drawn and lost."""
    values = np.asarray(scores)
    won, lost = int((values > 0.5).sum()), int((values < 0.5).sum())
    return won, values.size - won - lost, lost


def _play(
    player: Agent | Callable[[VecEnv], VecPolicy],
    game: Game,
    config: TrainConfig,
    episodes: int,
    opponent: Agent,
    seed: int,
    budget: PlayBudget,
) -> tuple[list[dict[str, float]], list[float]]:
    """Return the metrics of each episode, and the score of each game."""
    if game.is_endless:
        raise SettingError(
            f"games of {game.name} have no winner, because they never end",
            expected="a game with an end; python -m ppo_trainer.evaluate RUN measures episodes",
        )
    sides = game.sides()
    per_side = -(-episodes // len(sides))
    at_once = min(per_side, _MOST_GAMES)
    table = _EachSide(opponent, len(sides))
    seats = sum(map(len, sides))
    wanted = np.repeat([len(part) for part in np.array_split(range(per_side), at_once)], len(sides))
    summaries: list[list[dict[str, float]]] = [[] for _ in wanted]
    with game.rows(len(wanted) * seats, seed) as rows, OpponentRows(rows, sides, table) as played:
        policy = player(rows) if callable(player) else player.act_rows
        steps = play(played, lambda obs: policy(obs) if obs.num_frames else {})
        next(steps)
        most = (config.eval.max_steps or 10**9) * int(wanted.max())
        for _ in range(most):
            counts = np.bincount(table.ended_games, minlength=len(wanted))
            if (counts >= wanted).all() or (budget.is_up() and any(summaries)):
                break
            obs = next(steps)
            for row in np.flatnonzero(obs.done).tolist():
                if counts[row // seats] < wanted[row // seats]:
                    summaries[row // seats].append(_summary(obs, row))
            budget.step(int(obs.done.sum()))
    kept = [summary for row in summaries for summary in row]
    if not kept:
        raise SettingError(
            "no game has ended", expected="more time (--seconds), or a larger eval.max_steps"
        )
    counts = np.zeros_like(wanted)
    scores = []
    for number, score in zip(table.ended_games, table.scores, strict=True):
        counts[number] += 1
        if counts[number] <= wanted[number]:
            scores.append(score)
    return kept, scores


class _EachSide:
    """A matchmaker that gives the player the same side in all games of a table."""

    def __init__(self, opponent: Agent, sides: int) -> None:
        self._opponent, self._sides = opponent, sides
        self.ended_games: list[int] = []
        self.scores: list[float] = []  # in the order in which ``ended`` is called
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
        """Store the score of a game; ``draw`` is called for the same game next."""
        self.scores.append(score)

    def shown_name(self, name: str) -> str:
        """Return the name of the only opponent."""
        return "opponent"


def _summary(obs: VecObs, row: int) -> dict[str, float]:
    metrics = {name: float(column[row]) for name, column in obs.metrics.items()}
    metrics = {name: value for name, value in metrics.items() if value == value}
    score = metrics.pop("win_vs_opponent")
    return {"win": score, **metrics}


F64 = npt.NDArray[np.float64]

SCALE = 400 / np.log(10)
"""Rating points for each unit of the logarithm of the odds: 400 points are odds of 10 to 1."""
_PRIOR = 0.1
"""Precision of the normal prior of strengths, for players that have won or lost all games."""
_MOST_STEPS = 200


def rate(won: npt.ArrayLike, drawn: npt.ArrayLike, anchor: int | None = None) -> tuple[F64, F64]:
    """Return ratings and their standard deviations, by maximum likelihood of all games.

    Davidson's model: a win of i, a win of j and a draw have probabilities in the proportion
    ``p_i : p_j : nu * sqrt(p_i p_j)``. The rating is ``400 log10 p``. A weak normal prior keeps the
    rating finite if a player has won all games. The order of games does not matter.

    Args:
        won: Wins of the row's player against the column's player. Shape: (players, players).
        drawn: Number of their draws, symmetric. Shape: (players, players).
        anchor: Player whose rating is 0; None sets the mean of all ratings to 0.

    Returns:
        The ratings and their standard deviations. Shape of each: (players,).

    Source:
        Davidson, "On extending the Bradley-Terry model to accommodate ties in paired comparison
        experiments", JASA 65, 1970.
    """
    wins, draws = np.asarray(won, np.float64), np.asarray(drawn, np.float64)
    count = len(wins)
    games = wins + wins.T + draws
    margin = (wins - wins.T) / 2
    strength = np.zeros(count + 1)  # log p of each player, and log nu
    for _ in range(_MOST_STEPS):
        lead = (strength[:count, None] - strength[:count]) / 2
        chances = np.exp(np.stack([lead, -lead, np.full_like(lead, strength[count])]))
        first, second, draw = chances / chances.sum(axis=0)
        expected = (first - second) / 2
        slope = np.zeros(count + 1)
        slope[:count] = (margin - games * expected).sum(axis=1)
        slope[count] = np.triu(draws - games * draw, 1).sum()
        slope -= _PRIOR * strength
        information = np.empty((count + 1, count + 1))
        variance = games * ((first + second) / 4 - expected**2)
        information[:count, :count] = np.diag(variance.sum(axis=1)) - variance
        information[:count, count] = information[count, :count] = -(games * draw * expected).sum(
            axis=1
        )
        information[count, count] = np.triu(games * draw * (1 - draw), 1).sum()
        information += _PRIOR * np.eye(count + 1)
        step = np.linalg.solve(information, slope)
        strength += step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    covariance = np.linalg.inv(information)[:count, :count]
    shift = np.eye(count)
    shift -= 1 / count if anchor is None else shift[anchor].copy()
    covariance = shift @ covariance @ shift.T
    deviation = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    return SCALE * (shift @ strength[:count]), SCALE * deviation
