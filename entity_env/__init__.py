"""Environments whose observations are lists of entities.

An ``Environment`` returns an ``Observation`` (lists of entities by type, and action masks).
``ListEnv`` and ``ParallelEnv`` pack the observations of many environments into ragged buffers, a
``VecObs``; ``AsyncEnv`` packs those of the environments that are ready first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from entity_env.actions import (
    Action,
    CategoricalAction,
    ContinuousAction,
    GlobalCategoricalAction,
    GlobalContinuousAction,
    SelectEntitiesAction,
    SelectEntityAction,
)
from entity_env.agent import Agent, RandomAgent
from entity_env.batching.ragged import RaggedBufferBool, RaggedBufferF32, RaggedBufferI64
from entity_env.batching.vec_obs import (
    VecActionMask,
    VecCategoricalActionMask,
    VecContinuousActionMask,
    VecObs,
    VecSelectEntityActionMask,
    batch_obs,
)
from entity_env.drawing import Drawer
from entity_env.environment import Environment
from entity_env.errors import EntityEnvError
from entity_env.metrics import Metric
from entity_env.multi_player import MultiPlayerEnvironment
from entity_env.objects.dataclass_spaces import obs_space_from_dataclasses
from entity_env.objects.feature_extraction import extract_features, extract_global_features
from entity_env.observation import (
    ActionMask,
    CategoricalActionMask,
    ContinuousActionMask,
    EntityID,
    GlobalCategoricalActionMask,
    GlobalContinuousActionMask,
    Observation,
    SelectEntityActionMask,
)
from entity_env.registry import make, register, registered
from entity_env.rows.list_env import ListEnv
from entity_env.rows.vec_env import VecEnv
from entity_env.scripted_agent import ScriptedAgent
from entity_env.seats.masked import MaskedEnvironment
from entity_env.seats.seat_rows import SeatRows
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    CategoricalActionSpace,
    Continuous,
    ContinuousActionSpace,
    Discrete,
    Entity,
    EntityName,
    Feature,
    Flags,
    GlobalCategoricalActionSpace,
    GlobalContinuousActionSpace,
    Grid,
    ObsSpace,
    Position,
    SelectEntitiesActionSpace,
    SelectEntityActionSpace,
)
from entity_env.workers.async_env import AsyncEnv
from entity_env.workers.parallel_env import ParallelEnv

if TYPE_CHECKING:
    from entity_env.check import check_env

__all__ = [
    "Action",
    "ActionMask",
    "ActionName",
    "ActionSpace",
    "Agent",
    "AsyncEnv",
    "CategoricalAction",
    "CategoricalActionMask",
    "CategoricalActionSpace",
    "Continuous",
    "ContinuousAction",
    "ContinuousActionMask",
    "ContinuousActionSpace",
    "Discrete",
    "Drawer",
    "Entity",
    "EntityEnvError",
    "EntityID",
    "EntityName",
    "Environment",
    "Feature",
    "Flags",
    "GlobalCategoricalAction",
    "GlobalCategoricalActionMask",
    "GlobalCategoricalActionSpace",
    "GlobalContinuousAction",
    "GlobalContinuousActionMask",
    "GlobalContinuousActionSpace",
    "Grid",
    "ListEnv",
    "MaskedEnvironment",
    "Metric",
    "MultiPlayerEnvironment",
    "ObsSpace",
    "Observation",
    "ParallelEnv",
    "Position",
    "RaggedBufferBool",
    "RaggedBufferF32",
    "RaggedBufferI64",
    "RandomAgent",
    "ScriptedAgent",
    "SeatRows",
    "SelectEntitiesAction",
    "SelectEntitiesActionSpace",
    "SelectEntityAction",
    "SelectEntityActionMask",
    "SelectEntityActionSpace",
    "VecActionMask",
    "VecCategoricalActionMask",
    "VecContinuousActionMask",
    "VecEnv",
    "VecObs",
    "VecSelectEntityActionMask",
    "batch_obs",
    "check_env",
    "extract_features",
    "extract_global_features",
    "make",
    "obs_space_from_dataclasses",
    "register",
    "registered",
]


def __getattr__(name: str) -> Any:
    """Import ``check_env`` when it is used; ``python -m entity_env.check`` needs it only once."""
    if name == "check_env":
        from entity_env.check import check_env

        return check_env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
