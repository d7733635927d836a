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
from entity_env.errors import (
    MissingPackageError,
    ObservationError,
    SettingError,
    UnknownEnvironmentError,
    nearest,
    shorten,
)
from entity_env.interop.translated.rows import Entities
from entity_env.interop.translated.translated_env import TranslatedEnv, make_or_take
from entity_env.interop.translated.translation import MASK, SpaceTranslation
from entity_env.observation import Observation
from entity_env.spaces import ActionName

__all__ = ["GymnasiumEnv"]


@named_arguments(SettingError)
class GymnasiumEnv(TranslatedEnv):
    """A Gymnasium environment whose observations are lists of entities and global features.

    Entities:
        Those of the observation space, read by ``entity_env.interop.translated.space_reader``:
        numbers become global features, a ``Sequence`` becomes an entity type, a ``Graph`` two.
    Actions:
        Those of the action space, read by ``entity_env.interop.translated.action_parts``:
        ``action`` for a ``Discrete`` one, and a continuous one for a ``Box``; ``action[0]``,
        ``action[1]``, ... for a ``MultiDiscrete`` or ``MultiBinary`` one; those of the parts for a
        ``Dict`` or ``Tuple``. All are global, and labels are the values that the environment gets:
        "0", "1", ... where they start at 0. A mask is taken from ``info["action_mask"]``, or from
        the key ``action_mask`` of the observation, or from the environment's method
        ``action_masks``, as ``sb3_contrib`` has it. It may be what the space's
        ``sample(mask=...)`` takes, or hold the masks of all parts one after the other.
    Reward:
        The environment's.
    End:
        ``terminated`` ends the episode, ``truncated`` without it cuts it off.
    Randomness:
        The environment's, which the reset after ``seed`` seeds.

    Args:
        env: An id, which goes to ``gymnasium.make``; or a function or class that makes an
            environment; or an environment itself, which then must not be used anywhere else.
        ignore: Parts of the observation that are left out, such as ``["mission"]`` or
            ``["arm/camera"]``; also those that could not be translated.
        entities: Tables in the observation that become entities, one for each row, such as
            ``{"Vehicle": Rows("presence")}``; see ``entity_env.interop.Rows``.
        **kwargs: Arguments for ``gymnasium.make`` or the function. With
            ``render_mode="rgb_array"`` the environment draws pictures.

    Raises:
        UnknownEnvironmentError: An id that Gymnasium does not know.
        SettingError: ``ignore`` or ``entities`` name something that is not there.
        SpaceError: A space that cannot be translated, with the part that is the reason.
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
        translation = SpaceTranslation(
            made.observation_space, made.action_space, ignore, entities, _known_columns(made)
        )
        super().__init__(made, translation)
        self._own_masks = _method_of(made, "action_masks")

    def _begin(self, seed: int | None) -> Observation:
        result = self.env.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ObservationError(
                "reset of the Gymnasium environment returned no pair",
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

    def _with_mask(self, info: Any) -> Any:
        """Return the info, with the mask of the environment's method if it has none."""
        if self._own_masks is None or not isinstance(info, Mapping) or MASK in info:
            return info
        return {**info, MASK: self._own_masks()}

    def _draw(self, **kwargs: Any) -> npt.NDArray[np.uint8]:
        try:
            return super()._draw(**kwargs)
        except gymnasium.error.DependencyNotInstalled as error:
            raise MissingPackageError(f"drawing needs more: {error}") from error


def _method_of(env: Any, name: str) -> Callable[[], Any] | None:
    """Return a method that the environment has, or one of the wrappers around it."""
    method = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    return method if callable(method) else None


def _known_columns(env: Any) -> Any:
    """Return the names of a table's columns, where highway-env's kind of observation knows them."""
    return getattr(getattr(env.unwrapped, "observation_type", None), "features", None)


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
        refused = ("unexpected keyword argument", "takes no arguments")
        if not kwargs or not any(words in str(error) for words in refused):
            raise
        hints = (nearest(setting, ("ignore", "entities")) for setting in kwargs)
        raise SettingError(
            f"environment {name!r} does not take this: {error}",
            hint=next(filter(None, hints), None),
        ) from error
