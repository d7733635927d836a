"""The encoder as one compiled chain, and where its modules run one by one."""

import copy
import weakref

import pytest
import torch
from net_support import GLOBAL_OBS, make_batch
from torch import nn
from torch.nn.utils import prune

pytest.importorskip("numba")

from entity_env.errors import BatchError
from ragged_net import Layout, NetConfig
from ragged_net.compiled.chain import NO_ROWS, ReluLinear, chain
from ragged_net.model.encoder import Encoder

NAMES = tuple(GLOBAL_OBS.entities)


def encoder(**changes):
    torch.manual_seed(0)
    made = Encoder(GLOBAL_OBS, True, NetConfig(**{"dim": 32, "layers": 2, "heads": 2} | changes))
    for parameter in made.parameters():  # biases and gains that matter
        nn.init.normal_(parameter, std=0.3)
    return made


def batch():
    made = make_batch([5, 0, 0, 3] * 6, [1, 2, 0, 1] * 6, [0, 1, 0, 0] * 6, with_global=True)
    return made, Layout.of(made, True, NAMES)


def rows_of(made, frames, layout, hidden=None):
    """The vectors of all entities."""
    return made(frames, layout, hidden, [torch.arange(layout.num_rows)]).rows[0]


def run(made, hidden=None):
    """The rows and all gradients."""
    rows = rows_of(made, *batch(), hidden)
    change = torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad(rows, list(made.parameters()), change)
    return [rows, *gradients]


def last_layers(rows):
    """Return the layers that ran as one operation; none if torch ran the modules."""
    node = rows.grad_fn
    while node is not None and type(node).__name__ in ("CloneBackward0", "SplitWithSizesBackward0"):
        node = node.next_functions[0][0]
    return getattr(node, "layers", [])


def is_chain(made):
    return len(last_layers(rows_of(made, *batch()))) > 1


@pytest.mark.parametrize("masked", [False, True])
def test_a_chain_is_its_modules_one_by_one(monkeypatch, masked):
    made = encoder()
    hidden = torch.arange(batch()[1].num_rows) % 3 == 0 if masked else None
    assert is_chain(made)
    together = run(made, hidden)
    with torch.no_grad():
        assert torch.equal(rows_of(made, *batch(), hidden), together[0])
    monkeypatch.setattr(Encoder, "_may_chain", lambda *_: False)
    for a, b in zip(together, run(made, hidden), strict=True):
        torch.testing.assert_close(
            a, b, rtol=0, atol=1e-5 * max(1.0, float(b.detach().abs().max()))
        )


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("name", ["embedding", "mix", "transformer", "transformer.blocks.1"])
@pytest.mark.parametrize(
    "register",
    ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"],
)
def test_hooks_see_the_modules_that_they_are_on(name, register):
    made, seen = encoder(), []
    expected = run(made)
    handle = getattr(made.get_submodule(name), register)(lambda *_: seen.append(name))
    if register == "register_full_backward_hook":
        with torch.enable_grad():
            run(made)
    else:
        run(made)
    assert seen
    handle.remove()
    assert is_chain(made)
    assert all(torch.equal(a, b) for a, b in zip(run(made), expected, strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "mix.activation",
        "mix.linear",
        "embedding.types.1",
        "embedding.types.1.norm",
        "embedding.types.1.project",
        "embedding.types.1.tables.0",
        "embedding.global_type",
        "norm",
        "transformer.blocks.0.qkv",
        "transformer.blocks.0.mlp",
        "transformer.blocks.0.mlp.1",
        "transformer.blocks.0.mlp.2",
    ],
)
def test_hooks_see_what_is_inside_of_modules(name):
    made, seen = encoder(), []
    expected = run(made)
    module = made.get_submodule(name)
    with_hook = module.register_forward_hook(lambda *_: seen.append(name))
    rows = run(made)
    assert seen
    assert not is_chain(made)
    with_hook.remove()
    assert is_chain(made)
    for a, b in zip(rows, expected, strict=True):
        largest = max(1.0, float(b.detach().abs().max()))
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5 * largest)


def test_an_mlp_of_another_size_is_run_and_of_no_size_refused():
    made = encoder()
    mlp = made.transformer.blocks[0].mlp
    mlp[0], mlp[2] = nn.Linear(32, 100), nn.Linear(100, 32)  # the kernels take multiples of 32
    assert not is_chain(made)
    rows_of(made, *batch())
    mlp[0], mlp[2] = nn.Linear(32, 96), nn.Linear(96, 32)
    assert is_chain(made)
    mlp[2] = nn.Linear(64, 32)
    with pytest.raises(BatchError, match="the weights of a layer do not fit its rows"):
        rows_of(made, *batch())


