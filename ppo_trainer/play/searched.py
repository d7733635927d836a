"""A run's network that looks ahead: what its games get when a search plays them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entity_env import VecEnv, VecObs
from entity_env.errors import SettingError
from entity_env.player.episodes import play_rows
from entity_env.player.play_budget import PlayBudget
from entity_env.rows.vec_env import check_count
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.play.agent import RunAgent
from ppo_trainer.players.rows_search import RowsSearch
from ppo_trainer.reporting.evaluation import Evaluation
from ppo_trainer.reporting.evaluation_progress import EvaluationProgress
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["evaluate_searched"]

_MOST_POSITIONS = 8192
"""So many are kept at once at the most, in fewer rows where there are many visits: a position of
Mini-RTS takes 50 KB."""


class _SearchPolicy:
    """Searches whatever rows it made last."""

    def __init__(self, loaded: LoadedRun, visits: int) -> None:
        self._game, self._guide, self._visits = loaded.game, RunAgent(loaded), visits
        self._gamma = loaded.config.ppo.gamma
        self._search: RowsSearch | None = None

    def make_rows(self, count: int, seed: int) -> VecEnv:
        rows: Any = self._game.rows(count, seed)
        self._search = RowsSearch(rows, self._guide, self._visits, gamma=self._gamma)
        return rows  # type: ignore[no-any-return]

    def __call__(self, obs: VecObs) -> Mapping[str, Any]:
        assert self._search is not None
        return self._search(obs)


def evaluate_searched(loaded: LoadedRun, episodes: int, visits: int) -> Evaluation:
    """Play the episodes that ``evaluate`` plays greedily, with a search of so many visits.

    Raises:
        SettingError: The game has no compiled rows for one player, asks for more than one choice
            at a time, or the network has a memory.
    """
    name, config = f"agent, {visits} visits", loaded.config
    check_count("number of visits", visits, error=SettingError)
    if loaded.game.has_seats:
        raise SettingError(
            "a search of rows plays games for one player",
            expected="compiled rows of such a game",
            received="a game of several players",
            hint="SearchAgent looks ahead in games of several players",
        )
    policy, seed = _SearchPolicy(loaded, visits), derived_seed(config.seed, "evaluation", 0)
    with EvaluationProgress([name], episodes, config.eval.seconds) as progress:
        budget = PlayBudget(config.eval.seconds, progress.heard(name))
        metrics = play_rows(
            policy.make_rows,
            policy,
            episodes,
            seed,
            rows=min(config.rollout.num_envs, max(_MOST_POSITIONS // visits, 1)),
            max_steps=config.eval.max_steps,
            budget=budget,
        )
    return Evaluation(name, metrics, episodes, budget.cut_off)
