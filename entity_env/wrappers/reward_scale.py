"""Wrappers that scale and clip rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from entity_env.arguments import check_number, named_arguments
from entity_env.batching.step_results import read_reward
from entity_env.errors import SettingError
from entity_env.multi_player import SeatActions, SeatObservations
from entity_env.observation import Observation
from entity_env.wrappers.wrapper import SeatWrapper, Wrapper

__all__ = ["RewardScale", "SeatRewardScale"]


class _Scaling:
    """Mixin of wrappers that multiply and clip rewards."""

    def __init__(
        self, env: Any, scale: float = 1.0, low: float | None = None, high: float | None = None
    ) -> None:
        super().__init__(env)  # type: ignore[call-arg]
        owner = type(self).__name__
        self._low, self._high = (
            None if value is None else check_number(f"{name} of {owner}", value)
            for name, value in (("low", low), ("high", high))
        )
        if self._low is not None and self._high is not None and self._low > self._high:
            raise SettingError(
                f"{owner} has limits that exclude all rewards",
                expected="low <= high",
                received=f"low={low}, high={high}",
            )
        self._scale = check_number(f"scale of {owner}", scale)

    def _scaled(self, observation: Observation) -> Observation:
        # The reader raises an error for other objects.
        if not isinstance(observation, Observation):
            return observation
        reward = read_reward(observation.reward) * self._scale
        if self._low is not None:
            reward = max(reward, self._low)
        if self._high is not None:
            reward = min(reward, self._high)
        return replace(observation, reward=reward)


@named_arguments(SettingError)
class RewardScale(_Scaling, Wrapper):
    """A wrapper that multiplies rewards by ``scale``, then clips them to ``low`` and ``high``.

    Args:
        env: The environment.
        scale: Any finite number.
        low: Lower limit of rewards, None for no limit.
        high: Upper limit of rewards, None for no limit.

    Raises:
        SettingError: A number is not finite, or ``low > high``.
    """

    def observation(self, observation: Observation) -> Observation:
        """Return the observation with its reward scaled and clipped."""
        return self._scaled(observation)


@named_arguments(SettingError)
class SeatRewardScale(_Scaling, SeatWrapper):
    """``RewardScale`` for all seats of a game."""

    def reset(self) -> SeatObservations:
        """Start a game."""
        return self._scaled_each(self.game.reset())

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play one step."""
        return self._scaled_each(self.game.act(actions))

    def _scaled_each(self, told: SeatObservations) -> SeatObservations:
        if not isinstance(told, Mapping):  # ``Table`` raises the error
            return told
        return {seat: self._scaled(observation) for seat, observation in told.items()}
