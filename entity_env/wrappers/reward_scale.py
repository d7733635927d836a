"""Rewards on another scale, and within limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from entity_env.arguments import named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.step_results import read_reward
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment
from entity_env.errors import SettingError, shorten
from entity_env.observation import Observation
from entity_env.rows.vec_env import VecEnv
from entity_env.spaces import ActionName
from entity_env.wrappers.vec_wrapper import VecWrapper
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["RewardScale", "VecRewardScale"]


@named_arguments(SettingError)
class RewardScale(Wrapper):
    """Multiplies rewards by ``scale``, then clips them to ``low`` and ``high``.

    Args:
        env: The environment.
        scale: Any finite number.
        low: The least reward, None for no limit.
        high: The greatest reward, None for no limit.

    Raises:
        SettingError: A number that is not finite, or ``low > high``.
    """

    def __init__(
        self,
        env: Environment,
        scale: float = 1.0,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        super().__init__(env)
        self._change = _Change.of("RewardScale", scale, low, high)

    def _show(self, observation: Observation) -> Observation:
        reward = np.float64(read_reward(observation.reward))
        return replace(observation, reward=float(self._change.of_rewards(reward)))


@named_arguments(SettingError)
class VecRewardScale(VecWrapper):
    """The same for rows. The metrics, ``episodic_reward`` among them, stay those of the game.

    Args:
        env: The rows.
        scale: Any finite number.
        low: The least reward, None for no limit.
        high: The greatest reward, None for no limit.

    Raises:
        SettingError: A number that is not finite, or ``low > high``.
    """

    def __init__(
        self,
        env: VecEnv,
        scale: float = 1.0,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        super().__init__(env)
        self._change = _Change.of("VecRewardScale", scale, low, high)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        # Not in _show: the zeros of a reset are no rewards.
        return self._scaled(super()._act(chosen))

    def _check_wrappable(self) -> None:
        if self._change.low is not None or self._change.high is not None:
            raise SettingError(
                "VecRewardScale clips the rewards of single steps, and what goes around each "
                "environment goes inside it",
                hint="put this around the rows first, then VecRewardScale around both",
            )
        super()._check_wrappable()

    def _scaled(self, obs: VecObs) -> VecObs:
        reward = self._change.of_rewards(obs.reward.astype(np.float64)).astype(np.float32)
        final = None if obs.final is None else self._scaled(obs.final)
        return replace(obs, reward=reward, final=final)


@dataclass(frozen=True)
class _Change:
    scale: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, owner: str, scale: float, low: float | None, high: float | None) -> _Change:
        limits = [
            None if value is None else _number(f"{name} of {owner}", value)
            for name, value in (("low", low), ("high", high))
        ]
        if None not in limits and limits[0] > limits[1]:  # type: ignore[operator]
            raise SettingError(
                f"{owner} has no rewards left",
                expected="low <= high",
                received=f"low={low}, high={high}",
            )
        return cls(_number(f"scale of {owner}", scale), *limits)

    def of_rewards(self, rewards: npt.NDArray[np.float64] | np.float64) -> npt.NDArray[np.float64]:
        scaled = rewards * self.scale
        if self.low is None and self.high is None:
            return np.asarray(scaled)
        return np.clip(scaled, self.low, self.high)


def _number(what: str, value: object) -> float:
    """``value`` as a finite float, or a SettingError about ``what``."""
    real = isinstance(value, int | float | np.integer | np.floating)
    try:
        number = float(value) if real and not isinstance(value, bool) else math.nan  # type: ignore[arg-type]
    except OverflowError:  # a whole number that no float holds
        number = math.nan
    if not math.isfinite(number):
        raise SettingError(f"{what} is not a finite number", received=shorten(value))
    return number
