"""Networks under what torch has for compiling, tracing, watching, converting and averaging them."""

import math
import shutil

import pytest
import torch
from net_support import ACTIONS, LENGTHS, OBS, make_batch, make_net
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.swa_utils import AveragedModel
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from entity_env.errors import GradientError
from ragged_net import NetConfig, RaggedNet, RaggedTensor, plain_torch
from ragged_net.batch import GrowingBatch
from ragged_net.compiled.chain import NO_ROWS
from ragged_net.heads.categorical import CategoricalDist
from ragged_net.heads.value import ValueHead
from ragged_net.model.encoder import frame_means
from ragged_net.model.input_norm import InputNorm

CONFIG = NetConfig(dim=32, layers=2, heads=2)

# Tracing is deprecated, and people do it.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Converting a tensor")


def make():
    return make_net(config=CONFIG)


@pytest.mark.platforms
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_means_of_any_number_of_rows():
    def means(x, offsets):
        return frame_means(RaggedTensor.unchecked(x, offsets))

    compiled = torch.compile(means, dynamic=True)
    for rows in (1000, 1300):
        x, offsets = torch.randn(rows, 8), torch.tensor([0, 100, 100, rows])
        assert_close(compiled(x, offsets), means(x, offsets), rtol=1e-5, atol=1e-5)


def test_offsets_that_are_written_to_before_the_backward_pass_change_nothing():
    """Its kernel would read and write wherever they point to."""
    net, gradients = make(), []
    for write in (False, True):
        net.zero_grad()
        batch = make_batch(**LENGTHS)
        fire = batch.actions["Fire"]
        total = net(batch, greedy=True).actions["Fire"].log_prob.sum()
        if write:
            fire.actors.offsets.zero_()
            fire.actees.offsets.numpy()[1:] = 10**6
        total.backward()
        gradients.append(net.heads[1].query.weight.grad.clone())
    assert gradients[0].abs().sum() > 0
    assert torch.equal(*gradients)


def test_a_graph_of_one_network_leaves_others_alone():
    net, frozen, batch = make(), make().requires_grad_(False), make_batch(**LENGTHS)
    weight = net.encoder.mix.linear.weight
    torch.autograd.grad(net(batch).value.sum(), weight, create_graph=True)
    assert not NO_ROWS.requires_grad
    assert not frozen(batch).value.requires_grad


def test_several_gradients_at_once_are_refused_with_words():
    net, batch = make(), make_batch(**LENGTHS)
    value, weight = net(batch).value, net.encoder.mix.linear.weight
    with pytest.raises(GradientError, match="one gradient at a time"):
        torch.autograd.grad(value, weight, torch.eye(len(value)), is_grads_batched=True)


def test_a_hook_on_all_modules_sees_all_of_them():
    net, batch, seen = make(), make_batch(**LENGTHS), []

    def count():
        seen.clear()
        net(batch)
        return len(seen)

    hook = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        found = count()
        with plain_torch():
            assert found == count() > 10
    finally:
        hook.remove()


def test_a_traced_head_computes_what_the_head_does():
    head, means = ValueHead(32), torch.randn(7, 32)
    with torch.no_grad():
        traced = torch.jit.trace(head, torch.randn(5, 32))
        assert_close(traced(means), head(means))


def test_operations_are_counted():
    net, batch = make(), make_batch(**LENGTHS)
    with FlopCounterMode(display=False) as counter:
        net(batch)
    with plain_torch(), FlopCounterMode(display=False) as expected:
        net(batch)
    assert counter.get_total_flops() == expected.get_total_flops() > 10_000


def test_fake_tensors_have_no_numbers():
    with FakeTensorMode():
        assert ValueHead(32)(torch.randn(4, 32)).shape == (4,)


@pytest.mark.parametrize("name", ["mix.linear", "mix.activation", "transformer.blocks.0.qkv"])
def test_any_layer_may_be_wrapped(name):
    net, batch = make(), make_batch(**LENGTHS)
    expected = net(batch, greedy=True).value
    parent, _, last = name.rpartition(".")
    parent = net.encoder.get_submodule(parent)
    setattr(parent, last, nn.Sequential(getattr(parent, last)))  # without a weight of its own
    assert_close(net(batch, greedy=True).value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16, nn.Module.double])
def test_statistics_stay_exact_whatever_the_network_is_converted_to(convert):
    norm = InputNorm(["x"])
    norm.update(torch.full((70_000, 1), 1e5) + torch.randn(70_000, 1))
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    convert(norm).float()
    for name, value in norm.state_dict().items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])


def test_a_network_made_without_memory_takes_a_state():
    source, batch = make(), make_batch(**LENGTHS)
    source.update_statistics(batch)
    with torch.device("meta"):
        net = RaggedNet(OBS, ACTIONS, CONFIG)
    net.load_state_dict(source.state_dict(), assign=True)
    assert torch.equal(net(batch, greedy=True).value, source(batch, greedy=True).value)
    net.update_statistics(batch)


def test_buffers_are_averaged_too():
    net, batch = make(), make_batch(**LENGTHS)
    averaged = AveragedModel(net, use_buffers=True)
    for _ in range(3):
        averaged.update_parameters(net)
    found = averaged(batch, greedy=True).value
    assert_close(found, net(batch, greedy=True).value, rtol=1e-5, atol=1e-5)
    averaged.module.update_statistics(batch)


def test_a_batch_that_began_to_grow_in_inference_mode_goes_on_outside():
    grown, batch = GrowingBatch(), make_batch(**LENGTHS)
    with torch.inference_mode():
        grown.add(batch)
    for _ in range(2):  # with room left, and without
        grown.add(batch)
    assert grown.all().num_frames == 3 * batch.num_frames


def test_defaults_of_torch_for_new_tensors_change_nothing():
    net, batch = make(), make_batch(**LENGTHS | {"robots": [0] * 5})
    with plain_torch(), torch.device("meta"):
        assert net(batch).value.device.type == "cpu"
    torch.set_default_dtype(torch.float64)
    try:
        nobody = net(batch).actions["Move"]
    finally:
        torch.set_default_dtype(torch.float32)
    assert {nobody.log_prob.dtype, nobody.entropy.dtype, nobody.probs.dtype} == {torch.float32}


def test_an_actor_that_diverges_draws_what_it_may():
    mask = torch.tensor([[False, True, False], [True, False, True]])
    logits = torch.tensor([[math.nan] * 3, [0.0, math.nan, 1.0]])
    with plain_torch():
        for greedy in (False, True):
            for _ in range(20):
                drawn = CategoricalDist(logits, mask).choose(None, None, greedy).chosen
                assert mask[torch.arange(2), drawn].all()
    assert drawn[1] == 2
