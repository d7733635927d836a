"""Adapters between this library and Gymnasium, PettingZoo, Stable-Baselines3 and Minari.

================================  =============================================================
``GymnasiumEnv("CartPole-v1")``   a Gymnasium environment as an ``Environment``
``PettingZooGame(...)``           a PettingZoo environment as a ``MultiPlayerEnvironment``
``EntityParallelEnv(game, ...)``  a ``MultiPlayerEnvironment`` as a ``pettingzoo.ParallelEnv``
``EntityAECEnv(game, ...)``       the same as a ``pettingzoo.AECEnv``
``EntityGymnasiumEnv(env, ...)``  an ``Environment`` as a ``gymnasium.Env``, padded
``EntityVectorEnv(rows, ...)``    a ``VecEnv`` as a ``gymnasium.vector.VectorEnv``, padded
``StableBaselinesVecEnv(...)``    a ``VecEnv`` as one of Stable-Baselines3, padded
``Rows(presence=0)``              a table in their observations whose rows become entities
``export_minari(files, "x-v0")``  recordings as a data set of Minari, padded
``import_minari("x-v0", file)``   a data set of Minari as a recording
================================  =============================================================

The other packages are imported when one of these names is used. ``padded_spaces.py`` and
``padding.py`` pad observations to a fixed size; ``translation.py`` reads the spaces, observations
and masks of other packages, and writes their actions.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from entity_env.errors import MissingPackageError

if TYPE_CHECKING:
    from entity_env.interop.entity_aec_env import EntityAECEnv
    from entity_env.interop.entity_gymnasium_env import EntityGymnasiumEnv
    from entity_env.interop.entity_parallel_env import EntityParallelEnv
    from entity_env.interop.entity_vector_env import EntityVectorEnv
    from entity_env.interop.gymnasium_env import GymnasiumEnv
    from entity_env.interop.minari_data import export_minari, import_minari
    from entity_env.interop.observation_reader import Rows
    from entity_env.interop.pettingzoo_game import PettingZooGame
    from entity_env.interop.stable_baselines_vec_env import StableBaselinesVecEnv

__all__ = [
    "EntityAECEnv",
    "EntityGymnasiumEnv",
    "EntityParallelEnv",
    "EntityVectorEnv",
    "GymnasiumEnv",
    "PettingZooGame",
    "Rows",
    "StableBaselinesVecEnv",
    "export_minari",
    "import_minari",
]

_MODULES = {
    "EntityAECEnv": "entity_aec_env",
    "EntityGymnasiumEnv": "entity_gymnasium_env",
    "EntityParallelEnv": "entity_parallel_env",
    "EntityVectorEnv": "entity_vector_env",
    "GymnasiumEnv": "gymnasium_env",
    "PettingZooGame": "pettingzoo_game",
    "Rows": "observation_reader",
    "StableBaselinesVecEnv": "stable_baselines_vec_env",
    "export_minari": "minari_data",
    "import_minari": "minari_data",
}
_INSTALL = {
    "gymnasium": "pip install gymnasium",
    "minari": 'pip install "ragged-rl[data]"',
    "pettingzoo": 'pip install "ragged-rl[pettingzoo]"',
    "stable_baselines3": 'pip install "ragged-rl[sb3]"',
}


def __getattr__(name: str) -> Any:
    """Import the module of a name when it is used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _INSTALL:
            raise
        raise MissingPackageError(
            f"{name} needs the package {package!r}, which is not installed", hint=_INSTALL[package]
        ) from error
    return getattr(module, name)
