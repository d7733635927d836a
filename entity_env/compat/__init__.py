"""The names of Entity Gym 0.9: replace ``entity_gym.env`` by ``entity_env.compat`` in imports.

=============================  =======================================  =========================
Entity Gym                     ``entity_env.compat``                    in new code
=============================  =======================================  =========================
``Environment``, its spaces,   the same classes                         ``entity_env``
masks and actions
``Observation``                the same, with ``num_entities``,         ``entity_env``
                               ``id_to_index``, ``index_to_id`` and
                               ``empty()``
``env.reset_filter(space)``    the same                                 ``FeatureFilter``
``env.act_filter(a, space)``   the same                                 ``FeatureFilter``
``EnvList(create, n)``         the same, and checks all                 ``ListEnv``
``ParallelEnvList(create,      the same; n need be no multiple of p,    ``ParallelEnv``
n, p, start_method)``          and ``start_method`` has no effect
``vec.reset(space)``           the same; parts that are not in the      ``vec.reset(seed)``, and
                               space are left out                       ``VecFeatureFilter``
``vec.act(actions, space)``    the same, with **positions** among the   ``vec.act(actions)``, with
                               actees                                   **entity indices**
``VecObs``                     the same: global features are the        ``VecObs``, which also has
                               entities ``__global__``, and metrics     ``truncated``, ``final``
                               are of class ``Metric``                  and ``rows``
``batch_obs``                  the same                                 ``entity_env``
``AddMetricsWrapper(vec)``     the same                                 ``VecObs.metrics`` has them
``ValidatingEnv(env)``         the same, with an ``EntityEnvError``     ``wrappers.Validate``
``CliRunner(env, agent)``      the same                                 ``entity_env.runner``
``dataclass_utils``            the same, from here                      ``entity_env``
``ragged_buffer``              ``RaggedBufferF32``, ... from here       ``entity_env``
=============================  =======================================  =========================

In Entity Gym, a selected entity is given by its position among the actees: 0 is the first of
``actee_ids``. ``entity_env.VecEnv`` takes the index of the entity in its frame, where entities are
in the order of ``ObsSpace.entities``; ``entity_indices`` converts positions to indices.

Differences remain: choices that a mask forbids raise an error, an action whose actors have nothing
to select has no actors, and an environment's metrics are returned at the end of its episode.
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
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    RaggedBufferBool,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    extract_features,
    obs_space_from_dataclasses,
)
from entity_env.compat.add_metrics import AddMetricsWrapper
from entity_env.compat.cli_runner import Agent, CliRunner
from entity_env.compat.environment import Environment, ValidatingEnv
from entity_env.compat.indices import action_index_to_actions, entity_indices
from entity_env.compat.rows import EnvList, ParallelEnvList, VecEnv
from entity_env.compat.vec_obs import (
    Metric,
    VecActionMask,
    VecCategoricalActionMask,
    VecObs,
    VecSelectEntityActionMask,
    batch_obs,
    empty_ragged_f32,
    empty_ragged_i64,
)

__all__ = [
    "Action",
    "ActionMask",
    "ActionName",
    "ActionSpace",
    "AddMetricsWrapper",
    "Agent",
    "CategoricalAction",
    "CategoricalActionMask",
    "CategoricalActionSpace",
    "CliRunner",
    "Entity",
    "EntityID",
    "EntityName",
    "EnvList",
    "Environment",
    "GlobalCategoricalAction",
    "GlobalCategoricalActionMask",
    "GlobalCategoricalActionSpace",
    "Metric",
    "ObsSpace",
    "Observation",
    "ParallelEnvList",
    "RaggedBufferBool",
    "RaggedBufferF32",
    "RaggedBufferI64",
    "SelectEntityAction",
    "SelectEntityActionMask",
    "SelectEntityActionSpace",
    "ValidatingEnv",
    "VecActionMask",
    "VecCategoricalActionMask",
    "VecEnv",
    "VecObs",
    "VecSelectEntityActionMask",
    "action_index_to_actions",
    "batch_obs",
    "empty_ragged_f32",
    "empty_ragged_i64",
    "entity_indices",
    "extract_features",
    "obs_space_from_dataclasses",
]
