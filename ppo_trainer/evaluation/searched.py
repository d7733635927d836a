"""A run's network with a tree search for each decision."""

from __future__ import annotations

from typing import Any

from entity_env import VecEnv
from entity_env.errors import SettingError
from entity_env.player.episodes import play_rows
from entity_env.player.play_budget import PlayBudget
from entity_env.rows.vec_env import check_count
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.rows_search import RowsSearch
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.progress import EvaluationProgress
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["evaluate_searched", "search_of"]

_MOST_POSITIONS = 8192
"""Maximum number of positions in memory; one of Mini-RTS takes 50 KB."""


def search_of(loaded: LoadedRun, rows: VecEnv, visits: int) -> RowsSearch:
    """Return the search of a run's network in these rows.

    Raises:
        SettingError: The game has no compiled rows for one player, or the network has a memory.
    """
    if loaded.game.has_seats:
        raise SettingError(
            "--search is for games for one player",
            expected="compiled rows of such a game",
            received="a game of several players",
            hint="use SearchAgent to search in games for several players",
        )
    searched: Any = rows  # the search checks it
    guide = NetworkAgent(loaded.net, precision=loaded.config.precision)
    return RowsSearch(searched, guide, visits, gamma=loaded.config.ppo.gamma)


def evaluate_searched(loaded: LoadedRun, episodes: int, visits: int) -> Evaluation:
    """Play the episodes of the greedy evaluation with a tree search for each decision.

    Args:
        loaded: The run.
        episodes: Number of episodes.
        visits: Number of visits of the tree for each decision.

    Raises:
        SettingError: The game cannot be searched (``search_of``), or has more than one choice at a
            time.
    """
    name, config = f"agent, {visits} visits", loaded.config
    check_count("number of visits", visits, error=SettingError)
    seed = derived_seed(config.seed, "evaluation", 0)
    searches: list[RowsSearch] = []

    def make_rows(count: int, seed: int) -> VecEnv:
        rows = loaded.game.rows(count, seed)
        searches.append(search_of(loaded, rows, visits))
        return rows

    with EvaluationProgress([name], episodes, config.eval.seconds) as progress:
        budget = PlayBudget(config.eval.seconds, progress.heard(name))
        metrics = play_rows(
            make_rows,
            lambda obs: searches[-1](obs),
            episodes,
            seed,
            rows=min(config.rollout.num_envs, max(_MOST_POSITIONS // visits, 1)),
            max_steps=config.eval.max_steps,
            budget=budget,
        )
    return Evaluation(name, metrics, episodes, budget.cut_off)
