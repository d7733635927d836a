"""A wrapper that repeats actions for some steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from entity_env.actions import Action, same_ids
from entity_env.arguments import named_arguments
from entity_env.batching.frame import Frame, FrameActors
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.kind import Kind
from entity_env.batching.kinds.table import kind_of
from entity_env.batching.step_results import read_metrics, read_reward
from entity_env.environment import Environment
from entity_env.errors import SettingError
from entity_env.observation import Observation
from entity_env.rows.vec_env import check_count
from entity_env.spaces import ActionName
from entity_env.wrappers.wrapper import Wrapper

__all__ = ["FrameSkip"]


@named_arguments(SettingError)
class FrameSkip(Wrapper):
    """A wrapper that repeats actions for up to ``skip`` steps and adds up the rewards.

    It stops early when the episode ends, when an action has other actors (by id, in order) or is no
    longer available, or when the mask forbids a choice. Actors without ids are considered the same
    if their number is. A selected entity without an id cannot be found again, so that the wrapper
    stops, too. A metric has the value that was given last.

    Args:
        env: The environment.
        skip: Largest number of steps, at least 1.

    Raises:
        SettingError: ``skip`` is not a whole number of at least 1.
    """

    def __init__(self, env: Environment, skip: int) -> None:
        super().__init__(env)
        self.skip = check_count("skip of FrameSkip", skip, error=SettingError)
        self._reader = FrameReader(env.obs_space(), env.action_space())

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play the steps."""
        reward, metrics = 0.0, dict[str, float]()
        for _ in range(self.skip - 1):
            observation = self.env.act(actions)
            frame = self._reader.read(observation)
            reward += frame.reward
            metrics |= frame.metrics
            if frame.done or not self._asks_the_same(frame, actions):
                return replace(observation, reward=reward, metrics=metrics)
        observation = self.env.act(actions)
        if self.skip == 1 or not isinstance(observation, Observation):
            return observation
        return replace(
            observation,
            reward=reward + read_reward(observation.reward),
            metrics=metrics | read_metrics(observation.metrics or {}),
        )

    def _asks_the_same(self, frame: Frame, actions: Mapping[ActionName, Action]) -> bool:
        return all(
            _is_repeatable(kind_of(space), frame, frame.actions.get(name), actions.get(name))
            for name, space in self._reader.action_space.items()
        )


def _is_repeatable(kind: Kind, frame: Frame, who: FrameActors | None, action: Any) -> bool:
    """Return True if the actors of ``action`` act again and may repeat their choices."""
    if action is None or not isinstance(action, kind.action):
        return action is who is None
    if not kind.is_global:
        actors = [] if who is None else [frame.ids[actor] for actor in who.actors.tolist()]
        if not same_ids(action.actors, actors):
            return False
    return kind.repeatable(action, who, frame)
