"""Compiled networks among what torch lets people do with modules: the results are plain torch's."""

import copy
from dataclasses import replace

import pytest
import torch
from net_support import ACTIONS, OBS, make_batch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.utils import prune
from torch.testing import assert_close

from entity_env.errors import BatchError
from entity_env.spaces import CategoricalActionSpace, Entity, ObsSpace
from ragged_net import (
    CategoricalActors,
    EntityBatch,
    NetConfig,
    RaggedNet,
    RaggedTensor,
    RaggedTransformer,
    kernels,
    plain_torch,
)
from ragged_net.actors import Pairs
from ragged_net.compiled.heads import select
from ragged_net.frames import Frames
from ragged_net.model.encoder import TransformerBlock

CONFIG = NetConfig(dim=32, layers=2, heads=2)
COUNTS = [2, 0, 3, 1] * 30


def make(seed=0):
    torch.manual_seed(seed)
    return RaggedNet(OBS, ACTIONS, CONFIG)


def batch_of_all():
    return make_batch(COUNTS, [n % 3 for n in COUNTS], [n % 2 for n in COUNTS])


def results(net, batch, given):
    """The value and all log-probabilities in a row, and the gradients of their sum."""
    net.zero_grad()
    out = net(batch, given=given)
    numbers = torch.cat([out.value, *(action.log_prob for action in out.actions.values())])
    numbers.sum().backward()
    return [numbers, *(p.grad for p in net.parameters() if p.grad is not None)]


def assert_as_plain(net):
    """Returns the values."""
    batch = batch_of_all()
    with torch.no_grad():
        given = {name: action.chosen.values for name, action in net(batch).actions.items()}
    found = results(net, batch, given)
    with plain_torch():
        expected = results(net, batch, given)
    for fast, slow in zip(found, expected, strict=True):
        assert_close(fast, slow, rtol=1e-4, atol=1e-4)
    return found[0][: len(COUNTS)]


@pytest.mark.parametrize("heads", [1, 8, 16, 32])
def test_a_block_with_another_number_of_heads(heads):
    # With 8 and more their widths are not the kernels': they wrote beyond their memory.
    net, before = make(), assert_as_plain(make())
    other = TransformerBlock(replace(CONFIG, heads=heads))
    other.load_state_dict(net.encoder.transformer.blocks[1].state_dict())
    net.encoder.transformer.blocks[1] = other
    assert (assert_as_plain(net) - before).abs().max() > 0.001


@pytest.mark.parametrize("rows", [0, 10, 2000])
def test_rows_that_are_not_those_of_the_frames(rows):
    frames = Frames(torch.tensor([0, 400, 1000]), 1000)
    with pytest.raises(BatchError, match="1000"):
        RaggedTransformer(CONFIG)(torch.randn(rows, 32), frames)


def test_a_mask_that_is_not_that_of_the_pairs():
    pytest.importorskip("numba")
    action = make_batch([2], [1], [1], pair_mask=True).actions["Fire"]
    pairs = Pairs.of(action)
    with pytest.raises(BatchError, match="the mask does not fit the pairs"):
        select(torch.randn(1, 8), torch.randn(3, 8), replace(pairs, mask=pairs.mask[:2]))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def a_hook(net):
    project = net.encoder.embedding.types[0].project
    project.register_forward_hook(lambda module, args, y: 2 * y)


def another_class(net):
    types = net.encoder.embedding.types[0]
    weight, types.project = types.project.weight, Doubled(2, 32, bias=False)
    types.project.weight = weight


def a_bias(net):
    types = net.encoder.embedding.types[0]
    weight, types.project = types.project.weight, nn.Linear(2, 32)
    types.project.weight = weight


def pruned(net):
    prune.random_unstructured(net.encoder.embedding.types[0].project, "weight", 0.5)


@pytest.mark.parametrize("change", [a_hook, another_class, a_bias, pruned])
def test_a_changed_projection_counts(change):
    net, before = make(), assert_as_plain(make())
    change(net)
    assert (assert_as_plain(net) - before).abs().max() > 0.001
    assert_as_plain(net)  # what is pruned is made anew at each call


def test_a_batch_of_inference_mode_can_be_learned_from():
    net = make()
    with torch.inference_mode():
        batch = batch_of_all()
        chosen = {name: action.chosen.values for name, action in net(batch).actions.items()}
    given = {name: values.clone() for name, values in chosen.items()}
    found = results(net, batch, given)
    for fast, slow in zip(found, results(net, batch_of_all(), given), strict=True):
        assert torch.equal(fast, slow)


def test_the_gradient_of_torch_func_is_that_of_autograd():
    net, batch = make(), batch_of_all()
    parameters = dict(net.named_parameters())

    def value(parameters):
        return torch.func.functional_call(copy.deepcopy(net), parameters, (batch,)).value.sum()

    found = torch.func.grad(value)(parameters)
    net.value(batch).sum().backward()
    for name, parameter in parameters.items():
        if parameter.grad is not None:
            assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-4)
    assert kernels.available() == kernels._can_compile()


def values_of(net):
    """The values of two frames as a function of the features of their three entities (3, 1)."""

    def values(features):
        rows = RaggedTensor(features, torch.tensor([0, 1, 3]))
        nobody = RaggedTensor.from_lengths(torch.zeros(0, dtype=torch.int64), [0, 0])
        actions = {"Move": CategoricalActors(nobody, torch.zeros(0, 2, dtype=torch.bool))}
        return net(EntityBatch({"Unit": rows}, torch.zeros(2, 0), actions=actions)).value

    return values


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:.torch.jit.script")
def test_torch_func_takes_every_derivative():
    torch.manual_seed(0)
    obs_space = ObsSpace(entities={"Unit": Entity(["x"])})
    actions = {"Move": CategoricalActionSpace(["left", "right"])}
    net = RaggedNet(obs_space, actions, NetConfig(dim=32, layers=1, heads=1))
    values, features = values_of(net), torch.tensor([[0.5], [-1.0], [2.0]])
    direction = torch.tensor([[1.0], [0.5], [-2.0]])
    with plain_torch():
        slopes = torch.autograd.functional.jacobian(values, features)
    along = (slopes * direction).sum((1, 2))
    assert along.abs().min() > 0.01
    assert_close(torch.func.jacrev(values)(features), slopes, rtol=1e-4, atol=1e-5)
    assert_close(torch.func.jacfwd(values)(features), slopes, rtol=1e-4, atol=1e-5)
    assert_close(torch.func.jvp(values, (features,), (direction,))[1], along, rtol=1e-4, atol=1e-5)
    with forward_ad.dual_level():
        dual = values(forward_ad.make_dual(features, direction))
        assert_close(forward_ad.unpack_dual(dual).tangent, along, rtol=1e-4, atol=1e-5)
    both = torch.stack([features, direction])
    expected = torch.stack([values(one) for one in both])
    assert_close(torch.func.vmap(values)(both), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_networks_of_several_weights_run_as_one():
    batch, nets = batch_of_all(), [make(seed) for seed in range(3)]
    given = {name: own.chosen.values for name, own in nets[0](batch).actions.items()}

    def value(parameters, buffers):
        together = parameters, buffers
        return torch.func.functional_call(nets[0], together, (batch,), {"given": given}).value

    found = torch.func.vmap(value)(*torch.func.stack_module_state(nets))
    for net, own in zip(nets, found, strict=True):
        assert_close(own, net(batch, given=given).value, rtol=1e-4, atol=1e-4)
