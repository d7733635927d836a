"""A Gymnasium environment as an ``Environment``.

env = GymnasiumEnv("CartPole-v1")
observation = env.reset()

python -m ppo_trainer env=gymnasium env.env=Acrobot-v1

"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.errors import (
    MissingPackageError,
    ObservationError,
    ResetNeededError,
    SettingError,
    UnknownEnvironmentError,
    shorten,
)
from entity_env.interop.translation import Translation
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["GymnasiumEnv"]


class GymnasiumEnv(Environment):
    """A Gymnasium environment whose observations are lists of entities and global features.

    Entities:
        What ``entity_env.interop.space_reader`` makes of the observation space: numbers become
        global features, a ``Sequence`` becomes an entity type, a ``Graph`` two.
    Actions:
        ``action`` for a ``Discrete`` space; ``action[0]``, ``action[1]``, ... for a
        ``MultiDiscrete`` or ``MultiBinary`` one. All are global, and their labels are the values
        that the environment gets: "0", "1", ... where they start at 0. A mask is taken from
        ``info["action_mask"]``, or from the key ``action_mask`` of the observation; that of a
        ``MultiDiscrete`` space holds the masks of its parts, as a list or one after the other.
    Reward:
        The environment's.
    End:
        ``terminated`` ends the episode, ``truncated`` without it cuts it off.
    Randomness:
        The environment's, which the reset after ``seed`` seeds.

    Args:
        env: An id, which goes to ``gymnasium.make``; or a function or class that makes an
            environment; or an environment itself, which then must not be used anywhere else.
        **kwargs: Arguments for ``gymnasium.make`` or the function. With
            ``render_mode="rgb_array"`` the environment draws pictures.

    Raises:
        UnknownEnvironmentError: An id that Gymnasium does not know.
        SpaceError: A space that cannot be translated, with the part that is the reason.
    """

    def __init__(
        self,
        env: str | gymnasium.Env[Any, Any] | Callable[..., gymnasium.Env[Any, Any]],
        **kwargs: Any,
    ) -> None:
        self.env = _made(env, kwargs)
        self._translation = Translation(self.env.observation_space, self.env.action_space)
        self._seed: int | None = None
        self._playing = False
        self._closed = False
        if self.env.render_mode == "rgb_array":
            # Only now: whoever looks at the class sees that not every environment draws itself.
            self.render = self._render  # type: ignore[method-assign]

    def obs_space(self) -> ObsSpace:
        """What the observation space was translated to."""
        return self._translation.obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """What the action space was translated to."""
        return self._translation.action_space

    def seed(self, seed: int) -> None:
        """Seed the environment at its next reset."""
        super().seed(seed)
        self._seed = seed

    def reset(self) -> Observation:
        """Start an episode."""
        seed, self._seed = self._seed, None
        result = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ObservationError(
                "reset of the Gymnasium environment returned no pair",
                expected="(observation, info)",
                received=shorten(result),
            )
        self._playing = True
        return self._translation.observe(*result)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        if not self._playing:
            raise ResetNeededError("there is no episode to play", hint="call reset() first")
        result: Any = self.env.step(self._translation.act(actions))
        if not isinstance(result, tuple) or len(result) != 5:
            raise ObservationError(
                "step of the Gymnasium environment did not return five values",
                expected="(observation, reward, terminated, truncated, info)",
                received=shorten(result),
            )
        observation, reward, terminated, truncated, info = result
        seen = self._translation.observe(observation, info, reward, terminated, truncated)
        self._playing = not seen.done
        return seen

    def close(self) -> None:
        """Close the environment; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self.env.close()

    def _render(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        try:
            picture: Any = self.env.render(**kwargs)
        except gymnasium.error.DependencyNotInstalled as error:
            raise MissingPackageError(f"drawing needs more: {error}") from error
        return np.asarray(picture, np.uint8)


def _made(env: Any, kwargs: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    if isinstance(env, gymnasium.Env):
        if kwargs:
            raise SettingError(
                "an environment that is there already takes no arguments",
                expected="its id, or what makes it",
                received=shorten(kwargs),
            )
        return env
    if not isinstance(env, str) and not callable(env):
        raise SettingError(
            "no Gymnasium environment is named",
            expected="an id, such as env.env=CartPole-v1, or what makes an environment",
            received=shorten(env),
        )
    made: Any = _by_id(env, kwargs) if isinstance(env, str) else env(**kwargs)
    if not isinstance(made, gymnasium.Env):
        raise SettingError(
            "what was made is no Gymnasium environment",
            expected="a gymnasium.Env",
            received=shorten(made),
        )
    return made


def _by_id(name: str, kwargs: dict[str, Any]) -> Any:
    try:
        return gymnasium.make(name, **kwargs)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingPackageError(f"environment {name!r} needs more: {error}") from error
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise UnknownEnvironmentError(
            f"Gymnasium cannot make {name!r}: {error}",
            hint='the ids are in gymnasium.registry; "my_pkg:MyEnv-v0" imports my_pkg first',
        ) from error
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise SettingError(f"environment {name!r} does not take this: {error}") from error
