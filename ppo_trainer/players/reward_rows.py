"""Rows with rewards shaped for teams by the settings of self-play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env import VecEnv, VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.wrappers.vec_wrapper import act_checked
from ppo_trainer.players.game_rows import GameRows
from ppo_trainer.players.rewards import annealed, shared, time_scaled, zero_sum
from ppo_trainer.settings.self_play_config import SelfPlayConfig

__all__ = ["RewardRows"]


class RewardRows(GameRows):
    """Rows with shaped rewards; metrics contain the rewards of the game itself.

    First the mean reward of the enemies is subtracted, then the mean of the team is mixed in, then
    rewards are scaled with time. Seats that are done, or have not acted yet in their episode, are
    left out of the means.

    Args:
        env: Rows of games; the seats of a game are consecutive rows.
        sides: Seats of each team.
        settings: Settings of self-play.

    Attributes:
        progress: Progress of the run, 0 to 1, for ``team_spirit_end``.
    """

    saved_as = "games"

    def __init__(
        self, env: VecEnv, sides: Sequence[Sequence[int]], settings: SelfPlayConfig
    ) -> None:
        super().__init__(env, sides)
        self._sides, self._settings = sides, settings
        self.progress = 0.0

    @property
    def team_spirit(self) -> float:
        """The present weight of the team's mean in a reward."""
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

    def own_state(self) -> Any:
        """Return the additional state as JSON values."""
        return self._games.get_state()

    def _set_own_state(self, state: Any) -> None:
        self._games.set_state(state)
