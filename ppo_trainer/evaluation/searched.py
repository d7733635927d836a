"""A run's network with a tree search for each decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from entity_env import VecEnv
from entity_env.agent import Agent, RandomAgent
from entity_env.errors import SettingError
from entity_env.play import PlayBudget, play_rows
from entity_env.rows.vec_env import check_count
from ppo_trainer.evaluation.matches import play_sides
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.search import Search, make_search
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.progress import EvaluationProgress
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["evaluate_searched", "search_of"]

_MOST_POSITIONS = 8192
"""Maximum number of positions in memory; one of Mini-RTS takes 50 KB."""


def search_of(loaded: LoadedRun, rows: VecEnv, visits: int) -> Search:
    """Return the search of a run's network in these rows.

    Raises:
        SettingError: The rows cannot be searched; see ``Search``.
    """
    visits = check_count("number of visits", visits, error=SettingError)
    settings = replace(loaded.config.search, visits=visits)
    return make_search(rows, loaded.net, replace(loaded.config, search=settings))


def evaluate_searched(
    loaded: LoadedRun, episodes: int, visits: int, opponents: Mapping[str, Agent] | None = None
) -> list[Evaluation]:
    """Play the episodes of an evaluation with a tree search for each decision.

    Args:
        loaded: The run.
        episodes: Number of episodes, in a game for several players against each opponent.
        visits: Number of visits of the tree for each decision.
        opponents: Opponents by the names to show; None for random play in a game for several
            players.

    Raises:
        SettingError: The game cannot be searched; see ``Search``.
    """
    config, game = loaded.config, loaded.game
    check_count("number of visits", visits, error=SettingError)
    seed = derived_seed(config.seed, "evaluation", 0)
    searches: list[Search] = []
    if not game.has_seats:
        opponents = {}
    elif opponents is None:
        opponents = {"random": RandomAgent(loaded.net.obs_space, loaded.net.action_space, seed)}
    names = [f"against {name}, {visits} visits" for name in opponents] or [
        f"agent, {visits} visits"
    ]

    def make_rows(count: int, seed: int) -> VecEnv:
        rows = loaded.game.rows(count, seed)
        searches.append(search_of(loaded, rows, visits))
        return rows

    results = []
    with EvaluationProgress(names, episodes, config.eval.seconds) as progress:
        for name, opponent in zip(names, opponents.values() or [None], strict=True):
            budget = PlayBudget(config.eval.seconds / len(names), progress.heard(name))
            if opponent is None:
                metrics = play_rows(
                    make_rows,
                    lambda obs: searches[-1](obs),
                    episodes,
                    seed,
                    rows=min(config.rollout.num_envs, max(_MOST_POSITIONS // visits, 1)),
                    max_steps=config.eval.max_steps,
                    budget=budget,
                )
            else:
                metrics = play_sides(
                    lambda rows: search_of(loaded, rows, visits),
                    game,
                    config,
                    episodes,
                    opponent,
                    seed=seed,
                    budget=budget,
                )
            results.append(Evaluation(name, metrics, episodes, budget.cut_off))
    return results
