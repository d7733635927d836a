"""Checks that weights fit a network before it is built."""

import pytest
from support.tiny_envs import Chain, Farm
from support.trainer_envs import Foraging
from support.trainer_runs import small_config

from entity_env import GlobalCategoricalActionSpace, ObsSpace
from entity_env.errors import CheckpointError
from ppo_trainer.runs.checkpoint import network_of, save_network
from ppo_trainer.runs.saved_network import least_size
from ragged_net import NetConfig, RaggedNet, RelativePosition

SPACES = {
    "chain": (Chain().obs_space(), Chain().action_space()),
    "farm": (Farm().obs_space(), Farm().action_space()),
    "foraging": (Foraging().obs_space(), Foraging().action_space()),
    "nothing": (ObsSpace(), {"go": GlobalCategoricalActionSpace(["left", "right"])}),
}
NETS = [
    (NetConfig(dim=1, layers=1, heads=1, mlp_ratio=1), None),
    (NetConfig(dim=16, layers=3, heads=2, mlp_ratio=3), None),
    (own := NetConfig(dim=64, layers=2, heads=4), own),
]


@pytest.mark.parametrize("nets", NETS)
@pytest.mark.parametrize("spaces", SPACES.values(), ids=SPACES)
def test_a_network_fits_its_own_weights_and_is_not_much_larger_than_it_seems(
    spaces, nets, tmp_path
):
    config = small_config(net=nets[0], value_net=nets[1] is not None)
    net = RaggedNet(*spaces, *nets)
    tensors = net.state_dict()
    save_network(tmp_path / "best", tensors, {})
    network_of(tmp_path / "best", *spaces, config).load_state_dict(tensors)
    count, numbers = least_size(*spaces, config)
    assert count <= len(tensors)
    assert numbers <= sum(tensor.numel() for tensor in tensors.values())
    if nets[0].dim == 64:
        assert numbers > 0.6 * sum(tensor.numel() for tensor in tensors.values())


@pytest.mark.parametrize("kind", ["waves", "mlp"])
def test_what_positions_leave_out_is_not_missed(kind, tmp_path):
    position = RelativePosition({"Robot": ["x"], "Food": ["x"]}, kind=kind)
    config = small_config(net=NetConfig(dim=8, layers=1, heads=2, relative_position=position))
    tensors = RaggedNet(*SPACES["foraging"], config.net).state_dict()
    save_network(tmp_path / "best", tensors, {})
    network_of(tmp_path / "best", *SPACES["foraging"], config).load_state_dict(tensors)
    # The weights of the one block without biases, (4 + 2 * 2) * 8 * 8, those of the robots' "step"
    # and of their moves to the left, to the right and nowhere, and the query of a selection.
    assert least_size(*SPACES["foraging"], config) == (12, 8 * 64 + 8 + 8 * 4)


@pytest.mark.parametrize("change", [{"dim": 32}, {"layers": 6}, {"mlp_ratio": 9}])
def test_a_larger_network_is_refused_before_it_is_built(change, tmp_path, monkeypatch):
    spaces = SPACES["farm"]
    save_network(tmp_path / "best", RaggedNet(*spaces, NETS[1][0]).state_dict(), {})
    larger = small_config(net=NetConfig(**{**vars(NETS[1][0]), **change}))
    monkeypatch.setattr("ppo_trainer.runs.saved_network.RaggedNet", None)
    with pytest.raises(CheckpointError, match="larger network than"):
        network_of(tmp_path / "best", *spaces, larger)
