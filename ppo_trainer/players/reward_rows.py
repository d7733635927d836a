"""Rows whose rewards are those of teams, as the settings of self-play say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env import VecEnv, VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.errors import DAMAGES, StateError, shorten
from entity_env.wrappers.vec_wrapper import VecWrapper, act_checked
from ppo_trainer.players.game_tracker import GameTracker
from ppo_trainer.players.rewards import annealed, shared, time_scaled, zero_sum
from ppo_trainer.settings.self_play_config import SelfPlayConfig

__all__ = ["RewardRows"]


class RewardRows(VecWrapper):
    """Mixes the rewards of each step of each game; metrics keep those of the game itself.

    First the enemies' mean is taken away, then the team shares, then time counts. Seats that are
    out, or have not decided yet in their episode, neither give nor get.

    Args:
        env: The rows of games; the seats of a game are consecutive rows.
        sides: The seats of each team.
        settings: What to do.

    Attributes:
        progress: How much of the run is over, from 0 to 1, for ``team_spirit_end``.
    """

    def __init__(
        self, env: VecEnv, sides: Sequence[Sequence[int]], settings: SelfPlayConfig
    ) -> None:
        super().__init__(env)
        self._sides, self._settings = sides, settings
        self._games = GameTracker(len(env), sum(map(len, sides)))
        self.progress = 0.0

    @property
    def team_spirit(self) -> float:
        """The part of a reward that is the team's, now."""
        own = self._settings
        return annealed(own.team_spirit, own.team_spirit_end, self.progress)

    def _reset(self, seed: int | None) -> VecObs:
        shown = super()._reset(seed)
        self._games.begin(shown)
        return shown

    def _act(self, chosen: Mapping[str, ActionBuffer]) -> VecObs:
        self._inner = act_checked(self.env, chosen, self._inner)
        reward = self._shaped(self._inner)
        self._games.follow(self._inner)
        return replace(self._inner, reward=reward)

    def _shaped(self, obs: VecObs) -> Any:
        own, games = self._settings, self._games
        shape = (-1, games.seats)
        rewards = obs.reward.astype(np.float64).reshape(shape)
        plays = games.inside.reshape(shape)
        if own.zero_sum:
            rewards = zero_sum(rewards, self._sides, plays)
        if spirit := self.team_spirit:
            rewards = shared(rewards, self._sides, spirit, plays)
        if own.minutes_per_step:
            rewards = time_scaled(rewards, games.steps[:, None] * own.minutes_per_step)
        return rewards.reshape(-1).astype(np.float32)

    def _get_state(self) -> list[Any]:
        rows, games = self.env.get_state(), self._games.get_state()
        return [{"row": row, **({} if i else {"games": games})} for i, row in enumerate(rows)]

    def _set_state(self, state: list[Any]) -> VecObs:
        try:
            rows = [saved["row"] for saved in state]
            self._games.set_state(state[0]["games"])
        except DAMAGES as error:
            raise StateError(
                f"the saved games are damaged: {type(error).__name__}: {error}",
                received=shorten(state),
            ) from error
        self._inner = self.env.set_state(rows)
        return self._inner
