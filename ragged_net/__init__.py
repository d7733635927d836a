"""A transformer on lists of entities: ragged batch -> actions, log-probabilities and values.

Takes tensors only, so it works in any codebase that can fill an ``EntityBatch``::

    net = RaggedNet(obs_space, action_space, NetConfig(dim=64, layers=2))
    net.update_statistics(batch)
    output = net(batch)
    output.actions["Move"].chosen.values, output.actions["Move"].log_prob, output.value
"""

from ragged_net.actors import CategoricalActors, ContinuousActors, Pairs, SelectActors
from ragged_net.adopt import Adopted, adopt
from ragged_net.batch import EntityBatch, GrowingBatch
from ragged_net.config import NetConfig
from ragged_net.frames import Frames
from ragged_net.heads.categorical import CategoricalHead
from ragged_net.heads.continuous import ContinuousHead
from ragged_net.heads.kind import ActionOutput
from ragged_net.heads.select_entity import SelectEntityHead
from ragged_net.heads.value import ValueHead
from ragged_net.kernels import plain_torch
from ragged_net.kernels.threads import get_threads, set_threads
from ragged_net.layout import Layout
from ragged_net.model.attention import ragged_attention
from ragged_net.model.embedding import EntityEmbedding
from ragged_net.model.encoder import RaggedTransformer, frame_means
from ragged_net.model.input_norm import InputNorm
from ragged_net.model.memory import Memory
from ragged_net.network import NetOutput, RaggedNet
from ragged_net.position_config import RelativePosition, Translation
from ragged_net.ragged import RaggedTensor

__all__ = [
    "ActionOutput",
    "Adopted",
    "CategoricalActors",
    "CategoricalHead",
    "ContinuousActors",
    "ContinuousHead",
    "EntityBatch",
    "EntityEmbedding",
    "Frames",
    "GrowingBatch",
    "InputNorm",
    "Layout",
    "Memory",
    "NetConfig",
    "NetOutput",
    "Pairs",
    "RaggedNet",
    "RaggedTensor",
    "RaggedTransformer",
    "RelativePosition",
    "SelectActors",
    "SelectEntityHead",
    "Translation",
    "ValueHead",
    "adopt",
    "frame_means",
    "get_threads",
    "plain_torch",
    "ragged_attention",
    "set_threads",
]
