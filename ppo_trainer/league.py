"""A league: each pair of players plays games, from which ratings and uncertainties are fitted.

    python -m ppo_trainer.league runs/a runs/b random scripted --games 200
    python -m ppo_trainer.league runs/a --follow

Players are run folders, their versions (``runs/a/snapshots/<version>``), ``random``, ``scripted``
(the scripted player of the first run), or dotted paths of scripts. They play the game of the first
run. Each pair plays the same number of games from each side. If a game has more than two sides, one
player of the pair plays one side and the other player all others, in turns.

Ratings are fitted to all games at once: 400 points are odds of 10 to 1, and the mean of all players
is 0. The command prints a table and writes ``league.json``, and the payoff matrix and ratings as
``league.png``, to the folder ``--out``.

With ``--follow`` the command rates each checkpoint of one run when it appears, until it is ended;
see ``ppo_trainer.evaluation.ratings``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import Agent
from entity_env.errors import SettingError, counted, shorten
from entity_env.rows.vec_env import check_count
from entity_env.storage.files import write_file
from ppo_trainer.evaluation.matches import count_results, play_pair, rate
from ppo_trainer.evaluation.ratings import GAMES, follow
from ppo_trainer.machine.commands import command_parser, run_main
from ppo_trainer.machine.device import use_threads
from ppo_trainer.machine.screen import deliver, log
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.opponents import make_opponent, opponent_labels
from ppo_trainer.runs.folder import named_policy
from ppo_trainer.runs.load_run import LoadedRun, load_policy

__all__ = ["League", "main", "play_league"]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class League:
    """The results of a league.

    Args:
        players: Names of the players.
        payoff: Mean score of the row's player against the column's player, where a draw counts 0.5;
            NaN on the diagonal. Shape: (players, players).
        games: Number of games of each pair. Shape: (players, players), int64.
        rating: Rating of each player: 400 points are odds of 10 to 1, the mean is 0. Shape:
            (players,).
        deviation: Standard deviation of each rating. Shape: (players,).
        sides: Number of sides of the game.
    """

    players: tuple[str, ...]
    payoff: F64
    games: npt.NDArray[np.int64]
    rating: F64
    deviation: F64
    sides: int = 2

    def table(self) -> str:
        """Return a table of the players by rating, with intervals of 95% and mean scores."""
        width = max(6, *(len(name) for name in self.players))
        lines = [f"{'player':{width}}  rating (95%)              score   games"]
        for i in np.argsort(-self.rating):
            half = 1.96 * self.deviation[i]
            low, high = self.rating[i] - half, self.rating[i] + half
            score = np.nansum(self.payoff[i] * self.games[i]) / self.games[i].sum()
            interval = f"{self.rating[i]:.0f} ({low:.0f} to {high:.0f})"
            lines.append(
                f"{self.players[i]:{width}}  {interval:24}  {score:.3f}   {self.games[i].sum():,}"
            )
        lines.append("400 points are odds of 10 to 1; the mean of all players is 0.")
        if self.sides > 2:
            lines.append(
                f"Of the {self.sides} sides one player of a pair plays one, the other player all "
                "others, in turns: each is alone in half of the games."
            )
        return "\n".join(lines)

    def facts(self) -> dict[str, Any]:
        """Return the results as JSON values."""
        payoff = [
            [None if np.isnan(score) else float(score) for score in row] for row in self.payoff
        ]
        return {
            "players": list(self.players),
            "payoff": payoff,
            "games": self.games.tolist(),
            "rating": self.rating.tolist(),
            "deviation": self.deviation.tolist(),
        }


def play_league(
    loaded: LoadedRun, names: Sequence[str], games: int = 200, *, greedy: bool = False
) -> League:
    """Play the games of each pair of players, and return the results.

    Args:
        loaded: Run whose game is played.
        names: Players, at least two.
        games: Number of games of each pair, rounded up to the same number from each side.
        greedy: True to let networks take their most likely choices.

    Raises:
        SettingError: There are fewer than two players, a player is named twice, the game is for one
            player, or an opponent does not exist or plays another game.
    """
    check_count("number of games", games, error=SettingError)
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingError(
            "a league needs at least two different players",
            expected="run folders, random, scripted, or dotted paths of scripts, each named once",
            received=shorten(list(names)),
        )
    game = loaded.game
    sides = len(game.sides())
    agents = _agents(loaded, names, greedy)
    labels = list(opponent_labels(names).values())
    count = len(names)
    payoff, played = np.full((count, count), np.nan), np.zeros((count, count), np.int64)
    won, drawn = np.zeros_like(played), np.zeros_like(played)
    for number, (i, j) in enumerate(combinations(range(count), 2)):
        seed = derived_seed(loaded.config.seed, "league", number)
        scores = play_pair(agents[i], agents[j], game, loaded.config, games, seed)
        won[i, j], drawn[i, j], won[j, i] = count_results(scores)
        drawn[j, i] = drawn[i, j]
        payoff[i, j], payoff[j, i] = scores.mean(), 1 - scores.mean()
        played[i, j] = played[j, i] = len(scores)
        log(f"{labels[i]} - {labels[j]}: {scores.mean():.3f} of {counted(len(scores), 'game')}")
    return League(tuple(labels), payoff, played, *rate(won, drawn), sides)


def draw(league: League) -> bytes:
    """Return a picture of the payoff matrix and the ratings, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(league.players)
    figure = Figure(figsize=(4 + 1.1 * count, 2.2 + 0.55 * count), layout="constrained")
    FigureCanvasAgg(figure)
    matrix, ratings = figure.subplots(1, 2, width_ratios=[1, 1])
    matrix.imshow(league.payoff, vmin=0, vmax=1, cmap="RdYlGn")
    for i, j in np.argwhere(~np.isnan(league.payoff)):
        matrix.text(j, i, f"{league.payoff[i, j]:.2f}", ha="center", va="center", fontsize=9)
    matrix.set_xticks(range(count), league.players, rotation=45, ha="right")
    matrix.set_yticks(range(count), league.players)
    matrix.set_title("score of the row's player against the column's player", fontsize=10)
    ratings.errorbar(league.rating, range(count), xerr=1.96 * league.deviation, fmt="o", capsize=3)
    ratings.set_yticks(range(count), league.players)
    ratings.set_ylim(count - 0.5, -0.5)
    ratings.set_title("rating, 95%", fontsize=10)
    ratings.grid(alpha=0.3)
    data = BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return data.getvalue()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("league", __doc__)
    parser.add_argument("players", nargs="+", help="run folders, random, scripted, scripts")
    parser.add_argument(
        "--games", type=int, help=f"games of each pair (200; {GAMES} with --follow)"
    )
    parser.add_argument("--greedy", action="store_true", help="take the most likely choices")
    parser.add_argument(
        "--replays",
        metavar="DIR",
        help="folder for replays of the games, for python -m entity_env.replay",
    )
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the results")
    parser.add_argument(
        "--follow", action="store_true", help="rate each checkpoint of a run when it appears"
    )
    options = parser.parse_args(arguments)
    if options.follow:
        if len(options.players) > 1 or options.greedy or options.replays is not None:
            parser.error("--follow rates a single run, without --greedy and --replays")
        games = GAMES if options.games is None else options.games
        follow(options.players[0], games=games, trust=options.trust)
    runs = [name for name in options.players if named_policy(name).expanduser().is_dir()]
    if not runs:
        raise SettingError(
            "no player of the league is a run, which would determine the game",
            expected="at least one run folder",
            received=shorten(options.players),
        )
    loaded = load_policy(runs[0], trust=options.trust, scripted=True)
    use_threads(loaded.config, loaded.device)
    loaded = loaded.writing_replays(options.replays)
    games = 200 if options.games is None else options.games
    league = play_league(loaded, options.players, games, greedy=options.greedy)
    options.out.mkdir(parents=True, exist_ok=True)
    write_file(options.out / "league.json", json.dumps(league.facts(), indent=1).encode())
    write_file(options.out / "league.png", draw(league))
    deliver(f"{league.table()}\n\n{options.out / 'league.png'}")


def _agents(loaded: LoadedRun, names: Sequence[str], greedy: bool) -> list[Agent]:
    agents: list[Agent] = []
    for number, name in enumerate(names):
        if name == "scripted":
            if loaded.config.eval.scripted is None:
                raise SettingError(
                    "the run has no scripted player",
                    expected="eval.scripted in its settings, or the dotted path of a script",
                )
            name = loaded.config.eval.scripted
        seed = derived_seed(loaded.config.seed, "league player", number)
        spaces = loaded.net.obs_space, loaded.net.action_space
        device = str(loaded.device)
        agents.append(make_opponent(name, *spaces, seed=seed, greedy=greedy, device=device))
    return agents


if __name__ == "__main__":
    run_main(main)
