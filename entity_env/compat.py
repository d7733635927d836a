"""The names that an environment written for Entity Gym 0.9 imports.

Replace ``entity_gym.env`` by ``entity_env.compat`` in its import lines. These are the classes of
``entity_env`` itself. Entity Gym's rows, batches, wrappers and command line have other names here:
``docs/from-entity-gym.md`` lists them.
"""

from entity_env import (
    Action,
    ActionMask,
    ActionName,
    ActionSpace,
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    EntityID,
    EntityName,
    Environment,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    extract_features,
    obs_space_from_dataclasses,
)

__all__ = [
    "Action",
    "ActionMask",
    "ActionName",
    "ActionSpace",
    "CategoricalAction",
    "CategoricalActionMask",
    "CategoricalActionSpace",
    "Entity",
    "EntityID",
    "EntityName",
    "Environment",
    "GlobalCategoricalAction",
    "GlobalCategoricalActionMask",
    "GlobalCategoricalActionSpace",
    "ObsSpace",
    "Observation",
    "SelectEntityAction",
    "SelectEntityActionMask",
    "SelectEntityActionSpace",
    "extract_features",
    "obs_space_from_dataclasses",
]
