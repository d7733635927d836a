"""A Gymnasium environment as an ``Environment``.

env = GymnasiumEnv("CartPole-v1")
observation = env.reset()

python -m ppo_trainer env=gymnasium env.env=Acrobot-v1
python -m ppo_trainer env=gymnasium env.env=minigrid:MiniGrid-Empty-5x5-v0 "env.ignore=[mission]"

"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.arguments import named_arguments
from entity_env.environment import Environment
from entity_env.errors import (
    MissingPackageError,
    ObservationError,
    SettingError,
    UnknownEnvironmentError,
    nearest,
    shorten,
)
from entity_env.interop.adapter import TranslatedPlay, make_or_take
from entity_env.interop.observation_reader import Entities
from entity_env.interop.translation import MASK, SpaceTranslation
from entity_env.observation import Observation
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["GymnasiumEnv"]


@named_arguments(SettingError)
class GymnasiumEnv(TranslatedPlay, Environment):
    """A Gymnasium environment whose observations are lists of entities and global features.

    Entities:
        Numbers of the observation space become global features, and a ``Sequence`` becomes an
        entity type; see ``entity_env.interop.observation_reader``.
    Actions:
        ``action`` for a ``Discrete`` space, a continuous action for a ``Box``; ``action[0]``,
        ``action[1]``, ... for a ``MultiDiscrete`` or ``MultiBinary`` space; the actions of the
        parts for a ``Dict`` or ``Tuple``; see ``entity_env.interop.action_writer``. All
        actions are global. Labels are the values passed to the environment: "0", "1", ... if they
        start at 0. The mask is ``info["action_mask"]``, or what the environment's method
        ``action_masks`` returns (as in ``sb3_contrib``).
    Reward:
        The environment's.
    End:
        ``terminated`` ends the episode, ``truncated`` without it cuts it off.
    Randomness:
        The environment's, seeded by the reset after ``seed``.

    Args:
        env: An id for ``gymnasium.make``; or a function or class that makes an environment; or an
            environment, which must not be used elsewhere.
        ignore: Parts of the observation to leave out, such as ``["mission"]`` or
            ``["arm/camera"]``, also if they cannot be translated.
        entities: Tables in the observation that become entities, one for each row, such as
            ``{"Vehicle": Rows(presence=0)}``; see ``entity_env.interop.Rows``.
        **kwargs: Arguments for ``gymnasium.make`` or the function. With
            ``render_mode="rgb_array"`` the environment draws pictures.

    Raises:
        UnknownEnvironmentError: Gymnasium does not know the id.
        SettingError: ``ignore`` or ``entities`` name a part that does not exist.
        SpaceError: A part of a space cannot be translated.
    """

    def __init__(
        self,
        env: str | gymnasium.Env[Any, Any] | Callable[..., gymnasium.Env[Any, Any]],
        *,
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
        **kwargs: Any,
    ) -> None:
        made = make_or_take(env, kwargs, "Gymnasium", "CartPole-v1", _by_id, (gymnasium.Env,))
        super().__init__(made)
        self._translation = SpaceTranslation(
            made.observation_space, made.action_space, ignore, entities
        )
        has_masks = made.has_wrapper_attr("action_masks")
        masks = made.get_wrapper_attr("action_masks") if has_masks else None
        self._own_masks = masks if callable(masks) else None

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._translation.obs_space

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        return self._translation.action_space

    def _begin(self, seed: int | None) -> Observation:
        result = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ObservationError(
                "reset of the Gymnasium environment did not return a pair",
                expected="(observation, info)",
                received=shorten(result),
            )
        observation, info = result
        return self._translation.observe(observation, self._with_mask(info))

    def _step(self, actions: Mapping[ActionName, Action]) -> Observation:
        result = self.env.step(self._translation.act(actions))
        if not isinstance(result, tuple) or len(result) != 5:
            raise ObservationError(
                "step of the Gymnasium environment did not return five values",
                expected="(observation, reward, terminated, truncated, info)",
                received=shorten(result),
            )
        observation, reward, terminated, truncated, info = result
        if self._own_masks is not None and not (terminated or truncated):
            info = self._with_mask(info)
        return self._translation.observe(observation, info, reward, terminated, truncated)

    def _is_over(self, seen: Observation) -> bool:
        return seen.done

    def _with_mask(self, info: Any) -> Any:
        """Return the info, with the mask of the method ``action_masks`` if it has none."""
        if self._own_masks is None or not isinstance(info, Mapping) or MASK in info:
            return info
        return {**info, MASK: self._own_masks()}

    def _draw(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        try:
            return super()._draw(**kwargs)
        except gymnasium.error.DependencyNotInstalled as error:
            raise MissingPackageError(f"drawing needs another package: {error}") from error


def _by_id(name: str, kwargs: dict[str, Any]) -> Any:
    try:
        return gymnasium.make(name, **kwargs)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingPackageError(f"environment {name!r} needs a package: {error}") from error
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise UnknownEnvironmentError(
            f"Gymnasium cannot make {name!r}: {error}",
            hint='the ids are in gymnasium.registry; "my_pkg:MyEnv-v0" imports my_pkg first',
        ) from error
    except TypeError as error:
        refused = ("unexpected keyword argument", "takes no arguments")
        if not kwargs or not any(words in str(error) for words in refused):
            raise
        hints = (nearest(setting, ("ignore", "entities")) for setting in kwargs)
        raise SettingError(
            f"environment {name!r} does not take an argument: {error}",
            hint=next(filter(None, hints), None),
        ) from error
