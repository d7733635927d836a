"""Networks for the weights of a checkpoint, built only after their size has been checked.

The settings and the spaces of a run determine the size of its network. A single wrong or malicious
number in them could take all memory, so they are first compared with the header of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from pathlib import Path

from entity_env import ActionSpace, ObsSpace
from entity_env.errors import CheckpointError
from entity_env.spaces import Discrete, Feature, Flags, Grid, feature_name
from ppo_trainer.config import TrainConfig
from ppo_trainer.runs.checkpoint_files import SavedFiles
from ppo_trainer.runs.tensor_file import TensorForm
from ragged_net import NetConfig, RaggedNet

__all__ = ["MODEL", "OTHER_NETWORK", "check_forms", "least_size", "network_for"]

MODEL = "model.safetensors"
OTHER_NETWORK = "net, value_net and the environment's spaces must be those of the run"
_TENSORS_OF_BLOCK = 12  # weights and biases of four Linear layers and two LayerNorms


def network_for(
    folder: Path, obs_space: ObsSpace, action_space: Mapping[str, ActionSpace], config: TrainConfig
) -> RaggedNet:
    """Return a new network of these spaces and settings, if it fits the header of the weights.

    Raises:
        CheckpointError: The network does not fit, or the checkpoint is damaged.
    """
    forms = SavedFiles.open(folder).forms(MODEL)
    tensors, numbers = least_size(obs_space, action_space, config)
    found = sum(form.size for form in forms.values())
    if tensors > len(forms) or numbers > found:
        raise CheckpointError(
            f"the settings describe a larger network than {folder / MODEL} contains",
            expected=f"at least {tensors:,} tensors with {numbers:,} numbers",
            received=f"{len(forms):,} tensors with {found:,} numbers",
            hint=OTHER_NETWORK,
        )
    return RaggedNet(obs_space, action_space, config.net, config.value_config)


def least_size(
    obs_space: ObsSpace, action_space: Mapping[str, ActionSpace], config: TrainConfig
) -> tuple[int, int]:
    """Return the least number of tensors of such a network, and of numbers in them."""
    encoders = [config.net, *([] if config.value_config is None else [config.value_config])]
    choices = sum(len(space) if isinstance(space, Sized) else 1 for space in action_space.values())
    numbers = sum(_least_numbers(net, obs_space) for net in encoders) + config.net.dim * choices
    numbers += _numbers_of_memory(config.net)
    return sum(net.layers * _TENSORS_OF_BLOCK for net in encoders), numbers


def check_forms(
    path: Path, found: Mapping[str, TensorForm], expected: Mapping[str, TensorForm]
) -> None:
    """Raise CheckpointError unless a file contains exactly the expected tensors."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found or name not in expected:
            raise CheckpointError(
                f"{path} belongs to another network",
                expected=f"{name!r} {'not ' if name in found else ''}to be there",
                hint=OTHER_NETWORK,
            )
        if found[name] != expected[name]:
            what = "shape" if found[name].shape != expected[name].shape else "dtype"
            raise CheckpointError(
                f"{path} belongs to another network: {name!r} differs in {what}",
                expected=expected[name],
                received=found[name],
                hint=OTHER_NETWORK,
            )


def _least_numbers(net: NetConfig, obs_space: ObsSpace) -> int:
    """Return the number of weights, without biases, of an encoder's blocks and embeddings."""
    of_block = (4 + 2 * net.mlp_ratio) * net.dim**2
    left_out = net.not_embedded(obs_space)
    sets = [
        obs_space.global_features,
        *(
            [own for own in entity.features if feature_name(own) not in left_out.get(name, ())]
            for name, entity in obs_space.entities.items()
            if not isinstance(entity, Grid)  # whose cells are narrower
        ),
    ]
    return net.layers * of_block + net.dim * sum(_columns(own, net) for own in sets)


def _numbers_of_memory(net: NetConfig) -> int:
    """Return the number of weights of the memory cell, without biases."""
    gates = {"none": 0, "lstm": 4, "gru": 3}[net.memory]
    return gates * net.memory_size * (net.dim + net.memory_size)


def _columns(features: Sequence[Feature], net: NetConfig) -> int:
    """Return the least number of vectors by which the features are embedded."""
    return sum(_vectors(own, net) for own in features)


def _vectors(feature: Feature, net: NetConfig) -> int:
    if not isinstance(feature, Discrete):
        return 1
    if isinstance(feature, Flags):
        return feature.count
    # A vocabulary shares one table, and concatenated tables are narrow.
    return feature.n if feature.vocabulary is None and net.discrete == "sum" else 0
