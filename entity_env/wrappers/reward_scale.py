"""Wrappers that scale and clip rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.arguments import check_number, named_arguments
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.step_results import read_reward
from entity_env.batching.vec_obs import VecObs
from entity_env.errors import SettingError
from entity_env.observation import Observation
from entity_env.spaces import ActionName
from entity_env.wrappers.vec_wrapper import VecWrapper
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["RewardScale", "VecRewardScale"]


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

    @property
    def _clips(self) -> bool:
        return self._low is not None or self._high is not None

    def _scaled(self, rewards: npt.NDArray[np.float64] | np.float64) -> npt.NDArray[np.float64]:
        scaled = np.asarray(rewards * self._scale)
        return np.clip(scaled, self._low, self._high) if self._clips else scaled


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

    def _show(self, observation: Observation) -> Observation:
        reward = np.float64(read_reward(observation.reward))
        return replace(observation, reward=float(self._scaled(reward)))


@named_arguments(SettingError)
class VecRewardScale(_Scaling, VecWrapper):
    """``RewardScale`` for rows.

    Metrics such as ``episodic_reward`` keep the rewards of the game.
    """

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        # Not in _show, because the zeros of a reset are not rewards.
        return self._rescaled(super()._act(chosen))

    def _check_wrappable(self) -> None:
        if self._clips:
            raise SettingError(
                "the environments of rows in a VecRewardScale that clips rewards cannot be wrapped",
                hint="wrap the environments first, then use VecRewardScale",
            )
        super()._check_wrappable()

    def _rescaled(self, obs: VecObs) -> VecObs:
        reward = self._scaled(obs.reward.astype(np.float64)).astype(np.float32)
        final = None if obs.final is None else self._rescaled(obs.final)
        return replace(obs, reward=reward, final=final)
