"""The comparison of a network with its saved weights, before it takes memory."""

import pytest
from support.tiny_envs import Chain, Farm
from support.trainer_envs import Foraging
from support.trainer_runs import small_config

from entity_env import GlobalCategoricalActionSpace, ObsSpace
from entity_env.errors import CheckpointError
from ppo_trainer.runs.checkpoint import network_of, save_network
from ragged_net import NetConfig, RaggedNet, RelativePosition

SPACES = {
    "chain": (Chain().obs_space(), Chain().action_space()),
    "farm": (Farm().obs_space(), Farm().action_space()),
    "foraging": (Foraging().obs_space(), Foraging().action_space()),
    "nothing": (ObsSpace(), {"go": GlobalCategoricalActionSpace(["left", "right"])}),
}
XY = {"Robot": ["x"], "Food": ["x"]}
SMALL = {"dim": 16, "layers": 2, "heads": 2}
NETS = [
    NetConfig(dim=1, layers=1, heads=1, mlp_ratio=1),
    NetConfig(**SMALL, memory="lstm", value_norm="popart"),
    NetConfig(dim=64, layers=2, heads=4),
]


@pytest.mark.parametrize("value_net", [False, True])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("spaces", SPACES.values(), ids=SPACES)
def test_a_network_fits_its_own_weights(spaces, net, value_net, tmp_path):
    config = small_config(net=net, value_net=value_net)
    tensors = RaggedNet(*spaces, net, config.value_config).state_dict()
    save_network(tmp_path / "best", tensors, {})
    network_of(tmp_path / "best", *spaces, config).load_state_dict(tensors)


@pytest.mark.parametrize("kind", ["waves", "mlp"])
def test_so_does_one_with_positions(kind, tmp_path):
    net = NetConfig(**SMALL, relative_position=RelativePosition(XY, kind=kind))
    tensors = RaggedNet(*SPACES["foraging"], net).state_dict()
    save_network(tmp_path / "best", tensors, {})
    network_of(tmp_path / "best", *SPACES["foraging"], small_config(net=net))


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 32},
        {"layers": 6},
        {"layers": 10**9},
        {"mlp_ratio": 9},
        {"dim": 10**7},
        {"dim": 10**20},
    ],
)
def test_another_network_is_refused_before_it_takes_memory(change, tmp_path):
    spaces = SPACES["farm"]
    save_network(tmp_path / "best", RaggedNet(*spaces, NetConfig(**SMALL)).state_dict(), {})
    larger = small_config(net=NetConfig(**{**SMALL, **change}))
    with pytest.raises(CheckpointError, match="another network"):
        network_of(tmp_path / "best", *spaces, larger)
