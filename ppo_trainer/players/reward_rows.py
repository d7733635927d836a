"""Rewards shaped for teams by the settings of self-play: zero-sum, team spirit, scaling with time.

These are the three steps from a hero's own rewards to its training rewards in OpenAI Five (Berner
et al. 2019). They are functions of arrays, for any game.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecEnv, VecObs
from entity_env.batching.ragged import ActionBuffer
from entity_env.wrappers.vec_wrapper import act_unchecked
from ppo_trainer.players.game_rows import GameRows
from ppo_trainer.settings.self_play_config import SelfPlayConfig

__all__ = ["RewardRows", "annealed", "shared", "time_scaled", "zero_sum"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TIME_BASE, TIME_MINUTES = 0.6, 10.0


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
        settings = self._settings
        return annealed(settings.team_spirit, settings.team_spirit_end, self.progress)

    def _reset(self, seed: int | None) -> VecObs:
        shown = super()._reset(seed)
        self._games.begin(shown)
        return shown

    def _act(self, chosen: Mapping[str, ActionBuffer]) -> VecObs:
        self._inner = act_unchecked(self.env, chosen, self._inner)
        reward = self._shaped(self._inner)
        self._games.follow(self._inner)
        return replace(self._inner, reward=reward)

    def _shaped(self, obs: VecObs) -> Any:
        settings, games = self._settings, self._games
        shape = (-1, games.seats)
        rewards = obs.reward.astype(np.float64).reshape(shape)
        plays = games.inside.reshape(shape)
        if settings.zero_sum:
            rewards = zero_sum(rewards, self._sides, plays)
        if spirit := self.team_spirit:
            rewards = shared(rewards, self._sides, spirit, plays)
        if settings.minutes_per_step:
            rewards = time_scaled(rewards, games.steps[:, None] * settings.minutes_per_step)
        return rewards.reshape(-1).astype(np.float32)

    def own_state(self) -> Any:
        """Return the additional state as JSON values."""
        return self._games.get_state()

    def _set_own_state(self, state: Any) -> None:
        self._games.set_state(state)


def zero_sum(rewards: Floats, teams: Sequence[Sequence[int]], plays: Bools | None = None) -> Floats:
    """Subtract from each reward the mean of the enemies: ``r[i] -= mean(enemies)``.

    With two teams of equal size the sum becomes 0, so that a reward that both teams get has no
    effect.

    Args:
        rewards: Rewards of the seats of games. Shape: (..., S).
        teams: Seats of each team.
        plays: True for seats that take part; the others are left out of means and get 0. Shape:
            (..., S); None for all seats.
    """
    plays = np.ones(rewards.shape, np.bool_) if plays is None else plays
    shaped = np.where(plays, rewards, 0.0)
    for team in teams:
        members = set(team)
        enemies = [seat for other in teams for seat in other if seat not in members]
        taken = _mean(rewards, plays, enemies)
        for seat in team:
            shaped[..., seat] -= np.where(plays[..., seat], taken, 0.0)
    return shaped


def shared(
    rewards: Floats, teams: Sequence[Sequence[int]], spirit: float, plays: Bools | None = None
) -> Floats:
    """Mix in the mean of the team by team spirit: ``r[i] = tau * mean(team) + (1 - tau) * r[i]``.

    Args:
        rewards: See ``zero_sum``.
        teams: See ``zero_sum``.
        spirit: Tau: 0 keeps each seat's own reward, 1 gives each the mean of its team.
        plays: See ``zero_sum``.
    """
    plays = np.ones(rewards.shape, np.bool_) if plays is None else plays
    mixed = np.where(plays, rewards, 0.0)
    for team in teams:
        mean = _mean(rewards, plays, team)
        for seat in team:
            shared = spirit * mean + (1.0 - spirit) * rewards[..., seat]
            mixed[..., seat] = np.where(plays[..., seat], shared, 0.0)
    return mixed


def time_scaled(rewards: Floats, minutes: Floats | float) -> Floats:
    """Scale rewards down with time: ``r *= 0.6 ** (minutes / 10)``.

    Args:
        rewards: Shape: (..., S).
        minutes: Minutes since the game began, in a shape that broadcasts to that of ``rewards``.
    """
    scaled: Floats = rewards * TIME_BASE ** (np.asarray(minutes) / TIME_MINUTES)
    return scaled


def annealed(first: float, last: float | None, progress: float) -> float:
    """Return the value at ``progress``, 0 to 1, on the line from ``first`` to ``last``."""
    return first if last is None else first + (last - first) * min(max(progress, 0.0), 1.0)


def _mean(rewards: Floats, plays: Bools, seats: Sequence[int]) -> Floats:
    """Return the mean over the given seats that take part; 0 without any. Shape: (...)."""
    there = plays[..., list(seats)]
    total = np.where(there, rewards[..., list(seats)], 0.0).sum(axis=-1)
    mean: Floats = total / np.maximum(there.sum(axis=-1), 1)
    return mean