def test_arrays_over_weights_follow_the_weights(tmp_path):
    made = encoder()
    fresh = lambda net: rows_of(encoder_like(net), *batch())  # noqa: E731
    rows = lambda net: rows_of(net, *batch())  # noqa: E731

    def encoder_like(net):
        other = encoder()
        other.load_state_dict(net.state_dict())
        return other

    before = rows(made)
    state = {name: tensor + 0.1 for name, tensor in made.state_dict().items()}
    for assign in (False, True):
        copied = copy.deepcopy(made)
        rows(copied)
        copied.load_state_dict(state, assign=assign)
        assert not torch.equal(rows(copied), before)
        assert torch.equal(rows(copied), fresh(copied))
    assert torch.equal(rows(made), before)

    linear = made.mix.linear
    linear.weight.data = linear.weight.data.t()  # the same memory, read another way
    assert torch.equal(rows(made), fresh(made))
    assert all(torch.equal(a, b) for a, b in zip(run(made), run(encoder_like(made)), strict=True))
    linear.weight.data = linear.weight.data.clone() * 2
    assert torch.equal(rows(made), fresh(made))
    made.mix.linear = nn.Linear(32, 32)
    assert torch.equal(rows(made), fresh(made))

    torch.save(made, tmp_path / "net.pt")
    loaded = torch.load(tmp_path / "net.pt", weights_only=False)
    assert torch.equal(rows(loaded), rows(made))
    made.double().float()
    assert torch.equal(rows(made), fresh(made))


@pytest.mark.parametrize("name", ["mix", "norm", "transformer.blocks.0"])
def test_a_module_that_somebody_put_there_is_used(name):
    class Zero(nn.Module):
        def forward(self, x, *_):
            return 0 * x

    made = encoder()
    made.set_submodule(name, Zero())
    rows = rows_of(made, *batch())
    assert not is_chain(made)
    if name == "norm":
        assert not rows.any()


@pytest.mark.parametrize("changes", [{"dim": 48}, {"heads": 8}, {"attention": "grouped"}])
def test_what_the_kernels_cannot_do_runs_in_torch(changes):
    assert not is_chain(encoder(**changes))


def test_backward_twice_where_the_graph_is_retained():
    made = encoder()
    total = rows_of(made, *batch()).square().sum()
    first = torch.autograd.grad(total, made.mix.linear.weight, retain_graph=True)
    assert torch.equal(first[0], torch.autograd.grad(total, made.mix.linear.weight)[0])
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(total, made.mix.linear.weight)


def test_weights_that_changed_before_the_backward_pass_are_noticed():
    made = encoder()
    total = rows_of(made, *batch()).sum()
    with torch.no_grad():
        made.mix.linear.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_statistics_may_move_between_forward_and_backward():
    made, (frames, layout) = encoder(), batch()
    made.embedding.update_statistics(frames)
    weight = made.embedding.types[0].project.weight
    expected, rows = (rows_of(made, frames, layout) for _ in range(2))
    (gradient,) = torch.autograd.grad(expected.square().sum(), weight)
    made.embedding.update_statistics(make_batch([9], [3], [1], with_global=True))
    assert torch.equal(torch.autograd.grad(rows.square().sum(), weight)[0], gradient)


def test_without_gradients_no_layer_keeps_the_rows_before_it():
    alive = []

    class Watched(ReluLinear):
        def forward(self, x, weights, keep):
            alive.append(sum(row() is not None for row in rows))
            y, kept = super().forward(x, weights, keep)
            rows.append(weakref.ref(y))
            return y, kept

    linear, rows = nn.Linear(32, 32), []
    layers = [Watched([*linear.parameters()]) for _ in range(4)]
    with torch.no_grad():
        chain(layers, torch.randn(5, 32))
    assert max(alive) <= 1
    assert len(NO_ROWS) == 0


def test_weights_that_were_registered_in_another_order_or_not_at_all():
    made = encoder()
    expected = rows_of(made, *batch())
    for module in (made.norm, made.mix.linear, made.transformer.blocks[0].qkv):
        prune.remove(prune.identity(module, "weight"), "weight")
        assert list(dict(module.named_parameters())) == ["bias", "weight"]
    assert is_chain(made)
    assert torch.equal(rows_of(made, *batch()), expected)
    weight = made.mix.linear.weight.detach().clone().requires_grad_()
    del made.mix.linear.weight
    made.mix.linear.weight = weight  # no parameter, but learned by somebody
    assert not is_chain(made)
    rows_of(made, *batch()).sum().backward()
    assert weight.grad.any()


def test_a_norm_with_another_epsilon_runs_in_torch():
    made = encoder()
    made.norm.eps = 1.0
    assert not is_chain(made)


def test_a_forward_that_somebody_put_there_is_called():
    made = encoder()
    made.mix.forward = lambda x: 0 * x
    assert not is_chain(made)


def test_nothing_is_kept_of_layers_before_the_first_that_learns():
    made = encoder()
    expected = dict(zip(dict(made.named_parameters()), run(made)[1:], strict=True))
    made.requires_grad_(False)
    assert not rows_of(made, *batch()).requires_grad
    made.transformer.blocks[1].out.requires_grad_(True)
    rows = rows_of(made, *batch())
    assert [type(layer).__name__ for layer in last_layers(rows)] == ["Block", "Norm"]
    rows.backward(torch.randn(rows.shape, generator=torch.Generator().manual_seed(1)))
    for name, parameter in made.named_parameters():
        if name.startswith("transformer.blocks.1.out"):
            assert torch.equal(parameter.grad, expected[name])
        else:
            assert parameter.grad is None


def test_the_default_device_does_not_matter():
    made = encoder()
    frames, layout = batch()
    expected = rows_of(made, frames, layout)
    asked = [torch.arange(layout.num_rows)]
    with torch.device("meta"):
        assert torch.equal(made(frames, layout, None, asked).rows[0], expected)
