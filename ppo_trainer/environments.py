"""From the ``env`` settings to environments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import envs  # noqa: F401  (registers the environments that come with the library)
from entity_env import EntityEnvError, Environment, ListEnv, ParallelEnv, VecEnv
from entity_env.errors import shorten
from entity_env.registry import check_settings, resolve
from ppo_trainer.config import TrainConfig
from ppo_trainer.errors import ConfigError, RunFolderError

__all__ = ["UNIMPORTABLE", "make_factory", "make_vec_env", "with_env"]

CreateEnv = Callable[[], Environment]

UNIMPORTABLE = "python:"
"""Marks the target of an environment that was passed as an object and has no importable path."""


def with_env(config: TrainConfig, env: Callable[..., Environment] | None) -> TrainConfig:
    """The config with ``env._target_`` set to the path of ``env``, where one is given."""
    if env is None:
        return config
    if not callable(env):
        raise ConfigError(
            "env is not a class or function that makes environments",
            expected="env=MyEnv, not env=MyEnv(...) and not a name; arguments and names go into "
            "TrainConfig(env={'_target_': ..., ...})",
            received=shorten(env),
        )
    path = f"{env.__module__}.{getattr(env, '__qualname__', type(env).__qualname__)}"
    if not _is_importable(path, env):
        path = UNIMPORTABLE + path
    return replace(config, env={**config.env, "_target_": path})


def make_factory(config: TrainConfig, env: Callable[..., Environment] | None = None) -> CreateEnv:
    """A function that makes one environment.

    Args:
        config: Its ``env`` holds the target and the constructor's arguments.
        env: The class or function itself, where the target cannot be imported.
    """
    settings: dict[str, Any] = {k: v for k, v in config.env.items() if k != "_target_"}
    target = config.env["_target_"]
    if env is None and target.startswith(UNIMPORTABLE):
        raise RunFolderError(
            f"environment {target.removeprefix(UNIMPORTABLE)!r} cannot be imported: it lives in a "
            "script, a notebook or a function",
            hint="pass it: train(config, env=MyEnv), watch(run, env=MyEnv); or move it to a module",
        )
    factory = resolve(target) if env is None else env
    check_settings(factory, settings)
    return functools.partial(factory, **settings)


def _is_importable(path: str, env: Callable[..., Environment]) -> bool:
    """Whether another program finds the same object under ``path``."""
    if path.startswith("__main__."):
        return False
    try:
        return resolve(path) is env
    except EntityEnvError:
        return False


def make_vec_env(config: TrainConfig, create_env: CreateEnv, seed: int) -> VecEnv:
    """The rows to train on, in this process or in workers."""
    rollout = config.rollout
    if rollout.processes == 0:
        return ListEnv(create_env, rollout.num_envs, seed=seed)
    return ParallelEnv(create_env, rollout.num_envs, rollout.processes, seed=seed)
